//! Requests: what their handles stand for.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

/// Handles that are kept of all processes.
const MOST: usize = 1 << 20;
/// A library gives out a handle again while the call that completed its request is still under way in another
/// thread. More of the same than these were completed without being seen.
const MOST_OF_ONE: usize = 4;

/// What a request stands for. `T`: what is known of one message.
#[derive(Clone, Debug)]
pub(super) struct Request<T> {
    /// The messages that are on their way; none: nothing that is known, or not started.
    pub messages: Vec<T>,
    /// It can be started again: how.
    pub prepared: Option<T>,
}

/// By process and handle; of each handle the oldest first.
pub(super) struct Requests<T> {
    all: FxHashMap<(u32, u64), VecDeque<Request<T>>>,
}

impl<T> Default for Requests<T> {
    fn default() -> Self {
        Self { all: FxHashMap::default() }
    }
}

impl<T: Clone> Requests<T> {
    /// A new one.
    pub fn add(&mut self, pid: u32, handle: u64, request: Request<T>) {
        if self.all.len() >= MOST && !self.all.contains_key(&(pid, handle)) {
            return;
        }
        let same = self.all.entry((pid, handle)).or_default();
        if same.len() >= MOST_OF_ONE {
            same.pop_front();
        }
        same.push_back(request);
    }

    /// What the handle stands for now: if it can be started, the last that is `likely`, if one is.
    pub fn startable(
        &mut self,
        pid: u32,
        handle: u64,
        likely: impl Fn(&T) -> bool,
    ) -> Option<&mut Request<T>> {
        let same = self.all.get_mut(&(pid, handle))?;
        let at = same.iter().rposition(|request| request.prepared.as_ref().is_some_and(&likely));
        same.get_mut(at.unwrap_or(same.len().checked_sub(1)?))
    }

    /// What it stood for; one that can be started again stays. Of several the oldest that is `likely`, if one is.
    pub fn complete(&mut self, pid: u32, handle: u64, likely: impl Fn(&T) -> bool) -> Vec<T> {
        let Some(same) = self.all.get_mut(&(pid, handle)) else { return Vec::new() };
        let is_open = |request: &Request<T>| !request.messages.is_empty();
        let is_likely = |request: &Request<T>| request.messages.iter().any(&likely);
        let Some(at) = same.iter().position(is_likely).or_else(|| same.iter().position(is_open)) else {
            return Vec::new();
        };
        let messages = std::mem::take(&mut same[at].messages);
        if same[at].prepared.is_none() {
            self.take(pid, handle, at);
        }
        messages
    }

    /// The handle is given back.
    pub fn free(&mut self, pid: u32, handle: u64, likely: impl Fn(&T) -> bool) -> Vec<T> {
        let Some(same) = self.all.get(&(pid, handle)) else { return Vec::new() };
        let is_likely = |request: &Request<T>| request.messages.iter().chain(&request.prepared).any(&likely);
        let at = same.iter().position(is_likely).unwrap_or(0);
        self.take(pid, handle, at).map_or_else(Vec::new, |request| request.messages)
    }

    fn take(&mut self, pid: u32, handle: u64, at: usize) -> Option<Request<T>> {
        let same = self.all.get_mut(&(pid, handle))?;
        let request = same.remove(at);
        if same.is_empty() {
            self.all.remove(&(pid, handle));
        }
        request
    }

    /// What a process has may not be what it seems.
    pub fn forget(&mut self, pid: u32) {
        self.all.retain(|key, _| key.0 != pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(message: u32) -> Request<u32> {
        Request { messages: vec![message], prepared: None }
    }

    #[test]
    fn a_handle_that_was_given_out_again_stands_for_the_older_until_that_is_complete() {
        let mut requests = Requests::default();
        requests.add(1, 7, of(10));
        requests.add(1, 7, of(11));
        requests.add(1, 7, of(12));
        assert_eq!(requests.complete(1, 7, |_| false), [10]);
        assert_eq!(requests.complete(1, 7, |message| *message == 12), [12]);
        assert_eq!(requests.complete(1, 7, |message| *message == 12), [11]);
        assert_eq!(requests.complete(1, 7, |_| true), [0; 0]);
    }

    #[test]
    fn what_can_be_started_again_stays_until_it_is_freed() {
        let mut requests = Requests::default();
        requests.add(1, 7, Request { messages: vec![], prepared: Some(3) });
        requests.startable(1, 7, |_| true).expect("it was added").messages = vec![3];
        assert_eq!(requests.complete(1, 7, |_| true), [3]);
        assert!(requests.startable(1, 7, |_| true).is_some());
        requests.free(1, 7, |_| true);
        assert!(requests.startable(1, 7, |_| true).is_none());
    }

    #[test]
    fn completions_that_were_not_seen_leave_little_behind() {
        let mut requests = Requests::default();
        (0..100).for_each(|message| requests.add(1, 7, of(message)));
        assert_eq!(
            requests.startable(1, 7, |_| true).map(|request| request.messages.clone()),
            Some(vec![99])
        );
        assert_eq!(requests.complete(1, 7, |_| false), [96]);
    }
}
