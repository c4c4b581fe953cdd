// Calls that wait for each other in a cycle unless MPI buffers messages or lets ranks leave collective calls early: one case after the
// other, each as it should not be or, with --right, as it should. Four ranks.
//
//   buffering CASE [--right] [--bytes N]
//   buffering all [--right]
//
// Messages are short: with the libraries as they are, all of these programs end, with right results.
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 1 << 20, TAG = 1, TIMES = 200 };

static int rank, size, bytes = 64;
static bool is_right;
static char sent[LONGEST], got[LONGEST];

static void put(int to)
{
    MPI_Send(sent, bytes, MPI_CHAR, to, TAG, MPI_COMM_WORLD);
}

static void get(int from)
{
    MPI_Recv(got, bytes, MPI_CHAR, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void both_send_first(void)
{
    int peer = rank ^ 1;
    if (is_right && rank % 2 == 1) {
        get(peer);
        return put(peer);
    }
    MPI_Send(sent, bytes, MPI_CHAR, peer, TAG, MPI_COMM_WORLD); // cycle
    get(peer);
}

static void both_wait_first(void)
{
    int peer = rank ^ 1;
    MPI_Request request;
    MPI_Isend(sent, bytes, MPI_CHAR, peer, TAG, MPI_COMM_WORLD, &request);
    if (is_right)
        get(peer);
    MPI_Wait(&request, MPI_STATUS_IGNORE); // cycle
    if (!is_right)
        get(peer);
}

static void all_wait_for_several(void)
{
    MPI_Request requests[3];
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    for (int i = 0; i < 3; i++)
        MPI_Isend(sent, bytes, MPI_CHAR, next, TAG, MPI_COMM_WORLD, &requests[i]);
    for (int i = 0; is_right && i < 3; i++)
        get(last);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE); // cycle
    for (int i = 0; !is_right && i < 3; i++)
        get(last);
}

static void a_ring_sends_first(void)
{
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    if (is_right && rank == 0) {
        get(last);
        return put(next);
    }
    MPI_Send(sent, bytes, MPI_CHAR, next, TAG, MPI_COMM_WORLD); // cycle
    get(last);
}

static void one_sends_to_itself(void)
{
    if (rank != 2)
        return;
    MPI_Request request = MPI_REQUEST_NULL;
    if (is_right)
        MPI_Irecv(got, bytes, MPI_CHAR, rank, TAG, MPI_COMM_WORLD, &request);
    MPI_Send(sent, bytes, MPI_CHAR, rank, TAG, MPI_COMM_WORLD); // cycle
    if (!is_right)
        get(rank);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void each_time_again(void)
{
    int peer = rank ^ 1;
    for (int i = 0; i < TIMES; i++)
        if (is_right) {
            MPI_Sendrecv(sent, bytes, MPI_CHAR, peer, TAG, got, bytes, MPI_CHAR, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Send(sent, bytes, MPI_CHAR, peer, TAG, MPI_COMM_WORLD); // cycle
            get(peer);
        }
}

static void only_later(void)
{
    int peer = rank ^ 1;
    for (int i = 0; i < TIMES; i++)
        if (rank % 2 == 1) {
            get(peer);
            put(peer);
        } else {
            put(peer);
            get(peer);
        }
    MPI_Barrier(MPI_COMM_WORLD);
    both_send_first();
}

static void sent_before_a_barrier(void)
{
    if (rank == 0) {
        MPI_Send(sent, bytes, MPI_CHAR, 1, TAG, MPI_COMM_WORLD); // cycle
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (rank == 1) {
        if (is_right)
            get(0);
        MPI_Barrier(MPI_COMM_WORLD); // cycle
        if (!is_right)
            get(0);
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void received_before_a_broadcast(void)
{
    if (rank == 1) {
        if (is_right)
            MPI_Bcast(got, bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
        MPI_Recv(got, bytes, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE); // cycle
        if (!is_right)
            MPI_Bcast(got, bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
        return;
    }
    MPI_Bcast(got, bytes, MPI_CHAR, 0, MPI_COMM_WORLD); // cycle
    if (rank == 0)
        put(1);
}

static void two_broadcasts_in_another_order(void)
{
    MPI_Comm other;
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    if (rank == 1 && !is_right) {
        MPI_Bcast(got, bytes, MPI_CHAR, 1, other); // cycle
        MPI_Bcast(got, bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
    } else {
        MPI_Bcast(got, bytes, MPI_CHAR, 0, MPI_COMM_WORLD); // cycle
        MPI_Bcast(got, bytes, MPI_CHAR, 1, other);
    }
    MPI_Comm_free(&other);
}

static void a_started_broadcast(void)
{
    MPI_Request request;
    if (rank == 1 && !is_right) {
        MPI_Recv(got, bytes, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE); // cycle
        MPI_Ibcast(sent, bytes, MPI_CHAR, 0, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        return;
    }
    MPI_Ibcast(sent, bytes, MPI_CHAR, 0, MPI_COMM_WORLD, &request);
    if (is_right && rank == 0)
        put(1);
    if (is_right && rank == 1)
        get(0);
    MPI_Wait(&request, MPI_STATUS_IGNORE); // cycle
    if (!is_right && rank == 0)
        put(1);
}

static void started_again_and_again(void)
{
    int peer = rank ^ 1;
    MPI_Request request;
    MPI_Send_init(sent, bytes, MPI_CHAR, peer, TAG, MPI_COMM_WORLD, &request);
    for (int i = 0; i < TIMES; i++) {
        MPI_Start(&request);
        if (is_right)
            get(peer);
        MPI_Wait(&request, MPI_STATUS_IGNORE); // cycle
        if (!is_right)
            get(peer);
    }
    MPI_Request_free(&request);
}

static void three_in_a_cycle(void)
{
    if (rank > 2)
        return;
    int next = (rank + 1) % 3, last = (rank + 2) % 3;
    MPI_Request request = MPI_REQUEST_NULL;
    if (is_right && rank == 1)
        MPI_Irecv(got, bytes, MPI_CHAR, last, TAG, MPI_COMM_WORLD, &request);
    MPI_Send(sent, bytes, MPI_CHAR, next, TAG, MPI_COMM_WORLD); // cycle
    if (request == MPI_REQUEST_NULL)
        get(last);
    else
        MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void before_a_new_communicator(void)
{
    MPI_Comm half;
    if (rank == 0)
        MPI_Send(sent, bytes, MPI_CHAR, 1, TAG, MPI_COMM_WORLD); // cycle
    if (rank == 1 && is_right)
        get(0);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half); // cycle
    if (rank == 1 && !is_right)
        get(0);
    MPI_Comm_free(&half);
}

static void asked_for_one(void)
{
    int peer = rank ^ 1;
    MPI_Status status;
    for (int i = 0; i < 3; i++) {
        if ((is_right || i == 0) && rank % 2 == 1) {
            MPI_Probe(peer, TAG, MPI_COMM_WORLD, &status);
            get(peer);
            put(peer);
            continue;
        }
        MPI_Send(sent, bytes, MPI_CHAR, peer, TAG, MPI_COMM_WORLD); // cycle
        MPI_Probe(peer, TAG, MPI_COMM_WORLD, &status);
        get(peer);
    }
}

// Nothing of this needs buffering.

static void one_runs_ahead(void)
{
    for (int i = 0; i < 10 * TIMES; i++)
        if (rank % 2 == 0)
            put(rank + 1);
        else
            get(rank - 1);
}

static void a_line_of_senders(void)
{
    for (int i = 0; i < TIMES; i++) {
        if (rank > 0)
            get(rank - 1);
        if (rank + 1 < size)
            put(rank + 1);
    }
}

static void buffered_by_the_program(void)
{
    static char room[LONGEST];
    int peer = rank ^ 1;
    MPI_Buffer_attach(room, LONGEST);
    for (int i = 0; i < 10; i++) {
        MPI_Bsend(sent, bytes, MPI_CHAR, peer, TAG, MPI_COMM_WORLD);
        get(peer);
    }
    void *at;
    int all;
    MPI_Buffer_detach(&at, &all);
}

static void workers_of_a_master(void)
{
    if (rank > 0) {
        for (int i = 0; i < TIMES; i++) {
            put(0);
            get(0);
        }
        return;
    }
    for (int i = 0; i < TIMES * (size - 1); i++) {
        MPI_Status status;
        MPI_Recv(got, bytes, MPI_CHAR, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &status);
        put(status.MPI_SOURCE);
    }
}

// Whoever comes first is served first: nobody has to wait for anybody in particular.
static void whoever_comes(void)
{
    MPI_Request requests[3];
    char all[3][64];
    if (rank > 0) {
        put(0);
        return get(0);
    }
    for (int i = 1; i < size; i++)
        MPI_Irecv(all[i - 1], 64, MPI_CHAR, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &requests[i - 1]);
    for (int i = 1; i < size; i++) {
        int index;
        MPI_Status status;
        MPI_Waitany(size - 1, requests, &index, &status);
        put(status.MPI_SOURCE);
    }
}

static void asked_for(void)
{
    int peer = rank ^ 1;
    MPI_Request requests[2];
    for (int i = 0; i < TIMES; i++) {
        MPI_Isend(sent, bytes, MPI_CHAR, peer, TAG, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(got, bytes, MPI_CHAR, peer, TAG, MPI_COMM_WORLD, &requests[1]);
        int done = 0;
        while (!done)
            MPI_Testall(2, requests, &done, MPI_STATUSES_IGNORE);
    }
    for (int i = 0; i < TIMES; i++) {
        MPI_Status status;
        MPI_Isend(sent, bytes, MPI_CHAR, peer, TAG, MPI_COMM_WORLD, &requests[0]);
        MPI_Probe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &status);
        get(status.MPI_SOURCE);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    }
}

static void a_halo(void)
{
    MPI_Request requests[4];
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    for (int i = 0; i < TIMES; i++) {
        MPI_Irecv(got, bytes, MPI_CHAR, next, TAG, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(got + LONGEST / 2, bytes, MPI_CHAR, last, TAG, MPI_COMM_WORLD, &requests[1]);
        MPI_Isend(sent, bytes, MPI_CHAR, next, TAG, MPI_COMM_WORLD, &requests[2]);
        MPI_Isend(sent, bytes, MPI_CHAR, last, TAG, MPI_COMM_WORLD, &requests[3]);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        if (i % 10 == 0)
            MPI_Allreduce(MPI_IN_PLACE, sent, 8, MPI_CHAR, MPI_MAX, MPI_COMM_WORLD);
    }
}

// A send may be waited for after all receives of its rank are posted.
static void received_meanwhile(void)
{
    int peer = rank ^ 1;
    MPI_Request requests[2];
    for (int i = 0; i < TIMES; i++) {
        MPI_Irecv(got, bytes, MPI_CHAR, peer, TAG, MPI_COMM_WORLD, &requests[0]);
        put(peer);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        MPI_Isend(sent, bytes, MPI_CHAR, peer, TAG, MPI_COMM_WORLD, &requests[1]);
        get(peer);
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"both_send_first", both_send_first},
    {"both_wait_first", both_wait_first},
    {"all_wait_for_several", all_wait_for_several},
    {"a_ring_sends_first", a_ring_sends_first},
    {"one_sends_to_itself", one_sends_to_itself},
    {"each_time_again", each_time_again},
    {"only_later", only_later},
    {"sent_before_a_barrier", sent_before_a_barrier},
    {"received_before_a_broadcast", received_before_a_broadcast},
    {"two_broadcasts_in_another_order", two_broadcasts_in_another_order},
    {"a_started_broadcast", a_started_broadcast},
    {"started_again_and_again", started_again_and_again},
    {"three_in_a_cycle", three_in_a_cycle},
    {"before_a_new_communicator", before_a_new_communicator},
    {"asked_for_one", asked_for_one},
    {"one_runs_ahead", one_runs_ahead},
    {"a_line_of_senders", a_line_of_senders},
    {"buffered_by_the_program", buffered_by_the_program},
    {"workers_of_a_master", workers_of_a_master},
    {"whoever_comes", whoever_comes},
    {"asked_for", asked_for},
    {"a_halo", a_halo},
    {"received_meanwhile", received_meanwhile},
};

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 2; i < argc; i++)
        if (!strcmp(argv[i], "--right"))
            is_right = true;
        else if (!strcmp(argv[i], "--bytes") && i + 1 < argc)
            bytes = atoi(argv[++i]);
    bool is_known = false;
    const char *wanted = argc > 1 ? argv[1] : "";
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (!strcmp(wanted, "all") || !strcmp(wanted, cases[i].name)) {
            is_known = true;
            cases[i].run();
            MPI_Barrier(MPI_COMM_WORLD);
        }
    if (!is_known)
        fprintf(stderr, "buffering CASE [--right] [--bytes N]: there is no such case\n");
    MPI_Finalize();
    return is_known ? 0 : 2;
}
