//! Times without watching in place of measured ones, for whoever writes a job down. What is told of waits until its time is
//! known, which takes as long as the correction looks back.

use std::collections::VecDeque;

use analyzer::calls::CallRow;
use analyzer::input::ClockReading;
use analyzer::messages::{CallCommunicator, CallId, ShownArgument};
use analyzer::timeline::correction::bounds::Bounds;
use analyzer::timeline::correction::solver::SolvedCall;
use analyzer::timeline::correction::waits::Moment;
use analyzer::timeline::kept_map::KeptMap;
use anyhow::Result;
use rustc_hash::FxHashMap;

use super::exported::{
    CallParts, ExportCounts, ExportedCall, ExportedFinding, ExportedGap, ExportedMessage, ExportedMovement,
    ExportedSession, Exporter, Reception,
};

/// Calls whose times are remembered for their messages.
const MOST_REMEMBERED: usize = 1 << 18;

/// A call whose times are not known yet.
#[derive(Debug)]
struct WaitingCall {
    id: CallId,
    pid: u32,
    row: &'static CallRow,
    arguments: Vec<(&'static str, ShownArgument)>,
    place: Option<String>,
    communicator: Option<CallCommunicator>,
    root: Option<i32>,
    collective_bytes: Option<u64>,
    parts: CallParts,
}

impl WaitingCall {
    fn of(call: &ExportedCall<'_>) -> Self {
        Self {
            id: call.id,
            pid: call.pid,
            row: call.row,
            arguments: call.arguments.to_vec(),
            place: call.place.map(str::to_owned),
            communicator: call.communicator.cloned(),
            root: call.root,
            collective_bytes: call.collective_bytes,
            parts: call.parts.clone(),
        }
    }

    fn at(&self, begin_ns: u64, end_ns: Option<u64>, error_ns: [u64; 2]) -> ExportedCall<'_> {
        ExportedCall {
            id: self.id,
            pid: self.pid,
            row: self.row,
            begin_ns,
            end_ns,
            error_ns: Some(error_ns),
            arguments: &self.arguments,
            place: self.place.as_deref(),
            communicator: self.communicator.as_ref(),
            root: self.root,
            collective_bytes: self.collective_bytes,
            parts: &self.parts,
        }
    }
}

/// A thread of a rank.
#[derive(Debug, Default)]
struct WrittenThread {
    /// Its calls whose times are not known yet, in order.
    waiting: VecDeque<WaitingCall>,
    /// Number of the last call whose times are known.
    solved: Option<u32>,
    /// Nothing that is still to be written of it is earlier.
    last_ns: u64,
}

/// See the [module](self). It has no place for movements of data, which are at no call, nor for other clocks than the one that
/// the times are of.
pub struct CorrectedExport {
    inner: Box<dyn Exporter>,
    /// By rank and thread.
    threads: FxHashMap<(u32, u32), WrittenThread>,
    /// When calls began and ended.
    times: KeptMap<CallId, (u64, u64)>,
    /// By the calls whose times they wait for.
    messages: FxHashMap<CallId, Vec<ExportedMessage>>,
    /// By process, and of all: what times are shifted by now.
    shifts: FxHashMap<u32, Bounds>,
    shift: Bounds,
}

impl CorrectedExport {
    /// What is written down by another.
    pub fn new(inner: Box<dyn Exporter>) -> Self {
        Self {
            inner,
            threads: FxHashMap::default(),
            times: KeptMap::new(MOST_REMEMBERED),
            messages: FxHashMap::default(),
            shifts: FxHashMap::default(),
            shift: Bounds::default(),
        }
    }

    fn tell(
        &mut self,
        session: &ExportedSession<'_>,
        call: &WaitingCall,
        begin: Moment,
        end: Option<Moment>,
    ) -> Result<()> {
        let thread = self.threads.entry((call.id.rank, call.id.tid)).or_default();
        let begin_ns = corrected_ns(begin).max(thread.last_ns);
        let end_ns = end.map(|end| corrected_ns(end).max(begin_ns));
        thread.last_ns = end_ns.unwrap_or(begin_ns);
        let errors_ns = [begin, end.unwrap_or(begin)].map(|moment| error_ns(moment.shift));
        self.inner.call(session, &call.at(begin_ns, end_ns, errors_ns))?;
        *self.times.entry(call.id, Default::default).0 = (begin_ns, end_ns.unwrap_or(begin_ns));
        self.go_on_with(session, call.id)
    }

