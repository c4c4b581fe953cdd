// Rank 1 ends before its time, while the others wait for its message.
#include "errors.h"
#include "job.h"

#include <signal.h>

static uint64_t killed(const struct scene *scene)
{
    if (scene->faulty && scene->rank == 1)
        raise(SIGKILL); // at fault: killed
    return hear_from_rank_1(scene);
}

static void write_to(volatile int *place)
{
    *place = NUMBER; // at fault: segfault
}

static uint64_t segfault(const struct scene *scene)
{
    int somewhere = 0;
    if (scene->rank == 1)
        write_to(scene->faulty ? NULL : &somewhere);
    return hear_from_rank_1(scene);
}

static uint64_t aborts(const struct scene *scene)
{
    if (scene->faulty && scene->rank == 1)
        MPI_Abort(MPI_COMM_WORLD, 4); // at fault: aborts
    return hear_from_rank_1(scene);
}

static uint64_t exits(const struct scene *scene, int status)
{
    if (scene->faulty && scene->rank == 1)
        exit(status); // at fault: exits
    return hear_from_rank_1(scene);
}

static uint64_t exits_with_3(const struct scene *scene)
{
    return exits(scene, 3);
}

static uint64_t exits_with_0(const struct scene *scene)
{
    return exits(scene, 0);
}

const struct lapse death_lapses[] = {
    {.name = "killed", .least_ranks = 2, .run = killed},
    {.name = "segfault", .least_ranks = 2, .run = segfault},
    {.name = "aborts", .least_ranks = 2, .run = aborts},
    {.name = "exits_with_3", .least_ranks = 2, .run = exits_with_3},
    {.name = "exits_with_0", .least_ranks = 2, .run = exits_with_0},
    {.name = NULL},
};
