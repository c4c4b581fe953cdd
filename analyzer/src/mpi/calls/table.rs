//! The calls of MPI 3.1 and 4.0 that communicate, or make what communication needs: data.
//!
//! Of calls that have nonblocking and persistent forms the blocking one is listed; the others follow from it.

use super::args::Arg::{self, *};
use super::does::DescriptionClass::{Datatype as DatatypeClass, Operation as OperationClass};
use super::does::Does::{self, *};
use super::does::Group as Members;
use super::does::{EpochStep, Grouping, LockStep, Making, Meeting, Mode, Which, WindowAccess, WindowSync};

/// Name, what it does, and its arguments.
pub(super) type Base = (&'static str, Does, &'static [Arg]);

const SEND: &[Arg] = &[Buffer, Count, Datatype, Dest, SendTag, Comm];
const EXCHANGE: &[Arg] = &[
    Buffer,
    SendCount,
    Datatype,
    Dest,
    SendTag,
    Buffer,
    ReceiveCount,
    Datatype,
    Source,
    ReceiveTag,
    Comm,
    Status,
];
const REPLACE: &[Arg] = &[Buffer, Count, Datatype, Dest, SendTag, Source, ReceiveTag, Comm, Status];
const TO_ALL: &[Arg] = &[BufferOrInPlace, SendCount, Other, Buffer, Other, Other, Comm];
const TO_ALL_OF_SIZES: &[Arg] = &[BufferOrInPlace, Other, Other, Other, Buffer, Other, Other, Other, Comm];
const FROM_ALL_OF_SIZES: &[Arg] = &[BufferOrInPlace, SendCount, Other, Buffer, Other, Other, Other, Comm];
const REDUCE_TO_ALL: &[Arg] = &[BufferOrInPlace, Buffer, Count, Other, Op, Comm];
// Each rank may choose whether it scans in place.
const SCAN: &[Arg] = &[Buffer, Buffer, Count, Other, Op, Comm];
// Neighbours have no MPI_IN_PLACE.
const TO_NEIGHBORS: &[Arg] = &[Buffer, SendCount, Other, Buffer, Other, Other, Comm];
const TO_NEIGHBORS_OF_SIZES: &[Arg] = &[Buffer, Other, Other, Other, Buffer, Other, Other, Other, Comm];
const FROM_NEIGHBORS_OF_SIZES: &[Arg] = &[Buffer, SendCount, Other, Buffer, Other, Other, Other, Comm];

const PUT: &[Arg] = &[Buffer, Count, Datatype, Target, Displacement, TargetCount, TargetDatatype, Win];
const GET_ACCUMULATE: &[Arg] = &[
    Buffer,
    Count,
    Datatype,
    Other,
    Other,
    Other,
    Target,
    Displacement,
    TargetCount,
    TargetDatatype,
    Other,
    Win,
];
const ACCUMULATE: &[Arg] =
    &[Buffer, Count, Datatype, Target, Displacement, TargetCount, TargetDatatype, Other, Win];

