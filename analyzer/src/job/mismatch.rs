//! Ranks that made different collective calls where they must make the same.

use std::collections::BTreeSet;

use super::signature::Signature;
use crate::tape::input::CodePlace;

/// So long after two calls differed, those who have not come are not waited for to say who is wrong.
pub(super) const OPEN_NS: u64 = 1_000_000_000;

/// A rank makes a collective call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub signature: Signature,
    pub return_address: u64,
    pub time_ns: u64,
}

/// What one rank did at the first position where members differ.
#[derive(Clone, Debug)]
pub(crate) struct DifferingCall {
    /// In MPI_COMM_WORLD.
    pub rank: u32,
    /// Those that fit together have the same.
    pub group: usize,
    pub signature: Signature,
    /// In the process's space.
    pub return_address: u64,
    /// What it returns to, once that was looked up.
    pub place: Option<CodePlace>,
}

/// Members of a communicator made different calls.
#[derive(Clone, Debug)]
pub(crate) struct Mismatch {
    pub comm: u32,
    /// What the communicator is called.
    pub name: String,
    /// How many collective calls on it each rank had made with this one, from 1.
    pub number: u64,
    /// By rank.
    pub calls: Vec<DifferingCall>,
    /// All members that are followed.
    expected: usize,
    /// When the first two were seen to differ.
    pub first_ns: u64,
}

impl Mismatch {
    /// Of calls that were made; `expected`: how many members are followed.
    pub fn new(
        comm: u32,
        name: String,
        number: u64,
        calls: Vec<DifferingCall>,
        expected: usize,
        first_ns: u64,
    ) -> Self {
        Self { comm, name, number, calls, expected, first_ns }
    }

    /// Whether those who have not come yet may still change who is in the minority.
    pub fn is_open(&self, now_ns: u64) -> bool {
        self.calls.len() < self.expected && now_ns < self.first_ns.saturating_add(OPEN_NS)
    }

    /// The group of most ranks; of several the one with the lowest rank. And whether there are several.
    pub fn majority(&self) -> (usize, bool) {
        let groups: BTreeSet<usize> = self.calls.iter().map(|call| call.group).collect();
        let size = |group: &usize| self.calls.iter().filter(|call| call.group == *group).count();
        let first =
            |group: &usize| self.calls.iter().filter(|call| call.group == *group).map(|c| c.rank).min();
        let most = groups.iter().map(size).max().unwrap_or(0);
        let mut largest: Vec<usize> = groups.into_iter().filter(|group| size(group) == most).collect();
        largest.sort_by_key(first);
        (largest.first().copied().unwrap_or(0), largest.len() > 1)
    }

    /// A member comes later.
    pub fn join(&mut self, rank: u32, entry: &Entry) {
        if self.calls.iter().any(|call| call.rank == rank) {
            return;
        }
        let known = self.calls.iter().find(|call| call.signature.fits(&entry.signature));
        let next = self.calls.iter().map(|call| call.group + 1).max().unwrap_or(0);
        let group = known.map_or(next, |call| call.group);
        let (signature, return_address) = (entry.signature, entry.return_address);
        self.calls.push(DifferingCall { rank, group, signature, return_address, place: None });
        self.calls.sort_by_key(|call| call.rank);
    }
}