    /// The times of a call are known, or never will be.
    fn go_on_with(&mut self, session: &ExportedSession<'_>, call: CallId) -> Result<()> {
        let messages = self.messages.remove(&call).unwrap_or_default();
        messages.iter().try_for_each(|message| self.message(session, message))
    }

    /// Whether the times of a call will come. Of each thread they come in order.
    fn is_to_come(&self, call: CallId) -> bool {
        let thread = self.threads.get(&(call.rank, call.tid));
        thread.and_then(|thread| thread.solved).is_none_or(|last| last < call.number)
    }

    /// A message whose receive is over at a time that is known.
    fn tell_message(&mut self, session: &ExportedSession<'_>, message: ExportedMessage) -> Result<()> {
        let mut times = |call| self.times.get_mut(call).copied();
        let sent_ns = times(message.send.call).map(|(begin_ns, _)| begin_ns);
        let received = message.received.and_then(|received| {
            let (_, time_ns) = times(received.by)?;
            Some(Reception { time_ns: time_ns.max(sent_ns.unwrap_or(0)), ..received })
        });
        self.inner.message(session, &ExportedMessage { sent_ns, received, ..message })
    }
}

fn corrected_ns(moment: Moment) -> u64 {
    shifted_ns(moment.at_ns, moment.shift)
}

fn shifted_ns(at_ns: u64, shift: Bounds) -> u64 {
    at_ns.saturating_add_signed(shift.likely_ns.round() as i64)
}

/// How far the likely time may be off.
fn error_ns(shift: Bounds) -> u64 {
    (shift.likely_ns - shift.least_ns).max(shift.most_ns - shift.likely_ns).max(0.0).ceil() as u64
}

impl Exporter for CorrectedExport {
    fn session(&mut self, session: &ExportedSession<'_>) -> Result<()> {
        self.inner.session(session)
    }

    fn clock(&mut self, _: &ClockReading) -> Result<()> {
        Ok(())
    }

    fn call(&mut self, _: &ExportedSession<'_>, call: &ExportedCall<'_>) -> Result<()> {
        let thread = self.threads.entry((call.id.rank, call.id.tid)).or_default();
        thread.waiting.push_back(WaitingCall::of(call));
        Ok(())
    }

    fn solved(&mut self, session: &ExportedSession<'_>, solved: &SolvedCall) -> Result<()> {
        let SolvedCall { step, begin, end, .. } = solved;
        self.shift = end.shift;
        self.shifts.insert(step.pid, end.shift);
        let thread = self.threads.entry((step.id.rank, step.id.tid)).or_default();
        thread.solved = Some(step.id.number);
        match thread.waiting.pop_front_if(|call| call.id == step.id) {
            Some(call) => self.tell(session, &call, *begin, step.end_ns.map(|_| *end)),
            // Calls of ranks that nobody wants are solved as well.
            None => self.go_on_with(session, step.id),
        }
    }

    fn message(&mut self, session: &ExportedSession<'_>, message: &ExportedMessage) -> Result<()> {
        let calls = [message.received.map(|received| received.by), Some(message.send.call)];
        match calls.into_iter().flatten().find(|call| self.is_to_come(*call)) {
            Some(call) => {
                self.messages.entry(call).or_default().push(*message);
                Ok(())
            }
            None => self.tell_message(session, *message),
        }
    }

    fn movement(&mut self, _: &ExportedSession<'_>, _: &ExportedMovement<'_>) -> Result<()> {
        Ok(())
    }

