// Parallel files. No record covers what is in them. In deterministic runs all ranks come to a collective call on a file before any goes on,
// as to other collective calls; who comes first to a pointer that all share is not decided, so that such runs end there.
#include <stdlib.h>

#include "logical_parts.h"

enum { FILES = 2 };

static void know_file(int result, MPI_File file)
{
    MPI_Group group;
    if (result == MPI_SUCCESS && PMPI_File_get_group(file, &group) == MPI_SUCCESS)
        know_group(BITS_OF(file), group);
}

int MPI_File_open(MPI_Comm comm, const char *name, int mode, MPI_Info info, MPI_File *file)
{
    dms_uncovered(FILES);
    if (!dms_is_in_logical_run())
        return PMPI_File_open(comm, name, mode, info, file);
    ENTER(File_open, mode, 0, 0);
    if (treatment == LOGICAL)
        meet(comm);
    int result = PMPI_File_open(comm, name, mode, info, file);
    if (treatment == LOGICAL)
        know_file(result, *file);
    LEAVE(result);
}

int MPI_File_close(MPI_File *file)
{
    if (!dms_is_in_logical_run())
        return PMPI_File_close(file);
    ENTER(File_close, 0, 0, 0);
    if (treatment == LOGICAL) {
        meet_at(BITS_OF(*file));
        forget_group(BITS_OF(*file));
    }
    LEAVE(PMPI_File_close(file));
}

