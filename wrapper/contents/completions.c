// Calls that start and complete requests, or ask whether they are complete.
#include <stdlib.h>
#include <string.h>

#include "contents.h"

enum { FEW = 32 };

// What a call is given: requests as they were before it, and statuses even if the program wants none.
struct given {
    int count;
    uint64_t few_bits[FEW], *bits;
    MPI_Status few_statuses[FEW], *own, *statuses;
    // What the program gave.
    MPI_Request *requests;
    MPI_Status *wanted;
    // What is known of them; claimed while the call is at them.
    struct request *few_known[FEW], **known;
    // Of the requests that are looked at.
    int64_t sum;
};

static void *room(void *few, int count, size_t bytes)
{
    void *memory = count <= FEW ? few : malloc((size_t)count * bytes);
    if (!memory)
        abort();
    return memory;
}

static void look(struct given *given, int count, MPI_Request *requests, MPI_Status *statuses, int wants_none)
{
    given->count = count;
    given->requests = requests;
    given->wanted = wants_none ? NULL : statuses;
    given->bits = room(given->few_bits, count, sizeof *given->bits);
    given->known = room(given->few_known, count, sizeof *given->known);
    given->own = wants_none ? room(given->few_statuses, count, sizeof *given->own) : NULL;
    given->statuses = wants_none ? given->own : statuses;
    given->sum = 0;
    for (int i = 0; i < count; i++) {
        given->bits[i] = BITS(requests[i]);
        struct request *known = given->known[i] = request_of(given->bits[i]);
        if (known)
            known->is_claimed = 1;
        given->sum = (given->sum * 31 + (known ? known->number + 2 : requests[i] != MPI_REQUEST_NULL)) & 0xffffff;
    }
}

static void looked(struct given *given)
{
    for (int i = 0; i < given->count; i++)
        if (given->known[i])
            given->known[i]->is_claimed = 0;
    if (given->known != given->few_known)
        free(given->known);
    if (given->bits != given->few_bits)
        free(given->bits);
    if (given->own && given->own != given->few_statuses)
        free(given->own);
}

static int is_cancelled(const MPI_Status *status)
{
    int cancelled = 0;
    PMPI_Test_cancelled(status, &cancelled);
    return cancelled;
}

// What has come with a request that is complete.
static void deliver(int treatment, struct request *request, const MPI_Status *status, int is_well)
{
    if (!request || request->operation == SENDS || !request->is_active || request->is_delivered)
        return;
    request->is_delivered = 1;
    // Libraries leave it open in statuses of files whether they are cancelled.
    const int is_there = request->operation == READS || !is_cancelled(status);
    is_well = (int)out(treatment == RECORD && is_well && is_there);
    if (!is_well)
        return;
    if (request->operation != COLLECTS)
        put_received(treatment, segments_of(&request->data), status, 1);
    else
        put_data(treatment, &request->data);
}

// The request at an index is complete, with the status at a place.
static void complete(int treatment, struct given *given, int index, int at, int result)
{
    const uint64_t bits = given->bits[index];
    struct request *request = given->known[index];
    const MPI_Status *status = &given->statuses[at];
    int error = result == MPI_ERR_IN_STATUS ? status->MPI_ERROR : result, class = MPI_SUCCESS;
    if (treatment == RECORD && error == MPI_ERR_PENDING)
        class = MPI_ERR_PENDING;
    // Only where something went wrong is it asked which.
    if (out(treatment == RECORD && result != MPI_SUCCESS))
        class = (int)out(class);
    if (class == MPI_ERR_PENDING)
        return;
    deliver(treatment, request, status, error == MPI_SUCCESS);
    if (request && request->is_persistent) {
        request->is_active = request->is_delivered = 0;
        return;
    }
    MPI_Request null = MPI_REQUEST_NULL;
    if (bits != BITS(null))
        request_gone(treatment, bits, request, &given->requests[index]);
    given->known[index] = NULL;
}

static void put_statuses(struct given *given, int count)
{
    if (given->wanted && count > 0)
        dmc_bytes(given->wanted, (uint64_t)count * sizeof *given->wanted);
}

static int end(int treatment, struct given *given, int result)
{
    looked(given);
    return result_of(treatment, result, MPI_COMM_WORLD);
}

// A test that has answered no. Gives whether it has.
static int answered_no(int treatment, unsigned call, struct given *given, const int64_t *compared, int count, int result,
                       int is_no)
{
    if (treatment == RECORD ? result != MPI_SUCCESS || !is_no : !dmc_is_no(call, compared, count))
        return 0;
    if (treatment == RECORD)
        dmc_no(call, compared, count);
    looked(given);
    leave();
    return 1;
}

