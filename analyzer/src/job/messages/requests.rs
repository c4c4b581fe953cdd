//! Requests: what their handles stand for.

use std::collections::hash_map::{Entry, OccupiedEntry};

use rustc_hash::{FxHashMap, FxHashSet};

/// Handles that are kept of all processes.
const MOST: usize = 1 << 20;
/// A library gives out a handle again while the call that completed its request is still under way in another
/// thread. More of the same than these were completed without being seen.
const MOST_OF_ONE: usize = 4;

/// What a request stands for. `T`: what is known of one message; `O`: of the call that began it.
#[derive(Clone, Debug)]
pub(super) struct TrackedRequest<T, O> {
    /// The thread that began it.
    pub tid: u32,
    /// The call that began it.
    pub origin: O,
    /// The message that it is whenever it is started, if it is one; of an exchange the one that is sent …
    pub message: Option<T>,
    /// … and the one that is received.
    pub received: Option<Box<T>>,
    /// Something that is on its way: messages, or what a collective call does.
    pub is_active: bool,
    /// It can be started again.
    pub is_persistent: bool,
    /// It was asked to be given up.
    pub is_cancelled: bool,
}

impl<T, O> TrackedRequest<T, O> {
    /// The messages that it is.
    pub fn messages(&self) -> impl Iterator<Item = &T> {
        self.message.iter().chain(self.received.as_deref())
    }
}

/// Those with the same handle in the same process: mostly one.
#[derive(Debug)]
struct Same<T, O> {
    oldest: TrackedRequest<T, O>,
    newer: Vec<TrackedRequest<T, O>>,
}

/// Requests that were complete when they began: they have one and the same handle. Which of them a call names cannot be
/// told, but how many are left can.
#[derive(Clone, Copy, Debug)]
pub(super) struct AtOnce<T, O> {
    /// How many nobody has come back for.
    pub open: u64,
    /// What began the first of those that are open now; `None`: others were begun by other calls.
    pub origin: Option<O>,
    /// The message of the first, if all of them are alike.
    pub message: Option<T>,
}

/// By process and handle; of each handle the oldest first.
#[derive(Debug)]
pub(super) struct Requests<T, O> {
    all: FxHashMap<(u32, u64), Same<T, O>>,
    at_once: FxHashMap<(u32, u64), AtOnce<T, O>>,
    /// Of these processes some completions were not seen, or some requests are not kept.
    uncertain: FxHashSet<u32>,
}

impl<T, O> Default for Requests<T, O> {
    fn default() -> Self {
        Self { all: FxHashMap::default(), at_once: FxHashMap::default(), uncertain: FxHashSet::default() }
    }
}

impl<T: Clone, O: Clone> Same<T, O> {
    fn iter(&self) -> impl Iterator<Item = &TrackedRequest<T, O>> {
        std::iter::once(&self.oldest).chain(&self.newer)
    }

    fn position_of_last(&self, wanted: impl Fn(&TrackedRequest<T, O>) -> bool) -> Option<usize> {
        let newer = self.newer.iter().rposition(&wanted).map(|at| at + 1);
        newer.or_else(|| wanted(&self.oldest).then_some(0))
    }

    fn get_mut(&mut self, at: usize) -> Option<&mut TrackedRequest<T, O>> {
        match at.checked_sub(1) {
            None => Some(&mut self.oldest),
            Some(at) => self.newer.get_mut(at),
        }
    }

    /// The oldest that is on its way and that this thread began, if one is.
    fn position_of_active(&self, tid: u32) -> Option<usize> {
        let own = self.iter().position(|request| request.is_active && request.tid == tid);
        own.or_else(|| self.iter().position(|request| request.is_active))
    }

    /// Takes one out; there must be others.
    fn remove(&mut self, at: usize) -> TrackedRequest<T, O> {
        match at.checked_sub(1) {
            None => std::mem::replace(&mut self.oldest, self.newer.remove(0)),
            Some(at) => self.newer.remove(at),
        }
    }
}

impl<T: Copy, O: Copy> Requests<T, O> {
    /// A new one that is complete; `alike`: whether two messages are of the same kind.
    pub fn add_at_once(
        &mut self,
        (pid, handle): (u32, u64),
        message: Option<T>,
        origin: O,
        same: impl Fn(&O, &O) -> bool,
        alike: impl Fn(&T, &T) -> bool,
    ) {
        let new = AtOnce { open: 0, origin: Some(origin), message };
        let known = self.at_once.entry((pid, handle)).or_insert(new);
        if known.open == 0 {
            *known = new;
        }
        known.open += 1;
        known.origin = known.origin.filter(|known| same(known, &origin));
        known.message = known.message.filter(|known| message.is_some_and(|message| alike(known, &message)));
    }

