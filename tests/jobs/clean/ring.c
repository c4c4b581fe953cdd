// Every rank sends to its right neighbour and receives from its left one, nonblocking.
#include "job.h"

int main(int argc, char **argv)
{
    uint64_t size_bytes = 1024;
    const struct job_option own[] = {{"--size", OPTION_U64, &size_bytes, "bytes of a message"}};
    struct job job = {.iterations = 100000};
    job_start(&job, "ring", MPI_THREAD_SINGLE, argc, argv, own, 1);
    unsigned char *out = must_allocate(size_bytes);
    unsigned char *in = must_allocate(size_bytes);
    const int right = (job.rank + 1) % job.ranks;
    const int left = (job.rank + job.ranks - 1) % job.ranks;
    uint64_t errors = 0;
    while (job_next_iteration(&job)) {
        MPI_Request requests[2];
        pattern_fill(out, size_bytes, mix((uint64_t)job.rank, job.finished_iterations, 10));
        MPI_Irecv(in, (int)size_bytes, MPI_BYTE, left, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(out, (int)size_bytes, MPI_BYTE, right, 1, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        errors += pattern_errors(in, size_bytes, mix((uint64_t)left, job.finished_iterations, 10)) > 0;
    }
    free(out);
    free(in);
    return job_finish(&job, errors);
}
