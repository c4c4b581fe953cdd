//! Collective calls of each rank on each communicator, in order, and where they differ.
//!
//! All members of a communicator must make the same collective calls in the same order: the n-th of one rank is held
//! against the n-th of each other. Only entries are needed, and it does not matter who comes first or how late. What is
//! kept is a window from the slowest member on; what falls out of it, and what a rank did that was not all seen, is not
//! compared.

use std::collections::{BTreeSet, VecDeque};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::mpi::calls::CallRow;
use crate::tape::input::CodePlace;

/// Entries of one communicator that are kept until all members have made the call.
const MOST_ENTRIES: usize = 1 << 16;
/// The same, of all communicators.
const MOST_ENTRIES_OF_ALL: usize = 1 << 21;
/// Different calls at one position that are told apart.
const MOST_GROUPS: usize = 16;
/// Mismatches that are kept: the first ones.
const MOST_MISMATCHES: usize = 64;
/// So long after two calls differed, those who have not come are not waited for to say who is wrong.
const OPEN_NS: u64 = 1_000_000_000;

/// What must be the same in all members, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signature {
    pub row: &'static CallRow,
    /// A persistent call that is started, not one that is prepared.
    pub starts: bool,
    pub root: Option<i32>,
    /// One that MPI has from the beginning, as the same number in all ranks.
    pub op: Option<i64>,
    pub count: Option<i32>,
    /// Of what must be of the same length everywhere.
    pub bytes: Option<u64>,
}

/// A reduction operation by its number; of Open MPI only that is known.
fn op_name(op: i64) -> String {
    const MPICH_FIRST: i64 = 0x5800_0001;
    const MPICH: [&str; 14] = [
        "MPI_MAX",
        "MPI_MIN",
        "MPI_SUM",
        "MPI_PROD",
        "MPI_LAND",
        "MPI_BAND",
        "MPI_LOR",
        "MPI_BOR",
        "MPI_LXOR",
        "MPI_BXOR",
        "MPI_MINLOC",
        "MPI_MAXLOC",
        "MPI_REPLACE",
        "MPI_NO_OP",
    ];
    let name = usize::try_from(op - MPICH_FIRST).ok().and_then(|at| MPICH.get(at));
    name.map_or_else(|| format!("{op:#x}"), |name| (*name).to_owned())
}

impl Signature {
    pub fn of(row: &'static CallRow) -> Self {
        Self { row, starts: false, root: None, op: None, count: None, bytes: None }
    }

    /// What of it must be the same everywhere: names and values.
    pub fn shown(&self) -> Vec<(String, String)> {
        let root = self.root.map(|root| ("root", root.to_string()));
        let count = self.count.map(|count| ("count", count.to_string()));
        let bytes = self.bytes.map(|bytes| ("bytes", bytes.to_string()));
        let op = self.op.map(|op| ("op", op_name(op)));
        let all = root.into_iter().chain(count).chain(bytes).chain(op);
        all.map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// What is not known of one is as in the other.
    fn fits(&self, other: &Self) -> bool {
        fn same<T: PartialEq>(a: Option<T>, b: Option<T>) -> bool {
            a.is_none() || b.is_none() || a == b
        }
        std::ptr::eq(self.row, other.row)
            && self.starts == other.starts
            && same(self.root, other.root)
            && same(self.op, other.op)
            && same(self.bytes, other.bytes)
    }

    /// Takes what was not known from one that fits.
    fn learn(&mut self, other: &Self) {
        self.root = self.root.or(other.root);
        self.op = self.op.or(other.op);
        self.count = self.count.or(other.count);
        self.bytes = self.bytes.or(other.bytes);
    }
}

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
}

/// One rank's call at one position.
#[derive(Clone, Copy, Debug, Default)]
struct SlotEntry {
    /// From 1; 0: it has not come.
    group: u8,
    return_address: u64,
}

/// The calls at one position.
#[derive(Debug, Default)]
struct Slot {
    groups: Vec<Signature>,
    /// By number in the communicator.
    arrivals: Vec<SlotEntry>,
    /// Members that are followed and have come.
    arrived: usize,
}

/// What a member has done.
#[derive(Clone, Copy, Debug, Default)]
struct Member {
    entered: u64,
    last: Option<&'static CallRow>,
    is_lost: bool,
}