/// Calls with a nonblocking form (`MPI_Isend`) and a persistent one (`MPI_Send_init`).
pub(super) const WITH_FORMS: &[Base] = &[
    ("MPI_Send", Send(Mode::Standard), SEND),
    ("MPI_Ssend", Send(Mode::Synchronous), SEND),
    ("MPI_Bsend", Send(Mode::Buffered), SEND),
    ("MPI_Rsend", Send(Mode::Ready), SEND),
    ("MPI_Recv", Receive, &[Buffer, Count, Datatype, Source, ReceiveTag, Comm, Status]),
    ("MPI_Mrecv", ReceiveMatched, &[Buffer, Count, Datatype, Message, Status]),
    ("MPI_Sendrecv", Exchange, EXCHANGE),
    ("MPI_Sendrecv_replace", Exchange, REPLACE),
    ("MPI_Barrier", Collective, &[Comm]),
    ("MPI_Bcast", Collective, &[Buffer, Count, Other, Root, Comm]),
    ("MPI_Gather", Collective, &[Buffer, SendCount, Other, Buffer, Other, Other, Root, Comm]),
    ("MPI_Gatherv", Collective, &[Buffer, SendCount, Other, Buffer, Other, Other, Other, Root, Comm]),
    ("MPI_Scatter", Collective, &[Buffer, Other, Other, Buffer, ReceiveCount, Other, Root, Comm]),
    ("MPI_Scatterv", Collective, &[Buffer, Other, Other, Other, Buffer, ReceiveCount, Other, Root, Comm]),
    ("MPI_Allgather", Collective, TO_ALL),
    ("MPI_Allgatherv", Collective, FROM_ALL_OF_SIZES),
    ("MPI_Alltoall", Collective, TO_ALL),
    ("MPI_Alltoallv", Collective, TO_ALL_OF_SIZES),
    ("MPI_Alltoallw", Collective, TO_ALL_OF_SIZES),
    ("MPI_Reduce", Collective, &[Buffer, Buffer, Count, Other, Op, Root, Comm]),
    ("MPI_Allreduce", Collective, REDUCE_TO_ALL),
    // Who gets nothing may have no buffer to reduce in place: it need not be all.
    ("MPI_Reduce_scatter", Collective, &[Buffer, Buffer, Other, Other, Op, Comm]),
    ("MPI_Reduce_scatter_block", Collective, REDUCE_TO_ALL),
    ("MPI_Scan", Collective, SCAN),
    ("MPI_Exscan", Collective, SCAN),
    ("MPI_Neighbor_allgather", Collective, TO_NEIGHBORS),
    ("MPI_Neighbor_allgatherv", Collective, FROM_NEIGHBORS_OF_SIZES),
    ("MPI_Neighbor_alltoall", Collective, TO_NEIGHBORS),
    ("MPI_Neighbor_alltoallv", Collective, TO_NEIGHBORS_OF_SIZES),
    ("MPI_Neighbor_alltoallw", Collective, TO_NEIGHBORS_OF_SIZES),
];

const REQUESTS_ANY: &[Arg] = &[Count, Requests, Index, Status];
const REQUESTS_SOME: &[Arg] = &[Count, Requests, OutCount, Indices, Statuses];

const fn wait(which: Which) -> Does {
    Complete { which, polls: false }
}

const fn test(which: Which) -> Does {
    Complete { which, polls: true }
}

const fn epoch(step: EpochStep) -> Does {
    Window(WindowSync::Epoch(step))
}

const fn lock(step: LockStep) -> Does {
    Window(WindowSync::Lock(step))
}

const fn makes(group: Members, meeting: Meeting) -> Does {
    MakeCommunicator(Making { group, meeting })
}

const OF_BLOCKS: &[Arg] = &[Other, Other, Other, Other, NewObject];

