//! Locks on windows that processes hold, by the calls that they made.

use rustc_hash::FxHashMap;

/// Locks of one process that are kept.
const MOST_LOCKS: usize = 256;
/// Processes that are kept.
const MOST_PROCESSES: usize = 1 << 16;

/// A lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeldLock {
    /// Handle of the window.
    window: u64,
    /// Rank whose memory it is for, in the window; `None`: all of them.
    pub target: Option<u32>,
}

/// What a call does to locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Locks(HeldLock),
    Unlocks(HeldLock),
}

impl Change {
    /// `None`: nothing.
    fn of(function: &str, arguments: &[u64; 6]) -> Option<Self> {
        let lock = |window, target: Option<u64>| HeldLock { window, target: target.map(|rank| rank as u32) };
        Some(match (function, arguments) {
            ("MPI_Win_lock", &[_, target, _, window, ..]) => Self::Locks(lock(window, Some(target))),
            ("MPI_Win_lock_all", &[_, window, ..]) => Self::Locks(lock(window, None)),
            ("MPI_Win_unlock", &[target, window, ..]) => Self::Unlocks(lock(window, Some(target))),
            ("MPI_Win_unlock_all", &[window, ..]) => Self::Unlocks(lock(window, None)),
            _ => return None,
        })
    }
}

/// Of all processes that hold any.
#[derive(Default)]
pub(crate) struct Locks {
    held: FxHashMap<u32, Vec<HeldLock>>,
}

impl Locks {
    /// A call begins that is not part of another one.
    pub fn call(&mut self, pid: u32, function: &str, arguments: &[u64; 6]) {
        match Change::of(function, arguments) {
            Some(Change::Locks(lock)) if self.held.len() < MOST_PROCESSES || self.held.contains_key(&pid) => {
                let held = self.held.entry(pid).or_default();
                if held.len() < MOST_LOCKS {
                    held.push(lock);
                }
            }
            Some(Change::Unlocks(lock)) => {
                let Some(held) = self.held.get_mut(&pid) else { return };
                held.retain(|other| *other != lock);
                if held.is_empty() {
                    self.held.remove(&pid);
                }
            }
            _ => {}
        }
    }

    /// What a process holds, in the order in which it asked for it.
    pub fn of(&self, pid: u32) -> &[HeldLock] {
        self.held.get(&pid).map_or(&[], Vec::as_slice)
    }

    /// Calls of a process may have begun unseen, or it is gone.
    pub fn forget(&mut self, pid: u32) {
        self.held.remove(&pid);
    }

    /// Calls of all may have.
    pub fn clear(&mut self) {
        self.held.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_from_the_call_that_asks_for_it_to_the_one_that_gives_it_back() {
        let mut locks = Locks::default();
        let targets = |locks: &Locks| locks.of(7).iter().map(|lock| lock.target).collect::<Vec<_>>();
        locks.call(7, "MPI_Win_lock", &[1, 3, 0, 0xa0, 0, 0]);
        locks.call(7, "MPI_Win_lock_all", &[0, 0xb0, 0, 0, 0, 0]);
        locks.call(7, "MPI_Win_flush", &[3, 0xa0, 0, 0, 0, 0]);
        assert_eq!(targets(&locks), [Some(3), None]);
        locks.call(7, "MPI_Win_unlock", &[3, 0xa0, 0, 0, 0, 0]);
        assert_eq!(targets(&locks), [None]);
        locks.call(7, "MPI_Win_unlock_all", &[0xb0, 0, 0, 0, 0, 0]);
        assert_eq!(targets(&locks), []);
        locks.call(7, "MPI_Win_lock", &[1, 3, 0, 0xa0, 0, 0]);
        locks.forget(7);
        assert_eq!(targets(&locks), []);
    }
}
