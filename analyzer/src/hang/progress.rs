//! Who has not moved: what threads were doing, held against what they were doing before.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::mpi::calls::{self, CallRow};
use crate::tape::input::{ThreadFacts, ThreadState, Threads};

/// A process counts as still once it was found in the same place so many times …
const LOOKS: u32 = 3;
/// … over so long.
const LEAST_NS: u64 = 2_000_000_000;
/// Of that so long must have been watched: in a pause of the budget nobody is seen to move.
const LEAST_WATCHED_NS: u64 = 1_500_000_000;
/// Who asks again and again, and does not wait, may do something else in between: that takes more looks …
const POLLING_LOOKS: u32 = 6;
/// … over longer …
const LEAST_POLLING_NS: u64 = 8_000_000_000;
/// … of which one in so many may have found it elsewhere.
const LOOKS_A_MISS: u32 = 4;
/// What was not looked at for so long is not known any more.
const STALE_NS: u64 = 15_000_000_000;
/// Being stopped or doing nothing outside of MPI is usual for a while.
const LEAST_OUTSIDE_NS: u64 = 10_000_000_000;
/// A thread that polls must have had processor time between two looks, or it has not had a chance to go on.
const LEAST_POLLED_NS: u64 = 1_000_000;
/// What sleeps may wake up for a moment now and then.
const MOST_IDLE_NS: u64 = 20_000_000;

/// How a process was found, again and again.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Observation {
    /// Its threads do something, or it is not clear what.
    Moves,
    /// In the same MPI call.
    InCall(Box<ThreadFacts>),
    /// Asleep outside of MPI.
    Outside(Box<ThreadFacts>),
    /// Stopped, by a debugger or a signal.
    Stopped(Box<ThreadFacts>),
}

/// What was found at the last look.
struct RankSample {
    seen: Observation,
    since_ns: u64,
    looks: u32,
    /// Looks that found it elsewhere.
    misses: u32,
    ran_ns: u64,
    last_look_ns: u64,
    /// Time since it was first found so in which it would have been seen to move.
    watched_ns: u64,
}

/// All processes that were looked at.
#[derive(Default)]
pub(crate) struct Watch {
    places: FxHashMap<u32, RankSample>,
    /// When watching began again after the last pause, CLOCK_MONOTONIC.
    resumed_ns: u64,
}

impl Watch {
    /// Takes a look at the threads of some processes. `moved_ns`: when a process was last seen to do anything.
    pub fn look(&mut self, threads: &Threads, moved_ns: impl Fn(u32) -> u64) {
        let mut processes: BTreeMap<u32, Vec<&ThreadFacts>> = BTreeMap::new();
        for thread in &threads.threads {
            processes.entry(thread.pid).or_default().push(thread);
        }
        for (pid, threads_of_process) in processes {
            self.look_at(pid, threads.time_ns, &threads_of_process, moved_ns(pid));
        }
    }

    fn look_at(&mut self, pid: u32, now_ns: u64, threads: &[&ThreadFacts], moved_ns: u64) {
        let Some(seen) = seen(threads) else { return };
        let ran_ns = threads.iter().fold(0u64, |sum, thread| sum.saturating_add(thread.ran_ns));
        if let Some(place) = self.places.get_mut(&pid)
            && is_same(&place.seen, &seen)
            && moved_ns <= place.since_ns
        {
            place.watched_ns += now_ns.saturating_sub(place.last_look_ns.max(self.resumed_ns));
            let ran = ran_ns.saturating_sub(place.ran_ns);
            let had_a_chance = match &seen {
                Observation::InCall(thread) if thread.state == ThreadState::Running => ran >= LEAST_POLLED_NS,
                Observation::Outside(_) => ran <= MOST_IDLE_NS,
                _ => true,
            };
            if had_a_chance {
                place.looks += 1;
            } else if matches!(seen, Observation::Outside(_)) {
                (place.looks, place.since_ns, place.watched_ns) = (0, now_ns, 0);
            }
            (place.ran_ns, place.last_look_ns, place.seen) = (ran_ns, now_ns, seen);
            return;
        }
        // Between two calls that only ask a thread is in the program's own code for a moment.
        if let Some(place) = self.places.get_mut(&pid)
            && seen == Observation::Moves
            && polls(&place.seen)
            && moved_ns <= place.since_ns
            && (place.misses + 1) * LOOKS_A_MISS <= place.looks
        {
            place.misses += 1;
            place.watched_ns += now_ns.saturating_sub(place.last_look_ns.max(self.resumed_ns));
            (place.ran_ns, place.last_look_ns) = (ran_ns, now_ns);
            return;
        }
        let (looks, misses, last_look_ns) = (1, 0, now_ns);
        let place = RankSample { seen, since_ns: now_ns, looks, misses, ran_ns, last_look_ns, watched_ns: 0 };
        self.places.insert(pid, place);
    }

