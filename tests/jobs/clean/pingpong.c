// Two ranks send one small message to and fro; any others only watch. The worst case for whoever traces messages.
#include "job.h"

int main(int argc, char **argv)
{
    uint64_t size_bytes = 8;
    const struct job_option own[] = {{"--size", OPTION_U64, &size_bytes, "bytes of a message"}};
    struct job job = {.iterations = 200000};
    job_start(&job, "pingpong", MPI_THREAD_SINGLE, argc, argv, own, 1);
    unsigned char *message = must_allocate(size_bytes);
    const int bytes = (int)size_bytes;
    uint64_t errors = 0;
    while (job_next_iteration(&job)) {
        const uint64_t seed = mix(0, job.finished_iterations, 90);
        if (job.rank == 0) {
            pattern_fill(message, size_bytes, seed);
            MPI_Send(message, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
            job_await_message(1, 2, MPI_COMM_WORLD);
            MPI_Recv(message, bytes, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            errors += pattern_errors(message, size_bytes, ~seed) > 0;
        } else if (job.rank == 1) {
            job_await_message(0, 1, MPI_COMM_WORLD);
            MPI_Recv(message, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            errors += pattern_errors(message, size_bytes, seed) > 0;
            pattern_fill(message, size_bytes, ~seed);
            MPI_Send(message, bytes, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
        }
    }
    free(message);
    return job_finish(&job, errors);
}
