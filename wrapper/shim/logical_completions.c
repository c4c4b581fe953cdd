// Deterministic runs: completions, and what is given up. Which are due is decided by logical time, and MPI made to complete them.
#include <sched.h>
#include <stdlib.h>

#include "logical_parts.h"

// Completes one whose time has come; 0: it is put off.
static int complete(int is_test, MPI_Request *request, MPI_Status *status, int *result)
{
    struct active at = active_of(request);
    uint64_t bits = bits_of(*request);
    if (at.place == INACTIVE) {
        int flag;
        *result = PMPI_Test(request, &flag, status);
        return 1;
    }
    // A send first: the rest of such a request is complete or surely will be.
    MPI_Request *send = send_of(at);
    if (send && !finish_or_put_off(is_test, send, send == at.mpi ? status : MPI_STATUS_IGNORE, result)) {
        dms_put_off(bits);
        return 0;
    }
    if (send != at.mpi)
        *result = finish(at.mpi, status);
    is_over(request, bits, at);
    return 1;
}

int logical_wait(MPI_Request *request, MPI_Status *status)
{
    int result;
    struct active at = active_of(request);
    if (is_receive(at)) {
        dms_ask_receive((unsigned)at.place);
        wait_for_answer();
    }
    complete(0, request, status, &result);
    return result;
}

static MPI_Status *status_at(MPI_Status *statuses, int at)
{
    return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[at];
}

// What a call for several answers if one of them failed.
static int in_status(int failed, MPI_Status *statuses, int at, int result)
{
    if (statuses != MPI_STATUSES_IGNORE && result != MPI_SUCCESS)
        statuses[at].MPI_ERROR = result;
    return failed || result != MPI_SUCCESS;
}

int logical_waitall(int count, MPI_Request *requests, MPI_Status *statuses)
{
    int failed = 0;
    for (int i = 0; i < count; i++)
        failed = in_status(failed, statuses, i, logical_wait(&requests[i], status_at(statuses, i)));
    return failed ? MPI_ERR_IN_STATUS : MPI_SUCCESS;
}

// Asks about several requests.
static void ask_requests(char what, int count, const MPI_Request *requests)
{
    uint64_t few[FEW] = {0}, *bits = count <= FEW ? few : malloc((size_t)count * sizeof *bits);
    if (!bits)
        PMPI_Abort(MPI_COMM_WORLD, MPI_ERR_NO_MEM);
    for (int i = 0; i < count; i++)
        bits[i] = bits_of(requests[i]);
    dms_ask_requests(what, count, bits);
    if (bits != few)
        free(bits);
    wait_for_answer();
}

int logical_waitany(int count, MPI_Request *requests, int *index, MPI_Status *status)
{
    for (;;) {
        int result, active = 0;
        ask_requests('A', count, requests);
        if (dms_values() == 0)
            return PMPI_Waitany(0, requests, index, status);
        *index = dms_value(0);
        for (int i = 0; i < count; i++)
            active += dms_request(bits_of(requests[i])) != INACTIVE;
        // Another one may be complete while this one is not.
        if (complete(active > 1, &requests[*index], status, &result))
            return result;
    }
}

int logical_waitsome(int count, MPI_Request *requests, int *outcount, int *indices, MPI_Status *statuses)
{
    // Where nothing is active there may be no room for an answer.
    MPI_Status status;
    MPI_Status *told = statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &status;
    int index, result = logical_waitany(count, requests, &index, told);
    if (index == MPI_UNDEFINED) {
        *outcount = MPI_UNDEFINED;
        return result;
    }
    *outcount = 1;
    indices[0] = index;
    if (statuses != MPI_STATUSES_IGNORE) {
        status.MPI_ERROR = statuses[0].MPI_ERROR;
        statuses[0] = status;
    }
    return in_status(0, statuses, 0, result) ? MPI_ERR_IN_STATUS : MPI_SUCCESS;
}

int logical_test(MPI_Request *request, int *flag, MPI_Status *status)
{
    int result = MPI_SUCCESS;
    ask_requests('l', 1, request);
    *flag = dms_value(0) && complete(1, request, status, &result);
    return result;
}

