// Deterministic runs: sends, receives, probes and persistent requests. A receive from anybody is given to MPI when its message is
// decided, from that source and with that tag.
#include <stdlib.h>

#include "logical_parts.h"

enum { SURELY_BUFFERED_BYTES = 1024 };

static void announce(int dest, int tag, MPI_Comm comm)
{
    const struct comm *known = dest >= 0 ? comm_of(comm) : NULL;
    if (known && dest < known->size)
        while (!dms_announce(known->group[dest], (unsigned)known->id, tag))
            progress();
}

static int post_send(enum send_mode mode, const void *buf, MPI_Count count, MPI_Datatype type, int dest, int tag,
                     MPI_Comm comm, MPI_Request *request)
{
#if MPI_VERSION >= 4
    switch (mode) {
    case SYNCHRONOUS: return PMPI_Issend_c(buf, count, type, dest, tag, comm, request);
    case BUFFERED: return PMPI_Ibsend_c(buf, count, type, dest, tag, comm, request);
    case READY: return PMPI_Irsend_c(buf, count, type, dest, tag, comm, request);
    default: return PMPI_Isend_c(buf, count, type, dest, tag, comm, request);
    }
#else
    int n = (int)count;
    switch (mode) {
    case SYNCHRONOUS: return PMPI_Issend(buf, n, type, dest, tag, comm, request);
    case BUFFERED: return PMPI_Ibsend(buf, n, type, dest, tag, comm, request);
    case READY: return PMPI_Irsend(buf, n, type, dest, tag, comm, request);
    default: return PMPI_Isend(buf, n, type, dest, tag, comm, request);
    }
#endif
}

int logical_send(enum send_mode mode, const void *buf, MPI_Count count, MPI_Datatype type, int dest, int tag,
                 MPI_Comm comm)
{
    int bytes = 0, result;
    announce(dest, tag, comm);
    dms_announced();
    if (mode == BUFFERED)
        return PMPI_Bsend(buf, (int)count, type, dest, tag, comm);
    if (mode == STANDARD && PMPI_Type_size(type, &bytes) == MPI_SUCCESS && count <= SURELY_BUFFERED_BYTES &&
        bytes <= SURELY_BUFFERED_BYTES && count * bytes <= SURELY_BUFFERED_BYTES)
        return PMPI_Send(buf, (int)count, type, dest, tag, comm);
    MPI_Request request;
    result = post_send(mode, buf, count, type, dest, tag, comm, &request);
    if (result == MPI_SUCCESS)
        finish_or_put_off(0, &request, MPI_STATUS_IGNORE, &result);
    return result;
}

int logical_isend(enum send_mode mode, const void *buf, MPI_Count count, MPI_Datatype type, int dest, int tag,
                  MPI_Comm comm, MPI_Request *request)
{
    announce(dest, tag, comm);
    dms_announced();
    struct entry entry = {.state = GIVEN, .has_stand_in = 1};
    int result = post_send(mode, buf, count, type, dest, tag, comm, &entry.mpi);
    if (result != MPI_SUCCESS)
        return result;
    // The library's may be one that many sends have: how many depends on the time.
    *request = stand_in();
    dms_add_request(bits_of(*request), new_entry(entry), 0);
    return result;
}

// ---- Receives -------------------------------------------------------------------------------------------------------

static int wanted(int rank_or_tag)
{
    return rank_or_tag == MPI_ANY_SOURCE || rank_or_tag == MPI_ANY_TAG ? NONE : rank_or_tag;
}

// Posts a receive; gives its place. A source that there is not is MPI's to refuse.
static int new_receive(struct entry entry, int source, int tag, int *can_be_given)
{
    const struct comm *known = source == MPI_PROC_NULL ? NULL : comm_of(entry.comm);
    if (!known || (source != MPI_ANY_SOURCE && (source < 0 || source >= known->size)))
        return NONE;
    entry.state = OPEN;
    entry.is_receive = 1;
    int place = new_entry(entry);
    *can_be_given = dms_post((unsigned)place, (unsigned)known->id, wanted(source), wanted(tag));
    return place;
}

