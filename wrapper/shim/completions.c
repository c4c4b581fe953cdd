// Calls that complete requests, or ask whether they are complete.
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "logical.h"

// How many requests there is room for without asking for memory.
enum { FEW = 32 };

// Where the program cancels nothing no status says so.
int has_cancelled;

static int source_in(const MPI_Status *status)
{
    int cancelled = 0;
    if (has_cancelled)
        PMPI_Test_cancelled(status, &cancelled);
    return cancelled ? CANCELLED : status->MPI_SOURCE >= 0 ? status->MPI_SOURCE : NONE;
}

// Whether a receive has got its message.
static int decides(uint64_t request)
{
    MPI_Status status;
    int flag = 0;
    if (PMPI_Request_get_status(request_of(request), &flag, &status) != MPI_SUCCESS || !flag)
        return 0;
    if (dms_messages)
        dms_message_decided(request, source_in(&status), status.MPI_TAG);
    return dms_decided(request, source_in(&status));
}

void look_at_undecided(void)
{
    // Another thread may be waiting for them.
    if (dms_threads || !dms_posted_receives)
        return;
    uint64_t requests[UNDECIDED];
    int has_decided;
    do {
        has_decided = 0;
        int count = dms_undecided(requests);
        for (int i = 0; i < count; i++)
            has_decided |= decides(requests[i]);
    } while (has_decided);
}

// ---- What a call sees: requests as they were before it, and statuses even if the program wants none -----------------

struct seen {
    uint64_t few_bits[FEW];
    int64_t few_numbers[FEW];
    MPI_Status few_statuses[FEW];
    uint64_t *bits;        // NULL: nothing is to be recorded of them
    int64_t *numbers;      // of receives from anybody, where other threads may get their handles; NULL: they are known by these
    int count;
    MPI_Status *statuses;  // what MPI is given
    MPI_Status *own;       // to be freed
};

// Before the call. If there is no memory the call is not looked at.
static void look(struct seen *seen, int count, const MPI_Request *requests, MPI_Status *statuses, int is_ignored)
{
    seen->bits = NULL;
    seen->numbers = NULL;
    seen->own = NULL;
    seen->count = count;
    seen->statuses = statuses;
    if (!dms_messages && !dms_posted_receives)
        return;
    seen->bits = count <= FEW ? seen->few_bits : malloc((size_t)count * sizeof *seen->bits);
    if (is_ignored) {
        seen->own = count <= FEW ? seen->few_statuses : malloc((size_t)count * sizeof *seen->own);
        if (!seen->own && seen->bits != seen->few_bits) {
            free(seen->bits);
            seen->bits = NULL;
        }
        if (seen->own)
            seen->statuses = seen->own;
    }
    for (int i = 0; seen->bits && i < count; i++)
        seen->bits[i] = bits_of(requests[i]);
    if (seen->bits && dms_threads)
        seen->numbers = count <= FEW ? seen->few_numbers : malloc((size_t)count * sizeof *seen->numbers);
    for (int i = 0; seen->numbers && i < count; i++)
        seen->numbers[i] = dms_claim(seen->bits[i]);
}

static void looked(struct seen *seen)
{
    for (int i = 0; seen->numbers && i < seen->count; i++)
        dms_give_back(seen->bits[i], seen->numbers[i]);
    if (seen->bits && seen->bits != seen->few_bits)
        free(seen->bits);
    if (seen->numbers && seen->numbers != seen->few_numbers)
        free(seen->numbers);
    if (seen->own && seen->own != seen->few_statuses)
        free(seen->own);
}

// The request at an index is complete, with this status.
static void complete(struct seen *seen, int index, int result, const MPI_Status *status)
{
    if (!seen->bits)
        return;
    int failed = result == MPI_ERR_IN_STATUS ? status->MPI_ERROR : result;
    if (failed == MPI_ERR_PENDING)
        return;
    int source = failed == MPI_SUCCESS ? source_in(status) : NONE;
    if (seen->numbers) {
        dms_claimed_arrived(seen->numbers[index], source);
        seen->numbers[index] = NOT_POSTED;
    } else {
        dms_arrived(seen->bits[index], source);
    }
    if (dms_messages)
        dms_message_done(seen->bits[index], source, status->MPI_TAG);
}

// Some of these requests are taken.
static void choose(const struct seen *seen, int count, int taken, const int *indices)
{
    if (dms_messages && seen->bits && taken > 0)
        dms_message_choice(count, seen->bits, taken, indices);
}

// ---- Replay: others stand in for persistent receives ---------------------------------------------------------------

