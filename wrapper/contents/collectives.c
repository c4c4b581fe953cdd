// Collective calls on data: what each rank gives and gets, once for the blocking and the nonblocking form of each.
#include "contents.h"

// A call: what it gives and gets, and the numbers that are compared.
struct shape {
    const struct comm *comm;
    struct data in, out;
    int64_t compared[3];
    int numbers;
};

// Counts or displacements, of either width.
struct numbers {
    const void *at;
    int is_wide;
};

static MPI_Count number_at(struct numbers numbers, int i)
{
    return numbers.is_wide ? ((const MPI_Count *)numbers.at)[i] : ((const int *)numbers.at)[i];
}

static int is_root(const struct comm *comm, int root)
{
    return comm->is_inter ? root == MPI_ROOT : root == comm->rank;
}

// Not the root, and not one that only stands beside it.
static int is_leaf(const struct comm *comm, int root)
{
    return comm->is_inter ? root >= 0 : root != comm->rank;
}

// Blocks of several ranks in a buffer.
static void add_blocks(struct data *data, const void *buf, struct numbers counts, struct numbers displs, MPI_Datatype type,
                       int ranks)
{
    for (int i = 0; i < ranks; i++)
        add(data, displaced(buf, number_at(displs, i), type), number_at(counts, i), type);
}

static void add_typed_blocks(struct data *data, const void *buf, struct numbers counts, struct numbers displs,
                             const MPI_Datatype types[], int ranks)
{
    for (int i = 0; i < ranks; i++)
        add(data, (const char *)buf + number_at(displs, i), number_at(counts, i), types[i]);
}

static MPI_Count sum_of_counts(struct numbers counts, int ranks)
{
    MPI_Count sum = 0;
    for (int i = 0; i < ranks; i++)
        sum += number_at(counts, i);
    return sum;
}

// ---- The shapes ----------------------------------------------------------------------------------------------------

static void barrier(struct shape *s)
{
    (void)s;
}

static void bcast(struct shape *s, void *buf, MPI_Count count, MPI_Datatype type, int root)
{
    s->compared[s->numbers++] = root;
    s->compared[s->numbers++] = count;
    if (is_root(s->comm, root))
        add(&s->in, buf, count, type);
    else if (is_leaf(s->comm, root))
        add(&s->out, buf, count, type);
}

static void gather(struct shape *s, const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                   MPI_Count recvcount, MPI_Datatype recvtype, int root)
{
    const int in_place = sendbuf == MPI_IN_PLACE;
    s->compared[s->numbers++] = root;
    s->compared[s->numbers++] = in_place ? -1 : sendcount;
    if (!in_place && (!s->comm->is_inter || root >= 0))
        add(&s->in, sendbuf, sendcount, sendtype);
    if (in_place)
        add(&s->in, displaced(recvbuf, s->comm->rank * recvcount, recvtype), recvcount, recvtype);
    if (is_root(s->comm, root))
        add(&s->out, recvbuf, recvcount * peers(s->comm), recvtype);
}

static void gatherv(struct shape *s, const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                    struct numbers counts, struct numbers displs, MPI_Datatype recvtype, int root)
{
    const int in_place = sendbuf == MPI_IN_PLACE;
    s->compared[s->numbers++] = root;
    s->compared[s->numbers++] = in_place ? -1 : sendcount;
    if (!in_place && (!s->comm->is_inter || root >= 0))
        add(&s->in, sendbuf, sendcount, sendtype);
    if (in_place)
        add(&s->in, displaced(recvbuf, number_at(displs, s->comm->rank), recvtype), number_at(counts, s->comm->rank),
            recvtype);
    if (is_root(s->comm, root))
        add_blocks(&s->out, recvbuf, counts, displs, recvtype, peers(s->comm));
}

static void scatter(struct shape *s, const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                    MPI_Count recvcount, MPI_Datatype recvtype, int root)
{
    const int in_place = recvbuf == MPI_IN_PLACE;
    s->compared[s->numbers++] = root;
    s->compared[s->numbers++] = in_place ? -1 : recvcount;
    if (is_root(s->comm, root))
        add(&s->in, sendbuf, sendcount * peers(s->comm), sendtype);
    if (!in_place && (!s->comm->is_inter || root >= 0))
        add(&s->out, recvbuf, recvcount, recvtype);
}

