//! Who has not moved: what threads were doing, held against what they were doing before.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::mpi::calls::{self, CallRow};
use crate::tape::input::{ThreadFacts, ThreadState, Threads};

/// A process counts as still once it was found in the same place so many times …
const SAMPLES: u32 = 3;
/// … over so long.
const LEAST_NS: u64 = 2_000_000_000;
/// Of that so long must have been watched: in a pause of the budget nobody is seen to move.
const LEAST_WATCHED_NS: u64 = 1_500_000_000;
/// Who asks again and again, and does not wait, may do something else in between: that takes more samples …
const POLLING_SAMPLES: u32 = 6;
/// … over longer …
const LEAST_POLLING_NS: u64 = 8_000_000_000;
/// … of which one in so many, and one more, may have found it elsewhere.
const SAMPLES_A_MISS: u32 = 3;
/// What was not sampled for so long is not known any more.
const STALE_NS: u64 = 15_000_000_000;
/// Being stopped or doing nothing outside of MPI is usual for a while.
const LEAST_OUTSIDE_NS: u64 = 10_000_000_000;
/// A thread that polls must have had processor time between two samples, or it has not had a chance to go on.
const LEAST_POLLED_NS: u64 = 1_000_000;
/// What sleeps may wake up for a moment now and then.
const MOST_IDLE_NS: u64 = 20_000_000;

/// Processes that are kept.
const MOST_PROCESSES: usize = 1 << 16;
/// Bytes that all they were found doing may have. Of whom there is more nothing is known.
const MOST_BYTES: usize = 128 << 20;

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

/// What was found by the last sample.
struct RankSample {
    seen: Observation,
    since_ns: u64,
    samples: u32,
    /// Samples that found it elsewhere.
    misses: u32,
    ran: Ran,
    last_sample_ns: u64,
    /// Time since it was first found so in which it would have been seen to move.
    watched_ns: u64,
}

impl RankSample {
    fn bytes(&self) -> usize {
        bytes_of(&self.seen) + self.ran.bytes()
    }
}

/// Processor time of each thread of a process since the thread began, ns.
#[derive(Default)]
struct Ran(Box<[(u32, u64)]>);

impl Ran {
    fn of(threads: &[&ThreadFacts]) -> Self {
        Self(threads.iter().map(|thread| (thread.tid, thread.ran_ns)).collect())
    }

    fn total_ns(&self) -> u64 {
        self.0.iter().fold(0, |sum, (_, ran_ns)| sum.saturating_add(*ran_ns))
    }

    /// What a thread has had since then; `None` if it was not there.
    fn since_ns(&self, thread: &ThreadFacts) -> Option<u64> {
        let (_, before_ns) = self.0.iter().find(|(tid, _)| *tid == thread.tid)?;
        Some(thread.ran_ns.saturating_sub(*before_ns))
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
}

/// All processes that were sampled.
#[derive(Default)]
pub(crate) struct SampledRanks {
    places: FxHashMap<u32, RankSample>,
    /// Of `places`.
    bytes: usize,
    /// When watching began again after the last pause, CLOCK_MONOTONIC.
    resumed_ns: u64,
}

impl SampledRanks {
    /// Takes a sample of the threads of some processes. `moved_ns`: when a process was last seen to do anything.
    pub fn sample(&mut self, threads: &Threads, moved_ns: impl Fn(u32) -> u64) {
        let mut processes: BTreeMap<u32, Vec<&ThreadFacts>> = BTreeMap::new();
        for thread in &threads.threads {
            processes.entry(thread.pid).or_default().push(thread);
        }
        for (pid, threads_of_process) in processes {
            self.sample_process(pid, threads.time_ns, &threads_of_process, moved_ns(pid));
        }
    }

