// Fortran calls of Open MPI that send, collective ones, and those that make communicators.
#include <stdlib.h>

#include "fortran.h"

#ifdef OPEN_MPI

#define SEND(lower, upper, Name)                                                                                       \
    NAMES(lower, upper,                                                                                                \
          (char *buf, MPI_Fint *count, MPI_Fint *type, MPI_Fint *dest, MPI_Fint *tag, MPI_Fint *comm, MPI_Fint *error))  \
    {                                                                                                                  \
        PUT(error,                                                                                                     \
            MPI_##Name(address(buf), *count, PMPI_Type_f2c(*type), *dest, *tag, PMPI_Comm_f2c(*comm)));                \
    }

SEND(send, SEND, Send)
SEND(ssend, SSEND, Ssend)
SEND(bsend, BSEND, Bsend)
SEND(rsend, RSEND, Rsend)

#define POST(lower, upper, Name)                                                                                       \
    NAMES(lower, upper,                                                                                                \
          (char *buf, MPI_Fint *count, MPI_Fint *type, MPI_Fint *dest, MPI_Fint *tag, MPI_Fint *comm,                  \
           MPI_Fint *request, MPI_Fint *error))                                                                        \
    {                                                                                                                  \
        MPI_Request made;                                                                                              \
        int result =                                                                                                   \
            MPI_##Name(address(buf), *count, PMPI_Type_f2c(*type), *dest, *tag, PMPI_Comm_f2c(*comm), &made);          \
        if (result == MPI_SUCCESS)                                                                                     \
            *request = PMPI_Request_c2f(made);                                                                         \
        PUT(error, result);                                                                                            \
    }

POST(isend, ISEND, Isend)
POST(issend, ISSEND, Issend)
POST(ibsend, IBSEND, Ibsend)
POST(irsend, IRSEND, Irsend)
POST(send_init, SEND_INIT, Send_init)
POST(ssend_init, SSEND_INIT, Ssend_init)
POST(bsend_init, BSEND_INIT, Bsend_init)
POST(rsend_init, RSEND_INIT, Rsend_init)

// ---- Collective calls --------------------------------------------------------------------------------------------------

NAMES(barrier, BARRIER, (MPI_Fint * comm, MPI_Fint *error))
{
    PUT(error, MPI_Barrier(PMPI_Comm_f2c(*comm)));
}

NAMES(bcast, BCAST,
      (char *buf, MPI_Fint *count, MPI_Fint *type, MPI_Fint *root, MPI_Fint *comm, MPI_Fint *error))
{
    PUT(error, MPI_Bcast(address(buf), *count, PMPI_Type_f2c(*type), *root, PMPI_Comm_f2c(*comm)));
}

NAMES(gather, GATHER,
      (char *sendbuf, MPI_Fint *sendcount, MPI_Fint *sendtype, char *recvbuf, MPI_Fint *recvcount, MPI_Fint *recvtype,
       MPI_Fint *root, MPI_Fint *comm, MPI_Fint *error))
{
    PUT(error, MPI_Gather(address(sendbuf), *sendcount, PMPI_Type_f2c(*sendtype), address(recvbuf), *recvcount,
                          PMPI_Type_f2c(*recvtype), *root, PMPI_Comm_f2c(*comm)));
}

NAMES(gatherv, GATHERV,
      (char *sendbuf, MPI_Fint *sendcount, MPI_Fint *sendtype, char *recvbuf, MPI_Fint *recvcounts, MPI_Fint *displs,
       MPI_Fint *recvtype, MPI_Fint *root, MPI_Fint *comm, MPI_Fint *error))
{
    PUT(error, MPI_Gatherv(address(sendbuf), *sendcount, PMPI_Type_f2c(*sendtype), address(recvbuf), recvcounts, displs,
                           PMPI_Type_f2c(*recvtype), *root, PMPI_Comm_f2c(*comm)));
}

NAMES(scatter, SCATTER,
      (char *sendbuf, MPI_Fint *sendcount, MPI_Fint *sendtype, char *recvbuf, MPI_Fint *recvcount, MPI_Fint *recvtype,
       MPI_Fint *root, MPI_Fint *comm, MPI_Fint *error))
{
    PUT(error, MPI_Scatter(address(sendbuf), *sendcount, PMPI_Type_f2c(*sendtype), address(recvbuf), *recvcount,
                           PMPI_Type_f2c(*recvtype), *root, PMPI_Comm_f2c(*comm)));
}

NAMES(scatterv, SCATTERV,
      (char *sendbuf, MPI_Fint *sendcounts, MPI_Fint *displs, MPI_Fint *sendtype, char *recvbuf, MPI_Fint *recvcount,
       MPI_Fint *recvtype, MPI_Fint *root, MPI_Fint *comm, MPI_Fint *error))
{
    PUT(error, MPI_Scatterv(address(sendbuf), sendcounts, displs, PMPI_Type_f2c(*sendtype), address(recvbuf), *recvcount,
                            PMPI_Type_f2c(*recvtype), *root, PMPI_Comm_f2c(*comm)));
}

#define TO_ALL(lower, upper, Name)                                                                                     \
    NAMES(lower, upper,                                                                                                \
          (char *sendbuf, MPI_Fint *sendcount, MPI_Fint *sendtype, char *recvbuf, MPI_Fint *recvcount,                 \
           MPI_Fint *recvtype, MPI_Fint *comm, MPI_Fint *error))                                                       \
    {                                                                                                                  \
        PUT(error, MPI_##Name(address(sendbuf), *sendcount, PMPI_Type_f2c(*sendtype), address(recvbuf), *recvcount,    \
                              PMPI_Type_f2c(*recvtype), PMPI_Comm_f2c(*comm)));                                        \
    }

