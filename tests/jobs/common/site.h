// Counted call sites: every movement of data that a test job makes on purpose goes through one of these macros, so that
// a test can hold what a tracer saw at a place (module, function, line) against what the job did there.
//
// The movement itself is a plain call in the function that uses the macro: its call site is the line of the macro.
#ifndef JOBS_SITE_H
#define JOBS_SITE_H

#include <stdint.h>
#include <string.h>

// One place in the source and what went through it.
struct site {
    const char *kind;     // "copy", "send" or "receive"
    const char *label;    // what the movement is for
    const char *function;
    const char *file;
    int line;
    uint64_t calls;
    uint64_t bytes;
    struct site *next;    // list of all sites hit so far, newest first
};

// Counts one movement. Safe from several threads. Out of line, so that counting leaves no branch around the movement, which
// the compiler might make two call sites of.
void site_hit(struct site *site, uint64_t bytes);

#define COUNT_SITE(kind_, label_, bytes_)                                                                            \
    do {                                                                                                             \
        static struct site site_ = {                                                                                 \
            .kind = (kind_), .label = (label_), .function = __func__, .file = __FILE__, .line = __LINE__};           \
        site_hit(&site_, (bytes_));                                                                                  \
    } while (0)

// memcpy, counted.
#define COUNTED_COPY(label, destination, source, bytes)                                                              \
    do {                                                                                                             \
        COUNT_SITE("copy", label, bytes);                                                                            \
        memcpy(destination, source, bytes);                                                                          \
    } while (0)

// MPI_Send of bytes, counted.
#define COUNTED_SEND(label, buffer, bytes, destination, tag, comm)                                                   \
    do {                                                                                                             \
        COUNT_SITE("send", label, (uint64_t)(bytes));                                                                \
        MPI_Send(buffer, (int)(bytes), MPI_BYTE, destination, tag, comm);                                            \
    } while (0)

// MPI_Recv of at most `capacity` bytes, counted; the bytes counted are the capacity.
#define COUNTED_RECEIVE(label, buffer, capacity, source, tag, comm, status)                                          \
    do {                                                                                                             \
        COUNT_SITE("receive", label, (uint64_t)(capacity));                                                          \
        MPI_Recv(buffer, (int)(capacity), MPI_BYTE, source, tag, comm, status);                                      \
    } while (0)

#endif