    fn sample_process(&mut self, pid: u32, now_ns: u64, threads: &[&ThreadFacts], moved_ns: u64) {
        let before = self.places.get(&pid).map(|place| &place.ran);
        let Some(mut seen) = seen(threads, before) else { return };
        if let Some(place) = self.places.get(&pid)
            && moved_ns <= place.since_ns
        {
            keep_what_was_known(&mut seen, &place.seen);
        }
        let ran = Ran::of(threads);
        let bytes = bytes_of(&seen) + ran.bytes();
        if self.bytes + bytes > MOST_BYTES {
            return self.forget(pid);
        }
        if let Some(place) = self.places.get_mut(&pid)
            && is_same(&place.seen, &seen)
            && moved_ns <= place.since_ns
        {
            place.watched_ns += now_ns.saturating_sub(place.last_sample_ns.max(self.resumed_ns));
            let ran_ns = ran.total_ns().saturating_sub(place.ran.total_ns());
            let had_a_chance = match &seen {
                Observation::InCall(thread) if thread.state == ThreadState::Running => {
                    ran_ns >= LEAST_POLLED_NS
                }
                Observation::Outside(_) => ran_ns <= MOST_IDLE_NS,
                _ => true,
            };
            if had_a_chance {
                place.samples += 1;
            } else if matches!(seen, Observation::Outside(_)) {
                (place.samples, place.since_ns, place.watched_ns) = (0, now_ns, 0);
            }
            let old_bytes = place.bytes();
            (place.seen, place.ran, place.last_sample_ns) = (seen, ran, now_ns);
            self.bytes = self.bytes + bytes - old_bytes;
            return;
        }
        // Between two calls that only ask a thread is in the program's own code for a moment.
        if let Some(place) = self.places.get_mut(&pid)
            && seen == Observation::Moves
            && polls(&place.seen)
            && moved_ns <= place.since_ns
            && place.misses * SAMPLES_A_MISS < place.samples
        {
            place.misses += 1;
            place.watched_ns += now_ns.saturating_sub(place.last_sample_ns.max(self.resumed_ns));
            let old_bytes = place.bytes();
            (place.ran, place.last_sample_ns) = (ran, now_ns);
            self.bytes = self.bytes + place.bytes() - old_bytes;
            return;
        }
        let (samples, misses, last_sample_ns) = (1, 0, now_ns);
        let place =
            RankSample { seen, since_ns: now_ns, samples, misses, ran, last_sample_ns, watched_ns: 0 };
        if self.places.len() < MOST_PROCESSES || self.places.contains_key(&pid) {
            self.bytes += bytes;
            let old = self.places.insert(pid, place);
            self.bytes -= old.map_or(0, |old| old.bytes());
        }
    }

