// Collective operations: every iteration an all-to-all, a broadcast and a reduction.
#include "job.h"

int main(int argc, char **argv)
{
    uint64_t size_bytes = 512;
    const struct job_option own[] = {{"--size", OPTION_U64, &size_bytes, "bytes from each rank to each other"}};
    struct job job = {.iterations = 20000};
    job_start(&job, "alltoall", MPI_THREAD_SINGLE, argc, argv, own, 1);
    const int bytes = (int)size_bytes;
    unsigned char *out = must_allocate(size_bytes * (size_t)job.ranks);
    unsigned char *in = must_allocate(size_bytes * (size_t)job.ranks);
    unsigned char *shared = must_allocate(size_bytes);
    uint64_t errors = 0;
    while (job_next_iteration(&job)) {
        const uint64_t step = job.finished_iterations;
        const int root = (int)(step % (uint64_t)job.ranks);
        for (int peer = 0; peer < job.ranks; peer++)
            pattern_fill(out + (size_t)peer * size_bytes, size_bytes, mix((uint64_t)job.rank, (uint64_t)peer, step));
        MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
        for (int peer = 0; peer < job.ranks; peer++)
            errors += pattern_errors(in + (size_t)peer * size_bytes, size_bytes,
                                     mix((uint64_t)peer, (uint64_t)job.rank, step)) > 0;
        if (job.rank == root)
            pattern_fill(shared, size_bytes, step);
        MPI_Bcast(shared, bytes, MPI_BYTE, root, MPI_COMM_WORLD);
        errors += pattern_errors(shared, size_bytes, step) > 0;
        unsigned long sum = (unsigned long)job.rank + step;
        MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UNSIGNED_LONG, MPI_SUM, MPI_COMM_WORLD);
        const unsigned long ranks = (unsigned long)job.ranks;
        errors += sum != ranks * (ranks - 1) / 2 + ranks * step;
    }
    free(out);
    free(in);
    free(shared);
    return job_finish(&job, errors);
}
