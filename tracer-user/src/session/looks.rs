//! Looks at what quiet ranks are doing, in a thread of its own.

use std::collections::{BTreeMap, HashMap};

use analyzer::input::{ThreadFacts, Threads};
use analyzer::pipeline::LastCall;
use crossbeam_channel::{Receiver, Sender, bounded};

use crate::kernel::{ThreadLister, sample_running};
use crate::stacks::{StackReader, ThreadView};

/// A rank is quiet when it has left no record for so long.
const QUIET_NS: u64 = 1_000_000_000;
/// Between two looks at a rank that is in an MPI call …
const PERIOD_NS: u64 = 1_000_000_000;
/// … and when it has been found there often enough.
const LATER_PERIOD_NS: u64 = 4_000_000_000;
/// So often.
const FIRST_LOOKS: u32 = 5;
/// A rank that computes is looked at less and less often, down to this.
const LONGEST_PERIOD_NS: u64 = 8_000_000_000;

/// When a rank is to be looked at next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pace {
    next_ns: u64,
    period_ns: u64,
    looks: u32,
}

/// When which ranks are to be looked at.
#[derive(Default)]
pub(super) struct Paces {
    paces: HashMap<u32, Pace>,
}

impl Paces {
    /// Ranks that are due now. `ranks`: each with the time of its last record.
    pub(super) fn due(&mut self, now_ns: u64, ranks: impl Iterator<Item = (u32, u64)>) -> Vec<u32> {
        let mut due = Vec::new();
        for (pid, last_record_ns) in ranks {
            if now_ns.saturating_sub(last_record_ns) < QUIET_NS {
                self.paces.remove(&pid);
                continue;
            }
            let pace =
                self.paces.entry(pid).or_insert(Pace { next_ns: now_ns, period_ns: PERIOD_NS, looks: 0 });
            if pace.next_ns <= now_ns {
                pace.next_ns = now_ns + pace.period_ns;
                due.push(pid);
            }
        }
        due
    }

    /// What came of a look.
    pub(super) fn found(&mut self, threads: &Threads) {
        let mut processes: BTreeMap<u32, bool> = BTreeMap::new();
        for thread in &threads.threads {
            // What could not be followed may be in a call.
            *processes.entry(thread.pid).or_default() |= thread.call.is_some() || thread.cut.is_some();
        }
        for (pid, in_call) in processes {
            let Some(pace) = self.paces.get_mut(&pid) else { continue };
            pace.looks += 1;
            pace.period_ns = match in_call {
                true if pace.looks < FIRST_LOOKS => PERIOD_NS,
                true => LATER_PERIOD_NS,
                false => (pace.period_ns * 2).min(LONGEST_PERIOD_NS),
            };
        }
    }
}

/// Processes to be looked at.
struct Request {
    time_ns: u64,
    /// With what is known of their threads' last MPI calls.
    processes: BTreeMap<u32, Vec<LastCall>>,
}

/// The thread that looks. It ends with this.
pub(super) struct Looks {
    requests: Sender<Request>,
    results: Receiver<Threads>,
    waits: bool,
    pub(super) paces: Paces,
}

impl Looks {
    pub(super) fn start(lister: ThreadLister, cpus: Vec<u32>) -> std::io::Result<Self> {
        let (requests, request_receiver) = bounded::<Request>(1);
        let (result_sender, results) = bounded(1);
        std::thread::Builder::new().name("dms-look".into()).spawn(move || {
            crate::host::placement::stay_on(&cpus);
            let mut reader = StackReader::new(sample_running);
            for request in request_receiver {
                let threads = look(&lister, &mut reader, request.processes);
                if result_sender.send(Threads { time_ns: request.time_ns, threads }).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { requests, results, waits: false, paces: Paces::default() })
    }

    /// Whether it is still looking.
    pub(super) fn is_busy(&self) -> bool {
        self.waits
    }

    /// Has processes looked at.
    pub(super) fn look(&mut self, time_ns: u64, processes: BTreeMap<u32, Vec<LastCall>>) {
        self.waits = self.requests.try_send(Request { time_ns, processes }).is_ok();
    }

    /// What was found, if it is there.
    pub(super) fn found(&mut self) -> Option<Threads> {
        let threads = self.results.try_recv().ok()?;
        self.waits = false;
        self.paces.found(&threads);
        Some(threads)
    }
}

/// What the threads of some processes do. One that sleeps only for moments may be somewhere else by the time its
/// stack is read, which shows: then it is looked at again.
fn look(
    lister: &ThreadLister,
    reader: &mut StackReader,
    mut processes: BTreeMap<u32, Vec<LastCall>>,
) -> Vec<ThreadFacts> {
    const MOST_TRIES: u32 = 5;
    let mut found: BTreeMap<u32, Vec<ThreadFacts>> = BTreeMap::new();
    for _ in 0..MOST_TRIES {
        // Without the list of threads nothing is said, and the next time is soon.
        let Ok(threads) = lister.threads() else { break };
        for (&pid, last_calls) in &processes {
            let own: Vec<ThreadView> = threads.iter().filter(|thread| thread.pid == pid).copied().collect();
            found.insert(pid, reader.read(pid, &own, last_calls));
        }
        processes.retain(|pid, _| found[pid].iter().any(|thread| thread.cut.is_some()));
        if processes.is_empty() {
            break;
        }
    }
    found.into_values().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn found(pid: u32, in_call: bool) -> Threads {
        let call = in_call.then(Default::default);
        Threads { time_ns: 0, threads: vec![ThreadFacts { pid, tid: pid, call, ..ThreadFacts::default() }] }
    }

    #[test]
    fn only_quiet_ranks_are_looked_at() {
        let mut paces = Paces::default();
        assert_eq!(paces.due(10 * S, [(1, 10 * S - 1), (2, 9 * S), (3, 0)].into_iter()), [2, 3]);
        assert_eq!(paces.due(10 * S + 1, [(2, 9 * S), (3, 0)].into_iter()), [0u32; 0]);
    }

    #[test]
    fn a_rank_in_a_call_is_looked_at_every_second_and_one_that_computes_less_and_less() {
        let looks = |in_call: bool| {
            let mut paces = Paces::default();
            let mut at = Vec::new();
            for tenth in 0..200 {
                if !paces.due(100 * S + tenth * S / 10, [(7, 0)].into_iter()).is_empty() {
                    at.push(tenth / 10);
                    paces.found(&found(7, in_call));
                }
            }
            at
        };
        assert_eq!(looks(true)[..7], [0, 1, 2, 3, 4, 5, 9]);
        assert_eq!(looks(false), [0, 1, 3, 7, 15]);
    }

    #[test]
    fn a_rank_that_moved_begins_anew() {
        let mut paces = Paces::default();
        paces.due(10 * S, [(1, 0)].into_iter());
        assert!(paces.due(11 * S, [(1, 11 * S)].into_iter()).is_empty());
        assert_eq!(paces.due(12 * S, [(1, 11 * S)].into_iter()), [1]);
    }
}
