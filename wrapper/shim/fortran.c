// Fortran calls of Open MPI that receive, probe and complete; and the beginning and the end.
#include <stdlib.h>

#include "fortran.h"

#ifdef OPEN_MPI

NAMES(init, INIT, (MPI_Fint * error))
{
    dms_refuse(FORTRAN);
    PUT(error, MPI_Init(NULL, NULL));
}

NAMES(init_thread, INIT_THREAD, (MPI_Fint * required, MPI_Fint *provided, MPI_Fint *error))
{
    int level;
    dms_refuse(FORTRAN);
    PUT(error, MPI_Init_thread(NULL, NULL, *required, &level));
    *provided = level;
}

NAMES(finalize, FINALIZE, (MPI_Fint * error))
{
    PUT(error, MPI_Finalize());
}

// ---- Receives and probes ---------------------------------------------------------------------------------------------

NAMES(recv, RECV,
      (char *buf, MPI_Fint *count, MPI_Fint *type, MPI_Fint *source, MPI_Fint *tag, MPI_Fint *comm, MPI_Fint *status,
       MPI_Fint *error))
{
    MPI_Status seen;
    int result = MPI_Recv(address(buf), *count, PMPI_Type_f2c(*type), *source, *tag, PMPI_Comm_f2c(*comm), &seen);
    put_status(status, &seen);
    PUT(error, result);
}

NAMES(irecv, IRECV,
      (char *buf, MPI_Fint *count, MPI_Fint *type, MPI_Fint *source, MPI_Fint *tag, MPI_Fint *comm, MPI_Fint *request,
       MPI_Fint *error))
{
    MPI_Request made;
    int result = MPI_Irecv(address(buf), *count, PMPI_Type_f2c(*type), *source, *tag, PMPI_Comm_f2c(*comm), &made);
    if (result == MPI_SUCCESS)
        *request = PMPI_Request_c2f(made);
    PUT(error, result);
}

NAMES(recv_init, RECV_INIT,
      (char *buf, MPI_Fint *count, MPI_Fint *type, MPI_Fint *source, MPI_Fint *tag, MPI_Fint *comm, MPI_Fint *request,
       MPI_Fint *error))
{
    MPI_Request made;
    int result = MPI_Recv_init(address(buf), *count, PMPI_Type_f2c(*type), *source, *tag, PMPI_Comm_f2c(*comm), &made);
    if (result == MPI_SUCCESS)
        *request = PMPI_Request_c2f(made);
    PUT(error, result);
}

NAMES(sendrecv, SENDRECV,
      (char *sendbuf, MPI_Fint *sendcount, MPI_Fint *sendtype, MPI_Fint *dest, MPI_Fint *sendtag, char *recvbuf,
       MPI_Fint *recvcount, MPI_Fint *recvtype, MPI_Fint *source, MPI_Fint *recvtag, MPI_Fint *comm, MPI_Fint *status,
       MPI_Fint *error))
{
    MPI_Status seen;
    int result = MPI_Sendrecv(address(sendbuf), *sendcount, PMPI_Type_f2c(*sendtype), *dest, *sendtag, address(recvbuf),
                              *recvcount, PMPI_Type_f2c(*recvtype), *source, *recvtag, PMPI_Comm_f2c(*comm), &seen);
    put_status(status, &seen);
    PUT(error, result);
}

NAMES(sendrecv_replace, SENDRECV_REPLACE,
      (char *buf, MPI_Fint *count, MPI_Fint *type, MPI_Fint *dest, MPI_Fint *sendtag, MPI_Fint *source,
       MPI_Fint *recvtag, MPI_Fint *comm, MPI_Fint *status, MPI_Fint *error))
{
    MPI_Status seen;
    int result = MPI_Sendrecv_replace(address(buf), *count, PMPI_Type_f2c(*type), *dest, *sendtag, *source, *recvtag,
                                      PMPI_Comm_f2c(*comm), &seen);
    put_status(status, &seen);
    PUT(error, result);
}

NAMES(probe, PROBE, (MPI_Fint * source, MPI_Fint *tag, MPI_Fint *comm, MPI_Fint *status, MPI_Fint *error))
{
    MPI_Status seen;
    int result = MPI_Probe(*source, *tag, PMPI_Comm_f2c(*comm), &seen);
    put_status(status, &seen);
    PUT(error, result);
}

