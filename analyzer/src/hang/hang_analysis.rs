//! Which ranks do not go on, from samples of quiet ones, and what they hold.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::dependency::Rank;
use super::found::FoundHang;
use super::locks::Locks;
use super::progress::{Observation, SampledRanks};
use super::unknown;
use super::view::RankState;
use crate::job::Job;
use crate::job::event::{CallBegan, Event, Gap, ProcessEnded};
use crate::job::process::Who;
use crate::mpi::calls::Lifecycle;
use crate::tape::input::Threads;

/// See the [module](self).
#[derive(Default)]
pub(crate) struct HangAnalysis {
    progress: SampledRanks,
    locks: Locks,
    /// When ranks that stay where they are will have been there for so long that it is a hang, CLOCK_MONOTONIC.
    unknown_at_ns: Option<u64>,
    /// Hangs as they were found last.
    found: Vec<FoundHang>,
    /// Hangs of which some ranks were killed where they stood, and the others have not moved: nothing has ended them.
    lasting: Vec<FoundHang>,
    /// Something has changed since [`HangAnalysis::take_changed`].
    changed: bool,
}

impl HangAnalysis {
    /// What happened to the job.
    pub fn on(&mut self, job: &Job, event: &Event) {
        match event {
            Event::Sampled(threads) => self.sample(job, threads),
            Event::ProcessReplaced { pid, .. } => self.locks.forget(*pid),
            Event::ProcessEnded(ended) => {
                self.end_process(job, ended);
                self.progress.forget(ended.pid);
                self.locks.forget(ended.pid);
                self.changed = true;
            }
            Event::Gap(gap) => self.miss(gap),
            _ => {}
        }
    }

    /// A hang lasts if a signal ends its ranks where they stand: somebody gave up waiting for them.
    fn end_process(&mut self, job: &Job, ended: &ProcessEnded) {
        /// Of what wait(2) gives: the signal that ended it.
        const SIGNAL: u32 = 0x7f;
        let Who::Rank(rank) = ended.who else { return };
        let moved_ns = job.processes.get(ended.process).moved_ns;
        let stood = self.progress.still(ended.pid, moved_ns, ended.time_ns).is_some();
        if !stood || ended.status & SIGNAL == 0 {
            self.lasting.retain(|hang| !hang.has(rank));
        } else if !self.lasting.iter().any(|hang| hang.has(rank)) {
            // What was found since others of a hang were killed is a consequence of that.
            self.lasting.extend(self.found.extract_if(.., |hang| hang.has(rank)));
        }
    }

    /// Hangs were found.
    pub fn remember(&mut self, found: Vec<FoundHang>) {
        self.found = found;
    }

    /// Hangs that ranks were killed in, as long as those that are left have not moved.
    pub fn lasting(&self, job: &Job) -> impl Iterator<Item = &FoundHang> {
        let has_moved = |hang: &FoundHang, rank: Option<Rank>, moved_ns: u64| {
            moved_ns > hang.since_ns && rank.is_some_and(|rank| hang.has(rank))
        };
        self.lasting.iter().filter(move |hang| {
            let mut alive = job.processes.all().iter().filter(|process| process.alive);
            !alive.any(|process| has_moved(hang, process.rank, process.moved_ns))
        })
    }

    fn miss(&mut self, gap: &Gap) {
        match gap {
            Gap::Lost { loss, .. } if !loss.hides_calls() => {}
            Gap::Lost { is_rank: true, loss, .. } => self.locks.forget(loss.pid),
            Gap::Lost { is_rank: false, .. } => self.locks.clear(),
            Gap::CallsPaused { .. } => self.locks.clear(),
            Gap::Resumed { time_ns } => self.progress.resume(*time_ns),
            Gap::Late { .. } | Gap::Paused | Gap::CallsResumed { .. } => {}
        }
    }

    /// A call began.
    #[inline(always)]
    pub fn begin_call(&mut self, job: &Job, began: &CallBegan) {
        if began.part == Lifecycle::Lock
            && let Some(row) = job.probes.get(began.begun.probe).and_then(|probe| probe.row)
        {
            self.locks.call(began.pid, row, &began.begun.arguments);
        }
    }

    /// While not everything is watched, who is quiet may still move.
    fn sample(&mut self, job: &Job, threads: &Threads) {
        if !job.coverage.is_paused() {
            self.progress.sample(threads, |pid| job.moved_ns(pid));
            let since_ns = self.progress.latest_since_ns();
            self.unknown_at_ns = since_ns.map(|since_ns| since_ns.saturating_add(unknown::LEAST_NS));
            self.changed = true;
        }
    }

    /// Whether something has changed that findings may depend on. What is open now is not for long.
    pub fn take_changed(&mut self, job: &Job) -> bool {
        let is_open = job.messages.collectives().is_open(job.now_ns());
        // That nobody has moved for long becomes true between two samples.
        self.changed |= self.unknown_at_ns.take_if(|at_ns| *at_ns <= job.now_ns()).is_some();
        std::mem::replace(&mut self.changed, is_open)
    }

    /// Every rank of the job. Of one that was never watched nothing is known. `ended_badly`: of a process that is gone.
    pub fn rank_states<'a>(
        &'a self,
        job: &'a Job,
        ended_badly: impl Fn(u32) -> bool,
    ) -> BTreeMap<u32, RankState<'a>> {
        /// More ranks than jobs have; what a process's environment says is not to be believed beyond that.
        const MOST_RANKS: u32 = 1 << 17;
        // Each with whether it was seen to call MPI.
        let mut ranks: BTreeMap<u32, (RankState<'_>, bool)> = BTreeMap::new();
        let mut size = 0;
        for process in job.processes.all() {
            let Some(rank) = process.rank else { continue };
            size = size.max(process.size.unwrap_or(0).min(MOST_RANKS));
            let still = self.progress.still(process.pid, process.moved_ns, job.now_ns());
            let state = RankState {
                pid: process.pid,
                still: still.filter(|_| process.alive),
                ended: process
                    .exit_status
                    .filter(|_| !process.alive)
                    .map(|status| status == 0 && !ended_badly(process.pid)),
                locks: self.locks.of(process.pid),
            };
            let calls = process.counts.calls > 0 || matches!(state.still, Some((Observation::InCall(_), _)));
            match ranks.entry(rank) {
                Entry::Occupied(mut known) if process.alive && known.get().0.ended.is_none() => {
                    match (known.get().1, calls) {
                        // A script that has started the rank has its environment too, and waits for it.
                        (true, false) => {}
                        (false, true) => _ = known.insert((state, true)),
                        // They are of two worlds (spawned ones, say): whom a rank means is not known then.
                        (both, _) => _ = known.insert((RankState::default(), both)),
                    }
                }
                Entry::Occupied(mut ended) => {
                    ended.insert((state, calls));
                }
                Entry::Vacant(free) => {
                    free.insert((state, calls));
                }
            }
        }
        let mut ranks: BTreeMap<u32, RankState<'_>> =
            ranks.into_iter().map(|(rank, (state, _))| (rank, state)).collect();
        // Where nobody stands still there is nothing to decide, however many ranks there are.
        if ranks.values().any(|rank| rank.still.is_some()) {
            for rank in 0..size {
                ranks.entry(rank).or_default();
            }
        }
        ranks
    }
}