/// Calls on one communicator.
#[derive(Debug, Default)]
struct Sequence {
    /// Ranks of MPI_COMM_WORLD, by their numbers in it.
    ranks: Vec<u32>,
    members: Vec<Member>,
    /// Members that are not followed any more.
    lost: usize,
    /// Position of the first slot.
    base: u64,
    slots: VecDeque<Slot>,
    /// The mismatch by its number, once there is one: nothing after it is compared.
    mismatch: Option<usize>,
}

/// Of all communicators of a job, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Collectives {
    all: FxHashMap<u32, Sequence>,
    /// Ranks of which not everything was seen.
    lost: FxHashSet<u32>,
    mismatches: Vec<Mismatch>,
    /// One was found, or has changed.
    has_news: bool,
    /// Room for slots.
    pool: Vec<Slot>,
    entries: usize,
}

/// What a rank has entered on a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entered {
    pub rank: u32,
    pub count: u64,
}

impl Sequence {
    fn of(ranks: &[u32], lost: &FxHashSet<u32>) -> Self {
        let members: Vec<Member> =
            ranks.iter().map(|rank| Member { is_lost: lost.contains(rank), ..Member::default() }).collect();
        let lost = members.iter().filter(|member| member.is_lost).count();
        Self { ranks: ranks.to_vec(), members, lost, ..Self::default() }
    }

    fn live(&self) -> usize {
        self.members.len() - self.lost
    }

    /// The slot of a position, if that is in the window or just behind it.
    fn slot(&mut self, position: u64, pool: &mut Vec<Slot>, entries: &mut usize) -> Option<usize> {
        let at = usize::try_from(position.checked_sub(self.base)?).ok()?;
        if at > self.slots.len() {
            return None;
        }
        if at == self.slots.len() {
            let members = self.members.len();
            let is_full = (self.slots.len() + 1) * members > MOST_ENTRIES || *entries > MOST_ENTRIES_OF_ALL;
            if is_full {
                self.drop_first(pool, entries);
            }
            let mut slot = pool.pop().unwrap_or_default();
            slot.groups.clear();
            slot.arrivals.clear();
            slot.arrivals.resize(members, SlotEntry::default());
            slot.arrived = 0;
            *entries += members;
            self.slots.push_back(slot);
        }
        usize::try_from(position.checked_sub(self.base)?).ok()
    }

    fn drop_first(&mut self, pool: &mut Vec<Slot>, entries: &mut usize) {
        const MOST_POOLED: usize = 256;
        if let Some(slot) = self.slots.pop_front() {
            self.base += 1;
            *entries -= slot.arrivals.len().min(*entries);
            if pool.len() < MOST_POOLED {
                pool.push(slot);
            }
        }
    }

    fn drop_whole(&mut self, pool: &mut Vec<Slot>, entries: &mut usize) {
        while self.slots.front().is_some_and(|slot| slot.arrived >= self.live()) {
            self.drop_first(pool, entries);
        }
    }

    fn drop_all(&mut self, pool: &mut Vec<Slot>, entries: &mut usize) {
        while !self.slots.is_empty() {
            self.drop_first(pool, entries);
        }
    }

    /// A member is not followed any more.
    fn lose(&mut self, at: usize) {
        let Some(member) = self.members.get_mut(at).filter(|member| !member.is_lost) else { return };
        member.is_lost = true;
        self.lost += 1;
        for slot in &mut self.slots {
            slot.arrived -= usize::from(slot.arrivals[at].group > 0);
        }
    }
}

impl Slot {
    /// Puts a call in; says whether it fits the others.
    fn put(&mut self, own: usize, entry: &Entry) -> bool {
        let known = self.groups.iter().position(|group| group.fits(&entry.signature));
        let group = match known {
            Some(known) => {
                self.groups[known].learn(&entry.signature);
                known
            }
            None if self.groups.len() < MOST_GROUPS => {
                self.groups.push(entry.signature);
                self.groups.len() - 1
            }
            None => self.groups.len() - 1,
        };
        self.arrivals[own] = SlotEntry { group: group as u8 + 1, return_address: entry.return_address };
        self.arrived += 1;
        self.groups.len() == 1
    }
}

