// Calls that receive, probe, or post receives.
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "logical.h"

int source_of(int result, const MPI_Status *status)
{
    return result == MPI_SUCCESS && status->MPI_SOURCE >= 0 ? status->MPI_SOURCE : NONE;
}

int source_due(int treatment, int source)
{
    int due;
    if (treatment == REPLAY && source == MPI_ANY_SOURCE && dms_due(SOURCE, 0, &due) == DUE_YES && due >= 0)
        return due;
    return source;
}

// The envelope of a message that a receive or probe has got.
static void message_came(int source, int tag, MPI_Comm comm, int is_probe, int result, const MPI_Status *status)
{
    if (source >= 0 || source == MPI_ANY_SOURCE)
        dms_message_received(bits_of_comm(comm), source == MPI_ANY_SOURCE ? NONE : source, tag == MPI_ANY_TAG ? NONE : tag,
                             is_probe, source_of(result, status), status->MPI_TAG);
}

// What is recorded of a call that took a message.
static void record_message(int treatment, int source, int tag, MPI_Comm comm, int is_probe, int result,
                           const MPI_Status *status)
{
    if (treatment == PASS)
        return;
    if (source == MPI_ANY_SOURCE)
        dms_from(source_of(result, status));
    if (dms_messages)
        message_came(source, tag, comm, is_probe, result, status);
    look_at_undecided();
}

#define STATUS_FOR(status)                                                                                             \
    MPI_Status own;                                                                                                    \
    MPI_Status *const seen = (status) == MPI_STATUS_IGNORE && treatment != PASS ? &own : (status)