static void scatterv(struct shape *s, const void *sendbuf, struct numbers counts, struct numbers displs,
                     MPI_Datatype sendtype, void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root)
{
    const int in_place = recvbuf == MPI_IN_PLACE;
    s->compared[s->numbers++] = root;
    s->compared[s->numbers++] = in_place ? -1 : recvcount;
    if (is_root(s->comm, root))
        add_blocks(&s->in, sendbuf, counts, displs, sendtype, peers(s->comm));
    if (!in_place && (!s->comm->is_inter || root >= 0))
        add(&s->out, recvbuf, recvcount, recvtype);
}

static void allgather(struct shape *s, const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                      MPI_Count recvcount, MPI_Datatype recvtype)
{
    const int in_place = sendbuf == MPI_IN_PLACE;
    s->compared[s->numbers++] = in_place ? -1 : sendcount;
    s->compared[s->numbers++] = recvcount;
    if (in_place)
        add(&s->in, displaced(recvbuf, s->comm->rank * recvcount, recvtype), recvcount, recvtype);
    else
        add(&s->in, sendbuf, sendcount, sendtype);
    add(&s->out, recvbuf, recvcount * peers(s->comm), recvtype);
}

static void allgatherv(struct shape *s, const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                       struct numbers counts, struct numbers displs, MPI_Datatype recvtype)
{
    const int in_place = sendbuf == MPI_IN_PLACE;
    s->compared[s->numbers++] = in_place ? -1 : sendcount;
    if (in_place)
        add(&s->in, displaced(recvbuf, number_at(displs, s->comm->rank), recvtype), number_at(counts, s->comm->rank),
            recvtype);
    else
        add(&s->in, sendbuf, sendcount, sendtype);
    add_blocks(&s->out, recvbuf, counts, displs, recvtype, peers(s->comm));
}

static void alltoall(struct shape *s, const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                     MPI_Count recvcount, MPI_Datatype recvtype)
{
    const int in_place = sendbuf == MPI_IN_PLACE;
    s->compared[s->numbers++] = in_place ? -1 : sendcount;
    s->compared[s->numbers++] = recvcount;
    if (in_place)
        add(&s->in, recvbuf, recvcount * peers(s->comm), recvtype);
    else
        add(&s->in, sendbuf, sendcount * peers(s->comm), sendtype);
    add(&s->out, recvbuf, recvcount * peers(s->comm), recvtype);
}

static void alltoallv(struct shape *s, const void *sendbuf, struct numbers sendcounts, struct numbers sdispls,
                      MPI_Datatype sendtype, void *recvbuf, struct numbers recvcounts, struct numbers rdispls,
                      MPI_Datatype recvtype)
{
    if (sendbuf == MPI_IN_PLACE)
        add_blocks(&s->in, recvbuf, recvcounts, rdispls, recvtype, peers(s->comm));
    else
        add_blocks(&s->in, sendbuf, sendcounts, sdispls, sendtype, peers(s->comm));
    add_blocks(&s->out, recvbuf, recvcounts, rdispls, recvtype, peers(s->comm));
}

static void alltoallw(struct shape *s, const void *sendbuf, struct numbers sendcounts, struct numbers sdispls,
                      const MPI_Datatype sendtypes[], void *recvbuf, struct numbers recvcounts, struct numbers rdispls,
                      const MPI_Datatype recvtypes[])
{
    if (sendbuf == MPI_IN_PLACE)
        add_typed_blocks(&s->in, recvbuf, recvcounts, rdispls, recvtypes, peers(s->comm));
    else
        add_typed_blocks(&s->in, sendbuf, sendcounts, sdispls, sendtypes, peers(s->comm));
    add_typed_blocks(&s->out, recvbuf, recvcounts, rdispls, recvtypes, peers(s->comm));
}

// Operands of a reduction.
static void add_operands(struct shape *s, const void *sendbuf, const void *recvbuf, MPI_Count count, MPI_Datatype type)
{
    add(&s->in, sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf, count, type);
}

static void reduce(struct shape *s, const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype type, int root)
{
    s->compared[s->numbers++] = root;
    s->compared[s->numbers++] = count;
    if (!s->comm->is_inter || root >= 0)
        add_operands(s, sendbuf, recvbuf, count, type);
    if (is_root(s->comm, root))
        add(&s->out, recvbuf, count, type);
}