int logical_testall(int count, MPI_Request *requests, int *flag, MPI_Status *statuses)
{
    int result = MPI_SUCCESS;
    ask_requests('l', count, requests);
    *flag = dms_value(0);
    for (int i = 0; *flag && i < count; i++) {
        struct active at = active_of(&requests[i]);
        MPI_Request *send = at.place == INACTIVE ? NULL : send_of(at);
        if (!send || is_complete_or_put_off(*send, &result))
            continue;
        dms_put_off(bits_of(requests[i]));
        *flag = 0;
    }
    return *flag ? logical_waitall(count, requests, statuses) : MPI_SUCCESS;
}

int logical_testany(int count, MPI_Request *requests, int *index, int *flag, MPI_Status *status)
{
    int result = MPI_SUCCESS;
    ask_requests('a', count, requests);
    if (dms_values() > 0 && dms_value(0) == NONE)
        return PMPI_Testany(0, requests, index, flag, status);
    *index = dms_values() > 0 ? dms_value(0) : MPI_UNDEFINED;
    *flag = *index != MPI_UNDEFINED && complete(1, &requests[*index], status, &result);
    if (!*flag)
        *index = MPI_UNDEFINED;
    return result;
}

int logical_testsome(int count, MPI_Request *requests, int *outcount, int *indices, MPI_Status *statuses)
{
    ask_requests('s', count, requests);
    int due = dms_values(), failed = 0;
    if (due > 0 && dms_value(0) == NONE) {
        *outcount = MPI_UNDEFINED;
        return MPI_SUCCESS;
    }
    *outcount = 0;
    // Other questions may be asked meanwhile.
    for (int i = 0; i < due; i++)
        indices[i] = dms_value((unsigned)i);
    for (int i = 0; i < due; i++) {
        int result;
        if (!complete(1, &requests[indices[i]], status_at(statuses, *outcount), &result))
            continue;
        failed = in_status(failed, statuses, *outcount, result);
        indices[(*outcount)++] = indices[i];
    }
    return failed ? MPI_ERR_IN_STATUS : MPI_SUCCESS;
}

int logical_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
    int result = MPI_SUCCESS;
    ask_requests('l', 1, &request);
    struct active at = active_of(&request);
    *flag = dms_value(0);
    MPI_Request *send = at.place == INACTIVE ? NULL : send_of(at);
    if (*flag && send && !is_complete_or_put_off(*send, &result)) {
        dms_put_off(bits_of(request));
        *flag = 0;
    }
    if (!*flag)
        return result;
    *flag = 0;
    while (!*flag && result == MPI_SUCCESS) {
        result = PMPI_Request_get_status(*at.mpi, flag, status);
        if (!*flag)
            sched_yield();
    }
    return result;
}

// In the place of a receive that was cancelled: one that MPI has cancelled.
static int cancel_another(struct entry *entry)
{
    int result = PMPI_Irecv(NULL, 0, MPI_BYTE, 0, 0, silent_comm(), &entry->mpi);
    return result == MPI_SUCCESS ? PMPI_Cancel(&entry->mpi) : result;
}

int logical_cancel(MPI_Request *request)
{
    struct active at = active_of(request);
    if (at.place == INACTIVE || !is_receive(at))
        return PMPI_Cancel(at.mpi);
    struct entry *entry = &entries[at.place];
    dms_ask_cancel((unsigned)at.place);
    wait_for_answer();
    entry = &entries[at.place];
    if (!dms_value(0))
        return MPI_SUCCESS;
    if (entry->state == GIVEN) {
        MPI_Status status;
        int was_cancelled = 0, flag = 0, result = PMPI_Cancel(at.mpi);
        while (result == MPI_SUCCESS && !flag)
            result = PMPI_Request_get_status(*at.mpi, &flag, &status);
        if (result == MPI_SUCCESS)
            PMPI_Test_cancelled(&status, &was_cancelled);
        if (was_cancelled)
            dms_receive_cancelled((unsigned)at.place);
        return result;
    }
    if (!entry->is_persistent)
        PMPI_Type_free(&entry->type);
    entry->state = GIVEN;
    entry->has_stand_in = 1;
    dms_receive_cancelled((unsigned)at.place);
    return cancel_another(entry);
}
