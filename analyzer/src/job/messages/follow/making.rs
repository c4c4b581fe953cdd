//! Communicators and groups: who is in those that calls make.

use std::sync::Arc;

use super::Begun;
use super::collective::{name_of, number_text};
use super::{Follower, integers, origin};
use crate::job::messages::alone::Agreed;
use crate::job::messages::assemble::Call;
use crate::job::messages::bridges::Bridge;
use crate::job::messages::communicators::{Expected, Selection};
use crate::job::messages::groups;
use crate::job::messages::ids::CallId;
use crate::job::messages::ids::CommId;
use crate::job::messages::leaks::LeakKind;
use crate::job::messages::members::{MemberChoice, Members, Membership};
use crate::mpi::calls::{Arg, DescriptionClass, Group, Grouping, Making, Meeting};

impl Follower {
    pub(super) fn begin_communicator(&mut self, call: &Call, id: CallId, group: Group) -> Option<Expected> {
        if !self.is_complete(call) {
            return None;
        }
        let place = self.place(call, call.argument(Arg::Comm)?);
        let choice = self.choice(call, group, place);
        let expected = place.and_then(|(parent, _)| self.communicators.begin(id.rank, parent, choice));
        if group == Group::Bridged {
            self.lead(call, id.rank, place, expected);
        }
        expected
    }

    /// What a rank gives that all of the old communicator must know.
    fn choice(&self, call: &Call, group: Group, place: Option<(CommId, u32)>) -> Option<MemberChoice> {
        match group {
            Group::ByColor => Some(MemberChoice {
                color: integer(call, Arg::Color)?,
                key: integer(call, Arg::Key)?,
                place: 0,
            }),
            Group::SharedMemory => {
                let (parent, _) = place?;
                let is_inter = self.communicators.membership(parent)?.is_inter();
                let builtin = self.builtin(call)?;
                let color = builtin.color_of_type(integer(call, Arg::SplitType)?)?;
                let is_plain = !is_inter && !builtin.may_divide(call.argument(Arg::Info)?);
                // Who is in another container may or may not be on the same node for the library.
                let place = self.processes.get(call.process).pid_namespace;
                is_plain.then_some(MemberChoice { color, key: integer(call, Arg::Key)?, place })
            }
            Group::Merged => {
                Some(MemberChoice { color: (integer(call, Arg::High)? != 0).into(), key: 0, place: 0 })
            }
            _ => None,
        }
    }

    /// A rank may be the leader of its side, whose arguments alone tell who is on the other one.
    fn lead(&mut self, call: &Call, rank: u32, place: Option<(CommId, u32)>, expected: Option<Expected>) {
        let leader = integer(call, Arg::LocalLeader).and_then(|leader| u32::try_from(leader).ok());
        if place.is_some_and(|(_, own)| Some(own) != leader) {
            return;
        }
        match self.bridge(call).zip(expected) {
            Some((bridge, side)) => self.communicators.lead(bridge, side),
            None => self.communicators.may_lead(rank),
        }
    }

    fn bridge(&mut self, call: &Call) -> Option<Bridge> {
        let (peer, own) = self.place(call, call.argument(Arg::PeerComm)?)?;
        let leader = u32::try_from(integer(call, Arg::RemoteLeader)?).ok()?;
        let number = self.communicators.number(peer, own, leader)?;
        let members = self.communicators.members(peer)?;
        let leaders = (self.rank(call)?, *members.get(number as usize)?);
        Some(Bridge { peer, leaders, tag: integer(call, Arg::MakingTag)? })
    }

    pub(super) fn communicator(&mut self, call: &Call, rank: u32, making: Making, begun: &Begun) {
        let builtin = self.builtin(call);
        let is_one = |handle: &u64| builtin.is_some_and(|builtin| !builtin.is_no_communicator(*handle));
        let handle = [Arg::NewComm, Arg::NewWin].into_iter().find_map(|arg| self.handle(call, arg, true));
        let handle = handle.filter(is_one);
        let selection = self.selection(call, rank, making.group, begun);
        if making.meeting == Meeting::NewMembers {
            let Some(handle) = handle else { return };
            let parent = call.argument(Arg::Comm).and_then(|comm| self.place(call, comm));
            let tag = call.argument(Arg::MakingTag);
            let known = parent.zip(tag).filter(|_| self.is_complete(call));
            match (known, selection) {
                (Some(((parent, _), tag)), Some(Selection::These(group))) if group.all().contains(&rank) => {
                    let agreed = Agreed { parent, tag: tag as i32, members: Arc::clone(group.all()) };
                    self.communicators.made_alone((rank, origin(call)), &agreed, handle);
                }
                _ => self.communicators.made_unknown(rank, handle),
            }
            return;
        }
        match begun.communicator {
            Some(expected) => {
                self.communicators.made((rank, origin(call)), expected, selection, handle);
            }
            None => handle.iter().for_each(|handle| self.communicators.made_unknown(rank, *handle)),
        }
        if making.group == Group::Window {
            self.made_window(call);
        }
    }

    /// Who is in a new communicator.
    fn selection(&mut self, call: &Call, rank: u32, group: Group, begun: &Begun) -> Option<Selection> {
        // Ranks that may be numbered anew are in an order that only the library knows.
        if call.row.position(Arg::Reorder).is_some() && integer(call, Arg::Reorder) != Some(0) {
            return None;
        }
        match group {
            Group::Same => Some(Selection::All),
            Group::ByColor | Group::SharedMemory => begun.communicator?.color.map(Selection::Color),
            Group::Given => self.group(call, rank, 0).map(|group| Selection::These(Arc::clone(group).into())),
            Group::Grid => sizes(call).map(Selection::Grid),
            Group::Nodes => usize::try_from(integer(call, Arg::Number)?).ok().map(Selection::First),
            Group::Subgrid => self.subgrid(call).map(Selection::These),
            Group::Bridged => Some(Selection::Bridged),
            Group::Merged => Some(Selection::Merged),
            Group::Window => Some(Selection::Window),
        }
    }