static void allreduce(struct shape *s, const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype type)
{
    s->compared[s->numbers++] = count;
    add_operands(s, sendbuf, recvbuf, count, type);
    add(&s->out, recvbuf, count, type);
}

static void exscan(struct shape *s, const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype type)
{
    s->compared[s->numbers++] = count;
    add_operands(s, sendbuf, recvbuf, count, type);
    // What the first rank gets is not defined.
    if (s->comm->rank != 0)
        add(&s->out, recvbuf, count, type);
}

static void reduce_scatter(struct shape *s, const void *sendbuf, void *recvbuf, struct numbers counts, MPI_Datatype type)
{
    // Also between groups each rank has a count for each of its own group.
    add_operands(s, sendbuf, recvbuf, sum_of_counts(counts, s->comm->size), type);
    add(&s->out, recvbuf, number_at(counts, s->comm->rank), type);
}

static void reduce_scatter_block(struct shape *s, const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype type)
{
    s->compared[s->numbers++] = count;
    add_operands(s, sendbuf, recvbuf, count * s->comm->size, type);
    add(&s->out, recvbuf, count, type);
}

// ---- Neighbours: how many there are is a part of the record --------------------------------------------------------

struct neighbors {
    int sources, destinations;
};

static struct neighbors neighbors_of(int treatment, MPI_Comm comm)
{
    int topology = MPI_UNDEFINED, count = 0, weighted;
    struct neighbors n = {0, 0};
    if (treatment == RECORD)
        PMPI_Topo_test(comm, &topology);
    if (topology == MPI_CART && PMPI_Cartdim_get(comm, &count) == MPI_SUCCESS)
        n = (struct neighbors){2 * count, 2 * count};
    if (topology == MPI_GRAPH && PMPI_Graph_neighbors_count(comm, comm_of(comm)->rank, &count) == MPI_SUCCESS)
        n = (struct neighbors){count, count};
    if (topology == MPI_DIST_GRAPH)
        PMPI_Dist_graph_neighbors_count(comm, &n.sources, &n.destinations, &weighted);
    int64_t outs[] = {n.sources, n.destinations};
    dmc_outs(outs, 2);
    return (struct neighbors){(int)outs[0], (int)outs[1]};
}

static void neighbor_allgather(struct shape *s, struct neighbors n, const void *sendbuf, MPI_Count sendcount,
                               MPI_Datatype sendtype, void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype)
{
    add(&s->in, sendbuf, sendcount, sendtype);
    add(&s->out, recvbuf, recvcount * n.sources, recvtype);
}

static void neighbor_allgatherv(struct shape *s, struct neighbors n, const void *sendbuf, MPI_Count sendcount,
                                MPI_Datatype sendtype, void *recvbuf, struct numbers counts, struct numbers displs,
                                MPI_Datatype recvtype)
{
    add(&s->in, sendbuf, sendcount, sendtype);
    add_blocks(&s->out, recvbuf, counts, displs, recvtype, n.sources);
}

static void neighbor_alltoall(struct shape *s, struct neighbors n, const void *sendbuf, MPI_Count sendcount,
                              MPI_Datatype sendtype, void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype)
{
    add(&s->in, sendbuf, sendcount * n.destinations, sendtype);
    add(&s->out, recvbuf, recvcount * n.sources, recvtype);
}

static void neighbor_alltoallv(struct shape *s, struct neighbors n, const void *sendbuf, struct numbers sendcounts,
                               struct numbers sdispls, MPI_Datatype sendtype, void *recvbuf, struct numbers recvcounts,
                               struct numbers rdispls, MPI_Datatype recvtype)
{
    add_blocks(&s->in, sendbuf, sendcounts, sdispls, sendtype, n.destinations);
    add_blocks(&s->out, recvbuf, recvcounts, rdispls, recvtype, n.sources);
}

static void neighbor_alltoallw(struct shape *s, struct neighbors n, const void *sendbuf, struct numbers sendcounts,
                               struct numbers sdispls, const MPI_Datatype sendtypes[], void *recvbuf,
                               struct numbers recvcounts, struct numbers rdispls, const MPI_Datatype recvtypes[])
{
    add_typed_blocks(&s->in, sendbuf, sendcounts, sdispls, sendtypes, n.destinations);
    add_typed_blocks(&s->out, recvbuf, recvcounts, rdispls, recvtypes, n.sources);
}

