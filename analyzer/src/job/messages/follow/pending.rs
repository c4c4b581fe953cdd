//! Collective calls that requests stand for.

use crate::job::messages::ids::{CallId, CollectiveId, CommId, SequenceId};
use crate::job::signature::Signature;
use crate::mpi::calls::{CallRow, Form};

/// A collective call of a rank: one of which calls, and which of them, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CollectiveCall {
    pub sequence: SequenceId,
    /// The rank's number in the communicator.
    pub own: u32,
    pub position: u64,
}

impl CollectiveCall {
    /// The communicator.
    pub fn comm(self) -> CommId {
        CommId(self.sequence.comm)
    }

    /// The same, of all members.
    pub fn id(self) -> CollectiveId {
        CollectiveId { sequence: self.sequence, position: self.position }
    }
}

/// What a collective call began that a request stands for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    /// The call that began it.
    pub id: CallId,
    pub row: &'static CallRow,
    pub call: CollectiveCall,
    /// Which of the collective calls on the communicator has made the request.
    pub made_at: u64,
    pub signature: Signature,
    /// It was counted as complete.
    pub is_complete: bool,
}

impl Pending {
    /// Starts of what is persistent.
    pub fn started(&self) -> SequenceId {
        SequenceId { started: Some(self.made_at), ..self.call.sequence }
    }
}

/// Whether the call's request can be started again and again.
pub(super) fn is_persistent(row: &CallRow) -> bool {
    row.form == Form::Persistent && row.is_collective()
}
