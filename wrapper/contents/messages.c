// Calls that send, receive and probe, and those that post sends and receives.
#include "contents.h"

// What a call answered that has received something.
static int received(int treatment, int result, void *buf, MPI_Count count, MPI_Datatype type, MPI_Status *seen,
                    MPI_Status *status, MPI_Comm comm)
{
    struct segment to = {buf, count, type};
    put_received(treatment, &to, seen, result == MPI_SUCCESS);
    put_status(status);
    return result_of(treatment, result, comm);
}

// Ends a call that has posted something that brings nothing in.
static int posted_idle(int treatment, int result, MPI_Comm comm, MPI_Request *request)
{
    int is_made = (int)out(result == MPI_SUCCESS);
    if (is_made)
        idle_made(treatment, request);
    return result_of(treatment, result, comm);
}

// Ends a call that has posted a receive.
static int posted_receive(int treatment, int result, void *buf, MPI_Count count, MPI_Datatype type, int source,
                          MPI_Comm comm, MPI_Request *request)
{
    if (source == MPI_PROC_NULL)
        return posted_idle(treatment, result, comm, request);
    if (out(result == MPI_SUCCESS)) {
        struct data data = {0};
        add(&data, buf, count, type);
        request_made(treatment, RECEIVES, &data, request);
    }
    return result_of(treatment, result, comm);
}

static int prepared(int treatment, enum operation operation, int result, const void *buf, MPI_Count count,
                    MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request *request)
{
    if (out(result == MPI_SUCCESS)) {
        struct data data = {0};
        add(&data, buf, count, type);
        struct request *made = request_made(treatment, operation, &data, request);
        made->is_persistent = 1;
        made->is_active = 0;
        made->dest = peer;
        made->tag = tag;
    }
    return result_of(treatment, result, comm);
}

// ---- Sends ---------------------------------------------------------------------------------------------------------

