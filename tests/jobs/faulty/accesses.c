// One-sided operations on the same bytes of a window that nothing orders, or such and what its own rank does with them: one case after the other, each as it should not be or, with
// --right, as it should. Three ranks; the memory is rank 1's.
//
//   accesses CASE [--right]
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { COUNT = 1000 };

static int rank;
static bool is_right;
static double memory[COUNT], own[COUNT], other[COUNT];
static MPI_Win win;

// Rank 2 goes on only when rank 0 has come here, while what that has begun is still open.
static void go_on(void)
{
    if (rank == 0)
        MPI_Send(NULL, 0, MPI_CHAR, 2, 0, MPI_COMM_WORLD);
    if (rank == 2)
        MPI_Recv(NULL, 0, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

// A window of the first half of the memory.
static MPI_Win half(void)
{
    MPI_Win of;
    MPI_Win_create(memory, sizeof(memory) / 2, sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &of);
    MPI_Win_fence(0, of);
    return of;
}

static void give_back(MPI_Win of)
{
    MPI_Win_fence(0, of);
    MPI_Win_free(&of);
}

static void put_outside(void)
{
    MPI_Win of = half();
    if (rank == 0)
        MPI_Put(own, 10, MPI_DOUBLE, 1, COUNT / 2 - (is_right ? 10 : 9), 10, MPI_DOUBLE, of); // outside
    give_back(of);
}

static void got_outside(void)
{
    MPI_Win of = half();
    if (rank == 0)
        MPI_Get(own, 10, MPI_DOUBLE, 1, is_right ? 0 : COUNT / 2 + 10, 10, MPI_DOUBLE, of); // outside
    give_back(of);
}

static void added_outside(void)
{
    MPI_Win of = half();
    if (rank == 0) {
        MPI_Win_fence(0, of);
        MPI_Accumulate(own, 1, MPI_DOUBLE, 1, is_right ? 0 : COUNT / 2, 1, MPI_DOUBLE, MPI_SUM, of); // outside
    } else {
        MPI_Win_fence(0, of);
    }
    give_back(of);
}

static void put_by_two_between_fences(void)
{
    MPI_Win_fence(0, win);
    if (rank == 0)
        MPI_Put(own, 10, MPI_DOUBLE, 1, 0, 10, MPI_DOUBLE, win); // first
    if (rank == 2)
        MPI_Put(own, 10, MPI_DOUBLE, 1, is_right ? 10 : 5, 10, MPI_DOUBLE, win); // second
    MPI_Win_fence(0, win);
}

static void put_and_got_between_fences(void)
{
    MPI_Win_fence(0, win);
    if (rank == 0)
        MPI_Put(own, COUNT, MPI_DOUBLE, 1, 0, COUNT, MPI_DOUBLE, win); // first
    if (is_right)
        MPI_Win_fence(0, win);
    if (rank == 2)
        MPI_Get(own, 1, MPI_DOUBLE, 1, COUNT - 1, 1, MPI_DOUBLE, win); // second
    MPI_Win_fence(0, win);
}

static void put_by_two_with_shared_locks(void)
{
    if (rank != 1)
        MPI_Win_lock_all(0, win);
    if (rank == 0) {
        MPI_Put(own, 10, MPI_DOUBLE, 1, 0, 10, MPI_DOUBLE, win); // first
        if (is_right)
            MPI_Win_flush(1, win);
    }
    go_on();
    if (rank == 2) {
        MPI_Put(own, 10, MPI_DOUBLE, 1, 0, 10, MPI_DOUBLE, win); // second
        MPI_Send(NULL, 0, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
    }
    if (rank == 0)
        MPI_Recv(NULL, 0, MPI_CHAR, 2, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank != 1)
        MPI_Win_unlock_all(win);
}

static void put_twice_without_a_flush(void)
{
    if (rank != 0)
        return;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win);
    MPI_Put(own, 10, MPI_DOUBLE, 1, 0, 10, MPI_DOUBLE, win); // first
    if (is_right)
        MPI_Win_flush(1, win);
    MPI_Put(other, 10, MPI_DOUBLE, 1, 0, 10, MPI_DOUBLE, win); // second
    MPI_Win_unlock(1, win);
}

// Rank 1 goes on only when rank 0 has put or got, while that is not complete.
static void after_rank_0(void)
{
    if (rank == 0)
        MPI_Send(NULL, 0, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
    if (rank == 1)
        MPI_Recv(NULL, 0, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void put_while_its_rank_sends(void)
{
    MPI_Win_fence(0, win);
    if (rank == 0)
        MPI_Put(own, 10, MPI_DOUBLE, 1, 0, 10, MPI_DOUBLE, win); // first
    after_rank_0();
    if (rank == 1)
        MPI_Send(memory + (is_right ? 10 : 5), 10, MPI_DOUBLE, 2, 1, MPI_COMM_WORLD); // second
    if (rank == 2)
        MPI_Recv(own, 10, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Win_fence(0, win);
}

static void got_while_its_rank_receives(void)
{
    double *part = NULL;
    MPI_Win allocated;
    MPI_Win_allocate(sizeof(memory), sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &part, &allocated);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, allocated);
        MPI_Get(own, 10, MPI_DOUBLE, 1, 0, 10, MPI_DOUBLE, allocated); // first
        if (is_right)
            MPI_Win_flush(1, allocated);
    }
    after_rank_0();
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank == 1)
        MPI_Irecv(part, 10, MPI_DOUBLE, 2, 1, MPI_COMM_WORLD, &request); // second
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (rank == 2)
        MPI_Send(own, 10, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD);
    // Rank 0 has its lock until rank 1 has received.
    if (rank == 1)
        MPI_Send(NULL, 0, MPI_CHAR, 0, 2, MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Recv(NULL, 0, MPI_CHAR, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Win_unlock(1, allocated);
    }
    MPI_Win_free(&allocated);
}

static void put_while_its_rank_puts_from_there(void)
{
    MPI_Win_lock_all(0, win);
    if (rank == 0)
        MPI_Put(own, 10, MPI_DOUBLE, 1, 0, 10, MPI_DOUBLE, win); // first
    after_rank_0();
    if (rank == 1) {
        MPI_Put(memory + (is_right ? 10 : 9), 10, MPI_DOUBLE, 2, 0, 10, MPI_DOUBLE, win); // second
        MPI_Send(NULL, 0, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
    }
    if (rank == 0)
        MPI_Recv(NULL, 0, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Win_unlock_all(win);
}

// All that orders operations, and those that need no order.
static void ordered(void)
{
    for (int turn = 0; turn < 20; turn++) {
        MPI_Win_fence(0, win);
        if (rank == turn % 3)
            MPI_Put(own, COUNT, MPI_DOUBLE, 1, 0, COUNT, MPI_DOUBLE, win);
        MPI_Win_fence(0, win);
        MPI_Get(own, COUNT, MPI_DOUBLE, 1, 0, COUNT, MPI_DOUBLE, win);
        MPI_Win_fence(0, win);
        MPI_Accumulate(own, COUNT, MPI_DOUBLE, 1, 0, COUNT, MPI_DOUBLE, MPI_SUM, win);
        MPI_Win_fence(0, win);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win);
        MPI_Put(own, COUNT, MPI_DOUBLE, 1, 0, COUNT, MPI_DOUBLE, win);
        MPI_Win_unlock(1, win);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
        MPI_Get(own, COUNT, MPI_DOUBLE, 1, 0, COUNT, MPI_DOUBLE, win);
        MPI_Win_flush_local(1, win);
        MPI_Get(own, COUNT, MPI_DOUBLE, 1, 0, COUNT, MPI_DOUBLE, win);
        MPI_Win_unlock(1, win);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock_all(0, win);
        MPI_Put(own, 10, MPI_DOUBLE, 1, 10 * rank, 10, MPI_DOUBLE, win);
        MPI_Win_flush_all(win);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Get(own, 30, MPI_DOUBLE, 1, 0, 30, MPI_DOUBLE, win);
        MPI_Win_unlock_all(win);
        MPI_Barrier(MPI_COMM_WORLD);
        // The rank whose memory it is sends from there and receives there, when nobody else is at it.
        if (rank == 1)
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win);
        if (rank == 1)
            MPI_Sendrecv(memory, 10, MPI_DOUBLE, 1, 0, memory + 10, 10, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1)
            MPI_Win_unlock(1, win);
        else
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win);
        if (rank != 1) {
            MPI_Put(own, 20, MPI_DOUBLE, 1, 0, 20, MPI_DOUBLE, win);
            MPI_Win_unlock(1, win);
        }
        MPI_Win_fence(0, win);
        if (rank == 1)
            MPI_Sendrecv(memory, 10, MPI_DOUBLE, 1, 0, memory + 10, 10, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Win_fence(0, win);
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"put_outside", put_outside},
    {"got_outside", got_outside},
    {"added_outside", added_outside},
    {"put_by_two_between_fences", put_by_two_between_fences},
    {"put_and_got_between_fences", put_and_got_between_fences},
    {"put_by_two_with_shared_locks", put_by_two_with_shared_locks},
    {"put_twice_without_a_flush", put_twice_without_a_flush},
    {"put_while_its_rank_sends", put_while_its_rank_sends},
    {"got_while_its_rank_receives", got_while_its_rank_receives},
    {"put_while_its_rank_puts_from_there", put_while_its_rank_puts_from_there},
    {"ordered", ordered},
};

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    is_right = argc > 2 && !strcmp(argv[2], "--right");
    MPI_Win_create(memory, sizeof(memory), sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    bool is_known = false;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (argc > 1 && !strcmp(argv[1], cases[i].name)) {
            is_known = true;
            cases[i].run();
        }
    if (!is_known)
        fprintf(stderr, "accesses CASE [--right]: there is no such case\n");
    MPI_Win_free(&win);
    MPI_Finalize();
    return is_known ? 0 : 2;
}