impl Collectives {
    /// A member makes a call; `members`: of the communicator, as ranks of MPI_COMM_WORLD; `own`: its number there.
    /// `name`: of the communicator. The position of the call in the member's calls on it, from 0.
    pub fn enter(
        &mut self,
        comm: u32,
        members: &[u32],
        own: u32,
        entry: &Entry,
        name: impl FnOnce() -> String,
    ) -> Option<u64> {
        let Self { all, lost, mismatches, has_news, pool, entries } = self;
        let sequence = all.entry(comm).or_insert_with(|| Sequence::of(members, lost));
        let own = own as usize;
        let member = sequence.members.get_mut(own)?;
        let position = member.entered;
        member.entered += 1;
        member.last = Some(entry.signature.row);
        if member.is_lost {
            return None;
        }
        if let Some(mismatch) = sequence.mismatch.and_then(|at| mismatches.get_mut(at)) {
            if mismatch.number == position + 1 {
                mismatch.join(sequence.ranks[own], entry);
                *has_news = true;
            }
            return Some(position);
        }
        let Some(at) = sequence.slot(position, pool, entries) else { return Some(position) };
        if sequence.slots[at].put(own, entry) {
            sequence.drop_whole(pool, entries);
            return Some(position);
        }
        let slot = &sequence.slots[at];
        let calls = slot.arrivals.iter().zip(&sequence.ranks).filter(|(arrival, _)| arrival.group > 0);
        let calls = calls.map(|(arrival, &rank)| {
            let group = usize::from(arrival.group) - 1;
            let return_address = arrival.return_address;
            DifferingCall { rank, group, signature: slot.groups[group], return_address, place: None }
        });
        let expected = sequence.members.len() - sequence.lost;
        let (number, first_ns) = (position + 1, entry.time_ns);
        let mismatch = Mismatch { comm, name: name(), number, calls: calls.collect(), expected, first_ns };
        sequence.mismatch = Some(mismatches.len());
        *has_news = true;
        if mismatches.len() < MOST_MISMATCHES {
            mismatches.push(mismatch);
        }
        sequence.drop_all(pool, entries);
        Some(position)
    }

    /// What a rank does is not known from here on.
    pub fn lose(&mut self, rank: u32) {
        if !self.lost.insert(rank) {
            return;
        }
        for sequence in self.all.values_mut() {
            if let Some(at) = sequence.ranks.iter().position(|member| *member == rank) {
                sequence.lose(at);
                sequence.drop_whole(&mut self.pool, &mut self.entries);
            }
        }
    }

    /// All members have given a communicator back.
    pub fn remove(&mut self, comm: u32) {
        if let Some(mut sequence) = self.all.remove(&comm) {
            sequence.drop_all(&mut self.pool, &mut self.entries);
        }
    }

    /// Where members of a communicator differed: the first position of each.
    pub fn mismatches(&self) -> &[Mismatch] {
        &self.mismatches
    }

    /// Whether one was found, or has changed, since the last call.
    pub fn take_mismatched(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    /// Whether places of calls that differ are to be looked up.
    #[inline]
    pub fn wants_places(&self) -> bool {
        self.has_news
    }

    /// Looks up places of calls that differ; `place`: of a rank's call, by where it returns to.
    pub fn find_places(&mut self, place: impl Fn(u32, u64) -> Option<CodePlace>) {
        let calls = self.mismatches.iter_mut().flat_map(|mismatch| &mut mismatch.calls);
        for call in calls.filter(|call| call.place.is_none()) {
            call.place = place(call.rank, call.return_address);
        }
    }

    /// Whether one may still change.
    pub fn is_open(&self, now_ns: u64) -> bool {
        self.mismatches.iter().any(|mismatch| mismatch.is_open(now_ns))
    }

    /// The position of a rank's last call on a communicator, if that was this function.
    pub fn last_position(&self, comm: u32, rank: u32, row: &CallRow) -> Option<u64> {
        let sequence = self.all.get(&comm)?;
        let at = sequence.ranks.iter().position(|member| *member == rank)?;
        let member = sequence.members.get(at).filter(|member| !member.is_lost)?;
        let is_last = member.last.is_some_and(|last| std::ptr::eq(last, row));
        member.entered.checked_sub(1).filter(|_| is_last)
    }

    /// Members that have made the call at a position; `None`: that is not known of all. `is_followed`: whether all that a
    /// rank did was seen.
    pub fn arrivals(
        &self,
        comm: u32,
        position: u64,
        is_followed: impl Fn(u32) -> bool,
    ) -> Option<BTreeSet<u32>> {
        let sequence = self.all.get(&comm).filter(|sequence| sequence.mismatch.is_none())?;
        let members = || sequence.ranks.iter().zip(&sequence.members);
        let is_known = members().all(|(rank, member)| !member.is_lost && is_followed(*rank));
        let arrived = members().filter(|(_, member)| member.entered > position).map(|(rank, _)| *rank);
        is_known.then(|| arrived.collect())
    }

    /// How many calls each member that is followed has made on a communicator.
    pub fn entered(&self, comm: u32) -> Vec<Entered> {
        let Some(sequence) = self.all.get(&comm) else { return Vec::new() };
        let members = sequence.ranks.iter().zip(&sequence.members).filter(|(_, member)| !member.is_lost);
        members.map(|(&rank, member)| Entered { rank, count: member.entered }).collect()
    }

    /// The number of the first call on a communicator that members differ in, from 1.
    pub fn differ_at(&self, comm: u32) -> Option<u64> {
        self.mismatches.iter().find(|mismatch| mismatch.comm == comm).map(|mismatch| mismatch.number)
    }
}

impl Mismatch {
    /// A member comes later.
    fn join(&mut self, rank: u32, entry: &Entry) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::calls::row;