#define RECV(suffix, COUNT)                                                                                            \
    int MPI_Recv##suffix(void *buf, COUNT count, MPI_Datatype type, int source, int tag, MPI_Comm comm,                \
                         MPI_Status *status)                                                                           \
    {                                                                                                                  \
        ENTER(Recv, source, tag, count);                                                                               \
        if (treatment == LOGICAL)                                                                                      \
            LEAVE(logical_recv(buf, count, type, source, tag, comm, status));                                          \
        STATUS_FOR(status);                                                                                            \
        const int from = source_due(treatment, source);                                                                \
        int result = in_turn(treatment) ? recv_in_turn##suffix(buf, count, type, from, tag, comm, seen)                \
                                        : PMPI_Recv##suffix(buf, count, type, from, tag, comm, seen);                  \
        record_message(treatment, source, tag, comm, 0, result, seen);                                                 \
        LEAVE(result);                                                                                                 \
    }                                                                                                                  \
    int MPI_Sendrecv##suffix(const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, int dest, int sendtag,       \
                             void *recvbuf, COUNT recvcount, MPI_Datatype recvtype, int source, int recvtag,           \
                             MPI_Comm comm, MPI_Status *status)                                                        \
    {                                                                                                                  \
        ENTER(Sendrecv, source, recvtag, dest);                                                                        \
        if (treatment == LOGICAL)                                                                                      \
            LEAVE(logical_sendrecv(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, source,  \
                                   recvtag, comm, status));                                                            \
        message_sends(treatment, comm, dest, sendtag, 0);                                                              \
        STATUS_FOR(status);                                                                                            \
        const int from = source_due(treatment, source);                                                                \
        int result = in_turn(treatment)                                                                                \
                         ? sendrecv_in_turn##suffix(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount,   \
                                                    recvtype, from, recvtag, comm, seen)                               \
                         : PMPI_Sendrecv##suffix(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount,      \
                                                 recvtype, from, recvtag, comm, seen);                                 \
        record_message(treatment, source, recvtag, comm, 0, result, seen);                                             \
        LEAVE(result);                                                                                                 \
    }                                                                                                                  \
    int MPI_Sendrecv_replace##suffix(void *buf, COUNT count, MPI_Datatype type, int dest, int sendtag, int source,     \
                                     int recvtag, MPI_Comm comm, MPI_Status *status)                                   \
    {                                                                                                                  \
        ENTER(Sendrecv_replace, source, recvtag, dest);                                                                \
        if (treatment == LOGICAL)                                                                                      \
            LEAVE(logical_sendrecv_replace(buf, count, type, dest, sendtag, source, recvtag, comm, status));           \
        message_sends(treatment, comm, dest, sendtag, 0);                                                              \
        STATUS_FOR(status);                                                                                            \
        const int from = source_due(treatment, source);                                                                \
        int result =                                                                                                   \
            in_turn(treatment)                                                                                         \
                ? sendrecv_replace_in_turn##suffix(buf, count, type, dest, sendtag, from, recvtag, comm, seen)         \
                : PMPI_Sendrecv_replace##suffix(buf, count, type, dest, sendtag, from, recvtag, comm, seen);           \
        record_message(treatment, source, recvtag, comm, 0, result, seen);                                             \
        LEAVE(result);                                                                                                 \
    }                                                                                                                  \
    int MPI_Mrecv##suffix(void *buf, COUNT count, MPI_Datatype type, MPI_Message *message, MPI_Status *status)         \
    {                                                                                                                  \
        ENTER(Mrecv, count, 0, 0);                                                                                     \
        LEAVE(PMPI_Mrecv##suffix(buf, count, type, message, status));                                                  \
    }                                                                                                                  \
    int MPI_Imrecv##suffix(void *buf, COUNT count, MPI_Datatype type, MPI_Message *message, MPI_Request *request)      \
    {                                                                                                                  \
        ENTER(Imrecv, count, 0, 0);                                                                                    \
        LEAVE(PMPI_Imrecv##suffix(buf, count, type, message, request));                                                \
    }

RECV(, int)
#if MPI_VERSION >= 4
RECV(_c, MPI_Count)
#endif

int MPI_Probe(int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    ENTER(Probe, source, tag, 0);
    if (treatment == LOGICAL)
        LEAVE(logical_probe(0, source, tag, comm, NULL, NULL, status));
    STATUS_FOR(status);
    const int from = source_due(treatment, source);
    int result = in_turn(treatment) ? probe_in_turn(from, tag, comm, NULL, seen) : PMPI_Probe(from, tag, comm, seen);
    record_message(treatment, source, tag, comm, 1, result, seen);
    LEAVE(result);
}

int MPI_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status)
{
    ENTER(Mprobe, source, tag, 0);
    if (treatment == LOGICAL)
        LEAVE(logical_probe(0, source, tag, comm, NULL, message, status));
    STATUS_FOR(status);
    const int from = source_due(treatment, source);
    int result = in_turn(treatment) ? probe_in_turn(from, tag, comm, message, seen)
                                    : PMPI_Mprobe(from, tag, comm, message, seen);
    // It takes the message: nobody else can get it.
    record_message(treatment, source, tag, comm, 0, result, seen);
    LEAVE(result);
}

// What a poll for messages answered, and its end: programs poll many million times in vain.
static int end_poll(int treatment, int source, int tag, MPI_Comm comm, int is_probe, int flag, int result,
                    const MPI_Status *status)
{
    if (treatment != PASS && !flag) {
        dms_no_and_leave();
        return result;
    }
    if (treatment != PASS && source == MPI_ANY_SOURCE)
        dms_from(source_of(result, status));
    else if (treatment != PASS)
        dms_yes();
    if (wants_messages(treatment))
        message_came(source, tag, comm, is_probe, result, status);
    LEAVE(result);
}

// What it must answer; the source that a message is taken from.
static int poll_due(int source, int *from)
{
    int value, due = dms_due(source == MPI_ANY_SOURCE ? POLL_SOURCE : POLL, 0, &value);
    *from = source == MPI_ANY_SOURCE && value >= 0 ? value : source;
    // What others have recorded is before it. Whoever polls gives them the processor.
    if (due == DUE_ANYTHING && dms_threads && dms_must_come_later()) {
        const struct timespec a_while = {0, 1000 * 1000};
        nanosleep(&a_while, NULL);
        return DUE_NO;
    }
    return due;
}

// A poll for messages that the record does not decide; `message`: of a matched one, or NULL.
static int poll(int treatment, int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status)
{
    const int is_in_turn = in_turn(treatment);
    if (is_in_turn)
        begin_post();
    int result = message ? PMPI_Improbe(source, tag, comm, flag, message, status)
                         : PMPI_Iprobe(source, tag, comm, flag, status);
    if (is_in_turn)
        dms_end_post(*flag);
    return result;
}

int MPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
    ENTER(Iprobe, source, tag, 0);
    if (treatment == LOGICAL)
        LEAVE(logical_probe(1, source, tag, comm, flag, NULL, status));
    STATUS_FOR(status);
    int from = source, due = treatment == REPLAY ? poll_due(source, &from) : DUE_ANYTHING;
    if (due != DUE_ANYTHING) {
        *flag = due == DUE_YES;
        int result = MPI_SUCCESS;
        if (*flag)
            result = dms_threads ? probe_in_turn(from, tag, comm, NULL, seen) : PMPI_Probe(from, tag, comm, seen);
        return end_poll(treatment, source, tag, comm, 1, *flag, result, seen);
    }
    int result = poll(treatment, source, tag, comm, flag, NULL, seen);
    return end_poll(treatment, source, tag, comm, 1, *flag, result, seen);
}

