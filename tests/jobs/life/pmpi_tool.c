// A tool as profilers are: its functions are called in place of MPI's, and call MPI's by their other names.
#include <mpi.h>

static unsigned long calls;

int MPI_Send(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
    calls++;
    return PMPI_Send(buffer, count, type, to, tag, comm);
}

int MPI_Isend(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
    calls++;
    return PMPI_Isend(buffer, count, type, to, tag, comm, request);
}

int MPI_Irecv(void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request)
{
    calls++;
    return PMPI_Irecv(buffer, count, type, from, tag, comm, request);
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
    calls++;
    return PMPI_Waitall(count, requests, statuses);
}

int MPI_Alltoall(const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type,
                 MPI_Comm comm)
{
    calls++;
    return PMPI_Alltoall(out, out_count, out_type, in, in_count, in_type, comm);
}
