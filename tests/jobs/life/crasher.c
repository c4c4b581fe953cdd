// One rank writes through a null pointer in the middle of the run. It says so first, in a line of its own.
#include "job.h"

#include <unistd.h>

enum { MESSAGE_BYTES = 512 };

static void crash(const struct job *job)
{
    printf("{\"type\":\"crash\",\"rank\":%d,\"pid\":%d,\"iteration\":%lu,\"monotonic_ns\":%lu}\n", job->rank,
           (int)getpid(), (unsigned long)job->finished_iterations, (unsigned long)monotonic_ns());
    fflush(stdout);
    volatile int *volatile nowhere = NULL;
    *nowhere = 1;
}

int main(int argc, char **argv)
{
    uint64_t bad_rank = 1, after = 1000;
    const struct job_option own[] = {
        {"--bad-rank", OPTION_U64, &bad_rank, "the rank that crashes"},
        {"--after", OPTION_U64, &after, "the iteration in which it does"},
    };
    struct job job = {.iterations = 1000000};
    job_start(&job, "crasher", MPI_THREAD_SINGLE, argc, argv, own, sizeof(own) / sizeof(own[0]));
    const int right = (job.rank + 1) % job.ranks;
    const int left = (job.rank + job.ranks - 1) % job.ranks;
    unsigned char *out = must_allocate(MESSAGE_BYTES);
    unsigned char *in = must_allocate(MESSAGE_BYTES);
    while (job_next_iteration(&job)) {
        if ((uint64_t)job.rank == bad_rank && job.finished_iterations == after)
            crash(&job);
        pattern_fill(out, MESSAGE_BYTES, job.finished_iterations);
        COUNTED_SEND("to the right", out, MESSAGE_BYTES, right, 1, MPI_COMM_WORLD);
        job_await_message(left, 1, MPI_COMM_WORLD);
        COUNTED_RECEIVE("from the left", in, MESSAGE_BYTES, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    free(out);
    free(in);
    return job_finish(&job, 0);
}