int logical_recv(void *buf, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    MPI_Request request;
    int result = logical_irecv(buf, count, type, source, tag, comm, &request);
    return result == MPI_SUCCESS ? logical_wait(&request, status) : result;
}

// The place is NONE if the request is MPI's own, of a receive that nothing is decided of.
static int begin_receive(struct entry entry, int source, int tag, MPI_Request *request, int *place_of)
{
    int can_be_given, place = *place_of = new_receive(entry, source, tag, &can_be_given);
    if (place == NONE)
        return post_receive(&entry, source, tag, request);
    entries[place].has_stand_in = 1;
    if (can_be_given) {
        int result = post_receive(&entry, source, tag, &entries[place].mpi);
        if (result != MPI_SUCCESS) {
            forget_entry(place);
            return result;
        }
        entries[place].state = GIVEN;
    } else {
        keep_type(place);
    }
    *request = stand_in();
    dms_add_request(bits_of(*request), place, 1);
    return MPI_SUCCESS;
}

int logical_irecv(void *buf, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                  MPI_Request *request)
{
    struct entry entry = {.buf = buf, .count = count, .type = type, .comm = comm};
    int place;
    return begin_receive(entry, source, tag, request, &place);
}

int logical_sendrecv(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, int dest, int sendtag,
                     void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm,
                     MPI_Status *status)
{
    MPI_Request sends, receives;
    int sent, received;
    announce(dest, sendtag, comm);
    dms_announced();
    received = logical_irecv(recvbuf, recvcount, recvtype, source, recvtag, comm, &receives);
    sent = post_send(STANDARD, sendbuf, sendcount, sendtype, dest, sendtag, comm, &sends);
    if (received == MPI_SUCCESS)
        received = logical_wait(&receives, status);
    if (sent == MPI_SUCCESS)
        finish_or_put_off(0, &sends, MPI_STATUS_IGNORE, &sent);
    return received != MPI_SUCCESS ? received : sent;
}

// What a call sends and then overwrites: a copy of it, to be freed.
static int pack(const void *buf, MPI_Count count, MPI_Datatype type, MPI_Comm comm, char **copy, int *packed)
{
    int size = 0, result = PMPI_Pack_size((int)count, type, comm, &size);
    *packed = 0;
    *copy = result == MPI_SUCCESS ? malloc((size_t)(size ? size : 1)) : NULL;
    if (!*copy)
        return result == MPI_SUCCESS ? MPI_ERR_NO_MEM : result;
    result = PMPI_Pack(buf, (int)count, type, *copy, size, packed, comm);
    if (result != MPI_SUCCESS)
        free(*copy);
    return result;
}

// One request that is complete when both are.
static int exchange(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, int dest, int sendtag,
                    struct entry receive, int source, int recvtag, MPI_Request *request)
{
    int place;
    announce(dest, sendtag, receive.comm);
    dms_announced();
    int result = begin_receive(receive, source, recvtag, request, &place);
    if (result != MPI_SUCCESS)
        return result;
    if (place == NONE) {
        place = new_entry((struct entry){.state = GIVEN, .has_stand_in = 1, .mpi = *request, .copy = receive.copy});
        *request = stand_in();
        dms_add_request(bits_of(*request), place, 0);
    }
    result = post_send(STANDARD, sendbuf, sendcount, sendtype, dest, sendtag, receive.comm, &entries[place].send);
    entries[place].sends_too = result == MPI_SUCCESS;
    return result;
}

int logical_isendrecv(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, int dest, int sendtag,
                      void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm,
                      MPI_Request *request)
{
    struct entry receive = {.buf = recvbuf, .count = recvcount, .type = recvtype, .comm = comm};
    return exchange(sendbuf, sendcount, sendtype, dest, sendtag, receive, source, recvtag, request);
}

