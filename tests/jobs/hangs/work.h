// Time spent outside MPI.
#ifndef JOBS_WORK_H
#define JOBS_WORK_H

#include <stdint.h>

// Computes for so long.
void compute_for(double seconds);
// Does so many steps of work, as long as that takes.
void work_through(uint64_t steps);
// Sleeps for so long.
void sleep_for(double seconds);

#endif
