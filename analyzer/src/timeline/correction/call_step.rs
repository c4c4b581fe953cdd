//! A call as the correction needs it.

use super::ledger::CallCosts;
use crate::job::messages::{AwaitedCall, CallId, CollectiveId, MessageId};
use crate::mpi::calls::{CallRow, Does, EpochStep, Mode, WindowSync};
use crate::tape::input::CodePlace;

/// What a call waits for, as far as that follows from its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// For what it completes, if it completes anything.
    Waits,
    /// The same, and a send ends only when its receive has begun.
    WaitsForReceive,
    /// It asks again and again.
    Polls,
    /// For something that nothing is recorded of.
    WaitsForUnknown,
}

impl CallKind {
    /// Of a row of the table.
    pub fn of(row: &CallRow) -> Self {
        match row.does {
            _ if row.polls() => Self::Polls,
            Does::Window(WindowSync::Epoch(EpochStep::Posts)) => Self::Waits,
            Does::Probe | Does::ProbeMatched | Does::Window(_) => Self::WaitsForUnknown,
            Does::Send(Mode::Synchronous) => Self::WaitsForReceive,
            _ => Self::Waits,
        }
    }
}

/// What a collective call makes its members wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectiveShape {
    /// All for all.
    AllToAll,
    /// All for the root.
    FromRoot,
    /// The root for all.
    ToRoot,
    /// Nobody certainly: each for some.
    Some,
}

impl CollectiveShape {
    /// By what its arguments are: names decide nothing. A call with a root has the same buffer everywhere (`MPI_Bcast`),
    /// or says of one of two buffers that it counts at the root only.
    pub fn of(row: &CallRow) -> Self {
        use crate::mpi::calls::Arg;
        let has = |arg| row.position(arg).is_some();
        match (has(Arg::Root), has(Arg::Op)) {
            (true, true) => Self::ToRoot,
            (true, false) if has(Arg::SendCount) => Self::ToRoot,
            (true, false) => Self::FromRoot,
            (false, _) if is_partial(row) => Self::Some,
            (false, _) => Self::AllToAll,
        }
    }
}

/// Scans and exchanges among neighbours: who waits for whom is not in their arguments.
fn is_partial(row: &CallRow) -> bool {
    use crate::mpi::calls::Arg;
    let scans = row.position(Arg::Op).is_some()
        && row.position(Arg::BufferOrInPlace).is_none()
        && row.position(Arg::Count).is_some();
    scans || row.is_among_neighbors()
}

/// A collective call that a call enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnteredCollective {
    /// Which.
    pub collective: CollectiveId,
    /// Members of the communicator.
    pub members: u32,
    /// Rank of the root in MPI_COMM_WORLD.
    pub root: Option<u32>,
}

/// A call that is over, with what it did.
#[derive(Clone, Debug)]
pub struct TimedCall {
    /// Which.
    pub id: CallId,
    /// Its process.
    pub pid: u32,
    /// Name as in the standard.
    pub name: &'static str,
    /// How it waits.
    pub kind: CallKind,
    /// How members of a collective call wait for each other.
    pub shape: CollectiveShape,
    /// CLOCK_MONOTONIC.
    pub begin_ns: u64,
    /// The same; of a call that was not seen to return there is none.
    pub end_ns: Option<u64>,
    /// What watching it cost.
    pub costs: CallCosts,
    /// What it sends, if its arguments tell.
    pub sent_bytes: Option<u64>,
    /// It posts messages, or has a part in an epoch: others may wait for its beginning.
    pub posts: bool,
    /// How many, as far as that was told.
    pub posted: u32,
    /// It posts a receive from whoever comes first.
    pub is_from_anybody: bool,
    /// Where it was made, if anybody asks.
    pub place: Option<CodePlace>,
    /// Tag and communicator of what it sends.
    pub sends: Option<PostedEnvelope>,
    /// The same of what it receives.
    pub receives: Option<PostedEnvelope>,
    /// Messages whose buffers it gives back.
    pub completed: Vec<MessageId>,
    /// What it waits for and is not told of yet will never be told: a rank has a part in it of which something was lost.
    pub waits_in_vain: bool,
    /// Collective calls that it ends.
    pub left: Vec<CollectiveId>,
    /// Those that it enters.
    pub entered: Vec<EnteredCollective>,
    /// Calls for an epoch that it needs.
    pub awaited: Vec<AwaitedCall>,
    /// What it enters is over when it returns.
    pub ends_what_it_enters: bool,
}

/// Where a message goes, beside its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostedEnvelope {
    /// Number of the communicator.
    pub comm: u32,
    /// Tag; of a receive from any: the wildcard.
    pub tag: i32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::calls::row;

    #[test]
    fn who_waits_for_whom_follows_from_the_row() {
        let shape = |name: &str| row(name).map(CollectiveShape::of);
        for name in [
            "MPI_Barrier",
            "MPI_Allreduce",
            "MPI_Alltoallv",
            "MPI_Iallgather",
            "MPI_Comm_split",
            "MPI_Win_fence",
        ] {
            assert_eq!(shape(name), Some(CollectiveShape::AllToAll), "{name}");
        }
        for name in ["MPI_Bcast", "MPI_Scatter", "MPI_Iscatterv"] {
            assert_eq!(shape(name), Some(CollectiveShape::FromRoot), "{name}");
        }
        for name in ["MPI_Reduce", "MPI_Gather", "MPI_Igatherv"] {
            assert_eq!(shape(name), Some(CollectiveShape::ToRoot), "{name}");
        }
        for name in ["MPI_Scan", "MPI_Exscan", "MPI_Neighbor_alltoall", "MPI_Neighbor_allgatherv"] {
            assert_eq!(shape(name), Some(CollectiveShape::Some), "{name}");
        }
        let kind = |name: &str| row(name).map(CallKind::of);
        assert_eq!(kind("MPI_Ssend"), Some(CallKind::WaitsForReceive));
        assert_eq!(kind("MPI_Testany"), Some(CallKind::Polls));
        assert_eq!(kind("MPI_Win_lock"), Some(CallKind::WaitsForUnknown));
        assert_eq!(kind("MPI_Win_start"), Some(CallKind::WaitsForUnknown));
        assert_eq!(kind("MPI_Win_post"), Some(CallKind::Waits));
        assert_eq!(kind("MPI_Win_test"), Some(CallKind::Polls));
        assert_eq!(kind("MPI_Waitall"), Some(CallKind::Waits));
    }
}