    fn gap(&mut self, session: &ExportedSession<'_>, gap: &ExportedGap) -> Result<()> {
        let shift = gap.pid.and_then(|pid| self.shifts.get(&pid)).copied().unwrap_or(self.shift);
        let from_ns = shifted_ns(gap.from_ns, shift);
        let to_ns = gap.to_ns.map(|to_ns| shifted_ns(to_ns, shift));
        self.inner.gap(session, &ExportedGap { from_ns, to_ns, ..*gap })
    }

    fn finding(&mut self, finding: &ExportedFinding<'_>) -> Result<()> {
        let raised_ns = shifted_ns(finding.raised_ns, self.shift);
        self.inner.finding(&ExportedFinding { raised_ns, ..*finding })
    }

    fn finish(&mut self, session: &ExportedSession<'_>) -> Result<()> {
        let left: Vec<ExportedMessage> = self.messages.drain().flat_map(|(_, left)| left).collect();
        left.into_iter().try_for_each(|message| self.tell_message(session, message))?;
        self.inner.finish(session)
    }

    fn counts(&self) -> ExportCounts {
        self.inner.counts()
    }

    fn takes_movements(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use analyzer::calls::row;
    use analyzer::input::Start;
    use analyzer::messages::MessageId;
    use analyzer::timeline::correction::call_step::{CallKind, CollectiveShape, TimedCall};
    use analyzer::timeline::correction::ledger::CallCosts;

    use super::*;

    /// What it was told of calls and messages: rank, begin, end, error; when sent and received.
    #[derive(Clone, Debug, Default, PartialEq)]
    struct Written {
        calls: Vec<(u32, u64, Option<u64>, [u64; 2])>,
        messages: Vec<(Option<u64>, Option<u64>)>,
        gaps: Vec<(u64, Option<u64>)>,
    }

    struct Notebook(Rc<RefCell<Written>>);

    impl Exporter for Notebook {
        fn session(&mut self, _: &ExportedSession<'_>) -> Result<()> {
            Ok(())
        }

        fn clock(&mut self, _: &ClockReading) -> Result<()> {
            Ok(())
        }

        fn call(&mut self, _: &ExportedSession<'_>, call: &ExportedCall<'_>) -> Result<()> {
            let errors = call.error_ns.expect("it is corrected");
            self.0.borrow_mut().calls.push((call.id.rank, call.begin_ns, call.end_ns, errors));
            Ok(())
        }

        fn message(&mut self, _: &ExportedSession<'_>, message: &ExportedMessage) -> Result<()> {
            let received_ns = message.received.map(|received| received.time_ns);
            self.0.borrow_mut().messages.push((message.sent_ns, received_ns));
            Ok(())
        }

        fn movement(&mut self, _: &ExportedSession<'_>, _: &ExportedMovement<'_>) -> Result<()> {
            unreachable!("it has none")
        }

        fn gap(&mut self, _: &ExportedSession<'_>, gap: &ExportedGap) -> Result<()> {
            self.0.borrow_mut().gaps.push((gap.from_ns, gap.to_ns));
            Ok(())
        }

        fn finding(&mut self, _: &ExportedFinding<'_>) -> Result<()> {
            Ok(())
        }

        fn finish(&mut self, _: &ExportedSession<'_>) -> Result<()> {
            Ok(())
        }

        fn counts(&self) -> ExportCounts {
            ExportCounts::default()
        }
    }

    fn id(rank: u32, number: u32) -> CallId {
        CallId { rank, tid: 10 + rank, number }
    }

    fn solved(id: CallId, begin: (u64, f64), end: (u64, f64)) -> SolvedCall {
        let moment = |(at_ns, likely_ns): (u64, f64)| Moment {
            at_ns,
            shift: Bounds::of(likely_ns - 3.0, likely_ns, likely_ns + 2.0),
        };
        let step = TimedCall {
            id,
            pid: 10 + id.rank,
            name: "MPI_Send",
            kind: CallKind::Waits,
            shape: CollectiveShape::Some,
            begin_ns: begin.0,
            end_ns: Some(end.0),
            costs: CallCosts::default(),
            sent_bytes: None,
            posts: false,
            posted: 0,
            is_from_anybody: false,
            place: None,
            sends: None,
            receives: None,
            waits_in_vain: false,
            completed: Vec::new(),
            left: Vec::new(),
            entered: Vec::new(),
            awaited: Vec::new(),
            ends_what_it_enters: true,
        };
        let (begin, end) = (moment(begin), moment(end));
        SolvedCall { step, begin, end, before: None, is_open: false, received: Vec::new() }
    }

    fn message() -> ExportedMessage {
        ExportedMessage {
            send: MessageId { call: id(0, 1), part: 0 },
            receive: MessageId { call: id(1, 1), part: 0 },
            sent_ns: Some(100),
            received: Some(Reception { by: id(1, 1), time_ns: 300 }),
            comm: None,
            tag: None,
            len_bytes: None,
        }
    }

    /// What is written of what is told.
    fn written(tell: impl FnOnce(&mut CorrectedExport, &ExportedSession<'_>) -> Result<()>) -> Written {
        let notebook = Rc::new(RefCell::new(Written::default()));
        let start = Start::default();
        let session = ExportedSession { start: &start, clocks: None };
        let mut export = CorrectedExport::new(Box::new(Notebook(Rc::clone(&notebook))));
        tell(&mut export, &session).unwrap();
        export.finish(&session).unwrap();
        notebook.take()
    }

    fn call(parts: &CallParts, id: CallId) -> ExportedCall<'_> {
        ExportedCall {
            id,
            pid: 10 + id.rank,
            row: row("MPI_Send").expect("a call"),
            begin_ns: 100,
            end_ns: Some(300),
            error_ns: None,
            arguments: &[],
            place: None,
            communicator: None,
            root: None,
            collective_bytes: None,
            parts,
        }
    }

    #[test]
    fn a_call_is_written_when_its_time_is_known_and_its_messages_after_it() {
        let parts = CallParts::default();
        let written = written(|export, session| {
            export.call(session, &call(&parts, id(0, 1)))?;
            export.call(session, &call(&parts, id(1, 1)))?;
            export.message(session, &message())?;
            // Of a rank that nobody wants.
            export.solved(session, &solved(id(2, 1), (100, 0.0), (300, -9.0)))?;
            export.solved(session, &solved(id(0, 1), (100, 0.0), (300, -50.0)))?;
            export.solved(session, &solved(id(1, 1), (100, -10.0), (300, -60.0)))
        });
        let error_ns = [3, 3];
        assert_eq!(written.calls, [(0, 100, Some(250), error_ns), (1, 90, Some(240), error_ns)]);
        assert_eq!(written.messages, [(Some(100), Some(240))]);
    }

    #[test]
    fn nothing_of_a_thread_is_before_what_it_did_before() {
        let parts = CallParts::default();
        let written = written(|export, session| {
            for number in 1..=2 {
                export.call(session, &call(&parts, id(0, number)))?;
            }
            export.solved(session, &solved(id(0, 1), (100, 0.0), (300, -10.0)))?;
            export.solved(session, &solved(id(0, 2), (301, -40.0), (302, -80.0)))
        });
        let times: Vec<_> =
            written.calls.iter().map(|(_, begin_ns, end_ns, _)| (*begin_ns, *end_ns)).collect();
        assert_eq!(times, [(100, Some(290)), (290, Some(290))]);
    }

    #[test]
    fn a_gap_is_shifted_as_its_process_is_and_a_message_that_is_left_is_written_in_the_end() {
        let parts = CallParts::default();
        let written = written(|export, session| {
            export.call(session, &call(&parts, id(0, 1)))?;
            export.solved(session, &solved(id(0, 1), (100, 0.0), (300, -50.0)))?;
            let gap = ExportedGap {
                pid: Some(10),
                rank: Some(0),
                from_ns: 400,
                to_ns: None,
                records: None,
                why: "lost",
            };
            export.gap(session, &gap)?;
            export.message(session, &message())
        });
        assert_eq!(written.gaps, [(350, None)]);
        assert_eq!(written.messages, [(Some(100), None)], "its receive was never worked out");
    }
}
