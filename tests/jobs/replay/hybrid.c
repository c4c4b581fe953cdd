// Ranks that compute in threads of their own while their first thread makes all calls: how often it polls, and reads clocks, until the
// others are done is chance.
//
//   hybrid --log DIR [--rounds N] [--delay-us D] [--threads T] [--level single|funneled] [--early 1] [--clocks N]
//
// In each round T threads compute for a while. Meanwhile the first one has MPI go on by MPI_Iprobe for a message that never comes. Then it
// waits for its neighbor by MPI_Test, and receives from anybody. With --early 1 a thread is created before MPI_Init as well, and with
// --clocks a clock is read so often there.
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "logged.h"

enum { MOST_THREADS = 16 };

static atomic_int computing;

static void *compute(void *given)
{
    usleep(*(useconds_t *)given);
    atomic_fetch_sub(&computing, 1);
    return NULL;
}

static void *begin_early(void *given)
{
    return given;
}

// Reads clocks as often as chance has it.
static void look_at_clocks(void)
{
    struct timespec now;
    for (uint32_t left = roll(&chance, 3); left > 0; left--)
        left == 1 ? (void)MPI_Wtime() : (void)clock_gettime(CLOCK_REALTIME, &now);
}

static void poll_while_others_compute(MPI_Request *request)
{
    int flag = 0;
    while (atomic_load(&computing) > 0) {
        MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        look_at_clocks();
        pause_a_little();
    }
    for (flag = 0; !flag; look_at_clocks())
        MPI_Test(request, &flag, MPI_STATUS_IGNORE);
}

static void receive_from_all(int round)
{
    for (int i = 1; i < ranks; i++) {
        int content;
        MPI_Status status;
        MPI_Recv(&content, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status);
        note("recv", round, status.MPI_SOURCE, content, 0);
    }
}

int main(int argc, char **argv)
{
    const int rounds = atoi(option(argc, argv, "--rounds", "20"));
    const int threads = atoi(option(argc, argv, "--threads", "2"));
    const int is_single = !strcmp(option(argc, argv, "--level", "funneled"), "single");
    delay_us = atoi(option(argc, argv, "--delay-us", "300"));
    pthread_t workers[MOST_THREADS];
    if (atoi(option(argc, argv, "--early", "0"))) {
        pthread_create(&workers[0], NULL, begin_early, NULL);
        pthread_join(workers[0], NULL);
    }
    struct timespec now;
    for (int left = atoi(option(argc, argv, "--clocks", "0")); left > 0; left--)
        clock_gettime(CLOCK_MONOTONIC, &now);
    int provided;
    MPI_Init_thread(&argc, &argv, is_single ? MPI_THREAD_SINGLE : MPI_THREAD_FUNNELED, &provided);
    open_log(option(argc, argv, "--log", "."));
    if (threads < 1 || threads > MOST_THREADS)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (int round = 0; round < rounds; round++) {
        useconds_t times[MOST_THREADS];
        atomic_store(&computing, threads);
        for (int i = 0; i < threads; i++) {
            times[i] = delay_us > 0 ? roll(&chance, 10 * (uint32_t)delay_us) : 0;
            pthread_create(&workers[i], NULL, compute, &times[i]);
        }
        int from_neighbor;
        MPI_Request request;
        MPI_Irecv(&from_neighbor, 1, MPI_INT, (rank + ranks - 1) % ranks, 2, MPI_COMM_WORLD, &request);
        MPI_Send(&round, 1, MPI_INT, (rank + 1) % ranks, 2, MPI_COMM_WORLD);
        poll_while_others_compute(&request);
        note("neighbor", round, from_neighbor, 0, 0);
        for (int i = 0; i < threads; i++)
            pthread_join(workers[i], NULL);
        for (int i = 1; i < ranks; i++) {
            const int content = 1000 * rank + round;
            MPI_Send(&content, 1, MPI_INT, (rank + i) % ranks, 1, MPI_COMM_WORLD);
        }
        receive_from_all(round);
        look_at_clocks();
    }
    close_log();
    MPI_Finalize();
    return 0;
}
