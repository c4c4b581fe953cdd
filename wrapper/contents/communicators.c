// Calls that make communicators and groups, and those that ask what they are.
#include <stdlib.h>

#include "contents.h"

// ---- Making communicators ------------------------------------------------------------------------------------------

// `args`: those before the new communicator.
#define MAKES(name, parent, params, args, ...)                                                                         \
    int MPI_##name(UNPACKED params MPI_Comm *made)                                                                     \
    {                                                                                                                  \
        ENTER(name);                                                                                                   \
        PASSED(name, (UNPACKED args made));                                                                            \
        COMPARE(name, comm_of(parent)->number, ##__VA_ARGS__);                                                         \
        int result = MPI_SUCCESS;                                                                                      \
        if (treatment == RECORD)                                                                                       \
            result = NEXT(name)(UNPACKED args made);                                                                   \
        if (treatment == PLAY || result != MPI_SUCCESS)                                                                \
            *made = MPI_COMM_NULL;                                                                                     \
        comm_made(treatment, parent, made);                                                                            \
        return result_of(treatment, result, parent);                                                                   \
    }
#define UNPACKED(...) __VA_ARGS__

MAKES(Comm_split, comm, (MPI_Comm comm, int color, int key, ), (comm, color, key, ), color, key)
MAKES(Comm_split_type, comm, (MPI_Comm comm, int type, int key, MPI_Info info, ), (comm, type, key, info, ), type, key)
MAKES(Comm_create, comm, (MPI_Comm comm, MPI_Group group, ), (comm, group, ))
MAKES(Comm_create_group, comm, (MPI_Comm comm, MPI_Group group, int tag, ), (comm, group, tag, ), tag)
MAKES(Intercomm_create, local, (MPI_Comm local, int local_leader, MPI_Comm peer, int remote_leader, int tag, ),
      (local, local_leader, peer, remote_leader, tag, ), local_leader, remote_leader, tag)
MAKES(Intercomm_merge, comm, (MPI_Comm comm, int high, ), (comm, high, ), high)
MAKES(Cart_create, comm, (MPI_Comm comm, int ndims, const int dims[], const int periods[], int reorder, ),
      (comm, ndims, dims, periods, reorder, ), ndims, reorder)
MAKES(Cart_sub, comm, (MPI_Comm comm, const int remain[], ), (comm, remain, ))
MAKES(Graph_create, comm, (MPI_Comm comm, int nnodes, const int index[], const int edges[], int reorder, ),
      (comm, nnodes, index, edges, reorder, ), nnodes, reorder)
MAKES(Dist_graph_create, comm,
      (MPI_Comm comm, int n, const int sources[], const int degrees[], const int destinations[], const int weights[],
       MPI_Info info, int reorder, ),
      (comm, n, sources, degrees, destinations, weights, info, reorder, ), n, reorder)
MAKES(Dist_graph_create_adjacent, comm,
      (MPI_Comm comm, int indegree, const int sources[], const int sourceweights[], int outdegree,
       const int destinations[], const int destweights[], MPI_Info info, int reorder, ),
      (comm, indegree, sources, sourceweights, outdegree, destinations, destweights, info, reorder, ), indegree, outdegree,
      reorder)

// A duplicate has attributes too: of a rank that is played, the real ones are copied as well.
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *made)
{
    ENTER(Comm_dup);
    PASSED(Comm_dup, (comm, made));
    COMPARE(Comm_dup, comm_of(comm)->number);
    int result = treatment == PLAY ? PMPI_Comm_dup(comm, made) : NEXT(Comm_dup)(comm, made);
    comm_made(treatment, comm, made);
    return result_of(treatment, result, comm);
}

int MPI_Comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm *made)
{
    ENTER(Comm_dup_with_info);
    PASSED(Comm_dup_with_info, (comm, info, made));
    COMPARE(Comm_dup_with_info, comm_of(comm)->number);
    int result = treatment == PLAY ? PMPI_Comm_dup_with_info(comm, info, made) : NEXT(Comm_dup_with_info)(comm, info, made);
    comm_made(treatment, comm, made);
    return result_of(treatment, result, comm);
}

// It may be used once its request is complete: it is known what it is.
int MPI_Comm_idup(MPI_Comm comm, MPI_Comm *made, MPI_Request *request)
{
    ENTER(Comm_idup);
    PASSED(Comm_idup, (comm, made, request));
    COMPARE(Comm_idup, comm_of(comm)->number);
    int result = treatment == PLAY ? PMPI_Comm_dup(comm, made) : NEXT(Comm_idup)(comm, made, request);
    if (result == MPI_SUCCESS)
        comm_duplicated(comm, *made);
    if (result == MPI_SUCCESS)
        idle_made(treatment, request);
    return result_of(treatment, result, comm);
}