int MPI_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status)
{
    ENTER(Improbe, source, tag, 0);
    if (treatment == LOGICAL)
        LEAVE(logical_probe(1, source, tag, comm, flag, message, status));
    STATUS_FOR(status);
    int from = source, due = treatment == REPLAY ? poll_due(source, &from) : DUE_ANYTHING;
    if (due != DUE_ANYTHING) {
        *flag = due == DUE_YES;
        int result = MPI_SUCCESS;
        if (*flag)
            result = dms_threads ? probe_in_turn(from, tag, comm, message, seen)
                                 : PMPI_Mprobe(from, tag, comm, message, seen);
        return end_poll(treatment, source, tag, comm, 0, *flag, result, seen);
    }
    int result = poll(treatment, source, tag, comm, flag, message, seen);
    return end_poll(treatment, source, tag, comm, 0, *flag, result, seen);
}

// ---- Posted receives ----------------------------------------------------------------------------------------------

// Where a receive is posted: that of a message that will be cancelled gets none.
struct posting {
    int source;
    MPI_Comm comm;
    int due;
};

static struct posting posting_of(int treatment, int source, MPI_Comm comm)
{
    struct posting posting = {source, comm, NONE};
    if (treatment == REPLAY && source == MPI_ANY_SOURCE) {
        posting.due = dms_post_due();
        if (posting.due >= 0)
            posting.source = posting.due;
        else if (posting.due == CANCELLED)
            posting.comm = silent_comm();
    }
    return posting;
}

// A receive from anybody is open: in a replay it may be known whose message it gets.
static void posted_wild(int treatment, const struct posting *posting, MPI_Comm comm, int tag, uint64_t request)
{
    dms_posted(request, bits_of_comm(comm) * 0x9e3779b97f4a7c15ULL + (unsigned)tag);
    if (treatment == REPLAY && posting->due != NONE)
        dms_decided(request, posting->due);
}

static void posted(int treatment, int source, int tag, MPI_Comm comm, const struct posting *posting, int result,
                   const MPI_Request *request)
{
    if (result != MPI_SUCCESS || treatment == PASS)
        return;
    if (source == MPI_ANY_SOURCE)
        posted_wild(treatment, posting, comm, tag, bits_of(*request));
    if (treatment == REPLAY)
        dms_set_due(bits_of(*request), posting->due);
    if (dms_messages && (source >= 0 || source == MPI_ANY_SOURCE))
        dms_message_posted(bits_of_comm(comm), source == MPI_ANY_SOURCE ? NONE : source, tag == MPI_ANY_TAG ? NONE : tag,
                           bits_of(*request));
    else if (dms_messages)
        dms_message_of_nobody(bits_of(*request));
}

// What is known of a receive is known before another thread posts.
#define BEGIN_POST                                                                                                     \
    const int is_in_turn = in_turn(treatment);                                                                         \
    if (is_in_turn)                                                                                                    \
        begin_post()
#define END_POST                                                                                                       \
    if (is_in_turn)                                                                                                    \
        dms_end_post(1)

#define IRECV(suffix, COUNT)                                                                                           \
    int MPI_Irecv##suffix(void *buf, COUNT count, MPI_Datatype type, int source, int tag, MPI_Comm comm,               \
                          MPI_Request *request)                                                                        \
    {                                                                                                                  \
        ENTER(Irecv, source, tag, count);                                                                              \
        if (treatment == LOGICAL)                                                                                      \
            LEAVE(logical_irecv(buf, count, type, source, tag, comm, request));                                        \
        BEGIN_POST;                                                                                                    \
        struct posting at = posting_of(treatment, source, comm);                                                       \
        int result = PMPI_Irecv##suffix(buf, count, type, at.source, tag, at.comm, request);                           \
        posted(treatment, source, tag, comm, &at, result, request);                                                    \
        END_POST;                                                                                                      \
        LEAVE(result);                                                                                                 \
    }

IRECV(, int)
#if MPI_VERSION >= 4
IRECV(_c, MPI_Count)