#define MEETS(name, S, params, args)                                                                                   \
    int MPI_File_##name##S(MPI_File file UNPACKED params)                                                              \
    {                                                                                                                  \
        if (!dms_is_in_logical_run())                                                                                  \
            return PMPI_File_##name##S(file UNPACKED args);                                                            \
        ENTER(File_##name, 0, 0, 0);                                                                                   \
        if (treatment == LOGICAL)                                                                                      \
            meet_at(BITS_OF(file));                                                                                    \
        LEAVE(PMPI_File_##name##S(file UNPACKED args));                                                                \
    }
#define SHARES(name, S, params, args)                                                                                  \
    int MPI_File_##name##S(MPI_File file UNPACKED params)                                                              \
    {                                                                                                                  \
        dms_refuse(FILES);                                                                                             \
        return PMPI_File_##name##S(file UNPACKED args);                                                                \
    }

// What was done at once, for a request of which that is all.
static int query(void *bytes, MPI_Status *status)
{
    PMPI_Status_set_elements_x(status, MPI_BYTE, *(MPI_Count *)bytes);
    PMPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = MPI_UNDEFINED;
    status->MPI_TAG = MPI_UNDEFINED;
    return MPI_SUCCESS;
}

static int freed(void *bytes)
{
    free(bytes);
    return MPI_SUCCESS;
}

static int cancelled(void *bytes, int complete)
{
    (void)bytes;
    (void)complete;
    return MPI_SUCCESS;
}

static int done(int result, const MPI_Status *status, MPI_Request *request)
{
    if (result != MPI_SUCCESS)
        return result;
    MPI_Count *bytes = malloc(sizeof *bytes);
    if (!bytes)
        PMPI_Abort(MPI_COMM_WORLD, MPI_ERR_NO_MEM);
    if (PMPI_Get_elements_x(status, MPI_BYTE, bytes) != MPI_SUCCESS)
        *bytes = 0;
    result = PMPI_Grequest_start(query, freed, cancelled, bytes, request);
    if (result == MPI_SUCCESS)
        PMPI_Grequest_complete(*request);
    return result;
}

// No other rank is needed for it: in a deterministic run it is over before the program asks, so that no test can come too soon.
#define POSTS(name, S, params, args)                                                                                   \
    int MPI_File_i##name##S(MPI_File file UNPACKED params, MPI_Request *request)                                       \
    {                                                                                                                  \
        MPI_Status status;                                                                                             \
        if (!dms_is_in_logical_run())                                                                                  \
            return PMPI_File_i##name##S(file UNPACKED args, request);                                                  \
        return done(PMPI_File_##name##S(file UNPACKED args, &status), &status, request);                               \
    }

#define UNPACKED(...) __VA_ARGS__

#define READS , void *buf
#define WRITES , const void *buf
#define SIZE(N) , N count, MPI_Datatype type
#define ALL(S, N)                                                                                                      \
    MEETS(read_at_all, S, (, MPI_Offset at READS SIZE(N), MPI_Status *status), (, at, buf, count, type, status))       \
    MEETS(write_at_all, S, (, MPI_Offset at WRITES SIZE(N), MPI_Status *status), (, at, buf, count, type, status))     \
    MEETS(read_all, S, (READS SIZE(N), MPI_Status *status), (, buf, count, type, status))                              \
    MEETS(write_all, S, (WRITES SIZE(N), MPI_Status *status), (, buf, count, type, status))                            \
    MEETS(read_ordered, S, (READS SIZE(N), MPI_Status *status), (, buf, count, type, status))                          \
    MEETS(write_ordered, S, (WRITES SIZE(N), MPI_Status *status), (, buf, count, type, status))                        \
    MEETS(read_at_all_begin, S, (, MPI_Offset at READS SIZE(N)), (, at, buf, count, type))                             \
    MEETS(write_at_all_begin, S, (, MPI_Offset at WRITES SIZE(N)), (, at, buf, count, type))                           \
    MEETS(read_all_begin, S, (READS SIZE(N)), (, buf, count, type))                                                    \
    MEETS(write_all_begin, S, (WRITES SIZE(N)), (, buf, count, type))                                                  \
    MEETS(read_ordered_begin, S, (READS SIZE(N)), (, buf, count, type))                                                \
    MEETS(write_ordered_begin, S, (WRITES SIZE(N)), (, buf, count, type))                                              \
    POSTS(read_at, S, (, MPI_Offset at READS SIZE(N)), (, at, buf, count, type))                                       \
    POSTS(write_at, S, (, MPI_Offset at WRITES SIZE(N)), (, at, buf, count, type))                                     \
    POSTS(read, S, (READS SIZE(N)), (, buf, count, type))                                                              \
    POSTS(write, S, (WRITES SIZE(N)), (, buf, count, type))                                                            \
    SHARES(read_shared, S, (READS SIZE(N), MPI_Status *status), (, buf, count, type, status))                          \
    SHARES(write_shared, S, (WRITES SIZE(N), MPI_Status *status), (, buf, count, type, status))                        \
    SHARES(iread_shared, S, (READS SIZE(N), MPI_Request *request), (, buf, count, type, request))                      \
    SHARES(iwrite_shared, S, (WRITES SIZE(N), MPI_Request *request), (, buf, count, type, request))

ALL(, int)
#if MPI_VERSION >= 4
ALL(_c, MPI_Count)
#endif
MEETS(read_at_all_end, , (READS, MPI_Status *status), (, buf, status))
MEETS(write_at_all_end, , (WRITES, MPI_Status *status), (, buf, status))
MEETS(read_all_end, , (READS, MPI_Status *status), (, buf, status))
MEETS(write_all_end, , (WRITES, MPI_Status *status), (, buf, status))
MEETS(read_ordered_end, , (READS, MPI_Status *status), (, buf, status))
MEETS(write_ordered_end, , (WRITES, MPI_Status *status), (, buf, status))
MEETS(set_size, , (, MPI_Offset size), (, size))
MEETS(preallocate, , (, MPI_Offset size), (, size))
MEETS(set_info, , (, MPI_Info info), (, info))
MEETS(set_view, , (, MPI_Offset at, MPI_Datatype unit, MPI_Datatype type, const char *representation, MPI_Info info),
      (, at, unit, type, representation, info))
MEETS(set_atomicity, , (, int is_atomic), (, is_atomic))
MEETS(sync, , (), ())
MEETS(seek_shared, , (, MPI_Offset at, int whence), (, at, whence))
