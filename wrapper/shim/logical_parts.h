// Deterministic runs: what their parts have of each other. What is decided is asked of `logical_abi.rs`; here MPI is made to do it.
#pragma once
#include "logical.h"

enum { INACTIVE = -2, FEW = 64 };

struct comm {
    MPI_Comm handle;
    int id, size;
    int *group;  // ranks of the world that messages go to and come from
};

// NULL: it was made by a call that is not looked at.
const struct comm *comm_of(MPI_Comm handle);

// What MPI does for a request of the program, or is to do.
struct entry {
    enum { UNUSED, OPEN, GIVEN, FREED } state;
    int is_receive;
    int has_stand_in;  // the program's request is another one than MPI's
    int is_persistent;
    MPI_Request mpi;
    int sends_too;  // MPI_Isendrecv: complete when this send is as well
    MPI_Request send;
    void *copy;  // what is sent in place of what the receive overwrites, or NULL
    void *buf;
    MPI_Count count;
    MPI_Datatype type;  // a duplicate: the program may free its own
    int peer, tag;
    MPI_Comm comm;
};

// Where an entry is changes when another one is added.
extern struct entry *entries;
int new_entry(struct entry entry);
void free_entry(int place);
// Keeps a duplicate of its type.
void keep_type(int place);
// It is complete, given up, or was never begun.
void forget_entry(int place);

// A request that is never started, for the program to have.
MPI_Request stand_in(void);
// Gives MPI a receive, or all those that were decided, in this order.
int post_receive(const struct entry *entry, int source, int tag, MPI_Request *request);
void post_decided(void);

// A request of the program, and that of MPI for it.
struct active {
    int place;
    MPI_Request *mpi;
};

struct active active_of(MPI_Request *request);
int is_receive(struct active at);
// What of it MPI may need others for: NULL if it only receives.
MPI_Request *send_of(struct active at);
// MPI has completed it.
void is_over(MPI_Request *request, uint64_t bits, struct active at);

// Files and windows, by the bits of their handles: the ranks that have one, and waiting until all of them have come.
void know_group(uint64_t bits, MPI_Group group);
void meet_at(uint64_t bits);
void forget_group(uint64_t bits);

void wait_for_answer(void);
// Waits until MPI has done what it surely will.
int finish(MPI_Request *request, MPI_Status *status);
// Waits for what may need that others receive; 0: the test was put off.
int finish_or_put_off(int is_test, MPI_Request *request, MPI_Status *status, int *result);
// The same without completing it.
int is_complete_or_put_off(MPI_Request request, int *result);
