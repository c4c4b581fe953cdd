// A messaging library that fills communication buffers from their bottom upwards, so that what is piggybacked on a
// message can be put in front of its data without moving it. The pointer arithmetic of the rare piggyback path lacks a
// pair of parentheses: it steps back by sizeof(piggyback) structures instead of bytes, and the message leaves from
// another communication buffer.
#include "msg.h"


#include "job.h"

// What a rank tells its peer now and then, in front of a message's data.
typedef struct {
    uint64_t event;
    uint64_t sequence;
    uint64_t free_buffers;
    uint64_t sent;
    uint64_t received;
} piggyback_t;

// With a 40-byte piggyback the faulty pointer is 1600 bytes above the data. Buffers of 1024 bytes with at most 448 bytes
// of data at their bottom: the faulty range then lies inside the buffer before, and above the data staged there.
enum { COMM_BUFFERS = 64, COMM_BUFFER_BYTES = 1024, MAX_MESSAGE_BYTES = 448, TAG_PLAIN = 1, TAG_PIGGYBACK = 2 };
_Static_assert(sizeof(piggyback_t) == 40, "the numbers above depend on it");

static struct msg_options options;
static struct msg_statistics statistics;
static unsigned char *send_pool; // one buffer more than is used: there is always a buffer before
static unsigned char *receive_pool;
static uint64_t next_send_buffer;
static uint64_t next_receive_buffer;
static uint64_t received;
static int own_rank;

size_t msg_max_bytes(void)
{
    return MAX_MESSAGE_BYTES;
}

void msg_open(const struct msg_options *given)
{
    options = *given;
    MPI_Comm_rank(options.comm, &own_rank);
    send_pool = must_allocate((COMM_BUFFERS + 1) * COMM_BUFFER_BYTES);
    receive_pool = must_allocate(COMM_BUFFERS * COMM_BUFFER_BYTES);
}

void msg_close(void)
{
    free(send_pool);
    free(receive_pool);
}

struct msg_statistics msg_statistics(void)
{
    return statistics;
}

// End of the next communication buffer of the pool.
static unsigned char *get_comm_buf_bottom(void)
{
    const uint64_t index = 1 + next_send_buffer++ % COMM_BUFFERS;
    return send_pool + (index + 1) * COMM_BUFFER_BYTES;
}

// The rare event (out of resources, say) that a peer must be told about.
static bool need_piggyback(void)
{
    const double draw = (double)(mix((uint64_t)own_rank, statistics.sends, 2) >> 11) * 0x1p-53;
    return draw < options.rare_rate && monotonic_ns() >= options.rare_from_ns;
}

static void note_wrong_send(void)
{
    if (statistics.wrong_sends++ == 0)
        statistics.first_wrong_ns = monotonic_ns();
}

// Out of line: both paths of msg_send reach MPI through one call site.
static __attribute__((noinline)) void low_level_send(const void *start, size_t bytes, int destination, int tag)
{
    COUNTED_SEND("low level send", start, bytes, destination, tag, options.comm);
    statistics.sends++;
}

void msg_send(const void *buf, size_t len, int destination)
{
    unsigned char *comm_buf_bottom = get_comm_buf_bottom();
    unsigned char *data_buf = comm_buf_bottom - len;
    COUNTED_COPY("stage", data_buf, buf, len);
    if (need_piggyback()) {
        piggyback_t *pb;
        if (options.with_fault) {
            pb = (piggyback_t *)data_buf - sizeof(piggyback_t); // the fault: missing parentheses
            note_wrong_send();
        } else {
            pb = (piggyback_t *)(data_buf - sizeof(piggyback_t));
        }
        *pb = (piggyback_t){.event = 1, .sequence = statistics.rare_sends++, .sent = statistics.sends, .received = received};
        low_level_send(pb, len + sizeof(piggyback_t), destination, TAG_PIGGYBACK);
    } else {
        low_level_send(data_buf, len, destination, TAG_PLAIN);
    }
}

void msg_receive(void *buf, size_t len, int source)
{
    unsigned char *comm_buf = receive_pool + next_receive_buffer++ % COMM_BUFFERS * COMM_BUFFER_BYTES;
    MPI_Status status;
    job_await_message(source, MPI_ANY_TAG, options.comm);
    COUNTED_RECEIVE("low level receive", comm_buf, COMM_BUFFER_BYTES, source, MPI_ANY_TAG, options.comm, &status);
    received++;
    const unsigned char *data = comm_buf + (status.MPI_TAG == TAG_PIGGYBACK ? sizeof(piggyback_t) : 0);
    COUNTED_COPY("unstage", buf, data, len);
}