    const WORLD: u32 = 0;

    #[derive(Default)]
    struct Trial(Collectives);

    impl Trial {
        fn enter(&mut self, rank: u32, members: &[u32], function: &str) -> Option<u64> {
            self.with(rank, members, Signature::of(row(function).expect("it is in the table")))
        }

        fn with(&mut self, rank: u32, members: &[u32], signature: Signature) -> Option<u64> {
            let own = members.iter().position(|member| *member == rank)? as u32;
            let entry = Entry { signature, return_address: u64::from(rank), time_ns: 5 };
            let comm = if members.len() == 3 { WORLD } else { 1 };
            self.0.enter(comm, members, own, &entry, || "MPI_COMM_WORLD".to_owned())
        }

        /// Of the first mismatch: its number, who is in the majority, who is not, and whether that is certain.
        fn first(&self) -> Option<(u64, Vec<u32>, Vec<u32>, bool)> {
            let mismatch = self.0.mismatches().first()?;
            let (most, is_tie) = mismatch.majority();
            let of = |is_most: bool| {
                let calls = mismatch.calls.iter().filter(|call| (call.group == most) == is_most);
                calls.map(|call| call.rank).collect()
            };
            Some((mismatch.number, of(true), of(false), !is_tie))
        }
    }

    const ALL: [u32; 3] = [0, 1, 2];

    fn rooted(function: &str, root: i32) -> Signature {
        Signature { root: Some(root), ..Signature::of(row(function).expect("it is in the table")) }
    }

    #[test]
    fn ranks_that_are_only_late_accuse_nobody() {
        let mut trial = Trial::default();
        for _ in 0..3 * MOST_ENTRIES {
            trial.enter(0, &ALL, "MPI_Barrier");
            trial.enter(2, &ALL, "MPI_Barrier");
        }
        assert_eq!(trial.0.all[&WORLD].slots.len(), MOST_ENTRIES / 3);
        // What it comes to now is not remembered any more.
        trial.enter(1, &ALL, "MPI_Bcast");
        assert!(trial.0.mismatches().is_empty());
    }

    #[test]
    fn what_all_have_done_is_forgotten() {
        let mut trial = Trial::default();
        for _ in 0..1000 {
            for rank in [2, 0, 1] {
                trial.enter(rank, &ALL, "MPI_Barrier");
                trial.enter(rank, &ALL, "MPI_Ibarrier");
            }
        }
        assert_eq!((trial.0.all[&WORLD].slots.len(), trial.0.entries), (0, 0));
        assert!(trial.0.mismatches().is_empty());
    }

    #[test]
    fn the_first_call_that_differs_is_told_with_the_few_at_fault() {
        let mut trial = Trial::default();
        ALL.iter().for_each(|rank| _ = trial.enter(*rank, &ALL, "MPI_Barrier"));
        trial.enter(1, &ALL, "MPI_Bcast");
        assert_eq!(trial.first(), None);
        trial.enter(0, &ALL, "MPI_Barrier");
        assert_eq!(trial.first(), Some((2, vec![0], vec![1], false)));
        assert!(trial.0.mismatches()[0].is_open(5 + OPEN_NS - 1));
        assert!(!trial.0.mismatches()[0].is_open(5 + OPEN_NS));
        trial.enter(2, &ALL, "MPI_Barrier");
        assert_eq!(trial.first(), Some((2, vec![0, 2], vec![1], true)));
        assert!(!trial.0.mismatches()[0].is_open(5));
        // All that follows is out of step.
        trial.enter(1, &ALL, "MPI_Barrier");
        trial.enter(0, &ALL, "MPI_Reduce");
        assert_eq!(trial.0.mismatches().len(), 1);
    }

