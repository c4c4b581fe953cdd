// Collective operations that block. One call on one line, however long: its line is what a finding names.
#include "collectives.h"

static void barrier(const struct arguments *a)
{
    MPI_Barrier(a->comm); // call: barrier
}

static void bcast(const struct arguments *a)
{
    MPI_Bcast(a->out, BLOCK, MPI_INT, a->root, a->comm); // call: bcast
}

static void gather(const struct arguments *a)
{
    MPI_Gather(a->in, BLOCK, MPI_INT, a->out, BLOCK, MPI_INT, a->root, a->comm); // call: gather
}

static void gatherv(const struct arguments *a)
{
    MPI_Gatherv(a->in, BLOCK, MPI_INT, a->out, a->counts, a->places, MPI_INT, a->root, a->comm); // call: gatherv
}

static void scatter(const struct arguments *a)
{
    MPI_Scatter(a->in, BLOCK, MPI_INT, a->out, BLOCK, MPI_INT, a->root, a->comm); // call: scatter
}

static void scatterv(const struct arguments *a)
{
    MPI_Scatterv(a->in, a->counts, a->places, MPI_INT, a->out, BLOCK, MPI_INT, a->root, a->comm); // call: scatterv
}

static void allgather(const struct arguments *a)
{
    MPI_Allgather(a->in, BLOCK, MPI_INT, a->out, BLOCK, MPI_INT, a->comm); // call: allgather
}

static void allgatherv(const struct arguments *a)
{
    MPI_Allgatherv(a->in, BLOCK, MPI_INT, a->out, a->counts, a->places, MPI_INT, a->comm); // call: allgatherv
}

static void alltoall(const struct arguments *a)
{
    MPI_Alltoall(a->in, BLOCK, MPI_INT, a->out, BLOCK, MPI_INT, a->comm); // call: alltoall
}

static void alltoallv(const struct arguments *a)
{
    MPI_Alltoallv(a->in, a->counts, a->places, MPI_INT, a->out, a->counts, a->places, MPI_INT, a->comm); // call: alltoallv
}

static void alltoallw(const struct arguments *a)
{
    MPI_Alltoallw(a->in, a->counts, a->byte_places, a->types, a->out, a->counts, a->byte_places, a->types, a->comm); // call: alltoallw
}

static void reduce(const struct arguments *a)
{
    MPI_Reduce(a->in, a->out, BLOCK, MPI_INT, MPI_SUM, a->root, a->comm); // call: reduce
}

static void allreduce(const struct arguments *a)
{
    MPI_Allreduce(a->in, a->out, BLOCK, MPI_INT, MPI_SUM, a->comm); // call: allreduce
}

static void reduce_scatter(const struct arguments *a)
{
    MPI_Reduce_scatter(a->in, a->out, a->counts, MPI_INT, MPI_SUM, a->comm); // call: reduce_scatter
}

static void reduce_scatter_block(const struct arguments *a)
{
    MPI_Reduce_scatter_block(a->in, a->out, BLOCK, MPI_INT, MPI_SUM, a->comm); // call: reduce_scatter_block
}

static void scan(const struct arguments *a)
{
    MPI_Scan(a->in, a->out, BLOCK, MPI_INT, MPI_SUM, a->comm); // call: scan
}

static void exscan(const struct arguments *a)
{
    MPI_Exscan(a->in, a->out, BLOCK, MPI_INT, MPI_SUM, a->comm); // call: exscan
}

static void neighbor_allgather(const struct arguments *a)
{
    MPI_Neighbor_allgather(a->in, BLOCK, MPI_INT, a->out, BLOCK, MPI_INT, a->grid); // call: neighbor_allgather
}

static void neighbor_allgatherv(const struct arguments *a)
{
    MPI_Neighbor_allgatherv(a->in, BLOCK, MPI_INT, a->out, a->counts, a->places, MPI_INT, a->grid); // call: neighbor_allgatherv
}

static void neighbor_alltoall(const struct arguments *a)
{
    MPI_Neighbor_alltoall(a->in, BLOCK, MPI_INT, a->out, BLOCK, MPI_INT, a->grid); // call: neighbor_alltoall
}

static void neighbor_alltoallv(const struct arguments *a)
{
    MPI_Neighbor_alltoallv(a->in, a->counts, a->places, MPI_INT, a->out, a->counts, a->places, MPI_INT, a->grid); // call: neighbor_alltoallv
}

static void neighbor_alltoallw(const struct arguments *a)
{
    MPI_Neighbor_alltoallw(a->in, a->counts, a->addresses, a->types, a->out, a->counts, a->addresses, a->types, a->grid); // call: neighbor_alltoallw
}

#define ENTRY(name) {#name, run_blocking, {.blocking = name}}
const struct operation blocking_collectives[] = {
    ENTRY(barrier), ENTRY(bcast), ENTRY(gather), ENTRY(gatherv), ENTRY(scatter), ENTRY(scatterv), ENTRY(allgather),
    ENTRY(allgatherv), ENTRY(alltoall), ENTRY(alltoallv), ENTRY(alltoallw), ENTRY(reduce), ENTRY(allreduce),
    ENTRY(reduce_scatter), ENTRY(reduce_scatter_block), ENTRY(scan), ENTRY(exscan), ENTRY(neighbor_allgather),
    ENTRY(neighbor_allgatherv), ENTRY(neighbor_alltoall), ENTRY(neighbor_alltoallv), ENTRY(neighbor_alltoallw),
    {.name = NULL},
};
