// A messaging library with connection management over unreliable datagrams: a request is repeated until its reply has been
// noticed. See cm.h for the fault.
#include "cm.h"

#include "job.h"

struct ud_packet {
    uint64_t kind;
    uint64_t sequence; // of the connection that is asked for
    uint64_t queue_pair;
    uint64_t padding[5];
};

struct connection {
    uint64_t requested;      // sequence of the last request to this peer
    uint64_t answered;       // sequence of the last request of this peer that was answered
    bool awaits_reply;       // the flag that is to be read anew each time
    bool stale_awaits_reply; // what a reader has who does not
    uint64_t packets_sent;
    uint64_t packets_received;
};

enum { BUFFERS = 64, BUFFER_BYTES = 1024, TAG_DATA = 1, TAG_CM = 2, KIND_REQUEST = 1, KIND_REPLY = 2 };

static MPI_Comm communicator;
static int ranks;
static struct connection *connections; // by rank
static struct cm_statistics statistics;
static unsigned char *data_buffers;
static unsigned char *ud_buffers;
static unsigned char *receive_buffers;
static uint64_t next_data_buffer, next_ud_buffer, next_receive_buffer;

size_t cm_max_bytes(void)
{
    return BUFFER_BYTES;
}

void cm_open(MPI_Comm comm)
{
    communicator = comm;
    MPI_Comm_size(comm, &ranks);
    connections = must_allocate((size_t)ranks * sizeof(*connections));
    data_buffers = must_allocate(BUFFERS * BUFFER_BYTES);
    ud_buffers = must_allocate(BUFFERS * sizeof(struct ud_packet));
    receive_buffers = must_allocate(BUFFERS * BUFFER_BYTES);
    for (int peer = 0; peer < ranks; peer++)
        connections[peer] = (struct connection){0};
}

static unsigned char *next(unsigned char *buffers, uint64_t *counter, size_t buffer_bytes)
{
    return buffers + (*counter)++ % BUFFERS * buffer_bytes;
}

// Posts one connection packet through a registered buffer.
static __attribute__((noinline)) void cm_post_ud_packet(int peer, const struct ud_packet *packet)
{
    unsigned char *registered = next(ud_buffers, &next_ud_buffer, sizeof(*packet));
    COUNTED_COPY("stage connection packet", registered, packet, sizeof(*packet));
    COUNTED_SEND("connection packet", registered, sizeof(*packet), peer, TAG_CM, communicator);
    connections[peer].packets_sent++;
}

static void post_request(int peer)
{
    const struct ud_packet request = {
        .kind = KIND_REQUEST, .sequence = connections[peer].requested, .queue_pair = (uint64_t)peer};
    cm_post_ud_packet(peer, &request);
    statistics.requests++;
}

void cm_connect(int peer)
{
    connections[peer].requested++;
    connections[peer].awaits_reply = true;
    connections[peer].stale_awaits_reply = true;
    post_request(peer);
}

static void answer(int peer, uint64_t sequence)
{
    struct connection *connection = &connections[peer];
    if (sequence == connection->answered) {
        statistics.duplicates++;
        return;
    }
    connection->answered = sequence;
    const struct ud_packet reply = {.kind = KIND_REPLY, .sequence = sequence, .queue_pair = (uint64_t)peer};
    cm_post_ud_packet(peer, &reply);
    statistics.replies++;
}

static void receive_packet(int source)
{
    unsigned char *buffer = next(receive_buffers, &next_receive_buffer, BUFFER_BYTES);
    COUNTED_RECEIVE("connection packet", buffer, BUFFER_BYTES, source, TAG_CM, communicator, MPI_STATUS_IGNORE);
    const struct ud_packet *packet = (const struct ud_packet *)buffer;
    struct connection *connection = &connections[source];
    connection->packets_received++;
    if (packet->kind == KIND_REQUEST)
        answer(source, packet->sequence);
    else if (packet->sequence == connection->requested)
        connection->awaits_reply = false;
}

void cm_progress(void)
{
    for (;;) {
        int there = 0;
        MPI_Status status;
        MPI_Iprobe(MPI_ANY_SOURCE, TAG_CM, communicator, &there, &status);
        if (!there)
            return;
        receive_packet(status.MPI_SOURCE);
    }
}

static void repeat_request(int peer)
{
    if (statistics.repetitions++ == 0)
        statistics.first_repetition_ns = monotonic_ns();
    post_request(peer);
}

void cm_check_timers(bool reads_stale_flag, uint64_t repetitions)
{
    if (!reads_stale_flag)
        return; // no packet is ever lost here: a reply that is not there yet needs patience, no repetition
    for (int peer = 0; peer < ranks; peer++)
        for (uint64_t i = 0; connections[peer].stale_awaits_reply && i < repetitions; i++)
            repeat_request(peer);
}

void cm_send(const void *buffer, size_t bytes, int destination)
{
    unsigned char *staged = next(data_buffers, &next_data_buffer, BUFFER_BYTES);
    COUNTED_COPY("stage data", staged, buffer, bytes);
    COUNTED_SEND("data", staged, bytes, destination, TAG_DATA, communicator);
}

void cm_receive(void *buffer, size_t bytes, int source)
{
    unsigned char *staged = next(receive_buffers, &next_receive_buffer, BUFFER_BYTES);
    job_await_message(source, TAG_DATA, communicator);
    COUNTED_RECEIVE("data", staged, BUFFER_BYTES, source, TAG_DATA, communicator, MPI_STATUS_IGNORE);
    COUNTED_COPY("unstage data", buffer, staged, bytes);
}

struct cm_statistics cm_statistics(void)
{
    return statistics;
}

// Tells every peer how many packets it was sent in all and receives those that are still under way. Peers may answer while
// they drain, so this goes on until all counts agree.
static void drain(void)
{
    unsigned long *sent = must_allocate((size_t)ranks * sizeof(*sent));
    unsigned long *expected = must_allocate((size_t)ranks * sizeof(*expected));
    for (int all_there = 0; !all_there;) {
        cm_progress();
        for (int peer = 0; peer < ranks; peer++)
            sent[peer] = connections[peer].packets_sent;
        MPI_Alltoall(sent, 1, MPI_UNSIGNED_LONG, expected, 1, MPI_UNSIGNED_LONG, communicator);
        all_there = 1;
        for (int peer = 0; peer < ranks; peer++)
            all_there &= connections[peer].packets_received == expected[peer];
        MPI_Allreduce(MPI_IN_PLACE, &all_there, 1, MPI_INT, MPI_LAND, communicator);
    }
    free(sent);
    free(expected);
}

void cm_close(void)
{
    drain();
    free(receive_buffers);
    free(ud_buffers);
    free(data_buffers);
    free(connections);
}
