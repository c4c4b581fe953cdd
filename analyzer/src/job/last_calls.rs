//! The last MPI call of each thread, as it was recorded when it began: its arguments are whole.

use super::ids::ThreadId;

/// Threads that are kept.
const MOST_THREADS: usize = 1 << 16;

/// How a call began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallEntry {
    /// Slot of the probe that saw it.
    pub probe: usize,
    pub return_address: u64,
    pub arguments: [u64; 6],
}

/// Of all threads, by their numbers. Threads of a process that has too many share one, so each call has its tid.
#[derive(Default)]
pub(crate) struct CallsSeen {
    last: Vec<Option<(u32, CallEntry)>>,
}

impl CallsSeen {
    /// A call began that is not part of another one.
    #[inline]
    pub fn note(&mut self, thread: ThreadId, tid: u32, begun: CallEntry) {
        match self.last.get_mut(thread.index()) {
            Some(last) => *last = Some((tid, begun)),
            None => self.note_first(thread, tid, begun),
        }
    }

    #[cold]
    fn note_first(&mut self, thread: ThreadId, tid: u32, begun: CallEntry) {
        if thread.index() < MOST_THREADS {
            self.last.resize(thread.index() + 1, None);
            self.last[thread.index()] = Some((tid, begun));
        }
    }

    /// The last call of a thread.
    pub fn last(&self, thread: ThreadId, tid: u32) -> Option<&CallEntry> {
        let (of_tid, begun) = self.last.get(thread.index())?.as_ref()?;
        (*of_tid == tid).then_some(begun)
    }

    /// Calls of a thread may have begun unseen, or it is gone.
    pub fn forget(&mut self, thread: ThreadId) {
        if let Some(last) = self.last.get_mut(thread.index()) {
            *last = None;
        }
    }

    /// Calls of all may have.
    pub fn clear(&mut self) {
        self.last.fill(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(probe: usize) -> CallEntry {
        CallEntry { probe, return_address: 0, arguments: [0; 6] }
    }

    #[test]
    fn of_threads_that_share_a_number_only_the_one_that_called_last_is_known() {
        let mut seen = CallsSeen::default();
        seen.note(ThreadId(2), 7, begun(1));
        assert_eq!(seen.last(ThreadId(2), 7).map(|begun| begun.probe), Some(1));
        seen.note(ThreadId(2), 8, begun(3));
        assert!(seen.last(ThreadId(2), 7).is_none());
        assert_eq!(seen.last(ThreadId(2), 8).map(|begun| begun.probe), Some(3));
        assert!(seen.last(ThreadId(1), 7).is_none());
    }

    #[test]
    fn what_was_forgotten_is_not_known_and_no_more_threads_are_kept_than_there_is_room_for() {
        let mut seen = CallsSeen::default();
        let beyond = ThreadId(MOST_THREADS as u32);
        for thread in [ThreadId(0), ThreadId(1), beyond] {
            seen.note(thread, 5, begun(1));
        }
        seen.forget(ThreadId(0));
        assert!(seen.last(ThreadId(0), 5).is_none() && seen.last(beyond, 5).is_none());
        assert!(seen.last(ThreadId(1), 5).is_some());
        seen.clear();
        assert!(seen.last(ThreadId(1), 5).is_none());
    }
}
