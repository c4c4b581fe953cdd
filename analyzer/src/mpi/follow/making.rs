//! Communicators and groups: who is in those that calls make.

use super::{Begun, Follower, integers};
use crate::calls::{Arg, Group, Grouping, Making, Meeting};
use crate::mpi::CallId;
use crate::mpi::assemble::Call;
use crate::mpi::communicators::{Choice, CommId, Expected, Members, Selection, WORLD};
use crate::mpi::groups;

impl Follower {
    pub(super) fn begin_communicator(&mut self, call: &Call, id: CallId) -> Option<Expected> {
        let handle = call.argument(Arg::Comm)?;
        let place = self.place(call, handle).filter(|_| self.is_complete(call));
        let Some((parent, _)) = place else {
            self.spoil(call, handle);
            return None;
        };
        let integer = |arg| call.argument(arg).map(|word| word as i32);
        let choice = integer(Arg::Color).zip(integer(Arg::Key)).map(|(color, key)| Choice { color, key });
        self.communicators.begin(id.rank, parent, choice)
    }

    pub(super) fn communicator(&mut self, call: &Call, rank: u32, making: Making, begun: &Begun) {
        let handle = self.handle(call, Arg::NewComm, true);
        let selection = self.selection(call, rank, making.group);
        if making.meeting == Meeting::NewMembers {
            let Some(handle) = handle else { return };
            let parent = call.argument(Arg::Comm).and_then(|comm| self.place(call, comm));
            let tag = call.argument(Arg::MakingTag);
            let known = parent.zip(tag).filter(|_| self.is_complete(call));
            match (known, selection) {
                (Some(((parent, _), tag)), Selection::These(members)) if members.contains(&rank) => {
                    self.communicators.made_alone(rank, parent, tag as i32, &members, handle);
                }
                _ => self.communicators.made_unknown(rank, handle),
            }
            return;
        }
        match begun.communicator {
            Some(expected) => self.communicators.made(rank, expected, &selection, handle),
            None => handle.iter().for_each(|handle| self.communicators.made_unknown(rank, *handle)),
        }
    }

    /// Who is in a new communicator.
    fn selection(&self, call: &Call, rank: u32, group: Group) -> Selection {
        let integer = |arg| call.argument(arg).map(|word| word as i32);
        // Ranks that may be numbered anew are in an order that only the library knows.
        if call.row.position(Arg::Reorder).is_some() && integer(Arg::Reorder) != Some(0) {
            return Selection::Unknown;
        }
        match group {
            Group::Same => Selection::All,
            Group::ByColor => Selection::SameColor,
            Group::Given => self
                .group(call, rank, 0)
                .map_or(Selection::Unknown, |members| Selection::These(members.clone())),
            Group::Grid => points(call).map_or(Selection::Unknown, Selection::First),
            Group::Nodes => {
                let nodes = integer(Arg::Number).and_then(|nodes| usize::try_from(nodes).ok());
                nodes.map_or(Selection::Unknown, Selection::First)
            }
            Group::Unknown => Selection::Unknown,
        }
    }

    pub(super) fn free_communicator(&mut self, call: &Call, rank: u32) {
        let Some(handle) = self.handle(call, Arg::Comm, false) else { return };
        let Some(comm) = self.communicators.free(rank, handle) else { return };
        let size = self.communicators.members(comm).map_or(0, <[u32]>::len);
        if self.matching.remove(comm, size as u32) {
            self.communicators.remove(comm);
        }
    }

    /// The n-th group that a call is given.
    fn group(&self, call: &Call, rank: u32, n: usize) -> Option<&Members> {
        let positions = call.row.args.iter().enumerate().filter(|(_, arg)| **arg == Arg::Group);
        let (at, _) = positions.clone().nth(n)?;
        self.groups.members(rank, self.builtin(call)?.handle(call.word(at)?))
    }

    pub(super) fn make_group(&mut self, call: &Call, rank: u32, how: Grouping) {
        let Some(handle) = self.handle(call, Arg::NewGroup, true) else { return };
        let members = self.new_group(call, rank, how);
        self.groups.made(rank, handle, members);
    }

    fn new_group(&mut self, call: &Call, rank: u32, how: Grouping) -> Option<Members> {
        if how == Grouping::OfCommunicator {
            let (comm, _) = self.place(call, call.argument(Arg::Comm)?)?;
            return self.communicators.members_of(comm).cloned();
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

    /// What a communicator is called.
    pub fn communicator_name(&self, comm: CommId) -> String {
        if comm == WORLD {
            return "MPI_COMM_WORLD".to_owned();
        }
        let size = self.communicators.members(comm).map_or(0, <[u32]>::len);
        format!("number {} of {size} ranks", comm.0)
    }
}

/// Points of the grid that a call makes.
fn points(call: &Call) -> Option<usize> {
    let dimensions = listed(call, Arg::Dimensions, 1)?;
    let sizes = dimensions.iter().map(|size| usize::try_from(*size).ok());
    let points = sizes.into_iter().try_fold(1usize, |all, size| all.checked_mul(size?));
    points.filter(|_| !dimensions.is_empty())
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
