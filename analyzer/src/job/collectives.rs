//! Collective calls of each rank on each communicator, in order, and where they differ.
//!
//! All members of a communicator must make the same collective calls in the same order: the n-th of one rank is held
//! against the n-th of each other. Only entries are needed, and it does not matter who comes first or how late. What is
//! kept is a window from the slowest member on; what falls out of it, and what a rank did that was not all seen, is not
//! compared.

use std::collections::{BTreeSet, VecDeque};

use rustc_hash::{FxHashMap, FxHashSet};

use super::messages::SequenceId;
use super::mismatch::{DifferingCall, Entry, MOST_GROUPS, Mismatch};
use super::signature::Signature;
use crate::mpi::calls::CallRow;
use crate::tape::input::CodePlace;

/// Entries of one communicator that are kept until all members have made the call.
const MOST_ENTRIES: usize = 1 << 16;
/// Where there are many members, at least so many positions are kept.
const LEAST_POSITIONS: usize = 8;
/// The same, of all communicators.
const MOST_ENTRIES_OF_ALL: usize = 1 << 21;
/// Mismatches that are kept: the first ones.
const MOST_MISMATCHES: usize = 64;

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

/// A collective call of a member that a request stands for.
#[derive(Clone, Copy, Debug)]
struct StartedRequest {
    position: u64,
    time_ns: u64,
}

/// What a member has done.
#[derive(Clone, Copy, Debug, Default)]
struct Member {
    entered: u64,
    /// Of these so many are known to be complete.
    completed: u64,
    last: Option<&'static CallRow>,
    /// The last one that a request stands for.
    last_request: Option<StartedRequest>,
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
    /// Of a communicator: which calls made what was started.
    started: Vec<u64>,
    /// Members that have given back what is started.
    freed: usize,
    /// Position of the first slot.
    base: u64,
    slots: VecDeque<Slot>,
    /// The mismatch by its number, once there is one: nothing after it is compared.
    mismatch: Option<usize>,
}

/// Of all communicators of a job.
#[derive(Debug, Default)]
pub(crate) struct Collectives {
    all: FxHashMap<SequenceId, Sequence>,
    /// Ranks of which not everything was seen.
    lost: FxHashSet<u32>,
    mismatches: Vec<Mismatch>,
    /// One was found, or has changed.
    has_news: bool,
    /// Room for slots.
    pool: Vec<Slot>,
    entries: usize,
}

