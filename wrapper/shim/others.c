// Calls in which nothing is decided: they are part of the way that a program goes, and may wait.
#include "shim.h"

#define LOOK_AT(name, params, first, second, third, args)                                                              \
    int MPI_##name params                                                                                              \
    {                                                                                                                  \
        ENTER(name, first, second, third);                                                                             \
        LEAVE(PMPI_##name args);                                                                                       \
    }

#define SEND(name)                                                                                                     \
    LOOK_AT(name, (const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm), dest, tag, count, \
            (buf, count, type, dest, tag, comm))
#define POST(name)                                                                                                     \
    LOOK_AT(name,                                                                                                      \
            (const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm, MPI_Request *request),   \
            dest, tag, count, (buf, count, type, dest, tag, comm, request))

SEND(Send)
SEND(Ssend)
SEND(Bsend)
SEND(Rsend)
POST(Isend)
POST(Issend)
POST(Ibsend)
POST(Irsend)
POST(Send_init)
POST(Ssend_init)
POST(Bsend_init)
POST(Rsend_init)

LOOK_AT(Barrier, (MPI_Comm comm), 0, 0, 0, (comm))
LOOK_AT(Bcast, (void *buf, int count, MPI_Datatype type, int root, MPI_Comm comm), root, count, 0,
        (buf, count, type, root, comm))
LOOK_AT(Gather,
        (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount, MPI_Datatype recvtype,
         int root, MPI_Comm comm),
        root, sendcount, 0, (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm))
LOOK_AT(Gatherv,
        (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, const int recvcounts[],
         const int displs[], MPI_Datatype recvtype, int root, MPI_Comm comm),
        root, sendcount, 0, (sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, comm))
LOOK_AT(Scatter,
        (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount, MPI_Datatype recvtype,
         int root, MPI_Comm comm),
        root, recvcount, 0, (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm))
LOOK_AT(Scatterv,
        (const void *sendbuf, const int sendcounts[], const int displs[], MPI_Datatype sendtype, void *recvbuf,
         int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm),
        root, recvcount, 0, (sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root, comm))

#define TO_ALL(name)                                                                                                   \
    LOOK_AT(name,                                                                                                      \
            (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,                  \
             MPI_Datatype recvtype, MPI_Comm comm),                                                                    \
            sendcount, 0, 0, (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm))
#define FROM_ALL(name)                                                                                                 \
    LOOK_AT(name,                                                                                                      \
            (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, const int recvcounts[],         \
             const int displs[], MPI_Datatype recvtype, MPI_Comm comm),                                                \
            sendcount, 0, 0, (sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm))
#define OF_SIZES(name, DISPLACEMENT, TYPE)                                                                             \
    LOOK_AT(name,                                                                                                      \
            (const void *sendbuf, const int sendcounts[], const DISPLACEMENT sdispls[], TYPE(sendtype), void *recvbuf, \
             const int recvcounts[], const DISPLACEMENT rdispls[], TYPE(recvtype), MPI_Comm comm),                     \
            0, 0, 0, (sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm))
#define ONE_TYPE(name) MPI_Datatype name
#define TYPES(name) const MPI_Datatype name[]

TO_ALL(Allgather)
TO_ALL(Alltoall)
TO_ALL(Neighbor_allgather)
TO_ALL(Neighbor_alltoall)
FROM_ALL(Allgatherv)
FROM_ALL(Neighbor_allgatherv)
OF_SIZES(Alltoallv, int, ONE_TYPE)
OF_SIZES(Alltoallw, int, TYPES)
OF_SIZES(Neighbor_alltoallv, int, ONE_TYPE)
OF_SIZES(Neighbor_alltoallw, MPI_Aint, TYPES)

#define REDUCE(name)                                                                                                   \
    LOOK_AT(name, (const void *sendbuf, void *recvbuf, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm), count, \
            0, 0, (sendbuf, recvbuf, count, type, op, comm))
LOOK_AT(Reduce,
        (const void *sendbuf, void *recvbuf, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm), root,
        count, 0, (sendbuf, recvbuf, count, type, op, root, comm))
REDUCE(Allreduce)
REDUCE(Reduce_scatter_block)
REDUCE(Scan)
REDUCE(Exscan)
LOOK_AT(Reduce_scatter,
        (const void *sendbuf, void *recvbuf, const int recvcounts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm), 0, 0,
        0, (sendbuf, recvbuf, recvcounts, type, op, comm))

LOOK_AT(Comm_dup, (MPI_Comm comm, MPI_Comm *made), 0, 0, 0, (comm, made))
LOOK_AT(Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm *made), color, key, 0, (comm, color, key, made))
LOOK_AT(Comm_split_type, (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *made), type, key, 0,
        (comm, type, key, info, made))
