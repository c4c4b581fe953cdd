// What goes wrong with a message between two ranks. Of sends the bad rank is the sender, of receives the receiver; its
// partner does its part with the plainest call there is.
#include "generated.h"

enum { BUFFER_BYTES = 1 << 16 };

// What a message is sent or received with.
struct message {
    int number, peer, tag;
    MPI_Comm comm;
};

enum send {
    SEND, SSEND, BSEND, RSEND, SENDRECV, SENDRECV_REPLACE, // blocking
    ISEND, ISSEND, IBSEND, IRSEND,                         // nonblocking
    SEND_INIT, SSEND_INIT, BSEND_INIT, RSEND_INIT          // persistent
};

enum receive { RECV, RECV_ANY_SOURCE, RECV_ANY_TAG, IRECV, IRECV_ANY_SOURCE, RECV_INIT };

static bool is_ready_mode(int kind)
{
    return kind == RSEND || kind == IRSEND || kind == RSEND_INIT;
}

static bool is_exchange(int kind)
{
    return kind == SENDRECV || kind == SENDRECV_REPLACE;
}

static struct message message_of(const struct scene *scene)
{
    const int peer = scene->is_bad ? scene->partner : scene->bad;
    return (struct message){.number = 0,
                            .peer = makes(scene, OTHER_RANK) ? scene->third : peer,
                            .tag = makes(scene, OTHER_TAG) ? WRONG_TAG : TAG,
                            .comm = scene->comms[makes(scene, OTHER_COMMUNICATOR)]};
}

static MPI_Request send(enum send kind, struct message *m)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int number = 0;
    switch (kind) {
    case SEND:
        MPI_Send(&m->number, 1, MPI_INT, m->peer, m->tag, m->comm); // call: send
        break;
    case SSEND:
        MPI_Ssend(&m->number, 1, MPI_INT, m->peer, m->tag, m->comm); // call: ssend
        break;
    case BSEND:
        MPI_Bsend(&m->number, 1, MPI_INT, m->peer, m->tag, m->comm); // call: bsend
        break;
    case RSEND:
        MPI_Rsend(&m->number, 1, MPI_INT, m->peer, m->tag, m->comm); // call: rsend
        break;
    case SENDRECV: // the answer has the tag that the message should have
        MPI_Sendrecv(&m->number, 1, MPI_INT, m->peer, m->tag, &number, 1, MPI_INT, m->peer, TAG, m->comm, MPI_STATUS_IGNORE); // call: sendrecv
        break;
    case SENDRECV_REPLACE:
        MPI_Sendrecv_replace(&m->number, 1, MPI_INT, m->peer, m->tag, m->peer, TAG, m->comm, MPI_STATUS_IGNORE); // call: sendrecv_replace
        break;
    case ISEND:
        MPI_Isend(&m->number, 1, MPI_INT, m->peer, m->tag, m->comm, &request); // call: isend
        break;
    case ISSEND:
        MPI_Issend(&m->number, 1, MPI_INT, m->peer, m->tag, m->comm, &request); // call: issend
        break;
    case IBSEND:
        MPI_Ibsend(&m->number, 1, MPI_INT, m->peer, m->tag, m->comm, &request); // call: ibsend
        break;
    case IRSEND:
        MPI_Irsend(&m->number, 1, MPI_INT, m->peer, m->tag, m->comm, &request); // call: irsend
        break;
    case SEND_INIT:
        MPI_Send_init(&m->number, 1, MPI_INT, m->peer, m->tag, m->comm, &request); // call: send_init
        break;
    case SSEND_INIT:
        MPI_Ssend_init(&m->number, 1, MPI_INT, m->peer, m->tag, m->comm, &request); // call: ssend_init
        break;
    case BSEND_INIT:
        MPI_Bsend_init(&m->number, 1, MPI_INT, m->peer, m->tag, m->comm, &request); // call: bsend_init
        break;
    case RSEND_INIT:
        MPI_Rsend_init(&m->number, 1, MPI_INT, m->peer, m->tag, m->comm, &request); // call: rsend_init
        break;
    }
    return request;
}

static MPI_Request receive(enum receive kind, struct message *m)
{
    MPI_Request request = MPI_REQUEST_NULL;
    switch (kind) {
    case RECV:
        MPI_Recv(&m->number, 1, MPI_INT, m->peer, m->tag, m->comm, MPI_STATUS_IGNORE); // call: recv
        break;
    case RECV_ANY_SOURCE:
        MPI_Recv(&m->number, 1, MPI_INT, MPI_ANY_SOURCE, m->tag, m->comm, MPI_STATUS_IGNORE); // call: recv_any_source
        break;
    case RECV_ANY_TAG:
        MPI_Recv(&m->number, 1, MPI_INT, m->peer, MPI_ANY_TAG, m->comm, MPI_STATUS_IGNORE); // call: recv_any_tag
        break;
    case IRECV:
        MPI_Irecv(&m->number, 1, MPI_INT, m->peer, m->tag, m->comm, &request); // call: irecv
        break;
    case IRECV_ANY_SOURCE:
        MPI_Irecv(&m->number, 1, MPI_INT, MPI_ANY_SOURCE, m->tag, m->comm, &request); // call: irecv_any_source
        break;
    case RECV_INIT:
        MPI_Recv_init(&m->number, 1, MPI_INT, m->peer, m->tag, m->comm, &request); // call: recv_init
        break;
    }
    return request;
}

// Starts what is persistent, and completes what was begun.
static void complete(const struct scene *scene, bool is_persistent, MPI_Request *request)
{
    if (*request == MPI_REQUEST_NULL)
        return;
    if (is_persistent && !makes(scene, MISSING_START))
        MPI_Start(request);
    if (makes(scene, MISSING_WAIT))
        return;
    MPI_Wait(request, MPI_STATUS_IGNORE); // call: wait for a message
    if (is_persistent)
        MPI_Request_free(request);
}

