//! Locks on windows that processes hold, by the calls that they made.

use rustc_hash::FxHashMap;

use crate::mpi::calls::{Arg, CallRow, LockStep};

/// Locks of one process that are kept.
const MOST_LOCKS: usize = 256;
/// Processes that are kept.
const MOST_PROCESSES: usize = 1 << 16;

/// A lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeldLock {
    /// Lower half of the window's handle, which for MPICH is all of it.
    window: u32,
    /// Rank whose memory it is for, in the window; `None`: all of them.
    target: Option<u32>,
    is_shared: bool,
}

impl HeldLock {
    /// Whether both can not be had at the same time. What windows are called tells nothing between processes.
    pub fn excludes(&self, other: &Self) -> bool {
        let meets = self.target.is_none() || other.target.is_none() || self.target == other.target;
        meets && !(self.is_shared && other.is_shared)
    }
}

/// What a call does to locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LockChange {
    Locks(HeldLock),
    Unlocks { window: u32, target: Option<u32> },
}

impl LockChange {
    /// `None`: nothing.
    fn of(row: &CallRow, arguments: &[u64; 6]) -> Option<Self> {
        /// MPI_LOCK_SHARED of Open MPI and of MPICH; neither calls anything else so.
        const SHARED: [u32; 2] = [2, 235];
        let argument = |arg| arguments.get(row.position(arg)?).map(|word| *word as u32);
        let (window, target) = (argument(Arg::Win)?, argument(Arg::Target));
        match row.lock_step()? {
            LockStep::Takes => {
                // One on all ranks is always shared.
                let is_shared = argument(Arg::LockType).is_none_or(|kind| SHARED.contains(&kind));
                Some(Self::Locks(HeldLock { window, target, is_shared }))
            }
            LockStep::GivesBack => Some(Self::Unlocks { window, target }),
            LockStep::Flushes | LockStep::FlushesLocally => None,
        }
    }
}

/// Of all processes that hold any.
#[derive(Default)]
pub(crate) struct Locks {
    held: FxHashMap<u32, Vec<HeldLock>>,
}

impl Locks {
    /// A call begins that is not part of another one.
    pub fn call(&mut self, pid: u32, row: &CallRow, arguments: &[u64; 6]) {
        match LockChange::of(row, arguments) {
            Some(LockChange::Locks(lock))
                if self.held.len() < MOST_PROCESSES || self.held.contains_key(&pid) =>
            {
                let held = self.held.entry(pid).or_default();
                if held.len() < MOST_LOCKS {
                    held.push(lock);
                }
            }
            Some(LockChange::Unlocks { window, target }) => {
                let Some(held) = self.held.get_mut(&pid) else { return };
                held.retain(|lock| (lock.window, lock.target) != (window, target));
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
    use crate::mpi::calls::row;

    fn call(locks: &mut Locks, function: &str, arguments: &[u64; 6]) {
        locks.call(7, row(function).expect("it is in the table"), arguments);
    }

    #[test]
    fn a_lock_is_held_from_the_call_that_asks_for_it_to_the_one_that_gives_it_back() {
        let mut locks = Locks::default();
        let targets = |locks: &Locks| locks.of(7).iter().map(|lock| lock.target).collect::<Vec<_>>();
        call(&mut locks, "MPI_Win_lock", &[1, 3, 0, 0xa0, 0, 0]);
        call(&mut locks, "MPI_Win_lock_all", &[0, 0xb0, 0, 0, 0, 0]);
        call(&mut locks, "MPI_Win_flush", &[3, 0xa0, 0, 0, 0, 0]);
        assert_eq!(targets(&locks), [Some(3), None]);
        call(&mut locks, "MPI_Win_unlock", &[3, 0xa0, 0, 0, 0, 0]);
        assert_eq!(targets(&locks), [None]);
        call(&mut locks, "MPI_Win_unlock_all", &[0xb0, 0, 0, 0, 0, 0]);
        assert_eq!(targets(&locks), []);
        call(&mut locks, "MPI_Win_lock", &[1, 3, 0, 0xa0, 0, 0]);
        locks.forget(7);
        assert_eq!(targets(&locks), []);
    }

    #[test]
    fn a_lock_excludes_another_at_the_same_target_unless_both_are_shared() {
        const EXCLUSIVE: [u64; 2] = [1, 234];
        let lock = |kind: u64, target: u64| {
            let mut locks = Locks::default();
            call(&mut locks, "MPI_Win_lock", &[kind, target, 0, 0xa0, 0, 0]);
            locks.of(7)[0]
        };
        let mut locks = Locks::default();
        call(&mut locks, "MPI_Win_lock_all", &[0, 0xa0, 0, 0, 0, 0]);
        let all = locks.of(7)[0];
        for (exclusive, shared) in EXCLUSIVE.into_iter().zip([2, 235]) {
            assert!(lock(exclusive, 1).excludes(&lock(exclusive, 1)));
            assert!(
                lock(exclusive, 1).excludes(&lock(shared, 1))
                    && lock(shared, 1).excludes(&lock(exclusive, 1))
            );
            assert!(lock(exclusive, 1).excludes(&all) && all.excludes(&lock(exclusive, 1)));
            assert!(!lock(shared, 1).excludes(&lock(shared, 1)) && !lock(shared, 1).excludes(&all));
            assert!(!lock(exclusive, 1).excludes(&lock(exclusive, 2)));
        }
    }
}
