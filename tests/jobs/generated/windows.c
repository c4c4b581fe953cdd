// What goes wrong with the synchronization of one-sided communication.
#include "generated.h"

#include <unistd.h>

enum synchronization {
    POST, START, COMPLETE, TEST_WINDOW,                                  // of two ranks that both take part
    LOCK, UNLOCK, UNLOCK_SHARED, UNLOCK_ALL,                             // of one that does not ask its partner
    FLUSH, FLUSH_ALL, FLUSH_LOCAL, FLUSH_LOCAL_ALL
};

enum { WINDOW_BYTES = 4096, HOLD_US = 300000 }; // MPICH 4.0 puts bytes beside the place in windows that lie close together

struct windows {
    MPI_Win both[2];
};

static struct windows make_windows(const struct scene *scene)
{
    struct windows windows;
    for (int i = 0; i < 2; i++) {
        int *base = NULL;
        MPI_Win_allocate(WINDOW_BYTES, sizeof(int), MPI_INFO_NULL, scene->comms[i], &base, &windows.both[i]);
    }
    return windows;
}

// Ranks that have made or seen the fault go on without giving anything back.
static void free_windows(const struct scene *scene, struct windows *windows)
{
    MPI_Barrier(scene->comms[0]);
    for (int i = 0; i < 2; i++)
        MPI_Win_free(&windows->both[i]);
}

static void put_into(MPI_Win window, int rank)
{
    static const int number = 1;
    MPI_Put(&number, 1, MPI_INT, rank, 0, 1, MPI_INT, window);
}

static void run_fence(const struct scene *scene, const struct operation *operation)
{
    (void)operation;
    struct windows windows = make_windows(scene);
    const int first = makes(scene, OTHER_ORDER) || makes(scene, OTHER_COMMUNICATOR);
    MPI_Win_fence(0, windows.both[0]);
    MPI_Win_fence(0, windows.both[1]);
    put_into(windows.both[first], scene->partner);
    if (makes(scene, MISSING_CALL))
        return;
    if (makes(scene, OTHER_OPERATION)) {
        MPI_Barrier(scene->comms[1]); // call: barrier for a fence
        return;
    }
    MPI_Win_fence(0, windows.both[first]); // call: win_fence
    if (scene->fault == OTHER_ORDER)
        MPI_Win_fence(0, windows.both[1 - first]);
    free_windows(scene, &windows);
}

static MPI_Group group_of(const struct scene *scene, int rank)
{
    MPI_Group all, one;
    MPI_Comm_group(scene->comms[0], &all);
    MPI_Group_incl(all, 1, &rank, &one);
    MPI_Group_free(&all);
    return one;
}

static void expose(const struct scene *scene, MPI_Win window, int to, bool polls)
{
    MPI_Group group = group_of(scene, to);
    int is_over = 0;
    MPI_Win_post(group, 0, window); // call: win_post
    MPI_Group_free(&group);
    while (polls && !is_over)
        MPI_Win_test(window, &is_over); // call: win_test
    if (!polls)
        MPI_Win_wait(window); // call: win_wait
}

static void access_window(const struct scene *scene, MPI_Win window, int of)
{
    MPI_Group group = group_of(scene, of);
    MPI_Win_start(group, 0, window); // call: win_start
    MPI_Group_free(&group);
    put_into(window, of);
    if (!makes(scene, MISSING_CALL))
        MPI_Win_complete(window); // call: win_complete
}

// The bad rank exposes its window, and its partner accesses that (POST), or the other way round.
static void run_active(const struct scene *scene, const struct operation *operation)
{
    const int kind = operation->is.kind;
    struct windows windows = make_windows(scene);
    const MPI_Win window = windows.both[makes(scene, OTHER_COMMUNICATOR)];
    const int peer = makes(scene, OTHER_RANK) ? scene->third : scene->is_bad ? scene->partner : scene->bad;
    const bool exposes = kind == POST ? scene->is_bad : scene->is_partner;
    const bool leaves_out = makes(scene, MISSING_CALL) && (kind == POST || kind == START);
    if (!leaves_out && exposes)
        expose(scene, window, peer, kind == TEST_WINDOW);
    else if (!leaves_out && (scene->is_bad || scene->is_partner))
        access_window(scene, window, peer);
    // The others wait in the barrier, or at the end as those that have made a fault.
    if (!scene->wrong)
        free_windows(scene, &windows);
}

