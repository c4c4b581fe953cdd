//! How many communicators and windows each call of each rank has made that are open.
//!
//! A library has numbers for a few thousand at a time (MPICH for some two thousand): a call that makes more and more, none of
//! which is given back, ends the job at last.

use std::collections::BTreeMap;

use super::leaks::{LeakKind, Origin, Unfinished};
use crate::tape::input::CodePlace;

/// As many that one call of one rank has made are told of before the end: half of what a library has.
pub(super) const MANY: u64 = 1_000;
/// Calls of all ranks that are told apart.
const MOST: usize = 1 << 16;

/// What one call has made.
#[derive(Clone, Copy, Debug)]
struct OpenOfCall {
    origin: Origin,
    what: LeakKind,
    count: u64,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct OpenHandles {
    /// By rank and return address.
    by_call: BTreeMap<(u32, u64), OpenOfCall>,
    /// Where those are that have made many, if that is known.
    many: BTreeMap<(u32, u64), Option<CodePlace>>,
    /// Those of them whose place was not asked for yet.
    unplaced: Vec<(u32, u64)>,
}

impl OpenHandles {
    /// A rank has made one more.
    pub fn add(&mut self, rank: u32, origin: Origin, what: LeakKind) {
        let key = (rank, origin.return_address);
        if self.by_call.len() >= MOST && !self.by_call.contains_key(&key) {
            return;
        }
        let open = self.by_call.entry(key).or_insert(OpenOfCall { origin, what, count: 0 });
        open.count += 1;
        if open.count == MANY {
            self.many.insert(key, None);
            self.unplaced.push(key);
        }
    }

    /// It has given one back.
    pub fn remove(&mut self, rank: u32, origin: Origin) {
        let key = (rank, origin.return_address);
        let Some(open) = self.by_call.get_mut(&key) else { return };
        open.count = open.count.saturating_sub(1);
        if open.count < MANY {
            self.many.remove(&key);
        }
        if open.count == 0 {
            self.by_call.remove(&key);
        }
    }

    /// Nothing is known of a rank any more.
    pub fn forget(&mut self, rank: u32) {
        self.by_call.retain(|key, _| key.0 != rank);
        self.many.retain(|key, _| key.0 != rank);
        self.unplaced.retain(|key| key.0 != rank);
    }

    /// Whether a call has made many whose place is not asked for yet.
    pub fn wants_places(&self) -> bool {
        !self.unplaced.is_empty()
    }

    /// Asks where calls are.
    pub fn find_places(&mut self, place: impl Fn(u32, u64) -> Option<CodePlace>) {
        for (rank, return_address) in self.unplaced.drain(..) {
            if let Some(known) = self.many.get_mut(&(rank, return_address)) {
                *known = place(rank, return_address);
            }
        }
    }

    /// Calls that have made many that are open.
    pub fn many(&self) -> impl Iterator<Item = Unfinished> {
        self.many.iter().filter_map(|(key, place)| {
            let OpenOfCall { origin, what, count } = *self.by_call.get(key)?;
            let function = origin.row.name.as_str();
            let (arguments, peers) = (Vec::new(), Vec::new());
            Some(Unfinished { what, rank: key.0, function, site: *place, arguments, peers, count })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::calls::row;

    #[test]
    fn only_calls_that_have_many_open_ones_are_told_with_their_place() {
        let origin = |return_address| Origin { row: row("MPI_Comm_dup").expect("a call"), return_address };
        let mut open = OpenHandles::default();
        for _ in 0..MANY {
            open.add(1, origin(0x10), LeakKind::Communicator);
            open.add(1, origin(0x20), LeakKind::Communicator);
            open.remove(1, origin(0x20));
        }
        assert!(open.wants_places());
        open.find_places(|rank, at| {
            Some(CodePlace { offset_bytes: at + u64::from(rank), ..CodePlace::default() })
        });
        assert!(!open.wants_places());
        let many: Vec<Unfinished> = open.many().collect();
        assert_eq!(many.len(), 1);
        assert_eq!((many[0].rank, many[0].count, many[0].function), (1, MANY, "MPI_Comm_dup"));
        assert_eq!(many[0].site.map(|place| place.offset_bytes), Some(0x11));
        open.remove(1, origin(0x10));
        assert_eq!(open.many().count(), 0);
        open.add(1, origin(0x10), LeakKind::Communicator);
        assert_eq!(open.many().count(), 1);
        open.forget(1);
        assert_eq!(open.many().count(), 0);
    }
}
