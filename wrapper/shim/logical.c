// Deterministic runs: calls that are decided by logical time. What is decided is asked of `logical_abi.rs`; here MPI is made to do
// it.
//
// A receive from anybody is given to MPI when its message is decided, from that source and with that tag. Until then the program
// has another request for it, which is never started.
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "logical.h"

enum { INACTIVE = -2, FEW = 64, SURELY_BUFFERED_BYTES = 1024 };

// ---- Looking and waiting --------------------------------------------------------------------------------------------

static void post_decided(void);

static int is_answered(void)
{
    int answer = dms_turn();
    if (answer & 2)
        post_decided();
    return answer & 1;
}

static void wait_for_answer(void)
{
    while (!is_answered())
        progress();
}

// Waits until MPI has done what it surely will.
static int finish(MPI_Request *request, MPI_Status *status)
{
    int flag = 0, result = PMPI_Test(request, &flag, status);
    while (result == MPI_SUCCESS && !flag) {
        sched_yield();
        result = PMPI_Test(request, &flag, status);
    }
    return result;
}

// Waits for what may need that others receive; 0: the test was put off.
static int finish_or_put_off(int is_test, MPI_Request *request, MPI_Status *status, int *result)
{
    int flag = 0;
    *result = PMPI_Test(request, &flag, status);
    if (flag || *result != MPI_SUCCESS)
        return 1;
    dms_ask_mpi(is_test);
    while (!is_answered()) {
        progress();
        *result = PMPI_Test(request, &flag, status);
        if (flag || *result != MPI_SUCCESS) {
            dms_stop_asking();
            return 1;
        }
    }
    return 0;
}

static int is_complete_or_put_off(MPI_Request request, int *result)
{
    int flag = 0;
    dms_ask_mpi(1);
    for (;;) {
        *result = PMPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE);
        if (flag || *result != MPI_SUCCESS) {
            dms_stop_asking();
            return 1;
        }
        if (is_answered())
            return 0;
        progress();
    }
}

// ---- Communicators -------------------------------------------------------------------------------------------------

struct comm {
    MPI_Comm handle;
    int id, size;
    int *group;  // ranks of the world that messages go to and come from
};

static struct comm *comms;
static int comm_count, last_comm;

static int *world_ranks(MPI_Group group, int *count)
{
    MPI_Group world;
    PMPI_Group_size(group, count);
    int room = *count > 0 ? *count : 1;
    int *ranks = malloc((size_t)room * sizeof *ranks), *here = malloc((size_t)room * sizeof *here);
    if (!ranks || !here)
        PMPI_Abort(MPI_COMM_WORLD, MPI_ERR_NO_MEM);
    for (int i = 0; i < *count; i++)
        here[i] = i;
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    PMPI_Group_translate_ranks(group, *count, here, world, ranks);
    PMPI_Group_free(&world);
    free(here);
    return ranks;
}

static void add_comm(MPI_Comm handle, int id)
{
    MPI_Group local, remote;
    int is_inter, count, others = 0, *group, *far = NULL;
    PMPI_Comm_test_inter(handle, &is_inter);
    PMPI_Comm_group(handle, &local);
    group = world_ranks(local, &count);
    PMPI_Group_free(&local);
    if (is_inter) {
        PMPI_Comm_remote_group(handle, &remote);
        far = world_ranks(remote, &others);
        PMPI_Group_free(&remote);
    }
    int *all = malloc((size_t)(count + others + 1) * sizeof *all);
    comms = realloc(comms, (size_t)(comm_count + 1) * sizeof *comms);
    if (!all || !comms)
        PMPI_Abort(MPI_COMM_WORLD, MPI_ERR_NO_MEM);
    memcpy(all, group, (size_t)count * sizeof *all);
    if (others)
        memcpy(all + count, far, (size_t)others * sizeof *all);
    if (id > 1)
        dms_add_comm((unsigned)id, is_inter ? others : count, is_inter ? far : group, count + others, all);
    comms[comm_count++] =
        (struct comm){handle, id, is_inter ? others : count, is_inter ? far : group};
    if (is_inter)
        free(group);
    free(all);
}

// NULL: it was made by a call that is not looked at.
static const struct comm *comm_of(MPI_Comm handle)
{
    if (!comm_count) {
        add_comm(MPI_COMM_WORLD, 0);
        add_comm(MPI_COMM_SELF, 1);
    }
    if (last_comm < comm_count && comms[last_comm].handle == handle)
        return &comms[last_comm];
    for (int i = comm_count - 1; i >= 0; i--)
        if (comms[i].handle == handle) {
            last_comm = i;
            return &comms[i];
        }
    if (handle != MPI_COMM_NULL)
        dms_uncovered(4);
    return NULL;
}

