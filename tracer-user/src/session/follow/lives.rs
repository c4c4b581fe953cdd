//! Processes that begin, become ranks, load something and end: as they are seen to.

use std::collections::BTreeSet;

use analyzer::input::{Input, Loss, ProcessFacts};
use analyzer::queue_state;
use analyzer::wire::{Body, Header, QueueChange, RawRecord, Record};

use super::Session;
use crate::host::JobError;
use crate::kernel::DrainBatch;

impl Session<'_> {
    pub(super) fn learn(&mut self, pid: u32, is_rank: bool) {
        if let Some(facts) = self.facts_of(pid, is_rank) {
            self.order.fact(facts.time_ns, Input::Process(Box::new(facts)));
        }
    }

    /// None: a process that is gone already has nothing more to say, and of one that cannot be read nothing is known.
    pub(super) fn facts_of(&mut self, pid: u32, is_rank: bool) -> Option<ProcessFacts> {
        let time_ns = self.host.now_ns();
        let mut facts = match self.host.process_facts(pid, time_ns) {
            Ok(facts) => facts,
            Err(error) if error.has_ended() => return None,
            Err(error) => {
                self.unreadable(pid, time_ns, &error);
                return None;
            }
        };
        if !self.watched.is_still_there(pid, self.host.as_ref()) {
            return None;
        }
        self.watched.note(&facts, is_rank);
        if !is_rank && self.watched.has_inherited_rank(pid) {
            // A script, say, that inherited a rank's environment.
            facts.rank = None;
        }
        Some(facts)
    }

    /// A process that lives, but what it is and maps is not known: a gap.
    fn unreadable(&mut self, pid: u32, time_ns: u64, error: &JobError) {
        self.sink.notice(&format!("{error}: what it maps is not known"));
        let loss = Loss { pid, from_ns: time_ns, to_ns: time_ns, movements: 0, calls: 1, state: 1 };
        self.order.fact(time_ns, Input::Loss(loss));
    }

    /// What carries a rank's environment is a rank if it runs MPI.
    pub(super) fn promote(&mut self, pid: u32) {
        if !self.host.runs_mpi(pid) {
            return;
        }
        self.reach(&[pid]);
        self.watch_follower(pid);
        self.learn(pid, true);
        if self.watched.reached.missed_beginning(pid) {
            self.unplanned(&[pid]);
        }
    }

    /// Processes that began or ended, and code that was loaded, need an answer at once; so
    /// they are looked at as they come.
    pub(super) fn lives(&mut self, batch: &DrainBatch) -> Vec<u32> {
        let mut loaded = BTreeSet::new();
        for (slot, records) in &batch.records {
            for record in records {
                self.life(*slot, record, &mut loaded);
            }
        }
        for pid in &loaded {
            if self.watched.may_become_rank(*pid) {
                self.promote(*pid);
            }
        }
        loaded.retain(|pid| self.watched.is_rank(*pid));
        if !loaded.is_empty() {
            self.late_slots.look_at(&loaded);
            self.slot_move.loaded(self.host.now_ns());
            self.renew_own_code();
        }
        loaded.into_iter().collect()
    }

    fn life(&mut self, slot: u32, raw: &RawRecord, loaded: &mut BTreeSet<u32>) {
        let Ok(Record { header, body }) = Record::decode(raw) else { return };
        match body {
            Body::Map { file, exec, shared, has_file: true, .. } => {
                if shared {
                    self.names.learn(header.pid, file, self.host.as_ref(), &mut self.recorder);
                }
                if exec {
                    loaded.insert(header.pid);
                }
            }
            Body::Fork { child } => {
                self.watched.inherit(header.pid, child, self.kernel.as_mut(), self.host.as_ref());
            }
            Body::Exec => {
                self.last_began_ns = self.last_began_ns.max(header.time_ns);
                self.watched.began_anew(header.pid);
                self.watched.reached.began_anew(header.pid, header.time_ns);
                self.learn(header.pid, false);
                loaded.insert(header.pid);
            }
            Body::Queue(queue) if queue.state == queue_state::IN_USE => {
                self.find_other_end(slot, header, &queue);
            }
            Body::Exit { .. } => self.watched.forget(header.pid, self.kernel.as_mut()),
            _ => {}
        }
    }

    /// A queue pair that was connected before we watched.
    fn find_other_end(&mut self, slot: u32, header: Header, in_use: &QueueChange) {
        let Some(found) = self.host.found_connected(header.pid, in_use) else { return };
        // Not before the answer: what is told of it until then comes first.
        let header = Header { time_ns: self.host.now_ns(), ..header };
        self.order.records(slot, vec![Record { header, body: Body::Queue(found) }.encode()]);
    }

    pub(super) fn renew_own_code(&mut self) {
        self.watched.renew_own_code(self.kernel.as_mut(), self.host.as_ref(), &self.probes);
    }
}
