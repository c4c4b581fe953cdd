// Memory of the heap that MPI calls are given: past the end of a block, given back before the call, or before the request is complete. One
// case after the other, each as it should not be or, with --right, as it should. Two ranks; rank 0 is the one at fault.
//
//   heap CASE|all [--right]
//
// Behind each block is another one that is never given back, so that what is damaged harms nobody.
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG = 1, TOKEN = 2, BLOCK = 8192, LONG = 100000, ROOM = 200000 };

static int rank;
static bool is_right;
static char room[ROOM], more_room[ROOM];

// A block of so many bytes, with room behind it.
static char *block(size_t bytes)
{
    for (int tries = 0; tries < 1000; tries++) {
        char *block = malloc(bytes);
        char *behind = malloc(ROOM / 2);
        if (!block || !behind)
            break;
        memset(behind, 3, ROOM / 2);
        if (behind > block && behind < block + bytes + 64)
            return memset(block, 1, bytes);
    }
    abort();
}

// A block for this rank; too short in rank 0, unless all is right.
static char *short_block(size_t bytes)
{
    return block(rank == 0 && !is_right ? bytes / 2 : bytes);
}

static int peer(void)
{
    return 1 - rank;
}

static void sent(void)
{
    if (rank == 0)
        MPI_Send(short_block(BLOCK), BLOCK, MPI_CHAR, 1, TAG, MPI_COMM_WORLD); // used
    else
        MPI_Recv(room, BLOCK, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

// The end of the message is past the end of the block, its beginning is far in it.
static void sent_from_within(void)
{
    if (rank == 0)
        MPI_Send(block(BLOCK) + BLOCK - 1000, is_right ? 1000 : 1001, MPI_CHAR, 1, TAG, MPI_COMM_WORLD); // used
    else
        MPI_Recv(room, BLOCK, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void sent_from_a_short_block(void)
{
    if (rank == 0)
        MPI_Send(block(10 * sizeof(int)), is_right ? 10 : 11, MPI_INT, 1, TAG, MPI_COMM_WORLD); // used
    else
        MPI_Recv(room, BLOCK, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void sent_by_a_request(void)
{
    MPI_Request request;
    if (rank == 0)
        MPI_Isend(short_block(BLOCK), BLOCK, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &request); // used
    else
        MPI_Irecv(room, BLOCK, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void sent_by_a_persistent_request(void)
{
    MPI_Request request;
    if (rank == 0)
        MPI_Send_init(short_block(BLOCK), BLOCK, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &request); // used
    else
        MPI_Recv_init(room, BLOCK, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, &request);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
}

static void received(void)
{
    MPI_Status status;
    if (rank == 0)
        MPI_Recv(short_block(BLOCK), BLOCK, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &status); // used
    else
        MPI_Send(room, BLOCK, MPI_CHAR, 0, TAG, MPI_COMM_WORLD);
}

static void received_without_a_status(void)
{
    if (rank == 0)
        MPI_Recv(short_block(BLOCK), BLOCK, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE); // used
    else
        MPI_Send(room, BLOCK, MPI_CHAR, 0, TAG, MPI_COMM_WORLD);
}

static void received_by_a_request(void)
{
    MPI_Request request;
    if (rank == 0)
        MPI_Irecv(short_block(BLOCK), BLOCK, MPI_CHAR, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &request); // used
    else
        MPI_Isend(room, BLOCK, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void exchanged(void)
{
    MPI_Sendrecv(room, BLOCK, MPI_CHAR, peer(), TAG, short_block(BLOCK), BLOCK, MPI_CHAR, peer(), TAG, // used
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void broadcast(void)
{
    MPI_Bcast(short_block(BLOCK), BLOCK, MPI_CHAR, 0, MPI_COMM_WORLD); // used
}

static void broadcast_from_another(void)
{
    MPI_Bcast(short_block(BLOCK), BLOCK, MPI_CHAR, 1, MPI_COMM_WORLD); // used
}

static void reduced(void)
{
    MPI_Reduce(short_block(BLOCK), room, BLOCK / 4, MPI_INT, MPI_SUM, 1, MPI_COMM_WORLD); // used
}

static void reduced_to_all(void)
{
    MPI_Allreduce(room, short_block(BLOCK), BLOCK / 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD); // used
}

static void reduced_to_all_by_a_request(void)
{
    MPI_Request request;
    MPI_Iallreduce(room, short_block(BLOCK), BLOCK / 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request); // used
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

// Room for what one member sends, not for all.
static void gathered(void)
{
    MPI_Gather(room, BLOCK, MPI_CHAR, short_block(2 * BLOCK), BLOCK, MPI_CHAR, 0, MPI_COMM_WORLD); // used
}

static void gathered_by_all(void)
{
    MPI_Allgather(room, BLOCK, MPI_CHAR, short_block(2 * BLOCK), BLOCK, MPI_CHAR, MPI_COMM_WORLD); // used
}

static void gathered_of_sizes(void)
{
    int counts[] = {BLOCK, BLOCK}, places[] = {0, BLOCK};
    MPI_Gatherv(short_block(BLOCK), BLOCK, MPI_CHAR, room, counts, places, MPI_CHAR, 1, MPI_COMM_WORLD); // used
}

static void scattered(void)
{
    MPI_Scatter(short_block(2 * BLOCK), BLOCK, MPI_CHAR, room, BLOCK, MPI_CHAR, 0, MPI_COMM_WORLD); // used
}

static void each_to_each(void)
{
    MPI_Alltoall(room, BLOCK, MPI_CHAR, short_block(2 * BLOCK), BLOCK, MPI_CHAR, MPI_COMM_WORLD); // used
}

static void scanned(void)
{
    MPI_Scan(short_block(BLOCK), room, BLOCK / 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD); // used
}

static void put(void)
{
    MPI_Win window;
    MPI_Win_create(room, sizeof(room), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    if (rank == 0)
        MPI_Put(short_block(BLOCK), BLOCK, MPI_CHAR, 1, 0, BLOCK, MPI_CHAR, window); // used
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
}

static void got(void)
{
    MPI_Win window;
    MPI_Win_create(room, sizeof(room), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    if (rank == 0)
        MPI_Get(short_block(BLOCK), BLOCK, MPI_CHAR, 1, 0, BLOCK, MPI_CHAR, window); // used
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
}

static void given_to_a_window(void)
{
    MPI_Win window;
    MPI_Win_create(short_block(BLOCK), BLOCK, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window); // used
    MPI_Win_fence(0, window);
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
}

static void sent_after_free(void)
{
    if (rank == 1)
        return (void)MPI_Recv(room, BLOCK, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    char *old = block(LONG);
    char *new = is_right ? block(LONG) : old;
    free(old); // freed
    MPI_Send(new + LONG / 2, BLOCK, MPI_CHAR, 1, TAG, MPI_COMM_WORLD); // used
}

static void received_after_free(void)
{
    if (rank == 1)
        return (void)MPI_Send(room, BLOCK, MPI_CHAR, 0, TAG, MPI_COMM_WORLD);
    char *old = block(LONG);
    char *new = is_right ? block(LONG) : old;
    free(old); // freed
    MPI_Recv(new + LONG / 2, BLOCK, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE); // used
}

static void reduced_after_free(void)
{
    char *old = block(LONG);
    char *new = is_right || rank ? block(LONG) : old;
    free(old); // freed
    MPI_Allreduce(new + LONG / 2, room, BLOCK / 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD); // used
}

// The peer goes on only now.
static void release(void)
{
    char token = 0;
    MPI_Send(&token, 1, MPI_CHAR, 1, TOKEN, MPI_COMM_WORLD);
}

static void wait_for_release(void)
{
    char token;
    MPI_Recv(&token, 1, MPI_CHAR, 0, TOKEN, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void freed_while_sent(void)
{
    if (rank == 1) {
        wait_for_release();
        return (void)MPI_Recv(room, LONG, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Request request;
    char *data = block(LONG);
    MPI_Isend(data, LONG, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &request); // begun
    if (!is_right)
        free(data); // freed
    release();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (is_right)
        free(data);
}

static void freed_while_received(void)
{
    if (rank == 1) {
        wait_for_release();
        return (void)MPI_Send(room, LONG, MPI_CHAR, 0, TAG, MPI_COMM_WORLD);
    }
    MPI_Request request;
    char *data = block(LONG);
    MPI_Irecv(data, LONG, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &request); // begun
    if (!is_right)
        free(data); // freed
    release();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (is_right)
        free(data);
}

static void moved_while_sent(void)
{
    if (rank == 1) {
        wait_for_release();
        return (void)MPI_Recv(room, LONG, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Request request;
    char *data = block(LONG);
    MPI_Isend(data, LONG, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &request); // begun
    char *moved = is_right ? data : realloc(data, LONG + 10000); // freed
    release();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    free(moved);
}

// More room is promised than there is, and no message needs it; blocks that grow, are aligned, or are given back and given out again.
static void used_rightly(void)
{
    for (int round = 0; round < 20; round++) {
        char *data = block(BLOCK), *aligned = NULL, *zeroed = calloc(2, BLOCK);
        MPI_Request request;
        MPI_Status status;
        MPI_Irecv(data, 2 * BLOCK, MPI_CHAR, peer(), TAG, MPI_COMM_WORLD, &request);
        MPI_Send(room, BLOCK, MPI_CHAR, peer(), TAG, MPI_COMM_WORLD);
        MPI_Wait(&request, &status);
        if (posix_memalign((void **)&aligned, 4096, 3 * BLOCK))
            abort();
        data = realloc(data, 3 * BLOCK);
        memset(data, 1, 3 * BLOCK);
        MPI_Sendrecv(data, 3 * BLOCK, MPI_CHAR, peer(), TAG, aligned, 3 * BLOCK, MPI_CHAR, peer(), TAG,
                     MPI_COMM_WORLD, &status);
        data = realloc(data, 2 * BLOCK);
        MPI_Alltoall(data, BLOCK, MPI_CHAR, zeroed, BLOCK, MPI_CHAR, MPI_COMM_WORLD);
        // Nobody but the root needs room for what is gathered, and the first of a scan gets nothing.
        MPI_Gather(zeroed, 2 * BLOCK, MPI_CHAR, rank ? zeroed : more_room, 2 * BLOCK, MPI_CHAR, 0, MPI_COMM_WORLD);
        MPI_Exscan(data, rank ? zeroed : zeroed + BLOCK, BLOCK / 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, BLOCK, MPI_CHAR, MPI_COMM_WORLD);
        free(data);
        free(aligned);
        free(zeroed);
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
#define CASE(name) {#name, name}
    CASE(sent),
    CASE(sent_from_within),
    CASE(sent_from_a_short_block),
    CASE(sent_by_a_request),
    CASE(sent_by_a_persistent_request),
    CASE(received),
    CASE(received_without_a_status),
    CASE(received_by_a_request),
    CASE(exchanged),
    CASE(broadcast),
    CASE(broadcast_from_another),
    CASE(reduced),
    CASE(reduced_to_all),
    CASE(reduced_to_all_by_a_request),
    CASE(gathered),
    CASE(gathered_by_all),
    CASE(gathered_of_sizes),
    CASE(scattered),
    CASE(each_to_each),
    CASE(scanned),
    CASE(put),
    CASE(got),
    CASE(given_to_a_window),
    CASE(sent_after_free),
    CASE(received_after_free),
    CASE(reduced_after_free),
    CASE(freed_while_sent),
    CASE(freed_while_received),
    CASE(moved_while_sent),
    CASE(used_rightly),
};

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    is_right = argc > 2 && !strcmp(argv[2], "--right");
    memset(room, 0, ROOM);
    bool is_known = false;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (argc > 1 && (!strcmp(argv[1], cases[i].name) || !strcmp(argv[1], "all"))) {
            is_known = true;
            cases[i].run();
            MPI_Barrier(MPI_COMM_WORLD);
        }
    if (!is_known)
        fprintf(stderr, "heap CASE [--right]: there is no such case\n");
    MPI_Finalize();
    return is_known ? 0 : 2;
}