/// How many collective calls a rank has made on a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemberCalls {
    pub rank: u32,
    pub entered: u64,
    /// Of these so many are known to be complete.
    pub completed: u64,
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
            let is_full = (self.slots.len() + 1) * members > MOST_ENTRIES.max(LEAST_POSITIONS * members)
                || *entries > MOST_ENTRIES_OF_ALL;
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
        of: SequenceId,
        members: &[u32],
        own: u32,
        entry: &Entry,
        name: impl FnOnce() -> String,
    ) -> Option<u64> {
        let Self { all, lost, mismatches, has_news, pool, entries } = self;
        if let Some(started) = of.started.filter(|_| !all.contains_key(&of)) {
            let made = all.entry(SequenceId::of(of.comm)).or_insert_with(|| Sequence::of(members, lost));
            made.started.push(started);
        }
        let sequence = all.entry(of).or_insert_with(|| Sequence::of(members, lost));
        let own = own as usize;
        let member = sequence.members.get_mut(own)?;
        let position = member.entered;
        member.entered += 1;
        member.last = Some(entry.signature.row);
        if entry.signature.has_request() {
            member.last_request = Some(StartedRequest { position, time_ns: entry.time_ns });
        }
        if member.is_lost {
            return None;
        }
        // What is started was compared when it was made.
        if of.started.is_some() {
            return Some(position);
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
        let mismatch = Mismatch::new(of.comm, name(), number, calls.collect(), expected, first_ns);
        sequence.mismatch = Some(mismatches.len());
        *has_news = true;
        if mismatches.len() < MOST_MISMATCHES {
            mismatches.push(mismatch);
        }
        sequence.drop_all(pool, entries);
        Some(position)
    }

    /// A call of a member, by its number in the communicator, is complete.
    pub fn complete(&mut self, of: SequenceId, own: u32) {
        let member = self.all.get_mut(&of).and_then(|sequence| sequence.members.get_mut(own as usize));
        if let Some(member) = member {
            member.completed = (member.completed + 1).min(member.entered);
        }
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
        if let Some(mut sequence) = self.all.remove(&SequenceId::of(comm)) {
            sequence.drop_all(&mut self.pool, &mut self.entries);
            for started in sequence.started {
                self.all.remove(&SequenceId { comm, started: Some(started) });
            }
        }
    }

    /// A member has given back what it started: a persistent collective call.
    pub fn free(&mut self, of: SequenceId) {
        let Some(sequence) = self.all.get_mut(&of) else { return };
        sequence.freed += 1;
        if sequence.freed >= sequence.members.len() {
            self.all.remove(&of);
            if let Some(sequence) = self.all.get_mut(&SequenceId::of(of.comm)) {
                sequence.started.retain(|position| Some(*position) != of.started);
            }
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
        self.mismatches.iter_mut().for_each(|mismatch| mismatch.find_places(&place));
    }

    /// Whether one may still change.
    pub fn is_open(&self, now_ns: u64) -> bool {
        self.mismatches.iter().any(|mismatch| mismatch.is_open(now_ns))
    }

    /// The position of a member's last call on a communicator, if that was this function; `own`: its rank there.
    pub fn last_position(&self, comm: u32, own: usize, row: &CallRow) -> Option<u64> {
        let sequence = self.all.get(&SequenceId::of(comm))?;
        let member = sequence.members.get(own).filter(|member| !member.is_lost)?;
        let is_last = member.last.is_some_and(|last| std::ptr::eq(last, row));
        member.entered.checked_sub(1).filter(|_| is_last)
    }

    /// Ranks whose last of these calls that a request stands for is this one, and when they made it. If nothing they did is unknown.
    pub fn last_requests(&self, of: SequenceId, position: u64) -> impl Iterator<Item = (u32, u64)> {
        let sequence = self.all.get(&of);
        let members = sequence.into_iter().flat_map(|sequence| sequence.ranks.iter().zip(&sequence.members));
        members.filter(|(_, member)| !member.is_lost).filter_map(move |(rank, member)| {
            let request = member.last_request.filter(|request| request.position == position)?;
            Some((*rank, request.time_ns))
        })
    }

    /// Members that have made the call at a position; `None`: that is not known of all. `is_followed`: whether all that a
    /// rank did was seen.
    pub fn arrivals(
        &self,
        of: SequenceId,
        position: u64,
        is_followed: impl Fn(u32) -> bool,
    ) -> Option<BTreeSet<u32>> {
        let sequence = self.all.get(&of)?;
        // Of what is started too: behind a mismatch, ranks may have made other calls at a position.
        self.all.get(&SequenceId::of(of.comm)).filter(|made| made.mismatch.is_none())?;
        let members = || sequence.ranks.iter().zip(&sequence.members);
        let is_known = members().all(|(rank, member)| !member.is_lost && is_followed(*rank));
        let arrived = members().filter(|(_, member)| member.entered > position).map(|(rank, _)| *rank);
        is_known.then(|| arrived.collect())
    }

    /// How many calls each member that is followed has made on a communicator.
    pub fn calls(&self, comm: u32) -> Vec<MemberCalls> {
        let Some(sequence) = self.all.get(&SequenceId::of(comm)) else { return Vec::new() };
        let members = sequence.ranks.iter().zip(&sequence.members).filter(|(_, member)| !member.is_lost);
        let calls = |(&rank, member): (&u32, &Member)| {
            let Member { entered, completed, .. } = *member;
            MemberCalls { rank, entered, completed }
        };
        members.map(calls).collect()
    }

    /// The number of the first call on a communicator that members differ in, from 1.
    pub fn differ_at(&self, comm: u32) -> Option<u64> {
        self.mismatches.iter().find(|mismatch| mismatch.comm == comm).map(|mismatch| mismatch.number)
    }
}

#[cfg(test)]
mod tests {
    use super::super::mismatch::OPEN_NS;
    use super::*;
    use crate::mpi::calls::row;
    use crate::mpi::operations::ReductionOp;
    use crate::tape::plan::DatatypeGroup;

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
            self.0.enter(SequenceId::of(comm), members, own, &entry, || "MPI_COMM_WORLD".to_owned())
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
        assert_eq!(trial.0.all[&SequenceId::of(WORLD)].slots.len(), MOST_ENTRIES / 3);
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
        assert_eq!((trial.0.all[&SequenceId::of(WORLD)].slots.len(), trial.0.entries), (0, 0));
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
                Signature { op: ReductionOp::named("MPI_SUM"), ..rooted("MPI_Reduce", 0) },
                Signature { op: ReductionOp::named("MPI_MAX"), ..rooted("MPI_Reduce", 0) },
            ),
            (
                Signature { in_place: Some(true), ..Signature::of(row("MPI_Allreduce").unwrap()) },
                Signature { in_place: Some(false), ..Signature::of(row("MPI_Allreduce").unwrap()) },
            ),
            (
                Signature { bytes: Some(8), ..rooted("MPI_Bcast", 0) },
                Signature { bytes: Some(4), ..rooted("MPI_Bcast", 0) },
            ),
            (
                Signature { group: Some(DatatypeGroup::Integer), ..rooted("MPI_Bcast", 0) },
                Signature { group: Some(DatatypeGroup::FloatingPoint), ..rooted("MPI_Bcast", 0) },
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
        assert_eq!(trial.0.all[&SequenceId::of(WORLD)].slots.len(), 0);
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
    fn calls_that_are_complete_are_counted_by_member_and_communicator() {
        let mut trial = Trial::default();
        for _ in 0..2 {
            trial.enter(0, &ALL, "MPI_Barrier");
            trial.enter(1, &ALL, "MPI_Barrier");
        }
        trial.enter(2, &[0, 2], "MPI_Barrier");
        trial.0.complete(SequenceId::of(WORLD), 0);
        trial.0.complete(SequenceId::of(1), 1);
        // Of calls that were not seen nothing is counted.
        (0..3).for_each(|_| trial.0.complete(SequenceId::of(WORLD), 1));
        trial.0.complete(SequenceId::of(7), 0);
        let calls = |trial: &Trial, comm| {
            trial.0.calls(comm).iter().map(|c| (c.rank, c.entered, c.completed)).collect::<Vec<_>>()
        };
        assert_eq!(calls(&trial, WORLD), [(0, 2, 1), (1, 2, 2), (2, 0, 0)]);
        assert_eq!(calls(&trial, 1), [(0, 0, 0), (2, 1, 1)]);
    }

    #[test]
    fn who_has_started_a_call_is_known_if_all_are_followed() {
        let mut trial = Trial::default();
        let position = trial.enter(0, &ALL, "MPI_Ibarrier").expect("it is followed");
        trial.enter(2, &ALL, "MPI_Ibarrier");
        assert_eq!(trial.0.arrivals(SequenceId::of(WORLD), position, |_| true), Some(BTreeSet::from([0, 2])));
        assert_eq!(trial.0.arrivals(SequenceId::of(WORLD), position, |rank| rank != 1), None);
        let ibarrier = row("MPI_Ibarrier").unwrap();
        assert_eq!(trial.0.last_position(WORLD, 2, ibarrier), Some(0));
        assert_eq!(trial.0.last_position(WORLD, 1, ibarrier), None);
        trial.0.lose(1);
        assert_eq!(trial.0.arrivals(SequenceId::of(WORLD), position, |_| true), None);
        let entered: Vec<(u32, u64)> = trial.0.calls(WORLD).iter().map(|c| (c.rank, c.entered)).collect();
        assert_eq!(entered, [(0, 1), (2, 1)]);
    }

    #[test]
    fn starts_of_a_persistent_call_are_counted_apart_until_all_have_given_it_back() {
        let members = [4, 5, 6];
        let mut trial = Trial::default();
        (0..3).for_each(|rank| assert_eq!(trial.enter(rank + 4, &members, "MPI_Barrier_init"), Some(0)));
        let of = SequenceId { comm: WORLD, started: Some(0) };
        let start = |trial: &mut Trial, own: u32| {
            let signature = Signature::of(row("MPI_Barrier_init").expect("it is in the table"));
            let entry = Entry { signature, return_address: 1, time_ns: 5 };
            trial.0.enter(of, &members, own, &entry, || "MPI_COMM_WORLD".to_owned())
        };
        assert_eq!(
            [start(&mut trial, 0), start(&mut trial, 0), start(&mut trial, 2)],
            [Some(0), Some(1), Some(0)]
        );
        assert_eq!(trial.0.arrivals(of, 0, |_| true), Some(BTreeSet::from([4, 6])));
        assert_eq!(trial.0.arrivals(of, 1, |_| true), Some(BTreeSet::from([4])));
        // Calls on the communicator go on as if there were none.
        assert_eq!(trial.enter(4, &members, "MPI_Barrier"), Some(1));
        assert_eq!(trial.0.entries, 3);
        (0..2).for_each(|_| trial.0.free(of));
        assert!(trial.0.all.contains_key(&of));
        trial.0.free(of);
        assert!(!trial.0.all.contains_key(&of));
        start(&mut trial, 1);
        trial.0.remove(WORLD);
        assert!(trial.0.all.is_empty() && trial.0.entries == 0);
    }
}