// ---- The calls -----------------------------------------------------------------------------------------------------

// Begins one: what it gives is compared.
static void call(unsigned number, struct shape *s)
{
    s->compared[s->numbers++] = s->comm->number;
    dmc_call(number, s->compared, s->numbers, 1, sum_of(&s->in));
    drop(&s->in);
}

static int blocking_end(int treatment, int result, struct shape *s, MPI_Comm comm)
{
    if (out(result == MPI_SUCCESS))
        put_data(treatment, &s->out);
    drop(&s->out);
    return result_of(treatment, result, comm);
}

// Ends one that was posted. Some are complete at once; libraries give all of these the same request.
static int posted_end(int treatment, int result, struct shape *s, MPI_Comm comm, MPI_Request *request)
{
    if (out(result == MPI_SUCCESS)) {
        int is_complete = 0;
        if (treatment == RECORD)
            PMPI_Request_get_status(*request, &is_complete, MPI_STATUS_IGNORE);
        if (!out(is_complete)) {
            request_made(treatment, COLLECTS, &s->out, request);
        } else {
            put_data(treatment, &s->out);
            idle_made(treatment, request);
        }
    }
    drop(&s->out);
    return result_of(treatment, result, comm);
}

// `params`, `args`: without the communicator. `given`: what the shape is made of.
#define BLOCKING(name, S, params, args, fill, given)                                                                  \
    int MPI_##name##S(UNPACKED params MPI_Comm comm)                                                                   \
    {                                                                                                                  \
        ENTER(name);                                                                                                   \
        PASSED(name##S, (UNPACKED args comm));                                                                         \
        struct shape s = {.comm = comm_of(comm)};                                                                      \
        fill given;                                                                                                    \
        call(CALL_##name, &s);                                                                                         \
        int result = MAKE(name##S, (UNPACKED args comm));                                                              \
        return blocking_end(treatment, result, &s, comm);                                                              \
    }
#define NONBLOCKING(name, S, params, args, fill, given)                                                               \
    int MPI_##name##S(UNPACKED params MPI_Comm comm, MPI_Request *request)                                             \
    {                                                                                                                  \
        ENTER(name);                                                                                                   \
        PASSED(name##S, (UNPACKED args comm, request));                                                                \
        struct shape s = {.comm = comm_of(comm)};                                                                      \
        fill given;                                                                                                    \
        call(CALL_##name, &s);                                                                                         \
        int result = MAKE(name##S, (UNPACKED args comm, request));                                                     \
        return posted_end(treatment, result, &s, comm, request);                                                       \
    }
#define BOTH(name, Iname, S, params, args, fill, given)                                                               \
    BLOCKING(name, S, params, args, fill, given)                                                                      \
    NONBLOCKING(Iname, S, params, args, fill, given)

// Those of neighbours: how many there are is known after the call has begun.
#define NEIGHBORS_SHAPE(treatment, which, fill, given)                                                               \
    struct shape s = {.comm = comm_of(comm)};                                                                          \
    s.compared[s.numbers++] = s.comm->number;                                                                          \
    dmc_call(which, s.compared, 1, 0, 0);                                                                             \
    struct neighbors n = neighbors_of(treatment, comm);                                                                \
    fill given;                                                                                                        \
    dmc_call(which, s.compared, 1, 1, sum_of(&s.in));                                                                 \
    drop(&s.in)
#define NEIGHBORS(name, Iname, S, params, args, fill, given)                                                          \
    int MPI_##name##S(UNPACKED params MPI_Comm comm)                                                                   \
    {                                                                                                                  \
        ENTER(name);                                                                                                   \
        PASSED(name##S, (UNPACKED args comm));                                                                         \
        NEIGHBORS_SHAPE(treatment, CALL_##name, fill, given);                                                         \
        int result = MAKE(name##S, (UNPACKED args comm));                                                              \
        return blocking_end(treatment, result, &s, comm);                                                              \
    }                                                                                                                  \
    int MPI_##Iname##S(UNPACKED params MPI_Comm comm, MPI_Request *request)                                            \
    {                                                                                                                  \
        ENTER(Iname);                                                                                                  \
        PASSED(Iname##S, (UNPACKED args comm, request));                                                               \
        NEIGHBORS_SHAPE(treatment, CALL_##Iname, fill, given);                                                        \
        int result = MAKE(Iname##S, (UNPACKED args comm, request));                                                    \
        return posted_end(treatment, result, &s, comm, request);                                                       \
    }

#define C(array) ((struct numbers){array, sizeof *(array) > sizeof(int)})

BOTH(Barrier, Ibarrier, , (), (), barrier, (&s))

#define ALL(S, COUNT, DISPLACEMENT)                                                                                    \
    BOTH(Bcast, Ibcast, S, (void *buf, COUNT count, MPI_Datatype type, int root, ), (buf, count, type, root, ), bcast, \
         (&s, buf, count, type, root))                                                                                 \
    BOTH(Gather, Igather, S,                                                                                           \
         (const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, COUNT recvcount,                 \
          MPI_Datatype recvtype, int root, ),                                                                          \
         (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, ), gather,                                 \
         (&s, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root))                                       \
    BOTH(Gatherv, Igatherv, S,                                                                                         \
         (const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, const COUNT recvcounts[],        \
          const DISPLACEMENT displs[], MPI_Datatype recvtype, int root, ),                                             \
         (sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, ), gatherv,                       \
         (&s, sendbuf, sendcount, sendtype, recvbuf, C(recvcounts), C(displs), recvtype, root))                        \
    BOTH(Scatter, Iscatter, S,                                                                                         \
         (const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, COUNT recvcount,                 \
          MPI_Datatype recvtype, int root, ),                                                                          \
         (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, ), scatter,                                \
         (&s, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root))                                       \
    BOTH(Scatterv, Iscatterv, S,                                                                                       \
         (const void *sendbuf, const COUNT sendcounts[], const DISPLACEMENT displs[], MPI_Datatype sendtype,           \
          void *recvbuf, COUNT recvcount, MPI_Datatype recvtype, int root, ),                                          \
         (sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root, ), scatterv,                      \
         (&s, sendbuf, C(sendcounts), C(displs), sendtype, recvbuf, recvcount, recvtype, root))                        \
    BOTH(Allgather, Iallgather, S,                                                                                     \
         (const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, COUNT recvcount,                 \
          MPI_Datatype recvtype, ),                                                                                    \
         (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, ), allgather,                                    \
         (&s, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype))                                             \
    BOTH(Allgatherv, Iallgatherv, S,                                                                                   \
         (const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, const COUNT recvcounts[],        \
          const DISPLACEMENT displs[], MPI_Datatype recvtype, ),                                                       \
         (sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, ), allgatherv,                          \
         (&s, sendbuf, sendcount, sendtype, recvbuf, C(recvcounts), C(displs), recvtype))                              \
    BOTH(Alltoall, Ialltoall, S,                                                                                       \
         (const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, COUNT recvcount,                 \
          MPI_Datatype recvtype, ),                                                                                    \
         (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, ), alltoall,                                     \
         (&s, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype))                                             \
    BOTH(Alltoallv, Ialltoallv, S,                                                                                     \
         (const void *sendbuf, const COUNT sendcounts[], const DISPLACEMENT sdispls[], MPI_Datatype sendtype,          \
          void *recvbuf, const COUNT recvcounts[], const DISPLACEMENT rdispls[], MPI_Datatype recvtype, ),             \
         (sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, ), alltoallv,                \
         (&s, sendbuf, C(sendcounts), C(sdispls), sendtype, recvbuf, C(recvcounts), C(rdispls), recvtype))             \
    BOTH(Alltoallw, Ialltoallw, S,                                                                                     \
         (const void *sendbuf, const COUNT sendcounts[], const DISPLACEMENT sdispls[], const MPI_Datatype sendtypes[], \
          void *recvbuf, const COUNT recvcounts[], const DISPLACEMENT rdispls[], const MPI_Datatype recvtypes[], ),    \
         (sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, ), alltoallw,              \
         (&s, sendbuf, C(sendcounts), C(sdispls), sendtypes, recvbuf, C(recvcounts), C(rdispls), recvtypes))           \
    BOTH(Reduce, Ireduce, S,                                                                                           \
         (const void *sendbuf, void *recvbuf, COUNT count, MPI_Datatype type, MPI_Op op, int root, ),                  \
         (sendbuf, recvbuf, count, type, op, root, ), reduce, (&s, sendbuf, recvbuf, count, type, root))               \
    BOTH(Allreduce, Iallreduce, S, (const void *sendbuf, void *recvbuf, COUNT count, MPI_Datatype type, MPI_Op op, ),  \
         (sendbuf, recvbuf, count, type, op, ), allreduce, (&s, sendbuf, recvbuf, count, type))                        \
    BOTH(Reduce_scatter, Ireduce_scatter, S,                                                                           \
         (const void *sendbuf, void *recvbuf, const COUNT recvcounts[], MPI_Datatype type, MPI_Op op, ),               \
         (sendbuf, recvbuf, recvcounts, type, op, ), reduce_scatter, (&s, sendbuf, recvbuf, C(recvcounts), type))      \
    BOTH(Reduce_scatter_block, Ireduce_scatter_block, S,                                                               \
         (const void *sendbuf, void *recvbuf, COUNT count, MPI_Datatype type, MPI_Op op, ),                            \
         (sendbuf, recvbuf, count, type, op, ), reduce_scatter_block, (&s, sendbuf, recvbuf, count, type))             \
    BOTH(Scan, Iscan, S, (const void *sendbuf, void *recvbuf, COUNT count, MPI_Datatype type, MPI_Op op, ),            \
         (sendbuf, recvbuf, count, type, op, ), allreduce, (&s, sendbuf, recvbuf, count, type))                        \
    BOTH(Exscan, Iexscan, S, (const void *sendbuf, void *recvbuf, COUNT count, MPI_Datatype type, MPI_Op op, ),        \
         (sendbuf, recvbuf, count, type, op, ), exscan, (&s, sendbuf, recvbuf, count, type))                           \
    NEIGHBORS(Neighbor_allgather, Ineighbor_allgather, S,                                                              \
              (const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, COUNT recvcount,            \
               MPI_Datatype recvtype, ),                                                                               \
              (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, ), neighbor_allgather,                      \
              (&s, n, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype))                                     \
    NEIGHBORS(Neighbor_allgatherv, Ineighbor_allgatherv, S,                                                            \
              (const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, const COUNT recvcounts[],   \
               const DISPLACEMENT displs[], MPI_Datatype recvtype, ),                                                  \
              (sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, ), neighbor_allgatherv,            \
              (&s, n, sendbuf, sendcount, sendtype, recvbuf, C(recvcounts), C(displs), recvtype))                      \
    NEIGHBORS(Neighbor_alltoall, Ineighbor_alltoall, S,                                                                \
              (const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, COUNT recvcount,            \
               MPI_Datatype recvtype, ),                                                                               \
              (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, ), neighbor_alltoall,                       \
              (&s, n, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype))                                     \
    NEIGHBORS(Neighbor_alltoallv, Ineighbor_alltoallv, S,                                                              \
              (const void *sendbuf, const COUNT sendcounts[], const DISPLACEMENT sdispls[], MPI_Datatype sendtype,     \
               void *recvbuf, const COUNT recvcounts[], const DISPLACEMENT rdispls[], MPI_Datatype recvtype, ),        \
              (sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, ), neighbor_alltoallv,  \
              (&s, n, sendbuf, C(sendcounts), C(sdispls), sendtype, recvbuf, C(recvcounts), C(rdispls), recvtype))     \
    NEIGHBORS(Neighbor_alltoallw, Ineighbor_alltoallw, S,                                                              \
              (const void *sendbuf, const COUNT sendcounts[], const MPI_Aint sdispls[],                                \
               const MPI_Datatype sendtypes[], void *recvbuf, const COUNT recvcounts[], const MPI_Aint rdispls[],      \
               const MPI_Datatype recvtypes[], ),                                                                      \
              (sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, ),                    \
              neighbor_alltoallw,                                                                                      \
              (&s, n, sendbuf, C(sendcounts), C(sdispls), sendtypes, recvbuf, C(recvcounts), C(rdispls), recvtypes))

ALL(, int, int)
#if MPI_VERSION >= 4
ALL(_c, MPI_Count, MPI_Aint)
#endif
