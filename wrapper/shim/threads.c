// Threads: those that the program creates get names, and where several make calls they post sends and receives one after the other.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <threads.h>
#include <time.h>

#include "shim.h"

// ---- Names ---------------------------------------------------------------------------------------------------------

struct beginning {
    // As `pthread_create` wants it, or as `thrd_create` does.
    void *(*routine)(void *);
    thrd_start_t start;
    void *argument;
    uint64_t name;
};

// For the other wrapper, which threads are not created through.
uint64_t dmscope_thread_name(void)
{
    return dms_own_thread_name();
}

int dmscope_has_threads(void)
{
    return dms_has_threads();
}

static struct beginning begin_named(void *given)
{
    const struct beginning beginning = *(struct beginning *)given;
    free(given);
    dms_thread_begins(beginning.name);
    return beginning;
}

static void *begin_thread(void *given)
{
    const struct beginning beginning = begin_named(given);
    return beginning.routine(beginning.argument);
}

static int begin_thrd(void *given)
{
    const struct beginning beginning = begin_named(given);
    return beginning.start(beginning.argument);
}

// None: the thread that the code at `caller` creates gets no name.
static struct beginning *named(struct beginning beginning, void *caller)
{
    beginning.name = dms_thread_name((uintptr_t)caller);
    struct beginning *kept = beginning.name ? malloc(sizeof *kept) : NULL;
    if (kept)
        *kept = beginning;
    return kept;
}

// The C library's own function.
static void *of_c_library(void **found, const char *name)
{
    void *real = __atomic_load_n(found, __ATOMIC_RELAXED);
    if (!real) {
        real = dlsym(RTLD_NEXT, name);
        __atomic_store_n(found, real, __ATOMIC_RELAXED);
    }
    return real;
}

typedef int pthread_creator(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes, void *(*routine)(void *),
                   void *restrict argument)
{
    static void *found;
    pthread_creator *real = (pthread_creator *)of_c_library(&found, "pthread_create");
    if (!real)
        return EAGAIN;
    struct beginning *beginning =
        named((struct beginning){.routine = routine, .argument = argument}, __builtin_return_address(0));
    if (!beginning)
        return real(thread, attributes, routine, argument);
    const int result = real(thread, attributes, begin_thread, beginning);
    if (result != 0)
        free(beginning);
    return result;
}

typedef int thrd_creator(thrd_t *, thrd_start_t, void *);

int thrd_create(thrd_t *thread, thrd_start_t start, void *argument)
{
    static void *found;
    thrd_creator *real = (thrd_creator *)of_c_library(&found, "thrd_create");
    if (!real)
        return thrd_error;
    struct beginning *beginning =
        named((struct beginning){.start = start, .argument = argument}, __builtin_return_address(0));
    if (!beginning)
        return real(thread, start, argument);
    const int result = real(thread, begin_thrd, beginning);
    if (result != thrd_success)
        free(beginning);
    return result;
}

// ---- Posting -------------------------------------------------------------------------------------------------------

void begin_post(void)
{
    const struct timespec while_others_compute = {0, 50 * 1000};
    int due;
    for (unsigned tries = 0; (due = dms_begin_post()) != POST_NOW; tries++) {
        // In a replay others may have to post before, and may need what this rank has started.
        if (due == POST_OTHERS_FIRST && tries > 100)
            progress();
        else
            sched_yield();
        if (tries > 1000)
            nanosleep(&while_others_compute, NULL);
    }
}

int wait_in_turn(MPI_Request *request, MPI_Status *status)
{
    // A library that waits may keep the processor from the thread that is next.
    for (;;) {
        int flag = 0;
        const int result = PMPI_Test(request, &flag, status);
        if (flag || result != MPI_SUCCESS)
            return result;
        sched_yield();
    }
}

int probe_in_turn(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status)
{
    for (;;) {
        int flag = 0;
        begin_post();
        int result = message ? PMPI_Improbe(source, tag, comm, &flag, message, status)
                             : PMPI_Iprobe(source, tag, comm, &flag, status);
        dms_end_post(flag);
        if (flag || result != MPI_SUCCESS)
            return result;
        sched_yield();
    }
}

