// Calls in which nothing is decided: they are part of the way that a program goes, and may wait.
#include <stddef.h>

#include "logical.h"

// `post`: the same without waiting.
#define SEND(name, post, mode)                                                                                               \
    int MPI_##name(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)                    \
    {                                                                                                                  \
        ENTER(name, dest, tag, count);                                                                                 \
        if (treatment == LOGICAL)                                                                                      \
            LEAVE(logical_send(mode, buf, count, type, dest, tag, comm));                                              \
        message_sends(treatment, comm, dest, tag, mode == SYNCHRONOUS);                                                \
        if (in_turn(treatment)) {                                                                                      \
            MPI_Request request;                                                                                       \
            int result;                                                                                                \
            POST_IN_TURN(treatment, result, PMPI_##post(buf, count, type, dest, tag, comm, &request));                 \
            LEAVE(result == MPI_SUCCESS ? wait_in_turn(&request, MPI_STATUS_IGNORE) : result);                         \
        }                                                                                                              \
        LEAVE(PMPI_##name(buf, count, type, dest, tag, comm));                                                         \
    }
#define POST(name, mode)                                                                                               \
    int MPI_##name(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,                    \
                   MPI_Request *request)                                                                               \
    {                                                                                                                  \
        ENTER(name, dest, tag, count);                                                                                 \
        if (treatment == LOGICAL)                                                                                      \
            LEAVE(logical_isend(mode, buf, count, type, dest, tag, comm, request));                                    \
        const int is_message = wants_messages(treatment) && dest >= 0;                                                 \
        if (is_message)                                                                                                \
            dms_message_send(bits_of_comm(comm), dest, tag, mode == SYNCHRONOUS, 1);                                        \
        int result;                                                                                                    \
        POST_IN_TURN(treatment, result, PMPI_##name(buf, count, type, dest, tag, comm, request));                      \
        if (is_message && result == MPI_SUCCESS)                                                                       \
            dms_message_sent(bits_of(*request));                                                                       \
        else if (wants_messages(treatment) && result == MPI_SUCCESS)                                                   \
            dms_message_of_nobody(bits_of(*request));                                                                  \
        LEAVE(result);                                                                                                 \
    }
#define PREPARE(name, mode)                                                                                  \
    int MPI_##name(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,                    \
                   MPI_Request *request)                                                                               \
    {                                                                                                                  \
        ENTER(name, dest, tag, count);                                                                                 \
        int result = PMPI_##name(buf, count, type, dest, tag, comm, request);                                          \
        if (treatment == LOGICAL)                                                                                      \
            logical_prepare(result, 1, NULL, count, type, dest, tag, comm, request);                                   \
        if (wants_messages(treatment) && dest >= 0 && result == MPI_SUCCESS)                                           \
            dms_message_prepare_send(bits_of_comm(comm), dest, tag, mode == SYNCHRONOUS, bits_of(*request));                \
        LEAVE(result);                                                                                                 \
    }
SEND(Send, Isend, STANDARD)
SEND(Ssend, Issend, SYNCHRONOUS)
SEND(Bsend, Ibsend, BUFFERED)
SEND(Rsend, Irsend, READY)
POST(Isend, STANDARD)
POST(Issend, SYNCHRONOUS)
POST(Ibsend, BUFFERED)
POST(Irsend, READY)
PREPARE(Send_init, STANDARD)
PREPARE(Ssend_init, SYNCHRONOUS)
PREPARE(Bsend_init, BUFFERED)
PREPARE(Rsend_init, READY)

#if MPI_VERSION >= 4
// A record does without them; in a deterministic run each message is announced.
#define LARGE_SEND(name, post, mode)                                                                                         \
    int MPI_##name##_c(const void *buf, MPI_Count count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)          \
    {                                                                                                                  \
        if (!dms_is_in_logical_run()) {                                                                                \
            MPI_Request request;                                                                                       \
            if (!dms_threads || !dms_is_outside())                                                                     \
                return PMPI_##name##_c(buf, count, type, dest, tag, comm);                                             \
            begin_post();                                                                                              \
            int result = PMPI_##post##_c(buf, count, type, dest, tag, comm, &request);                                 \
            dms_end_post(1);                                                                                           \
            return result == MPI_SUCCESS ? wait_in_turn(&request, MPI_STATUS_IGNORE) : result;                         \
        }                                                                                                              \
        ENTER(name, dest, tag, count);                                                                                 \
        LEAVE(logical_send(mode, buf, count, type, dest, tag, comm));                                                  \
    }
#define LARGE_POST(name, mode)                                                                                         \
    int MPI_##name##_c(const void *buf, MPI_Count count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,          \
                       MPI_Request *request)                                                                           \
    {                                                                                                                  \
        if (!dms_is_in_logical_run()) {                                                                                \
            const int treatment = dms_threads && dms_is_outside() ? RECORD : PASS;                                     \
            int result;                                                                                                \
            POST_IN_TURN(treatment, result, PMPI_##name##_c(buf, count, type, dest, tag, comm, request));              \
            return result;                                                                                             \
        }                                                                                                              \
        ENTER(name, dest, tag, count);                                                                                 \
        LEAVE(logical_isend(mode, buf, count, type, dest, tag, comm, request));                                        \
    }
#define LARGE_PREPARE(name)                                                                                            \
    int MPI_##name##_c(const void *buf, MPI_Count count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,          \
                       MPI_Request *request)                                                                           \
    {                                                                                                                  \
        int result = PMPI_##name##_c(buf, count, type, dest, tag, comm, request);                                      \
        if (dms_is_in_logical_run())                                                                                   \
            logical_prepare(result, 1, NULL, count, type, dest, tag, comm, request);                                   \
        return result;                                                                                                 \
    }

