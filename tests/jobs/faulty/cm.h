// Interface of libmsg_retrystorm: data messages, and connection management beside them.
#ifndef JOBS_CM_H
#define JOBS_CM_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cm_statistics {
    uint64_t requests;    // connection requests posted, repetitions included
    uint64_t repetitions; // of these, those posted because a reply seemed to be missing
    uint64_t replies;     // connection replies posted
    uint64_t duplicates;  // requests received that had been answered before
    uint64_t first_repetition_ns; // CLOCK_MONOTONIC, 0 if there was none
};

// Largest data message in bytes.
size_t cm_max_bytes(void);
// Makes the communication buffers; collective.
void cm_open(MPI_Comm comm);
// Asks a peer for a new connection.
void cm_connect(int peer);
// Sends data; blocking as MPI_Send is.
void cm_send(const void *buffer, size_t bytes, int destination);
// Receives data.
void cm_receive(void *buffer, size_t bytes, int source);
// Handles the connection packets that have arrived.
void cm_progress(void);
// Repeats the requests that seem to be unanswered, `repetitions` times each. With `reads_stale_flag` the answer to a request
// is never noticed, as by a compiler that keeps a flag that should be volatile in a register.
void cm_check_timers(bool reads_stale_flag, uint64_t repetitions);
struct cm_statistics cm_statistics(void);
// Receives what is still under way and frees the buffers; collective.
void cm_close(void);

#endif