    #[test]
    fn blocking_and_nonblocking_calls_and_other_roots_do_not_match() {
        for (one, other) in [
            (rooted("MPI_Bcast", 0), rooted("MPI_Bcast", 1)),
            (Signature::of(row("MPI_Barrier").unwrap()), Signature::of(row("MPI_Ibarrier").unwrap())),
            (
                Signature { op: Some(3), ..rooted("MPI_Reduce", 0) },
                Signature { op: Some(1), ..rooted("MPI_Reduce", 0) },
            ),
            (
                Signature { bytes: Some(8), ..rooted("MPI_Bcast", 0) },
                Signature { bytes: Some(4), ..rooted("MPI_Bcast", 0) },
            ),
        ] {
            let mut trial = Trial::default();
            trial.with(0, &ALL, one);
            trial.with(1, &ALL, other);
            assert!(trial.first().is_some(), "{one:?} {other:?}");
        }
    }

    #[test]
    fn what_is_not_known_of_a_call_is_as_in_the_others_and_told_by_them() {
        let mut trial = Trial::default();
        trial.enter(0, &ALL, "MPI_Bcast");
        trial.with(1, &ALL, rooted("MPI_Bcast", 1));
        assert_eq!(trial.first(), None);
        trial.with(2, &ALL, rooted("MPI_Bcast", 2));
        assert_eq!(trial.first(), Some((1, vec![0, 1], vec![2], true)));
    }

    #[test]
    fn of_a_rank_that_is_lost_nothing_is_compared_and_nobody_waits_for_it() {
        let mut trial = Trial::default();
        trial.enter(0, &ALL, "MPI_Barrier");
        trial.enter(1, &ALL, "MPI_Barrier");
        trial.0.lose(2);
        assert_eq!(trial.0.all[&WORLD].slots.len(), 0);
        assert_eq!(trial.enter(2, &ALL, "MPI_Bcast"), None);
        assert_eq!(trial.first(), None);
        // Nor on a communicator that is met later.
        trial.enter(0, &[0, 2], "MPI_Barrier");
        assert_eq!(trial.enter(2, &[0, 2], "MPI_Bcast"), None);
        trial.enter(0, &ALL, "MPI_Barrier");
        trial.enter(1, &ALL, "MPI_Bcast");
        assert_eq!(trial.first(), Some((2, vec![0], vec![1], false)));
    }

    #[test]
    fn communicators_are_compared_each_for_itself() {
        let mut trial = Trial::default();
        trial.enter(0, &ALL, "MPI_Barrier");
        trial.enter(0, &[0, 2], "MPI_Bcast");
        trial.enter(2, &[0, 2], "MPI_Bcast");
        trial.enter(2, &ALL, "MPI_Barrier");
        trial.enter(1, &ALL, "MPI_Barrier");
        assert_eq!(trial.first(), None);
        trial.0.remove(1);
        // The same number may be given to another one.
        trial.enter(2, &[0, 2], "MPI_Barrier");
        trial.enter(0, &[0, 2], "MPI_Barrier");
        assert_eq!(trial.first(), None);
    }

    #[test]
    fn who_has_started_a_call_is_known_if_all_are_followed() {
        let mut trial = Trial::default();
        let position = trial.enter(0, &ALL, "MPI_Ibarrier").expect("it is followed");
        trial.enter(2, &ALL, "MPI_Ibarrier");
        assert_eq!(trial.0.arrivals(WORLD, position, |_| true), Some(BTreeSet::from([0, 2])));
        assert_eq!(trial.0.arrivals(WORLD, position, |rank| rank != 1), None);
        let ibarrier = row("MPI_Ibarrier").unwrap();
        assert_eq!(trial.0.last_position(WORLD, 2, ibarrier), Some(0));
        assert_eq!(trial.0.last_position(WORLD, 1, ibarrier), None);
        trial.0.lose(1);
        assert_eq!(trial.0.arrivals(WORLD, position, |_| true), None);
        let entered: Vec<(u32, u64)> = trial.0.entered(WORLD).iter().map(|e| (e.rank, e.count)).collect();
        assert_eq!(entered, [(0, 1), (2, 1)]);
    }
}
