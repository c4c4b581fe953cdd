// Large messages, which libraries move with a single copy between processes where they can.
#include "job.h"

int main(int argc, char **argv)
{
    uint64_t size_bytes = 4 << 20;
    const struct job_option own[] = {{"--size", OPTION_U64, &size_bytes, "bytes of a message"}};
    struct job job = {.iterations = 40};
    job_start(&job, "large", MPI_THREAD_SINGLE, argc, argv, own, 1);
    unsigned char *out = must_allocate(size_bytes);
    unsigned char *in = must_allocate(size_bytes);
    const int right = (job.rank + 1) % job.ranks;
    const int left = (job.rank + job.ranks - 1) % job.ranks;
    uint64_t errors = 0;
    while (job_next_iteration(&job)) {
        pattern_fill(out, size_bytes, mix((uint64_t)job.rank, job.finished_iterations, 50));
        MPI_Sendrecv(out, (int)size_bytes, MPI_BYTE, right, 1, in, (int)size_bytes, MPI_BYTE, left, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        errors += pattern_errors(in, size_bytes, mix((uint64_t)left, job.finished_iterations, 50)) > 0;
    }
    free(out);
    free(in);
    return job_finish(&job, errors);
}