    /// Somebody came back for one of those.
    pub fn complete_at_once(&mut self, pid: u32, handle: u64) {
        if let Some(known) = self.at_once.get_mut(&(pid, handle)) {
            known.open = known.open.saturating_sub(1);
        }
    }

    /// Those of a process that nobody has come back for; none if that is not certain.
    pub fn open_at_once(&self, pid: u32) -> impl Iterator<Item = &AtOnce<T, O>> {
        let is_certain = !self.uncertain.contains(&pid);
        let of_process = self.at_once.iter().filter(move |(key, _)| is_certain && key.0 == pid);
        of_process.map(|(_, known)| known).filter(|known| known.open > 0)
    }

    /// A new one.
    pub fn add(&mut self, pid: u32, handle: u64, request: TrackedRequest<T, O>) {
        let has_room = self.all.len() < MOST;
        match self.all.entry((pid, handle)) {
            Entry::Occupied(same) => {
                let same = same.into_mut();
                same.newer.push(request);
                if same.newer.len() >= MOST_OF_ONE {
                    same.remove(0);
                    self.uncertain.insert(pid);
                }
            }
            Entry::Vacant(place) if has_room => _ = place.insert(Same { oldest: request, newer: Vec::new() }),
            Entry::Vacant(_) => _ = self.uncertain.insert(pid),
        }
    }

    /// What the handle stands for now: if it can be started, the last that this thread made, if one is.
    pub fn startable(&mut self, pid: u32, handle: u64, tid: u32) -> Option<&mut TrackedRequest<T, O>> {
        let same = self.all.get_mut(&(pid, handle))?;
        let is_likely = |request: &TrackedRequest<T, O>| request.is_persistent && request.tid == tid;
        let at = same.position_of_last(is_likely).unwrap_or(same.newer.len());
        same.get_mut(at)
    }

    /// All that a handle may stand for.
    pub fn known(&self, pid: u32, handle: u64) -> impl Iterator<Item = &TrackedRequest<T, O>> {
        self.all.get(&(pid, handle)).into_iter().flat_map(Same::iter)
    }

    /// What a handle stands for that is on its way, if only one has it.
    pub fn active(&self, pid: u32, handle: u64) -> Option<&TrackedRequest<T, O>> {
        let mut active = self.all.get(&(pid, handle))?.iter().filter(|request| request.is_active);
        active.next().filter(|_| active.next().is_none())
    }

    /// What it stood for; one that can be started again stays. Of several the oldest that this thread began, if one is.
    pub fn complete(&mut self, pid: u32, handle: u64, tid: u32) -> Option<TrackedRequest<T, O>> {
        let Entry::Occupied(mut same) = self.all.entry((pid, handle)) else { return None };
        let at = same.get().position_of_active(tid)?;
        let request = same.get_mut().get_mut(at)?;
        if request.is_persistent {
            let complete = request.clone();
            (request.is_active, request.is_cancelled) = (false, false);
            return Some(complete);
        }
        Some(take(same, at))
    }

    /// It is to be given up: what it stands for, as for a completion.
    pub fn cancel(&mut self, pid: u32, handle: u64, tid: u32) -> Option<&TrackedRequest<T, O>> {
        let same = self.all.get_mut(&(pid, handle))?;
        let request = same.get_mut(same.position_of_active(tid)?)?;
        request.is_cancelled = true;
        Some(request)
    }

    /// The handle is given back.
    pub fn free(&mut self, pid: u32, handle: u64, tid: u32) -> Option<TrackedRequest<T, O>> {
        let Entry::Occupied(same) = self.all.entry((pid, handle)) else { return None };
        let at = same.get().iter().position(|request| request.tid == tid).unwrap_or(0);
        Some(take(same, at))
    }

    /// Those of a process that nobody has come back for; `None`: that is not certain.
    pub fn open(&self, pid: u32) -> Option<impl Iterator<Item = &TrackedRequest<T, O>>> {
        let of_process = self.all.iter().filter(move |(key, _)| key.0 == pid);
        let open = of_process.flat_map(|(_, same)| same.iter()).filter(|r| r.is_active && !r.is_cancelled);
        (!self.uncertain.contains(&pid)).then_some(open)
    }

    /// Those of a process that can be started again and are not on their way; none if that is not certain.
    pub fn prepared(&self, pid: u32) -> impl Iterator<Item = &TrackedRequest<T, O>> {
        let is_certain = !self.uncertain.contains(&pid);
        let of_process = self.all.iter().filter(move |(key, _)| is_certain && key.0 == pid);
        of_process
            .flat_map(|(_, same)| same.iter())
            .filter(|request| request.is_persistent && !request.is_active)
    }

    /// What a process has may not be what it seems.
    pub fn forget(&mut self, pid: u32) {
        self.all.retain(|key, _| key.0 != pid);
        self.at_once.retain(|key, _| key.0 != pid);
        self.uncertain.insert(pid);
    }

