// Time spent outside MPI. See work.h.
#include "work.h"

#include <time.h>

#include "job.h"

enum { STEPS_PER_LOOK = 1000 };

void compute_for(double seconds)
{
    static volatile uint64_t work;
    const uint64_t end_ns = monotonic_ns() + (uint64_t)(seconds * 1e9);
    while (monotonic_ns() < end_ns)
        for (uint64_t i = 0; i < STEPS_PER_LOOK; i++)
            work = mix(work, i, 50);
}

void work_through(uint64_t steps)
{
    static volatile uint64_t work;
    for (uint64_t i = 0; i < steps; i++)
        work = mix(work, i, 50);
}

void sleep_for(double seconds)
{
    const time_t whole = (time_t)seconds;
    struct timespec rest = {.tv_sec = whole, .tv_nsec = (long)((seconds - (double)whole) * 1e9)};
    while (nanosleep(&rest, &rest) != 0)
        ;
}
