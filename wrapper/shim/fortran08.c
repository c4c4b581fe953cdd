// Calls of MPICH by the module `mpi_f08` that have no buffer: they go past MPI_Wait to PMPI_Wait. Those with one go to MPI_Recv
// themselves. Handles and statuses are as C has them, logical values are one or zero.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

#include "shim.h"

#ifndef OPEN_MPI

// What programs give in place of a status, or of statuses: variables of the Fortran library, if it is loaded.
#pragma weak MPIR_F08_MPI_STATUS_IGNORE_OBJ
#pragma weak MPIR_F08_MPI_STATUSES_IGNORE_OBJ

static MPI_Status *status_or_none(MPI_Status *status)
{
    return (void *)status == (void *)&MPIR_F08_MPI_STATUS_IGNORE_OBJ ? MPI_STATUS_IGNORE : status;
}

static MPI_Status *statuses_or_none(MPI_Status *statuses)
{
    return (void *)statuses == (void *)MPIR_F08_MPI_STATUSES_IGNORE_OBJ ? MPI_STATUSES_IGNORE : statuses;
}

// What indices begin with: one, but zero in MPICH 4.0, whose programs may rely on it. The library is asked once.
static int first_index(void)
{
    static int first = -1;
    if (first >= 0)
        return first;
    void (*waitany)(const int *, MPI_Request *, int *, void *, int *);
    *(void **)&waitany = dlsym(RTLD_NEXT, "mpi_waitany_f08_");
    MPI_Request request = MPI_REQUEST_NULL;
    int one = 1, index = 1, error = MPI_SUCCESS;
    if (waitany && PMPI_Ibarrier(MPI_COMM_SELF, &request) == MPI_SUCCESS)
        waitany(&one, &request, &index, &MPIR_F08_MPI_STATUS_IGNORE_OBJ, &error);
    return first = index == 0 ? 0 : 1;
}

static int fortran_index(int index)
{
    return index == MPI_UNDEFINED ? MPI_UNDEFINED : index + first_index();
}

// The error is given back if it is asked for.
#define PUT(error, call)                                                                                               \
    do {                                                                                                               \
        int put = (call);                                                                                              \
        if (error)                                                                                                     \
            *(error) = put;                                                                                            \
    } while (0)

void mpi_init_f08_(int *error)
{
    dms_refuse(FORTRAN);
    PUT(error, MPI_Init(NULL, NULL));
}

void mpi_init_thread_f08_(const int *required, int *provided, int *error)
{
    dms_refuse(FORTRAN);
    PUT(error, MPI_Init_thread(NULL, NULL, *required, provided));
}

void mpi_finalize_f08_(int *error)
{
    PUT(error, MPI_Finalize());
}

double mpi_wtime_f08_(void)
{
    return MPI_Wtime();
}

// ---- Probes ------------------------------------------------------------------------------------------------------------

void mpi_probe_f08_(const int *source, const int *tag, const MPI_Comm *comm, MPI_Status *status, int *error)
{
    PUT(error, MPI_Probe(*source, *tag, *comm, status_or_none(status)));
}

void mpi_iprobe_f08_(const int *source, const int *tag, const MPI_Comm *comm, int *flag, MPI_Status *status, int *error)
{
    PUT(error, MPI_Iprobe(*source, *tag, *comm, flag, status_or_none(status)));
}

void mpi_mprobe_f08_(const int *source, const int *tag, const MPI_Comm *comm, MPI_Message *message, MPI_Status *status,
                     int *error)
{
    PUT(error, MPI_Mprobe(*source, *tag, *comm, message, status_or_none(status)));
}

void mpi_improbe_f08_(const int *source, const int *tag, const MPI_Comm *comm, int *flag, MPI_Message *message,
                      MPI_Status *status, int *error)
{
    PUT(error, MPI_Improbe(*source, *tag, *comm, flag, message, status_or_none(status)));
}

// ---- Requests ----------------------------------------------------------------------------------------------------------

void mpi_wait_f08_(MPI_Request *request, MPI_Status *status, int *error)
{
    PUT(error, MPI_Wait(request, status_or_none(status)));
}

void mpi_test_f08_(MPI_Request *request, int *flag, MPI_Status *status, int *error)
{
    PUT(error, MPI_Test(request, flag, status_or_none(status)));
}