// What is sent goes its way; only the receive waits for somebody.
#define ISENDRECV(suffix, COUNT)                                                                                       \
    int MPI_Isendrecv##suffix(const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, int dest, int sendtag,      \
                              void *recvbuf, COUNT recvcount, MPI_Datatype recvtype, int source, int recvtag,          \
                              MPI_Comm comm, MPI_Request *request)                                                     \
    {                                                                                                                  \
        ENTER(Isendrecv, source, recvtag, dest);                                                                       \
        if (treatment == LOGICAL)                                                                                      \
            LEAVE(logical_isendrecv(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, source, \
                                    recvtag, comm, request));                                                          \
        if (treatment == RECORD && (source == MPI_ANY_SOURCE || recvtag == MPI_ANY_TAG))                               \
            dms_uncovered(5);                                                                                          \
        message_sends(treatment, comm, dest, sendtag, 0);                                                              \
        BEGIN_POST;                                                                                                    \
        struct posting at = posting_of(treatment, source, comm);                                                       \
        int result = PMPI_Isendrecv##suffix(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, \
                                            at.source, recvtag, comm, request);                                        \
        posted(treatment, source, recvtag, comm, &at, result, request);                                                \
        END_POST;                                                                                                      \
        LEAVE(result);                                                                                                 \
    }                                                                                                                  \
    int MPI_Isendrecv_replace##suffix(void *buf, COUNT count, MPI_Datatype type, int dest, int sendtag, int source,    \
                                      int recvtag, MPI_Comm comm, MPI_Request *request)                                \
    {                                                                                                                  \
        ENTER(Isendrecv_replace, source, recvtag, dest);                                                               \
        if (treatment == LOGICAL)                                                                                      \
            LEAVE(logical_isendrecv_replace(buf, count, type, dest, sendtag, source, recvtag, comm, request));         \
        if (treatment == RECORD && (source == MPI_ANY_SOURCE || recvtag == MPI_ANY_TAG))                               \
            dms_uncovered(5);                                                                                          \
        message_sends(treatment, comm, dest, sendtag, 0);                                                              \
        BEGIN_POST;                                                                                                    \
        struct posting at = posting_of(treatment, source, comm);                                                       \
        int result = PMPI_Isendrecv_replace##suffix(buf, count, type, dest, sendtag, at.source, recvtag, comm,         \
                                                    request);                                                          \
        posted(treatment, source, recvtag, comm, &at, result, request);                                                \
        END_POST;                                                                                                      \
        LEAVE(result);                                                                                                 \
    }

ISENDRECV(, int)
ISENDRECV(_c, MPI_Count)
#endif

// ---- Persistent receives from anybody: in a replay another receive is posted in their place at each start ----------

struct prepared {
    void *buf;
    MPI_Count count;
    MPI_Datatype type;  // a duplicate: the program may free its own
    int tag;
    MPI_Comm comm;
    int is_used;
};

static struct prepared *table;
static unsigned table_size;
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

static struct prepared prepared_at(int place)
{
    pthread_mutex_lock(&table_lock);
    struct prepared receive = table[place];
    pthread_mutex_unlock(&table_lock);
    return receive;
}

static void prepare(MPI_Request request, struct prepared receive)
{
    receive.is_used = PMPI_Type_dup(receive.type, &receive.type) == MPI_SUCCESS;
    pthread_mutex_lock(&table_lock);
    unsigned place = 0;
    while (place < table_size && table[place].is_used)
        place++;
    if (place == table_size) {
        unsigned larger = table_size ? 2 * table_size : 16;
        struct prepared *grown = realloc(table, larger * sizeof *table);
        if (!grown) {
            pthread_mutex_unlock(&table_lock);
            return;
        }
        for (unsigned i = table_size; i < larger; i++)
            grown[i].is_used = 0;
        table = grown;
        table_size = larger;
    }
    table[place] = receive;
    pthread_mutex_unlock(&table_lock);
    if (receive.is_used)
        dms_prepare(bits_of(request), place);
}

#define RECV_INIT(suffix, COUNT)                                                                                       \
    int MPI_Recv_init##suffix(void *buf, COUNT count, MPI_Datatype type, int source, int tag, MPI_Comm comm,           \
                              MPI_Request *request)                                                                    \
    {                                                                                                                  \
        ENTER(Recv_init, source, tag, count);                                                                          \
        int result = PMPI_Recv_init##suffix(buf, count, type, source, tag, comm, request);                             \
        if (treatment == LOGICAL)                                                                                      \
            logical_prepare(result, 0, buf, count, type, source, tag, comm, request);                                  \
        else if (treatment != PASS && source == MPI_ANY_SOURCE && result == MPI_SUCCESS)                               \
            prepare(*request, (struct prepared){buf, count, type, tag, comm, 1});                                      \
        if (wants_messages(treatment) && (source >= 0 || source == MPI_ANY_SOURCE) && result == MPI_SUCCESS)           \
            dms_message_prepare_receive(bits_of_comm(comm), source == MPI_ANY_SOURCE ? NONE : source,                  \
                                        tag == MPI_ANY_TAG ? NONE : tag, bits_of(*request));                           \
        LEAVE(result);                                                                                                 \
    }