/// Calls of one form only.
pub(super) const SINGLE: &[Base] = &[
    ("MPI_Probe", Probe, &[Source, ReceiveTag, Comm, Status]),
    ("MPI_Iprobe", Probe, &[Source, ReceiveTag, Comm, Flag, Status]),
    ("MPI_Mprobe", ProbeMatched, &[Source, ReceiveTag, Comm, NewMessage, Status]),
    ("MPI_Improbe", ProbeMatched, &[Source, ReceiveTag, Comm, Flag, NewMessage, Status]),
    ("MPI_Psend_init", Partitioned, &[Buffer, Other, Count, Other, Dest, SendTag, Comm, Other, NewRequest]),
    (
        "MPI_Precv_init",
        Partitioned,
        &[Buffer, Other, Count, Other, Source, ReceiveTag, Comm, Other, NewRequest],
    ),
    ("MPI_Start", Start, &[Request]),
    ("MPI_Startall", Start, &[Count, Requests]),
    ("MPI_Wait", wait(Which::One), &[Request, Status]),
    ("MPI_Waitall", wait(Which::All), &[Count, Requests, Statuses]),
    ("MPI_Waitany", wait(Which::Any), REQUESTS_ANY),
    ("MPI_Waitsome", wait(Which::Some), REQUESTS_SOME),
    ("MPI_Test", test(Which::One), &[Request, Flag, Status]),
    ("MPI_Testall", test(Which::All), &[Count, Requests, Flag, Statuses]),
    ("MPI_Testany", test(Which::Any), &[Count, Requests, Index, Flag, Status]),
    ("MPI_Testsome", test(Which::Some), REQUESTS_SOME),
    ("MPI_Request_free", Free, &[Request]),
    ("MPI_Cancel", Cancel, &[Request]),
    ("MPI_Request_get_status", Inquire, &[RequestItself, Flag, Status]),
    ("MPI_Parrived", Inquire, &[RequestItself, Other, Flag]),
    ("MPI_Comm_dup", makes(Members::Same, Meeting::All), &[Comm, NewComm]),
    ("MPI_Comm_dup_with_info", makes(Members::Same, Meeting::All), &[Comm, Other, NewComm]),
    ("MPI_Comm_idup", makes(Members::Same, Meeting::All), &[Comm, NewComm, NewRequest]),
    ("MPI_Comm_idup_with_info", makes(Members::Same, Meeting::All), &[Comm, Other, NewComm, NewRequest]),
    ("MPI_Comm_split", makes(Members::ByColor, Meeting::All), &[Comm, Color, Key, NewComm]),
    (
        "MPI_Comm_split_type",
        makes(Members::SharedMemory, Meeting::All),
        &[Comm, SplitType, Key, Info, NewComm],
    ),
    ("MPI_Comm_create", makes(Members::Given, Meeting::All), &[Comm, Group, NewComm]),
    ("MPI_Comm_create_group", makes(Members::Given, Meeting::NewMembers), &[Comm, Group, MakingTag, NewComm]),
    (
        "MPI_Cart_create",
        makes(Members::Grid, Meeting::All),
        &[Comm, Number, Dimensions, Other, Reorder, NewComm],
    ),
    ("MPI_Cart_sub", makes(Members::Subgrid, Meeting::All), &[Comm, Remain, NewComm]),
    (
        "MPI_Graph_create",
        makes(Members::Nodes, Meeting::All),
        &[Comm, Number, Other, Other, Reorder, NewComm],
    ),
    (
        "MPI_Dist_graph_create",
        makes(Members::Same, Meeting::All),
        &[Comm, Other, Other, Other, Other, Other, Other, Reorder, NewComm],
    ),
    (
        "MPI_Dist_graph_create_adjacent",
        makes(Members::Same, Meeting::All),
        &[Comm, Other, Other, Other, Other, Other, Other, Other, Reorder, NewComm],
    ),
    (
        "MPI_Intercomm_create",
        makes(Members::Bridged, Meeting::TwoGroups),
        &[Comm, LocalLeader, PeerComm, RemoteLeader, MakingTag, NewComm],
    ),
    ("MPI_Intercomm_merge", makes(Members::Merged, Meeting::TwoGroups), &[Comm, High, NewComm]),
    ("MPI_Comm_remote_group", MakeGroup(Grouping::OfOtherGroup), &[Comm, NewGroup]),
    ("MPI_Comm_group", MakeGroup(Grouping::OfCommunicator), &[Comm, NewGroup]),
    ("MPI_Group_incl", MakeGroup(Grouping::Included), &[Group, Number, Ranks, NewGroup]),
    ("MPI_Group_excl", MakeGroup(Grouping::Excluded), &[Group, Number, Ranks, NewGroup]),
    ("MPI_Group_range_incl", MakeGroup(Grouping::RangesIncluded), &[Group, Number, Ranges, NewGroup]),
    ("MPI_Group_range_excl", MakeGroup(Grouping::RangesExcluded), &[Group, Number, Ranges, NewGroup]),
    ("MPI_Group_union", MakeGroup(Grouping::Union), &[Group, Group, NewGroup]),
    ("MPI_Group_intersection", MakeGroup(Grouping::Intersection), &[Group, Group, NewGroup]),
    ("MPI_Group_difference", MakeGroup(Grouping::Difference), &[Group, Group, NewGroup]),
    ("MPI_Group_free", FreeGroup, &[OldGroup]),
    ("MPI_Type_contiguous", MakeDescription(DatatypeClass), &[Other, Other, NewObject]),
    ("MPI_Type_dup", MakeDescription(DatatypeClass), &[Other, NewObject]),
    ("MPI_Type_vector", MakeDescription(DatatypeClass), OF_BLOCKS),
    ("MPI_Type_create_hvector", MakeDescription(DatatypeClass), OF_BLOCKS),
    ("MPI_Type_indexed", MakeDescription(DatatypeClass), OF_BLOCKS),
    ("MPI_Type_create_hindexed", MakeDescription(DatatypeClass), OF_BLOCKS),
    ("MPI_Type_create_indexed_block", MakeDescription(DatatypeClass), OF_BLOCKS),
    ("MPI_Type_create_hindexed_block", MakeDescription(DatatypeClass), OF_BLOCKS),
    ("MPI_Type_create_struct", MakeDescription(DatatypeClass), OF_BLOCKS),
    ("MPI_Type_create_resized", MakeDescription(DatatypeClass), &[Other, Other, Other, NewObject]),
    (
        "MPI_Type_create_subarray",
        MakeDescription(DatatypeClass),
        &[Other, Other, Other, Other, Other, Other, NewObject],
    ),
    (
        "MPI_Type_create_darray",
        MakeDescription(DatatypeClass),
        &[Other, Other, Other, Other, Other, Other, Other, Other, Other, NewObject],
    ),
    ("MPI_Type_free", FreeDescription(DatatypeClass), &[OldObject]),
    ("MPI_Op_create", MakeDescription(OperationClass), &[Other, Other, NewObject]),
    ("MPI_Op_free", FreeDescription(OperationClass), &[OldObject]),
    ("MPI_Comm_disconnect", FreeCommunicator, &[Comm]),
    ("MPI_Comm_free", FreeCommunicator, &[Comm]),
    ("MPI_File_open", Collective, &[Comm, Other, Other, Other, Other]),
    (
        "MPI_Win_create",
        makes(Members::Window, Meeting::All),
        &[WindowMemory, WindowBytes, DisplacementUnit, Other, Comm, NewWin],
    ),
    ("MPI_Win_create_dynamic", makes(Members::Window, Meeting::All), &[Other, Comm, NewWin]),
    (
        "MPI_Win_allocate",
        makes(Members::Window, Meeting::All),
        &[WindowBytes, DisplacementUnit, Other, Comm, NewMemory, NewWin],
    ),
    (
        "MPI_Win_allocate_shared",
        makes(Members::Window, Meeting::All),
        &[WindowBytes, DisplacementUnit, Other, Comm, NewMemory, NewWin],
    ),
    ("MPI_Put", OneSided(WindowAccess::Put), PUT),
    ("MPI_Get", OneSided(WindowAccess::Get), PUT),
    ("MPI_Accumulate", OneSided(WindowAccess::Accumulate), ACCUMULATE),
    ("MPI_Get_accumulate", OneSided(WindowAccess::Accumulate), GET_ACCUMULATE),
    (
        "MPI_Fetch_and_op",
        OneSided(WindowAccess::Accumulate),
        &[Buffer, Other, Datatype, Target, Displacement, Other, Win],
    ),
    (
        "MPI_Compare_and_swap",
        OneSided(WindowAccess::Accumulate),
        &[Buffer, Other, Other, Datatype, Target, Displacement, Win],
    ),
    ("MPI_Win_fence", Collective, &[Assertion, Win]),
    ("MPI_Win_free", FreeCommunicator, &[FreedWin]),
    ("MPI_Win_post", epoch(EpochStep::Posts), &[Group, Other, Win]),
    ("MPI_Win_start", epoch(EpochStep::Starts), &[Group, Other, Win]),
    ("MPI_Win_complete", epoch(EpochStep::Completes), &[Win]),
    ("MPI_Win_wait", epoch(EpochStep::Waits), &[Win]),
    ("MPI_Win_test", epoch(EpochStep::Waits), &[Win, Flag]),
    ("MPI_Win_lock", lock(LockStep::Takes), &[LockType, Target, Other, Win]),
    ("MPI_Win_lock_all", lock(LockStep::Takes), &[Other, Win]),
    ("MPI_Win_unlock", lock(LockStep::GivesBack), &[Target, Win]),
    ("MPI_Win_unlock_all", lock(LockStep::GivesBack), &[Win]),
    ("MPI_Win_flush", lock(LockStep::Flushes), &[Target, Win]),
    ("MPI_Win_flush_all", lock(LockStep::Flushes), &[Win]),
    ("MPI_Win_flush_local", lock(LockStep::FlushesLocally), &[Target, Win]),
    ("MPI_Win_flush_local_all", lock(LockStep::FlushesLocally), &[Win]),
    ("MPI_Finalize", Finalize, &[]),
];
