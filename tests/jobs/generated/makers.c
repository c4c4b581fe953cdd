// What goes wrong where all ranks of a communicator make something together: another communicator, or a window.
#include "generated.h"

enum maker {
    COMM_DUP, COMM_DUP_WITH_INFO, COMM_IDUP, COMM_SPLIT, COMM_SPLIT_TYPE, COMM_CREATE, CART_CREATE, DIST_GRAPH,
    WIN_CREATE, WIN_ALLOCATE, WIN_ALLOCATE_SHARED, WIN_CREATE_DYNAMIC, WIN_FREE
};

enum { WINDOW_BYTES = 4096 }; // MPICH 4.0 puts bytes beside the place in windows that lie close together

static MPI_Comm dup_without_blocking(MPI_Comm comm)
{
    MPI_Comm made;
    MPI_Request request;
    MPI_Comm_idup(comm, &made, &request); // call: comm_idup
    MPI_Wait(&request, MPI_STATUS_IGNORE); // call: wait for comm_idup
    return made;
}

static MPI_Comm create_of_all(MPI_Comm comm)
{
    MPI_Comm made;
    MPI_Group all;
    MPI_Comm_group(comm, &all);
    MPI_Comm_create(comm, all, &made); // call: comm_create
    MPI_Group_free(&all);
    return made;
}

static MPI_Comm create_graph(const struct scene *scene, MPI_Comm comm)
{
    const int left = (scene->rank + scene->ranks - 1) % scene->ranks, right = (scene->rank + 1) % scene->ranks;
    const int weight = 1; // gcc misunderstands Open MPI's MPI_UNWEIGHTED
    MPI_Comm made;
    MPI_Dist_graph_create_adjacent(comm, 1, &left, &weight, 1, &right, &weight, MPI_INFO_NULL, 0, &made); // call: dist_graph_create_adjacent
    return made;
}

static MPI_Comm make_comm(const struct scene *scene, enum maker kind, MPI_Comm comm)
{
    const int size = scene->ranks, periodic = 1;
    MPI_Comm made = MPI_COMM_NULL;
    switch (kind) {
    case COMM_DUP:
        MPI_Comm_dup(comm, &made); // call: comm_dup
        break;
    case COMM_DUP_WITH_INFO:
        MPI_Comm_dup_with_info(comm, MPI_INFO_NULL, &made); // call: comm_dup_with_info
        break;
    case COMM_IDUP:
        return dup_without_blocking(comm);
    case COMM_SPLIT:
        MPI_Comm_split(comm, scene->rank % 2, scene->rank, &made); // call: comm_split
        break;
    case COMM_SPLIT_TYPE:
        MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &made); // call: comm_split_type
        break;
    case COMM_CREATE:
        return create_of_all(comm);
    case CART_CREATE:
        MPI_Cart_create(comm, 1, &size, &periodic, 0, &made); // call: cart_create
        break;
    case DIST_GRAPH:
        return create_graph(scene, comm);
    default:
        break;
    }
    return made;
}

static MPI_Win make_window(enum maker kind, MPI_Comm comm)
{
    static char own[WINDOW_BYTES];
    void *base = NULL;
    MPI_Win window = MPI_WIN_NULL;
    switch (kind) {
    case WIN_CREATE:
        MPI_Win_create(own, WINDOW_BYTES, 1, MPI_INFO_NULL, comm, &window); // call: win_create
        break;
    case WIN_ALLOCATE:
        MPI_Win_allocate(WINDOW_BYTES, 1, MPI_INFO_NULL, comm, &base, &window); // call: win_allocate
        break;
    case WIN_ALLOCATE_SHARED:
        MPI_Win_allocate_shared(WINDOW_BYTES, 1, MPI_INFO_NULL, comm, &base, &window); // call: win_allocate_shared
        break;
    case WIN_CREATE_DYNAMIC:
        MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &window); // call: win_create_dynamic
        break;
    default:
        break;
    }
    return window;
}

static void make_and_give_back(const struct scene *scene, enum maker kind, MPI_Comm comm)
{
    if (kind < WIN_CREATE) {
        MPI_Comm made = make_comm(scene, kind, comm);
        MPI_Comm_free(&made);
    } else {
        MPI_Win made = make_window(kind, comm);
        MPI_Win_free(&made);
    }
}

static void meet(const struct scene *scene)
{
    MPI_Barrier(scene->comms[0]); // call: barrier beside what is made
}

static void run_maker(const struct scene *scene, const struct operation *operation)
{
    if (makes(scene, MISSING_CALL))
        return;
    if (makes(scene, OTHER_OPERATION) || makes(scene, OTHER_ORDER))
        meet(scene);
    if (makes(scene, OTHER_OPERATION))
        return;
    make_and_give_back(scene, (enum maker)operation->is.kind, scene->comms[makes(scene, OTHER_COMMUNICATOR)]);
    if (scene->fault == OTHER_ORDER && !scene->wrong)
        meet(scene);
}

// Two windows, so that one can be taken for the other.
static void run_win_free(const struct scene *scene, const struct operation *operation)
{
    (void)operation;
    MPI_Win windows[2];
    for (int i = 0; i < 2; i++)
        windows[i] = make_window(WIN_ALLOCATE, scene->comms[i]);
    if (makes(scene, MISSING_CALL))
        return;
    if (makes(scene, OTHER_OPERATION) || makes(scene, OTHER_ORDER))
        meet(scene);
    if (makes(scene, OTHER_OPERATION))
        return;
    MPI_Win_free(&windows[makes(scene, OTHER_COMMUNICATOR)]); // call: win_free
    if (scene->fault == OTHER_ORDER && !scene->wrong)
        meet(scene);
    MPI_Win_free(&windows[1]);
}

const struct operation makers[] = {
    {"comm_dup", run_maker, {COMM_DUP}},
    {"comm_dup_with_info", run_maker, {COMM_DUP_WITH_INFO}},
    {"comm_idup", run_maker, {COMM_IDUP}},
    {"comm_split", run_maker, {COMM_SPLIT}},
    {"comm_split_type", run_maker, {COMM_SPLIT_TYPE}},
    {"comm_create", run_maker, {COMM_CREATE}},
    {"cart_create", run_maker, {CART_CREATE}},
    {"dist_graph_create_adjacent", run_maker, {DIST_GRAPH}},
    {"win_create", run_maker, {WIN_CREATE}},
    {"win_allocate", run_maker, {WIN_ALLOCATE}},
    {"win_allocate_shared", run_maker, {WIN_ALLOCATE_SHARED}},
    {"win_create_dynamic", run_maker, {WIN_CREATE_DYNAMIC}},
    {"win_free", run_win_free, {WIN_FREE}},
    {.name = NULL},
};