LARGE_SEND(Send, Isend, STANDARD)
LARGE_SEND(Ssend, Issend, SYNCHRONOUS)
LARGE_SEND(Bsend, Ibsend, BUFFERED)
LARGE_SEND(Rsend, Irsend, READY)
LARGE_POST(Isend, STANDARD)
LARGE_POST(Issend, SYNCHRONOUS)
LARGE_POST(Ibsend, BUFFERED)
LARGE_POST(Irsend, READY)
LARGE_PREPARE(Send_init)
LARGE_PREPARE(Ssend_init)
LARGE_PREPARE(Bsend_init)
LARGE_PREPARE(Rsend_init)
#endif

// A call that makes a communicator has returned.
static void is_made(int treatment, int result, const MPI_Comm *made)
{
    message_comm(treatment, result, *made);
    if (treatment == LOGICAL)
        name_comm(result, made);
}

// Who waits for whom is a part of the order of messages. `logical`: the call in a deterministic run.
#define COLLECTIVE_OR(logical, name, order, root, params, first, second, third, args)                                  \
    int MPI_##name params                                                                                              \
    {                                                                                                                  \
        ENTER(name, first, second, third);                                                                             \
        if (wants_messages(treatment))                                                                                 \
            dms_message_collective(bits_of_comm(comm), order, root);                                                   \
        if (treatment == LOGICAL) {                                                                                    \
            meet(comm);                                                                                                \
            LEAVE(logical args);                                                                                       \
        }                                                                                                              \
        LEAVE(PMPI_##name args);                                                                                       \
    }
#define COLLECTIVE(name, order, root, params, first, second, third, args)                                              \
    COLLECTIVE_OR(PMPI_##name, name, order, root, params, first, second, third, args)
#define REDUCTION(name, order, root, params, first, second, third, args)                                               \
    COLLECTIVE_OR(ordered_##name, name, order, root, params, first, second, third, args)
#define MAKES_COMM(name, params, first, second, third, args)                                                           \
    int MPI_##name params                                                                                              \
    {                                                                                                                  \
        ENTER(name, first, second, third);                                                                             \
        if (wants_messages(treatment))                                                                                 \
            dms_message_collective(bits_of_comm(comm), ALL_WAIT, NONE);                                                \
        if (treatment == LOGICAL)                                                                                      \
            meet(comm);                                                                                                \
        int result = PMPI_##name args;                                                                                 \
        is_made(treatment, result, made);                                                                              \
        LEAVE(result);                                                                                                 \
    }

COLLECTIVE(Barrier, ALL_WAIT, NONE, (MPI_Comm comm), 0, 0, 0, (comm))
COLLECTIVE(Bcast, WAIT_FOR_ROOT, root, (void *buf, int count, MPI_Datatype type, int root, MPI_Comm comm), root, count, 0,
        (buf, count, type, root, comm))
COLLECTIVE(Gather, ROOT_WAITS, root,
        (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount, MPI_Datatype recvtype,
         int root, MPI_Comm comm),
        root, sendcount, 0, (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm))
COLLECTIVE(Gatherv, ROOT_WAITS, root,
        (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, const int recvcounts[],
         const int displs[], MPI_Datatype recvtype, int root, MPI_Comm comm),
        root, sendcount, 0, (sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, comm))
COLLECTIVE(Scatter, WAIT_FOR_ROOT, root,
        (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount, MPI_Datatype recvtype,
         int root, MPI_Comm comm),
        root, recvcount, 0, (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm))
COLLECTIVE(Scatterv, WAIT_FOR_ROOT, root,
        (const void *sendbuf, const int sendcounts[], const int displs[], MPI_Datatype sendtype, void *recvbuf,
         int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm),
        root, recvcount, 0, (sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root, comm))

#define TO_ALL(name, order)                                                                                             \
    COLLECTIVE(name, order, NONE,                                                                                                      \
            (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,                  \
             MPI_Datatype recvtype, MPI_Comm comm),                                                                    \
            sendcount, 0, 0, (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm))
#define FROM_ALL(name, order)                                                                                           \
    COLLECTIVE(name, order, NONE,                                                                                                      \
            (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, const int recvcounts[],         \
             const int displs[], MPI_Datatype recvtype, MPI_Comm comm),                                                \
            sendcount, 0, 0, (sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm))
#define OF_SIZES(name, order, DISPLACEMENT, TYPE)                                                                      \
    COLLECTIVE(name, order, NONE,                                                                                                      \
            (const void *sendbuf, const int sendcounts[], const DISPLACEMENT sdispls[], TYPE(sendtype), void *recvbuf, \
             const int recvcounts[], const DISPLACEMENT rdispls[], TYPE(recvtype), MPI_Comm comm),                     \
            0, 0, 0, (sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm))
#define ONE_TYPE(name) MPI_Datatype name
#define TYPES(name) const MPI_Datatype name[]

TO_ALL(Allgather, ALL_WAIT)
TO_ALL(Alltoall, ALL_WAIT)
TO_ALL(Neighbor_allgather, UNKNOWN_ORDER)
TO_ALL(Neighbor_alltoall, UNKNOWN_ORDER)
FROM_ALL(Allgatherv, ALL_WAIT)
FROM_ALL(Neighbor_allgatherv, UNKNOWN_ORDER)
OF_SIZES(Alltoallv, ALL_WAIT, int, ONE_TYPE)
OF_SIZES(Alltoallw, ALL_WAIT, int, TYPES)
OF_SIZES(Neighbor_alltoallv, UNKNOWN_ORDER, int, ONE_TYPE)
OF_SIZES(Neighbor_alltoallw, UNKNOWN_ORDER, MPI_Aint, TYPES)

#define REDUCE(name, order)                                                                                             \
    REDUCTION(name, order, NONE, (const void *sendbuf, void *recvbuf, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm), count, \
            0, 0, (sendbuf, recvbuf, count, type, op, comm))
REDUCTION(Reduce, ROOT_WAITS, root,
        (const void *sendbuf, void *recvbuf, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm), root,
        count, 0, (sendbuf, recvbuf, count, type, op, root, comm))
REDUCE(Allreduce, ALL_WAIT)
REDUCE(Reduce_scatter_block, ALL_WAIT)
REDUCE(Scan, WAIT_FOR_LOWER)
REDUCE(Exscan, WAIT_FOR_LOWER)
REDUCTION(Reduce_scatter, ALL_WAIT, NONE,
        (const void *sendbuf, void *recvbuf, const int recvcounts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm), 0, 0,
        0, (sendbuf, recvbuf, recvcounts, type, op, comm))

MAKES_COMM(Comm_dup, (MPI_Comm comm, MPI_Comm *made), 0, 0, 0, (comm, made))
MAKES_COMM(Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm *made), color, key, 0, (comm, color, key, made))
MAKES_COMM(Comm_split_type, (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *made), type, key, 0,
        (comm, type, key, info, made))
MAKES_COMM(Comm_create, (MPI_Comm comm, MPI_Group group, MPI_Comm *made), 0, 0, 0, (comm, group, made))
int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *made)
{
    ENTER(Comm_create_group, tag, 0, 0);
    if (treatment == LOGICAL)
        meet_group(group, tag);
    int result = PMPI_Comm_create_group(comm, group, tag, made);
    is_made(treatment, result, made);
    LEAVE(result);
}

int MPI_Comm_free(MPI_Comm *comm)
{
    ENTER(Comm_free, 0, 0, 0);
    if (wants_messages(treatment))
        dms_message_comm_freed(bits_of_comm(*comm));
    if (treatment == LOGICAL) {
        meet(*comm);
        forget_comm(*comm);
    }
    LEAVE(PMPI_Comm_free(comm));
}
MAKES_COMM(Cart_create,
        (MPI_Comm comm, int ndims, const int dims[], const int periods[], int reorder, MPI_Comm *made), ndims, reorder,
        0, (comm, ndims, dims, periods, reorder, made))
MAKES_COMM(Graph_create,
        (MPI_Comm comm, int nnodes, const int index[], const int edges[], int reorder, MPI_Comm *made), nnodes, reorder,
        0, (comm, nnodes, index, edges, reorder, made))
MAKES_COMM(Dist_graph_create_adjacent,
        (MPI_Comm comm, int indegree, const int sources[], const int sourceweights[], int outdegree,
         const int destinations[], const int destweights[], MPI_Info info, int reorder, MPI_Comm *made),
        indegree, outdegree, reorder,
        (comm, indegree, sources, sourceweights, outdegree, destinations, destweights, info, reorder, made))
MAKES_COMM(Intercomm_merge, (MPI_Comm comm, int high, MPI_Comm *made), high, 0, 0, (comm, high, made))

int MPI_Intercomm_create(MPI_Comm local, int local_leader, MPI_Comm peer, int remote_leader, int tag, MPI_Comm *made)
{
    ENTER(Intercomm_create, local_leader, 0, tag);
    if (treatment == LOGICAL)
        meet_both(local, local_leader, peer, remote_leader, tag);
    int result = PMPI_Intercomm_create(local, local_leader, peer, remote_leader, tag, made);
    is_made(treatment, result, made);
    LEAVE(result);
}

// ---- What no record covers ------------------------------------------------------------------------------------------

#define UNCOVERED(name, bit, params, args)                                                                             \
    int MPI_##name params                                                                                              \
    {                                                                                                                  \
        dms_uncovered(bit);                                                                                            \
        dms_refuse(bit);                                                                                               \
        return PMPI_##name args;                                                                                       \
    }

UNCOVERED(Comm_spawn, 1,
          (const char *command, char *argv[], int maxprocs, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *made,
           int codes[]),
          (command, argv, maxprocs, info, root, comm, made, codes))
UNCOVERED(Comm_connect, 1, (const char *port, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *made),
          (port, info, root, comm, made))
UNCOVERED(Comm_accept, 1, (const char *port, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *made),
          (port, info, root, comm, made))