void meet(MPI_Comm comm)
{
    const struct comm *known = comm_of(comm);
    if (!known || known->id == 1)
        return;
    dms_ask_meeting((unsigned)known->id);
    wait_for_answer();
}

static void meet_ranks(int count, const int *ranks, int tag)
{
    int id = dms_group(count, ranks, tag);
    if (id < 0) {
        dms_uncovered(4);
        return;
    }
    dms_ask_meeting((unsigned)id);
    wait_for_answer();
}

void meet_group(MPI_Group group, int tag)
{
    int count, *ranks = world_ranks(group, &count);
    meet_ranks(count, ranks, tag);
    free(ranks);
}

void meet_both(MPI_Comm local, int local_leader, MPI_Comm peer, int remote_leader, int tag)
{
    int rank, own;
    meet(local);
    PMPI_Comm_rank(local, &rank);
    PMPI_Comm_rank(MPI_COMM_WORLD, &own);
    const struct comm *known = rank == local_leader ? comm_of(peer) : NULL;
    if (known && remote_leader >= 0 && remote_leader < known->size) {
        const int leaders[] = {own, known->group[remote_leader]};
        // No group has such a tag.
        meet_ranks(2, leaders, ~tag);
    }
    meet(local);
}

void name_comm(int result, const MPI_Comm *made)
{
    if (result != MPI_SUCCESS || *made == MPI_COMM_NULL)
        return;
    comm_of(MPI_COMM_WORLD);
    MPI_Comm among = *made;
    int is_inter, rank, id = -1;
    PMPI_Comm_test_inter(*made, &is_inter);
    if (is_inter)
        PMPI_Intercomm_merge(*made, 0, &among);
    PMPI_Comm_rank(among, &rank);
    if (rank == 0)
        id = dms_new_comm();
    PMPI_Bcast(&id, 1, MPI_INT, 0, among);
    if (is_inter)
        PMPI_Comm_free(&among);
    if (id < 0)
        dms_uncovered(4);
    else
        add_comm(*made, id);
}

void forget_comm(MPI_Comm comm)
{
    for (int i = 0; i < comm_count; i++)
        if (comms[i].handle == comm) {
            dms_remove_comm((unsigned)comms[i].id);
            free(comms[i].group);
            comms[i] = comms[--comm_count];
            return;
        }
}

int logical_ranks_here(void)
{
    MPI_Comm node;
    int size = 0;
    if (PMPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node) != MPI_SUCCESS)
        return 0;
    PMPI_Comm_size(node, &size);
    PMPI_Comm_free(&node);
    return size;
}

// ---- Requests that the program has in place of others -----------------------------------------------------------------

// Never started; used again and again.
static MPI_Request *unused;
static int unused_count, unused_room;

static MPI_Request stand_in(void)
{
    MPI_Request made;
    if (unused_count)
        return unused[--unused_count];
    PMPI_Recv_init(NULL, 0, MPI_BYTE, 0, 0, silent_comm(), &made);
    return made;
}

static void give_back(MPI_Request request)
{
    if (unused_count == unused_room) {
        unused_room = unused_room ? 2 * unused_room : FEW;
        unused = realloc(unused, (size_t)unused_room * sizeof *unused);
        if (!unused)
            PMPI_Abort(MPI_COMM_WORLD, MPI_ERR_NO_MEM);
    }
    unused[unused_count++] = request;
}

void logical_end(void)
{
    while (unused_count)
        PMPI_Request_free(&unused[--unused_count]);
}

// What MPI does for a request of the program, or is to do.
struct entry {
    enum { UNUSED, OPEN, GIVEN, FREED } state;
    int is_receive;
    int has_stand_in;  // the program's request is another one than MPI's
    int is_persistent;
    MPI_Request mpi;
    void *buf;
    MPI_Count count;
    MPI_Datatype type;  // a duplicate: the program may free its own
    int peer, tag;
    MPI_Comm comm;
};

static struct entry *entries;
static int entry_room, next_free;