    /// The pid is free for another process.
    pub fn end(&mut self, pid: u32) {
        self.all.retain(|key, _| key.0 != pid);
        self.at_once.retain(|key, _| key.0 != pid);
        self.uncertain.remove(&pid);
    }
}

/// Takes out one of those with the same handle.
fn take<T: Clone, O: Clone>(
    mut same: OccupiedEntry<'_, (u32, u64), Same<T, O>>,
    at: usize,
) -> TrackedRequest<T, O> {
    if same.get().newer.is_empty() { same.remove().oldest } else { same.get_mut().remove(at) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u32 = 5;
    const OTHER: u32 = 6;

    fn of(tid: u32, message: u32) -> TrackedRequest<u32, ()> {
        TrackedRequest {
            tid,
            origin: (),
            is_active: true,
            message: Some(message),
            received: None,
            is_persistent: false,
            is_cancelled: false,
        }
    }

    fn complete(requests: &mut Requests<u32, ()>, tid: u32) -> Option<u32> {
        requests.complete(1, 7, tid).and_then(|request| request.message)
    }

    #[test]
    fn a_handle_that_was_given_out_again_stands_for_the_older_until_that_is_complete() {
        let mut requests = Requests::default();
        requests.add(1, 7, of(OTHER, 10));
        requests.add(1, 7, of(OTHER, 11));
        requests.add(1, 7, of(OWN, 12));
        assert_eq!(complete(&mut requests, 0), Some(10));
        assert_eq!(complete(&mut requests, OWN), Some(12));
        assert_eq!(complete(&mut requests, OWN), Some(11));
        assert_eq!(complete(&mut requests, OTHER), None);
        assert!(requests.all.is_empty());
    }

    #[test]
    fn what_can_be_started_again_stays_until_it_is_freed() {
        let mut requests = Requests::default();
        let prepared = TrackedRequest { is_active: false, is_persistent: true, ..of(OWN, 3) };
        requests.add(1, 7, prepared);
        assert_eq!(complete(&mut requests, OWN), None);
        requests.startable(1, 7, OWN).expect("it was added").is_active = true;
        assert_eq!(complete(&mut requests, OWN), Some(3));
        assert!(requests.startable(1, 7, OWN).is_some());
        assert_eq!((requests.prepared(1).count(), requests.prepared(2).count()), (1, 0));
        requests.free(1, 7, OWN);
        assert!(requests.startable(1, 7, OWN).is_none());
        assert_eq!(requests.prepared(1).count(), 0);
    }

    #[test]
    fn completions_that_were_not_seen_leave_little_behind() {
        let mut requests = Requests::default();
        (0..100).for_each(|message| requests.add(1, 7, of(OTHER, message)));
        let last = requests.startable(1, 7, OWN).and_then(|request| request.message);
        assert_eq!(last, Some(99));
        assert_eq!(complete(&mut requests, OWN), Some(96));
        assert!(requests.open(1).is_none());
    }

    #[test]
    fn of_those_that_were_complete_at_once_it_is_known_how_many_are_left_and_which_if_all_are_alike() {
        let mut requests: Requests<u32, u32> = Requests::default();
        let add = |requests: &mut Requests<u32, u32>, origin: u32, message: u32| {
            requests.add_at_once((1, 7), Some(message), origin, |a, b| a == b, |a, b| a == b);
        };
        let open = |requests: &Requests<u32, u32>| {
            requests.open_at_once(1).map(|r| (r.open, r.origin, r.message)).collect::<Vec<_>>()
        };
        add(&mut requests, 10, 1);
        requests.complete_at_once(1, 7);
        assert_eq!(open(&requests), []);
        add(&mut requests, 11, 2);
        add(&mut requests, 11, 2);
        add(&mut requests, 11, 3);
        requests.complete_at_once(1, 7);
        assert_eq!(open(&requests), [(2, Some(11), None)]);
        add(&mut requests, 12, 2);
        assert_eq!(open(&requests), [(3, None, None)]);
        requests.forget(1);
        add(&mut requests, 12, 2);
        assert_eq!(open(&requests), []);
    }

    #[test]
    fn what_was_begun_is_open_until_it_is_complete_or_given_up() {
        let mut requests = Requests::default();
        requests.add(1, 7, of(OWN, 10));
        requests.add(1, 8, of(OWN, 11));
        requests.add(1, 9, of(OWN, 12));
        requests.add(2, 7, of(OWN, 13));
        requests.complete(1, 8, OWN);
        requests.cancel(1, 9, OWN);
        let open = |requests: &Requests<u32, ()>| {
            requests.open(1).map(|open| open.filter_map(|request| request.message).collect::<Vec<_>>())
        };
        assert_eq!(open(&requests), Some(vec![10]));
        requests.forget(1);
        assert_eq!(open(&requests), None);
        requests.end(1);
        assert_eq!(open(&requests), Some(vec![]));
    }
}
