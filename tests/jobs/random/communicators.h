// Communicators made from groups and grids, of those that share memory, and between two groups.
#pragma once
#include <mpi.h>
#include <stdint.h>

#include "log.h"

// How a communicator was made; the test names them.
enum { ANY_WAY, OF_GRID, OF_NODE, BETWEEN, MERGED };

// All members by one number: in an intercommunicator those of one group come first, then those of the other.
struct place {
    int number, size;
    int between;  // two groups
    int second;   // where the second one begins
};

// Before any communicator is made.
void begin_communicators(void);
// A new communicator of some or all ranks of an old one; ranks that are not in it get MPI_COMM_NULL.
MPI_Comm another(struct thread *t, uint64_t seed, int round, MPI_Comm comm);
int kind_of(MPI_Comm comm);
int is_between(MPI_Comm comm);
// Of this rank.
struct place place_of(MPI_Comm comm);
// The rank by which calls of the other side name a number.
int rank_of(const struct place *place, int number);
