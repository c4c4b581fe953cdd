// Calls that MPI forbids: the library ends the job. Rank 1 makes them.
#include "errors.h"

static uint64_t send_to(const struct scene *scene, int rank, int count)
{
    const int number = NUMBER;
    if (scene->rank == 1)
        MPI_Send(&number, count, MPI_INT, rank, TAG, MPI_COMM_WORLD); // at fault: arguments
    return scene->rank == 0 ? receive_number(1) : 0;
}

static uint64_t invalid_rank(const struct scene *scene)
{
    return send_to(scene, scene->faulty ? scene->ranks : 0, 1);
}

static uint64_t negative_count(const struct scene *scene)
{
    return send_to(scene, 0, scene->faulty ? -1 : 1);
}

static uint64_t nothing(const struct scene *scene)
{
    (void)scene;
    return 0;
}

static void synchronize(const struct scene *scene)
{
    if (scene->rank == 1)
        MPI_Barrier(MPI_COMM_WORLD); // at fault: call_after_finalize
}

const struct lapse call_lapses[] = {
    {.name = "invalid_rank", .least_ranks = 2, .run = invalid_rank},
    {.name = "negative_count", .least_ranks = 2, .run = negative_count},
    {.name = "call_after_finalize", .least_ranks = 2, .run = nothing, .ends = true, .after_finalize = synchronize},
    {.name = NULL},
};