static void flush(int kind, MPI_Win window, int rank)
{
    switch (kind) {
    case FLUSH:
        MPI_Win_flush(rank, window); // call: win_flush
        break;
    case FLUSH_ALL:
        MPI_Win_flush_all(window); // call: win_flush_all
        break;
    case FLUSH_LOCAL:
        MPI_Win_flush_local(rank, window); // call: win_flush_local
        break;
    case FLUSH_LOCAL_ALL:
        MPI_Win_flush_local_all(window); // call: win_flush_local_all
        break;
    default:
        break;
    }
}

// The bad rank locks its own window, and does not give that back: it leaves the unlock out, or takes a flush for one.
static void lock_first(const struct scene *scene, int kind, MPI_Win window)
{
    const int lock = kind == UNLOCK_SHARED ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE;
    if (kind == UNLOCK_ALL)
        MPI_Win_lock_all(0, window);
    else
        MPI_Win_lock(lock, scene->bad, 0, window);
    put_into(window, scene->bad);
    flush(kind, window, scene->bad);
    if (makes(scene, MISSING_CALL) || makes(scene, OTHER_OPERATION))
        return;
    if (kind == UNLOCK_ALL)
        MPI_Win_unlock_all(window); // call: win_unlock_all
    else if (kind == UNLOCK_SHARED)
        MPI_Win_unlock(scene->bad, window); // call: win_unlock_shared
    else
        MPI_Win_unlock(scene->bad, window); // call: win_unlock
}

static void lock_second(const struct scene *scene, MPI_Win window)
{
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, scene->bad, 0, window); // call: lock of the partner
    put_into(window, scene->bad);
    MPI_Win_unlock(scene->bad, window); // call: unlock of the partner
}

static void run_passive(const struct scene *scene, const struct operation *operation)
{
    struct windows windows = make_windows(scene);
    if (scene->is_bad)
        lock_first(scene, operation->is.kind, windows.both[0]);
    MPI_Barrier(scene->comms[1]);
    if (scene->is_partner)
        lock_second(scene, windows.both[0]);
    if (!scene->wrong)
        free_windows(scene, &windows);
}

// Two locks that two ranks take, in the same order or not, and hold for a while.
static void run_two_locks(const struct scene *scene, const struct operation *operation)
{
    (void)operation;
    struct windows windows = make_windows(scene);
    if (scene->is_bad || scene->is_partner) {
        const int first = makes(scene, OTHER_ORDER), target = scene->bad;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, windows.both[first]);
        put_into(windows.both[first], target);
        MPI_Win_flush(target, windows.both[first]);
        usleep(HOLD_US);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, windows.both[1 - first]); // call: win_lock
        put_into(windows.both[1 - first], target);
        MPI_Win_unlock(target, windows.both[1 - first]); // call: unlock of the second lock
        MPI_Win_unlock(target, windows.both[first]);
    }
    free_windows(scene, &windows);
}

const struct operation synchronizations[] = {
    {"win_fence", run_fence, {0}},
    {"win_post", run_active, {POST}},
    {"win_start", run_active, {START}},
    {"win_complete", run_active, {COMPLETE}},
    {"win_test", run_active, {TEST_WINDOW}},
    {"win_lock", run_two_locks, {LOCK}},
    {"win_unlock", run_passive, {UNLOCK}},
    {"win_unlock_shared", run_passive, {UNLOCK_SHARED}},
    {"win_unlock_all", run_passive, {UNLOCK_ALL}},
    {"win_flush", run_passive, {FLUSH}},
    {"win_flush_all", run_passive, {FLUSH_ALL}},
    {"win_flush_local", run_passive, {FLUSH_LOCAL}},
    {"win_flush_local_all", run_passive, {FLUSH_LOCAL_ALL}},
    {.name = NULL},
};
