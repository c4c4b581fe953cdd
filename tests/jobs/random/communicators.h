// Communicators made from groups and grids.
#pragma once
#include <mpi.h>
#include <stdint.h>

#include "log.h"

// A new communicator of some or all ranks of an old one; ranks that are not in it get MPI_COMM_NULL.
MPI_Comm another(struct thread *t, uint64_t seed, int round, MPI_Comm comm);
