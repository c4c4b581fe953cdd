//! The calls of MPI 3.1 and 4.0 that communicate, or make what communication needs: data.
//!
//! Of calls that have nonblocking and persistent forms the blocking one is listed; the others follow from it.

use super::Arg::{self, *};
use super::Does::{self, *};
use super::Group as Members;
use super::{Grouping, Making, Meeting, Mode, Which};

/// Name, what it does, and its arguments.
pub(super) type Base = (&'static str, Does, &'static [Arg]);

const SEND: &[Arg] = &[Buffer, Count, Other, Dest, SendTag, Comm];
const EXCHANGE: &[Arg] =
    &[Buffer, SendCount, Other, Dest, SendTag, Buffer, ReceiveCount, Other, Source, ReceiveTag, Comm, Status];
const REPLACE: &[Arg] = &[Buffer, Count, Other, Dest, SendTag, Source, ReceiveTag, Comm, Status];
const TO_ALL: &[Arg] = &[Buffer, SendCount, Other, Buffer, Other, Other, Comm];
const TO_ALL_OF_SIZES: &[Arg] = &[Buffer, Other, Other, Other, Buffer, Other, Other, Other, Comm];
const FROM_ALL_OF_SIZES: &[Arg] = &[Buffer, SendCount, Other, Buffer, Other, Other, Other, Comm];
const REDUCE: &[Arg] = &[Buffer, Buffer, Count, Other, Op, Comm];

/// Collective calls: which of them nobody leaves before all have come.
const ALL_MEET: Does = Collective(Meeting::Synchronizes);
const SOME_LEAVE: Does = Collective(Meeting::Loose);

/// Calls with a nonblocking form (`MPI_Isend`) and a persistent one (`MPI_Send_init`).
pub(super) const WITH_FORMS: &[Base] = &[
    ("MPI_Send", Send(Mode::Standard), SEND),
    ("MPI_Ssend", Send(Mode::Synchronous), SEND),
    ("MPI_Bsend", Send(Mode::Buffered), SEND),
    ("MPI_Rsend", Send(Mode::Ready), SEND),
    ("MPI_Recv", Receive, &[Buffer, Count, Other, Source, ReceiveTag, Comm, Status]),
    ("MPI_Mrecv", ReceiveMatched, &[Buffer, Count, Other, Message, Status]),
    ("MPI_Sendrecv", Exchange, EXCHANGE),
    ("MPI_Sendrecv_replace", Exchange, REPLACE),
    ("MPI_Barrier", ALL_MEET, &[Comm]),
    ("MPI_Bcast", SOME_LEAVE, &[Buffer, Count, Other, Root, Comm]),
    ("MPI_Gather", SOME_LEAVE, &[Buffer, SendCount, Other, Buffer, Other, Other, Root, Comm]),
    ("MPI_Gatherv", SOME_LEAVE, &[Buffer, SendCount, Other, Buffer, Other, Other, Other, Root, Comm]),
    ("MPI_Scatter", SOME_LEAVE, &[Buffer, Other, Other, Buffer, ReceiveCount, Other, Root, Comm]),
    ("MPI_Scatterv", SOME_LEAVE, &[Buffer, Other, Other, Other, Buffer, ReceiveCount, Other, Root, Comm]),
    ("MPI_Allgather", ALL_MEET, TO_ALL),
    ("MPI_Allgatherv", SOME_LEAVE, FROM_ALL_OF_SIZES),
    ("MPI_Alltoall", ALL_MEET, TO_ALL),
    ("MPI_Alltoallv", SOME_LEAVE, TO_ALL_OF_SIZES),
    ("MPI_Alltoallw", SOME_LEAVE, TO_ALL_OF_SIZES),
    ("MPI_Reduce", SOME_LEAVE, &[Buffer, Buffer, Count, Other, Op, Root, Comm]),
    ("MPI_Allreduce", ALL_MEET, REDUCE),
    ("MPI_Reduce_scatter", SOME_LEAVE, &[Buffer, Buffer, Other, Other, Op, Comm]),
    ("MPI_Reduce_scatter_block", ALL_MEET, REDUCE),
    ("MPI_Scan", SOME_LEAVE, REDUCE),
    ("MPI_Exscan", SOME_LEAVE, REDUCE),
    ("MPI_Neighbor_allgather", SOME_LEAVE, TO_ALL),
    ("MPI_Neighbor_allgatherv", SOME_LEAVE, FROM_ALL_OF_SIZES),
    ("MPI_Neighbor_alltoall", SOME_LEAVE, TO_ALL),
    ("MPI_Neighbor_alltoallv", SOME_LEAVE, TO_ALL_OF_SIZES),
    ("MPI_Neighbor_alltoallw", SOME_LEAVE, TO_ALL_OF_SIZES),
];

