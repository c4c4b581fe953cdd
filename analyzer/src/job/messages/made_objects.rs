//! Groups, datatypes and reduction operations that ranks have made and not given back.

use rustc_hash::FxHashMap;

use super::leaks::{LeakKind, Origin};
use super::open_handles::OpenHandles;

/// Handles of all ranks that are followed.
const MOST: usize = 1 << 18;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct MadeObjects {
    /// By rank, class and handle: the call that made it, and how often that was given out. Open MPI gives out the group of a
    /// communicator again, and counts.
    open: FxHashMap<(u32, LeakKind, u64), (Origin, u32)>,
    /// The same by call.
    pub by_call: OpenHandles,
}

impl MadeObjects {
    /// A call has stored a handle.
    pub fn add(&mut self, (rank, what, handle): (u32, LeakKind, u64), origin: Origin) {
        let key = (rank, what, handle);
        let is_full = self.open.len() >= MOST;
        match self.open.get_mut(&key) {
            // It is told with the call that made it first.
            Some((first, times)) if what == LeakKind::Group => {
                *times = times.saturating_add(1);
                self.by_call.add(rank, *first, what);
                return;
            }
            // That it was given back was not seen.
            Some((first, _)) => self.by_call.remove(rank, *first),
            None if is_full => return,
            None => {}
        }
        self.by_call.add(rank, origin, what);
        self.open.insert(key, (origin, 1));
    }

    /// A handle is given back.
    pub fn remove(&mut self, rank: u32, what: LeakKind, handle: u64) {
        let key = (rank, what, handle);
        let Some((origin, times)) = self.open.get_mut(&key) else { return };
        self.by_call.remove(rank, *origin);
        *times = times.saturating_sub(1);
        if *times == 0 {
            self.open.remove(&key);
        }
    }

    /// All that are open: whose they are, what, the calls that made them, and how many there are.
    pub fn open(&self) -> impl Iterator<Item = (u32, LeakKind, Origin, u64)> {
        self.open.iter().map(|(&(rank, what, _), &(origin, times))| (rank, what, origin, u64::from(times)))
    }

    /// A rank may have done what was not seen.
    pub fn forget(&mut self, rank: u32) {
        self.open.retain(|key, _| key.0 != rank);
        self.by_call.forget(rank);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::calls::row;

    fn origin(return_address: u64) -> Origin {
        Origin { row: row("MPI_Type_contiguous").expect("a call"), return_address }
    }

    fn open(made: &MadeObjects) -> Vec<(LeakKind, u64, u64)> {
        let mut open: Vec<_> =
            made.open().map(|(_, what, origin, times)| (what, origin.return_address, times)).collect();
        open.sort_unstable();
        open
    }

    #[test]
    fn what_was_made_is_open_until_it_is_given_back_as_often() {
        let mut made = MadeObjects::default();
        for (what, handle, at) in [
            (LeakKind::Group, 7, 1),
            (LeakKind::Group, 7, 2),
            (LeakKind::Datatype, 7, 3),
            // It was given back without being seen.
            (LeakKind::Datatype, 7, 4),
            (LeakKind::Operation, 8, 5),
        ] {
            made.add((0, what, handle), origin(at));
        }
        made.remove(0, LeakKind::Operation, 8);
        made.remove(0, LeakKind::Operation, 8);
        made.remove(1, LeakKind::Datatype, 7);
        assert_eq!(open(&made), [(LeakKind::Group, 1, 2), (LeakKind::Datatype, 4, 1)]);
        made.remove(0, LeakKind::Group, 7);
        assert_eq!(open(&made), [(LeakKind::Group, 1, 1), (LeakKind::Datatype, 4, 1)]);
        made.forget(0);
        assert_eq!(open(&made), []);
    }
}
