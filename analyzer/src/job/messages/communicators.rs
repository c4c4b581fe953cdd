//! Communicators: the same one has a handle of its own in each process.
//!
//! Communicators are made by collective calls, which all members make in the same order: the n-th made
//! from one and the same parent is the same for all of them, but for the colors of a split and the groups of
//! MPI_Comm_create. Calls of the new members alone: see `alone`. The two sides of an intercommunicator: see `bridges`.
//!
//! What all members have given back is forgotten: a job that makes communicators without end takes no more memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::alone::{Agreed, Alone};
use super::bridges::{Bridge, Bridges};
use super::ids::{CommId, WORLD};
use super::leaks::{LeakKind, Origin};
use super::members::{MemberChoice, Members, Membership};
use super::open_handles::OpenHandles;
use crate::mpi::handles::UNDEFINED;

/// Communicators, and calls that make them, that are kept.
const MOST: usize = 1 << 16;

/// Who is in a new communicator, as its members know when their calls return: those of one call differ in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Selection {
    /// All of the old one.
    All,
    /// Those that gave this color.
    Color(i32),
    /// The first ones of the old one.
    First(usize),
    /// As many of them as a grid of these sizes has points.
    Grid(Arc<[u32]>),
    /// These.
    These(Membership),
    /// Both groups of the old one, as one.
    Merged,
    /// The old one's, and those that another leader leads.
    Bridged,
    /// All of the old one: what is made is a window.
    Window,
}

/// A call that makes a communicator and has not returned: the `number`-th from this parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    parent: CommId,
    number: u32,
    /// What the rank gave, unless it is in none.
    pub color: Option<i32>,
}

/// A call that all members of a communicator make.
#[derive(Debug, Default)]
struct CommCreation {
    choices: BTreeMap<u32, MemberChoice>,
    /// `None`: who is in it is not known.
    parts: Vec<(Selection, Option<CommId>)>,
    returned: usize,
}

#[derive(Debug)]
struct Comm {
    members: Membership,
    is_window: bool,
    /// Members that have a handle, or had one.
    joined: usize,
    /// Members that have given it back.
    freed: usize,
}

impl Comm {
    fn of(members: Membership) -> Self {
        Self { members, is_window: false, joined: 0, freed: 0 }
    }

    fn leak_kind(&self) -> LeakKind {
        if self.is_window { LeakKind::Window } else { LeakKind::Communicator }
    }
}

#[derive(Clone, Copy, Debug)]
struct Handle {
    comm: CommId,
    /// The number that its owner has there, once it is known.
    own: Option<u32>,
    /// The call that made it.
    origin: Origin,
}

/// All of a job.
#[derive(Debug, Default)]
pub(crate) struct Communicators {
    all: FxHashMap<CommId, Comm>,
    last: u32,
    makings: FxHashMap<(CommId, u32), CommCreation>,
    alone: Alone,
    /// Leaders of calls that make intercommunicators.
    bridges: Bridges<Expected>,
    /// By rank of MPI_COMM_WORLD.
    handles: FxHashMap<(u32, u64), Handle>,
    pub open: OpenHandles,
    /// How many a rank has made from each.
    made: FxHashMap<(u32, CommId), u32>,
}

impl Communicators {
    /// `size`: of MPI_COMM_WORLD.
    pub fn world_has(&mut self, size: u32) {
        if size as usize <= MOST {
            let world = || Comm::of(Members::from_iter(0..size).into());
            self.all.entry(WORLD).or_insert_with(world);
        }
    }

    /// Members, as ranks of MPI_COMM_WORLD, by their numbers: those are their ranks, but in an intercommunicator.
    pub fn members(&self, comm: CommId) -> Option<&[u32]> {
        self.membership(comm).map(|members| &members.all()[..])
    }

    /// The number of whom a member names by a rank.
    pub fn number(&self, comm: CommId, own: u32, rank: u32) -> Option<u32> {
        if comm == WORLD { Some(rank) } else { self.membership(comm)?.number(own, rank) }
    }

