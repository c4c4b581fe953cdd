// Lapses with one-sided communication.
#include "errors.h"

// MPICH 4.0 puts a few bytes beside the place if the windows of a job lie closer together than a cache line.
enum { WINDOW_BYTES = 4096 };

struct window {
    MPI_Win win;
    int *number;
};

static struct window make_window(void)
{
    struct window window;
    MPI_Win_allocate(WINDOW_BYTES, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window.number, &window.win);
    *window.number = NUMBER;
    MPI_Barrier(MPI_COMM_WORLD);
    return window;
}

// Rank 0 does not give its lock back; rank 1 waits for it.
static uint64_t lock_held(const struct scene *scene)
{
    struct window window = make_window();
    int number = NUMBER;
    if (scene->rank == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window.win);
        if (!scene->faulty)
            MPI_Win_unlock(0, window.win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (scene->rank == 1) {
        number = 0;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window.win); // at fault: lock_held
        MPI_Get(&number, 1, MPI_INT, 0, 0, 1, MPI_INT, window.win);
        MPI_Win_unlock(0, window.win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&window.win);
    return number != NUMBER;
}

static MPI_Group group_of(int rank)
{
    MPI_Group all, one;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &rank, &one);
    MPI_Group_free(&all);
    return one;
}

// Rank 0 does not open its window to rank 1, and is done.
static uint64_t start_without_post(const struct scene *scene)
{
    struct window window = make_window();
    MPI_Group other = group_of(scene->rank == 1 ? 0 : 1);
    uint64_t errors = 0;
    if (scene->faulty && scene->rank != 1)
        return 0;
    if (scene->rank == 0) {
        MPI_Win_post(other, 0, window.win);
        MPI_Win_wait(window.win);
        errors = *window.number != NUMBER + 1;
    }
    if (scene->rank == 1) {
        const int number = NUMBER + 1;
        MPI_Win_start(other, 0, window.win); // at fault: start_without_post
        MPI_Put(&number, 1, MPI_INT, 0, 0, 1, MPI_INT, window.win);
        MPI_Win_complete(window.win);
    }
    MPI_Group_free(&other);
    MPI_Win_free(&window.win);
    return errors;
}

// Rank 1 leaves out the fence that ends the epoch.
static uint64_t fence_missed(const struct scene *scene)
{
    struct window window = make_window();
    const int right = (scene->rank + 1) % scene->ranks, number = NUMBER + 1;
    MPI_Win_fence(0, window.win);
    MPI_Put(&number, 1, MPI_INT, right, 0, 1, MPI_INT, window.win);
    if (!scene->faulty || scene->rank != 1)
        MPI_Win_fence(0, window.win);
    MPI_Barrier(MPI_COMM_WORLD); // at fault: fence_missed
    const uint64_t errors = *window.number != NUMBER + 1;
    MPI_Win_free(&window.win);
    return errors;
}

// Rank 1 does not give its window back.
static uint64_t window_kept(const struct scene *scene)
{
    struct window window = make_window();
    const uint64_t errors = *window.number != NUMBER;
    if (!scene->faulty || scene->rank != 1)
        MPI_Win_free(&window.win);
    MPI_Barrier(MPI_COMM_WORLD); // at fault: window_kept
    return errors;
}

// Rank 1 leaves out the last fence, and frees the window: libraries may take one for the other, and hang when it is gone.
static uint64_t fence_left_out(const struct scene *scene)
{
    struct window window = make_window();
    MPI_Win_fence(0, window.win);
    if (!scene->faulty || scene->rank != 1)
        MPI_Win_fence(0, window.win);
    const uint64_t errors = *window.number != NUMBER;
    MPI_Win_free(&window.win); // at fault: fence_left_out
    return errors;
}

const struct lapse window_lapses[] = {
    {.name = "lock_held", .least_ranks = 2, .run = lock_held},
    {.name = "start_without_post", .least_ranks = 2, .run = start_without_post},
    {.name = "fence_missed", .least_ranks = 3, .run = fence_missed},
    {.name = "window_kept", .least_ranks = 3, .run = window_kept},
    {.name = "fence_left_out", .least_ranks = 3, .run = fence_left_out},
    {.name = NULL},
};