TO_ALL(allgather, ALLGATHER, Allgather)
TO_ALL(alltoall, ALLTOALL, Alltoall)

NAMES(allgatherv, ALLGATHERV,
      (char *sendbuf, MPI_Fint *sendcount, MPI_Fint *sendtype, char *recvbuf, MPI_Fint *recvcounts, MPI_Fint *displs,
       MPI_Fint *recvtype, MPI_Fint *comm, MPI_Fint *error))
{
    PUT(error, MPI_Allgatherv(address(sendbuf), *sendcount, PMPI_Type_f2c(*sendtype), address(recvbuf), recvcounts,
                              displs, PMPI_Type_f2c(*recvtype), PMPI_Comm_f2c(*comm)));
}

NAMES(alltoallv, ALLTOALLV,
      (char *sendbuf, MPI_Fint *sendcounts, MPI_Fint *sdispls, MPI_Fint *sendtype, char *recvbuf, MPI_Fint *recvcounts,
       MPI_Fint *rdispls, MPI_Fint *recvtype, MPI_Fint *comm, MPI_Fint *error))
{
    PUT(error, MPI_Alltoallv(address(sendbuf), sendcounts, sdispls, PMPI_Type_f2c(*sendtype), address(recvbuf),
                             recvcounts, rdispls, PMPI_Type_f2c(*recvtype), PMPI_Comm_f2c(*comm)));
}

NAMES(reduce, REDUCE,
      (char *sendbuf, char *recvbuf, MPI_Fint *count, MPI_Fint *type, MPI_Fint *op, MPI_Fint *root, MPI_Fint *comm,
       MPI_Fint *error))
{
    PUT(error, MPI_Reduce(address(sendbuf), address(recvbuf), *count, PMPI_Type_f2c(*type), PMPI_Op_f2c(*op), *root,
                          PMPI_Comm_f2c(*comm)));
}

#define REDUCTION(lower, upper, Name)                                                                                  \
    NAMES(lower, upper,                                                                                                \
          (char *sendbuf, char *recvbuf, MPI_Fint *count, MPI_Fint *type, MPI_Fint *op, MPI_Fint *comm,                \
           MPI_Fint *error))                                                                                           \
    {                                                                                                                  \
        PUT(error, MPI_##Name(address(sendbuf), address(recvbuf), *count, PMPI_Type_f2c(*type), PMPI_Op_f2c(*op),      \
                              PMPI_Comm_f2c(*comm)));                                                                  \
    }

REDUCTION(allreduce, ALLREDUCE, Allreduce)
REDUCTION(reduce_scatter_block, REDUCE_SCATTER_BLOCK, Reduce_scatter_block)
REDUCTION(scan, SCAN, Scan)
REDUCTION(exscan, EXSCAN, Exscan)

NAMES(reduce_scatter, REDUCE_SCATTER,
      (char *sendbuf, char *recvbuf, MPI_Fint *recvcounts, MPI_Fint *type, MPI_Fint *op, MPI_Fint *comm,
       MPI_Fint *error))
{
    PUT(error, MPI_Reduce_scatter(address(sendbuf), address(recvbuf), recvcounts, PMPI_Type_f2c(*type),
                                  PMPI_Op_f2c(*op), PMPI_Comm_f2c(*comm)));
}