const REQUESTS_ANY: &[Arg] = &[Count, Requests, Index, Status];
const REQUESTS_SOME: &[Arg] = &[Count, Requests, OutCount, Indices, Statuses];

const fn wait(which: Which) -> Does {
    Complete { which, polls: false }
}

const fn test(which: Which) -> Does {
    Complete { which, polls: true }
}

const fn makes(group: Members, meeting: Meeting) -> Does {
    MakeCommunicator(Making { group, meeting })
}

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
    ("MPI_Comm_dup", makes(Members::Same, Meeting::Synchronizes), &[Comm, NewComm]),
    ("MPI_Comm_dup_with_info", makes(Members::Same, Meeting::Synchronizes), &[Comm, Other, NewComm]),
    ("MPI_Comm_idup", makes(Members::Same, Meeting::Loose), &[Comm, NewComm, NewRequest]),
    ("MPI_Comm_idup_with_info", makes(Members::Same, Meeting::Loose), &[Comm, Other, NewComm, NewRequest]),
    ("MPI_Comm_split", makes(Members::ByColor, Meeting::Synchronizes), &[Comm, Color, Key, NewComm]),
    (
        "MPI_Comm_split_type",
        makes(Members::Unknown, Meeting::Synchronizes),
        &[Comm, Other, Key, Other, NewComm],
    ),
    ("MPI_Comm_create", makes(Members::Given, Meeting::Loose), &[Comm, Group, NewComm]),
    ("MPI_Comm_create_group", makes(Members::Given, Meeting::NewMembers), &[Comm, Group, MakingTag, NewComm]),
    (
        "MPI_Cart_create",
        makes(Members::Grid, Meeting::Synchronizes),
        &[Comm, Number, Dimensions, Other, Reorder, NewComm],
    ),
    ("MPI_Cart_sub", makes(Members::Unknown, Meeting::Loose), &[Comm, Other, NewComm]),
    (
        "MPI_Graph_create",
        makes(Members::Nodes, Meeting::Loose),
        &[Comm, Number, Other, Other, Reorder, NewComm],
    ),
    (
        "MPI_Dist_graph_create",
        makes(Members::Same, Meeting::Loose),
        &[Comm, Other, Other, Other, Other, Other, Other, Reorder, NewComm],
    ),
    (
        "MPI_Dist_graph_create_adjacent",
        makes(Members::Same, Meeting::Loose),
        &[Comm, Other, Other, Other, Other, Other, Other, Other, Reorder, NewComm],
    ),
    ("MPI_Comm_group", MakeGroup(Grouping::OfCommunicator), &[Comm, NewGroup]),
    ("MPI_Group_incl", MakeGroup(Grouping::Included), &[Group, Number, Ranks, NewGroup]),
    ("MPI_Group_excl", MakeGroup(Grouping::Excluded), &[Group, Number, Ranks, NewGroup]),
    ("MPI_Group_range_incl", MakeGroup(Grouping::RangesIncluded), &[Group, Number, Ranges, NewGroup]),
    ("MPI_Group_range_excl", MakeGroup(Grouping::RangesExcluded), &[Group, Number, Ranges, NewGroup]),
    ("MPI_Group_union", MakeGroup(Grouping::Union), &[Group, Group, NewGroup]),
    ("MPI_Group_intersection", MakeGroup(Grouping::Intersection), &[Group, Group, NewGroup]),
    ("MPI_Group_difference", MakeGroup(Grouping::Difference), &[Group, Group, NewGroup]),
    ("MPI_Group_free", FreeGroup, &[OldGroup]),
    ("MPI_Comm_disconnect", FreeCommunicator, &[Comm]),
    ("MPI_Comm_free", FreeCommunicator, &[Comm]),
    ("MPI_File_open", SOME_LEAVE, &[Comm, Other, Other, Other, Other]),
    ("MPI_Win_create", ALL_MEET, &[Other, Other, Other, Other, Comm, Other]),
    ("MPI_Win_allocate", ALL_MEET, &[Other, Other, Other, Comm, Other, Other]),
    ("MPI_Win_allocate_shared", ALL_MEET, &[Other, Other, Other, Comm, Other, Other]),
    ("MPI_Win_fence", Window, &[Other, Other]),
    ("MPI_Win_free", Window, &[Other]),
    ("MPI_Win_start", Window, &[Other, Other, Other]),
    ("MPI_Win_complete", Window, &[Other]),
    ("MPI_Win_wait", Window, &[Other]),
    ("MPI_Win_lock", Window, &[Other, Other, Other, Other]),
    ("MPI_Win_unlock", Window, &[Other, Other]),
    ("MPI_Win_lock_all", Window, &[Other, Other]),
    ("MPI_Win_unlock_all", Window, &[Other]),
    ("MPI_Win_flush", Window, &[Other, Other]),
    ("MPI_Win_flush_all", Window, &[Other]),
    ("MPI_Finalize", Finalize, &[]),
];
