// Collective operations in all their forms.
#ifndef JOBS_GENERATED_COLLECTIVES_H
#define JOBS_GENERATED_COLLECTIVES_H

#include "generated.h"

#ifdef OPEN_MPI
#include <mpi-ext.h>
#define PERSISTENT(name) MPIX_##name // Open MPI 4 has them as an extension
#else
#define PERSISTENT(name) MPI_##name
#endif

// One number for each of a few ranks; of a long job only the ends of buffers would differ.
enum { BLOCK = 4, MOST_RANKS = 16 };

// What a collective call is made with. Buffers are there for all ranks, whoever is the root.
struct arguments {
    int root;
    MPI_Comm comm, grid; // the grid is for neighborhood collectives
    const int *in;
    int *out;
    const int *counts, *places, *byte_places;
    const MPI_Aint *addresses;
    const MPI_Datatype *types;
};

void run_blocking(const struct scene *scene, const struct operation *operation);
void run_nonblocking(const struct scene *scene, const struct operation *operation);
void run_persistent(const struct scene *scene, const struct operation *operation);

#endif
