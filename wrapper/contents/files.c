// Calls on parallel files: what a rank read from them comes from the record, and what it writes is compared and dropped.
//
// In a rank that runs alone an empty file of its own, which has no name any more, stands for each. So a handle is one, and what is local (views,
// error handlers, hints) is done with it; the job's files are not touched.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "contents.h"

struct file {
    int64_t number;
    // What a split collective call has begun to read.
    struct data begun;
};

static struct map files;

static int64_t number_of(MPI_File file)
{
    const struct file *known = map_get(&files, BITS(file));
    return known ? known->number : -1;
}

static MPI_File stand_in(void)
{
    MPI_File file = MPI_FILE_NULL;
    const char *folder = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    char path[64];
    snprintf(path, sizeof path, "%s/dmscope-file-XXXXXX", folder);
    int descriptor = mkstemp(path);
    if (descriptor >= 0) {
        close(descriptor);
        suspend();
        PMPI_File_open(MPI_COMM_SELF, path, MPI_MODE_RDWR, MPI_INFO_NULL, &file);
        resume();
        unlink(path);
    }
    if (file == MPI_FILE_NULL)
        dmc_stop(CALL_File_open, "no file could be made that stands for the job's: is there room in /dev/shm or /tmp?");
    return file;
}

static void know_file(MPI_File file)
{
    struct file *known = calloc(1, sizeof *known);
    if (!known)
        abort();
    known->number = next_number(FILES);
    map_set(&files, BITS(file), known);
}

static void forget_begun(struct file *file)
{
    for (int i = 0; i < file->begun.count; i++)
        dropped_type(segments_of(&file->begun)[i].type);
    drop(&file->begun);
}

static void forget_file(struct file *known)
{
    if (!known)
        return;
    forget_begun(known);
    free(known);
}

// Ends a call with its result: an error goes to the file's handler, as it did. That of calls without a file returned, or the record ends there.
static int file_result(int treatment, int result, MPI_File file)
{
    result = result_of(treatment, result, MPI_COMM_NULL);
    if (treatment == PLAY && result != MPI_SUCCESS && file != MPI_FILE_NULL)
        PMPI_File_call_errhandler(file, result);
    return result;
}

// ---- Files themselves ----------------------------------------------------------------------------------------------

int MPI_File_open(MPI_Comm comm, const char *name, int mode, MPI_Info info, MPI_File *file)
{
    ENTER(File_open);
    PASSED(File_open, (comm, name, mode, info, file));
    COMPARE(File_open, comm_of(comm)->number, mode);
    int result = MAKE(File_open, (comm, name, mode, info, file));
    if (out(result == MPI_SUCCESS)) {
        if (treatment == PLAY)
            *file = stand_in();
        know_file(*file);
    }
    return file_result(treatment, result, MPI_FILE_NULL);
}

int MPI_File_close(MPI_File *file)
{
    ENTER(File_close);
    PASSED(File_close, (file));
    const MPI_File closed = *file;
    COMPARE(File_close, number_of(closed));
    // As soon as it is closed its handle may be another's.
    struct file *known = map_get(&files, BITS(closed));
    map_set(&files, BITS(closed), NULL);
    int result = MAKE(File_close, (file));
    if (treatment == PLAY) {
        suspend();
        PMPI_File_close(file);
        resume();
    }
    forget_file(known);
    return file_result(treatment, result, MPI_FILE_NULL);
}

int MPI_File_delete(const char *name, MPI_Info info)
{
    ENTER(File_delete);
    PASSED(File_delete, (name, info));
    dmc_call(CALL_File_delete, NULL, 0, 0, 0);
    int result = MAKE(File_delete, (name, info));
    return file_result(treatment, result, MPI_FILE_NULL);
}

int MPI_File_set_view(MPI_File file, MPI_Offset offset, MPI_Datatype unit, MPI_Datatype type, const char *representation,
                      MPI_Info info)
{
    ENTER(File_set_view);
    PASSED(File_set_view, (file, offset, unit, type, representation, info));
    COMPARE(File_set_view, number_of(file), offset);
    int result = MAKE(File_set_view, (file, offset, unit, type, representation, info));
    if (treatment == PLAY) {
        suspend();
        PMPI_File_set_view(file, offset, unit, type, representation, info);
        resume();
    }
    return file_result(treatment, result, file);
}

