// Interface of libcounts.
#ifndef JOBS_COUNTS_LIBRARY_H
#define JOBS_COUNTS_LIBRARY_H

#include <stddef.h>

void library_memcpy(void *destination, const void *source, size_t bytes);
void library_memmove(void *destination, const void *source, size_t bytes);
void library_mempcpy(void *destination, const void *source, size_t bytes);
// The copy is the last thing it does: a jump, not a call.
void library_tail_memcpy(void *destination, const void *source, size_t bytes);
// Two copies from one function, the second of half the bytes.
void library_two_copies(void *destination, const void *source, size_t bytes);

// A small block and a large one, given out and back; 0 if both were to be had.
int library_blocks(void);
// The call of malloc is the last thing it does: a jump, so that it returns to whoever called this.
void *library_tail_malloc(size_t bytes);

#endif
