// Windows. No record covers what ranks do in them. In deterministic runs all ranks come to a collective call on a window before any goes on.
// Who is first by locks is not decided: where one waits for another's, or for a group's epoch, such a run ends.
#include "logical_parts.h"

enum { WINDOWS = 0, BY_LOCKS = 7 };

static void know_window(int result, MPI_Win window)
{
    MPI_Group group;
    if (result == MPI_SUCCESS && PMPI_Win_get_group(window, &group) == MPI_SUCCESS)
        know_group(BITS_OF(window), group);
}

#define MAKES(name, S, params, args)                                                                                   \
    int MPI_Win_##name##S params                                                                                       \
    {                                                                                                                  \
        dms_uncovered(WINDOWS);                                                                                        \
        if (!dms_is_in_logical_run())                                                                                  \
            return PMPI_Win_##name##S args;                                                                            \
        ENTER(Win_##name, 0, 0, 0);                                                                                    \
        if (treatment == LOGICAL)                                                                                      \
            meet(comm);                                                                                                \
        int result = PMPI_Win_##name##S args;                                                                          \
        if (treatment == LOGICAL)                                                                                      \
            know_window(result, *window);                                                                              \
        LEAVE(result);                                                                                                 \
    }
#define ALL(S, UNIT)                                                                                                   \
    MAKES(create, S, (void *base, MPI_Aint size, UNIT unit, MPI_Info info, MPI_Comm comm, MPI_Win *window),            \
          (base, size, unit, info, comm, window))                                                                      \
    MAKES(allocate, S, (MPI_Aint size, UNIT unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *window),          \
          (size, unit, info, comm, base, window))                                                                      \
    MAKES(allocate_shared, S, (MPI_Aint size, UNIT unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *window),   \
          (size, unit, info, comm, base, window))

ALL(, int)
#if MPI_VERSION >= 4
ALL(_c, MPI_Aint)
#endif
MAKES(create_dynamic, , (MPI_Info info, MPI_Comm comm, MPI_Win *window), (info, comm, window))

int MPI_Win_free(MPI_Win *window)
{
    if (!dms_is_in_logical_run())
        return PMPI_Win_free(window);
    ENTER(Win_free, 0, 0, 0);
    if (treatment == LOGICAL) {
        meet_at(BITS_OF(*window));
        forget_group(BITS_OF(*window));
    }
    LEAVE(PMPI_Win_free(window));
}

int MPI_Win_fence(int assert, MPI_Win window)
{
    if (!dms_is_in_logical_run())
        return PMPI_Win_fence(assert, window);
    ENTER(Win_fence, assert, 0, 0);
    if (treatment == LOGICAL)
        meet_at(BITS_OF(window));
    LEAVE(PMPI_Win_fence(assert, window));
}

static void locks(void)
{
    if (dms_is_in_logical_run())
        dms_uncovered(BY_LOCKS);
}

int MPI_Win_lock(int type, int rank, int assert, MPI_Win window)
{
    if (type == MPI_LOCK_EXCLUSIVE)
        dms_refuse(WINDOWS);
    locks();
    return PMPI_Win_lock(type, rank, assert, window);
}

int MPI_Win_lock_all(int assert, MPI_Win window)
{
    locks();
    return PMPI_Win_lock_all(assert, window);
}

int MPI_Win_post(MPI_Group group, int assert, MPI_Win window)
{
    dms_refuse(WINDOWS);
    return PMPI_Win_post(group, assert, window);
}

int MPI_Win_start(MPI_Group group, int assert, MPI_Win window)
{
    dms_refuse(WINDOWS);
    return PMPI_Win_start(group, assert, window);
}
