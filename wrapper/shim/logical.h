// Deterministic runs: the calls as they are made then. Arguments are those of the calls.
#pragma once
#include "shim.h"

enum send_mode { STANDARD, SYNCHRONOUS, BUFFERED, READY };

// In MPI_Init, and in MPI_Finalize.
int logical_ranks_here(void);
void logical_end(void);

// Reductions, in the order of ranks if that is wished.
int ordered_Reduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm);
int ordered_Allreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
int ordered_Reduce_scatter(const void *sendbuf, void *recvbuf, const int recvcounts[], MPI_Datatype type, MPI_Op op,
                           MPI_Comm comm);
int ordered_Reduce_scatter_block(const void *sendbuf, void *recvbuf, int count, MPI_Datatype type, MPI_Op op,
                                 MPI_Comm comm);
int ordered_Scan(const void *sendbuf, void *recvbuf, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
int ordered_Exscan(const void *sendbuf, void *recvbuf, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm);

// Waits until all have come to a collective call.
void meet(MPI_Comm comm);
// The same for a group, and for both groups of a communicator between groups that is to be made.
void meet_group(MPI_Group group, int tag);
void meet_both(MPI_Comm local, int local_leader, MPI_Comm peer, int remote_leader, int tag);
// A communicator was made, or is about to be freed.
void name_comm(int result, const MPI_Comm *made);
void forget_comm(MPI_Comm comm);

int logical_send(enum send_mode mode, const void *buf, MPI_Count count, MPI_Datatype type, int dest, int tag,
                 MPI_Comm comm);
int logical_isend(enum send_mode mode, const void *buf, MPI_Count count, MPI_Datatype type, int dest, int tag,
                  MPI_Comm comm, MPI_Request *request);
// A persistent send or receive was made.
void logical_prepare(int result, int sends, void *buf, MPI_Count count, MPI_Datatype type, int peer, int tag,
                     MPI_Comm comm, const MPI_Request *request);
int logical_startall(int count, MPI_Request *requests);

int logical_recv(void *buf, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status);
int logical_irecv(void *buf, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                  MPI_Request *request);
int logical_sendrecv(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, int dest, int sendtag,
                     void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm,
                     MPI_Status *status);
int logical_sendrecv_replace(void *buf, MPI_Count count, MPI_Datatype type, int dest, int sendtag, int source,
                             int recvtag, MPI_Comm comm, MPI_Status *status);
int logical_isendrecv(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, int dest, int sendtag,
                      void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm,
                      MPI_Request *request);
int logical_isendrecv_replace(void *buf, MPI_Count count, MPI_Datatype type, int dest, int sendtag, int source,
                              int recvtag, MPI_Comm comm, MPI_Request *request);
// `polls`: with a flag. `message`: of a matched probe, or NULL.
int logical_probe(int polls, int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status);

int logical_wait(MPI_Request *request, MPI_Status *status);
int logical_waitall(int count, MPI_Request *requests, MPI_Status *statuses);
int logical_waitany(int count, MPI_Request *requests, int *index, MPI_Status *status);
int logical_waitsome(int count, MPI_Request *requests, int *outcount, int *indices, MPI_Status *statuses);
int logical_test(MPI_Request *request, int *flag, MPI_Status *status);
int logical_testall(int count, MPI_Request *requests, int *flag, MPI_Status *statuses);
int logical_testany(int count, MPI_Request *requests, int *index, int *flag, MPI_Status *status);
int logical_testsome(int count, MPI_Request *requests, int *outcount, int *indices, MPI_Status *statuses);
int logical_get_status(MPI_Request request, int *flag, MPI_Status *status);
int logical_request_free(MPI_Request *request);
int logical_cancel(MPI_Request *request);
