//! Communicators: the same one has a handle of its own in each process.
//!
//! Communicators are made by collective calls, which all members make in the same order: the n-th made
//! from one and the same parent is the same for all of them, but for the colors of a split.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::calls::Group;

/// Communicators that are kept.
const MOST: usize = 1 << 16;

/// Number of a communicator of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CommId(pub u32);

/// MPI_COMM_WORLD.
pub(crate) const WORLD: CommId = CommId(0);

/// How a communicator was made: what all its members agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Birth {
    parent: CommId,
    /// Of those made from the parent.
    number: u32,
    color: Option<i32>,
}

/// What a rank gave to a split.
#[derive(Clone, Copy)]
struct Choice {
    color: i32,
    key: i32,
}

/// A call that makes a communicator and has not returned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    birth: Birth,
    known: bool,
}

/// All of a job.
#[derive(Default)]
pub(crate) struct Communicators {
    by_birth: FxHashMap<Birth, CommId>,
    /// Ranks of MPI_COMM_WORLD, by rank; `None`: not known.
    members: Vec<Option<Vec<u32>>>,
    splits: FxHashMap<(CommId, u32), BTreeMap<u32, Choice>>,
    /// Handles, by rank of MPI_COMM_WORLD.
    handles: FxHashMap<(u32, u64), CommId>,
    /// How many a rank has made from each.
    made: FxHashMap<(u32, CommId), u32>,
}

impl Communicators {
    /// `size`: of MPI_COMM_WORLD.
    pub fn world_has(&mut self, size: u32) {
        if self.members.is_empty() {
            self.members.push(None);
        }
        if self.members[0].is_none() && size as usize <= MOST {
            self.members[0] = Some((0..size).collect());
        }
    }

    /// The communicator of a handle of a rank.
    pub fn of(&self, rank: u32, handle: u64) -> Option<CommId> {
        self.handles.get(&(rank, handle)).copied()
    }

    /// Members, as ranks of MPI_COMM_WORLD, by their ranks.
    pub fn members(&self, comm: CommId) -> Option<&[u32]> {
        self.members.get(comm.0 as usize)?.as_deref()
    }

    /// A rank calls for a new communicator.
    pub fn begin(
        &mut self,
        rank: u32,
        parent: CommId,
        group: Group,
        (color, key): (Option<i32>, Option<i32>),
    ) -> Expected {
        let number = self.made.entry((rank, parent)).or_default();
        *number += 1;
        let number = *number;
        let color = match group {
            Group::ByColor => color,
            _ => None,
        };
        if let Some((color, key)) = color.zip(key)
            && self.splits.len() < MOST
        {
            self.splits.entry((parent, number)).or_default().insert(rank, Choice { color, key });
        }
        let known = group == Group::Same || group == Group::ByColor && color.is_some();
        Expected { birth: Birth { parent, number, color }, known }
    }

    /// The call has returned with a handle.
    pub fn made(&mut self, rank: u32, expected: Expected, handle: u64) {
        if !expected.known || self.members.len() >= MOST || self.handles.len() >= MOST * 16 {
            // The handle may have been that of another one before.
            self.handles.remove(&(rank, handle));
            return;
        }
        let next = CommId(self.members.len() as u32);
        let comm = *self.by_birth.entry(expected.birth).or_insert(next);
        if comm == next {
            self.members.push(None);
        }
        if self.members[comm.0 as usize].is_none() {
            self.members[comm.0 as usize] = self.members_of(expected.birth);
        }
        self.handles.insert((rank, handle), comm);
    }

    fn members_of(&self, birth: Birth) -> Option<Vec<u32>> {
        let parent = self.members(birth.parent)?;
        let Some(color) = birth.color else { return Some(parent.to_vec()) };
        let choices = self.splits.get(&(birth.parent, birth.number))?;
        // Nobody returns before all have called; if one was not seen, who is in it is not known.
        if choices.len() < parent.len() {
            return None;
        }
        let chosen = parent.iter().enumerate().filter_map(|(at, rank)| Some((at, rank, choices.get(rank)?)));
        let mut members: Vec<(i32, usize, u32)> = chosen
            .filter(|(_, _, choice)| choice.color == color)
            .map(|(at, rank, choice)| (choice.key, at, *rank))
            .collect();
        members.sort_unstable();
        Some(members.into_iter().map(|(_, _, rank)| rank).collect())
    }

    /// Where a rank is a member, and which.
    pub fn places(&self, rank: u32) -> Vec<(CommId, u32)> {
        let all = (0..).map(CommId).zip(&self.members);
        let own = |members: &Vec<u32>| members.iter().position(|member| *member == rank);
        all.filter_map(|(comm, members)| Some((comm, members.as_ref().and_then(own)? as u32))).collect()
    }

    /// A communicator is used whose members are not known: what is done in it is not followed.
    pub fn spoil(&mut self, comm: CommId) {
        if let Some(members @ None) = self.members.get_mut(comm.0 as usize) {
            *members = Some(Vec::new());
        }
    }

    /// A handle is no longer valid.
    pub fn free(&mut self, rank: u32, handle: u64) {
        self.handles.remove(&(rank, handle));
    }

    /// A rank may have done what was not seen.
    pub fn forget(&mut self, rank: u32) {
        self.handles.retain(|key, _| key.0 != rank);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(size: u32) -> Communicators {
        let mut all = Communicators::default();
        all.world_has(size);
        all
    }

    fn split(all: &mut Communicators, rank: u32, color: i32, key: i32) -> Expected {
        all.begin(rank, WORLD, Group::ByColor, (Some(color), Some(key)))
    }

    #[test]
    fn a_split_has_those_of_one_color_in_order_of_their_keys() {
        let mut all = job(4);
        let calls: Vec<Expected> =
            (0..4).map(|rank| split(&mut all, rank, i32::from(rank == 2), -(rank as i32))).collect();
        for (rank, call) in (0..).zip(calls) {
            all.made(rank, call, 0x100 + u64::from(rank));
        }
        let comm = all.of(0, 0x100).expect("it was made");
        assert_eq!(all.of(3, 0x103), Some(comm));
        assert_ne!(all.of(2, 0x102), Some(comm));
        assert_eq!(all.members(comm), Some(&[3, 1, 0][..]));
    }

    #[test]
    fn the_second_duplicate_of_one_rank_is_the_second_of_another() {
        let mut all = job(2);
        let mut dup = |rank, handle| {
            let call = all.begin(rank, WORLD, Group::Same, (None, None));
            all.made(rank, call, handle);
        };
        dup(0, 1);
        dup(0, 2);
        dup(1, 2);
        dup(1, 1);
        assert_eq!(all.of(0, 1), all.of(1, 2));
        assert_eq!(all.of(0, 2), all.of(1, 1));
        assert_eq!(all.members(CommId(1)), Some(&[0, 1][..]));
    }

    #[test]
    fn members_are_not_known_if_a_rank_was_not_seen() {
        let mut all = job(3);
        let call = split(&mut all, 0, 1, 0);
        split(&mut all, 1, 1, 0);
        all.made(0, call, 5);
        assert!(all.of(0, 5).and_then(|comm| all.members(comm)).is_none());
    }
}