int MPI_File_get_group(MPI_File file, MPI_Group *made)
{
    ENTER(File_get_group);
    PASSED(File_get_group, (file, made));
    COMPARE(File_get_group, number_of(file));
    int result = MAKE(File_get_group, (file, made));
    if (out(result == MPI_SUCCESS))
        group_made(treatment, made);
    return file_result(treatment, result, file);
}

#define PLAIN(name, params, args, compared, answers)                                                                   \
    int MPI_File_##name(MPI_File file UNPACKED params)                                                                 \
    {                                                                                                                  \
        ENTER(File_##name);                                                                                            \
        PASSED(File_##name, (file UNPACKED args));                                                                     \
        COMPARE(File_##name, number_of(file) UNPACKED compared);                                                       \
        int result = MAKE(File_##name, (file UNPACKED args));                                                          \
        if (out(result == MPI_SUCCESS)) {                                                                              \
            answers;                                                                                                   \
        }                                                                                                              \
        return file_result(treatment, result, file);                                                                   \
    }

PLAIN(set_size, (, MPI_Offset size), (, size), (, size), )
PLAIN(preallocate, (, MPI_Offset size), (, size), (, size), )
PLAIN(get_size, (, MPI_Offset *size), (, size), (), OUT(*size))
PLAIN(get_amode, (, int *mode), (, mode), (), OUT(*mode))
PLAIN(set_atomicity, (, int is_atomic), (, is_atomic), (, is_atomic), )
PLAIN(get_atomicity, (, int *is_atomic), (, is_atomic), (), OUT(*is_atomic))
PLAIN(sync, (), (), (), )
PLAIN(seek, (, MPI_Offset offset, int whence), (, offset, whence), (, offset, whence), )
PLAIN(get_position, (, MPI_Offset *offset), (, offset), (), OUT(*offset))
PLAIN(get_byte_offset, (, MPI_Offset offset, MPI_Offset *bytes), (, offset, bytes), (, offset), OUT(*bytes))
PLAIN(seek_shared, (, MPI_Offset offset, int whence), (, offset, whence), (, offset, whence), )
PLAIN(get_position_shared, (, MPI_Offset *offset), (, offset), (), OUT(*offset))

// ---- What is read and written --------------------------------------------------------------------------------------

// A split collective call begins to read.
static void begin_to_read(MPI_File file, void *buf, MPI_Count count, MPI_Datatype type)
{
    struct file *known = map_get(&files, BITS(file));
    if (!known)
        return;
    forget_begun(known);
    add(&known->begun, buf, count, kept_type(type));
}

// It has read.
static void end_to_read(int treatment, MPI_File file, const MPI_Status *seen, int result)
{
    struct file *known = map_get(&files, BITS(file));
    struct segment nowhere = {NULL, 0, MPI_BYTE};
    struct segment *to = known && known->begun.count ? segments_of(&known->begun) : &nowhere;
    put_received(treatment, to, seen, result == MPI_SUCCESS);
    if (known)
        forget_begun(known);
}

static int begun_to_write(int treatment, int result, MPI_File file, MPI_Request *request)
{
    int is_made = (int)out(result == MPI_SUCCESS);
    if (is_made)
        idle_made(treatment, request);
    return file_result(treatment, result, file);
}

static int posted_read(int treatment, int result, MPI_File file, void *buf, MPI_Count count, MPI_Datatype type,
                       MPI_Request *request)
{
    if (out(result == MPI_SUCCESS)) {
        struct data data = {0};
        add(&data, buf, count, type);
        request_made(treatment, READS, &data, request);
    }
    return file_result(treatment, result, file);
}

// `at`: where, if the call says it.
#define READ(name, S, N, at, passed)                                                                                   \
    int MPI_File_##name##S(MPI_File file UNPACKED at, void *buf, N count, MPI_Datatype type, MPI_Status *status)       \
    {                                                                                                                  \
        ENTER(File_##name);                                                                                            \
        PASSED(File_##name##S, (file UNPACKED passed, buf, count, type, status));                                      \
        COMPARE(File_##name, number_of(file) UNPACKED passed, count);                                                  \
        STATUS_FOR(status);                                                                                            \
        int result = MAKE(File_##name##S, (file UNPACKED passed, buf, count, type, seen));                             \
        struct segment to = {buf, count, type};                                                                        \
        put_received(treatment, &to, seen, result == MPI_SUCCESS);                                                     \
        put_status(status);                                                                                            \
        return file_result(treatment, result, file);                                                                   \
    }
#define WRITE(name, S, N, at, passed)                                                                                  \
    int MPI_File_##name##S(MPI_File file UNPACKED at, const void *buf, N count, MPI_Datatype type, MPI_Status *status) \
    {                                                                                                                  \
        ENTER(File_##name);                                                                                            \
        PASSED(File_##name##S, (file UNPACKED passed, buf, count, type, status));                                      \
        SENDING(File_##name, sum_of_buffer(buf, count, type), number_of(file) UNPACKED passed, count);                 \
        STATUS_FOR(status);                                                                                            \
        int result = MAKE(File_##name##S, (file UNPACKED passed, buf, count, type, seen));                             \
        put_status(status);                                                                                            \
        return file_result(treatment, result, file);                                                                   \
    }
#define POST_READ(name, S, N, at, passed)                                                                              \
    int MPI_File_##name##S(MPI_File file UNPACKED at, void *buf, N count, MPI_Datatype type, MPI_Request *request)     \
    {                                                                                                                  \
        ENTER(File_##name);                                                                                            \
        PASSED(File_##name##S, (file UNPACKED passed, buf, count, type, request));                                     \
        COMPARE(File_##name, number_of(file) UNPACKED passed, count);                                                  \
        int result = MAKE(File_##name##S, (file UNPACKED passed, buf, count, type, request));                          \
        return posted_read(treatment, result, file, buf, count, type, request);                                        \
    }
#define POST_WRITE(name, S, N, at, passed)                                                                             \
    int MPI_File_##name##S(MPI_File file UNPACKED at, const void *buf, N count, MPI_Datatype type,                     \
                           MPI_Request *request)                                                                       \
    {                                                                                                                  \
        ENTER(File_##name);                                                                                            \
        PASSED(File_##name##S, (file UNPACKED passed, buf, count, type, request));                                     \
        SENDING(File_##name, sum_of_buffer(buf, count, type), number_of(file) UNPACKED passed, count);                 \
        int result = MAKE(File_##name##S, (file UNPACKED passed, buf, count, type, request));                          \
        return begun_to_write(treatment, result, file, request);                                                       \
    }
#define BEGIN_READ(name, S, N, at, passed)                                                                             \
    int MPI_File_##name##_begin##S(MPI_File file UNPACKED at, void *buf, N count, MPI_Datatype type)                   \
    {                                                                                                                  \
        ENTER(File_##name##_begin);                                                                                    \
        PASSED(File_##name##_begin##S, (file UNPACKED passed, buf, count, type));                                      \
        COMPARE(File_##name##_begin, number_of(file) UNPACKED passed, count);                                          \
        int result = MAKE(File_##name##_begin##S, (file UNPACKED passed, buf, count, type));                           \
        begin_to_read(file, buf, count, type);                                                                         \
        return file_result(treatment, result, file);                                                                   \
    }
#define BEGIN_WRITE(name, S, N, at, passed)                                                                            \
    int MPI_File_##name##_begin##S(MPI_File file UNPACKED at, const void *buf, N count, MPI_Datatype type)             \
    {                                                                                                                  \
        ENTER(File_##name##_begin);                                                                                    \
        PASSED(File_##name##_begin##S, (file UNPACKED passed, buf, count, type));                                      \
        SENDING(File_##name##_begin, sum_of_buffer(buf, count, type), number_of(file) UNPACKED passed, count);         \
        int result = MAKE(File_##name##_begin##S, (file UNPACKED passed, buf, count, type));                           \
        return file_result(treatment, result, file);                                                                   \
    }
#define END_READ(name)                                                                                                 \
    int MPI_File_##name##_end(MPI_File file, void *buf, MPI_Status *status)                                            \
    {                                                                                                                  \
        ENTER(File_##name##_end);                                                                                      \
        PASSED(File_##name##_end, (file, buf, status));                                                                \
        COMPARE(File_##name##_end, number_of(file));                                                                   \
        STATUS_FOR(status);                                                                                            \
        int result = MAKE(File_##name##_end, (file, buf, seen));                                                       \
        end_to_read(treatment, file, seen, result);                                                                    \
        put_status(status);                                                                                            \
        return file_result(treatment, result, file);                                                                   \
    }
#define END_WRITE(name)                                                                                                \
    int MPI_File_##name##_end(MPI_File file, const void *buf, MPI_Status *status)                                      \
    {                                                                                                                  \
        ENTER(File_##name##_end);                                                                                      \
        PASSED(File_##name##_end, (file, buf, status));                                                                \
        COMPARE(File_##name##_end, number_of(file));                                                                   \
        STATUS_FOR(status);                                                                                            \
        int result = MAKE(File_##name##_end, (file, buf, seen));                                                       \
        put_status(status);                                                                                            \
        return file_result(treatment, result, file);                                                                   \
    }

#define AT (, MPI_Offset offset), (, offset)
#define HERE (), ()
#define EACH(kind, name, S, N, place) EACH_(kind, name, S, N, place)
#define EACH_(kind, name, S, N, ...) kind(name, S, N, __VA_ARGS__)

#define ALL(S, N)                                                                                                      \
    EACH(READ, read_at, S, N, AT)                                                                                      \
    EACH(READ, read_at_all, S, N, AT)                                                                                  \
    EACH(READ, read, S, N, HERE)                                                                                       \
    EACH(READ, read_all, S, N, HERE)                                                                                   \
    EACH(READ, read_shared, S, N, HERE)                                                                                \
    EACH(READ, read_ordered, S, N, HERE)                                                                               \
    EACH(WRITE, write_at, S, N, AT)                                                                                    \
    EACH(WRITE, write_at_all, S, N, AT)                                                                                \
    EACH(WRITE, write, S, N, HERE)                                                                                     \
    EACH(WRITE, write_all, S, N, HERE)                                                                                 \
    EACH(WRITE, write_shared, S, N, HERE)                                                                              \
    EACH(WRITE, write_ordered, S, N, HERE)                                                                             \
    EACH(POST_READ, iread_at, S, N, AT)                                                                                \
    EACH(POST_READ, iread_at_all, S, N, AT)                                                                            \
    EACH(POST_READ, iread, S, N, HERE)                                                                                 \
    EACH(POST_READ, iread_all, S, N, HERE)                                                                             \
    EACH(POST_READ, iread_shared, S, N, HERE)                                                                          \
    EACH(POST_WRITE, iwrite_at, S, N, AT)                                                                              \
    EACH(POST_WRITE, iwrite_at_all, S, N, AT)                                                                          \
    EACH(POST_WRITE, iwrite, S, N, HERE)                                                                               \
    EACH(POST_WRITE, iwrite_all, S, N, HERE)                                                                           \
    EACH(POST_WRITE, iwrite_shared, S, N, HERE)                                                                        \
    EACH(BEGIN_READ, read_at_all, S, N, AT)                                                                            \
    EACH(BEGIN_READ, read_all, S, N, HERE)                                                                             \
    EACH(BEGIN_READ, read_ordered, S, N, HERE)                                                                         \
    EACH(BEGIN_WRITE, write_at_all, S, N, AT)                                                                          \
    EACH(BEGIN_WRITE, write_all, S, N, HERE)                                                                           \
    EACH(BEGIN_WRITE, write_ordered, S, N, HERE)

ALL(, int)
#if MPI_VERSION >= 4
ALL(_c, MPI_Count)
#endif
END_READ(read_at_all)
END_READ(read_all)
END_READ(read_ordered)
END_WRITE(write_at_all)
END_WRITE(write_all)
END_WRITE(write_ordered)
