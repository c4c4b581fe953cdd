// What the library that is the same for all MPI libraries offers (`src/contents/c_abi.rs`), and what the parts here share.
//
// Each call of the program is one entry of the record: what is compared (numbers, and a checksum over what is sent), then what
// it answered (numbers, and bytes). Recording and playing take the same way through a function here: `outs` and `bytes`
// write in one case and fill in the other.
#pragma once
#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#ifdef OPEN_MPI
// The library's objects, looked up when they are needed (see the shim of the other wrapper).
extern MPI_Comm comm_world, comm_self, comm_null;
extern MPI_Request request_null;
extern MPI_Group group_null, group_empty;
extern MPI_Datatype type_byte, type_null;
extern MPI_Message message_null, message_no_proc;
extern MPI_File file_null;
extern MPI_Info info_null;
#undef MPI_COMM_WORLD
#undef MPI_COMM_SELF
#undef MPI_COMM_NULL
#undef MPI_REQUEST_NULL
#undef MPI_GROUP_NULL
#undef MPI_GROUP_EMPTY
#undef MPI_BYTE
#undef MPI_DATATYPE_NULL
#undef MPI_MESSAGE_NULL
#undef MPI_MESSAGE_NO_PROC
#undef MPI_FILE_NULL
#undef MPI_INFO_NULL
#define MPI_COMM_WORLD comm_world
#define MPI_COMM_SELF comm_self
#define MPI_COMM_NULL comm_null
#define MPI_REQUEST_NULL request_null
#define MPI_GROUP_NULL group_null
#define MPI_GROUP_EMPTY group_empty
#define MPI_BYTE type_byte
#define MPI_DATATYPE_NULL type_null
#define MPI_MESSAGE_NULL message_null
#define MPI_MESSAGE_NO_PROC message_no_proc
#define MPI_FILE_NULL file_null
#define MPI_INFO_NULL info_null
#endif

enum call {
#define CALL(name, compared) CALL_##name,
#include "calls.h"
#undef CALL
};

// How a call is treated: as if we were not there; recorded; answered from the record.
enum treatment { PASS, RECORD, PLAY };

void dmc_thread(uint64_t name);
int64_t dmc_thread_bits(void);
int dmc_begin_rank(const char *library, int rank, int size, int level);
void dmc_call(unsigned call, const int64_t *compared, int count, int has_sum, uint32_t sum);
void dmc_no(unsigned call, const int64_t *compared, int count);
int dmc_is_no(unsigned call, const int64_t *compared, int count);
void dmc_outs(int64_t *values, int count);
void dmc_bytes(void *at, uint64_t length);
void dmc_head(uint64_t length);
void dmc_more(const void *at, uint64_t length);
const char *dmc_take(uint64_t *length);
void dmc_refuse(unsigned call, const char *why);
void dmc_stop(unsigned call, const char *why);
void dmc_second_thread(unsigned call);
void dmc_end(void);
uint32_t dmc_sum(const void *at, uint64_t length, uint32_t sum);

// ---- Calls ---------------------------------------------------------------------------------------------------------

// Begins a call of the program.
int enter(unsigned call, uintptr_t stack);
void leave(void);
// MPI_Init has returned.
void rank_begins(int result, int level);
// The function below: of the other wrapper, or of the MPI library.
void *next_of(const char *name);
// What the library does for us meanwhile is no call of the program.
void suspend(void);
void resume(void);
int is_playing(void);
// MPI_UNWEIGHTED, which in some libraries is a variable.
const int *unweighted(void);

