//! Numbers of calls, messages and communicators.

use std::fmt;

/// A call of a thread: of those in the call table (`calls`), polls that answered no left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct CallId {
    /// Rank in MPI_COMM_WORLD.
    pub rank: u32,
    /// The thread, in the initial pid namespace.
    pub tid: u32,
    /// From 1.
    pub number: u32,
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.rank, self.tid, self.number)
    }
}

/// One message, as one side has it: the call that started it, and which of that call's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct MessageId {
    /// The call.
    pub call: CallId,
    /// From 0: the position in MPI_Startall; 1 for what MPI_Sendrecv receives.
    pub part: u32,
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.call, self.part)
    }
}

/// Calls that all members of a communicator make in the same order: its collective calls; or starts of one persistent collective call, since
/// these may come in any order among others (MPI 4.0, section 6.13).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct SequenceId {
    /// Number of the communicator.
    pub comm: u32,
    /// Which of the collective calls on it has made what is started.
    pub started: Option<u64>,
}

impl SequenceId {
    /// Collective calls on a communicator.
    pub fn of(comm: u32) -> Self {
        Self { comm, started: None }
    }
}

/// A collective call of all members of a communicator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct CollectiveId {
    /// The calls that it is one of.
    pub sequence: SequenceId,
    /// Which of them, from 0.
    pub position: u64,
}

/// Number of a communicator of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CommId(pub u32);

/// MPI_COMM_WORLD.
pub(crate) const WORLD: CommId = CommId(0);
