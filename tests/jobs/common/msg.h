// The interface of the test jobs' messaging libraries: small libraries above MPI that stage every message in
// communication buffers, as the libraries of production codes do. Each has one fault, which can be switched off.
#ifndef JOBS_MSG_H
#define JOBS_MSG_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct msg_options {
    MPI_Comm comm;
    bool with_fault;          // false: the same library with the fault repaired
    double rare_rate;         // how often the rare path is taken, 0..1
    uint64_t rare_from_ns;    // CLOCK_MONOTONIC before which the rare path is never taken
    const char *how;          // what moves a message; libraries with one way to do it ignore this
};

// What this rank did so far.
struct msg_statistics {
    uint64_t sends;
    uint64_t rare_sends;
    uint64_t wrong_sends;     // sends that left from the wrong place
    uint64_t first_wrong_ns;  // CLOCK_MONOTONIC of the first of them, 0 if there was none
};

// Largest message of the library in bytes.
size_t msg_max_bytes(void);
// Makes the communication buffers; collective over the communicator.
void msg_open(const struct msg_options *options);
// Sends `bytes` bytes; returns when `buffer` may be used again.
void msg_send(const void *buffer, size_t bytes, int destination);
// Receives the next message of `source`, which must have `bytes` bytes.
void msg_receive(void *buffer, size_t bytes, int source);
struct msg_statistics msg_statistics(void);
void msg_close(void);

#endif
