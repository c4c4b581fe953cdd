// What the library that is the same for all MPI libraries offers (`c_abi.rs`), and what the parts of the shim share.
#pragma once
#include <mpi.h>
#include <stdint.h>

#include "../fortran/fortran.h"

#ifdef OPEN_MPI
// The library's objects, looked up when they are needed: this is loaded into launchers and shells too, which have none, and
// into interpreters, which load the library later.
extern MPI_Comm comm_world, comm_self, comm_null;
extern MPI_Request request_null;
extern MPI_Datatype type_byte, type_int, type_packed;
extern MPI_Info info_null;
#undef MPI_COMM_WORLD
#undef MPI_COMM_SELF
#undef MPI_COMM_NULL
#undef MPI_REQUEST_NULL
#define MPI_COMM_WORLD comm_world
#define MPI_COMM_SELF comm_self
#define MPI_COMM_NULL comm_null
#define MPI_REQUEST_NULL request_null
#undef MPI_BYTE
#undef MPI_INT
#undef MPI_PACKED
#undef MPI_INFO_NULL
#define MPI_BYTE type_byte
#define MPI_INT type_int
#define MPI_PACKED type_packed
#define MPI_INFO_NULL info_null
#endif

enum call {
#define CALL(name, first, second, third) CALL_##name,
#include "calls.h"
#undef CALL
};

// How a call is to be treated: as if we were not there; recorded; replayed; decided by logical time.
enum treatment { PASS, RECORD, REPLAY, LOGICAL };
// What a call asks for.
enum asked { POLL, POLL_SOURCE, POLL_INDEX, SOURCE, INDEX, INDICES, POLL_INDICES };
// What it must answer.
enum due { DUE_ANYTHING, DUE_NO, DUE_YES };
// In place of a source or an index.
enum { NONE = -1, CANCELLED = -2 };

void dms_process_begins(void);
int64_t dms_clock(unsigned clock, int64_t shows, uintptr_t return_address, uintptr_t stack);
void dms_init(int begins);
void dms_begin(const char *library, int rank, int size, int level, int spawned, int on_this_node, uint64_t null_request);
int dms_enter(unsigned call, int first, int second, int third, uintptr_t return_address, uintptr_t stack);
int dms_leave(void);
void dms_end(void);
void dms_uncovered(unsigned bit);

int dms_due(uint8_t asked, int requests, int *value);
int dms_due_index(int at);
int dms_post_due(void);
void dms_waits_for(int source);
void dms_diverge(const char *why);

void dms_no(void);
void dms_no_and_leave(void);
void dms_yes(void);
void dms_from(int source);
void dms_index(int index);
void dms_indices(int count, const int *indices);
// Those of a class get their messages in the order in which they were posted.
void dms_posted(uint64_t request, uint64_t class);
// Whether it was not known before whose message it got.
int dms_decided(uint64_t request, int source);
int dms_is_posted(uint64_t request);
// How many receives from anybody have requests that are not complete, or may not be.
extern int dms_posted_receives;
void dms_arrived(uint64_t request, int source);
// Where other threads may get the same handle: the call that may complete a request has it for itself.
enum { NOT_POSTED = -1 };
int64_t dms_claim(uint64_t request);
void dms_give_back(uint64_t request, int64_t number);
void dms_claimed_arrived(int64_t number, int source);
enum { UNDECIDED = 4 };
int dms_undecided(uint64_t requests[UNDECIDED]);

void dms_prepare(uint64_t request, unsigned place);
int dms_prepared(uint64_t request);
void dms_forget(uint64_t request);
void dms_set_stand_in(uint64_t request, uint64_t stand_in);
extern int dms_stand_ins;
int dms_stand_in(uint64_t request, int take, uint64_t *stand_in);
void dms_set_due(uint64_t request, int source);
int dms_due_of(uint64_t request);

