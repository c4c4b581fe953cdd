// Names of Fortran calls of Open MPI, and what their arguments mean.
//
// All but the rarest calls are here: not Alltoallw, nonblocking and neighborhood collective ones, and graphs.
// They go past MPI_Recv to PMPI_Recv: `mpif.h` and the module `mpi` come here by `mpi_recv_`, the module `mpi_f08` by `ompi_recv_f`
// or, some of them, by `pmpi_test_`. MPICH's Fortran calls go to MPI_Recv themselves.
#pragma once
#include "shim.h"

#ifdef OPEN_MPI
#define NAMES(lower, upper, params)                                                                                    \
    void ompi_##lower##_f params;                                                                                      \
    void mpi_##lower params __attribute__((alias("ompi_" #lower "_f")));                                               \
    void mpi_##lower##_ params __attribute__((alias("ompi_" #lower "_f")));                                            \
    void mpi_##lower##__ params __attribute__((alias("ompi_" #lower "_f")));                                           \
    void MPI_##upper params __attribute__((alias("ompi_" #lower "_f")));                                               \
    void ompi_##lower##_f params

// The module `mpi_f08` calls those with a logical argument by these names.
#define LOGICAL_NAMES(lower, upper, params)                                                                            \
    void pmpi_##lower##_ params __attribute__((alias("ompi_" #lower "_f")));                                           \
    NAMES(lower, upper, params)

// What Fortran programs give in place of a status, of statuses, of an address: variables of the library.
#define FOUR_NAMES(type, lower, upper)                                                                                 \
    extern type lower __attribute__((weak));                                                                           \
    extern type lower##_ __attribute__((weak));                                                                        \
    extern type lower##__ __attribute__((weak));                                                                       \
    extern type upper __attribute__((weak));                                                                           \
    static inline int is_##lower(const void *at)                                                                              \
    {                                                                                                                  \
        return at && (at == &lower || at == &lower##_ || at == &lower##__ || at == &upper);                            \
    }

FOUR_NAMES(MPI_Fint, mpi_fortran_status_ignore, MPI_FORTRAN_STATUS_IGNORE)
FOUR_NAMES(MPI_Fint, mpi_fortran_statuses_ignore, MPI_FORTRAN_STATUSES_IGNORE)
FOUR_NAMES(MPI_Fint, mpi_fortran_bottom, MPI_FORTRAN_BOTTOM)
FOUR_NAMES(MPI_Fint, mpi_fortran_in_place, MPI_FORTRAN_IN_PLACE)

static inline void *address(void *buf)
{
    return is_mpi_fortran_bottom(buf) ? MPI_BOTTOM : is_mpi_fortran_in_place(buf) ? MPI_IN_PLACE : buf;
}

static inline void put_status(MPI_Fint *status, const MPI_Status *from)
{
    if (status && !is_mpi_fortran_status_ignore(status))
        PMPI_Status_c2f(from, status);
}

#define PUT(place, value)                                                                                              \
    do {                                                                                                               \
        MPI_Fint put = (value);                                                                                        \
        if (place)                                                                                                     \
            *(place) = put;                                                                                            \
    } while (0)

#endif
