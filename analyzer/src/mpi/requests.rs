//! Requests: what their handles stand for.

use rustc_hash::FxHashMap;

/// Requests that are kept of all processes.
const MOST: usize = 1 << 20;

/// What a request stands for. `T`: what is known of one message.
#[derive(Clone, Debug)]
pub(super) struct Request<T> {
    /// The messages that are on their way; none: nothing that is known, or not started.
    pub messages: Vec<T>,
    /// It can be started again: how.
    pub prepared: Option<T>,
}

/// By process and handle.
pub(super) struct Requests<T> {
    all: FxHashMap<(u32, u64), Request<T>>,
}

impl<T> Default for Requests<T> {
    fn default() -> Self {
        Self { all: FxHashMap::default() }
    }
}

impl<T: Clone> Requests<T> {
    /// A new one. What had the handle before is over, seen or not.
    pub fn add(&mut self, pid: u32, handle: u64, request: Request<T>) {
        if self.all.len() < MOST || self.all.contains_key(&(pid, handle)) {
            self.all.insert((pid, handle), request);
        }
    }

    pub fn get_mut(&mut self, pid: u32, handle: u64) -> Option<&mut Request<T>> {
        self.all.get_mut(&(pid, handle))
    }

    /// What it stood for; one that can be started again stays.
    pub fn complete(&mut self, pid: u32, handle: u64) -> Vec<T> {
        let Some(request) = self.all.get_mut(&(pid, handle)) else { return Vec::new() };
        let messages = std::mem::take(&mut request.messages);
        if request.prepared.is_none() {
            self.all.remove(&(pid, handle));
        }
        messages
    }

    /// The handle is given back.
    pub fn free(&mut self, pid: u32, handle: u64) -> Vec<T> {
        self.all.remove(&(pid, handle)).map_or_else(Vec::new, |request| request.messages)
    }

    /// What a process has may not be what it seems.
    pub fn forget(&mut self, pid: u32) {
        self.all.retain(|key, _| key.0 != pid);
    }
}
