// Pairs of ranks that have nothing to do with each other: what each rank gets is the same in every run, the order in which
// their calls end is not.
//
//   apart --log DIR [--rounds N]
//
// In each pair one rank starts to send a long message and a short one, and the other takes them in the other order: the long one
// goes on only while both ranks are in the library.
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "logged.h"

enum { LONG = 1, SHORT = 2, LONG_INTS = 1 << 17 };

static void send_to(int partner, int round, int *data)
{
    MPI_Request requests[2];
    for (int i = 0; i < LONG_INTS; i++)
        data[i] = round + i;
    MPI_Isend(data, LONG_INTS, MPI_INT, partner, LONG, MPI_COMM_WORLD, &requests[0]);
    pause_a_little();
    MPI_Isend(&round, 1, MPI_INT, partner, SHORT, MPI_COMM_WORLD, &requests[1]);
    pause_a_little();
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void take_from(int partner, int *data)
{
    int value;
    MPI_Recv(&value, 1, MPI_INT, partner, SHORT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    pause_a_little();
    MPI_Recv(data, LONG_INTS, MPI_INT, partner, LONG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    note("got", value, data[0], data[LONG_INTS - 1], 0);
    pause_a_little();
}

int main(int argc, char **argv)
{
    const char *folder = ".";
    int rounds = 20;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--log"))
            folder = argv[i + 1];
        else if (!strcmp(argv[i], "--rounds"))
            rounds = atoi(argv[i + 1]);
    }
    MPI_Init(&argc, &argv);
    open_log(folder);
    int *data = calloc(LONG_INTS, sizeof *data);
    const int partner = rank ^ 1;
    note("begins", rank, 0, 0, 0);
    for (int round = 0; data && partner < ranks && round < rounds; round++) {
        if (rank % 2 == 0)
            send_to(partner, round, data);
        else
            take_from(partner, data);
    }
    close_log();
    free(data);
    MPI_Finalize();
    return 0;
}