void mpi_waitall_f08_(const int *count, MPI_Request *requests, MPI_Status *statuses, int *error)
{
    PUT(error, MPI_Waitall(*count, requests, statuses_or_none(statuses)));
}

void mpi_testall_f08_(const int *count, MPI_Request *requests, int *flag, MPI_Status *statuses, int *error)
{
    PUT(error, MPI_Testall(*count, requests, flag, statuses_or_none(statuses)));
}

void mpi_waitany_f08_(const int *count, MPI_Request *requests, int *index, MPI_Status *status, int *error)
{
    int at = MPI_UNDEFINED;
    PUT(error, MPI_Waitany(*count, requests, &at, status_or_none(status)));
    *index = fortran_index(at);
}

void mpi_testany_f08_(const int *count, MPI_Request *requests, int *index, int *flag, MPI_Status *status, int *error)
{
    int at = MPI_UNDEFINED;
    PUT(error, MPI_Testany(*count, requests, &at, flag, status_or_none(status)));
    *index = fortran_index(at);
}

static int some(int (*call)(int, MPI_Request *, int *, int *, MPI_Status *), int count, MPI_Request *requests, int *found,
                int *indices, MPI_Status *statuses)
{
    int complete = MPI_UNDEFINED, result = call(count, requests, &complete, indices, statuses_or_none(statuses));
    for (int i = 0; complete != MPI_UNDEFINED && i < complete; i++)
        indices[i] = fortran_index(indices[i]);
    *found = complete;
    return result;
}

void mpi_waitsome_f08_(const int *count, MPI_Request *requests, int *found, int *indices, MPI_Status *statuses, int *error)
{
    PUT(error, some(MPI_Waitsome, *count, requests, found, indices, statuses));
}

void mpi_testsome_f08_(const int *count, MPI_Request *requests, int *found, int *indices, MPI_Status *statuses, int *error)
{
    PUT(error, some(MPI_Testsome, *count, requests, found, indices, statuses));
}

void mpi_start_f08_(MPI_Request *request, int *error)
{
    PUT(error, MPI_Start(request));
}

void mpi_startall_f08_(const int *count, MPI_Request *requests, int *error)
{
    PUT(error, MPI_Startall(*count, requests));
}

void mpi_request_free_f08_(MPI_Request *request, int *error)
{
    PUT(error, MPI_Request_free(request));
}

void mpi_cancel_f08_(MPI_Request *request, int *error)
{
    PUT(error, MPI_Cancel(request));
}

void mpi_request_get_status_f08_(const MPI_Request *request, int *flag, MPI_Status *status, int *error)
{
    PUT(error, MPI_Request_get_status(*request, flag, status_or_none(status)));
}

// ---- Communicators, whose members messages are told with ----------------------------------------------------------------

void mpi_barrier_f08_(const MPI_Comm *comm, int *error)
{
    PUT(error, MPI_Barrier(*comm));
}

void mpi_comm_dup_f08_(const MPI_Comm *comm, MPI_Comm *made, int *error)
{
    PUT(error, MPI_Comm_dup(*comm, made));
}

void mpi_comm_split_f08_(const MPI_Comm *comm, const int *color, const int *key, MPI_Comm *made, int *error)
{
    PUT(error, MPI_Comm_split(*comm, *color, *key, made));
}

void mpi_comm_split_type_f08_(const MPI_Comm *comm, const int *type, const int *key, const MPI_Info *info, MPI_Comm *made,
                              int *error)
{
    PUT(error, MPI_Comm_split_type(*comm, *type, *key, *info, made));
}

void mpi_comm_create_f08_(const MPI_Comm *comm, const MPI_Group *group, MPI_Comm *made, int *error)
{
    PUT(error, MPI_Comm_create(*comm, *group, made));
}

void mpi_comm_create_group_f08_(const MPI_Comm *comm, const MPI_Group *group, const int *tag, MPI_Comm *made, int *error)
{
    PUT(error, MPI_Comm_create_group(*comm, *group, *tag, made));
}

void mpi_comm_free_f08_(MPI_Comm *comm, int *error)
{
    PUT(error, MPI_Comm_free(comm));
}

#endif