// Waits until a request is complete.
static int finish(MPI_Request *request, MPI_Status *status)
{
    uint64_t stand_in, bits = bits_of(*request);
    dms_waits_for(dms_due_of(bits));
    if (dms_stand_ins && dms_stand_in(bits, 0, &stand_in)) {
        MPI_Request other = request_of(stand_in);
        int result = dms_threads ? wait_in_turn(&other, status) : PMPI_Wait(&other, status);
        dms_stand_in(bits, 1, &stand_in);
        return result;
    }
    if (dms_threads)
        return wait_in_turn(request, status);
    int result = PMPI_Wait(request, status);
    // The name goes to another request. With several threads it already has: whoever posts that one says what is due.
    dms_set_due(bits, NONE);
    return result;
}

static int finish_all(int count, MPI_Request *requests, MPI_Status *statuses)
{
    int failed = 0;
    for (int i = 0; i < count; i++) {
        MPI_Status *status = statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i];
        int result = finish(&requests[i], status);
        failed |= result != MPI_SUCCESS;
        if (status != MPI_STATUS_IGNORE && result != MPI_SUCCESS)
            status->MPI_ERROR = result;
    }
    return failed ? MPI_ERR_IN_STATUS : MPI_SUCCESS;
}

// One of several; a request that is none cannot have been complete.
static int finish_one(int index, MPI_Request *requests, MPI_Status *status)
{
    if (requests[index] == MPI_REQUEST_NULL)
        dms_diverge("the request that was complete in the record is MPI_REQUEST_NULL");
    return finish(&requests[index], status);
}

// No request was active in the record: none may be now.
static int finish_none(int count, MPI_Request *requests, MPI_Status *status)
{
    int index = MPI_UNDEFINED, flag = 0;
    int result = PMPI_Testany(count, requests, &index, &flag, status);
    if (!flag || index != MPI_UNDEFINED || dms_stand_ins)
        dms_diverge("there is an active request; in the record there was none");
    return result;
}

// The requests as MPI knows them, in memory of their own if others stand in for some.
static MPI_Request *known_to_mpi(int count, MPI_Request *requests)
{
    if (!dms_stand_ins)
        return requests;
    MPI_Request *known = malloc((size_t)(count ? count : 1) * sizeof *known);
    if (!known)
        return requests;
    for (int i = 0; i < count; i++) {
        uint64_t stand_in;
        known[i] = dms_stand_in(bits_of(requests[i]), 0, &stand_in) ? request_of(stand_in) : requests[i];
    }
    return known;
}

static void give_back(int count, MPI_Request *requests, MPI_Request *known)
{
    if (known == requests)
        return;
    for (int i = 0; i < count; i++) {
        uint64_t stand_in;
        if (!dms_stand_in(bits_of(requests[i]), 0, &stand_in))
            requests[i] = known[i];
        else if (known[i] == MPI_REQUEST_NULL)
            dms_stand_in(bits_of(requests[i]), 1, &stand_in);
    }
    free(known);
}

// A call that the record does not decide, on the requests that MPI knows.
#define FREELY(result, count, requests, known, call)                                                                   \
    do {                                                                                                               \
        MPI_Request *known = known_to_mpi(count, requests);                                                            \
        result = call;                                                                                                 \
        give_back(count, requests, known);                                                                             \
    } while (0)

// What the record says that a call answers; anything if it is not replayed.
static int due_of(int treatment, int asked, int requests, int *value)
{
    *value = NONE;
    return treatment == REPLAY ? dms_due(asked, requests, value) : DUE_ANYTHING;
}

// ---- The calls: first as the record or the library has it, then what came of it is recorded -------------------------

int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    ENTER(Wait, 0, 0, 0);
    if (treatment == PASS)
        return PMPI_Wait(request, status);
    if (treatment == LOGICAL)
        LEAVE(logical_wait(request, status));
    struct seen seen;
    look(&seen, 1, request, status, status == MPI_STATUS_IGNORE);
    int result = treatment == REPLAY ? finish(request, seen.statuses) : PMPI_Wait(request, seen.statuses);
    complete(&seen, 0, result, seen.statuses);
    looked(&seen);
    look_at_undecided();
    LEAVE(result);
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
    ENTER(Waitall, count, 0, 0);
    if (treatment == PASS)
        return PMPI_Waitall(count, requests, statuses);
    if (treatment == LOGICAL)
        LEAVE(logical_waitall(count, requests, statuses));
    struct seen seen;
    look(&seen, count, requests, statuses, statuses == MPI_STATUSES_IGNORE);
    int result = treatment == REPLAY ? finish_all(count, requests, seen.statuses)
                                     : PMPI_Waitall(count, requests, seen.statuses);
    for (int i = 0; seen.bits && i < count; i++)
        complete(&seen, i, result, &seen.statuses[i]);
    looked(&seen);
    look_at_undecided();
    LEAVE(result);
}

