// Rank 1 stays outside MPI for ever, the others wait for it.
#include "errors.h"
#include "job.h"
#include "work.h"

#include <pthread.h>
#include <unistd.h>

static int read_pipe(bool something_is_written)
{
    int ends[2], number = NUMBER;
    if (pipe(ends) != 0 || (something_is_written && write(ends[1], &number, sizeof(number)) != sizeof(number)))
        MPI_Abort(MPI_COMM_WORLD, 2);
    number = 0;
    if (read(ends[0], &number, sizeof(number)) != sizeof(number)) // at fault: pipe_read
        MPI_Abort(MPI_COMM_WORLD, 2);
    close(ends[0]);
    close(ends[1]);
    return number;
}

static uint64_t pipe_read(const struct scene *scene)
{
    const int number = scene->rank == 1 ? read_pipe(!scene->faulty) : NUMBER;
    return hear_from_rank_1(scene) + (number != NUMBER);
}

static void take_mutex_twice(bool gives_it_back)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&mutex);
    if (gives_it_back)
        pthread_mutex_unlock(&mutex);
    pthread_mutex_lock(&mutex); // at fault: mutex_held
    pthread_mutex_unlock(&mutex);
}

static uint64_t mutex_held(const struct scene *scene)
{
    if (scene->rank == 1)
        take_mutex_twice(!scene->faulty);
    return hear_from_rank_1(scene);
}

// Halves a number until it is 1; from 0 it never gets there.
static void halve_down_to_one(uint64_t number)
{
    static volatile uint64_t rest;
    rest = number;
    do rest = rest / 2; while (rest != 1); // at fault: endless_loop
}

static uint64_t endless_loop(const struct scene *scene)
{
    if (scene->rank == 1)
        halve_down_to_one(scene->faulty ? 0 : 1024);
    MPI_Barrier(MPI_COMM_WORLD);
    return 0;
}

static uint64_t sleeps(const struct scene *scene)
{
    if (scene->rank == 1)
        sleep(scene->faulty ? 1000000 : 0); // at fault: sleeps
    return hear_from_rank_1(scene);
}

const struct lapse outside_lapses[] = {
    {.name = "pipe_read", .least_ranks = 2, .run = pipe_read},
    {.name = "mutex_held", .least_ranks = 2, .run = mutex_held},
    {.name = "endless_loop", .least_ranks = 2, .run = endless_loop},
    {.name = "sleeps", .least_ranks = 2, .run = sleeps},
    {.name = NULL},
};
