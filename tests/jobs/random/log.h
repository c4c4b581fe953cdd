// Calls as dmscope counts them, and what a thread logs of its messages.
#pragma once
#include <stdio.h>

// A call of a thread, and which of its messages.
struct id {
    int rank, tid, call, part;
};

struct thread {
    int tid;
    int calls;
    FILE *log;
};

extern int world_rank;

static inline struct id this_call(struct thread *t, int part)
{
    return (struct id){world_rank, t->tid, t->calls, part};
}

// The kind is that of the communicator.
static inline void log_ids(struct thread *t, char what, struct id a, struct id b, int kind)
{
    fprintf(t->log, "%c %d %d %d %d %d %d %d %d %d\n", what, a.rank, a.tid, a.call, a.part, b.rank, b.tid, b.call, b.part,
            kind);
}

// The next call is one that dmscope counts.
#define CALL(t, call)                                                                                                  \
    do {                                                                                                               \
        (t)->calls++;                                                                                                  \
        call;                                                                                                          \
    } while (0)

// Asks again and again; only the answer yes counts.
#define POLL(t, call, yes)                                                                                             \
    do {                                                                                                               \
        do                                                                                                             \
            call;                                                                                                      \
        while (!(yes));                                                                                                \
        (t)->calls++;                                                                                                  \
    } while (0)
