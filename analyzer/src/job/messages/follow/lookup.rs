//! What is known of requests, and of what calls ask for.

use super::Follower;
use super::pending::CollectiveCall;
use crate::job::messages::assemble::Call;
use crate::job::messages::ids::CommId;
use crate::job::messages::op::Op;
use crate::mpi::calls::{CallRow, Does};
use crate::mpi::handles::ANY_TAG;

/// A message that a request stands for. `None`: a wildcard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownMessage {
    pub sends: bool,
    /// In MPI_COMM_WORLD.
    pub peer: Option<u32>,
    pub tag: Option<i32>,
    pub comm: CommId,
}

/// What a request stands for.
#[derive(Clone, Debug)]
pub(crate) enum KnownRequest {
    /// A message, or two of an exchange.
    Messages { by: &'static CallRow, first: KnownMessage, second: Option<KnownMessage> },
    /// A collective call.
    Collective { by: &'static CallRow, call: Option<CollectiveCall> },
}

impl Follower {
    /// Whether a call receives from, or asks for, whoever comes first; `None`: that is not known.
    pub fn is_from_anybody(&self, call: &Call) -> Option<bool> {
        let source = call.integer(call.row.receives()?.peer)?;
        Some(source == self.processes.find(call.pid)?.builtin?.any_source())
    }

    /// Whether a call asks which messages have come, or what is over, so that the program may do one thing or another. Of a message from
    /// one source that is waited for there is nothing to choose.
    pub(super) fn asks(&self, call: &Call) -> bool {
        match call.row.does {
            Does::Inquire | Does::ProbeMatched => true,
            Does::Window(_) => call.row.polls(),
            Does::Probe => call.row.polls() || self.is_from_anybody(call) != Some(false),
            _ => false,
        }
    }

    /// What a request that is on its way stands for; `None`: it is not known, or several have the same handle.
    pub fn request_of(&self, pid: u32, handle: u64) -> Option<KnownRequest> {
        let handle = self.processes.find(pid)?.builtin?.handle(handle);
        let request = self.requests.active(pid, handle)?;
        let by = request.origin.row;
        if request.message.is_none() {
            return by.collective().map(|_| {
                let call = self.collective_of(pid, handle, by);
                KnownRequest::Collective { by, call }
            });
        }
        let mut messages = request.messages().map(|op| self.known(op));
        let first = messages.next()??;
        let second = match messages.next() {
            Some(second) => Some(second?),
            None => None,
        };
        Some(KnownRequest::Messages { by, first, second })
    }

    fn known(&self, op: &Op) -> Option<KnownMessage> {
        let (comm, _) = op.place?;
        let members = self.communicators.members(comm)?;
        let peer = match op.peer {
            Some(number) => Some(*members.get(number as usize)?),
            None => None,
        };
        Some(KnownMessage { sends: op.sends, peer, tag: Some(op.tag).filter(|tag| *tag != ANY_TAG), comm })
    }
}