// ---- Communicators -----------------------------------------------------------------------------------------------------

static void put_comm(MPI_Fint *place, int result, MPI_Comm made)
{
    if (result == MPI_SUCCESS)
        *place = PMPI_Comm_c2f(made);
}

NAMES(comm_dup, COMM_DUP, (MPI_Fint * comm, MPI_Fint *newcomm, MPI_Fint *error))
{
    MPI_Comm made;
    int result = MPI_Comm_dup(PMPI_Comm_f2c(*comm), &made);
    put_comm(newcomm, result, made);
    PUT(error, result);
}

NAMES(comm_split, COMM_SPLIT,
      (MPI_Fint * comm, MPI_Fint *color, MPI_Fint *key, MPI_Fint *newcomm, MPI_Fint *error))
{
    MPI_Comm made;
    int result = MPI_Comm_split(PMPI_Comm_f2c(*comm), *color, *key, &made);
    put_comm(newcomm, result, made);
    PUT(error, result);
}

NAMES(comm_split_type, COMM_SPLIT_TYPE,
      (MPI_Fint * comm, MPI_Fint *type, MPI_Fint *key, MPI_Fint *info, MPI_Fint *newcomm, MPI_Fint *error))
{
    MPI_Comm made;
    int result = MPI_Comm_split_type(PMPI_Comm_f2c(*comm), *type, *key, PMPI_Info_f2c(*info), &made);
    put_comm(newcomm, result, made);
    PUT(error, result);
}

NAMES(comm_create, COMM_CREATE, (MPI_Fint * comm, MPI_Fint *group, MPI_Fint *newcomm, MPI_Fint *error))
{
    MPI_Comm made;
    int result = MPI_Comm_create(PMPI_Comm_f2c(*comm), PMPI_Group_f2c(*group), &made);
    put_comm(newcomm, result, made);
    PUT(error, result);
}

NAMES(comm_create_group, COMM_CREATE_GROUP,
      (MPI_Fint * comm, MPI_Fint *group, MPI_Fint *tag, MPI_Fint *newcomm, MPI_Fint *error))
{
    MPI_Comm made;
    int result = MPI_Comm_create_group(PMPI_Comm_f2c(*comm), PMPI_Group_f2c(*group), *tag, &made);
    put_comm(newcomm, result, made);
    PUT(error, result);
}

NAMES(comm_free, COMM_FREE, (MPI_Fint * comm, MPI_Fint *error))
{
    MPI_Comm c = PMPI_Comm_f2c(*comm);
    int result = MPI_Comm_free(&c);
    put_comm(comm, result, c);
    PUT(error, result);
}

// Any value but zero is true.
LOGICAL_NAMES(cart_create, CART_CREATE,
      (MPI_Fint * comm, MPI_Fint *ndims, MPI_Fint *dims, MPI_Fint *periods, MPI_Fint *reorder, MPI_Fint *newcomm,
       MPI_Fint *error))
{
    MPI_Comm made;
    int *are_periodic = malloc((size_t)(*ndims > 0 ? *ndims : 1) * sizeof *are_periodic);
    if (!are_periodic)
        PMPI_Abort(MPI_COMM_WORLD, MPI_ERR_NO_MEM);
    for (int i = 0; i < *ndims; i++)
        are_periodic[i] = periods[i] != 0;
    int result = MPI_Cart_create(PMPI_Comm_f2c(*comm), *ndims, dims, are_periodic, *reorder != 0, &made);
    free(are_periodic);
    put_comm(newcomm, result, made);
    PUT(error, result);
}

NAMES(intercomm_create, INTERCOMM_CREATE,
      (MPI_Fint * local, MPI_Fint *local_leader, MPI_Fint *peer, MPI_Fint *remote_leader, MPI_Fint *tag,
       MPI_Fint *newcomm, MPI_Fint *error))
{
    MPI_Comm made;
    int result = MPI_Intercomm_create(PMPI_Comm_f2c(*local), *local_leader, PMPI_Comm_f2c(*peer), *remote_leader, *tag,
                                      &made);
    put_comm(newcomm, result, made);
    PUT(error, result);
}

LOGICAL_NAMES(intercomm_merge, INTERCOMM_MERGE,
      (MPI_Fint * comm, MPI_Fint *high, MPI_Fint *newcomm, MPI_Fint *error))
{
    MPI_Comm made;
    int result = MPI_Intercomm_merge(PMPI_Comm_f2c(*comm), *high != 0, &made);
    put_comm(newcomm, result, made);
    PUT(error, result);
}

#endif
