// A known number of memory copies at each of several call sites, in the program and in a library, and next to no MPI.
// Rank r makes (r + 1) times as many as rank 0, so that ranks cannot be mixed up unseen.
#include "counts_library.h"
#include "job.h"

enum { BUFFER_BYTES = 16384 };

static unsigned char *source, *destination;

// Sizes differ from call to call and include 0.
static size_t size_of(uint64_t call)
{
    return mix(call, 0, 70) % (BUFFER_BYTES + 1) * (call % 17 != 0);
}

static void __attribute__((noinline)) program_memcpy(size_t bytes)
{
    COUNTED_COPY("memcpy", destination, source, bytes);
}

static void __attribute__((noinline)) program_memmove(size_t bytes)
{
    COUNT_SITE("copy", "memmove", bytes); memmove(destination, source, bytes);
}

// Each site has its own number of calls, so that sites cannot be mixed up unseen either.
static void copies_of_one_iteration(uint64_t iteration)
{
    const size_t bytes = size_of(iteration);
    program_memcpy(bytes);
    library_memcpy(destination, source, bytes);
    if (iteration % 2 == 0)
        program_memmove(bytes);
    if (iteration % 3 == 0)
        library_memmove(destination, source, bytes);
    if (iteration % 4 == 0)
        library_mempcpy(destination, source, bytes);
    if (iteration % 5 == 0)
        library_tail_memcpy(destination, source, bytes);
    if (iteration % 6 == 0)
        library_two_copies(destination, source, bytes);
}

int main(int argc, char **argv)
{
    bool leaks = false;
    const struct job_option own[] = {
        {"--leak", OPTION_SET, &leaks, "duplicate MPI_COMM_WORLD at the end, and do not free it"},
    };
    struct job job = {.iterations = 10000};
    job_start(&job, "counts", MPI_THREAD_SINGLE, argc, argv, own, sizeof(own) / sizeof(own[0]));
    if (job.iterations == 0) {
        fprintf(stderr, "counts: runs for --iterations only\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    source = must_allocate(BUFFER_BYTES);
    destination = must_allocate(BUFFER_BYTES);
    pattern_fill(source, BUFFER_BYTES, 71);
    pattern_fill(destination, BUFFER_BYTES, 71);
    uint64_t call = 0;
    while (job_next_iteration(&job))
        for (int i = 0; i <= job.rank; i++)
            copies_of_one_iteration(call++);
    const uint64_t errors = pattern_errors(destination, BUFFER_BYTES, 71) > 0;
    free(source);
    free(destination);
    if (leaks) {
        MPI_Comm duplicate;
        MPI_Comm_dup(MPI_COMM_WORLD, &duplicate);
    }
    return job_finish(&job, errors);
}