// One of several is complete, or none was active.
static void completed_one(struct seen *seen, int result, int count, int index)
{
    dms_index(index == MPI_UNDEFINED ? NONE : index);
    if (index != MPI_UNDEFINED) {
        choose(seen, count, 1, &index);
        complete(seen, index, result, seen->statuses);
    }
    look_at_undecided();
}

int MPI_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status)
{
    ENTER(Waitany, count, 0, 0);
    if (treatment == PASS)
        return PMPI_Waitany(count, requests, index, status);
    if (treatment == LOGICAL)
        LEAVE(logical_waitany(count, requests, index, status));
    struct seen seen;
    look(&seen, count, requests, status, status == MPI_STATUS_IGNORE);
    int value, result;
    if (due_of(treatment, INDEX, count, &value) == DUE_ANYTHING) {
        FREELY(result, count, requests, known, PMPI_Waitany(count, known, index, seen.statuses));
    } else {
        *index = value == NONE ? MPI_UNDEFINED : value;
        result = value == NONE ? finish_none(count, requests, seen.statuses) : finish_one(value, requests, seen.statuses);
    }
    completed_one(&seen, result, count, *index);
    looked(&seen);
    LEAVE(result);
}

// What a call that completes some requests answered.
static void completed_some(struct seen *seen, int result, int of, int count, const int *indices)
{
    if (count == 0)
        dms_no();
    else
        dms_indices(count == MPI_UNDEFINED ? NONE : count, indices);
    if (count != MPI_UNDEFINED)
        choose(seen, of, count, indices);
    for (int i = 0; seen->bits && count != MPI_UNDEFINED && i < count; i++)
        complete(seen, indices[i], result, &seen->statuses[i]);
    looked(seen);
    look_at_undecided();
}

static int finish_some(int count, int found, MPI_Request *requests, int *outcount, int *indices, MPI_Status *statuses)
{
    if (found == NONE) {
        *outcount = MPI_UNDEFINED;
        return finish_none(count, requests, MPI_STATUS_IGNORE);
    }
    *outcount = found;
    for (int i = 0; i < found; i++)
        indices[i] = dms_due_index(i);
    int failed = 0;
    for (int i = 0; i < found; i++) {
        MPI_Status *status = statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i];
        int result = finish_one(indices[i], requests, status);
        failed |= result != MPI_SUCCESS;
        if (status != MPI_STATUS_IGNORE && result != MPI_SUCCESS)
            status->MPI_ERROR = result;
    }
    return failed ? MPI_ERR_IN_STATUS : MPI_SUCCESS;
}

int MPI_Waitsome(int incount, MPI_Request requests[], int *outcount, int indices[], MPI_Status statuses[])
{
    ENTER(Waitsome, incount, 0, 0);
    if (treatment == PASS)
        return PMPI_Waitsome(incount, requests, outcount, indices, statuses);
    if (treatment == LOGICAL)
        LEAVE(logical_waitsome(incount, requests, outcount, indices, statuses));
    struct seen seen;
    look(&seen, incount, requests, statuses, statuses == MPI_STATUSES_IGNORE);
    int value, result;
    if (due_of(treatment, INDICES, incount, &value) == DUE_ANYTHING)
        FREELY(result, incount, requests, known, PMPI_Waitsome(incount, known, outcount, indices, seen.statuses));
    else
        result = finish_some(incount, value, requests, outcount, indices, seen.statuses);
    completed_some(&seen, result, incount, *outcount, indices);
    LEAVE(result);
}

int MPI_Testsome(int incount, MPI_Request requests[], int *outcount, int indices[], MPI_Status statuses[])
{
    ENTER(Testsome, incount, 0, 0);
    if (treatment == PASS)
        return PMPI_Testsome(incount, requests, outcount, indices, statuses);
    if (treatment == LOGICAL)
        LEAVE(logical_testsome(incount, requests, outcount, indices, statuses));
    struct seen seen;
    look(&seen, incount, requests, statuses, statuses == MPI_STATUSES_IGNORE);
    int value, result = MPI_SUCCESS, due = due_of(treatment, POLL_INDICES, incount, &value);
    if (due == DUE_ANYTHING)
        FREELY(result, incount, requests, known, PMPI_Testsome(incount, known, outcount, indices, seen.statuses));
    else if (due == DUE_NO)
        *outcount = 0;
    else
        result = finish_some(incount, value, requests, outcount, indices, seen.statuses);
    completed_some(&seen, result, incount, *outcount, indices);
    LEAVE(result);
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    ENTER(Test, 0, 0, 0);
    if (treatment == PASS)
        return PMPI_Test(request, flag, status);
    if (treatment == LOGICAL)
        LEAVE(logical_test(request, flag, status));
    struct seen seen;
    look(&seen, 1, request, status, status == MPI_STATUS_IGNORE);
    int value, result = MPI_SUCCESS, due = due_of(treatment, POLL, 0, &value);
    if (due == DUE_ANYTHING)
        FREELY(result, 1, request, known, PMPI_Test(known, flag, seen.statuses));
    else if ((*flag = due == DUE_YES))
        result = finish(request, seen.statuses);
    if (*flag) {
        dms_yes();
        complete(&seen, 0, result, seen.statuses);
        look_at_undecided();
    } else {
        dms_no();
    }
    looked(&seen);
    LEAVE(result);
}

int MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
    ENTER(Testall, count, 0, 0);
    if (treatment == PASS)
        return PMPI_Testall(count, requests, flag, statuses);
    if (treatment == LOGICAL)
        LEAVE(logical_testall(count, requests, flag, statuses));
    struct seen seen;
    look(&seen, count, requests, statuses, statuses == MPI_STATUSES_IGNORE);
    int value, result = MPI_SUCCESS, due = due_of(treatment, POLL, 0, &value);
    if (due == DUE_ANYTHING)
        FREELY(result, count, requests, known, PMPI_Testall(count, known, flag, seen.statuses));
    else if ((*flag = due == DUE_YES))
        result = finish_all(count, requests, seen.statuses);
    if (*flag) {
        dms_yes();
        for (int i = 0; seen.bits && i < count; i++)
            complete(&seen, i, result, &seen.statuses[i]);
        look_at_undecided();
    } else {
        dms_no();
    }
    looked(&seen);
    LEAVE(result);
}

int MPI_Testany(int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status)
{
    ENTER(Testany, count, 0, 0);
    if (treatment == PASS)
        return PMPI_Testany(count, requests, index, flag, status);
    if (treatment == LOGICAL)
        LEAVE(logical_testany(count, requests, index, flag, status));
    struct seen seen;
    look(&seen, count, requests, status, status == MPI_STATUS_IGNORE);
    int value, result = MPI_SUCCESS, due = due_of(treatment, POLL_INDEX, count, &value);
    if (due == DUE_ANYTHING) {
        FREELY(result, count, requests, known, PMPI_Testany(count, known, index, flag, seen.statuses));
    } else {
        *flag = due == DUE_YES;
        *index = value == NONE ? MPI_UNDEFINED : value;
        if (*flag)
            result = value == NONE ? finish_none(count, requests, seen.statuses)
                                   : finish_one(value, requests, seen.statuses);
    }
    if (*flag)
        completed_one(&seen, result, count, *index);
    else
        dms_no();
    looked(&seen);
    LEAVE(result);
}

int MPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
    ENTER(Request_get_status, 0, 0, 0);
    if (treatment == PASS)
        return PMPI_Request_get_status(request, flag, status);
    if (treatment == LOGICAL)
        LEAVE(logical_get_status(request, flag, status));
    MPI_Status own, *seen = status == MPI_STATUS_IGNORE ? &own : status;
    uint64_t stand_in;
    MPI_Request known = dms_stand_in(bits_of(request), 0, &stand_in) ? request_of(stand_in) : request;
    int value, result = MPI_SUCCESS, due = due_of(treatment, POLL, 0, &value);
    *flag = 0;
    if (due == DUE_ANYTHING)
        result = PMPI_Request_get_status(known, flag, seen);
    else
        dms_waits_for(dms_due_of(bits_of(request)));
    while (due == DUE_YES && !*flag && result == MPI_SUCCESS) {
        result = PMPI_Request_get_status(known, flag, seen);
        sched_yield();
    }
    if (*flag) {
        dms_yes();
        if (result == MPI_SUCCESS && dms_is_posted(bits_of(request)))
            dms_decided(bits_of(request), source_in(seen));
    } else {
        dms_no();
    }
    LEAVE(result);
}

#if MPI_VERSION >= 4
int MPI_Parrived(MPI_Request request, int partition, int *flag)
{
    ENTER(Parrived, partition, 0, 0);
    dms_refuse(PARTITIONED);
    int value, due = due_of(treatment, POLL, 0, &value), result = MPI_SUCCESS;
    *flag = 0;
    if (due == DUE_ANYTHING)
        result = PMPI_Parrived(request, partition, flag);
    while (due == DUE_YES && !*flag && result == MPI_SUCCESS) {
        result = PMPI_Parrived(request, partition, flag);
        sched_yield();
    }
    if (treatment != PASS)
        (*flag ? dms_yes : dms_no)();
    LEAVE(result);
}
#endif

int MPI_Win_test(MPI_Win win, int *flag)
{
    ENTER(Win_test, 0, 0, 0);
    int value, due = due_of(treatment, POLL, 0, &value), result = MPI_SUCCESS;
    if (due == DUE_ANYTHING)
        result = PMPI_Win_test(win, flag);
    else if ((*flag = due == DUE_YES))
        result = PMPI_Win_wait(win);
    if (treatment != PASS)
        (*flag ? dms_yes : dms_no)();
    LEAVE(result);
}