static void receive_from_partner(const struct scene *scene, int tag)
{
    int number = 0;
    MPI_Recv(&number, 1, MPI_INT, scene->partner, tag, scene->comms[0], MPI_STATUS_IGNORE); // call: other receive of the bad rank
}

static void send_synchronously_to_partner(const struct scene *scene, int tag)
{
    const int number = 1;
    MPI_Ssend(&number, 1, MPI_INT, scene->partner, tag, scene->comms[0]); // call: other send of the bad rank
}

// The partner of a sender: receives, and answers where the sender waits for that.
static void receive_plainly(const struct scene *scene, int kind)
{
    int number = 0;
    const int answer = 1;
    MPI_Request request;
    if (is_ready_mode(kind)) {
        MPI_Irecv(&number, 1, MPI_INT, scene->bad, TAG, scene->comms[0], &request);
        MPI_Send(&answer, 1, MPI_INT, scene->bad, READY_TAG, scene->comms[0]);
        MPI_Wait(&request, MPI_STATUS_IGNORE); // call: wait of the partner
    } else {
        MPI_Recv(&number, 1, MPI_INT, scene->bad, TAG, scene->comms[0], MPI_STATUS_IGNORE); // call: receive of the partner
    }
    if (is_exchange(kind))
        MPI_Send(&answer, 1, MPI_INT, scene->bad, TAG, scene->comms[0]);
    if (scene->fault == OTHER_ORDER)
        MPI_Send(&answer, 1, MPI_INT, scene->bad, REPLY_TAG, scene->comms[0]);
}

static void send_with(const struct scene *scene, int kind)
{
    struct message message = message_of(scene);
    if (is_ready_mode(kind))
        receive_from_partner(scene, READY_TAG);
    if (makes(scene, MISSING_CALL))
        return;
    if (makes(scene, OTHER_OPERATION) || makes(scene, OTHER_ORDER))
        receive_from_partner(scene, REPLY_TAG);
    MPI_Request request = send((enum send)kind, &message);
    complete(scene, kind >= SEND_INIT, &request);
    if (scene->fault == OTHER_ORDER)
        receive_from_partner(scene, REPLY_TAG);
}

static void run_send(const struct scene *scene, const struct operation *operation)
{
    static char buffer[BUFFER_BYTES];
    if (scene->is_bad) {
        int bytes = 0;
        MPI_Buffer_attach(buffer, sizeof(buffer));
        send_with(scene, operation->is.kind);
        if (!scene->wrong)
            MPI_Buffer_detach(&(void *){NULL}, &bytes);
    } else if (scene->is_partner) {
        receive_plainly(scene, operation->is.kind);
    }
}

// The partner of a receiver. It waits to be received from where the receiver's fault is not to receive.
static void send_plainly(const struct scene *scene)
{
    const int number = 1;
    int answer = 0;
    if (scene->fault == MISSING_CALL || scene->fault == MISSING_START || scene->fault == OTHER_ORDER)
        MPI_Ssend(&number, 1, MPI_INT, scene->bad, TAG, scene->comms[0]); // call: synchronous send of the partner
    else
        MPI_Send(&number, 1, MPI_INT, scene->bad, TAG, scene->comms[0]);
    if (scene->fault == OTHER_ORDER)
        MPI_Recv(&answer, 1, MPI_INT, scene->bad, REPLY_TAG, scene->comms[0], MPI_STATUS_IGNORE);
}

static void receive_with(const struct scene *scene, int kind)
{
    struct message message = message_of(scene);
    if (makes(scene, MISSING_CALL))
        return;
    if (makes(scene, OTHER_OPERATION) || makes(scene, OTHER_ORDER))
        send_synchronously_to_partner(scene, REPLY_TAG);
    MPI_Request request = receive((enum receive)kind, &message);
    complete(scene, kind == RECV_INIT, &request);
    if (scene->fault == OTHER_ORDER)
        send_synchronously_to_partner(scene, REPLY_TAG);
}

static void run_receive(const struct scene *scene, const struct operation *operation)
{
    if (scene->is_bad)
        receive_with(scene, operation->is.kind);
    else if (scene->is_partner)
        send_plainly(scene);
}

const struct operation sends[] = {
    {"send", run_send, {SEND}},
    {"ssend", run_send, {SSEND}},
    {"bsend", run_send, {BSEND}},
    {"rsend", run_send, {RSEND}},
    {"sendrecv", run_send, {SENDRECV}},
    {"sendrecv_replace", run_send, {SENDRECV_REPLACE}},
    {"isend", run_send, {ISEND}},
    {"issend", run_send, {ISSEND}},
    {"ibsend", run_send, {IBSEND}},
    {"irsend", run_send, {IRSEND}},
    {"send_init", run_send, {SEND_INIT}},
    {"ssend_init", run_send, {SSEND_INIT}},
    {"bsend_init", run_send, {BSEND_INIT}},
    {"rsend_init", run_send, {RSEND_INIT}},
    {.name = NULL},
};

const struct operation receives[] = {
    {"recv", run_receive, {RECV}},
    {"recv_any_source", run_receive, {RECV_ANY_SOURCE}},
    {"recv_any_tag", run_receive, {RECV_ANY_TAG}},
    {"irecv", run_receive, {IRECV}},
    {"irecv_any_source", run_receive, {IRECV_ANY_SOURCE}},
    {"recv_init", run_receive, {RECV_INIT}},
    {.name = NULL},
};
