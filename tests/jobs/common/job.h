// What all test jobs share: options, the start on a signal from outside, the main loop's end, and reports as JSON lines.
//
// Output of a job, all of it written by rank 0 (so that lines of several ranks never mix):
//   ready                        MPI is up on all ranks; with --wait-for FILE nothing moves until FILE exists
//   {"type":"site",...}          calls and bytes of one counted call site of one rank
//   {"type":"result",...}        what the job itself has to say, per rank
//   ok NAME ... | wrong NAME ... the job's own verdict on its data, the last line
#ifndef JOBS_JOB_H
#define JOBS_JOB_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "site.h"

enum job_option_kind {
    OPTION_U64,  // value: uint64_t *
    OPTION_F64,  // value: double *
    OPTION_TEXT, // value: const char **
    OPTION_SET,  // value: bool *, set by the option's presence
    OPTION_CLEAR // value: bool *, cleared by the option's presence
};

struct job_option {
    const char *name; // with the dashes
    enum job_option_kind kind;
    void *value; // holds the default until the option is met
    const char *help;
};

struct job {
    const char *name;
    int rank;
    int ranks;
    uint64_t iterations; // --iterations; when 0, --until decides if it is given, else --seconds
    double seconds;
    const char *until;
    uint64_t pause_us;    // --pause-us, slept after every iteration
    const char *wait_for;
    uint64_t go_ns;       // CLOCK_MONOTONIC when the job was let go
    uint64_t finished_iterations;
    bool goes_on;         // last decision of rank 0, for jobs that run for a time
    FILE *report;
    char *report_text;
    size_t report_bytes;
};

// Reads the options, starts MPI with the given thread level, says `ready` and waits for the go.
// The defaults of --iterations and --seconds are those already in `job`. Exits with status 2 on a bad option.
void job_start(struct job *job, const char *name, int thread_level, int argc, char **argv,
               const struct job_option *own_options, size_t own_option_count);

// The two halves of it, for what is to be done before it says `ready`.
void job_init(struct job *job, const char *name, int thread_level, int argc, char **argv,
              const struct job_option *own_options, size_t own_option_count);
void job_await_go(struct job *job);

// True if the main loop is to make one more iteration; collective. Jobs with --seconds or --until agree with a broadcast every
// 16th iteration, jobs with --iterations need no message.
bool job_next_iteration(struct job *job);

// Share of the run that is over, 0..1, as this rank sees it; 0 with --until.
double job_progress(const struct job *job);

// Adds one line to this rank's report.
void job_report(struct job *job, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Collects the reports of all ranks and the counted sites, prints them with the verdict, ends MPI.
// Returns the exit status: 0 if no rank saw an error.
int job_finish(struct job *job, uint64_t errors);

// With --yield: gives the core to others until the message is there, for libraries that would burn it in MPI_Recv
// although there are more ranks than cores. Without: returns at once.
void job_await_message(int source, int tag, MPI_Comm comm);

// CLOCK_MONOTONIC, the clock of the tracer's time stamps.
uint64_t monotonic_ns(void);

// Fills a buffer with bytes that depend on the seed, and counts the bytes that are not what they would be.
void pattern_fill(void *buffer, size_t bytes, uint64_t seed);
uint64_t pattern_errors(const void *buffer, size_t bytes, uint64_t seed);

// A well-mixed 64-bit number from three small ones: seeds of patterns, and choices all ranks can recompute.
uint64_t mix(uint64_t a, uint64_t b, uint64_t c);

// malloc that ends the job with a message instead of returning NULL. Always inline, so that every use is an allocation
// site of its own.
static inline __attribute__((always_inline)) void *must_allocate(size_t bytes)
{
    void *block = malloc(bytes);
    if (block == NULL) {
        fprintf(stderr, "cannot allocate %zu bytes\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return block;
}

#endif
