// Every rank computes in small pieces and asks after each with MPI_Testany whether a message has come: most answers are no.
#include "job.h"

#include <sched.h>

enum { MESSAGE_BYTES = 1024, POLLS_PER_YIELD = 64 };

static volatile uint64_t work;

static void compute(uint64_t steps)
{
    for (uint64_t i = 0; i < steps; i++)
        work = mix(work, i, 95);
}

static uint64_t seed_of(int rank, const struct job *job)
{
    return mix((uint64_t)rank, job->finished_iterations, 96);
}

int main(int argc, char **argv)
{
    uint64_t steps = 8;
    const struct job_option own[] = {{"--steps", OPTION_U64, &steps, "steps of computing between two questions"}};
    struct job job = {.iterations = 4000};
    job_start(&job, "testany", MPI_THREAD_SINGLE, argc, argv, own, 1);
    unsigned char *in = must_allocate((size_t)job.ranks * MESSAGE_BYTES);
    unsigned char *out = must_allocate(MESSAGE_BYTES);
    MPI_Request *receives = must_allocate((size_t)job.ranks * sizeof(*receives));
    MPI_Request *sends = must_allocate((size_t)job.ranks * sizeof(*sends));
    uint64_t errors = 0, polls = 0;
    while (job_next_iteration(&job)) {
        pattern_fill(out, MESSAGE_BYTES, seed_of(job.rank, &job));
        for (int rank = 0; rank < job.ranks; rank++) {
            const int peer = rank == job.rank ? MPI_PROC_NULL : rank;
            MPI_Irecv(in + (size_t)rank * MESSAGE_BYTES, MESSAGE_BYTES, MPI_BYTE, peer, 1, MPI_COMM_WORLD,
                      &receives[rank]);
            MPI_Isend(out, MESSAGE_BYTES, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &sends[rank]);
        }
        for (int done = 0; done < job.ranks;) {
            int index = 0, flag = 0;
            compute(steps);
            MPI_Testany(job.ranks, receives, &index, &flag, MPI_STATUS_IGNORE);
            if (++polls % POLLS_PER_YIELD == 0)
                sched_yield();
            if (!flag)
                continue;
            done++;
            if (index != job.rank)
                errors += pattern_errors(in + (size_t)index * MESSAGE_BYTES, MESSAGE_BYTES, seed_of(index, &job)) > 0;
        }
        MPI_Waitall(job.ranks, sends, MPI_STATUSES_IGNORE);
    }
    job_report(&job, "{\"type\":\"result\",\"rank\":%d,\"polls\":%lu}", job.rank, (unsigned long)polls);
    free(sends);
    free(receives);
    free(out);
    free(in);
    return job_finish(&job, errors);
}
