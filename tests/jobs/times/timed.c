// Times itself between two barriers, for tests that take out of its times what watching cost. It computes by counting, not by
// the clock, so that it does the same with and without.
//
//   timed PATTERN ITERATIONS WORK     WORK: counted between messages; ranks differ by up to half of it
//
// Rank 0 prints {"rank":R,"elapsed_ns":N} for each rank, and last "ok".
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TAG = 3, TAG_END = 4, WORDS = 32, LONG_WORDS = 1 << 15 };

static int rank, ranks;
static long iterations, work;
static int64_t out[LONG_WORDS], in[LONG_WORDS], side[2][WORDS];

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void compute(long amount)
{
    for (volatile long i = 0; i < amount; i++)
        ;
}

// Another one in each rank and iteration, the same in each run.
static void compute_own(long iteration)
{
    compute(work + work / 2 * ((rank * 7 + iteration * 3) % 5) / 5);
}

static void token(long iteration)
{
    (void)iteration;
    const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    if (rank == 0)
        MPI_Send(out, WORDS, MPI_INT64_T, next, TAG, MPI_COMM_WORLD);
    MPI_Recv(in, WORDS, MPI_INT64_T, before, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    compute(work);
    if (rank != 0)
        MPI_Send(out, WORDS, MPI_INT64_T, next, TAG, MPI_COMM_WORLD);
}

static void halo(long iteration)
{
    const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    MPI_Request requests[4];
    MPI_Irecv(side[0], WORDS, MPI_INT64_T, before, TAG, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(side[1], WORDS, MPI_INT64_T, next, TAG + 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(out, WORDS, MPI_INT64_T, next, TAG, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(out, WORDS, MPI_INT64_T, before, TAG + 1, MPI_COMM_WORLD, &requests[3]);
    compute_own(iteration);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
}

static void shift_long(long iteration)
{
    const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    compute_own(iteration);
    MPI_Sendrecv(out, LONG_WORDS, MPI_INT64_T, next, TAG, in, LONG_WORDS, MPI_INT64_T, before, TAG, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

static void collectives(long iteration)
{
    int64_t sum;
    compute_own(iteration);
    MPI_Allreduce(out, &sum, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    compute(work);
    MPI_Bcast(in, WORDS, MPI_INT64_T, (int)(iteration % ranks), MPI_COMM_WORLD);
}

static void lead(void)
{
    const long tasks = iterations * (ranks - 1);
    long handed_out = 0;
    for (int worker = 1; worker < ranks; worker++, handed_out++)
        MPI_Send(out, WORDS, MPI_INT64_T, worker, TAG, MPI_COMM_WORLD);
    for (long done = 0; done < tasks; done++) {
        MPI_Status status;
        MPI_Recv(in, WORDS, MPI_INT64_T, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &status);
        const int tag = handed_out < tasks ? TAG : TAG_END;
        handed_out += tag == TAG;
        MPI_Send(out, WORDS, MPI_INT64_T, status.MPI_SOURCE, tag, MPI_COMM_WORLD);
    }
}

static void follow(void)
{
    for (;;) {
        MPI_Status status;
        MPI_Recv(in, WORDS, MPI_INT64_T, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        if (status.MPI_TAG == TAG_END)
            return;
        compute(work);
        MPI_Send(out, WORDS, MPI_INT64_T, 0, TAG, MPI_COMM_WORLD);
    }
}

// The first rank takes what comes first of all others, and answers.
static void waitany(void)
{
    enum { MOST_RANKS = 64 };
    static int64_t buffers[MOST_RANKS][WORDS];
    MPI_Request requests[MOST_RANKS];
    const int others = ranks - 1;
    if (rank != 0) {
        for (long i = 0; i < iterations; i++) {
            compute_own(i);
            MPI_Send(out, WORDS, MPI_INT64_T, 0, TAG, MPI_COMM_WORLD);
            MPI_Recv(in, 1, MPI_INT64_T, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        return;
    }
    long left[MOST_RANKS];
    for (int i = 0; i < others; i++) {
        left[i] = iterations - 1;
        MPI_Irecv(buffers[i], WORDS, MPI_INT64_T, i + 1, TAG, MPI_COMM_WORLD, &requests[i]);
    }
    for (;;) {
        int which;
        MPI_Waitany(others, requests, &which, MPI_STATUS_IGNORE);
        if (which == MPI_UNDEFINED)
            return;
        compute(work / 4);
        MPI_Send(out, 1, MPI_INT64_T, which + 1, TAG, MPI_COMM_WORLD);
        if (left[which]-- > 0)
            MPI_Irecv(buffers[which], WORDS, MPI_INT64_T, which + 1, TAG, MPI_COMM_WORLD, &requests[which]);
    }
}

// Each rank puts into the next one's window, which that has opened for it.
static void epochs(long iteration)
{
    static MPI_Win window = MPI_WIN_NULL;
    static MPI_Group next_one, one_before;
    if (iteration == 0) {
        const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
        MPI_Group all;
        int64_t *memory;
        MPI_Win_allocate(sizeof(in), sizeof(int64_t), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
        MPI_Comm_group(MPI_COMM_WORLD, &all);
        MPI_Group_incl(all, 1, &next, &next_one);
        MPI_Group_incl(all, 1, &before, &one_before);
        MPI_Group_free(&all);
    }
    MPI_Win_post(one_before, 0, window);
    compute_own(iteration);
    MPI_Win_start(next_one, 0, window);
    MPI_Put(out, WORDS, MPI_INT64_T, (rank + 1) % ranks, 0, WORDS, MPI_INT64_T, window);
    MPI_Win_complete(window);
    MPI_Win_wait(window);
    if (iteration == iterations - 1) {
        MPI_Group_free(&next_one);
        MPI_Group_free(&one_before);
        MPI_Win_free(&window);
    }
}

static void repeat(void (*step)(long))
{
    for (long i = 0; i < iterations; i++)
        step(i);
}

static int run(const char *pattern)
{
    if (!strcmp(pattern, "token"))
        repeat(token);
    else if (!strcmp(pattern, "halo"))
        repeat(halo);
    else if (!strcmp(pattern, "shift"))
        repeat(shift_long);
    else if (!strcmp(pattern, "collectives"))
        repeat(collectives);
    else if (!strcmp(pattern, "epochs"))
        repeat(epochs);
    else if (!strcmp(pattern, "waitany"))
        waitany();
    else if (!strcmp(pattern, "master") && rank == 0)
        lead();
    else if (!strcmp(pattern, "master"))
        follow();
    else
        return 2;
    return 0;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 4 || ranks < 2)
        MPI_Abort(MPI_COMM_WORLD, 2);
    iterations = atol(argv[2]);
    work = atol(argv[3]);
    compute(10000000);
    MPI_Barrier(MPI_COMM_WORLD);
    const int64_t begin_ns = now_ns();
    if (run(argv[1]))
        MPI_Abort(MPI_COMM_WORLD, 2);
    const int64_t elapsed_ns = now_ns() - begin_ns;
    MPI_Barrier(MPI_COMM_WORLD);
    int64_t *all = calloc(ranks, sizeof(*all));
    MPI_Gather(&elapsed_ns, 1, MPI_INT64_T, all, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
    for (int other = 0; rank == 0 && other < ranks; other++)
        printf("{\"rank\":%d,\"elapsed_ns\":%lld}\n", other, (long long)all[other]);
    if (rank == 0)
        puts("ok");
    free(all);
    MPI_Finalize();
    return 0;
}