#define SEND(name, S, COUNT)                                                                                           \
    int MPI_##name##S(const void *buf, COUNT count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)               \
    {                                                                                                                  \
        ENTER(name);                                                                                                   \
        PASSED(name##S, (buf, count, type, dest, tag, comm));                                                          \
        SENDING(name, sum_of_buffer(buf, count, type), dest, tag, count, comm_of(comm)->number);                       \
        int result = MAKE(name##S, (buf, count, type, dest, tag, comm));                                               \
        return result_of(treatment, result, comm);                                                                     \
    }
#define POST(name, S, COUNT)                                                                                           \
    int MPI_##name##S(const void *buf, COUNT count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,               \
                      MPI_Request *request)                                                                            \
    {                                                                                                                  \
        ENTER(name);                                                                                                   \
        PASSED(name##S, (buf, count, type, dest, tag, comm, request));                                                 \
        SENDING(name, sum_of_buffer(buf, count, type), dest, tag, count, comm_of(comm)->number);                       \
        int result = MAKE(name##S, (buf, count, type, dest, tag, comm, request));                                      \
        return posted_idle(treatment, result, comm, request);                                                          \
    }
#define PREPARE(name, S, COUNT)                                                                                        \
    int MPI_##name##S(const void *buf, COUNT count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,               \
                      MPI_Request *request)                                                                            \
    {                                                                                                                  \
        ENTER(name);                                                                                                   \
        PASSED(name##S, (buf, count, type, dest, tag, comm, request));                                                 \
        COMPARE(name, dest, tag, count, comm_of(comm)->number);                                                        \
        int result = MAKE(name##S, (buf, count, type, dest, tag, comm, request));                                      \
        return prepared(treatment, SENDS, result, buf, count, type, dest, tag, comm, request);                         \
    }

// ---- Receives ------------------------------------------------------------------------------------------------------

#define RECEIVE(S, COUNT)                                                                                              \
    int MPI_Recv##S(void *buf, COUNT count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status) \
    {                                                                                                                  \
        ENTER(Recv);                                                                                                   \
        PASSED(Recv##S, (buf, count, type, source, tag, comm, status));                                                \
        COMPARE(Recv, source, tag, count, comm_of(comm)->number);                                                      \
        STATUS_FOR(status);                                                                                            \
        int result = MAKE(Recv##S, (buf, count, type, source, tag, comm, seen));                                       \
        return received(treatment, result, buf, count, type, seen, status, comm);                                      \
    }                                                                                                                  \
    int MPI_Irecv##S(void *buf, COUNT count, MPI_Datatype type, int source, int tag, MPI_Comm comm,                    \
                     MPI_Request *request)                                                                             \
    {                                                                                                                  \
        ENTER(Irecv);                                                                                                  \
        PASSED(Irecv##S, (buf, count, type, source, tag, comm, request));                                              \
        COMPARE(Irecv, source, tag, count, comm_of(comm)->number);                                                     \
        int result = MAKE(Irecv##S, (buf, count, type, source, tag, comm, request));                                   \
        return posted_receive(treatment, result, buf, count, type, source, comm, request);                             \
    }                                                                                                                  \
    int MPI_Recv_init##S(void *buf, COUNT count, MPI_Datatype type, int source, int tag, MPI_Comm comm,                \
                         MPI_Request *request)                                                                         \
    {                                                                                                                  \
        ENTER(Recv_init);                                                                                              \
        PASSED(Recv_init##S, (buf, count, type, source, tag, comm, request));                                          \
        COMPARE(Recv_init, source, tag, count, comm_of(comm)->number);                                                 \
        int result = MAKE(Recv_init##S, (buf, count, type, source, tag, comm, request));                               \
        return prepared(treatment, RECEIVES, result, buf, count, type, source, tag, comm, request);                    \
    }                                                                                                                  \
    int MPI_Sendrecv##S(const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, int dest, int sendtag,            \
                        void *recvbuf, COUNT recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm, \
                        MPI_Status *status)                                                                            \
    {                                                                                                                  \
        ENTER(Sendrecv);                                                                                               \
        PASSED(Sendrecv##S, (sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, source,        \
                             recvtag, comm, status));                                                                  \
        SENDING(Sendrecv, sum_of_buffer(sendbuf, sendcount, sendtype), dest, sendtag, sendcount,                       \
                comm_of(comm)->number, source, recvtag, recvcount);                                                    \
        STATUS_FOR(status);                                                                                            \
        int result = MAKE(Sendrecv##S, (sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype,     \
                                        source, recvtag, comm, seen));                                                 \
        return received(treatment, result, recvbuf, recvcount, recvtype, seen, status, comm);                          \
    }                                                                                                                  \
    int MPI_Sendrecv_replace##S(void *buf, COUNT count, MPI_Datatype type, int dest, int sendtag, int source,          \
                                int recvtag, MPI_Comm comm, MPI_Status *status)                                        \
    {                                                                                                                  \
        ENTER(Sendrecv_replace);                                                                                       \
        PASSED(Sendrecv_replace##S, (buf, count, type, dest, sendtag, source, recvtag, comm, status));                 \
        SENDING(Sendrecv_replace, sum_of_buffer(buf, count, type), dest, sendtag, count, comm_of(comm)->number,        \
                source, recvtag);                                                                                      \
        STATUS_FOR(status);                                                                                            \
        int result = MAKE(Sendrecv_replace##S, (buf, count, type, dest, sendtag, source, recvtag, comm, seen));        \
        return received(treatment, result, buf, count, type, seen, status, comm);                                      \
    }                                                                                                                  \
    int MPI_Mrecv##S(void *buf, COUNT count, MPI_Datatype type, MPI_Message *message, MPI_Status *status)              \
    {                                                                                                                  \
        ENTER(Mrecv);                                                                                                  \
        PASSED(Mrecv##S, (buf, count, type, message, status));                                                         \
        COMPARE(Mrecv, count);                                                                                         \
        STATUS_FOR(status);                                                                                            \
        int result = MAKE(Mrecv##S, (buf, count, type, message, seen));                                                \
        message_taken(treatment, message);                                                                             \
        return received(treatment, result, buf, count, type, seen, status, MPI_COMM_WORLD);                            \
    }                                                                                                                  \
    int MPI_Imrecv##S(void *buf, COUNT count, MPI_Datatype type, MPI_Message *message, MPI_Request *request)           \
    {                                                                                                                  \
        ENTER(Imrecv);                                                                                                 \
        PASSED(Imrecv##S, (buf, count, type, message, request));                                                       \
        COMPARE(Imrecv, count);                                                                                        \
        int source = *message == MPI_MESSAGE_NO_PROC ? MPI_PROC_NULL : 0;                                              \
        int result = MAKE(Imrecv##S, (buf, count, type, message, request));                                            \
        message_taken(treatment, message);                                                                             \
        return posted_receive(treatment, result, buf, count, type, source, MPI_COMM_WORLD, request);                   \
    }

#if MPI_VERSION >= 4
#define POST_BOTH(S, COUNT)                                                                                            \
    int MPI_Isendrecv##S(const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, int dest, int sendtag,           \
                         void *recvbuf, COUNT recvcount, MPI_Datatype recvtype, int source, int recvtag,               \
                         MPI_Comm comm, MPI_Request *request)                                                          \
    {                                                                                                                  \
        ENTER(Isendrecv);                                                                                              \
        PASSED(Isendrecv##S, (sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, source,       \
                              recvtag, comm, request));                                                                \
        SENDING(Isendrecv, sum_of_buffer(sendbuf, sendcount, sendtype), dest, sendtag, sendcount,                      \
                comm_of(comm)->number, source, recvtag, recvcount);                                                    \
        int result = MAKE(Isendrecv##S, (sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype,    \
                                         source, recvtag, comm, request));                                             \
        return posted_receive(treatment, result, recvbuf, recvcount, recvtype, 0, comm, request);                      \
    }                                                                                                                  \
    int MPI_Isendrecv_replace##S(void *buf, COUNT count, MPI_Datatype type, int dest, int sendtag, int source,         \
                                 int recvtag, MPI_Comm comm, MPI_Request *request)                                     \
    {                                                                                                                  \
        ENTER(Isendrecv_replace);                                                                                      \
        PASSED(Isendrecv_replace##S, (buf, count, type, dest, sendtag, source, recvtag, comm, request));               \
        SENDING(Isendrecv_replace, sum_of_buffer(buf, count, type), dest, sendtag, count, comm_of(comm)->number,       \
                source, recvtag);                                                                                      \
        int result = MAKE(Isendrecv_replace##S, (buf, count, type, dest, sendtag, source, recvtag, comm, request));    \
        return posted_receive(treatment, result, buf, count, type, 0, comm, request);                                  \
    }
#endif

static void message_taken(int treatment, MPI_Message *message)
{
    if (treatment == PLAY && *message != MPI_MESSAGE_NO_PROC)
        message_gone(*message);
    if (treatment == PLAY)
        *message = MPI_MESSAGE_NULL;
}

#define ALL(S, COUNT)                                                                                                  \
    SEND(Send, S, COUNT)                                                                                               \
    SEND(Ssend, S, COUNT)                                                                                              \
    SEND(Bsend, S, COUNT)                                                                                              \
    SEND(Rsend, S, COUNT)                                                                                              \
    POST(Isend, S, COUNT)                                                                                              \
    POST(Issend, S, COUNT)                                                                                             \
    POST(Ibsend, S, COUNT)                                                                                             \
    POST(Irsend, S, COUNT)                                                                                             \
    PREPARE(Send_init, S, COUNT)                                                                                       \
    PREPARE(Ssend_init, S, COUNT)                                                                                      \
    PREPARE(Bsend_init, S, COUNT)                                                                                      \
    PREPARE(Rsend_init, S, COUNT)                                                                                      \
    RECEIVE(S, COUNT)

ALL(, int)
#if MPI_VERSION >= 4
POST_BOTH(, int)
ALL(_c, MPI_Count)
POST_BOTH(_c, MPI_Count)
#endif

// ---- Probes --------------------------------------------------------------------------------------------------------

int MPI_Probe(int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    ENTER(Probe);
    PASSED(Probe, (source, tag, comm, status));
    COMPARE(Probe, source, tag, comm_of(comm)->number);
    int result = MAKE(Probe, (source, tag, comm, status));
    put_status(status);
    return result_of(treatment, result, comm);
}

int MPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
    ENTER(Iprobe);
    PASSED(Iprobe, (source, tag, comm, flag, status));
    int64_t compared[] = {source, tag, comm_of(comm)->number};
    int result = MAKE(Iprobe, (source, tag, comm, flag, status));
    if (treatment == RECORD && result == MPI_SUCCESS && !*flag) {
        dmc_no(CALL_Iprobe, compared, 3);
        leave();
        return result;
    }
    if (treatment == PLAY && dmc_is_no(CALL_Iprobe, compared, 3)) {
        *flag = 0;
        leave();
        return MPI_SUCCESS;
    }
    dmc_call(CALL_Iprobe, compared, 3, 0, 0);
    *flag = (int)out(*flag);
    if (*flag)
        put_status(status);
    return result_of(treatment, result, comm);
}

// The handle of a message that a probe has taken.
static void put_message(int treatment, MPI_Message *message)
{
    int is_real = (int)out(*message != MPI_MESSAGE_NO_PROC);
    if (treatment == PLAY)
        *message = is_real ? message_made() : MPI_MESSAGE_NO_PROC;
}

int MPI_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status)
{
    ENTER(Mprobe);
    PASSED(Mprobe, (source, tag, comm, message, status));
    COMPARE(Mprobe, source, tag, comm_of(comm)->number);
    int result = MAKE(Mprobe, (source, tag, comm, message, status));
    put_message(treatment, message);
    put_status(status);
    return result_of(treatment, result, comm);
}

int MPI_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status)
{
    ENTER(Improbe);
    PASSED(Improbe, (source, tag, comm, flag, message, status));
    int64_t compared[] = {source, tag, comm_of(comm)->number};
    int result = MAKE(Improbe, (source, tag, comm, flag, message, status));
    if (treatment == RECORD && result == MPI_SUCCESS && !*flag) {
        dmc_no(CALL_Improbe, compared, 3);
        leave();
        return result;
    }
    if (treatment == PLAY && dmc_is_no(CALL_Improbe, compared, 3)) {
        *flag = 0;
        leave();
        return MPI_SUCCESS;
    }
    dmc_call(CALL_Improbe, compared, 3, 0, 0);
    *flag = (int)out(*flag);
    if (*flag) {
        put_message(treatment, message);
        put_status(status);
    }
    return result_of(treatment, result, comm);
}
