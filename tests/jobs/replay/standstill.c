// Programs in which the rules of deterministic runs, and nothing else, make all ranks wait for each other; and one that is deadlocked.
//
//   standstill mapping|test|deadlock --log DIR
//
// What ranks get, and how often a test says no, is logged.
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "logged.h"

enum { ROUNDS = 20, TESTS = 40, DATA = 1, OTHER = 2 };

// Rank 0 takes a message from anybody, of one kind; rank 2 could send such a message, but its synchronous send of another kind
// is received only then.
static void mapping(void)
{
    int value = rank;
    MPI_Status status;
    for (int round = 0; round < ROUNDS; round++) {
        pause_a_little();
        if (rank == 0) {
            MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, DATA, MPI_COMM_WORLD, &status);
            note("data", status.MPI_SOURCE, round, 0, 0);
            MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, OTHER, MPI_COMM_WORLD, &status);
            note("other", status.MPI_SOURCE, round, 0, 0);
        } else if (rank == 1) {
            // Its clock is ahead of the others'.
            for (int i = 0, flag; i < 5; i++)
                MPI_Iprobe(1, DATA, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
            MPI_Send(&value, 1, MPI_INT, 0, DATA, MPI_COMM_WORLD);
        } else if (rank == 2) {
            MPI_Ssend(&value, 1, MPI_INT, 0, OTHER, MPI_COMM_WORLD);
        }
    }
}

// Rank 0 tests a synchronous send so often, whatever it hears, and sends then what rank 1 waits for before it receives.
static void test(void)
{
    int value = rank;
    for (int round = 0; round < ROUNDS; round++) {
        pause_a_little();
        if (rank == 0) {
            MPI_Request request;
            int flag = 0, noes = 0;
            MPI_Issend(&value, 1, MPI_INT, 1, DATA, MPI_COMM_WORLD, &request);
            for (int i = 0; i < TESTS && !flag; i++) {
                MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
                noes += !flag;
            }
            note("tests", noes, flag, round, 0);
            MPI_Send(&value, 1, MPI_INT, 1, OTHER, MPI_COMM_WORLD);
            if (!flag)
                MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            MPI_Recv(&value, 1, MPI_INT, 0, OTHER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Recv(&value, 1, MPI_INT, 0, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            note("round", round, 0, 0, 0);
        }
    }
}

// Each waits for the next one.
static void deadlock(void)
{
    int value;
    MPI_Recv(&value, 1, MPI_INT, (rank + 1) % ranks, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    const char *folder = argc > 3 ? argv[3] : ".", *wanted = argc > 1 ? argv[1] : "";
    MPI_Init(&argc, &argv);
    open_log(folder);
    if (!strcmp(wanted, "mapping"))
        mapping();
    else if (!strcmp(wanted, "test"))
        test();
    else
        deadlock();
    note("end", rank, 0, 0, 0);
    close_log();
    MPI_Finalize();
    return 0;
}