static int new_entry(struct entry entry)
{
    int place = next_free;
    while (place < entry_room && entries[place].state != UNUSED)
        place++;
    if (place == entry_room) {
        int larger = entry_room ? 2 * entry_room : FEW;
        entries = realloc(entries, (size_t)larger * sizeof *entries);
        if (!entries)
            PMPI_Abort(MPI_COMM_WORLD, MPI_ERR_NO_MEM);
        memset(entries + entry_room, 0, (size_t)(larger - entry_room) * sizeof *entries);
        entry_room = larger;
    }
    entries[place] = entry;
    next_free = place + 1;
    return place;
}

static void free_entry(int place)
{
    entries[place].state = UNUSED;
    if (place < next_free)
        next_free = place;
}

static int post(const struct entry *entry, int source, int tag, MPI_Request *request)
{
#if MPI_VERSION >= 4
    return PMPI_Irecv_c(entry->buf, entry->count, entry->type, source, tag, entry->comm, request);
#else
    return PMPI_Irecv(entry->buf, (int)entry->count, entry->type, source, tag, entry->comm, request);
#endif
}

// Gives MPI the receives that were decided, in this order.
static void post_decided(void)
{
    int source, tag, place;
    while ((place = dms_next_decided(&source, &tag)) >= 0) {
        struct entry *entry = &entries[place];
        if (entry->state != OPEN && entry->state != FREED)
            continue;
        int is_freed = entry->state == FREED;
        post(entry, source, tag, &entry->mpi);
        entry->state = GIVEN;
        if (!entry->is_persistent)
            PMPI_Type_free(&entry->type);
        if (is_freed) {
            PMPI_Request_free(&entry->mpi);
            dms_forget_receive((unsigned)place);
            free_entry(place);
        }
    }
}

// ---- Sends ----------------------------------------------------------------------------------------------------------

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

static void keep_type(int place)
{
    PMPI_Type_dup(entries[place].type, &entries[place].type);
}

static void forget(int place)
{
    if (entries[place].is_receive)
        dms_forget_receive((unsigned)place);
    free_entry(place);
}

int logical_recv(void *buf, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    MPI_Request request;
    int result = logical_irecv(buf, count, type, source, tag, comm, &request);
    return result == MPI_SUCCESS ? logical_wait(&request, status) : result;
}