#define NEXT(name)                                                                                                     \
    ({                                                                                                                 \
        static __typeof__(&PMPI_##name) next;                                                                          \
        if (!next)                                                                                                     \
            next = (__typeof__(next))next_of("MPI_" #name);                                                            \
        next;                                                                                                          \
    })
#define ENTER(name) const int treatment = enter(CALL_##name, (uintptr_t)__builtin_frame_address(0))
// One that is not looked at.
#define PASSED(name, args)                                                                                             \
    do {                                                                                                               \
        if (treatment == PASS)                                                                                         \
            return NEXT(name) args;                                                                                    \
    } while (0)
// What is compared.
#define COMPARE(name, ...)                                                                                             \
    do {                                                                                                               \
        int64_t compared[] = {__VA_ARGS__};                                                                            \
        dmc_call(CALL_##name, compared, sizeof compared / sizeof *compared, 0, 0);                                     \
    } while (0)
// Begins a call that sends or writes.
#define SENDING(name, sum, ...)                                                                                        \
    do {                                                                                                               \
        int64_t compared[] = {__VA_ARGS__};                                                                            \
        dmc_call(CALL_##name, compared, sizeof compared / sizeof *compared, 1, sum);                                   \
    } while (0)
// Makes the call, unless it is played.
#define MAKE(name, args) (treatment == RECORD ? NEXT(name) args : MPI_SUCCESS)

// One number that the call answered.
static inline int64_t out(int64_t value)
{
    dmc_outs(&value, 1);
    return value;
}

#define OUT(place) place = (__typeof__(place))out(place)
#define UNPACKED(...) __VA_ARGS__

// The status even if the program wants none.
#define STATUS_FOR(status)                                                                                             \
    MPI_Status own;                                                                                                    \
    MPI_Status *const seen = (status) == MPI_STATUS_IGNORE ? &own : (status)

// A status that the program asked for.
static inline void put_status(MPI_Status *status)
{
    if (status != MPI_STATUS_IGNORE)
        dmc_bytes(status, sizeof *status);
}

// Ends a call with its result: an error goes to the communicator's handler, as it did.
int result_of(int treatment, int result, MPI_Comm comm);

// ---- Threads -------------------------------------------------------------------------------------------------------

// The level that MPI_Init has given.
void threads_begin(int level);
// They may call at the same time.
int are_threads_concurrent(void);
// Of variables of each thread: this object is loaded with the program, so that there is room for them where they are found at once.
#define PRELOADED __attribute__((tls_model("initial-exec")))
// This thread calls, maybe for the first time.
void know_thread(void);
// A number that is the same in every run: threads that call at the same time count for themselves.
enum numbered { COMMS, REQUESTS, FILES, NUMBERED };
int64_t next_number(enum numbered what);

// ---- Data ----------------------------------------------------------------------------------------------------------

struct segment {
    char *buf;
    MPI_Count count;
    MPI_Datatype type;
};

// Where data is: mostly one segment.
struct data {
    int count, room;
    struct segment first, *more;
};

static inline struct segment *segments_of(struct data *data)
{
    return data->more ? data->more : &data->first;
}

void add(struct data *data, const void *buf, MPI_Count count, MPI_Datatype type);
void drop(struct data *data);
uint32_t sum_of(struct data *data);
uint32_t sum_of_buffer(const void *buf, MPI_Count count, MPI_Datatype type);
// All of it, recorded or filled.
void put_data(int treatment, struct data *data);
// What was received, by the status.
void put_received(int treatment, struct segment *to, const MPI_Status *status, int is_there);
char *displaced(const void *buf, MPI_Count elements, MPI_Datatype type);
MPI_Datatype kept_type(MPI_Datatype type);
void dropped_type(MPI_Datatype type);

// ---- Objects -------------------------------------------------------------------------------------------------------

struct map {
    uint64_t *keys;
    void **values;
    size_t count, room;
};

// Threads may ask at the same time.
void *map_get(const struct map *map, uint64_t key);
// NULL removes.
void map_set(struct map *map, uint64_t key, void *value);

#define BITS(handle)                                                                                                   \
    ({                                                                                                                 \
        __typeof__(handle) copied = (handle);                                                                          \
        uint64_t bits = 0;                                                                                             \
        __builtin_memcpy(&bits, &copied, sizeof copied);                                                               \
        bits;                                                                                                          \
    })

struct comm {
    int64_t number;
    int rank, size, remote_size, is_inter;
};

// Never NULL: of an invalid one, a description of nothing.
const struct comm *comm_of(MPI_Comm comm);
// One that a call has made; in a playing rank it is made here.
void comm_made(int treatment, MPI_Comm parent, MPI_Comm *made);
// The same as another.
void comm_duplicated(MPI_Comm comm, MPI_Comm duplicate);
// Before it is freed: then its handle may be another's at once. `comm_kept`: it was not freed.
struct comm *comm_gone(MPI_Comm comm);
void comm_kept(MPI_Comm comm, struct comm *known);
// In a playing rank a group of this process alone stands for each.
void group_made(int treatment, MPI_Group *made);
void world_is(int treatment, int rank, int size);
static inline int peers(const struct comm *comm)
{
    return comm->is_inter ? comm->remote_size : comm->size;
}

enum operation { SENDS, RECEIVES, COLLECTS, READS };

struct request {
    int64_t number;
    enum operation operation;
    int is_persistent, is_active, is_delivered;
    // A call is at it that may complete it: as soon as it is complete, its handle may be another's.
    int is_claimed;
    // Into which it puts something; of a persistent send, from which.
    struct data data;
    int dest, tag;
    int64_t comm;
};

// What is known of a request. Of one that brings nothing in, such as that of a send, nothing is: libraries give many of these
// the same handle.
struct request *request_of(uint64_t bits);
// One that a call has made; in a playing rank the request is made here. The data goes to it.
struct request *request_made(int treatment, enum operation operation, struct data *data, MPI_Request *made);
// The same of one that brings nothing in, or has done so.
MPI_Request idle_request(void);
// A call has made one that brings nothing in.
void idle_made(int treatment, MPI_Request *made);
// `known`: what was known of it before the call.
void request_gone(int treatment, uint64_t bits, struct request *known, MPI_Request *handle);
int64_t request_number(MPI_Request request);
MPI_Message message_made(void);
void message_gone(MPI_Message message);
void objects_end(void);
