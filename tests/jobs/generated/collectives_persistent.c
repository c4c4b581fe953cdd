// Persistent collective operations: made here, started and completed elsewhere. One call on one line, however long: its line is what a finding names.
#include "collectives.h"

static void barrier_init(const struct arguments *a, MPI_Request *request)
{
    PERSISTENT(Barrier_init)(a->comm, MPI_INFO_NULL, request); // call: barrier_init
}

static void bcast_init(const struct arguments *a, MPI_Request *request)
{
    PERSISTENT(Bcast_init)(a->out, BLOCK, MPI_INT, a->root, a->comm, MPI_INFO_NULL, request); // call: bcast_init
}

static void gather_init(const struct arguments *a, MPI_Request *request)
{
    PERSISTENT(Gather_init)(a->in, BLOCK, MPI_INT, a->out, BLOCK, MPI_INT, a->root, a->comm, MPI_INFO_NULL, request); // call: gather_init
}

static void gatherv_init(const struct arguments *a, MPI_Request *request)
{
    PERSISTENT(Gatherv_init)(a->in, BLOCK, MPI_INT, a->out, a->counts, a->places, MPI_INT, a->root, a->comm, MPI_INFO_NULL, request); // call: gatherv_init
}

static void scatter_init(const struct arguments *a, MPI_Request *request)
{
    PERSISTENT(Scatter_init)(a->in, BLOCK, MPI_INT, a->out, BLOCK, MPI_INT, a->root, a->comm, MPI_INFO_NULL, request); // call: scatter_init
}

static void scatterv_init(const struct arguments *a, MPI_Request *request)
{
    PERSISTENT(Scatterv_init)(a->in, a->counts, a->places, MPI_INT, a->out, BLOCK, MPI_INT, a->root, a->comm, MPI_INFO_NULL, request); // call: scatterv_init
}

static void allgather_init(const struct arguments *a, MPI_Request *request)
{
    PERSISTENT(Allgather_init)(a->in, BLOCK, MPI_INT, a->out, BLOCK, MPI_INT, a->comm, MPI_INFO_NULL, request); // call: allgather_init
}

static void allgatherv_init(const struct arguments *a, MPI_Request *request)
{
    PERSISTENT(Allgatherv_init)(a->in, BLOCK, MPI_INT, a->out, a->counts, a->places, MPI_INT, a->comm, MPI_INFO_NULL, request); // call: allgatherv_init
}

static void alltoall_init(const struct arguments *a, MPI_Request *request)
{
    PERSISTENT(Alltoall_init)(a->in, BLOCK, MPI_INT, a->out, BLOCK, MPI_INT, a->comm, MPI_INFO_NULL, request); // call: alltoall_init
}

static void alltoallv_init(const struct arguments *a, MPI_Request *request)
{
    PERSISTENT(Alltoallv_init)(a->in, a->counts, a->places, MPI_INT, a->out, a->counts, a->places, MPI_INT, a->comm, MPI_INFO_NULL, request); // call: alltoallv_init
}

static void alltoallw_init(const struct arguments *a, MPI_Request *request)
{
    PERSISTENT(Alltoallw_init)(a->in, a->counts, a->byte_places, a->types, a->out, a->counts, a->byte_places, a->types, a->comm, MPI_INFO_NULL, request); // call: alltoallw_init
}

static void reduce_init(const struct arguments *a, MPI_Request *request)
{
    PERSISTENT(Reduce_init)(a->in, a->out, BLOCK, MPI_INT, MPI_SUM, a->root, a->comm, MPI_INFO_NULL, request); // call: reduce_init
}

static void allreduce_init(const struct arguments *a, MPI_Request *request)
{
    PERSISTENT(Allreduce_init)(a->in, a->out, BLOCK, MPI_INT, MPI_SUM, a->comm, MPI_INFO_NULL, request); // call: allreduce_init
}

static void reduce_scatter_init(const struct arguments *a, MPI_Request *request)
{
    PERSISTENT(Reduce_scatter_init)(a->in, a->out, a->counts, MPI_INT, MPI_SUM, a->comm, MPI_INFO_NULL, request); // call: reduce_scatter_init
}

static void reduce_scatter_block_init(const struct arguments *a, MPI_Request *request)
{
    PERSISTENT(Reduce_scatter_block_init)(a->in, a->out, BLOCK, MPI_INT, MPI_SUM, a->comm, MPI_INFO_NULL, request); // call: reduce_scatter_block_init
}

static void scan_init(const struct arguments *a, MPI_Request *request)
{
    PERSISTENT(Scan_init)(a->in, a->out, BLOCK, MPI_INT, MPI_SUM, a->comm, MPI_INFO_NULL, request); // call: scan_init
}

static void exscan_init(const struct arguments *a, MPI_Request *request)
{
    PERSISTENT(Exscan_init)(a->in, a->out, BLOCK, MPI_INT, MPI_SUM, a->comm, MPI_INFO_NULL, request); // call: exscan_init
}

static void neighbor_allgather_init(const struct arguments *a, MPI_Request *request)
{
    PERSISTENT(Neighbor_allgather_init)(a->in, BLOCK, MPI_INT, a->out, BLOCK, MPI_INT, a->grid, MPI_INFO_NULL, request); // call: neighbor_allgather_init
}

static void neighbor_allgatherv_init(const struct arguments *a, MPI_Request *request)
{
    PERSISTENT(Neighbor_allgatherv_init)(a->in, BLOCK, MPI_INT, a->out, a->counts, a->places, MPI_INT, a->grid, MPI_INFO_NULL, request); // call: neighbor_allgatherv_init
}

static void neighbor_alltoall_init(const struct arguments *a, MPI_Request *request)
{
    PERSISTENT(Neighbor_alltoall_init)(a->in, BLOCK, MPI_INT, a->out, BLOCK, MPI_INT, a->grid, MPI_INFO_NULL, request); // call: neighbor_alltoall_init
}

static void neighbor_alltoallv_init(const struct arguments *a, MPI_Request *request)
{
    PERSISTENT(Neighbor_alltoallv_init)(a->in, a->counts, a->places, MPI_INT, a->out, a->counts, a->places, MPI_INT, a->grid, MPI_INFO_NULL, request); // call: neighbor_alltoallv_init
}

static void neighbor_alltoallw_init(const struct arguments *a, MPI_Request *request)
{
    PERSISTENT(Neighbor_alltoallw_init)(a->in, a->counts, a->addresses, a->types, a->out, a->counts, a->addresses, a->types, a->grid, MPI_INFO_NULL, request); // call: neighbor_alltoallw_init
}

#define ENTRY(name) {#name, run_persistent, {.with_request = name}}
const struct operation persistent_collectives[] = {
    ENTRY(barrier_init), ENTRY(bcast_init), ENTRY(gather_init), ENTRY(gatherv_init), ENTRY(scatter_init),
    ENTRY(scatterv_init), ENTRY(allgather_init), ENTRY(allgatherv_init), ENTRY(alltoall_init),
    ENTRY(alltoallv_init), ENTRY(alltoallw_init), ENTRY(reduce_init), ENTRY(allreduce_init),
    ENTRY(reduce_scatter_init), ENTRY(reduce_scatter_block_init), ENTRY(scan_init), ENTRY(exscan_init),
    ENTRY(neighbor_allgather_init), ENTRY(neighbor_allgatherv_init), ENTRY(neighbor_alltoall_init),
    ENTRY(neighbor_alltoallv_init), ENTRY(neighbor_alltoallw_init),
    {.name = NULL},
};
