// Lapses with single messages.
#include "errors.h"
#include "job.h"
#include "work.h"

// Each of the first ranks receives from its left neighbour and sends to its right one; one of them should send first.
static uint64_t shift(const struct scene *scene, int members)
{
    if (scene->rank >= members)
        return 0;
    const int right = (scene->rank + 1) % members, left = (scene->rank + members - 1) % members;
    const bool sends_first = !scene->faulty && scene->rank == 0;
    int number = 0;
    if (sends_first)
        send_number(right);
    MPI_Recv(&number, 1, MPI_INT, left, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE); // at fault: all receive first
    if (!sends_first)
        send_number(right);
    return number != NUMBER;
}

static uint64_t recv_recv(const struct scene *scene)
{
    return shift(scene, 2);
}

static uint64_t recv_cycle(const struct scene *scene)
{
    return shift(scene, scene->ranks);
}

static uint64_t send_send(const struct scene *scene)
{
    if (scene->rank > 1)
        return 0;
    const int partner = 1 - scene->rank, bytes = (int)scene->long_bytes;
    const bool sends_first = scene->faulty || scene->rank == 0;
    unsigned char *out = must_allocate(scene->long_bytes), *in = must_allocate(scene->long_bytes);
    pattern_fill(out, scene->long_bytes, (uint64_t)scene->rank);
    if (sends_first)
        MPI_Send(out, bytes, MPI_BYTE, partner, TAG, MPI_COMM_WORLD); // at fault: send_send
    MPI_Recv(in, bytes, MPI_BYTE, partner, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (!sends_first)
        MPI_Send(out, bytes, MPI_BYTE, partner, TAG, MPI_COMM_WORLD);
    const uint64_t errors = pattern_errors(in, scene->long_bytes, (uint64_t)partner);
    free(in);
    free(out);
    return errors;
}

// Rank 0 forgets a message and is done.
static uint64_t never_sent(const struct scene *scene)
{
    int number = 0;
    if (scene->rank == 0 && !scene->faulty)
        send_number(1);
    if (scene->rank != 1)
        return 0;
    MPI_Recv(&number, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE); // at fault: never_sent
    return number != NUMBER;
}

// Rank 0 forgets a message and waits in a barrier.
static uint64_t sender_in_barrier(const struct scene *scene)
{
    int number = NUMBER;
    if (scene->rank == 0 && !scene->faulty)
        send_number(1);
    if (scene->rank == 1)
        MPI_Recv(&number, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE); // at fault: sender_in_barrier
    MPI_Barrier(MPI_COMM_WORLD);
    return number != NUMBER;
}

static uint64_t wrong_tag(const struct scene *scene)
{
    const int tag = scene->faulty ? OTHER_TAG : TAG;
    int number = 0;
    if (scene->rank == 0)
        send_number(1);
    if (scene->rank != 1)
        return 0;
    MPI_Recv(&number, 1, MPI_INT, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE); // at fault: wrong_tag
    return number != NUMBER;
}

static uint64_t wrong_communicator(const struct scene *scene)
{
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    const MPI_Comm comm = scene->faulty ? copy : MPI_COMM_WORLD;
    int number = NUMBER;
    if (scene->rank == 0)
        send_number(1);
    if (scene->rank == 1) {
        number = 0;
        MPI_Recv(&number, 1, MPI_INT, 0, TAG, comm, MPI_STATUS_IGNORE); // at fault: wrong_communicator
    }
    if (!scene->faulty)
        MPI_Comm_free(&copy);
    return number != NUMBER;
}

// Rank 0 waits until its message is received, while rank 2 computes, which has nothing to do with it.
static uint64_t wrong_source(const struct scene *scene)
{
    int number = NUMBER;
    if (scene->rank == 0)
        MPI_Ssend(&number, 1, MPI_INT, 1, TAG, MPI_COMM_WORLD);
    if (scene->rank == 2)
        compute_for(scene->compute_s);
    if (scene->rank != 1)
        return 0;
    const int from = scene->faulty ? 2 : 0;
    number = 0;
    MPI_Recv(&number, 1, MPI_INT, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE); // at fault: wrong_source
    return number != NUMBER;
}

// Rank 1 waits for the message that goes to rank 2, which computes.
static uint64_t wrong_destination(const struct scene *scene)
{
    const int to = scene->faulty ? 2 : 1, number = NUMBER;
    if (scene->rank == 0)
        MPI_Ssend(&number, 1, MPI_INT, to, TAG, MPI_COMM_WORLD); // at fault: wrong_destination
    if (scene->rank == 2)
        compute_for(scene->compute_s);
    return scene->rank == 1 ? receive_number(0) : 0;
}

// Rank 0 serves whoever asks; with the lapse, the others wait for its answer without having asked.
static uint64_t any_source_cycle(const struct scene *scene)
{
    if (scene->rank > 0) {
        if (!scene->faulty)
            send_number(0);
        return receive_number(0);
    }
    uint64_t errors = 0;
    for (int served = 1; served < scene->ranks; served++) {
        MPI_Status status;
        int number = 0;
        MPI_Recv(&number, 1, MPI_INT, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &status); // at fault: any_source_cycle
        errors += number != NUMBER;
        send_number(status.MPI_SOURCE);
    }
    return errors;
}

// Rank 0 expects one message more than there are.
static uint64_t any_source_extra(const struct scene *scene)
{
    if (scene->rank > 0) {
        send_number(0);
        return 0;
    }
    const int expected = scene->ranks - 1 + scene->faulty;
    uint64_t errors = 0;
    for (int received = 0; received < expected; received++) {
        MPI_Status status;
        int number = 0;
        MPI_Recv(&number, 1, MPI_INT, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &status); // at fault: any_source_extra
        errors += number != NUMBER;
    }
    return errors;
}

static uint64_t truncated(const struct scene *scene)
{
    enum { SENT = 16 };
    const int room = scene->faulty ? SENT / 2 : SENT;
    int numbers[SENT] = {NUMBER, [SENT - 1] = NUMBER};
    if (scene->rank == 0)
        MPI_Send(numbers, SENT, MPI_INT, 1, TAG, MPI_COMM_WORLD);
    if (scene->rank != 1)
        return 0;
    memset(numbers, 0, sizeof(numbers));
    MPI_Recv(numbers, room, MPI_INT, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE); // at fault: truncated
    return numbers[SENT - 1] != NUMBER;
}

static uint64_t probe(const struct scene *scene)
{
    const int tag = scene->faulty ? OTHER_TAG : TAG;
    if (scene->rank == 0)
        send_number(1);
    if (scene->rank != 1)
        return 0;
    MPI_Probe(0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE); // at fault: probe_blocks
    return receive_number(0);
}

static uint64_t matched_probe(const struct scene *scene)
{
    MPI_Message message;
    int number = 0;
    if (scene->rank == 0 && !scene->faulty)
        send_number(1);
    if (scene->rank != 1)
        return 0;
    MPI_Mprobe(0, TAG, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE); // at fault: matched_probe
    MPI_Mrecv(&number, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    return number != NUMBER;
}

static uint64_t unreceived(const struct scene *scene)
{
    const int number = NUMBER;
    if (scene->rank == 0)
        MPI_Send(&number, 1, MPI_INT, 1, TAG, MPI_COMM_WORLD); // at fault: unreceived
    return scene->rank == 1 && !scene->faulty ? receive_number(0) : 0;
}

static uint64_t received_as_other(const struct scene *scene)
{
    const MPI_Datatype type = scene->faulty ? MPI_FLOAT : MPI_INT;
    int number = 0;
    if (scene->rank == 0)
        send_number(1);
    if (scene->rank != 1)
        return 0;
    MPI_Recv(&number, 1, type, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE); // at fault: received_as_other
    return number != NUMBER;
}

const struct lapse message_lapses[] = {
    {.name = "recv_recv", .least_ranks = 2, .run = recv_recv},
    {.name = "recv_cycle", .least_ranks = 2, .run = recv_cycle},
    {.name = "send_send", .least_ranks = 2, .run = send_send},
    {.name = "never_sent", .least_ranks = 2, .run = never_sent},
    {.name = "sender_in_barrier", .least_ranks = 2, .run = sender_in_barrier},
    {.name = "wrong_tag", .least_ranks = 2, .run = wrong_tag},
    {.name = "wrong_communicator", .least_ranks = 2, .run = wrong_communicator},
    {.name = "wrong_source", .least_ranks = 3, .run = wrong_source},
    {.name = "wrong_destination", .least_ranks = 3, .run = wrong_destination},
    {.name = "any_source_cycle", .least_ranks = 2, .run = any_source_cycle},
    {.name = "any_source_extra", .least_ranks = 2, .run = any_source_extra},
    {.name = "truncated", .least_ranks = 2, .run = truncated},
    {.name = "probe_blocks", .least_ranks = 2, .run = probe},
    {.name = "matched_probe", .least_ranks = 2, .run = matched_probe},
    {.name = "unreceived", .least_ranks = 2, .run = unreceived, .ends = true},
    {.name = "received_as_other", .least_ranks = 2, .run = received_as_other, .ends = true},
    {.name = NULL},
};