    /// A process is gone.
    pub fn forget(&mut self, pid: u32) {
        let old = self.places.remove(&pid);
        self.bytes -= old.map_or(0, |old| old.bytes());
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
        if moved_ns > place.since_ns || now_ns.saturating_sub(place.last_sample_ns) > STALE_NS {
            return None;
        }
        let (least_samples, least_ns) = match place.seen {
            Observation::Moves => return None,
            Observation::InCall(_) if polls(&place.seen) => (POLLING_SAMPLES, LEAST_POLLING_NS),
            Observation::InCall(_) => (SAMPLES, LEAST_NS),
            Observation::Outside(_) | Observation::Stopped(_) => (SAMPLES, LEAST_OUTSIDE_NS),
        };
        let long = place.last_sample_ns.saturating_sub(place.since_ns) >= least_ns;
        let watched = place.watched_ns >= LEAST_WATCHED_NS;
        (place.samples >= least_samples && long && watched).then_some((&place.seen, place.since_ns))
    }
}

/// What a process does, from what its threads do: it moves if any may. `None`: this sample tells nothing, because the
/// stack of a thread that runs could not be followed, or because a thread beside the one in a call is ready to run and
/// has hardly run since the sample `before`: on a crowded machine one of the library's helpers that wakes up now and then
/// waits for a processor like one that computes.
fn seen(threads: &[&ThreadFacts], before: Option<&Ran>) -> Option<Observation> {
    let in_call = threads.iter().find(|thread| thread.call.is_some());
    let first = threads.iter().find(|thread| thread.tid == thread.pid).or(threads.first());
    let first = first?;
    if in_call.is_none() && threads.iter().any(|t| t.cut.is_some() && t.state == ThreadState::Running) {
        return None;
    }
    if threads.iter().any(|thread| matches!(thread.state, ThreadState::Stopped | ThreadState::Traced)) {
        return Some(Observation::Stopped(Box::new((*in_call.unwrap_or(first)).clone())));
    }
    let has_run = |thread: &&&ThreadFacts| {
        before.and_then(|before| before.since_ns(thread)).is_none_or(|ran_ns| ran_ns > MOST_IDLE_NS)
    };
    let Some(thread) = in_call else {
        let all_sleep = threads.iter().all(|thread| thread.state == ThreadState::Sleeping);
        return Some(if all_sleep {
            Observation::Outside(Box::new((*first).clone()))
        } else {
            Observation::Moves
        });
    };
    let is_ready_beside = |other: &&&ThreadFacts| {
        other.tid != thread.tid && other.call.is_none() && other.state == ThreadState::Running
    };
    let mut ready = threads.iter().filter(is_ready_beside).peekable();
    if ready.peek().is_none() {
        return Some(Observation::InCall(Box::new((*thread).clone())));
    }
    ready.any(|other| has_run(&other)).then_some(Observation::Moves)
}

/// About as much as it takes.
fn bytes_of(seen: &Observation) -> usize {
    let thread = match seen {
        Observation::Moves => return 0,
        Observation::InCall(thread) | Observation::Outside(thread) | Observation::Stopped(thread) => thread,
    };
    let text = thread.cut.as_ref().map_or(0, String::len);
    let call = thread.call.as_ref().map_or(0, |call| {
        let requests = call.requests.iter().map(|request| {
            let started =
                request.started.as_ref().map_or(0, |s| s.function.len() + size_of_val(&*s.arguments));
            size_of_val(request) + started
        });
        let members =
            call.communicators.iter().map(|facts| size_of_val(facts) + size_of_val(&*facts.members));
        call.function.len() + size_of_val(&*call.arguments) + requests.sum::<usize>() + members.sum::<usize>()
    });
    size_of::<ThreadFacts>() + size_of_val(&*thread.frames) + text + call
}

fn is_same(a: &Observation, b: &Observation) -> bool {
    match (a, b) {
        // A polling library is somewhere else inside in each sample.
        (Observation::InCall(a), Observation::InCall(b)) => a.tid == b.tid && same_call(a, b),
        (Observation::Outside(a), Observation::Outside(b)) => a.frames == b.frames,
        (Observation::Stopped(_), Observation::Stopped(_)) => true,
        _ => false,
    }
}

/// A sample may find the thread where fewer arguments can be recovered than before, in the same call: then what was known
/// stays, as a whole, so that nothing is put together from two calls of one place.
fn keep_what_was_known(now: &mut Observation, before: &Observation) {
    if !is_same(now, before) {
        return;
    }
    if let (Observation::InCall(now), Observation::InCall(before)) = (now, before)
        && known_arguments(now) < known_arguments(before)
    {
        now.call.clone_from(&before.call);
    }
}

fn known_arguments(thread: &ThreadFacts) -> usize {
    thread.call.as_ref().map_or(0, |call| call.arguments.iter().flatten().count())
}

/// Whether the call that it is in only asks.
fn polls(seen: &Observation) -> bool {
    let Observation::InCall(thread) = seen else { return false };
    let row = thread.call.as_ref().and_then(|call| calls::row(&call.function));
    row.is_some_and(CallRow::polls)
}

/// Its arguments may be known in one sample and not in another.
fn same_call(a: &ThreadFacts, b: &ThreadFacts) -> bool {
    let key =
        |t: &ThreadFacts| t.call.as_ref().map(|call| (call.function.clone(), call.site, call.return_slot));
    key(a) == key(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tape::input::{CallInProgress, CommunicatorFacts};

    fn sampled(pid: u32, members: usize) -> Threads {
        let facts = CommunicatorFacts { members: vec![0; members], ..CommunicatorFacts::default() };
        let call = CallInProgress { communicators: vec![facts], ..CallInProgress::default() };
        let thread = ThreadFacts { pid, tid: pid, call: Some(call), ..ThreadFacts::default() };
        Threads { time_ns: 5, threads: vec![thread] }
    }

    #[test]
    fn what_one_sample_knew_of_a_call_is_not_forgotten_by_the_next() {
        let polled = |arguments: Vec<Option<u64>>, return_slot: u64| {
            let call = CallInProgress {
                function: "MPI_Testany".into(),
                return_slot,
                arguments,
                ..CallInProgress::default()
            };
            let thread = ThreadFacts { pid: 1, tid: 1, call: Some(call), ..ThreadFacts::default() };
            Threads { time_ns: 5, threads: vec![thread] }
        };
        let known_after = |samples: &[Threads], moved_ns: u64| {
            let mut ranks = SampledRanks::default();
            samples.iter().for_each(|sample| ranks.sample(sample, |_| moved_ns));
            let Observation::InCall(thread) = &ranks.places[&1].seen else { panic!("it is in a call") };
            thread.call.clone().expect("a call").arguments
        };
        let (known, unknown) = (vec![Some(2), Some(7)], vec![None, Some(9)]);
        assert_eq!(known_after(&[polled(known.clone(), 3), polled(unknown.clone(), 3)], 0), known);
        assert_eq!(known_after(&[polled(unknown.clone(), 3), polled(known.clone(), 3)], 0), known);
        let elsewhere = [polled(known.clone(), 3), polled(unknown.clone(), 4)];
        assert_eq!(known_after(&elsewhere, 0), unknown, "another call");
        let moved = [polled(known, 3), polled(unknown.clone(), 3)];
        assert_eq!(known_after(&moved, 6), unknown, "it has done something in between");
    }

    /// A rank whose first thread waits in a call, with a helper in this state that has run so long, at so many seconds.
    fn with_helper(second: u64, state: ThreadState, ran_ns: u64) -> Threads {
        let mut threads = sampled(1, 0);
        threads.time_ns = second * 1_000_000_000;
        threads.threads.push(ThreadFacts { pid: 1, tid: 2, state, ran_ns, ..ThreadFacts::default() });
        threads
    }

    fn is_still(samples: impl IntoIterator<Item = Threads>) -> bool {
        let mut ranks = SampledRanks::default();
        let mut now_ns = 0;
        for sample in samples {
            now_ns = sample.time_ns;
            ranks.sample(&sample, |_| 0);
        }
        ranks.still(1, 0, now_ns).is_some()
    }

    #[test]
    fn a_helper_that_waits_for_a_processor_and_hardly_runs_does_not_move_a_rank() {
        let now_and_then = |second: u64| {
            let state = if second.is_multiple_of(2) { ThreadState::Sleeping } else { ThreadState::Running };
            with_helper(second, state, second * 500_000)
        };
        assert!(is_still((0..6).map(now_and_then)));
        assert!(!is_still((0..3).map(now_and_then)), "a sample in which it is ready to run does not count");
        assert!(
            !is_still((0..9).map(|second| with_helper(second, ThreadState::Running, 0))),
            "it may compute"
        );
    }

    #[test]
    fn a_helper_that_runs_moves_its_rank() {
        let computes = |second: u64| {
            let state = if second.is_multiple_of(2) { ThreadState::Sleeping } else { ThreadState::Running };
            with_helper(second, state, second * 30_000_000)
        };
        assert!(!is_still((0..20).map(computes)));
        let new_ones = (0..20).map(|second: u64| {
            let mut sample = with_helper(second, ThreadState::Running, 0);
            sample.threads[1].tid = second as u32 + 2;
            sample
        });
        assert!(!is_still(new_ones), "threads that begin and end");
    }

    #[test]
    fn what_is_kept_of_all_processes_has_a_bound() {
        let mut ranks = SampledRanks::default();
        for pid in 0..400 {
            ranks.sample(&sampled(pid, 1 << 18), |_| 0);
        }
        assert!((100..=128).contains(&ranks.places.len()), "{}", ranks.places.len());
        (0..400).for_each(|pid| ranks.forget(pid));
        assert_eq!((ranks.places.len(), ranks.bytes), (0, 0));
        for pid in 0..MOST_PROCESSES as u32 + 9 {
            ranks.sample(&sampled(pid, 0), |_| 0);
        }
        assert_eq!(ranks.places.len(), MOST_PROCESSES);
    }
}
