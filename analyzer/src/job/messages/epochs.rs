//! Epochs that targets open for groups (MPI 4.0, 12.5.2): which calls of both sides belong together.
//!
//! The epochs that a rank starts on a target are those that the target opens for it, one after the other: `MPI_Win_start` needs the
//! `MPI_Win_post`, and so does `MPI_Win_complete` if data was moved; `MPI_Win_wait` needs each `MPI_Win_complete`.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::ids::{CallId, CommId};
use super::members::Members;
use crate::mpi::calls::EpochStep;

/// Windows that are followed at once.
const MOST_WINDOWS: usize = 1 << 12;
/// Pairs of ranks of a window.
const MOST_PAIRS: usize = 1 << 16;
/// Calls of one side of a pair that the other has not come to.
const MOST_AHEAD: usize = 1 << 12;

/// A call of another rank, without which a call cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AwaitedCall {
    /// Which.
    pub call: CallId,
    /// The call cannot have ended before this one began; else the library may have put the wait off.
    pub is_certain: bool,
}

/// Calls of one side, numbered.
#[derive(Debug, Default)]
struct NumberedCalls {
    /// Number of the first that is kept.
    first: u64,
    kept: VecDeque<CallId>,
}

impl NumberedCalls {
    fn get(&self, number: u64) -> Option<CallId> {
        let at = number.checked_sub(self.first)?;
        self.kept.get(usize::try_from(at).ok()?).copied()
    }

    /// Forgets this one and those before it, and hands it on.
    fn take(&mut self, number: u64) -> Option<CallId> {
        let call = self.get(number);
        while self.first <= number && self.kept.pop_front().is_some() {
            self.first += 1;
        }
        call
    }
}

/// A target and a rank that accesses its memory.
#[derive(Debug, Default)]
struct EpochPair {
    posts: NumberedCalls,
    /// Epochs that the rank has started.
    started: u64,
    completes: NumberedCalls,
    /// Epochs whose end the target has waited for.
    waited: u64,
}

/// A target of an epoch that is open.
#[derive(Clone, Copy, Debug)]
struct StartedOn {
    target: u32,
    /// Number of the epoch among those of the pair.
    number: u64,
    is_accessed: bool,
}

#[derive(Debug, Default)]
struct WindowEpochs {
    /// Open ones, by who accesses.
    started: FxHashMap<u32, Vec<StartedOn>>,
    /// Open ones, by whose memory it is: for whom.
    posted: FxHashMap<u32, Members>,
    /// By target and who accesses.
    pairs: FxHashMap<(u32, u32), EpochPair>,
    /// Of a call on it is not known for whom it was.
    is_lost: bool,
}

/// Of all windows. Ranks are those of MPI_COMM_WORLD.
#[derive(Debug, Default)]
pub(super) struct Epochs {
    windows: FxHashMap<CommId, WindowEpochs>,
    /// Something was missed.
    is_over: bool,
}

impl Epochs {
    /// Something of the job was missed.
    pub(super) fn stop(&mut self) {
        self.windows.clear();
        self.is_over = true;
    }

    /// It is given back.
    pub(super) fn free(&mut self, window: CommId) {
        self.windows.remove(&window);
    }

    fn window(&mut self, window: CommId) -> Option<&mut WindowEpochs> {
        let is_full =
            self.is_over || self.windows.len() >= MOST_WINDOWS && !self.windows.contains_key(&window);
        let found = (!is_full).then(|| self.windows.entry(window).or_default())?;
        (!found.is_lost).then_some(found)
    }

    /// A rank begins a call that opens or ends its side of an epoch; `group`: for whom it opens one, if that is known.
    pub(super) fn begin(&mut self, window: CommId, step: EpochStep, group: Option<&Members>, call: CallId) {
        let Some(epochs) = self.window(window) else { return };
        let is_known = match (step, group) {
            (EpochStep::Posts, Some(origins)) => epochs.post(origins, call),
            (EpochStep::Starts, Some(targets)) => epochs.start(targets, call.rank),
            (EpochStep::Posts | EpochStep::Starts, None) => false,
            (EpochStep::Completes, _) => epochs.complete(call),
            (EpochStep::Waits, _) => true,
        };
        if !is_known {
            *epochs = WindowEpochs { is_lost: true, ..WindowEpochs::default() };
        }
    }

    /// In an open epoch data is moved.
    pub(super) fn access(&mut self, window: CommId, rank: u32, target: u32) {
        let epochs = self.windows.get_mut(&window);
        let started = epochs.and_then(|epochs| epochs.started.get_mut(&rank));
        for on in started.into_iter().flatten().filter(|on| on.target == target) {
            on.is_accessed = true;
        }
    }