RECV_INIT(, int)
#if MPI_VERSION >= 4
RECV_INIT(_c, MPI_Count)
#endif

static int post_prepared(const struct prepared *receive, const struct posting *at, MPI_Request *stand_in)
{
#if MPI_VERSION >= 4
    return PMPI_Irecv_c(receive->buf, receive->count, receive->type, at->source, receive->tag, at->comm, stand_in);
#else
    return PMPI_Irecv(receive->buf, (int)receive->count, receive->type, at->source, receive->tag, at->comm, stand_in);
#endif
}

static int start(int treatment, MPI_Request *request)
{
    int place = dms_prepared(bits_of(*request));
    if (wants_messages(treatment))
        dms_message_start(bits_of(*request));
    if (place == NONE)
        return PMPI_Start(request);
    const struct prepared receive = prepared_at(place);
    struct posting at = posting_of(treatment, MPI_ANY_SOURCE, receive.comm);
    if (treatment == REPLAY) {
        if (at.due != NONE) {
            MPI_Request stand_in;
            int result = post_prepared(&receive, &at, &stand_in);
            if (result == MPI_SUCCESS) {
                dms_set_stand_in(bits_of(*request), bits_of(stand_in));
                dms_set_due(bits_of(*request), at.due);
                posted_wild(treatment, &at, receive.comm, receive.tag, bits_of(*request));
            }
            return result;
        }
        dms_set_due(bits_of(*request), NONE);
    }
    int result = PMPI_Start(request);
    if (treatment != PASS && result == MPI_SUCCESS)
        posted_wild(treatment, &at, receive.comm, receive.tag, bits_of(*request));
    return result;
}

int MPI_Start(MPI_Request *request)
{
    ENTER(Start, 0, 0, 0);
    if (treatment == LOGICAL)
        LEAVE(logical_startall(1, request));
    if (treatment == PASS)
        return PMPI_Start(request);
    int result;
    POST_IN_TURN(treatment, result, start(treatment, request));
    LEAVE(result);
}

int MPI_Startall(int count, MPI_Request requests[])
{
    ENTER(Startall, count, 0, 0);
    if (treatment == LOGICAL)
        LEAVE(logical_startall(count, requests));
    int has_prepared = wants_messages(treatment);
    for (int i = 0; treatment != PASS && i < count && !has_prepared; i++)
        has_prepared = dms_prepared(bits_of(requests[i])) != NONE;
    BEGIN_POST;
    int result = has_prepared ? MPI_SUCCESS : PMPI_Startall(count, requests);
    for (int i = 0; has_prepared && i < count && result == MPI_SUCCESS; i++)
        result = start(treatment, &requests[i]);
    END_POST;
    LEAVE(result);
}

int MPI_Request_free(MPI_Request *request)
{
    ENTER(Request_free, 0, 0, 0);
    if (treatment == LOGICAL)
        LEAVE(logical_request_free(request));
    if (treatment != PASS) {
        uint64_t bits = bits_of(*request), stand_in;
        int place = dms_prepared(bits);
        look_at_undecided();
        dms_arrived(bits, NONE);
        if (dms_messages)
            dms_message_forget(bits);
        if (dms_stand_in(bits, 1, &stand_in)) {
            MPI_Request other = request_of(stand_in);
            PMPI_Request_free(&other);
        }
        if (place != NONE) {
            dms_forget(bits);
            pthread_mutex_lock(&table_lock);
            PMPI_Type_free(&table[place].type);
            table[place].is_used = 0;
            pthread_mutex_unlock(&table_lock);
        }
    }
    LEAVE(PMPI_Request_free(request));
}

int MPI_Cancel(MPI_Request *request)
{
    ENTER(Cancel, 0, 0, 0);
    if (treatment == LOGICAL)
        LEAVE(logical_cancel(request));
    has_cancelled = 1;
    if (treatment == RECORD && !dms_is_posted(bits_of(*request)))
        dms_uncovered(3);
    if (treatment == REPLAY) {
        uint64_t bits = bits_of(*request), stand_in;
        // It came too late.
        if (dms_due_of(bits) >= 0)
            LEAVE(MPI_SUCCESS);
        if (dms_stand_in(bits, 0, &stand_in)) {
            MPI_Request other = request_of(stand_in);
            LEAVE(PMPI_Cancel(&other));
        }
    }
    LEAVE(PMPI_Cancel(request));
}
