// The least that a preloaded tracer of MPI calls can do: one record a call, written to a file of each rank.
#define _GNU_SOURCE
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct record {
    uint64_t time_ns;
    uint64_t call;
    uint64_t arguments[6];
};

static FILE *output;

static void write_record(uint64_t call, uint64_t first, uint64_t second, uint64_t third, uint64_t fourth, uint64_t fifth,
                         uint64_t sixth)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const struct record record = {.time_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec,
                                  .call = call,
                                  .arguments = {first, second, third, fourth, fifth, sixth}};
    if (output != NULL)
        fwrite(&record, sizeof(record), 1, output);
}

#define NOTE(call, a, b, c, d, e, f)                                                                                   \
    write_record(call, (uint64_t)(a), (uint64_t)(b), (uint64_t)(c), (uint64_t)(d), (uint64_t)(e), (uint64_t)(f))

static void open_output(void)
{
    const char *folder = getenv("PMPI_LOGGER_FOLDER");
    char name[4096];
    int rank = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(name, sizeof(name), "%s/%d.log", folder == NULL ? "." : folder, rank);
    output = fopen(name, "w");
}

int MPI_Init(int *argc, char ***argv)
{
    const int result = PMPI_Init(argc, argv);
    open_output();
    return result;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    const int result = PMPI_Init_thread(argc, argv, required, provided);
    open_output();
    return result;
}

int MPI_Finalize(void)
{
    if (output != NULL)
        fclose(output);
    output = NULL;
    return PMPI_Finalize();
}

int MPI_Send(const void *buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm)
{
    NOTE(1, buffer, count, type, peer, tag, comm);
    return PMPI_Send(buffer, count, type, peer, tag, comm);
}

int MPI_Recv(void *buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Status *status)
{
    NOTE(2, buffer, count, type, peer, tag, comm);
    return PMPI_Recv(buffer, count, type, peer, tag, comm, status);
}

int MPI_Isend(const void *buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request *request)
{
    NOTE(3, buffer, count, type, peer, tag, comm);
    return PMPI_Isend(buffer, count, type, peer, tag, comm, request);
}

int MPI_Irecv(void *buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request *request)
{
    NOTE(4, buffer, count, type, peer, tag, comm);
    return PMPI_Irecv(buffer, count, type, peer, tag, comm, request);
}

int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    NOTE(5, request, status, 0, 0, 0, 0);
    return PMPI_Wait(request, status);
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
    NOTE(6, count, requests, statuses, 0, 0, 0);
    return PMPI_Waitall(count, requests, statuses);
}

int MPI_Sendrecv(const void *out, int out_count, MPI_Datatype out_type, int to, int out_tag, void *in, int in_count,
                 MPI_Datatype in_type, int from, int in_tag, MPI_Comm comm, MPI_Status *status)
{
    NOTE(7, out, out_count, out_type, to, out_tag, in);
    return PMPI_Sendrecv(out, out_count, out_type, to, out_tag, in, in_count, in_type, from, in_tag, comm, status);
}

int MPI_Barrier(MPI_Comm comm)
{
    NOTE(8, comm, 0, 0, 0, 0, 0);
    return PMPI_Barrier(comm);
}

int MPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    NOTE(9, buffer, count, type, root, comm, 0);
    return PMPI_Bcast(buffer, count, type, root, comm);
}

int MPI_Reduce(const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm)
{
    NOTE(10, out, in, count, type, op, root);
    return PMPI_Reduce(out, in, count, type, op, root, comm);
}

int MPI_Allreduce(const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    NOTE(11, out, in, count, type, op, comm);
    return PMPI_Allreduce(out, in, count, type, op, comm);
}

int MPI_Alltoall(const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type,
                 MPI_Comm comm)
{
    NOTE(12, out, out_count, out_type, in, in_count, in_type);
    return PMPI_Alltoall(out, out_count, out_type, in, in_count, in_type, comm);
}