    /// Such a call is over: what it may have waited for. `None`: that is not known.
    pub(super) fn end(&mut self, window: CommId, step: EpochStep, rank: u32) -> Option<Vec<AwaitedCall>> {
        let epochs = self.windows.get_mut(&window).filter(|epochs| !epochs.is_lost)?;
        match step {
            EpochStep::Posts => Some(Vec::new()),
            EpochStep::Starts => epochs.started(rank),
            EpochStep::Completes => epochs.completed(rank),
            EpochStep::Waits => epochs.waited(rank),
        }
    }

    /// Whom a rank waits for in such a call, or would: those who have not made theirs. `None`: that is not known.
    pub(super) fn missing(&self, window: CommId, step: EpochStep, rank: u32) -> Option<Vec<u32>> {
        let epochs = self.windows.get(&window).filter(|epochs| !epochs.is_lost)?;
        match step {
            EpochStep::Posts => Some(Vec::new()),
            EpochStep::Starts | EpochStep::Completes => {
                let started = epochs.started.get(&rank)?.iter();
                let is_missing = |on: &&StartedOn| epochs.post_of(on, rank).is_none();
                Some(started.filter(is_missing).map(|on| on.target).collect())
            }
            EpochStep::Waits => {
                let origins = epochs.posted.get(&rank)?.iter().copied();
                let is_missing = |origin: &u32| {
                    let pair = epochs.pairs.get(&(rank, *origin));
                    pair.is_none_or(|pair| pair.completes.get(pair.waited).is_none())
                };
                Some(origins.filter(is_missing).collect())
            }
        }
    }
}

impl WindowEpochs {
    fn pair(&mut self, target: u32, origin: u32) -> Option<&mut EpochPair> {
        let has_room = self.pairs.len() < MOST_PAIRS || self.pairs.contains_key(&(target, origin));
        has_room.then(|| self.pairs.entry((target, origin)).or_default())
    }

    /// Whether there is room for it.
    fn post(&mut self, origins: &Members, call: CallId) -> bool {
        self.posted.insert(call.rank, origins.clone());
        origins.iter().all(|origin| {
            let pair = self.pair(call.rank, *origin).filter(|pair| pair.posts.kept.len() < MOST_AHEAD);
            pair.map(|pair| pair.posts.kept.push_back(call)).is_some()
        })
    }

    fn start(&mut self, targets: &Members, rank: u32) -> bool {
        let on = targets.iter().map(|target| {
            let pair = self.pair(*target, rank)?;
            let number = pair.started;
            pair.started += 1;
            Some(StartedOn { target: *target, number, is_accessed: false })
        });
        let on: Option<Vec<StartedOn>> = on.collect();
        on.map(|on| self.started.insert(rank, on)).is_some()
    }

    /// The beginning of it: from then on targets may go on. The epoch is open until it returns.
    fn complete(&mut self, call: CallId) -> bool {
        let started = self.started.get(&call.rank).into_iter().flatten();
        let targets: Vec<u32> = started.map(|on| on.target).collect();
        !targets.is_empty()
            && targets.into_iter().all(|target| {
                let pair = self.pair(target, call.rank).filter(|pair| pair.completes.kept.len() < MOST_AHEAD);
                pair.map(|pair| pair.completes.kept.push_back(call)).is_some()
            })
    }

    fn post_of(&self, on: &StartedOn, rank: u32) -> Option<CallId> {
        self.pairs.get(&(on.target, rank))?.posts.get(on.number)
    }

    /// What is not there yet was not waited for.
    fn started(&self, rank: u32) -> Option<Vec<AwaitedCall>> {
        let posts = self.started.get(&rank)?.iter().filter_map(|on| self.post_of(on, rank));
        Some(posts.map(|call| AwaitedCall { call, is_certain: false }).collect())
    }

    fn completed(&mut self, rank: u32) -> Option<Vec<AwaitedCall>> {
        let mut awaited = Vec::new();
        let mut is_known = true;
        for StartedOn { target, number, is_accessed } in self.started.remove(&rank)? {
            let post = self.pairs.get_mut(&(target, rank)).and_then(|pair| pair.posts.take(number));
            awaited.extend(post.map(|call| AwaitedCall { call, is_certain: is_accessed }));
            is_known &= post.is_some() || !is_accessed;
        }
        is_known.then_some(awaited)
    }

