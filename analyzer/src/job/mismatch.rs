//! Ranks that made different collective calls where they must make the same.

use std::collections::BTreeMap;

use super::signature::Signature;
use crate::tape::input::CodePlace;

/// So long after two calls differed, those who have not come are not waited for to say who is wrong.
pub(super) const OPEN_NS: u64 = 1_000_000_000;

/// Different calls that are told apart.
pub(super) const MOST_GROUPS: usize = 16;

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
    /// Groups, and a call of each.
    signatures: Vec<(usize, Signature)>,
    /// Ranks of whose calls it was not looked up where they were made.
    without_place: Vec<u32>,
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
        let without_place = calls.iter().map(|call| call.rank).collect();
        let mut signatures: Vec<(usize, Signature)> = Vec::new();
        for call in &calls {
            if signatures.iter().all(|(group, _)| *group != call.group) {
                signatures.push((call.group, call.signature));
            }
        }
        signatures.sort_by_key(|(group, _)| *group);
        Self { comm, name, number, calls, signatures, without_place, expected, first_ns }
    }

    /// What a rank called there.
    pub fn call_of(&self, rank: u32) -> Option<&DifferingCall> {
        let at = self.calls.binary_search_by_key(&rank, |call| call.rank).ok()?;
        self.calls.get(at)
    }

    /// Whether those who have not come yet may still change who is in the minority.
    pub fn is_open(&self, now_ns: u64) -> bool {
        self.calls.len() < self.expected && now_ns < self.first_ns.saturating_add(OPEN_NS)
    }

    /// The group of most ranks; of several the one with the lowest rank. And whether there are several.
    pub fn majority(&self) -> (usize, bool) {
        // How many there are of each, and the first of them.
        let mut groups: BTreeMap<usize, (usize, u32)> = BTreeMap::new();
        for call in &self.calls {
            groups.entry(call.group).or_insert((0, call.rank)).0 += 1;
        }
        let most = groups.values().map(|(count, _)| *count).max().unwrap_or(0);
        let largest = || groups.iter().filter(|(_, (count, _))| *count == most);
        let first = largest().min_by_key(|(_, (_, rank))| *rank);
        (first.map_or(0, |(group, _)| *group), largest().count() > 1)
    }

    /// A member comes later.
    pub fn join(&mut self, rank: u32, entry: &Entry) {
        let Err(at) = self.calls.binary_search_by_key(&rank, |call| call.rank) else { return };
        let known = self.signatures.iter().find(|(_, signature)| signature.fits(&entry.signature));
        let group = match known {
            Some((group, _)) => *group,
            None if self.signatures.len() < MOST_GROUPS => {
                let next = self.signatures.last().map_or(0, |(group, _)| group + 1);
                self.signatures.push((next, entry.signature));
                next
            }
            None => self.signatures.last().map_or(0, |(group, _)| *group),
        };
        let (signature, return_address) = (entry.signature, entry.return_address);
        self.calls.insert(at, DifferingCall { rank, group, signature, return_address, place: None });
        self.without_place.push(rank);
    }

    /// Looks up where calls were made that came since this was asked for last.
    pub fn find_places(&mut self, place: impl Fn(u32, u64) -> Option<CodePlace>) {
        for rank in std::mem::take(&mut self.without_place) {
            if let Ok(at) = self.calls.binary_search_by_key(&rank, |call| call.rank) {
                self.calls[at].place = place(rank, self.calls[at].return_address);
            }
        }
    }
}
