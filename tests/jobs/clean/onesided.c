// One-sided communication: puts into the right neighbour's window, gets from the left one's, and a shared-memory window
// that all ranks write and read directly.
#include "job.h"

struct windows {
    MPI_Win plain, shared;
    unsigned char *plain_memory;
    unsigned char *own_shared;
    unsigned char *left_shared;
};

static struct windows make_windows(const struct job *job, MPI_Aint bytes, int left)
{
    struct windows windows;
    MPI_Comm node;
    MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &windows.plain_memory, &windows.plain);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, job->rank, MPI_INFO_NULL, &node);
    MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, node, &windows.own_shared, &windows.shared);
    MPI_Aint left_bytes = 0;
    int unit = 0;
    MPI_Win_shared_query(windows.shared, left, &left_bytes, &unit, &windows.left_shared);
    MPI_Comm_free(&node);
    return windows;
}

int main(int argc, char **argv)
{
    uint64_t size_bytes = 4096;
    const struct job_option own[] = {{"--size", OPTION_U64, &size_bytes, "bytes of a put and of a get"}};
    struct job job = {.iterations = 5000};
    job_start(&job, "onesided", MPI_THREAD_SINGLE, argc, argv, own, 1);
    const int bytes = (int)size_bytes;
    const int right = (job.rank + 1) % job.ranks;
    const int left = (job.rank + job.ranks - 1) % job.ranks;
    struct windows windows = make_windows(&job, (MPI_Aint)size_bytes, left);
    unsigned char *out = must_allocate(size_bytes);
    unsigned char *in = must_allocate(size_bytes);
    uint64_t errors = 0;
    MPI_Win_fence(0, windows.plain);
    MPI_Win_fence(0, windows.shared);
    while (job_next_iteration(&job)) {
        const uint64_t step = job.finished_iterations;
        pattern_fill(out, size_bytes, mix((uint64_t)job.rank, step, 30));
        MPI_Put(out, bytes, MPI_BYTE, right, 0, bytes, MPI_BYTE, windows.plain);
        COUNTED_COPY("into shared window", windows.own_shared, out, size_bytes);
        MPI_Win_fence(0, windows.plain);
        MPI_Win_fence(0, windows.shared);
        const uint64_t from_left = mix((uint64_t)left, step, 30);
        errors += pattern_errors(windows.plain_memory, size_bytes, from_left) > 0;
        COUNTED_COPY("out of shared window", in, windows.left_shared, size_bytes);
        errors += pattern_errors(in, size_bytes, from_left) > 0;
        // The right neighbour's window holds what this rank put there.
        MPI_Get(in, bytes, MPI_BYTE, right, 0, bytes, MPI_BYTE, windows.plain);
        MPI_Win_fence(0, windows.plain);
        MPI_Win_fence(0, windows.shared);
        errors += pattern_errors(in, size_bytes, mix((uint64_t)job.rank, step, 30)) > 0;
    }
    free(out);
    free(in);
    MPI_Win_free(&windows.shared);
    MPI_Win_free(&windows.plain);
    return job_finish(&job, errors);
}
