// A messaging library that caches headers: as long as a message's header equals that of the message before, only the
// payload goes over the wire. Credit updates travel between messages in a control slot of the connection. The fault is in
// the corner where a cached message follows such an update: the payload is staged in a new slot, as always, but sent from
// the connection's current slot, which is still the one of the update.
#include "msg.h"

#include "job.h"

// 32 bytes in front of the payload.
struct header {
    uint32_t kind;
    uint32_t bytes;
    uint64_t series; // messages of one series have equal headers
    uint64_t credits;
    uint64_t reserved;
};

// What is known about one peer. A control slot is only ever written field by field, never copied into.
struct connection {
    struct header header_sent;
    unsigned char *current_slot;
    unsigned char *control_slot;
    uint64_t messages_sent;
    uint64_t credits_seen;
};

// With room for messages that the receiver reads out of the sender's memory.
enum { SLOTS = 64, SLOT_BYTES = 65 * 1024, MAX_MESSAGE_BYTES = SLOT_BYTES - sizeof(struct header) };
enum { KIND_DATA = 1, KIND_CREDIT = 2 };
enum { TAG_FULL = 1, TAG_CACHED = 2, TAG_CREDIT = 3 };

// A header is new once in this many messages of a connection.
#define MESSAGES_PER_SERIES 20

static struct msg_options options;
static struct msg_statistics statistics;
static struct connection *connections; // by rank
static unsigned char *send_slots;
static unsigned char *receive_slots;
static uint64_t next_send_slot;
static uint64_t next_receive_slot;

size_t msg_max_bytes(void)
{
    return MAX_MESSAGE_BYTES;
}

void msg_open(const struct msg_options *given)
{
    int ranks = 0;
    options = *given;
    MPI_Comm_size(options.comm, &ranks);
    connections = must_allocate((size_t)ranks * sizeof(*connections));
    // One pool, as registered memory is: whatever is sent comes from the same allocation.
    send_slots = must_allocate((SLOTS + (size_t)ranks) * SLOT_BYTES);
    unsigned char *control_slots = send_slots + SLOTS * SLOT_BYTES;
    receive_slots = must_allocate(SLOTS * SLOT_BYTES);
    for (int peer = 0; peer < ranks; peer++)
        connections[peer] = (struct connection){.control_slot = control_slots + (size_t)peer * SLOT_BYTES};
}

void msg_close(void)
{
    free(receive_slots);
    free(send_slots);
    free(connections);
}

struct msg_statistics msg_statistics(void)
{
    return statistics;
}

static unsigned char *take_send_slot(void)
{
    return send_slots + next_send_slot++ % SLOTS * SLOT_BYTES;
}

// Out of line: all paths reach MPI through one call site.
static __attribute__((noinline)) void low_level_send(const void *start, size_t bytes, int destination, int tag)
{
    COUNTED_SEND("low level send", start, bytes, destination, tag, options.comm);
}

// True once in 1/rare_rate messages of a connection, in all ranks alike; never where a series begins.
static bool credit_is_due(const struct connection *connection)
{
    if (options.rare_rate <= 0 || monotonic_ns() < options.rare_from_ns)
        return false;
    const uint64_t interval = (uint64_t)(1 / options.rare_rate + 0.5);
    const bool series_begins = connection->messages_sent % MESSAGES_PER_SERIES == 0;
    return connection->messages_sent % interval == interval / 2 && !series_begins;
}

static void send_credit(struct connection *connection, int destination)
{
    struct header *credit = (struct header *)connection->control_slot;
    *credit = (struct header){.kind = KIND_CREDIT, .credits = SLOTS};
    connection->current_slot = connection->control_slot;
    low_level_send(credit, sizeof(*credit), destination, TAG_CREDIT);
    statistics.rare_sends++;
}

static bool equal(const struct header *a, const struct header *b)
{
    return a->kind == b->kind && a->bytes == b->bytes && a->series == b->series;
}

static void note_wrong_send(void)
{
    if (statistics.wrong_sends++ == 0)
        statistics.first_wrong_ns = monotonic_ns();
}

void msg_send(const void *buffer, size_t bytes, int destination)
{
    struct connection *connection = &connections[destination];
    const struct header header = {
        .kind = KIND_DATA, .bytes = (uint32_t)bytes, .series = connection->messages_sent / MESSAGES_PER_SERIES};
    const bool after_credit = credit_is_due(connection);
    if (after_credit)
        send_credit(connection, destination);

    unsigned char *slot = take_send_slot();
    COUNTED_COPY("stage", slot + sizeof(header), buffer, bytes);
    if (connection->messages_sent > 0 && equal(&header, &connection->header_sent)) {
        if (after_credit && options.with_fault)
            note_wrong_send(); // the fault: the current slot is not moved on to the new one
        else
            connection->current_slot = slot;
        low_level_send(connection->current_slot + sizeof(header), bytes, destination, TAG_CACHED);
    } else {
        *(struct header *)slot = header;
        connection->header_sent = header;
        connection->current_slot = slot;
        low_level_send(slot, sizeof(header) + bytes, destination, TAG_FULL);
    }
    connection->messages_sent++;
    statistics.sends++;
}

// Receives one message of any kind into the next slot and returns its tag.
static int low_level_receive(unsigned char **slot, int source)
{
    MPI_Status status;
    *slot = receive_slots + next_receive_slot++ % SLOTS * SLOT_BYTES;
    job_await_message(source, MPI_ANY_TAG, options.comm);
    COUNTED_RECEIVE("low level receive", *slot, SLOT_BYTES, source, MPI_ANY_TAG, options.comm, &status);
    return status.MPI_TAG;
}

void msg_receive(void *buffer, size_t bytes, int source)
{
    unsigned char *slot = NULL;
    int tag = low_level_receive(&slot, source);
    while (tag == TAG_CREDIT) {
        connections[source].credits_seen += ((const struct header *)slot)->credits;
        tag = low_level_receive(&slot, source);
    }
    const unsigned char *payload = slot + (tag == TAG_FULL ? sizeof(struct header) : 0);
    COUNTED_COPY("unstage", buffer, payload, bytes);
}