    /// The rank by which a number is named.
    pub fn rank(&self, comm: CommId, number: u32) -> u32 {
        self.membership(comm).map_or(number, |members| members.rank(number))
    }

    /// Who is in it, and all that is known of that.
    pub fn membership(&self, comm: CommId) -> Option<&Membership> {
        self.all.get(&comm).map(|comm| &comm.members)
    }

    /// Whether it is a window.
    pub fn is_window(&self, comm: CommId) -> bool {
        self.all.get(&comm).is_some_and(|comm| comm.is_window)
    }

    /// Whether every member is known to have called it the same.
    pub fn is_known_to_all(&self, comm: CommId) -> bool {
        let joined = self.all.get(&comm).map_or(0, |comm| comm.joined);
        comm == WORLD || self.members(comm).is_some_and(|members| members.len() == joined)
    }

    /// The communicator of a handle of a rank, and its number there.
    pub fn find(&self, rank: u32, handle: u64) -> Option<(CommId, u32)> {
        let Handle { comm, own, .. } = *self.handles.get(&(rank, handle))?;
        let find = || self.members(comm)?.iter().position(|member| *member == rank).map(|own| own as u32);
        Some((comm, own.or_else(find)?))
    }

    /// The same, and remembers it.
    pub fn place(&mut self, rank: u32, handle: u64) -> Option<(CommId, u32)> {
        let (comm, own) = self.find(rank, handle)?;
        if let Some(known) = self.handles.get_mut(&(rank, handle)) {
            known.own = Some(own);
        }
        Some((comm, own))
    }

    /// A rank calls for a new communicator, with all of the old one's members.
    pub fn begin(&mut self, rank: u32, parent: CommId, choice: Option<MemberChoice>) -> Option<Expected> {
        let number = self.made.entry((rank, parent)).or_default();
        *number = number.wrapping_add(1);
        let number = *number;
        if self.makings.len() >= MOST {
            return None;
        }
        let making = self.makings.entry((parent, number)).or_default();
        if let Some(choice) = choice {
            making.choices.insert(rank, choice);
        }
        let color = choice.map(|choice| choice.color).filter(|color| *color != UNDEFINED);
        Some(Expected { parent, number, color })
    }

    /// A rank calls that may be the leader of one side of an intercommunicator, and it is not known of which.
    pub fn may_lead(&mut self, rank: u32) {
        self.bridges.distrust(rank);
    }

    /// The leader of one side of an intercommunicator calls.
    pub fn lead(&mut self, bridge: Bridge, own: Expected) {
        let Some(other) = self.bridges.meet(bridge, own) else { return };
        let groups = self.membership(own.parent).zip(self.membership(other.parent));
        let groups = groups.filter(|(own, other)| !own.is_inter() && !other.is_inter());
        let Some(members) = groups.and_then(|(own, other)| Membership::between(own.all(), other.all()))
        else {
            return;
        };
        let Some(comm) = self.add(members) else { return };
        for side in [own, other] {
            if let Some(making) = self.makings.get_mut(&(side.parent, side.number)) {
                making.parts.push((Selection::Bridged, Some(comm)));
            }
        }
    }

    /// The call has returned with a handle; no `selection`: who is in it is not known.
    pub fn made(
        &mut self,
        (rank, origin): (u32, Origin),
        expected: Expected,
        selection: Option<Selection>,
        handle: Option<u64>,
    ) {
        handle.iter().for_each(|handle| self.made_unknown(rank, *handle));
        if let Some((selection, handle)) = selection.zip(handle)
            && let Some(comm) = self.part(expected, selection)
        {
            self.join((rank, origin), handle, comm);
        }
        self.leave(expected);
    }

    /// A call has returned with a handle, and which communicator it is for is not known.
    pub fn made_unknown(&mut self, rank: u32, handle: u64) {
        // It may have been that of another one before.
        self.give_back(rank, handle);
    }

    fn give_back(&mut self, rank: u32, handle: u64) -> Option<Handle> {
        let known = self.handles.remove(&(rank, handle))?;
        self.open.remove(rank, known.origin);
        Some(known)
    }