int logical_irecv(void *buf, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                  MPI_Request *request)
{
    struct entry entry = {.buf = buf, .count = count, .type = type, .comm = comm};
    int can_be_given, place = new_receive(entry, source, tag, &can_be_given);
    if (place == NONE)
        return post(&entry, source, tag, request);
    entries[place].has_stand_in = 1;
    if (can_be_given) {
        int result = post(&entry, source, tag, &entries[place].mpi);
        if (result != MPI_SUCCESS) {
            forget(place);
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

static int finish_send(MPI_Request *request)
{
    int result;
    finish_or_put_off(0, request, MPI_STATUS_IGNORE, &result);
    return result;
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
        sent = finish_send(&sends);
    return received != MPI_SUCCESS ? received : sent;
}

int logical_sendrecv_replace(void *buf, MPI_Count count, MPI_Datatype type, int dest, int sendtag, int source,
                             int recvtag, MPI_Comm comm, MPI_Status *status)
{
    int size = 0, packed = 0, result = PMPI_Pack_size((int)count, type, comm, &size);
    char *copy = result == MPI_SUCCESS ? malloc((size_t)(size ? size : 1)) : NULL;
    if (!copy)
        return result == MPI_SUCCESS ? MPI_ERR_NO_MEM : result;
    result = PMPI_Pack(buf, (int)count, type, copy, size, &packed, comm);
    if (result == MPI_SUCCESS)
        result = logical_sendrecv(copy, packed, MPI_PACKED, dest, sendtag, buf, count, type, source, recvtag, comm,
                                  status);
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
    struct entry entry = {GIVEN, !sends, 0, 1, *request, buf, count, type, peer, tag, comm};
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

// ---- Completion -----------------------------------------------------------------------------------------------------

// A request of the program, and that of MPI for it.
struct active {
    int place;
    MPI_Request *mpi;
};

static struct active active_of(MPI_Request *request)
{
    int place = dms_request(bits_of(*request));
    if (place >= 0 && entries[place].has_stand_in)
        return (struct active){place, &entries[place].mpi};
    return (struct active){place, request};
}

// MPI has completed it.
static void is_over(MPI_Request *request, uint64_t bits, struct active at)
{
    dms_remove_request(bits);
    if (at.place < 0)
        return;
    // Of a persistent one the program keeps its own.
    if (entries[at.place].has_stand_in && !entries[at.place].is_persistent) {
        give_back(*request);
        *request = MPI_REQUEST_NULL;
    }
    forget(at.place);
}

static int is_receive(struct active at)
{
    return at.place >= 0 && entries[at.place].is_receive;
}

// Completes one whose time has come; 0: it is put off.
static int complete(int is_test, MPI_Request *request, MPI_Status *status, int *result)
{
    struct active at = active_of(request);
    uint64_t bits = bits_of(*request);
    if (at.place == INACTIVE) {
        int flag;
        *result = PMPI_Test(request, &flag, status);
        return 1;
    }
    if (is_receive(at)) {
        *result = finish(at.mpi, status);
    } else if (!finish_or_put_off(is_test, at.mpi, status, result)) {
        dms_put_off(bits);
        return 0;
    }
    is_over(request, bits, at);
    return 1;
}

int logical_wait(MPI_Request *request, MPI_Status *status)
{
    int result;
    struct active at = active_of(request);
    if (is_receive(at)) {
        dms_ask_receive((unsigned)at.place);
        wait_for_answer();
    }
    complete(0, request, status, &result);
    return result;
}

static MPI_Status *status_at(MPI_Status *statuses, int at)
{
    return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[at];
}

// What a call for several answers if one of them failed.
static int in_status(int failed, MPI_Status *statuses, int at, int result)
{
    if (statuses != MPI_STATUSES_IGNORE && result != MPI_SUCCESS)
        statuses[at].MPI_ERROR = result;
    return failed || result != MPI_SUCCESS;
}

int logical_waitall(int count, MPI_Request *requests, MPI_Status *statuses)
{
    int failed = 0;
    for (int i = 0; i < count; i++)
        failed = in_status(failed, statuses, i, logical_wait(&requests[i], status_at(statuses, i)));
    return failed ? MPI_ERR_IN_STATUS : MPI_SUCCESS;
}

// Asks about several requests.
static void ask_requests(char what, int count, const MPI_Request *requests)
{
    uint64_t few[FEW] = {0}, *bits = count <= FEW ? few : malloc((size_t)count * sizeof *bits);
    if (!bits)
        PMPI_Abort(MPI_COMM_WORLD, MPI_ERR_NO_MEM);
    for (int i = 0; i < count; i++)
        bits[i] = bits_of(requests[i]);
    dms_ask_requests(what, count, bits);
    if (bits != few)
        free(bits);
    wait_for_answer();
}

int logical_waitany(int count, MPI_Request *requests, int *index, MPI_Status *status)
{
    for (;;) {
        int result, active = 0;
        ask_requests('A', count, requests);
        if (dms_values() == 0)
            return PMPI_Waitany(0, requests, index, status);
        *index = dms_value(0);
        for (int i = 0; i < count; i++)
            active += dms_request(bits_of(requests[i])) != INACTIVE;
        // Another one may be complete while this one is not.
        if (complete(active > 1, &requests[*index], status, &result))
            return result;
    }
}

int logical_waitsome(int count, MPI_Request *requests, int *outcount, int *indices, MPI_Status *statuses)
{
    // Where nothing is active there may be no room for an answer.
    MPI_Status status;
    MPI_Status *told = statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &status;
    int index, result = logical_waitany(count, requests, &index, told);
    if (index == MPI_UNDEFINED) {
        *outcount = MPI_UNDEFINED;
        return result;
    }
    *outcount = 1;
    indices[0] = index;
    if (statuses != MPI_STATUSES_IGNORE) {
        status.MPI_ERROR = statuses[0].MPI_ERROR;
        statuses[0] = status;
    }
    return in_status(0, statuses, 0, result) ? MPI_ERR_IN_STATUS : MPI_SUCCESS;
}

int logical_test(MPI_Request *request, int *flag, MPI_Status *status)
{
    int result = MPI_SUCCESS;
    ask_requests('l', 1, request);
    *flag = dms_value(0) && complete(1, request, status, &result);
    return result;
}

int logical_testall(int count, MPI_Request *requests, int *flag, MPI_Status *statuses)
{
    int result = MPI_SUCCESS;
    ask_requests('l', count, requests);
    *flag = dms_value(0);
    for (int i = 0; *flag && i < count; i++) {
        struct active at = active_of(&requests[i]);
        if (at.place == INACTIVE || is_receive(at) || is_complete_or_put_off(*at.mpi, &result))
            continue;
        dms_put_off(bits_of(requests[i]));
        *flag = 0;
    }
    return *flag ? logical_waitall(count, requests, statuses) : MPI_SUCCESS;
}

int logical_testany(int count, MPI_Request *requests, int *index, int *flag, MPI_Status *status)
{
    int result = MPI_SUCCESS;
    ask_requests('a', count, requests);
    if (dms_values() > 0 && dms_value(0) == NONE)
        return PMPI_Testany(0, requests, index, flag, status);
    *index = dms_values() > 0 ? dms_value(0) : MPI_UNDEFINED;
    *flag = *index != MPI_UNDEFINED && complete(1, &requests[*index], status, &result);
    if (!*flag)
        *index = MPI_UNDEFINED;
    return result;
}

int logical_testsome(int count, MPI_Request *requests, int *outcount, int *indices, MPI_Status *statuses)
{
    ask_requests('s', count, requests);
    int due = dms_values(), failed = 0;
    if (due > 0 && dms_value(0) == NONE) {
        *outcount = MPI_UNDEFINED;
        return MPI_SUCCESS;
    }
    *outcount = 0;
    // Other questions may be asked meanwhile.
    for (int i = 0; i < due; i++)
        indices[i] = dms_value((unsigned)i);
    for (int i = 0; i < due; i++) {
        int result;
        if (!complete(1, &requests[indices[i]], status_at(statuses, *outcount), &result))
            continue;
        failed = in_status(failed, statuses, *outcount, result);
        indices[(*outcount)++] = indices[i];
    }
    return failed ? MPI_ERR_IN_STATUS : MPI_SUCCESS;
}

int logical_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
    int result = MPI_SUCCESS;
    ask_requests('l', 1, &request);
    struct active at = active_of(&request);
    *flag = dms_value(0);
    if (*flag && at.place != INACTIVE && !is_receive(at) && !is_complete_or_put_off(*at.mpi, &result)) {
        dms_put_off(bits_of(request));
        *flag = 0;
    }
    if (!*flag)
        return result;
    *flag = 0;
    while (!*flag && result == MPI_SUCCESS) {
        result = PMPI_Request_get_status(*at.mpi, flag, status);
        if (!*flag)
            sched_yield();
    }
    return result;
}

int logical_request_free(MPI_Request *request)
{
    uint64_t bits = bits_of(*request);
    struct active at = active_of(request);
    int prepared = dms_prepared(bits);
    dms_remove_request(bits);
    if (prepared != NONE) {
        PMPI_Type_free(&entries[prepared].type);
        free_entry(prepared);
        dms_forget(bits);
        dms_remove_persistent(bits);
        return PMPI_Request_free(request);
    }
    if (at.place < 0 || !entries[at.place].has_stand_in)
        return PMPI_Request_free(request);
    give_back(*request);
    *request = MPI_REQUEST_NULL;
    if (entries[at.place].state == OPEN) {
        entries[at.place].state = FREED;
        return MPI_SUCCESS;
    }
    int result = PMPI_Request_free(&entries[at.place].mpi);
    // A receive that MPI has still takes its message.
    if (!entries[at.place].is_receive)
        free_entry(at.place);
    return result;
}

// In the place of a receive that was cancelled: one that MPI has cancelled.
static int cancel_another(struct entry *entry)
{
    int result = PMPI_Irecv(NULL, 0, MPI_BYTE, 0, 0, silent_comm(), &entry->mpi);
    return result == MPI_SUCCESS ? PMPI_Cancel(&entry->mpi) : result;
}

int logical_cancel(MPI_Request *request)
{
    struct active at = active_of(request);
    if (at.place == INACTIVE || !is_receive(at))
        return PMPI_Cancel(at.mpi);
    struct entry *entry = &entries[at.place];
    dms_ask_cancel((unsigned)at.place);
    wait_for_answer();
    entry = &entries[at.place];
    if (!dms_value(0))
        return MPI_SUCCESS;
    if (entry->state == GIVEN) {
        MPI_Status status;
        int was_cancelled = 0, flag = 0, result = PMPI_Cancel(at.mpi);
        while (result == MPI_SUCCESS && !flag)
            result = PMPI_Request_get_status(*at.mpi, &flag, &status);
        if (result == MPI_SUCCESS)
            PMPI_Test_cancelled(&status, &was_cancelled);
        if (was_cancelled)
            dms_receive_cancelled((unsigned)at.place);
        return result;
    }
    if (!entry->is_persistent)
        PMPI_Type_free(&entry->type);
    entry->state = GIVEN;
    entry->has_stand_in = 1;
    dms_receive_cancelled((unsigned)at.place);
    return cancel_another(entry);
}