// Whichever fails first.
static int wait_for_both(int result, MPI_Request *sends, MPI_Request *receives, MPI_Status *status)
{
    // Both go on while one is waited for.
    const int received = *receives == MPI_REQUEST_NULL ? MPI_SUCCESS : wait_in_turn(receives, status);
    const int sent = *sends == MPI_REQUEST_NULL ? MPI_SUCCESS : wait_in_turn(sends, MPI_STATUS_IGNORE);
    return result != MPI_SUCCESS ? result : received != MPI_SUCCESS ? received : sent;
}

static MPI_Count bytes_of(MPI_Count count, MPI_Datatype type)
{
    MPI_Count bytes = 0;
    return PMPI_Type_size_x(type, &bytes) == MPI_SUCCESS ? count * bytes : 0;
}

// Posted at once, and then waited for: a call that waits would keep others from posting.
#define WAITING(suffix, COUNT)                                                                                         \
    int recv_in_turn##suffix(void *buf, COUNT count, MPI_Datatype type, int source, int tag, MPI_Comm comm,            \
                             MPI_Status *status)                                                                       \
    {                                                                                                                  \
        MPI_Request request;                                                                                           \
        begin_post();                                                                                                  \
        int result = PMPI_Irecv##suffix(buf, count, type, source, tag, comm, &request);                                \
        dms_end_post(1);                                                                                               \
        return result == MPI_SUCCESS ? wait_in_turn(&request, status) : result;                                        \
    }                                                                                                                  \
    int sendrecv_in_turn##suffix(const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, int dest, int sendtag,   \
                                 void *recvbuf, COUNT recvcount, MPI_Datatype recvtype, int source, int recvtag,       \
                                 MPI_Comm comm, MPI_Status *status)                                                    \
    {                                                                                                                  \
        MPI_Request send = MPI_REQUEST_NULL, receive = MPI_REQUEST_NULL;                                               \
        begin_post();                                                                                                  \
        int result = PMPI_Irecv##suffix(recvbuf, recvcount, recvtype, source, recvtag, comm, &receive);                \
        if (result == MPI_SUCCESS)                                                                                     \
            result = PMPI_Isend##suffix(sendbuf, sendcount, sendtype, dest, sendtag, comm, &send);                     \
        dms_end_post(1);                                                                                               \
        if (result != MPI_SUCCESS && receive != MPI_REQUEST_NULL)                                                      \
            PMPI_Cancel(&receive);                                                                                     \
        return wait_for_both(result, &send, &receive, status);                                                         \
    }                                                                                                                  \
    int sendrecv_replace_in_turn##suffix(void *buf, COUNT count, MPI_Datatype type, int dest, int sendtag, int source, \
                                         int recvtag, MPI_Comm comm, MPI_Status *status)                               \
    {                                                                                                                  \
        MPI_Request send = MPI_REQUEST_NULL, receive = MPI_REQUEST_NULL;                                               \
        COUNT room = 0, packed = 0;                                                                                    \
        const int fits = sizeof(COUNT) > sizeof(int) || bytes_of(count, type) < INT_MAX / 2;                           \
        int result = fits ? PMPI_Pack_size##suffix(count, type, comm, &room) : MPI_ERR_COUNT;                          \
        char *copy = result == MPI_SUCCESS ? malloc((size_t)room + 1) : NULL;                                          \
        if (!copy)                                                                                                     \
            return PMPI_Sendrecv_replace##suffix(buf, count, type, dest, sendtag, source, recvtag, comm, status);      \
        result = PMPI_Pack##suffix(buf, count, type, copy, room, &packed, comm);                                       \
        begin_post();                                                                                                  \
        if (result == MPI_SUCCESS)                                                                                     \
            result = PMPI_Irecv##suffix(buf, count, type, source, recvtag, comm, &receive);                            \
        if (result == MPI_SUCCESS)                                                                                     \
            result = PMPI_Isend##suffix(copy, packed, MPI_PACKED, dest, sendtag, comm, &send);                         \
        dms_end_post(1);                                                                                               \
        if (result != MPI_SUCCESS && receive != MPI_REQUEST_NULL)                                                      \
            PMPI_Cancel(&receive);                                                                                     \
        result = wait_for_both(result, &send, &receive, status);                                                       \
        free(copy);                                                                                                    \
        return result;                                                                                                 \
    }

WAITING(, int)
#if MPI_VERSION >= 4
WAITING(_c, MPI_Count)
#endif
