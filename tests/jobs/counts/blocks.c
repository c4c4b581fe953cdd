// A known number of heap blocks in each iteration, given out and back in all the ways that programs have: by all functions, through
// slots and through pointers, large and small, by the program and by a library that is not its own.
#include "counts_library.h"
#include "job.h"

#include <stdlib.h>

// Addresses that the linker writes into data: no slot is for them.
static void *(*volatile malloc_pointer)(size_t) = malloc;
static void (*volatile free_pointer)(void *) = free;

static uint64_t errors;

static void *used(void *block, size_t bytes)
{
    if (block == NULL) {
        errors++;
        return block;
    }
    memset(block, 1, bytes);
    return block;
}

// Recorded: malloc 5 (one by a pointer, two by the library), calloc 1, realloc 2, posix_memalign 1, memalign 1 (by another name of it), free 9.
static void blocks_of_one_iteration(void)
{
    enum { SMALL = 40, LARGE = 5000, LARGER = 9000, ALIGNMENT = 256 };
    void *small = used(malloc(SMALL), SMALL);
    void *grown = used(realloc(used(malloc(LARGE), LARGE), LARGER), LARGER);
    unsigned char *zeros = calloc(LARGE, 1);
    for (int i = 0; i < LARGE; i++)
        errors += zeros[i] != 0;
    void *aligned = NULL, *from_nothing = used(realloc(NULL, SMALL), SMALL);
    errors += posix_memalign(&aligned, ALIGNMENT, LARGE) != 0;
    void *also_aligned = used(aligned_alloc(ALIGNMENT, LARGER / ALIGNMENT * ALIGNMENT), SMALL);
    errors += ((uintptr_t)aligned | (uintptr_t)also_aligned) % ALIGNMENT != 0;
    void *by_pointer = used(malloc_pointer(SMALL), SMALL);
    void *by_jump = used(library_tail_malloc(SMALL), SMALL);
    free(small);
    free(grown);
    free(used(zeros, LARGE));
    free(used(aligned, LARGE));
    free(also_aligned);
    free(from_nothing);
    free(NULL);
    free_pointer(by_pointer);
    free(by_jump);
    errors += library_blocks() != 0;
}

int main(int argc, char **argv)
{
    struct job job = {.iterations = 10000};
    job_start(&job, "blocks", MPI_THREAD_SINGLE, argc, argv, NULL, 0);
    while (job_next_iteration(&job))
        blocks_of_one_iteration();
    return job_finish(&job, errors);
}