LOOK_AT(Comm_create, (MPI_Comm comm, MPI_Group group, MPI_Comm *made), 0, 0, 0, (comm, group, made))
LOOK_AT(Comm_create_group, (MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *made), tag, 0, 0,
        (comm, group, tag, made))
LOOK_AT(Comm_free, (MPI_Comm *comm), 0, 0, 0, (comm))
LOOK_AT(Cart_create,
        (MPI_Comm comm, int ndims, const int dims[], const int periods[], int reorder, MPI_Comm *made), ndims, reorder,
        0, (comm, ndims, dims, periods, reorder, made))
LOOK_AT(Graph_create,
        (MPI_Comm comm, int nnodes, const int index[], const int edges[], int reorder, MPI_Comm *made), nnodes, reorder,
        0, (comm, nnodes, index, edges, reorder, made))
LOOK_AT(Dist_graph_create_adjacent,
        (MPI_Comm comm, int indegree, const int sources[], const int sourceweights[], int outdegree,
         const int destinations[], const int destweights[], MPI_Info info, int reorder, MPI_Comm *made),
        indegree, outdegree, reorder,
        (comm, indegree, sources, sourceweights, outdegree, destinations, destweights, info, reorder, made))
LOOK_AT(Intercomm_create,
        (MPI_Comm local, int local_leader, MPI_Comm peer, int remote_leader, int tag, MPI_Comm *made), local_leader, 0,
        tag, (local, local_leader, peer, remote_leader, tag, made))
LOOK_AT(Intercomm_merge, (MPI_Comm comm, int high, MPI_Comm *made), high, 0, 0, (comm, high, made))

// ---- What no record covers ------------------------------------------------------------------------------------------

#define UNCOVERED(name, bit, params, args)                                                                             \
    int MPI_##name params                                                                                              \
    {                                                                                                                  \
        dms_uncovered(bit);                                                                                            \
        return PMPI_##name args;                                                                                       \
    }

UNCOVERED(Win_create, 0, (void *base, MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, MPI_Win *win),
          (base, size, unit, info, comm, win))
UNCOVERED(Win_allocate, 0, (MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win),
          (size, unit, info, comm, base, win))
UNCOVERED(Win_allocate_shared, 0, (MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win),
          (size, unit, info, comm, base, win))
UNCOVERED(Win_create_dynamic, 0, (MPI_Info info, MPI_Comm comm, MPI_Win *win), (info, comm, win))
UNCOVERED(Comm_spawn, 1,
          (const char *command, char *argv[], int maxprocs, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *made,
           int codes[]),
          (command, argv, maxprocs, info, root, comm, made, codes))
UNCOVERED(Comm_connect, 1, (const char *port, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *made),
          (port, info, root, comm, made))
UNCOVERED(Comm_accept, 1, (const char *port, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *made),
          (port, info, root, comm, made))
UNCOVERED(File_open, 2, (MPI_Comm comm, const char *name, int mode, MPI_Info info, MPI_File *file),
          (comm, name, mode, info, file))