    fn waited(&mut self, rank: u32) -> Option<Vec<AwaitedCall>> {
        let mut awaited = Some(Vec::new());
        for origin in self.posted.remove(&rank)?.iter() {
            let complete = self.pairs.get_mut(&(rank, *origin)).and_then(|pair| {
                pair.waited += 1;
                pair.completes.take(pair.waited - 1)
            });
            match complete {
                Some(call) => {
                    awaited.as_mut().map(|awaited| awaited.push(AwaitedCall { call, is_certain: true }))
                }
                None => awaited.take().map(drop),
            };
        }
        awaited
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const WINDOW: CommId = CommId(3);

    fn call(rank: u32, number: u32) -> CallId {
        CallId { rank, tid: 100 + rank, number }
    }

    fn group(ranks: &[u32]) -> Members {
        Arc::from(ranks)
    }

    fn certain(calls: &[CallId]) -> Option<Vec<AwaitedCall>> {
        Some(calls.iter().map(|call| AwaitedCall { call: *call, is_certain: true }).collect())
    }

    /// Ranks 0 and 1 access the memory of rank 2.
    fn opened() -> Epochs {
        let mut epochs = Epochs::default();
        epochs.begin(WINDOW, EpochStep::Starts, Some(&group(&[2])), call(0, 1));
        epochs.access(WINDOW, 0, 2);
        epochs.begin(WINDOW, EpochStep::Completes, None, call(0, 2));
        epochs.begin(WINDOW, EpochStep::Starts, Some(&group(&[2])), call(1, 1));
        epochs.begin(WINDOW, EpochStep::Posts, Some(&group(&[0, 1])), call(2, 1));
        epochs
    }

    #[test]
    fn each_side_of_an_epoch_waits_for_the_calls_of_the_other() {
        let mut epochs = opened();
        assert_eq!(epochs.end(WINDOW, EpochStep::Completes, 0), certain(&[call(2, 1)]));
        assert_eq!(epochs.missing(WINDOW, EpochStep::Waits, 2), Some(vec![1]));
        epochs.begin(WINDOW, EpochStep::Completes, None, call(1, 2));
        assert_eq!(epochs.missing(WINDOW, EpochStep::Waits, 2), Some(vec![]));
        assert_eq!(epochs.end(WINDOW, EpochStep::Waits, 2), certain(&[call(0, 2), call(1, 2)]));
        // In this one no data was moved: it may have ended without the other side.
        let post = AwaitedCall { call: call(2, 1), is_certain: false };
        assert_eq!(epochs.end(WINDOW, EpochStep::Completes, 1), Some(vec![post]));
    }

    #[test]
    fn a_start_that_returns_before_the_epoch_is_opened_has_not_waited() {
        let mut epochs = Epochs::default();
        for number in [1, 11] {
            epochs.begin(WINDOW, EpochStep::Starts, Some(&group(&[2])), call(0, number));
            assert_eq!(epochs.missing(WINDOW, EpochStep::Starts, 0), Some(vec![2]));
            assert_eq!(epochs.end(WINDOW, EpochStep::Starts, 0), Some(vec![]));
            epochs.begin(WINDOW, EpochStep::Posts, Some(&group(&[0])), call(2, number));
            let post = AwaitedCall { call: call(2, number), is_certain: false };
            assert_eq!(epochs.end(WINDOW, EpochStep::Starts, 0), Some(vec![post]));
            epochs.begin(WINDOW, EpochStep::Completes, None, call(0, number + 1));
            assert_eq!(epochs.end(WINDOW, EpochStep::Completes, 0), Some(vec![post]));
            assert_eq!(epochs.end(WINDOW, EpochStep::Waits, 2), certain(&[call(0, number + 1)]));
        }
    }

    #[test]
    fn an_epoch_that_nothing_was_put_into_may_end_before_it_is_opened() {
        let mut epochs = Epochs::default();
        for number in [1, 11] {
            epochs.begin(WINDOW, EpochStep::Starts, Some(&group(&[2])), call(0, number));
            epochs.begin(WINDOW, EpochStep::Completes, None, call(0, number + 1));
            assert_eq!(epochs.end(WINDOW, EpochStep::Completes, 0), Some(vec![]));
            epochs.begin(WINDOW, EpochStep::Posts, Some(&group(&[0])), call(2, number));
            assert_eq!(epochs.end(WINDOW, EpochStep::Waits, 2), certain(&[call(0, number + 1)]));
        }
    }

    #[test]
    fn what_was_missed_is_not_guessed() {
        let mut epochs = opened();
        epochs.begin(WINDOW, EpochStep::Posts, None, call(2, 3));
        assert_eq!(epochs.end(WINDOW, EpochStep::Completes, 0), None, "for whom it was opened is not known");
        let mut epochs = opened();
        epochs.free(WINDOW);
        assert_eq!(epochs.missing(WINDOW, EpochStep::Waits, 2), None);
        let mut epochs = opened();
        epochs.stop();
        epochs.begin(WINDOW, EpochStep::Starts, Some(&group(&[2])), call(0, 9));
        assert_eq!(epochs.missing(WINDOW, EpochStep::Starts, 0), None);
        // A post that should be there and is not: nothing is said of what waited for it.
        let mut epochs = Epochs::default();
        epochs.begin(WINDOW, EpochStep::Starts, Some(&group(&[2])), call(0, 1));
        epochs.access(WINDOW, 0, 2);
        epochs.begin(WINDOW, EpochStep::Completes, None, call(0, 2));
        assert_eq!(epochs.end(WINDOW, EpochStep::Completes, 0), None);
    }
}