LOGICAL_NAMES(iprobe, IPROBE,
      (MPI_Fint * source, MPI_Fint *tag, MPI_Fint *comm, MPI_Fint *flag, MPI_Fint *status, MPI_Fint *error))
{
    MPI_Status seen;
    int found = 0, result = MPI_Iprobe(*source, *tag, PMPI_Comm_f2c(*comm), &found, &seen);
    *flag = found != 0;
    if (found)
        put_status(status, &seen);
    PUT(error, result);
}

NAMES(mprobe, MPROBE,
      (MPI_Fint * source, MPI_Fint *tag, MPI_Fint *comm, MPI_Fint *message, MPI_Fint *status, MPI_Fint *error))
{
    MPI_Status seen;
    MPI_Message got;
    int result = MPI_Mprobe(*source, *tag, PMPI_Comm_f2c(*comm), &got, &seen);
    if (result == MPI_SUCCESS)
        *message = PMPI_Message_c2f(got);
    put_status(status, &seen);
    PUT(error, result);
}

LOGICAL_NAMES(improbe, IMPROBE,
      (MPI_Fint * source, MPI_Fint *tag, MPI_Fint *comm, MPI_Fint *flag, MPI_Fint *message, MPI_Fint *status,
       MPI_Fint *error))
{
    MPI_Status seen;
    MPI_Message got;
    int found = 0, result = MPI_Improbe(*source, *tag, PMPI_Comm_f2c(*comm), &found, &got, &seen);
    *flag = found != 0;
    if (found) {
        *message = PMPI_Message_c2f(got);
        put_status(status, &seen);
    }
    PUT(error, result);
}

// ---- Requests ------------------------------------------------------------------------------------------------------

// Requests and statuses as C has them.
struct c_arrays {
    MPI_Request *requests;
    MPI_Status *statuses;
};

static struct c_arrays to_c(int count, const MPI_Fint *requests)
{
    size_t room = count > 0 ? (size_t)count : 1;
    struct c_arrays c = {malloc(room * sizeof *c.requests), malloc(room * sizeof *c.statuses)};
    // As the library itself does when there is no memory.
    if (!c.requests || !c.statuses)
        PMPI_Abort(MPI_COMM_WORLD, MPI_ERR_NO_MEM);
    for (int i = 0; i < count; i++)
        c.requests[i] = PMPI_Request_f2c(requests[i]);
    return c;
}

// The requests as they are after the call, and so many statuses.
static void to_fortran(int count, struct c_arrays *c, MPI_Fint *requests, int complete, MPI_Fint *statuses)
{
    for (int i = 0; i < count; i++)
        requests[i] = PMPI_Request_c2f(c->requests[i]);
    if (statuses && !is_mpi_fortran_statuses_ignore(statuses))
        for (int i = 0; i < complete; i++)
            PMPI_Status_c2f(&c->statuses[i], &statuses[i * (int)(sizeof(MPI_Status) / sizeof(MPI_Fint))]);
    free(c->requests);
    free(c->statuses);
}

NAMES(wait, WAIT, (MPI_Fint * request, MPI_Fint *status, MPI_Fint *error))
{
    MPI_Request c = PMPI_Request_f2c(*request);
    MPI_Status seen;
    int result = MPI_Wait(&c, &seen);
    *request = PMPI_Request_c2f(c);
    put_status(status, &seen);
    PUT(error, result);
}

LOGICAL_NAMES(test, TEST, (MPI_Fint * request, MPI_Fint *flag, MPI_Fint *status, MPI_Fint *error))
{
    MPI_Request c = PMPI_Request_f2c(*request);
    MPI_Status seen;
    int is_complete = 0, result = MPI_Test(&c, &is_complete, &seen);
    *flag = is_complete != 0;
    if (is_complete) {
        *request = PMPI_Request_c2f(c);
        put_status(status, &seen);
    }
    PUT(error, result);
}

NAMES(waitall, WAITALL, (MPI_Fint * count, MPI_Fint *requests, MPI_Fint *statuses, MPI_Fint *error))
{
    struct c_arrays c = to_c(*count, requests);
    int result = MPI_Waitall(*count, c.requests, c.statuses);
    to_fortran(*count, &c, requests, *count, statuses);
    PUT(error, result);
}

LOGICAL_NAMES(testall, TESTALL,
      (MPI_Fint * count, MPI_Fint *requests, MPI_Fint *flag, MPI_Fint *statuses, MPI_Fint *error))
{
    struct c_arrays c = to_c(*count, requests);
    int are_complete = 0, result = MPI_Testall(*count, c.requests, &are_complete, c.statuses);
    *flag = are_complete != 0;
    to_fortran(*count, &c, requests, are_complete ? *count : 0, statuses);
    PUT(error, result);
}

