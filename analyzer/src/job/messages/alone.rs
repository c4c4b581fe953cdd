//! Calls that only the members of the new communicator make (MPI_Comm_create_group): the n-th of them with the same group
//! and tag is the same for all.

use rustc_hash::{FxHashMap, FxHashSet};

use super::ids::CommId;
use super::members::Members;

/// Groups and tags of calls that are under way.
const MOST: usize = 1 << 16;
/// Calls of the same members with the same tag that are under way.
const MOST_ALIKE: usize = 64;

/// What all who make such a call pass.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Agreed {
    pub parent: CommId,
    pub tag: i32,
    pub members: Members,
}

/// A call from which some members have returned.
#[derive(Debug)]
struct GroupCreation {
    comm: CommId,
    returned: FxHashSet<u32>,
}

/// Calls from which not all have returned yet, in the order in which they were made.
#[derive(Debug, Default)]
pub(super) struct Alone(FxHashMap<Agreed, Vec<GroupCreation>>);

impl Alone {
    /// What a rank has got whose call returns; `make`: makes it when the first of its members returns.
    pub fn returned(
        &mut self,
        rank: u32,
        agreed: &Agreed,
        make: impl FnOnce() -> Option<CommId>,
    ) -> Option<CommId> {
        if self.0.len() >= MOST && !self.0.contains_key(agreed) {
            return None;
        }
        let calls = self.0.entry(agreed.clone()).or_default();
        let at = calls.iter().position(|call| !call.returned.contains(&rank)).unwrap_or(calls.len());
        if at == calls.len() && at < MOST_ALIKE {
            calls.extend(make().map(|comm| GroupCreation { comm, returned: FxHashSet::default() }));
        }
        let comm = calls.get_mut(at).map(|call| {
            call.returned.insert(rank);
            call.comm
        });
        calls.retain(|call| call.returned.len() < agreed.members.len());
        if calls.is_empty() {
            self.0.remove(agreed);
        }
        comm
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agreed(tag: i32) -> Agreed {
        Agreed { parent: CommId(0), tag, members: Members::from([3, 5]) }
    }

    /// Numbers of the communicators that ranks get from calls with tags.
    fn made<const N: usize>(all: &mut Alone, calls: [(u32, i32); N]) -> [Option<u32>; N] {
        let mut next = 0..;
        let mut make = || next.next().map(CommId);
        calls.map(|(rank, tag)| all.returned(rank, &agreed(tag), &mut make).map(|comm| comm.0))
    }

    #[test]
    fn calls_with_the_same_tag_belong_together_in_the_order_of_each_rank() {
        let mut all = Alone::default();
        let calls = [(3, 4), (3, 4), (3, 6), (5, 6), (5, 4), (3, 4), (5, 4), (5, 4)];
        assert_eq!(made(&mut all, calls), [0, 1, 2, 2, 0, 3, 1, 3].map(Some));
        assert_eq!((all.returned(3, &agreed(4), || None), all.0.len()), (None, 0));
    }

    #[test]
    fn of_too_many_that_are_alike_the_last_are_not_known() {
        let mut all = Alone::default();
        let alike = made(&mut all, [(3, 4); MOST_ALIKE + 1]);
        assert_eq!((alike[MOST_ALIKE - 1], alike[MOST_ALIKE]), (Some(MOST_ALIKE as u32 - 1), None));
        assert_eq!(made(&mut all, [(5, 4)]), [Some(0)]);
    }
}