    /// A process is gone.
    pub fn forget(&mut self, pid: u32) {
        self.places.remove(&pid);
    }

    /// When the last process was first found where it is now, if there are any.
    pub fn latest_since_ns(&self) -> Option<u64> {
        self.places.values().map(|place| place.since_ns).max()
    }

    /// Watching goes on after a pause. What was found before still holds where it is found again, but only time in which
    /// a rank would have been seen to move counts.
    pub fn resume(&mut self, now_ns: u64) {
        self.resumed_ns = now_ns;
    }

    /// How a process has been found for long enough, and since when, if it has not done anything since.
    pub fn still(&self, pid: u32, moved_ns: u64, now_ns: u64) -> Option<(&Observation, u64)> {
        let place = self.places.get(&pid)?;
        if moved_ns > place.since_ns || now_ns.saturating_sub(place.last_look_ns) > STALE_NS {
            return None;
        }
        let (least_looks, least_ns) = match place.seen {
            Observation::Moves => return None,
            Observation::InCall(_) if polls(&place.seen) => (POLLING_LOOKS, LEAST_POLLING_NS),
            Observation::InCall(_) => (LOOKS, LEAST_NS),
            Observation::Outside(_) | Observation::Stopped(_) => (LOOKS, LEAST_OUTSIDE_NS),
        };
        let long = place.last_look_ns.saturating_sub(place.since_ns) >= least_ns;
        let watched = place.watched_ns >= LEAST_WATCHED_NS;
        (place.looks >= least_looks && long && watched).then_some((&place.seen, place.since_ns))
    }
}

/// What a process does, from what its threads do: it moves if any may. `None`: this look tells nothing,
/// because the stack of a thread that runs could not be followed.
fn seen(threads: &[&ThreadFacts]) -> Option<Observation> {
    let in_call = threads.iter().find(|thread| thread.call.is_some());
    let first = threads.iter().find(|thread| thread.tid == thread.pid).or(threads.first());
    let first = first?;
    if in_call.is_none() && threads.iter().any(|t| t.cut.is_some() && t.state == ThreadState::Running) {
        return None;
    }
    if threads.iter().any(|thread| matches!(thread.state, ThreadState::Stopped | ThreadState::Traced)) {
        return Some(Observation::Stopped(Box::new((*in_call.unwrap_or(first)).clone())));
    }
    let others_run = |chosen: &ThreadFacts| {
        threads.iter().any(|t| t.tid != chosen.tid && t.call.is_none() && t.state == ThreadState::Running)
    };
    Some(match in_call {
        Some(thread) if !others_run(thread) => Observation::InCall(Box::new((*thread).clone())),
        Some(_) => Observation::Moves,
        None if threads.iter().all(|t| t.state == ThreadState::Sleeping) => {
            Observation::Outside(Box::new((*first).clone()))
        }
        None => Observation::Moves,
    })
}

fn is_same(a: &Observation, b: &Observation) -> bool {
    match (a, b) {
        // A polling library is somewhere else inside at each look.
        (Observation::InCall(a), Observation::InCall(b)) => a.tid == b.tid && same_call(a, b),
        (Observation::Outside(a), Observation::Outside(b)) => a.frames == b.frames,
        (Observation::Stopped(_), Observation::Stopped(_)) => true,
        _ => false,
    }
}

/// Whether the call that it is in only asks.
fn polls(seen: &Observation) -> bool {
    let Observation::InCall(thread) = seen else { return false };
    let row = thread.call.as_ref().and_then(|call| calls::row(&call.function));
    row.is_some_and(CallRow::polls)
}

/// Its arguments may be known at one look and not at another.
fn same_call(a: &ThreadFacts, b: &ThreadFacts) -> bool {
    let key =
        |t: &ThreadFacts| t.call.as_ref().map(|call| (call.function.clone(), call.site, call.return_slot));
    key(a) == key(b)
}