// Not zero: threads may make calls at the same time. They post sends and receives one after the other.
extern int dms_threads;
uint64_t dms_thread_name(uintptr_t caller);
void dms_thread_begins(uint64_t name);
uint64_t dms_own_thread_name(void);
int dms_has_threads(void);
enum post_due { POST_SOON, POST_NOW, POST_OTHERS_FIRST };
int dms_begin_post(void);
void dms_end_post(int has_posted);
int dms_must_come_later(void);
int dms_is_replayed(void);
int dms_is_outside(void);

// Envelopes of messages, if they are wanted (`message_abi.rs`).
extern int dms_messages;
enum collective_order { ALL_WAIT, WAIT_FOR_ROOT, ROOT_WAITS, WAIT_FOR_LOWER, UNKNOWN_ORDER };
void dms_message_send(uint64_t comm, int dest, int tag, int is_synchronous, int has_request);
void dms_message_sent(uint64_t request);
void dms_message_of_nobody(uint64_t request);
void dms_message_received(uint64_t comm, int source, int tag, int is_probe, int from, int from_tag);
void dms_message_posted(uint64_t comm, int source, int tag, uint64_t request);
void dms_message_prepare_send(uint64_t comm, int dest, int tag, int is_synchronous, uint64_t request);
void dms_message_prepare_receive(uint64_t comm, int source, int tag, uint64_t request);
void dms_message_start(uint64_t request);
void dms_message_forget(uint64_t request);
void dms_message_done(uint64_t request, int from, int from_tag);
void dms_message_decided(uint64_t request, int from, int from_tag);
void dms_message_choice(int count, const uint64_t *requests, int taken, const int *indices);
void dms_message_collective(uint64_t comm, int order, int root);
void dms_message_comm(uint64_t comm, int count, const int *group, int remote_count, const int *remote);
void dms_message_comm_freed(uint64_t comm);
// Deterministic runs (`logical_abi.rs`).
int dms_is_logical(void);
int dms_is_in_logical_run(void);
// Not zero: reductions are done in the order of ranks.
extern int dms_orders_reductions;
// Ends a deterministic run, in which there is no such thing: those of `dms_uncovered`, and these.
enum { PARTITIONED = 6 };
void dms_refuse(unsigned what);
int dms_group(int count, const int *ranks, int tag);
int dms_new_comm(void);
void dms_add_comm(unsigned comm, int senders, const int *group, int count, const int *members);
void dms_remove_comm(unsigned comm);
int dms_announce(int to, unsigned comm, int tag);
void dms_announced(void);
int dms_post(unsigned place, unsigned comm, int source, int tag);
int dms_next_decided(int *source, int *tag);
void dms_forget_receive(unsigned place);
void dms_receive_cancelled(unsigned place);
int dms_is_decided(unsigned place);
void dms_take(unsigned comm, int source, int tag);
void dms_add_request(uint64_t bits, int place, int receives);
void dms_add_persistent(uint64_t bits);
void dms_remove_persistent(uint64_t bits);
void dms_remove_request(uint64_t bits);
int dms_request(uint64_t bits);
void dms_put_off(uint64_t bits);
void dms_ask_receive(unsigned place);
void dms_ask_cancel(unsigned place);
void dms_ask_probe(unsigned comm, int source, int tag, int polls);
void dms_ask_meeting(unsigned comm);
void dms_ask_requests(char what, int count, const uint64_t *requests);
void dms_ask_mpi(int is_test);
void dms_stop_asking(void);
int dms_turn(void);
int dms_values(void);
int dms_value(unsigned at);

// Begins a call: `treatment` says how it is treated. The arguments are those that are the same in every run.
#define ENTER(name, first, second, third)                                                                              \
    const int treatment = dms_enter(CALL_##name, (int)(first), (int)(second), (int)(third),                            \
                                    program_return((uintptr_t)__builtin_return_address(0)),                            \
                                    (uintptr_t)__builtin_frame_address(0))
// Ends it.
#define LEAVE(result)                                                                                                  \
    do {                                                                                                               \
        int left_with = (result);                                                                                      \
        if (treatment != PASS && !dms_leave())                                                                         \
            wait_for_turn();                                                                                           \
        return left_with;                                                                                              \
    } while (0)

