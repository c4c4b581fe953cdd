//! MpiGroups: ranks in an order, from which communicators are made. Each process makes its own.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::members::Members;
use crate::mpi::calls::Grouping;

/// Groups of all processes that are kept.
const MOST: usize = 1 << 16;
/// More members than groups have.
const MOST_MEMBERS: usize = 1 << 16;

/// By rank of MPI_COMM_WORLD and handle: members, and how often the handle was given out.
#[derive(Debug, Default)]
pub(super) struct MpiGroups {
    all: FxHashMap<(u32, u64), (Members, u32)>,
}

impl MpiGroups {
    /// The members of a group.
    pub fn members(&self, rank: u32, handle: u64) -> Option<&Members> {
        self.all.get(&(rank, handle)).map(|(members, _)| members)
    }

    /// A call has given out a handle; `None`: it is not known for whom.
    pub fn made(&mut self, rank: u32, handle: u64, members: Option<Members>) {
        let key = (rank, handle);
        let Some(members) = members else {
            self.all.remove(&key);
            return;
        };
        let has_room = self.all.len() < MOST;
        match self.all.get_mut(&key) {
            // Libraries give out the same one again, and count.
            Some((known, times)) if *known == members => *times = times.saturating_add(1),
            Some(other) => *other = (members, 1),
            None if has_room => _ = self.all.insert(key, (members, 1)),
            None => {}
        }
    }

    /// A handle is given back.
    pub fn free(&mut self, rank: u32, handle: u64) {
        if let Some((_, times)) = self.all.get_mut(&(rank, handle)) {
            *times -= 1;
            if *times == 0 {
                self.all.remove(&(rank, handle));
            }
        }
    }

    /// A rank may have done what was not seen.
    pub fn forget(&mut self, rank: u32) {
        self.all.retain(|key, _| key.0 != rank);
    }
}

/// A group from one or two others and a list; `None`: the list is not one that MPI allows.
pub(super) fn combined(how: Grouping, first: &[u32], second: &[u32], list: &[i32]) -> Option<Members> {
    let chosen = |positions: &[usize]| -> Option<Members> {
        positions.iter().map(|at| first.get(*at).copied()).collect::<Option<Vec<u32>>>().map(Arc::from)
    };
    let others = |positions: &[usize]| -> Option<Members> {
        let left_out: FxHashSet<usize> = positions.iter().copied().collect();
        let is_valid = left_out.iter().all(|at| *at < first.len());
        let kept = first.iter().enumerate().filter(|(at, _)| !left_out.contains(at));
        is_valid.then(|| kept.map(|(_, rank)| *rank).collect())
    };
    let in_second: FxHashSet<u32> = second.iter().copied().collect();
    Some(match how {
        Grouping::OfCommunicator | Grouping::OfOtherGroup => Arc::from(first),
        Grouping::Included => chosen(&positions(list)?)?,
        Grouping::Excluded => others(&positions(list)?)?,
        Grouping::RangesIncluded => chosen(&ranges(list)?)?,
        Grouping::RangesExcluded => others(&ranges(list)?)?,
        Grouping::Union => {
            let in_first: FxHashSet<u32> = first.iter().copied().collect();
            first.iter().chain(second.iter().filter(|rank| !in_first.contains(rank))).copied().collect()
        }
        Grouping::Intersection => first.iter().filter(|rank| in_second.contains(rank)).copied().collect(),
        Grouping::Difference => first.iter().filter(|rank| !in_second.contains(rank)).copied().collect(),
    })
}

fn positions(list: &[i32]) -> Option<Vec<usize>> {
    list.iter().map(|rank| usize::try_from(*rank).ok()).collect()
}

/// From triplets: first, last, stride.
fn ranges(list: &[i32]) -> Option<Vec<usize>> {
    let (triplets, rest) = list.as_chunks::<3>();
    if !rest.is_empty() {
        return None;
    }
    let mut all = Vec::new();
    for &[first, last, stride] in triplets {
        let (first, last, stride) = (i64::from(first), i64::from(last), i64::from(stride));
        if stride == 0 || first < 0 || last < 0 {
            return None;
        }
        let mut at = first;
        while if stride > 0 { at <= last } else { at >= last } {
            if all.len() >= MOST_MEMBERS {
                return None;
            }
            all.push(usize::try_from(at).ok()?);
            at += stride;
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORLD: [u32; 6] = [0, 1, 2, 3, 4, 5];

    fn of(how: Grouping, second: &[u32], list: &[i32]) -> Option<Vec<u32>> {
        combined(how, &WORLD, second, list).map(|members| members.to_vec())
    }

    #[test]
    fn groups_have_their_members_in_the_order_of_the_standard() {
        assert_eq!(of(Grouping::Included, &[], &[4, 0, 2]), Some(vec![4, 0, 2]));
        assert_eq!(of(Grouping::Excluded, &[], &[4, 0]), Some(vec![1, 2, 3, 5]));
        assert_eq!(of(Grouping::RangesIncluded, &[], &[5, 1, -2, 0, 0, 1]), Some(vec![5, 3, 1, 0]));
        assert_eq!(of(Grouping::RangesExcluded, &[], &[0, 4, 2]), Some(vec![1, 3, 5]));
        assert_eq!(of(Grouping::Union, &[7, 3], &[]), Some(vec![0, 1, 2, 3, 4, 5, 7]));
        assert_eq!(of(Grouping::Intersection, &[7, 3, 1], &[]), Some(vec![1, 3]));
        assert_eq!(of(Grouping::Difference, &[7, 3, 1], &[]), Some(vec![0, 2, 4, 5]));
    }

    #[test]
    fn of_what_mpi_forbids_nothing_is_known() {
        assert_eq!(of(Grouping::Included, &[], &[6]), None);
        assert_eq!(of(Grouping::Excluded, &[], &[-1]), None);
        assert_eq!(of(Grouping::RangesIncluded, &[], &[0, 1]), None);
        assert_eq!(of(Grouping::RangesIncluded, &[], &[0, 5, 0]), None);
        assert_eq!(of(Grouping::RangesIncluded, &[], &[0, i32::MAX, 1]), None);
    }

    #[test]
    fn a_handle_that_was_given_out_twice_is_valid_until_it_was_given_back_twice() {
        let mut groups = MpiGroups::default();
        let world = Members::from(WORLD);
        groups.made(0, 9, Some(Arc::clone(&world)));
        groups.made(0, 9, Some(Arc::clone(&world)));
        groups.free(0, 9);
        assert_eq!(groups.members(0, 9), Some(&world));
        groups.free(0, 9);
        assert_eq!(groups.members(0, 9), None);
    }

    #[test]
    fn a_handle_given_out_for_a_group_that_is_not_known_is_not_the_old_one() {
        let mut groups = MpiGroups::default();
        groups.made(0, 9, Some(Members::from(WORLD)));
        groups.made(0, 9, None);
        assert_eq!(groups.members(0, 9), None);
    }
}
