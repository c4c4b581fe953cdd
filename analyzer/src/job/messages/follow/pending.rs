//! Collective calls that requests stand for.

use crate::job::messages::ids::{CallId, CollectiveId, CommId};
use crate::job::signature::Signature;
use crate::mpi::calls::{CallRow, Form};

/// A collective call of a rank: on which communicator, and which of its calls there, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CollectiveCall {
    pub comm: CommId,
    /// The rank's number there.
    pub own: u32,
    pub position: u64,
}

impl CollectiveCall {
    /// The same, of all members.
    pub fn id(self) -> CollectiveId {
        CollectiveId { comm: self.comm.0, position: self.position }
    }
}

/// What a collective call began that a request stands for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    /// The call that began it.
    pub id: CallId,
    pub row: &'static CallRow,
    pub call: CollectiveCall,
    pub signature: Signature,
    /// It was counted as complete.
    pub is_complete: bool,
}

/// Whether the call's request can be started again and again.
pub(super) fn is_persistent(row: &CallRow) -> bool {
    row.form == Form::Persistent && row.is_collective()
}