    fn subgrid(&mut self, call: &Call) -> Option<Membership> {
        let (parent, own) = self.place(call, call.argument(Arg::Comm)?)?;
        let remain: Vec<i32> = integers(call.pointed(Arg::Remain, false)).collect();
        self.communicators.membership(parent)?.remaining(own, &remain)
    }

    /// Where the handle is of the communicator or window that a call gives back.
    pub(super) fn freed(&self, call: &Call) -> Option<u64> {
        [Arg::Comm, Arg::FreedWin].into_iter().find_map(|arg| self.handle(call, arg, false))
    }

    pub(super) fn free_communicator(&mut self, call: &Call, rank: u32) {
        let Some(handle) = self.freed(call) else { return };
        let window = self.place(call, handle).filter(|_| call.row.position(Arg::FreedWin).is_some());
        let Some(comm) = self.communicators.free(rank, handle) else { return };
        if let Some((window, own)) = window {
            self.freed_window(call, window, own);
        }
        let size = self.communicators.members(comm).map_or(0, <[u32]>::len);
        if self.matching.remove(comm, size as u32) {
            self.communicators.remove(comm);
            self.collectives.remove(comm.0);
        }
    }

    /// The n-th group that a call is given.
    pub(super) fn group(&self, call: &Call, rank: u32, n: usize) -> Option<&Members> {
        let positions = call.row.args.iter().enumerate().filter(|(_, arg)| **arg == Arg::Group);
        let (at, _) = positions.clone().nth(n)?;
        self.groups.members(rank, self.builtin(call)?.handle(call.word(at)?))
    }

    pub(super) fn make_group(&mut self, call: &Call, rank: u32, how: Grouping) {
        let Some(handle) = self.handle(call, Arg::NewGroup, true) else { return };
        let members = self.new_group(call, rank, how);
        // One without members may be MPI_GROUP_EMPTY, which nobody has to give back.
        if members.as_ref().is_some_and(|members| !members.is_empty()) {
            self.made.add((rank, LeakKind::Group, handle), origin(call));
        }
        self.groups.made(rank, handle, members);
    }

    pub(super) fn make_description(&mut self, call: &Call, rank: u32, class: DescriptionClass) {
        if let Some(handle) = self.handle(call, Arg::NewObject, true) {
            self.made.add((rank, leak_of(class), handle), origin(call));
        }
    }

    pub(super) fn free_description(&mut self, call: &Call, rank: u32, class: DescriptionClass) {
        if let Some(handle) = self.handle(call, Arg::OldObject, false) {
            self.made.remove(rank, leak_of(class), handle);
        }
    }

    fn new_group(&mut self, call: &Call, rank: u32, how: Grouping) -> Option<Members> {
        if let Grouping::OfCommunicator | Grouping::OfOtherGroup = how {
            let (comm, own) = self.place(call, call.argument(Arg::Comm)?)?;
            let members = self.communicators.membership(comm)?;
            return match (how, members.is_inter()) {
                (Grouping::OfCommunicator, false) => Some(Arc::clone(members.all())),
                (Grouping::OfCommunicator, true) => Some(members.local(own).into()),
                (_, is_inter) => is_inter.then(|| members.remote(own).into()),
            };
        }
        let list = match how {
            Grouping::Included | Grouping::Excluded => Some(listed(call, Arg::Ranks, 1)?),
            Grouping::RangesIncluded | Grouping::RangesExcluded => Some(listed(call, Arg::Ranges, 3)?),
            _ => None,
        };
        let first = self.group(call, rank, 0)?;
        let second = if list.is_none() { &self.group(call, rank, 1)?[..] } else { &[] };
        groups::combined(how, first, second, &list.unwrap_or_default())
    }

    /// What a communicator or window is called.
    pub fn communicator_name(&self, comm: CommId) -> String {
        name_of(&self.communicators, comm)
    }

    /// The same behind a word that says what it is.
    pub fn number_text(&self, comm: CommId) -> String {
        number_text(&self.communicators, comm)
    }
}

fn leak_of(class: DescriptionClass) -> LeakKind {
    match class {
        DescriptionClass::Datatype => LeakKind::Datatype,
        DescriptionClass::Operation => LeakKind::Operation,
    }
}

fn integer(call: &Call, arg: Arg) -> Option<i32> {
    call.argument(arg).map(|word| word as i32)
}

/// Sizes of the dimensions of the grid that a call makes.
fn sizes(call: &Call) -> Option<Arc<[u32]>> {
    let sizes = listed(call, Arg::Dimensions, 1)?.into_iter().map(|size| u32::try_from(size).ok());
    sizes.collect::<Option<Arc<[u32]>>>().filter(|sizes| !sizes.is_empty())
}

/// The list that a call is given, if all of it came; `each`: integers of one element.
fn listed(call: &Call, arg: Arg, each: usize) -> Option<Vec<i32>> {
    let count = call.argument(Arg::Number)? as i32;
    if count == 0 {
        return Some(Vec::new());
    }
    let list: Vec<i32> = integers(call.pointed(arg, false)).collect();
    (usize::try_from(count).ok()?.checked_mul(each)? == list.len()).then_some(list)
}