// ---- Waits ---------------------------------------------------------------------------------------------------------

int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    ENTER(Wait);
    PASSED(Wait, (request, status));
    struct given given;
    look(&given, 1, request, status, status == MPI_STATUS_IGNORE);
    COMPARE(Wait, request_number(*request));
    int result = MAKE(Wait, (request, given.statuses));
    complete(treatment, &given, 0, 0, result);
    put_statuses(&given, 1);
    return end(treatment, &given, result);
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
    ENTER(Waitall);
    PASSED(Waitall, (count, requests, statuses));
    struct given given;
    look(&given, count, requests, statuses, statuses == MPI_STATUSES_IGNORE);
    COMPARE(Waitall, count, given.sum);
    int result = MAKE(Waitall, (count, requests, given.statuses));
    for (int i = 0; i < count; i++)
        complete(treatment, &given, i, i, result);
    put_statuses(&given, count);
    return end(treatment, &given, result);
}

int MPI_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status)
{
    ENTER(Waitany);
    PASSED(Waitany, (count, requests, index, status));
    struct given given;
    look(&given, count, requests, status, status == MPI_STATUS_IGNORE);
    COMPARE(Waitany, count, given.sum);
    int result = MAKE(Waitany, (count, requests, index, given.statuses));
    *index = (int)out(*index);
    if (*index != MPI_UNDEFINED)
        complete(treatment, &given, *index, 0, result);
    put_statuses(&given, 1);
    return end(treatment, &given, result);
}

// What a call answered that completes some.
static int completed_some(int treatment, struct given *given, int result, int *found, int *indices)
{
    *found = (int)out(*found);
    const int count = *found == MPI_UNDEFINED ? 0 : *found;
    if (count > 0)
        dmc_bytes(indices, (uint64_t)count * sizeof *indices);
    for (int i = 0; i < count; i++)
        complete(treatment, given, indices[i], i, result);
    put_statuses(given, count);
    return end(treatment, given, result);
}

int MPI_Waitsome(int incount, MPI_Request requests[], int *outcount, int indices[], MPI_Status statuses[])
{
    ENTER(Waitsome);
    PASSED(Waitsome, (incount, requests, outcount, indices, statuses));
    struct given given;
    look(&given, incount, requests, statuses, statuses == MPI_STATUSES_IGNORE);
    COMPARE(Waitsome, incount, given.sum);
    int result = MAKE(Waitsome, (incount, requests, outcount, indices, given.statuses));
    return completed_some(treatment, &given, result, outcount, indices);
}

// ---- Tests ---------------------------------------------------------------------------------------------------------

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    ENTER(Test);
    PASSED(Test, (request, flag, status));
    struct given given;
    look(&given, 1, request, status, status == MPI_STATUS_IGNORE);
    int64_t compared[] = {request_number(*request)};
    int result = MAKE(Test, (request, flag, given.statuses));
    if (answered_no(treatment, CALL_Test, &given, compared, 1, result, !*flag)) {
        *flag = 0;
        return MPI_SUCCESS;
    }
    dmc_call(CALL_Test, compared, 1, 0, 0);
    *flag = (int)out(*flag);
    if (*flag) {
        complete(treatment, &given, 0, 0, result);
        put_statuses(&given, 1);
    }
    return end(treatment, &given, result);
}

int MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
    ENTER(Testall);
    PASSED(Testall, (count, requests, flag, statuses));
    struct given given;
    look(&given, count, requests, statuses, statuses == MPI_STATUSES_IGNORE);
    int64_t compared[] = {count, given.sum};
    int result = MAKE(Testall, (count, requests, flag, given.statuses));
    if (answered_no(treatment, CALL_Testall, &given, compared, 2, result, !*flag)) {
        *flag = 0;
        return MPI_SUCCESS;
    }
    dmc_call(CALL_Testall, compared, 2, 0, 0);
    *flag = (int)out(*flag);
    for (int i = 0; *flag && i < count; i++)
        complete(treatment, &given, i, i, result);
    if (*flag)
        put_statuses(&given, count);
    return end(treatment, &given, result);
}

int MPI_Testany(int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status)
{
    ENTER(Testany);
    PASSED(Testany, (count, requests, index, flag, status));
    struct given given;
    look(&given, count, requests, status, status == MPI_STATUS_IGNORE);
    int64_t compared[] = {count, given.sum};
    int result = MAKE(Testany, (count, requests, index, flag, given.statuses));
    if (answered_no(treatment, CALL_Testany, &given, compared, 2, result, !*flag)) {
        *flag = 0;
        *index = MPI_UNDEFINED;
        return MPI_SUCCESS;
    }
    dmc_call(CALL_Testany, compared, 2, 0, 0);
    *flag = (int)out(*flag);
    *index = (int)out(*index);
    if (*flag && *index != MPI_UNDEFINED)
        complete(treatment, &given, *index, 0, result);
    if (*flag)
        put_statuses(&given, 1);
    return end(treatment, &given, result);
}

