//! Records, process facts and changes of what is watched, put in order.
//!
//! What `/proc` says at a time holds after all older records: were it given out ahead of the
//! fork or exec that it is about, these would undo it.

use std::collections::VecDeque;

use analyzer::RdmaAddress;
use analyzer::input::{Input, Loss};
use analyzer::sequencer::{DEFAULT_LATENESS_BOUND_NS, DEFAULT_MAX_HELD_RECORDS, Sequenced, Sequencer};
use analyzer::wire::RawRecord;

use super::recorder::Recorder;

/// What waits for older records.
pub(super) struct Order {
    sequencer: Sequencer,
    facts: PendingFacts,
}

impl Order {
    pub(super) fn new() -> Self {
        Self {
            sequencer: Sequencer::new(DEFAULT_LATENESS_BOUND_NS, DEFAULT_MAX_HELD_RECORDS),
            facts: PendingFacts::default(),
        }
    }

    /// Records of a ring of a slot, as they came.
    pub(super) fn records(&mut self, slot: u32, records: Vec<RawRecord>) {
        self.sequencer.push(slot as u16, records);
    }

    /// Room that records had which were passed on, a piece at a time.
    pub(super) fn take_spare(&mut self) -> Option<Vec<RawRecord>> {
        self.sequencer.take_spare()
    }

    /// Probes for RDMA verbs are there from a moment on; addresses of this machine.
    pub(super) fn begin_queue_pairs(&mut self, time_ns: u64, addresses: Vec<RdmaAddress>) {
        self.sequencer.begin_queue_pairs(time_ns, addresses);
    }

    /// Records of a process were lost.
    pub(super) fn lose_queue_pairs(&mut self, loss: &Loss) {
        self.sequencer.lose_queue_pairs(Some(loss.pid), loss.to_ns);
    }

    /// What was found out at a time; later calls have later times.
    pub(super) fn fact(&mut self, time_ns: u64, fact: Input) {
        match &fact {
            Input::Loss(loss) => self.lose_queue_pairs(loss),
            Input::Coverage(_) => self.sequencer.lose_queue_pairs(None, time_ns),
            _ => {}
        }
        self.facts.0.push_back((time_ns, fact));
    }

    /// Passes on what nothing can come ahead of: all records from before `begin_ns` are there.
    pub(super) fn advance(&mut self, begin_ns: u64, recorder: &mut Recorder) {
        let Self { sequencer, facts } = self;
        sequencer.advance(begin_ns, |next| facts.push_with(next, recorder));
        facts.push_until(sequencer.horizon_ns(), recorder);
    }

    /// Passes on the rest.
    pub(super) fn finish(&mut self, recorder: &mut Recorder) {
        let Self { sequencer, facts } = self;
        sequencer.finish(|next| facts.push_with(next, recorder));
        facts.push_until(u64::MAX, recorder);
    }

    /// Records that came too late to be put in order.
    pub(super) fn late_records(&self) -> u64 {
        self.sequencer.late_records()
    }
}

/// Inputs that wait for older records, each with its time.
#[derive(Default)]
struct PendingFacts(VecDeque<(u64, Input)>);

impl PendingFacts {
    /// Passes on a record, and before it the facts that are older.
    fn push_with(&mut self, next: Sequenced<'_>, recorder: &mut Recorder) {
        match next {
            Sequenced::Record(record) => {
                self.push_until(record.time_ns(), recorder);
                recorder.push_record(record);
            }
            Sequenced::Input(input) => {
                if let Input::Record(record) | Input::LateRecord(record) = &input {
                    self.push_until(record.time_ns(), recorder);
                }
                recorder.push(input);
            }
        }
    }

    /// Passes on the facts up to a time.
    fn push_until(&mut self, time_ns: u64, recorder: &mut Recorder) {
        while let Some(facts) = self.0.pop_front_if(|(of_ns, _)| *of_ns <= time_ns) {
            recorder.push(facts.1);
        }
    }
}
