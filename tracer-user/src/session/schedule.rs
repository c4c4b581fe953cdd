//! When which rank is sampled: pure.

use std::collections::{BTreeMap, HashMap};

use analyzer::calls::{self, CallRow};
use analyzer::input::{ThreadFacts, ThreadState, Threads};

/// A rank is quiet when it has left no record for so long.
const QUIET_NS: u64 = 1_000_000_000;
/// Between two samples of a rank that is in an MPI call …
const PERIOD_NS: u64 = 1_000_000_000;
/// … and when it has been found there often enough.
const LATER_PERIOD_NS: u64 = 4_000_000_000;
/// So often …
const FIRST_SAMPLES: u32 = 5;
/// … or, in a call that only polls, so often: some samples find the thread between two such calls.
const FIRST_POLLING_SAMPLES: u32 = 15;
/// A rank outside of MPI is sampled less and less often, down to the later period if it sleeps, and if it computes to this.
const LONGEST_PERIOD_NS: u64 = 8_000_000_000;

/// When a rank is to be sampled next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RankSchedule {
    next_ns: u64,
    period_ns: u64,
    samples: u32,
    /// It was found in a call that only polls.
    polls: bool,
}

/// What a sample of a rank tells about when to take the next one.
#[derive(Clone, Copy, Debug, Default)]
struct RankFound {
    in_call: bool,
    polls: bool,
    is_awake: bool,
}

impl RankFound {
    fn add(&mut self, thread: &ThreadFacts) {
        // What could not be followed may be in a call.
        self.in_call |= thread.call.is_some() || thread.cut.is_some();
        let row = thread.call.as_ref().and_then(|call| calls::row(&call.function));
        self.polls |= row.is_some_and(CallRow::polls);
        self.is_awake |= thread.state == ThreadState::Running;
    }
}

/// When which ranks are to be sampled.
#[derive(Default)]
pub struct SampleSchedule {
    ranks: HashMap<u32, RankSchedule>,
}

impl SampleSchedule {
    /// Ranks that are due now. `ranks`: each with the time of its last record.
    pub fn due(&mut self, now_ns: u64, ranks: impl Iterator<Item = (u32, u64)>) -> Vec<u32> {
        let mut due = Vec::new();
        for (pid, last_record_ns) in ranks {
            if now_ns.saturating_sub(last_record_ns) < QUIET_NS {
                self.ranks.remove(&pid);
                continue;
            }
            let rank = self.ranks.entry(pid).or_insert(RankSchedule {
                next_ns: now_ns,
                period_ns: PERIOD_NS,
                samples: 0,
                polls: false,
            });
            if rank.next_ns <= now_ns {
                rank.next_ns = now_ns + rank.period_ns;
                due.push(pid);
            }
        }
        due
    }

    /// What came of sampling.
    pub fn found(&mut self, threads: &Threads) {
        let mut processes: BTreeMap<u32, RankFound> = BTreeMap::new();
        for thread in &threads.threads {
            processes.entry(thread.pid).or_default().add(thread);
        }
        for (pid, found) in processes {
            let Some(rank) = self.ranks.get_mut(&pid) else { continue };
            rank.samples += 1;
            rank.polls |= found.polls;
            let first = if rank.polls { FIRST_POLLING_SAMPLES } else { FIRST_SAMPLES };
            rank.period_ns = match found.in_call || rank.polls {
                true if rank.samples < first => PERIOD_NS,
                true => LATER_PERIOD_NS,
                false if found.is_awake => (rank.period_ns * 2).min(LONGEST_PERIOD_NS),
                false => (rank.period_ns + PERIOD_NS).min(LATER_PERIOD_NS),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use analyzer::input::{CallInProgress, ThreadFacts};

    use super::*;

    const S: u64 = 1_000_000_000;

    fn found(pid: u32, in_call: bool) -> Threads {
        found_in(pid, in_call.then_some("MPI_Recv"))
    }

    fn found_in(pid: u32, function: Option<&str>) -> Threads {
        let call =
            function.map(|function| CallInProgress { function: function.into(), ..Default::default() });
        Threads { time_ns: 0, threads: vec![ThreadFacts { pid, tid: pid, call, ..ThreadFacts::default() }] }
    }

    #[test]
    fn only_quiet_ranks_are_sampled() {
        let mut ranks = SampleSchedule::default();
        assert_eq!(ranks.due(10 * S, [(1, 10 * S - 1), (2, 9 * S), (3, 0)].into_iter()), [2, 3]);
        assert_eq!(ranks.due(10 * S + 1, [(2, 9 * S), (3, 0)].into_iter()), [0u32; 0]);
    }

    #[test]
    fn a_rank_in_a_call_is_sampled_every_second_and_one_that_computes_less_and_less() {
        let samples = |in_call: bool| {
            let mut ranks = SampleSchedule::default();
            let mut at = Vec::new();
            for tenth in 0..200 {
                if !ranks.due(100 * S + tenth * S / 10, [(7, 0)].into_iter()).is_empty() {
                    at.push(tenth / 10);
                    ranks.found(&found(7, in_call));
                }
            }
            at
        };
        assert_eq!(samples(true)[..7], [0, 1, 2, 3, 4, 5, 9]);
        assert_eq!(samples(false), [0, 1, 3, 7, 15]);
    }

    #[test]
    fn a_rank_asleep_outside_of_calls_is_sampled_again_after_just_ten_seconds() {
        let mut ranks = SampleSchedule::default();
        let mut asleep = found(7, false);
        asleep.threads[0].state = ThreadState::Sleeping;
        let mut at = Vec::new();
        for tenth in 0..200 {
            if !ranks.due(100 * S + tenth * S / 10, [(7, 0)].into_iter()).is_empty() {
                at.push(tenth / 10);
                ranks.found(&asleep);
            }
        }
        assert_eq!(at, [0, 1, 3, 6, 10, 14, 18]);
    }

    #[test]
    fn a_rank_that_polls_is_sampled_every_second_for_longer_wherever_it_is_found() {
        let mut ranks = SampleSchedule::default();
        let mut at = Vec::new();
        for tenth in 0..200 {
            if !ranks.due(100 * S + tenth * S / 10, [(7, 0)].into_iter()).is_empty() {
                let is_between = at.len() % 3 == 1;
                ranks.found(&found_in(7, (!is_between).then_some("MPI_Iprobe")));
                at.push(tenth / 10);
            }
        }
        assert_eq!(at[..], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 19]);
    }

    #[test]
    fn a_rank_that_moved_begins_anew() {
        let mut ranks = SampleSchedule::default();
        ranks.due(10 * S, [(1, 0)].into_iter());
        assert!(ranks.due(11 * S, [(1, 11 * S)].into_iter()).is_empty());
        assert_eq!(ranks.due(12 * S, [(1, 11 * S)].into_iter()), [1]);
    }
}
