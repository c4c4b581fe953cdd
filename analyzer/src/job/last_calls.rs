//! The last MPI call of each thread, as it was recorded when it began: its arguments are whole.

use rustc_hash::FxHashMap;

/// Threads that are kept.
const MOST_THREADS: usize = 1 << 16;

/// How a call began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallEntry {
    /// Slot of the probe that saw it.
    pub probe: usize,
    pub return_address: u64,
    pub arguments: [u64; 6],
}

/// Of all threads, by process and thread.
#[derive(Default)]
pub(crate) struct CallsSeen {
    last: FxHashMap<(u32, u32), CallEntry>,
}

impl CallsSeen {
    /// A call began that is not part of another one.
    pub fn note(&mut self, pid: u32, tid: u32, begun: CallEntry) {
        if self.last.len() < MOST_THREADS || self.last.contains_key(&(pid, tid)) {
            self.last.insert((pid, tid), begun);
        }
    }

    /// The last call of a thread.
    pub fn last(&self, pid: u32, tid: u32) -> Option<&CallEntry> {
        self.last.get(&(pid, tid))
    }

    /// Calls of a process may have begun unseen, or it is gone.
    pub fn forget(&mut self, pid: u32) {
        self.last.retain(|key, _| key.0 != pid);
    }

    /// Calls of all may have.
    pub fn clear(&mut self) {
        self.last.clear();
    }

    /// The last calls of the threads of a process, with their threads.
    pub fn of(&self, pid: u32) -> impl Iterator<Item = (u32, &CallEntry)> {
        self.last.iter().filter(move |(key, _)| key.0 == pid).map(|(key, begun)| (key.1, begun))
    }
}