    /// One of those that come of a call. What is not known when the first of its members returns, never will be.
    fn part(&mut self, expected: Expected, part: Selection) -> Option<CommId> {
        let key = (expected.parent, expected.number);
        let known = self.makings.get(&key)?.parts.iter().find(|(known, _)| *known == part);
        if let Some((_, comm)) = known {
            return *comm;
        }
        let comm = self.chosen(expected, &part).and_then(|members| self.add(members));
        if let Some(made) = comm.and_then(|comm| self.all.get_mut(&comm)) {
            made.is_window = part == Selection::Window;
        }
        self.makings.get_mut(&key)?.parts.push((part, comm));
        comm
    }

    /// Who is in a part, if that is certain.
    fn chosen(&self, expected: Expected, part: &Selection) -> Option<Membership> {
        let parent = self.membership(expected.parent)?;
        let choices = || Some(&self.makings.get(&(expected.parent, expected.number))?.choices);
        match part {
            Selection::All | Selection::Window => Some(parent.clone()),
            Selection::Color(color) => parent.of_color(choices()?, *color),
            Selection::First(count) => parent.first(*count),
            Selection::Grid(sizes) => parent.gridded(sizes),
            Selection::These(members) => Some(members.clone()).filter(|_| !parent.is_inter()),
            Selection::Merged => parent.merged(choices()?),
            // Both leaders have called before anybody returns.
            Selection::Bridged => None,
        }
    }

    /// When all have returned, nobody asks for the call any more.
    fn leave(&mut self, expected: Expected) {
        let key = (expected.parent, expected.number);
        let size = self.members(expected.parent).map_or(usize::MAX, <[u32]>::len);
        if let Some(making) = self.makings.get_mut(&key) {
            making.returned += 1;
            if making.returned >= size {
                self.makings.remove(&key);
            }
        }
    }

    /// A call has returned that only the members of the new communicator make.
    pub fn made_alone(&mut self, (rank, origin): (u32, Origin), agreed: &Agreed, handle: u64) {
        self.made_unknown(rank, handle);
        let mut alone = std::mem::take(&mut self.alone);
        let comm = alone.returned(rank, agreed, || self.add(Arc::clone(&agreed.members).into()));
        self.alone = alone;
        comm.iter().for_each(|comm| self.join((rank, origin), handle, *comm));
    }

    fn add(&mut self, members: Membership) -> Option<CommId> {
        if self.all.len() >= MOST {
            return None;
        }
        self.last = self.last.checked_add(1)?;
        let comm = CommId(self.last);
        self.all.insert(comm, Comm::of(members));
        Some(comm)
    }

    fn join(&mut self, (rank, origin): (u32, Origin), handle: u64, comm: CommId) {
        let Some(known) = self.all.get_mut(&comm) else { return };
        if self.handles.len() < MOST * 16 && known.members.all().contains(&rank) {
            known.joined += 1;
            self.open.add(rank, origin, known.leak_kind());
            self.handles.insert((rank, handle), Handle { comm, own: None, origin });
        }
    }

    /// A rank gives a handle back. The communicator, if it was the last of its members.
    pub fn free(&mut self, rank: u32, handle: u64) -> Option<CommId> {
        let Handle { comm, .. } = self.give_back(rank, handle)?;
        let known = self.all.get_mut(&comm)?;
        known.freed += 1;
        (known.members.all().len() == known.freed).then_some(comm)
    }

    /// Nothing is left to be asked of a communicator.
    pub fn remove(&mut self, comm: CommId) {
        if let Some(Comm { members, .. }) = self.all.remove(&comm) {
            members.all().iter().for_each(|rank| _ = self.made.remove(&(*rank, comm)));
        }
    }

    /// Where a rank is a member, and its number there.
    pub fn places(&self, rank: u32) -> Vec<(CommId, u32)> {
        let own = |comm: &Comm| comm.members.all().iter().position(|member| *member == rank);
        self.all.iter().filter_map(|(id, comm)| Some((*id, own(comm)? as u32))).collect()
    }

