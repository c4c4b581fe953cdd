// Windows between fences, and messages whose order is chance. What a rank got is in its log.
//
//   fences --log DIR [--rounds N] [--locks 1|2]
//
// --locks: at the end all ranks add to a number of rank 0's by locks, 1: shared ones, 2: exclusive ones.
#include <stdlib.h>
#include <string.h>

#include "logged.h"

// Rank 0 hears of all, in some order.
static void messages(int round)
{
    int number;
    MPI_Status status;
    pause_a_little();
    for (int i = 1; i < ranks && rank == 0; i++) {
        MPI_Recv(&number, 1, MPI_INT, MPI_ANY_SOURCE, round, MPI_COMM_WORLD, &status);
        note("message", status.MPI_SOURCE, number, 0, 0);
    }
    if (rank > 0)
        MPI_Send(&rank, 1, MPI_INT, 0, round, MPI_COMM_WORLD);
}

static void put_and_get(MPI_Win window, int *own, int round)
{
    const int right = (rank + 1) % ranks;
    int out = rank * 1000 + round, in = -1;
    MPI_Win_fence(0, window);
    MPI_Put(&out, 1, MPI_INT, right, 0, 1, MPI_INT, window);
    MPI_Accumulate(&out, 1, MPI_INT, 0, 1, 1, MPI_INT, MPI_SUM, window);
    MPI_Win_fence(0, window);
    MPI_Get(&in, 1, MPI_INT, right, 0, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    note("window", own[0], own[1], in, 0);
}

int main(int argc, char **argv)
{
    static int own[2];
    int *shared, taken = 0, one = 1;
    MPI_Win window, of_node;
    const int rounds = atoi(option(argc, argv, "--rounds", "20"));
    const int locks = atoi(option(argc, argv, "--locks", "0"));
    MPI_Init(&argc, &argv);
    open_log(option(argc, argv, "--log", "."));
    MPI_Win_create(own, sizeof own, sizeof *own, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_allocate_shared(2 * sizeof *shared, sizeof *shared, MPI_INFO_NULL, MPI_COMM_WORLD, &shared, &of_node);
    memset(shared, 0, 2 * sizeof *shared);
    for (int round = 0; round < rounds; round++) {
        messages(round);
        put_and_get(window, own, round);
        messages(round);
        put_and_get(of_node, shared, round);
    }
    if (locks) {
        MPI_Win_lock(locks == 1 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, 0, 0, window);
        MPI_Fetch_and_op(&one, &taken, MPI_INT, 0, 0, MPI_SUM, window);
        MPI_Win_unlock(0, window);
        note("lock", taken >= 0, 0, 0, 0);
    }
    MPI_Win_free(&of_node);
    MPI_Win_free(&window);
    close_log();
    MPI_Finalize();
    return 0;
}