int logical_isendrecv_replace(void *buf, MPI_Count count, MPI_Datatype type, int dest, int sendtag, int source,
                              int recvtag, MPI_Comm comm, MPI_Request *request)
{
    int packed;
    char *copy;
    int result = pack(buf, count, type, comm, &copy, &packed);
    if (result != MPI_SUCCESS)
        return result;
    // Freed with the request.
    struct entry receive = {.buf = buf, .count = count, .type = type, .comm = comm, .copy = copy};
    return exchange(copy, packed, MPI_PACKED, dest, sendtag, receive, source, recvtag, request);
}

int logical_sendrecv_replace(void *buf, MPI_Count count, MPI_Datatype type, int dest, int sendtag, int source,
                             int recvtag, MPI_Comm comm, MPI_Status *status)
{
    int packed;
    char *copy;
    int result = pack(buf, count, type, comm, &copy, &packed);
    if (result != MPI_SUCCESS)
        return result;
    result = logical_sendrecv(copy, packed, MPI_PACKED, dest, sendtag, buf, count, type, source, recvtag, comm, status);
    free(copy);
    return result;
}

int logical_probe(int polls, int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status)
{
    const struct comm *known = source == MPI_PROC_NULL ? NULL : comm_of(comm);
    if (!known || (source != MPI_ANY_SOURCE && (source < 0 || source >= known->size))) {
        if (polls)
            return message ? PMPI_Improbe(source, tag, comm, flag, message, status)
                           : PMPI_Iprobe(source, tag, comm, flag, status);
        return message ? PMPI_Mprobe(source, tag, comm, message, status) : PMPI_Probe(source, tag, comm, status);
    }
    dms_ask_probe((unsigned)known->id, wanted(source), wanted(tag), polls);
    wait_for_answer();
    if (polls)
        *flag = dms_values() > 0;
    if (dms_values() == 0)
        return MPI_SUCCESS;
    source = dms_value(0);
    tag = dms_value(1);
    if (!message)
        return PMPI_Probe(source, tag, comm, status);
    dms_take((unsigned)known->id, source, tag);
    return PMPI_Mprobe(source, tag, comm, message, status);
}

// ---- Persistent requests --------------------------------------------------------------------------------------------

void logical_prepare(int result, int sends, void *buf, MPI_Count count, MPI_Datatype type, int peer, int tag,
                     MPI_Comm comm, const MPI_Request *request)
{
    if (result != MPI_SUCCESS)
        return;
    struct entry entry = {
        .state = GIVEN,
        .is_receive = !sends,
        .is_persistent = 1,
        .mpi = *request,
        .buf = buf,
        .count = count,
        .type = type,
        .peer = peer,
        .tag = tag,
        .comm = comm,
    };
    int place = new_entry(entry);
    keep_type(place);
    dms_prepare(bits_of(*request), (unsigned)place);
    dms_add_persistent(bits_of(*request));
}

static int start(MPI_Request *request)
{
    int prepared = dms_prepared(bits_of(*request));
    if (prepared == NONE) {
        dms_add_request(bits_of(*request), NONE, 0);
        return PMPI_Start(request);
    }
    struct entry entry = entries[prepared];
    if (!entry.is_receive) {
        announce(entry.peer, entry.tag, entry.comm);
        dms_add_request(bits_of(*request), NONE, 0);
        return PMPI_Start(request);
    }
    int can_be_given, place = new_receive(entry, entry.peer, entry.tag, &can_be_given);
    if (place == NONE) {
        dms_add_request(bits_of(*request), NONE, 0);
        return PMPI_Start(request);
    }
    dms_add_request(bits_of(*request), place, 1);
    if (!can_be_given) {
        entries[place].has_stand_in = 1;
        return MPI_SUCCESS;
    }
    entries[place].state = GIVEN;
    return PMPI_Start(request);
}

int logical_startall(int count, MPI_Request *requests)
{
    int result = MPI_SUCCESS;
    for (int i = 0; i < count && result == MPI_SUCCESS; i++)
        result = start(&requests[i]);
    dms_announced();
    return result;
}