    /// Handles that were made and not given back: whose they are, what of, and the calls that made them.
    pub fn not_given_back(&self) -> impl Iterator<Item = (u32, LeakKind, Origin)> {
        let all = self.handles.iter();
        all.filter_map(|(&(rank, _), open)| Some((rank, self.all.get(&open.comm)?.leak_kind(), open.origin)))
    }

    /// A rank may have done what was not seen.
    pub fn forget(&mut self, rank: u32) {
        self.handles.retain(|key, _| key.0 != rank);
        self.open.forget(rank);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn maker() -> Origin {
        Origin { row: crate::mpi::calls::row("MPI_Comm_split").expect("a call"), return_address: 0x10 }
    }

    fn job(size: u32) -> Communicators {
        let mut all = Communicators::default();
        all.world_has(size);
        all
    }

    fn split(all: &mut Communicators, rank: u32, color: i32, key: i32) -> Expected {
        all.begin(rank, WORLD, Some(MemberChoice { color, key, place: 0 })).expect("there is room")
    }

    fn dup(all: &mut Communicators, rank: u32, handle: u64) {
        let call = all.begin(rank, WORLD, None).expect("there is room");
        all.made((rank, maker()), call, Some(Selection::All), Some(handle));
    }

    fn of(all: &mut Communicators, rank: u32, handle: u64) -> Option<CommId> {
        all.place(rank, handle).map(|(comm, _)| comm)
    }

    #[test]
    fn a_split_has_those_of_one_color_in_order_of_their_keys() {
        let mut all = job(4);
        let calls: Vec<Expected> =
            (0..4).map(|rank| split(&mut all, rank, i32::from(rank == 2), -(rank as i32))).collect();
        for (rank, call) in (0..).zip(calls) {
            all.made((rank, maker()), call, call.color.map(Selection::Color), Some(0x100 + u64::from(rank)));
        }
        let (comm, own) = all.place(0, 0x100).expect("it was made");
        assert_eq!((of(&mut all, 3, 0x103), own), (Some(comm), 2));
        assert_ne!(of(&mut all, 2, 0x102), Some(comm));
        assert_eq!(all.members(comm), Some(&[3, 1, 0][..]));
        assert!(all.is_known_to_all(comm));
    }

    #[test]
    fn the_second_duplicate_of_one_rank_is_the_second_of_another() {
        let mut all = job(2);
        dup(&mut all, 0, 1);
        dup(&mut all, 0, 2);
        dup(&mut all, 1, 2);
        dup(&mut all, 1, 1);
        assert_eq!(of(&mut all, 0, 1), of(&mut all, 1, 2));
        assert_eq!(of(&mut all, 0, 2), of(&mut all, 1, 1));
        let first = of(&mut all, 0, 1).expect("it was made");
        assert_eq!(all.members(first), Some(&[0, 1][..]));
    }

    #[test]
    fn members_are_not_known_if_a_rank_was_not_seen() {
        let mut all = job(3);
        let call = split(&mut all, 0, 1, 0);
        split(&mut all, 1, 1, 0);
        all.made((0, maker()), call, call.color.map(Selection::Color), Some(5));
        assert_eq!(all.place(0, 5), None);
    }

    #[test]
    fn ranks_that_name_other_groups_get_other_communicators_of_one_call() {
        let mut all = job(4);
        let groups: [Members; 2] = [Arc::from([2, 0]), Arc::from([1, 3])];
        for rank in 0..4 {
            let call = all.begin(rank, WORLD, None).expect("there is room");
            let group = &groups[rank as usize % 2];
            all.made((rank, maker()), call, Some(Selection::These(Arc::clone(group).into())), Some(7));
        }
        let even = all.place(0, 7).expect("it was made");
        assert_eq!(even.1, 1);
        assert_eq!(of(&mut all, 2, 7), Some(even.0));
        assert_ne!(of(&mut all, 1, 7), Some(even.0));
    }

    /// The whole job as two halves, each with handle 1, that know each other by handle 2: the lower ranks by rank 0, the
    /// higher ones by their last rank.
    fn bridged(size: u32) -> Communicators {
        let mut all = job(size);
        let half = |rank| i32::from(rank >= size / 2);
        let calls: Vec<Expected> = (0..size).map(|rank| split(&mut all, rank, half(rank), 0)).collect();
        for (rank, call) in (0..).zip(calls) {
            all.made((rank, maker()), call, call.color.map(Selection::Color), Some(1));
        }
        bridge(&mut all, (0, size - 1), size);
        all
    }

    fn bridge(all: &mut Communicators, leaders: (u32, u32), size: u32) {
        let mut calls = Vec::new();
        for rank in 0..size {
            let (half, _) = all.place(rank, 1).expect("it was made");
            let call = all.begin(rank, half, None).expect("there is room");
            let other = if rank == leaders.0 { leaders.1 } else { leaders.0 };
            if rank == leaders.0 || rank == leaders.1 {
                all.lead(Bridge { peer: WORLD, leaders: (rank, other), tag: 3 }, call);
            }
            calls.push(call);
        }
        for (rank, call) in (0..).zip(calls) {
            all.made((rank, maker()), call, Some(Selection::Bridged), Some(2));
        }
    }

    #[test]
    fn two_groups_are_one_intercommunicator_whose_members_name_the_other_group() {
        let mut all = bridged(5);
        let (comm, own) = all.place(3, 2).expect("it was made");
        assert_eq!((of(&mut all, 0, 2), own), (Some(comm), 3));
        assert_eq!(all.members(comm), Some(&[0, 1, 2, 3, 4][..]));
        assert!(all.is_known_to_all(comm));
        assert_eq!((all.number(comm, own, 0), all.number(comm, 0, 0)), (Some(0), Some(2)));
        assert_eq!(all.number(comm, own, 2), None);
        assert_eq!((all.rank(comm, 0), all.rank(comm, 3)), (0, 1));
    }

    #[test]
    fn a_duplicate_of_an_intercommunicator_is_one_and_merged_it_is_none() {
        let mut all = bridged(4);
        for rank in 0..4 {
            let (inter, _) = all.place(rank, 2).expect("it was made");
            let call = all.begin(rank, inter, None).expect("there is room");
            all.made((rank, maker()), call, Some(Selection::All), Some(3));
        }
        let (comm, own) = all.place(1, 3).expect("it was made");
        assert_eq!(all.number(comm, own, 1), Some(3));
        let mut calls = Vec::new();
        for rank in 0..4 {
            let (inter, _) = all.place(rank, 3).expect("it was made");
            let choice = MemberChoice { color: i32::from(rank < 2), key: 0, place: 0 };
            calls.push(all.begin(rank, inter, Some(choice)).expect("there is room"));
        }
        for (rank, call) in (0..).zip(calls) {
            all.made((rank, maker()), call, Some(Selection::Merged), Some(4));
        }
        let (merged, own) = all.place(0, 4).expect("it was made");
        assert_eq!((all.members(merged), own), (Some(&[2, 3, 0, 1][..]), 2));
        assert_eq!(all.number(merged, own, 0), Some(0));
    }

    #[test]
    fn what_needs_one_group_is_not_known_of_two() {
        for selection in [
            Selection::First(1),
            Selection::Grid(Arc::from([1])),
            Selection::These(Members::from([0]).into()),
            Selection::Bridged,
        ] {
            let mut all = bridged(2);
            let (inter, _) = all.place(0, 2).expect("it was made");
            let call = all.begin(0, inter, None).expect("there is room");
            all.made((0, maker()), call, Some(selection.clone()), Some(5));
            assert_eq!(all.place(0, 5), None, "{selection:?}");
        }
    }

    #[test]
    fn of_leaders_that_may_have_called_before_nothing_is_known() {
        let mut all = bridged(2);
        all.may_lead(0);
        bridge(&mut all, (0, 1), 2);
        assert_eq!((all.place(0, 2), all.place(1, 2)), (None, None));
    }

    #[test]
    fn parts_of_a_grid_are_the_same_for_all_that_are_in_them() {
        let mut all = job(5);
        for rank in 0..5 {
            let call = all.begin(rank, WORLD, None).expect("there is room");
            let handle = (rank < 4).then_some(7);
            all.made((rank, maker()), call, Some(Selection::Grid(Arc::from([2, 2]))), handle);
        }
        for rank in 0..4 {
            let (grid, own) = all.place(rank, 7).expect("it was made");
            let part = all.membership(grid).and_then(|grid| grid.remaining(own, &[1, 0])).expect("a column");
            let call = all.begin(rank, grid, None).expect("there is room");
            all.made((rank, maker()), call, Some(Selection::These(part)), Some(8));
        }
        let (comm, own) = all.place(3, 8).expect("it was made");
        assert_eq!((all.members(comm), own), (Some(&[1, 3][..]), 1));
        assert_eq!(of(&mut all, 1, 8), Some(comm));
        assert_ne!(of(&mut all, 0, 8), Some(comm));
        assert!(all.is_known_to_all(comm));
    }

    #[test]
    fn who_gives_no_color_gets_no_communicator() {
        let mut all = job(2);
        let calls = [split(&mut all, 0, UNDEFINED, 0), split(&mut all, 1, 0, 0)];
        all.made((0, maker()), calls[0], calls[0].color.map(Selection::Color), Some(7));
        all.made((1, maker()), calls[1], calls[1].color.map(Selection::Color), Some(7));
        assert_eq!(all.place(0, 7), None);
        let (comm, _) = all.place(1, 7).expect("it was made");
        assert_eq!(all.members(comm), Some(&[1][..]));
    }

    #[test]
    fn who_is_not_among_the_first_gets_no_communicator() {
        let mut all = job(3);
        for rank in 0..3 {
            let call = all.begin(rank, WORLD, None).expect("there is room");
            all.made((rank, maker()), call, Some(Selection::First(2)), Some(7));
        }
        let comm = of(&mut all, 1, 7).expect("it was made");
        assert_eq!(all.members(comm), Some(&[0, 1][..]));
        assert_eq!(all.place(2, 7), None);
    }

    #[test]
    fn what_only_its_members_make_does_not_count_as_a_call_of_all() {
        let mut all = job(3);
        let pair = Agreed { parent: WORLD, tag: 4, members: Arc::from([0, 2]) };
        for (rank, handle) in [(0, 11), (0, 12), (2, 22), (2, 21)] {
            all.made_alone((rank, maker()), &pair, handle);
        }
        assert_eq!(of(&mut all, 0, 11), of(&mut all, 2, 22));
        assert_eq!(of(&mut all, 0, 12), of(&mut all, 2, 21));
        assert_ne!(of(&mut all, 0, 11), of(&mut all, 0, 12));
        (0..3).for_each(|rank| dup(&mut all, rank, 5));
        let comm = of(&mut all, 1, 5).expect("it was made");
        assert!(all.is_known_to_all(comm));
    }

    #[test]
    fn communicators_that_come_and_go_leave_nothing_behind() {
        let mut all = job(2);
        for _ in 0..1000 {
            for rank in 0..2 {
                dup(&mut all, rank, 5);
            }
            assert_eq!(all.free(0, 5), None);
            let comm = all.free(1, 5).expect("nobody has it any more");
            all.remove(comm);
            let pair = Agreed { parent: WORLD, tag: 4, members: Arc::from([0, 1]) };
            for rank in 0..2 {
                all.made_alone((rank, maker()), &pair, 6);
            }
            all.free(0, 6);
            // Of what is not known nothing is kept.
            for selection in [Selection::Merged, Selection::Bridged, Selection::First(3)] {
                for rank in 0..2 {
                    let call = all.begin(rank, WORLD, None).expect("there is room");
                    all.made((rank, maker()), call, Some(selection.clone()), Some(9));
                }
            }
            let comm = all.free(1, 6).expect("nobody has it any more");
            all.remove(comm);
        }
        let kept = (all.all.len(), all.makings.len(), all.handles.len(), all.made.len());
        assert_eq!(kept, (1, 0, 0, 2));
    }
}
