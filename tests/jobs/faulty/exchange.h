// The main loop of the jobs whose messaging library corrupts data: every rank exchanges messages with its two neighbours
// in a ring and checks what it gets.
#ifndef JOBS_EXCHANGE_H
#define JOBS_EXCHANGE_H

#include "job.h"

// Options with defaults; --size BYTES, --rare RATE, --bug, --no-bug, --start-after SECONDS, --how WAY, --open-first.
struct exchange {
    const char *name;
    uint64_t size_bytes;
    double rare_rate;
};

// Runs the whole job and returns its exit status. Corrupted data are reported, and are no error unless the fault is off.
int exchange_run(const struct exchange *defaults, int argc, char **argv);

#endif
