// Collective operations that do not block. One call on one line, however long: its line is what a finding names.
#include "collectives.h"

static void ibarrier(const struct arguments *a, MPI_Request *request)
{
    MPI_Ibarrier(a->comm, request); // call: ibarrier
}

static void ibcast(const struct arguments *a, MPI_Request *request)
{
    MPI_Ibcast(a->out, BLOCK, MPI_INT, a->root, a->comm, request); // call: ibcast
}

static void igather(const struct arguments *a, MPI_Request *request)
{
    MPI_Igather(a->in, BLOCK, MPI_INT, a->out, BLOCK, MPI_INT, a->root, a->comm, request); // call: igather
}

static void igatherv(const struct arguments *a, MPI_Request *request)
{
    MPI_Igatherv(a->in, BLOCK, MPI_INT, a->out, a->counts, a->places, MPI_INT, a->root, a->comm, request); // call: igatherv
}

static void iscatter(const struct arguments *a, MPI_Request *request)
{
    MPI_Iscatter(a->in, BLOCK, MPI_INT, a->out, BLOCK, MPI_INT, a->root, a->comm, request); // call: iscatter
}

static void iscatterv(const struct arguments *a, MPI_Request *request)
{
    MPI_Iscatterv(a->in, a->counts, a->places, MPI_INT, a->out, BLOCK, MPI_INT, a->root, a->comm, request); // call: iscatterv
}

static void iallgather(const struct arguments *a, MPI_Request *request)
{
    MPI_Iallgather(a->in, BLOCK, MPI_INT, a->out, BLOCK, MPI_INT, a->comm, request); // call: iallgather
}

static void iallgatherv(const struct arguments *a, MPI_Request *request)
{
    MPI_Iallgatherv(a->in, BLOCK, MPI_INT, a->out, a->counts, a->places, MPI_INT, a->comm, request); // call: iallgatherv
}

static void ialltoall(const struct arguments *a, MPI_Request *request)
{
    MPI_Ialltoall(a->in, BLOCK, MPI_INT, a->out, BLOCK, MPI_INT, a->comm, request); // call: ialltoall
}

static void ialltoallv(const struct arguments *a, MPI_Request *request)
{
    MPI_Ialltoallv(a->in, a->counts, a->places, MPI_INT, a->out, a->counts, a->places, MPI_INT, a->comm, request); // call: ialltoallv
}

static void ialltoallw(const struct arguments *a, MPI_Request *request)
{
    MPI_Ialltoallw(a->in, a->counts, a->byte_places, a->types, a->out, a->counts, a->byte_places, a->types, a->comm, request); // call: ialltoallw
}

static void ireduce(const struct arguments *a, MPI_Request *request)
{
    MPI_Ireduce(a->in, a->out, BLOCK, MPI_INT, MPI_SUM, a->root, a->comm, request); // call: ireduce
}

static void iallreduce(const struct arguments *a, MPI_Request *request)
{
    MPI_Iallreduce(a->in, a->out, BLOCK, MPI_INT, MPI_SUM, a->comm, request); // call: iallreduce
}

static void ireduce_scatter(const struct arguments *a, MPI_Request *request)
{
    MPI_Ireduce_scatter(a->in, a->out, a->counts, MPI_INT, MPI_SUM, a->comm, request); // call: ireduce_scatter
}

static void ireduce_scatter_block(const struct arguments *a, MPI_Request *request)
{
    MPI_Ireduce_scatter_block(a->in, a->out, BLOCK, MPI_INT, MPI_SUM, a->comm, request); // call: ireduce_scatter_block
}

static void iscan(const struct arguments *a, MPI_Request *request)
{
    MPI_Iscan(a->in, a->out, BLOCK, MPI_INT, MPI_SUM, a->comm, request); // call: iscan
}

static void iexscan(const struct arguments *a, MPI_Request *request)
{
    MPI_Iexscan(a->in, a->out, BLOCK, MPI_INT, MPI_SUM, a->comm, request); // call: iexscan
}

static void ineighbor_allgather(const struct arguments *a, MPI_Request *request)
{
    MPI_Ineighbor_allgather(a->in, BLOCK, MPI_INT, a->out, BLOCK, MPI_INT, a->grid, request); // call: ineighbor_allgather
}

static void ineighbor_allgatherv(const struct arguments *a, MPI_Request *request)
{
    MPI_Ineighbor_allgatherv(a->in, BLOCK, MPI_INT, a->out, a->counts, a->places, MPI_INT, a->grid, request); // call: ineighbor_allgatherv
}

static void ineighbor_alltoall(const struct arguments *a, MPI_Request *request)
{
    MPI_Ineighbor_alltoall(a->in, BLOCK, MPI_INT, a->out, BLOCK, MPI_INT, a->grid, request); // call: ineighbor_alltoall
}

static void ineighbor_alltoallv(const struct arguments *a, MPI_Request *request)
{
    MPI_Ineighbor_alltoallv(a->in, a->counts, a->places, MPI_INT, a->out, a->counts, a->places, MPI_INT, a->grid, request); // call: ineighbor_alltoallv
}

static void ineighbor_alltoallw(const struct arguments *a, MPI_Request *request)
{
    MPI_Ineighbor_alltoallw(a->in, a->counts, a->addresses, a->types, a->out, a->counts, a->addresses, a->types, a->grid, request); // call: ineighbor_alltoallw
}

#define ENTRY(name) {#name, run_nonblocking, {.with_request = name}}
const struct operation nonblocking_collectives[] = {
    ENTRY(ibarrier), ENTRY(ibcast), ENTRY(igather), ENTRY(igatherv), ENTRY(iscatter), ENTRY(iscatterv),
    ENTRY(iallgather), ENTRY(iallgatherv), ENTRY(ialltoall), ENTRY(ialltoallv), ENTRY(ialltoallw), ENTRY(ireduce),
    ENTRY(iallreduce), ENTRY(ireduce_scatter), ENTRY(ireduce_scatter_block), ENTRY(iscan), ENTRY(iexscan),
    ENTRY(ineighbor_allgather), ENTRY(ineighbor_allgatherv), ENTRY(ineighbor_alltoall), ENTRY(ineighbor_alltoallv),
    ENTRY(ineighbor_alltoallw),
    {.name = NULL},
};