// Fortran counts from 1.
static MPI_Fint index_from_1(int index)
{
    return index == MPI_UNDEFINED ? MPI_UNDEFINED : index + 1;
}

NAMES(waitany, WAITANY,
      (MPI_Fint * count, MPI_Fint *requests, MPI_Fint *index, MPI_Fint *status, MPI_Fint *error))
{
    struct c_arrays c = to_c(*count, requests);
    int at = MPI_UNDEFINED, result = MPI_Waitany(*count, c.requests, &at, c.statuses);
    *index = index_from_1(at);
    put_status(status, c.statuses);
    to_fortran(*count, &c, requests, 0, NULL);
    PUT(error, result);
}

LOGICAL_NAMES(testany, TESTANY,
      (MPI_Fint * count, MPI_Fint *requests, MPI_Fint *index, MPI_Fint *flag, MPI_Fint *status, MPI_Fint *error))
{
    struct c_arrays c = to_c(*count, requests);
    int at = MPI_UNDEFINED, is_complete = 0;
    int result = MPI_Testany(*count, c.requests, &at, &is_complete, c.statuses);
    *flag = is_complete != 0;
    *index = index_from_1(at);
    if (is_complete)
        put_status(status, c.statuses);
    to_fortran(*count, &c, requests, 0, NULL);
    PUT(error, result);
}

static void some(int (*call)(int, MPI_Request *, int *, int *, MPI_Status *), const MPI_Fint *count, MPI_Fint *requests,
                 MPI_Fint *found, MPI_Fint *indices, MPI_Fint *statuses, MPI_Fint *error)
{
    struct c_arrays c = to_c(*count, requests);
    int complete = MPI_UNDEFINED, result = call(*count, c.requests, &complete, indices, c.statuses);
    *found = complete;
    for (int i = 0; complete != MPI_UNDEFINED && i < complete; i++)
        indices[i]++;
    to_fortran(*count, &c, requests, complete == MPI_UNDEFINED ? 0 : complete, statuses);
    PUT(error, result);
}

NAMES(waitsome, WAITSOME,
      (MPI_Fint * count, MPI_Fint *requests, MPI_Fint *found, MPI_Fint *indices, MPI_Fint *statuses, MPI_Fint *error))
{
    some(MPI_Waitsome, count, requests, found, indices, statuses, error);
}

LOGICAL_NAMES(testsome, TESTSOME,
      (MPI_Fint * count, MPI_Fint *requests, MPI_Fint *found, MPI_Fint *indices, MPI_Fint *statuses, MPI_Fint *error))
{
    some(MPI_Testsome, count, requests, found, indices, statuses, error);
}

NAMES(start, START, (MPI_Fint * request, MPI_Fint *error))
{
    MPI_Request c = PMPI_Request_f2c(*request);
    int result = MPI_Start(&c);
    *request = PMPI_Request_c2f(c);
    PUT(error, result);
}

NAMES(startall, STARTALL, (MPI_Fint * count, MPI_Fint *requests, MPI_Fint *error))
{
    struct c_arrays c = to_c(*count, requests);
    int result = MPI_Startall(*count, c.requests);
    to_fortran(*count, &c, requests, 0, NULL);
    PUT(error, result);
}

NAMES(request_free, REQUEST_FREE, (MPI_Fint * request, MPI_Fint *error))
{
    MPI_Request c = PMPI_Request_f2c(*request);
    int result = MPI_Request_free(&c);
    if (result == MPI_SUCCESS)
        *request = PMPI_Request_c2f(MPI_REQUEST_NULL);
    PUT(error, result);
}

NAMES(cancel, CANCEL, (MPI_Fint * request, MPI_Fint *error))
{
    MPI_Request c = PMPI_Request_f2c(*request);
    PUT(error, MPI_Cancel(&c));
}

LOGICAL_NAMES(request_get_status, REQUEST_GET_STATUS,
      (MPI_Fint * request, MPI_Fint *flag, MPI_Fint *status, MPI_Fint *error))
{
    MPI_Status seen;
    int is_complete = 0, result = MPI_Request_get_status(PMPI_Request_f2c(*request), &is_complete, &seen);
    *flag = is_complete != 0;
    if (is_complete)
        put_status(status, &seen);
    PUT(error, result);
}

#endif
