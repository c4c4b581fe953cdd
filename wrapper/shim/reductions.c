// Reductions in the order of ranks: x0 op x1 op … from the left, whatever the library would do. Rank 0 of the group, or the root,
// has all that is reduced and does it alone.
#include <stdlib.h>

#include "logical.h"

enum { SELF_TAG = 1 };

// What all ranks bring, one block after the other.
struct blocks {
    char *memory;
    char *first;
    MPI_Aint stride;
    int count;
    MPI_Datatype type;
};

// Whether the reduction is left to the library: it is not wished, or goes between groups.
static int is_left(MPI_Comm comm)
{
    int inter = 0;
    return !dms_orders_reductions || PMPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS || inter;
}

static struct blocks blocks_of(int blocks, int count, MPI_Datatype type)
{
    MPI_Aint lb, extent, true_lb, true_extent;
    struct blocks made = {.count = count, .type = type};
    PMPI_Type_get_extent(type, &lb, &extent);
    PMPI_Type_get_true_extent(type, &true_lb, &true_extent);
    made.stride = extent * count;
    made.memory = malloc((size_t)(made.stride * blocks + true_extent) + 1);
    // Others have begun to send what would be lost.
    if (!made.memory)
        PMPI_Abort(MPI_COMM_WORLD, MPI_ERR_NO_MEM);
    made.first = made.memory - true_lb;
    return made;
}

static void *block(const struct blocks *blocks, int number)
{
    return blocks->first + blocks->stride * number;
}

// From here on each block is the reduction of all up to it.
static int fold(const struct blocks *blocks, int ranks, MPI_Op op)
{
    int result = MPI_SUCCESS;
    for (int rank = 1; rank < ranks && result == MPI_SUCCESS; rank++)
        result = PMPI_Reduce_local(block(blocks, rank - 1), block(blocks, rank), blocks->count, blocks->type, op);
    return result;
}

// Has a rank gather the blocks of all and fold them. It has to free them.
static int gather_and_fold(const void *own, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm,
                           struct blocks *blocks)
{
    int rank, ranks;
    PMPI_Comm_rank(comm, &rank);
    PMPI_Comm_size(comm, &ranks);
    *blocks = (struct blocks){0};
    if (rank == root)
        *blocks = blocks_of(ranks, count, type);
    int result = PMPI_Gather(own, count, type, blocks->first, count, type, root, comm);
    return result == MPI_SUCCESS && rank == root ? fold(blocks, ranks, op) : result;
}

static int copy(const void *from, void *to, int count, MPI_Datatype type)
{
    return PMPI_Sendrecv(from, count, type, 0, SELF_TAG, to, count, type, 0, SELF_TAG, silent_comm(), MPI_STATUS_IGNORE);
}

static const void *own_part(const void *sendbuf, const void *recvbuf)
{
    return sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf;
}

static int reduce_to(int root, const void *own, void *recvbuf, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    int rank, ranks;
    struct blocks blocks;
    PMPI_Comm_rank(comm, &rank);
    PMPI_Comm_size(comm, &ranks);
    int result = gather_and_fold(own, count, type, op, root, comm, &blocks);
    if (result == MPI_SUCCESS && rank == root)
        result = copy(block(&blocks, ranks - 1), recvbuf, count, type);
    free(blocks.memory);
    return result;
}

int ordered_Reduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm)
{
    if (is_left(comm))
        return PMPI_Reduce(sendbuf, recvbuf, count, type, op, root, comm);
    return reduce_to(root, own_part(sendbuf, recvbuf), recvbuf, count, type, op, comm);
}

int ordered_Allreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    if (is_left(comm))
        return PMPI_Allreduce(sendbuf, recvbuf, count, type, op, comm);
    int result = reduce_to(0, own_part(sendbuf, recvbuf), recvbuf, count, type, op, comm);
    return result == MPI_SUCCESS ? PMPI_Bcast(recvbuf, count, type, 0, comm) : result;
}

int ordered_Reduce_scatter(const void *sendbuf, void *recvbuf, const int recvcounts[], MPI_Datatype type, MPI_Op op,
                           MPI_Comm comm)
{
    if (is_left(comm))
        return PMPI_Reduce_scatter(sendbuf, recvbuf, recvcounts, type, op, comm);
    int rank, ranks, count = 0;
    struct blocks blocks;
    PMPI_Comm_rank(comm, &rank);
    PMPI_Comm_size(comm, &ranks);
    int *begins = malloc((size_t)ranks * sizeof *begins);
    if (!begins)
        PMPI_Abort(MPI_COMM_WORLD, MPI_ERR_NO_MEM);
    for (int i = 0; i < ranks; i++) {
        begins[i] = count;
        count += recvcounts[i];
    }
    int result = gather_and_fold(own_part(sendbuf, recvbuf), count, type, op, 0, comm, &blocks);
    void *all = rank == 0 ? block(&blocks, ranks - 1) : NULL;
    if (result == MPI_SUCCESS)
        result = PMPI_Scatterv(all, recvcounts, begins, type, recvbuf, recvcounts[rank], type, 0, comm);
    free(begins);
    free(blocks.memory);
    return result;
}

int ordered_Reduce_scatter_block(const void *sendbuf, void *recvbuf, int count, MPI_Datatype type, MPI_Op op,
                                 MPI_Comm comm)
{
    if (is_left(comm))
        return PMPI_Reduce_scatter_block(sendbuf, recvbuf, count, type, op, comm);
    int rank, ranks;
    struct blocks blocks;
    PMPI_Comm_rank(comm, &rank);
    PMPI_Comm_size(comm, &ranks);
    int result = gather_and_fold(own_part(sendbuf, recvbuf), ranks * count, type, op, 0, comm, &blocks);
    void *all = rank == 0 ? block(&blocks, ranks - 1) : NULL;
    if (result == MPI_SUCCESS)
        result = PMPI_Scatter(all, count, type, recvbuf, count, type, 0, comm);
    free(blocks.memory);
    return result;
}

int ordered_Scan(const void *sendbuf, void *recvbuf, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    if (is_left(comm))
        return PMPI_Scan(sendbuf, recvbuf, count, type, op, comm);
    struct blocks blocks;
    int result = gather_and_fold(own_part(sendbuf, recvbuf), count, type, op, 0, comm, &blocks);
    if (result == MPI_SUCCESS)
        result = PMPI_Scatter(blocks.first, count, type, recvbuf, count, type, 0, comm);
    free(blocks.memory);
    return result;
}

int ordered_Exscan(const void *sendbuf, void *recvbuf, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    if (is_left(comm))
        return PMPI_Exscan(sendbuf, recvbuf, count, type, op, comm);
    int rank, ranks;
    struct blocks blocks;
    PMPI_Comm_rank(comm, &rank);
    PMPI_Comm_size(comm, &ranks);
    int *counts = calloc(2 * (size_t)ranks, sizeof *counts), *begins = counts + ranks;
    if (!counts)
        PMPI_Abort(MPI_COMM_WORLD, MPI_ERR_NO_MEM);
    // Each gets what those before it make; the first gets nothing.
    for (int i = 1; i < ranks; i++) {
        counts[i] = count;
        begins[i] = (i - 1) * count;
    }
    int result = gather_and_fold(own_part(sendbuf, recvbuf), count, type, op, 0, comm, &blocks);
    if (result == MPI_SUCCESS)
        result = PMPI_Scatterv(blocks.first, counts, begins, type, recvbuf, counts[rank], type, 0, comm);
    free(counts);
    free(blocks.memory);
    return result;
}