#define BITS_OF(handle)                                                                                                \
    ({                                                                                                                 \
        __typeof__(handle) copied = (handle);                                                                          \
        uint64_t bits = 0;                                                                                             \
        __builtin_memcpy(&bits, &copied, sizeof copied);                                                               \
        bits;                                                                                                          \
    })

static inline uint64_t bits_of(MPI_Request request)
{
    return BITS_OF(request);
}

static inline MPI_Request request_of(uint64_t bits)
{
    MPI_Request request;
    __builtin_memcpy(&request, &bits, sizeof request);
    return request;
}

static inline uint64_t bits_of_comm(MPI_Comm comm)
{
    return BITS_OF(comm);
}

// Whether a call's messages are to be written down.
static inline int wants_messages(int treatment)
{
    return dms_messages && treatment != PASS;
}

// A send begins.
void message_sends(int treatment, MPI_Comm comm, int dest, int tag, int is_synchronous);
// A communicator has been made.
void message_comm(int treatment, int result, MPI_Comm comm);

// In an identical replay: the call that ends waits for those that ended before it.
void wait_for_turn(void);

// Between this and `dms_end_post` a thread posts sends or receives, or takes a message, which is what their order is about.
void begin_post(void);
// Waits for a request, and lets other threads go on meanwhile.
int wait_in_turn(MPI_Request *request, MPI_Status *status);
// A probe that waits; `message`: of a matched one, or NULL.
int probe_in_turn(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status);
// Calls that wait, where threads make calls at the same time.
#define WAITING_IN_TURN(suffix, COUNT)                                                                                 \
    int recv_in_turn##suffix(void *buf, COUNT count, MPI_Datatype type, int source, int tag, MPI_Comm comm,            \
                             MPI_Status *status);                                                                      \
    int sendrecv_in_turn##suffix(const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, int dest, int sendtag,   \
                                 void *recvbuf, COUNT recvcount, MPI_Datatype recvtype, int source, int recvtag,       \
                                 MPI_Comm comm, MPI_Status *status);                                                   \
    int sendrecv_replace_in_turn##suffix(void *buf, COUNT count, MPI_Datatype type, int dest, int sendtag, int source, \
                                         int recvtag, MPI_Comm comm, MPI_Status *status);
WAITING_IN_TURN(, int)
#if MPI_VERSION >= 4
WAITING_IN_TURN(_c, MPI_Count)
#endif

// Whether a call posts in its turn.
static inline int in_turn(int treatment)
{
    return __builtin_expect(dms_threads, 0) && (treatment == RECORD || treatment == REPLAY);
}

// A call that posts and does not wait.
#define POST_IN_TURN(treatment, result, call)                                                                          \
    do {                                                                                                               \
        const int is_in_turn = in_turn(treatment);                                                                     \
        if (is_in_turn)                                                                                                \
            begin_post();                                                                                              \
        result = call;                                                                                                 \
        if (is_in_turn)                                                                                                \
            dms_end_post(1);                                                                                           \
    } while (0)

// Finds the MPI library, wherever it is loaded. Ends a process whose library is not the one that this was compiled for: its
// handles would be cut.
void check_library(void);
// Whose message a receive got: none if it failed.
int source_of(int result, const MPI_Status *status);
// The source that a receive or probe takes a message from.
int source_due(int treatment, int source);
// The program cancels requests.
extern int has_cancelled;
// In a recorded rank: what became known of receives that nobody has waited for.
void look_at_undecided(void);
// The communicator in which nobody ever sends, made when it is first needed.
MPI_Comm silent_comm(void);
// Gets ready for `progress` of several threads: to make a communicator later could wait for another thread that makes one.
void prepare_progress(void);
// Has the library go on with what this rank and others have started; gives the processor to others.
void progress(void);
// There is no such communicator any more.
void end_silence(void);
