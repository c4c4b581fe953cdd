// A master that takes a result from each worker, and fails in one order of arrival alone: the last worker's first, the first worker's last.
//
//   orders HOW FAULT [--log DIR]
//
// HOW says by which calls results are taken, FAULT what happens in that order: `crash`, `hang`, `print` (other output) or `none`.
// Workers send one after the other, so that a run by itself is good.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_RANKS = 16, TAG = 7, PAUSE_US = 30000 };

static int rank, ranks;
static MPI_Comm comm;

// Each gives the rank whose result comes next.

static int take(int source)
{
    int result;
    MPI_Status status;
    MPI_Recv(&result, 1, MPI_INT, source, TAG, comm, &status);
    return result;
}

static void by_recv(int *order)
{
    for (int i = 0; i < ranks - 1; i++)
        order[i] = take(MPI_ANY_SOURCE);
}

static void by_probe(int *order)
{
    for (int i = 0; i < ranks - 1; i++) {
        MPI_Status status;
        MPI_Probe(MPI_ANY_SOURCE, TAG, comm, &status);
        order[i] = take(status.MPI_SOURCE);
    }
}

static void by_iprobe(int *order)
{
    for (int i = 0; i < ranks - 1; i++) {
        MPI_Status status;
        int flag = 0;
        while (!flag) {
            MPI_Iprobe(MPI_ANY_SOURCE, TAG, comm, &flag, &status);
            usleep(100);
        }
        order[i] = take(status.MPI_SOURCE);
    }
}

static void by_irecv(int *order)
{
    MPI_Request requests[MOST_RANKS];
    for (int i = 0; i < ranks - 1; i++)
        MPI_Irecv(&order[i], 1, MPI_INT, MPI_ANY_SOURCE, TAG, comm, &requests[i]);
    MPI_Waitall(ranks - 1, requests, MPI_STATUSES_IGNORE);
}

static void by_start(int *order)
{
    MPI_Request requests[MOST_RANKS];
    for (int i = 0; i < ranks - 1; i++)
        MPI_Recv_init(&order[i], 1, MPI_INT, MPI_ANY_SOURCE, TAG, comm, &requests[i]);
    MPI_Startall(ranks - 1, requests);
    MPI_Waitall(ranks - 1, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < ranks - 1; i++)
        MPI_Request_free(&requests[i]);
}

static void by_waitany(int *order)
{
    MPI_Request requests[MOST_RANKS];
    int results[MOST_RANKS];
    for (int i = 0; i < ranks - 1; i++)
        MPI_Irecv(&results[i], 1, MPI_INT, i + 1, TAG, comm, &requests[i]);
    for (int i = 0; i < ranks - 1; i++) {
        int index;
        MPI_Waitany(ranks - 1, requests, &index, MPI_STATUS_IGNORE);
        order[i] = results[index];
    }
}

// Each result comes behind a barrier: in no other order.
static void by_barriers(int *order)
{
    for (int i = 0; i < ranks - 1; i++) {
        order[i] = take(MPI_ANY_SOURCE);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static const struct {
    const char *name;
    void (*take_all)(int *order);
} ways[] = {
    {"recv", by_recv},   {"probe", by_probe}, {"iprobe", by_iprobe},     {"irecv", by_irecv},
    {"start", by_start}, {"waitany", by_waitany}, {"barriers", by_barriers},
};

static void work(int has_barriers)
{
    if (has_barriers) {
        for (int turn = 1; turn < ranks; turn++) {
            if (turn == rank)
                MPI_Send(&rank, 1, MPI_INT, 0, TAG, comm);
            MPI_Barrier(MPI_COMM_WORLD);
        }
        return;
    }
    usleep((useconds_t)(PAUSE_US * rank));
    MPI_Send(&rank, 1, MPI_INT, 0, TAG, comm);
}

static void lead(void (*take_all)(int *order), const char *fault)
{
    int order[MOST_RANKS], is_bad = 1;
    take_all(order);
    for (int i = 0; i < ranks - 1; i++)
        is_bad &= order[i] == ranks - 1 - i;
    if (is_bad && !strcmp(fault, "crash"))
        abort();
    if (is_bad && !strcmp(fault, "hang"))
        take(1);
    puts(is_bad && !strcmp(fault, "print") ? "wrong" : "right");
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    // Not the first one of its kind, and not with the handle of another rank's.
    MPI_Comm first;
    MPI_Comm_dup(MPI_COMM_WORLD, &first);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_free(&first);
    const char *wanted = argc > 2 ? argv[1] : "", *fault = argc > 2 ? argv[2] : "";
    int found = 0;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (strcmp(wanted, ways[i].name))
            continue;
        found = 1;
        if (rank == 0)
            lead(ways[i].take_all, fault);
        else
            work(!strcmp(wanted, "barriers"));
    }
    if (!found || ranks > MOST_RANKS) {
        fprintf(stderr, "orders: no way %s, or too many ranks\n", wanted);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}