int MPI_Testsome(int incount, MPI_Request requests[], int *outcount, int indices[], MPI_Status statuses[])
{
    ENTER(Testsome);
    PASSED(Testsome, (incount, requests, outcount, indices, statuses));
    struct given given;
    look(&given, incount, requests, statuses, statuses == MPI_STATUSES_IGNORE);
    int64_t compared[] = {incount, given.sum};
    int result = MAKE(Testsome, (incount, requests, outcount, indices, given.statuses));
    if (answered_no(treatment, CALL_Testsome, &given, compared, 2, result, *outcount == 0)) {
        *outcount = 0;
        return MPI_SUCCESS;
    }
    dmc_call(CALL_Testsome, compared, 2, 0, 0);
    return completed_some(treatment, &given, result, outcount, indices);
}

int MPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
    ENTER(Request_get_status);
    PASSED(Request_get_status, (request, flag, status));
    struct given given;
    look(&given, 1, &request, status, status == MPI_STATUS_IGNORE);
    int64_t compared[] = {request_number(request)};
    int result = MAKE(Request_get_status, (request, flag, given.statuses));
    if (answered_no(treatment, CALL_Request_get_status, &given, compared, 1, result, !*flag)) {
        *flag = 0;
        return MPI_SUCCESS;
    }
    dmc_call(CALL_Request_get_status, compared, 1, 0, 0);
    *flag = (int)out(*flag);
    if (*flag) {
        deliver(treatment, given.known[0], given.statuses, result == MPI_SUCCESS);
        put_statuses(&given, 1);
    }
    return end(treatment, &given, result);
}

// ---- Starts, frees, cancels ----------------------------------------------------------------------------------------

// Begins the call, with what is sent.
static void starts(unsigned call, int count, MPI_Request requests[])
{
    uint32_t sum = 0;
    int64_t compared[] = {count == 1 ? request_number(requests[0]) : count, 0, 0};
    for (int i = 0; i < count; i++) {
        struct request *request = request_of(BITS(requests[i]));
        if (request && request->operation == SENDS)
            sum = 31 * sum + sum_of(&request->data);
        if (request && count == 1) {
            compared[1] = request->dest;
            compared[2] = request->tag;
        } else if (request) {
            compared[1] = (compared[1] * 31 + request->number) & 0xffffff;
        }
    }
    dmc_call(call, compared, count == 1 && call == CALL_Start ? 3 : 2, 1, sum);
}

static int started(int treatment, int result, int count, MPI_Request requests[])
{
    for (int i = 0; i < count; i++) {
        struct request *request = request_of(BITS(requests[i]));
        if (request)
            request->is_active = 1;
    }
    return result_of(treatment, result, MPI_COMM_WORLD);
}

int MPI_Start(MPI_Request *request)
{
    ENTER(Start);
    PASSED(Start, (request));
    starts(CALL_Start, 1, request);
    return started(treatment, MAKE(Start, (request)), 1, request);
}

int MPI_Startall(int count, MPI_Request requests[])
{
    ENTER(Startall);
    PASSED(Startall, (count, requests));
    starts(CALL_Startall, count, requests);
    return started(treatment, MAKE(Startall, (count, requests)), count, requests);
}

int MPI_Request_free(MPI_Request *request)
{
    ENTER(Request_free);
    PASSED(Request_free, (request));
    const uint64_t bits = BITS(*request);
    struct request *known = request_of(bits);
    COMPARE(Request_free, request_number(*request));
    if (treatment == RECORD && known && known->is_active && known->operation != SENDS)
        dmc_refuse(CALL_Request_free, "it frees the request of a receive that goes on");
    // As soon as it is free its handle may be another's.
    if (known)
        known->is_claimed = 1;
    int result = MAKE(Request_free, (request));
    request_gone(treatment, bits, known, request);
    return result_of(treatment, result, MPI_COMM_WORLD);
}

int MPI_Cancel(MPI_Request *request)
{
    ENTER(Cancel);
    PASSED(Cancel, (request));
    COMPARE(Cancel, request_number(*request));
    int result = MAKE(Cancel, (request));
    return result_of(treatment, result, MPI_COMM_WORLD);
}
