// Time spent outside MPI.
#ifndef JOBS_WORK_H
#define JOBS_WORK_H

// Computes for so long.
void compute_for(double seconds);
// Sleeps for so long.
void sleep_for(double seconds);

#endif
