// Call sites of memory copies in a shared library. Built with sibling calls, unlike everything else: library_tail_memcpy
// ends in a jump to memcpy, the others in calls.
#include "counts_library.h"

#include "site.h"

#include <stdlib.h>

// Something to do after a copy, so that the copy is a call.
#define NOT_THE_END() __asm__ volatile("" ::: "memory")

void library_memcpy(void *destination, const void *source, size_t bytes)
{
    COUNTED_COPY("memcpy", destination, source, bytes);
    NOT_THE_END();
}

void library_memmove(void *destination, const void *source, size_t bytes)
{
    COUNT_SITE("copy", "memmove", bytes); memmove(destination, source, bytes);
    NOT_THE_END();
}

void library_mempcpy(void *destination, const void *source, size_t bytes)
{
    COUNT_SITE("copy", "mempcpy", bytes); (void)mempcpy(destination, source, bytes);
    NOT_THE_END();
}

void library_tail_memcpy(void *destination, const void *source, size_t bytes)
{
    COUNTED_COPY("memcpy in tail position", destination, source, bytes);
}

void library_two_copies(void *destination, const void *source, size_t bytes)
{
    COUNTED_COPY("first of two", destination, source, bytes);
    COUNTED_COPY("second of two", destination, source, bytes / 2);
    NOT_THE_END();
}

int library_blocks(void)
{
    enum { SMALL = 48, LARGE = 8192 };
    volatile char *small = malloc(SMALL), *large = malloc(LARGE);
    if (small == NULL || large == NULL)
        return 1;
    small[0] = large[LARGE - 1] = 1;
    free((void *)small);
    free((void *)large);
    return 0;
}

void *library_tail_malloc(size_t bytes)
{
    return malloc(bytes);
}
