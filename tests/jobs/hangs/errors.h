// Small pieces of communication, each with one lapse that can be made in it.
#ifndef JOBS_ERRORS_H
#define JOBS_ERRORS_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct scene {
    int rank, ranks;
    bool faulty;       // false: everything is done right
    size_t long_bytes; // of a message that no library sends before it is received
    double compute_s;  // how long a rank computes where one does
};

struct lapse {
    const char *name;
    int least_ranks;
    // Does its part of the communication; returns the number of wrong data. Ranks that are through end without a word
    // if the lapse is made, since others may never be.
    uint64_t (*run)(const struct scene *scene);
    // For lapses that let the job end: all ranks come to its end and to the verdict.
    bool ends;
    // Done by every rank after MPI is finalized, or NULL.
    void (*after_finalize)(const struct scene *scene);
};

// Each list ends with an entry without a name.
extern const struct lapse message_lapses[];
extern const struct lapse request_lapses[];
extern const struct lapse collective_lapses[];
extern const struct lapse window_lapses[];
extern const struct lapse outside_lapses[];
extern const struct lapse call_lapses[];
extern const struct lapse death_lapses[];

enum { NUMBER = 4711, TAG = 1, OTHER_TAG = 2 };

// One NUMBER; receiving counts the wrong ones.
void send_number(int to);
uint64_t receive_number(int from);
// Rank 1 sends to all others, which wait for it.
uint64_t hear_from_rank_1(const struct scene *scene);

#endif
