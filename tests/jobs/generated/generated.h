// Small programs made from an operation and a fault in its use. See generated.c.
//
// Each call that is under test, and each in which a rank may be stuck beside it, has a line of its own with a comment
// `// call: NAME`, by which the tests find it. An operation is called NAME in lower case, without `MPI_`.
#ifndef JOBS_GENERATED_H
#define JOBS_GENERATED_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

enum fault {
    NO_FAULT,
    OTHER_OPERATION,    // another operation in its place
    OTHER_ORDER,        // two operations the other way round
    OTHER_COMMUNICATOR, // another communicator, or window
    OTHER_ROOT,         // another root
    OTHER_TAG,          // another tag
    OTHER_RANK,         // a third rank instead of the partner
    MISSING_CALL,       // the operation is left out
    MISSING_START,      // a persistent operation is not started
    MISSING_WAIT,       // what was begun is not completed
    FAULTS
};

enum { TAG = 1, WRONG_TAG = 2, READY_TAG = 3, REPLY_TAG = 4, SECOND_TAG = 5 };

struct scene {
    int rank, ranks;
    int bad;               // the rank that makes the fault
    int partner, third;    // its partner, and a rank that is neither; -1: the job has no third one
    bool is_bad, is_partner;
    enum fault fault;      // the program's, whether it is made now or not
    bool wrong;            // this rank makes the fault now
    MPI_Comm comms[2];     // the right one, and another with the same members
    MPI_Comm grids[2];     // the same, for neighborhood collectives: a ring
};

struct arguments; // of a collective call
struct operation {
    const char *name;
    void (*run)(const struct scene *scene, const struct operation *operation);
    // What its family needs to tell it from others.
    union {
        int kind;
        void (*blocking)(const struct arguments *a);
        void (*with_request)(const struct arguments *a, MPI_Request *request);
    } is;
};

// Each list ends with an entry without a name.
extern const struct operation blocking_collectives[];
extern const struct operation nonblocking_collectives[];
extern const struct operation persistent_collectives[];
extern const struct operation makers[];
extern const struct operation sends[];
extern const struct operation receives[];
extern const struct operation completions[];
extern const struct operation probes[];
extern const struct operation synchronizations[];

// True if this rank makes this fault now.
static inline bool makes(const struct scene *scene, enum fault fault)
{
    return scene->wrong && scene->fault == fault;
}

#endif