static int freed(int treatment, int (*next)(MPI_Comm *), MPI_Comm *comm)
{
    const MPI_Comm given = *comm;
    struct comm *known = comm_gone(given);
    int result = treatment == PLAY ? PMPI_Comm_free(comm) : next(comm);
    if (result == MPI_SUCCESS)
        free(known);
    else
        comm_kept(given, known);
    return result_of(treatment, result, MPI_COMM_WORLD);
}

int MPI_Comm_free(MPI_Comm *comm)
{
    ENTER(Comm_free);
    PASSED(Comm_free, (comm));
    COMPARE(Comm_free, comm_of(*comm)->number);
    return freed(treatment, NEXT(Comm_free), comm);
}

int MPI_Comm_disconnect(MPI_Comm *comm)
{
    ENTER(Comm_disconnect);
    PASSED(Comm_disconnect, (comm));
    COMPARE(Comm_disconnect, comm_of(*comm)->number);
    return freed(treatment, NEXT(Comm_disconnect), comm);
}

// ---- What a communicator is: known, so that nothing is recorded ----------------------------------------------------

// Of one that is none, the library says that.
#define KNOWN(name, field)                                                                                             \
    int MPI_Comm_##name(MPI_Comm comm, int *value)                                                                     \
    {                                                                                                                  \
        const struct comm *known = comm_of(comm);                                                                      \
        if (!is_playing() || known->number < 0)                                                                        \
            return NEXT(Comm_##name)(comm, value);                                                                     \
        *value = known->field;                                                                                         \
        return MPI_SUCCESS;                                                                                            \
    }

KNOWN(rank, rank)
KNOWN(size, size)
KNOWN(remote_size, remote_size)
KNOWN(test_inter, is_inter)

// ---- What else is asked --------------------------------------------------------------------------------------------

#define ASKS(name, comm, params, args, compared, answers)                                                              \
    int MPI_##name params                                                                                              \
    {                                                                                                                  \
        ENTER(name);                                                                                                   \
        PASSED(name, args);                                                                                            \
        COMPARE(name, UNPACKED compared);                                                                              \
        int result = MAKE(name, args);                                                                                 \
        if (out(result == MPI_SUCCESS)) {                                                                              \
            answers;                                                                                                   \
        }                                                                                                              \
        return result_of(treatment, result, comm);                                                                     \
    }
#define OUT_INTS(array, count)                                                                                         \
    do {                                                                                                               \
        if ((count) > 0)                                                                                               \
            dmc_bytes(array, (uint64_t)(count) * sizeof(int));                                                         \
    } while (0)

ASKS(Comm_compare, a, (MPI_Comm a, MPI_Comm b, int *relation), (a, b, relation), (comm_of(a)->number, comm_of(b)->number),
     OUT(*relation))
ASKS(Topo_test, comm, (MPI_Comm comm, int *kind), (comm, kind), (comm_of(comm)->number), OUT(*kind))
ASKS(Cartdim_get, comm, (MPI_Comm comm, int *ndims), (comm, ndims), (comm_of(comm)->number), OUT(*ndims))
ASKS(Cart_rank, comm, (MPI_Comm comm, const int coords[], int *rank), (comm, coords, rank), (comm_of(comm)->number),
     OUT(*rank))
ASKS(Cart_shift, comm, (MPI_Comm comm, int direction, int disp, int *source, int *dest),
     (comm, direction, disp, source, dest), (comm_of(comm)->number, direction, disp), OUT(*source);
     OUT(*dest))
ASKS(Cart_map, comm, (MPI_Comm comm, int ndims, const int dims[], const int periods[], int *rank),
     (comm, ndims, dims, periods, rank), (comm_of(comm)->number, ndims), OUT(*rank))
ASKS(Graph_map, comm, (MPI_Comm comm, int nnodes, const int index[], const int edges[], int *rank),
     (comm, nnodes, index, edges, rank), (comm_of(comm)->number, nnodes), OUT(*rank))
ASKS(Graphdims_get, comm, (MPI_Comm comm, int *nodes, int *edges), (comm, nodes, edges), (comm_of(comm)->number),
     OUT(*nodes);
     OUT(*edges))
ASKS(Graph_neighbors_count, comm, (MPI_Comm comm, int rank, int *count), (comm, rank, count),
     (comm_of(comm)->number, rank), OUT(*count))
ASKS(Dist_graph_neighbors_count, comm, (MPI_Comm comm, int *in, int *outdegree, int *weighted),
     (comm, in, outdegree, weighted), (comm_of(comm)->number), OUT(*in);
     OUT(*outdegree); OUT(*weighted))

// Arrays: as many elements as there are, and as there is room for.
static int there_are(int treatment, int count, int room)
{
    return (int)out(treatment == RECORD ? count < room ? count : room : 0);
}

static int dimensions(int treatment, MPI_Comm comm, int room)
{
    int count = 0;
    if (treatment == RECORD)
        PMPI_Cartdim_get(comm, &count);
    return there_are(treatment, count, room);
}

ASKS(Cart_coords, comm, (MPI_Comm comm, int rank, int maxdims, int coords[]), (comm, rank, maxdims, coords),
     (comm_of(comm)->number, rank, maxdims), int count = dimensions(treatment, comm, maxdims);
     OUT_INTS(coords, count))
ASKS(Cart_get, comm, (MPI_Comm comm, int maxdims, int dims[], int periods[], int coords[]),
     (comm, maxdims, dims, periods, coords), (comm_of(comm)->number, maxdims),
     int count = dimensions(treatment, comm, maxdims);
     OUT_INTS(dims, count); OUT_INTS(periods, count); OUT_INTS(coords, count))

static int graph_size(int treatment, MPI_Comm comm, int wants_edges, int room)
{
    int nodes = 0, edges = 0;
    if (treatment == RECORD)
        PMPI_Graphdims_get(comm, &nodes, &edges);
    return there_are(treatment, wants_edges ? edges : nodes, room);
}

ASKS(Graph_get, comm, (MPI_Comm comm, int maxindex, int maxedges, int index[], int edges[]),
     (comm, maxindex, maxedges, index, edges), (comm_of(comm)->number, maxindex, maxedges),
     int nodes = graph_size(treatment, comm, 0, maxindex);
     int count = graph_size(treatment, comm, 1, maxedges); OUT_INTS(index, nodes); OUT_INTS(edges, count))

static int graph_neighbors(int treatment, MPI_Comm comm, int rank, int room)
{
    int count = 0;
    if (treatment == RECORD)
        PMPI_Graph_neighbors_count(comm, rank, &count);
    return there_are(treatment, count, room);
}

ASKS(Graph_neighbors, comm, (MPI_Comm comm, int rank, int room, int neighbors[]), (comm, rank, room, neighbors),
     (comm_of(comm)->number, rank, room), int count = graph_neighbors(treatment, comm, rank, room);
     OUT_INTS(neighbors, count))

// Weights may be MPI_UNWEIGHTED; there are some if the graph has them.
static void put_weights(int is_weighted, int weights[], int count)
{
    if (is_weighted && weights != unweighted())
        OUT_INTS(weights, count);
}

static void put_adjacency(int treatment, MPI_Comm comm, int room_in, int sources[], int sourceweights[], int room_out,
                          int destinations[], int destweights[])
{
    int in = 0, outdegree = 0, weighted = 0;
    if (treatment == RECORD)
        PMPI_Dist_graph_neighbors_count(comm, &in, &outdegree, &weighted);
    in = there_are(treatment, in, room_in);
    outdegree = there_are(treatment, outdegree, room_out);
    weighted = (int)out(weighted);
    OUT_INTS(sources, in);
    OUT_INTS(destinations, outdegree);
    put_weights(weighted, sourceweights, in);
    put_weights(weighted, destweights, outdegree);
}

ASKS(Dist_graph_neighbors, comm,
     (MPI_Comm comm, int room_in, int sources[], int sourceweights[], int room_out, int destinations[], int destweights[]),
     (comm, room_in, sources, sourceweights, room_out, destinations, destweights),
     (comm_of(comm)->number, room_in, room_out),
     put_adjacency(treatment, comm, room_in, sources, sourceweights, room_out, destinations, destweights))

// ---- Attributes that say something of the job ----------------------------------------------------------------------

static int is_predefined(int keyval)
{
    const int predefined[] = {MPI_TAG_UB, MPI_HOST, MPI_IO, MPI_WTIME_IS_GLOBAL, MPI_UNIVERSE_SIZE, MPI_LASTUSEDCODE, MPI_APPNUM};
    for (unsigned i = 0; i < sizeof predefined / sizeof *predefined; i++)
        if (predefined[i] == keyval)
            return 1;
    return 0;
}

// All of these are pointers to numbers.
static void put_attribute(int treatment, int keyval, void *value, int *flag)
{
    static int values[256];
    *flag = (int)out(*flag);
    if (!*flag)
        return;
    int number = (int)out(treatment == RECORD ? **(int **)value : 0);
    if (treatment == PLAY) {
        values[keyval & 255] = number;
        *(int **)value = &values[keyval & 255];
    }
}

#define ATTRIBUTE(name)                                                                                                \
    int MPI_##name(MPI_Comm comm, int keyval, void *value, int *flag)                                                  \
    {                                                                                                                  \
        if (!is_predefined(keyval))                                                                                    \
            return NEXT(name)(comm, keyval, value, flag);                                                              \
        ENTER(name);                                                                                                   \
        PASSED(name, (comm, keyval, value, flag));                                                                     \
        COMPARE(name, comm_of(comm)->number, keyval);                                                                  \
        int result = MAKE(name, (comm, keyval, value, flag));                                                          \
        if (out(result == MPI_SUCCESS))                                                                                \
            put_attribute(treatment, keyval, value, flag);                                                             \
        return result_of(treatment, result, comm);                                                                     \
    }

ATTRIBUTE(Comm_get_attr)
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
ATTRIBUTE(Attr_get)

// ---- Groups --------------------------------------------------------------------------------------------------------

void group_made(int treatment, MPI_Group *made)
{
    enum { NO_GROUP, EMPTY, ORDINARY };
    int kind = NO_GROUP;
    if (treatment == RECORD)
        kind = *made == MPI_GROUP_NULL ? NO_GROUP : *made == MPI_GROUP_EMPTY ? EMPTY : ORDINARY;
    kind = (int)out(kind);
    if (treatment != PLAY)
        return;
    *made = kind == NO_GROUP ? MPI_GROUP_NULL : MPI_GROUP_EMPTY;
    if (kind == ORDINARY) {
        MPI_Group self;
        const int first = 0;
        PMPI_Comm_group(MPI_COMM_SELF, &self);
        PMPI_Group_incl(self, 1, &first, made);
        PMPI_Group_free(&self);
    }
}

#define MAKES_GROUP(name, params, args, compared)                                                                      \
    int MPI_##name(UNPACKED params MPI_Group *made)                                                                    \
    {                                                                                                                  \
        ENTER(name);                                                                                                   \
        PASSED(name, (UNPACKED args made));                                                                            \
        COMPARE(name, UNPACKED compared);                                                                              \
        int result = MAKE(name, (UNPACKED args made));                                                                 \
        if (out(result == MPI_SUCCESS))                                                                                \
            group_made(treatment, made);                                                                               \
        return result_of(treatment, result, MPI_COMM_WORLD);                                                           \
    }

MAKES_GROUP(Comm_group, (MPI_Comm comm, ), (comm, ), (comm_of(comm)->number))
MAKES_GROUP(Comm_remote_group, (MPI_Comm comm, ), (comm, ), (comm_of(comm)->number))
MAKES_GROUP(Group_union, (MPI_Group a, MPI_Group b, ), (a, b, ), ())
MAKES_GROUP(Group_intersection, (MPI_Group a, MPI_Group b, ), (a, b, ), ())
MAKES_GROUP(Group_difference, (MPI_Group a, MPI_Group b, ), (a, b, ), ())
MAKES_GROUP(Group_incl, (MPI_Group group, int n, const int ranks[], ), (group, n, ranks, ), (n))
MAKES_GROUP(Group_excl, (MPI_Group group, int n, const int ranks[], ), (group, n, ranks, ), (n))
MAKES_GROUP(Group_range_incl, (MPI_Group group, int n, int ranges[][3], ), (group, n, ranges, ), (n))
MAKES_GROUP(Group_range_excl, (MPI_Group group, int n, int ranges[][3], ), (group, n, ranges, ), (n))

ASKS(Group_size, MPI_COMM_WORLD, (MPI_Group group, int *size), (group, size), (), OUT(*size))
ASKS(Group_rank, MPI_COMM_WORLD, (MPI_Group group, int *rank), (group, rank), (), OUT(*rank))
ASKS(Group_compare, MPI_COMM_WORLD, (MPI_Group a, MPI_Group b, int *relation), (a, b, relation), (), OUT(*relation))
ASKS(Group_translate_ranks, MPI_COMM_WORLD, (MPI_Group a, int n, const int ranks[], MPI_Group b, int others[]),
     (a, n, ranks, b, others), (n), OUT_INTS(others, n))
