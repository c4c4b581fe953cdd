// Buffers of requests that are used before these are complete: one case after the other, each as it should not be or, with --right, as it
// should. Two ranks.
//
//   buffers CASE [--right]
//
// All data that is checked is as it would be without the fault in as many runs as the library allows.
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONG = 1 << 20, SHORT = 4, TAG = 1, TOKEN = 2 };

static int rank;
static bool is_right;
static char buffer[LONG], other[LONG], third[LONG];

// The peer goes on only now.
static void release(void)
{
    char token = 0;
    MPI_Send(&token, 1, MPI_CHAR, 1, TOKEN, MPI_COMM_WORLD);
}

static void wait_for_release(void)
{
    char token;
    MPI_Recv(&token, 1, MPI_CHAR, 0, TOKEN, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void get(int bytes)
{
    MPI_Recv(third, bytes, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void put(int bytes)
{
    MPI_Send(third, bytes, MPI_CHAR, 0, TAG, MPI_COMM_WORLD);
}

static void exchanged_in_one_buffer(void)
{
    // Half of it is sent and received into: the other half, or the same.
    int half = LONG / 2, peer = 1 - rank;
    MPI_Sendrecv(buffer, half, MPI_CHAR, peer, TAG, buffer + (is_right ? half : half - 1), half, MPI_CHAR, peer, TAG, // overlaps
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void sent_and_copied_over(void)
{
    if (rank == 1) {
        wait_for_release();
        return get(LONG);
    }
    MPI_Request request;
    MPI_Isend(buffer, LONG, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &request); // begun
    memcpy(is_right ? third : buffer + 100, other, 1000); // used
    release();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    memcpy(buffer, other, 1000);
}

static void sent_and_received_over(void)
{
    if (rank == 1) {
        put(500);
        wait_for_release();
        return get(LONG);
    }
    MPI_Request request;
    MPI_Isend(buffer, LONG, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &request); // begun
    MPI_Recv(is_right ? third : buffer + LONG - 500, 500, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE); // used
    release();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void received_and_copied_out(void)
{
    if (rank == 1) {
        wait_for_release();
        return put(LONG);
    }
    MPI_Request request;
    MPI_Irecv(buffer, LONG, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &request); // begun
    memcpy(other, is_right ? third : buffer, 1000); // used
    release();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    memcpy(other, buffer, 1000);
}

// The message is the answer to what is sent: told, but not as a warning.
static void received_and_sent(void)
{
    if (rank == 1) {
        get(1000);
        return put(LONG);
    }
    MPI_Request request;
    MPI_Irecv(buffer, LONG, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &request); // begun
    MPI_Send(is_right ? other : buffer, 1000, MPI_CHAR, 1, TAG, MPI_COMM_WORLD); // used
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request again;
    MPI_Irecv(buffer, LONG, MPI_CHAR, MPI_PROC_NULL, TAG, MPI_COMM_WORLD, &again);
    memcpy(other, buffer, 1000);
    MPI_Wait(&again, MPI_STATUS_IGNORE);
}

// The message may be there already.
static void received_and_sent_meanwhile(void)
{
    MPI_Request request;
    char token = 0;
    if (rank == 1) {
        MPI_Isend(third, LONG, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, &request);
        MPI_Send(&token, 1, MPI_CHAR, 0, TOKEN, MPI_COMM_WORLD);
        MPI_Recv(other, 1000, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        return;
    }
    MPI_Recv(&token, 1, MPI_CHAR, 1, TOKEN, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Irecv(buffer, LONG, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &request); // begun
    MPI_Send(is_right ? other : buffer, 1000, MPI_CHAR, 1, TAG, MPI_COMM_WORLD); // used
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void received_twice(void)
{
    if (rank == 1) {
        wait_for_release();
        put(LONG);
        return put(LONG);
    }
    MPI_Request requests[2];
    MPI_Irecv(buffer, LONG, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &requests[0]); // begun
    MPI_Irecv(is_right ? other : buffer, LONG, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &requests[1]); // used
    release();
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    memcpy(third, buffer, 1000);
}

// Tokens whose content nobody looks at: told, but not as a warning.
static void tokens_received_twice(void)
{
    if (rank == 1) {
        wait_for_release();
        put(SHORT);
        return put(SHORT);
    }
    MPI_Request requests[2];
    MPI_Irecv(buffer, SHORT, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &requests[0]); // begun
    MPI_Irecv(is_right ? other : buffer, SHORT, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &requests[1]); // used
    release();
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void started_and_copied_over(void)
{
    if (rank == 1) {
        for (int i = 0; i < 3; i++) {
            wait_for_release();
            get(LONG);
        }
        return;
    }
    MPI_Request request;
    MPI_Send_init(buffer, LONG, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &request); // prepared
    memcpy(buffer, other, 1000);
    for (int i = 0; i < 3; i++) {
        MPI_Start(&request);
        memcpy(is_right ? third : buffer, other, 1000); // used
        release();
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        memcpy(buffer, other, 1000);
    }
    MPI_Request_free(&request);
}

// By assignments, which no probe sees.
static void store(char *to)
{
    for (int i = 0; i < 1000; i++)
        to[i]++;
}

static void sent_and_stored_over(void)
{
    if (rank == 1) {
        wait_for_release();
        return get(LONG);
    }
    MPI_Request request;
    MPI_Isend(buffer, LONG, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &request); // begun
    store(is_right ? third : buffer);
    release();
    MPI_Wait(&request, MPI_STATUS_IGNORE); // used
    store(buffer);
}

static void sent_and_stored_at_the_end(void)
{
    if (rank == 1) {
        wait_for_release();
        return get(LONG);
    }
    MPI_Request request;
    MPI_Issend(buffer, LONG / 8, MPI_DOUBLE, 1, TAG, MPI_COMM_WORLD, &request); // begun
    (is_right ? third : buffer)[LONG - 1]++;
    release();
    int flag = 0;
    while (!flag)
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE); // used
    buffer[LONG - 1]++;
}

static void two_sent_and_one_stored_over(void)
{
    if (rank == 1) {
        wait_for_release();
        get(LONG);
        return get(LONG);
    }
    MPI_Request requests[2];
    MPI_Isend(other, LONG, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(buffer, LONG, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &requests[1]); // begun
    store(is_right ? third : buffer + LONG / 2);
    release();
    int index;
    MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE); // used
    MPI_Wait(&requests[!index], MPI_STATUS_IGNORE);
    store(buffer);
    store(other);
}

static void started_and_stored_over(void)
{
    if (rank == 1) {
        for (int i = 0; i < 3; i++) {
            wait_for_release();
            get(LONG);
        }
        return;
    }
    MPI_Request request;
    MPI_Send_init(buffer, LONG, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &request); // prepared
    store(buffer);
    for (int i = 0; i < 3; i++) {
        MPI_Start(&request);
        store(is_right ? third : buffer);
        release();
        MPI_Wait(&request, MPI_STATUS_IGNORE); // used
        store(buffer);
    }
    MPI_Request_free(&request);
}

// Requests that are kept elsewhere than where the library stored them, and one that is known to be complete.
static void stored_rightly(void)
{
    if (rank == 1) {
        for (int i = 0; i < 5; i++) {
            wait_for_release();
            get(LONG);
        }
        return;
    }
    MPI_Request request, requests[2];
    requests[1] = MPI_REQUEST_NULL;
    MPI_Isend(buffer, LONG, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &request);
    requests[0] = request;
    release();
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    store(buffer);
    for (int i = 0; i < 3; i++) {
        MPI_Isend(i == 1 ? other : buffer, LONG, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &requests[1]);
        request = requests[1];
        release();
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        store(buffer);
        store(other);
    }
    MPI_Isend(buffer, LONG, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &request);
    release();
    for (int flag = 0; !flag;)
        MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE);
    store(buffer);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

// All that ends a request lets its buffer go; reading what is sent, and other parts of an array, are right.
static void used_rightly(void)
{
    enum { PART = LONG / 4 };
    if (rank == 1) {
        for (int i = 0; i < 6; i++) {
            wait_for_release();
            put(LONG);
        }
        wait_for_release();
        get(LONG);
        return get(LONG);
    }
    MPI_Request request, requests[2];
    int flag = 0, index, count;
    MPI_Status status;
    for (int how = 0; how < 6; how++) {
        MPI_Irecv(buffer, LONG, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &request);
        requests[0] = request;
        requests[1] = MPI_REQUEST_NULL;
        release();
        switch (how) {
        case 0:
            for (flag = 0; !flag;)
                MPI_Test(&request, &flag, &status);
            break;
        case 1:
            MPI_Waitany(2, requests, &index, &status);
            break;
        case 2:
            MPI_Waitsome(2, requests, &count, &index, &status);
            break;
        case 3:
            for (flag = 0; !flag;)
                MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);
            break;
        case 4:
            for (flag = 0; !flag;)
                MPI_Request_get_status(request, &flag, &status);
            break;
        default:
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        }
        memcpy(other, buffer, LONG);
        memcpy(buffer, third, LONG);
        if (how == 4)
            MPI_Wait(&request, &status);
    }
    MPI_Irecv(buffer, LONG, MPI_CHAR, 1, TAG + 5, MPI_COMM_WORLD, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    memcpy(buffer, other, LONG);
    for (int i = 0; i < 2; i++)
        MPI_Isend(buffer, LONG, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &requests[i]);
    memcpy(other, buffer, LONG);
    release();
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Irecv(buffer, PART, MPI_CHAR, 1, TAG + 5, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(buffer + 2 * PART, PART, MPI_CHAR, 1, TAG + 5, MPI_COMM_WORLD, &requests[1]);
    memcpy(buffer + PART, buffer + 3 * PART, PART);
    for (int i = 0; i < 2; i++) {
        MPI_Cancel(&requests[i]);
        MPI_Wait(&requests[i], &status);
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"exchanged_in_one_buffer", exchanged_in_one_buffer},
    {"sent_and_copied_over", sent_and_copied_over},
    {"sent_and_received_over", sent_and_received_over},
    {"received_and_copied_out", received_and_copied_out},
    {"received_and_sent", received_and_sent},
    {"received_and_sent_meanwhile", received_and_sent_meanwhile},
    {"received_twice", received_twice},
    {"tokens_received_twice", tokens_received_twice},
    {"started_and_copied_over", started_and_copied_over},
    {"sent_and_stored_over", sent_and_stored_over},
    {"sent_and_stored_at_the_end", sent_and_stored_at_the_end},
    {"two_sent_and_one_stored_over", two_sent_and_one_stored_over},
    {"started_and_stored_over", started_and_stored_over},
    {"stored_rightly", stored_rightly},
    {"used_rightly", used_rightly},
};

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    is_right = argc > 2 && !strcmp(argv[2], "--right");
    // Memory that was never written is not looked at.
    memset(buffer, 1, LONG);
    memset(other, 2, LONG);
    bool is_known = false;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (argc > 1 && !strcmp(argv[1], cases[i].name)) {
            is_known = true;
            cases[i].run();
        }
    if (!is_known)
        fprintf(stderr, "buffers CASE [--right]: there is no such case\n");
    MPI_Finalize();
    return is_known ? 0 : 2;
}
