// The beginning and the end of a rank, and how its calls are told from those of others.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "../fortran/fortran.h"
#include "contents.h"

#ifdef OPEN_MPI
MPI_Comm comm_world, comm_self, comm_null;
MPI_Request request_null;
MPI_Group group_null, group_empty;
MPI_Datatype type_byte, type_null;
MPI_Message message_null, message_no_proc;
MPI_File file_null;
MPI_Info info_null;

static void find_handles(void)
{
    comm_world = dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world");
    comm_self = dlsym(RTLD_DEFAULT, "ompi_mpi_comm_self");
    comm_null = dlsym(RTLD_DEFAULT, "ompi_mpi_comm_null");
    request_null = dlsym(RTLD_DEFAULT, "ompi_request_null");
    group_null = dlsym(RTLD_DEFAULT, "ompi_mpi_group_null");
    group_empty = dlsym(RTLD_DEFAULT, "ompi_mpi_group_empty");
    type_byte = dlsym(RTLD_DEFAULT, "ompi_mpi_byte");
    type_null = dlsym(RTLD_DEFAULT, "ompi_mpi_datatype_null");
    message_null = dlsym(RTLD_DEFAULT, "ompi_message_null");
    message_no_proc = dlsym(RTLD_DEFAULT, "ompi_message_no_proc");
    file_null = dlsym(RTLD_DEFAULT, "ompi_mpi_file_null");
    info_null = dlsym(RTLD_DEFAULT, "ompi_mpi_info_null");
}
#else
static void find_handles(void)
{
}
#endif

const int *unweighted(void)
{
#ifdef OPEN_MPI
    return MPI_UNWEIGHTED;
#else
    int *const *variable = dlsym(RTLD_DEFAULT, "MPI_UNWEIGHTED");
    return variable ? *variable : NULL;
#endif
}

static void find_library(void)
{
    if (!dlsym(RTLD_DEFAULT, "PMPI_Get_version"))
        find_mpi_libraries();
    find_handles();
}

void *next_of(const char *name)
{
    void *next = dlsym(RTLD_NEXT, name);
    if (!next) {
        char by_tools[128];
        snprintf(by_tools, sizeof by_tools, "P%s", name);
        next = dlsym(RTLD_DEFAULT, by_tools);
    }
    return next;
}

// ---- Calls of the program ------------------------------------------------------------------------------------------

static int mode = PASS;
static pthread_t owner;
// All threads may call: one at a time, so that their calls are one sequence, or at the same time.
static int is_shared;
static int has_second_thread;
// Of each thread.
static __thread uintptr_t in_call PRELOADED;
static __thread int is_suspended PRELOADED;

int is_playing(void)
{
    return mode == PLAY;
}

int enter(unsigned call, uintptr_t stack)
{
    if (__builtin_expect(mode == PASS || is_suspended, 1))
        return PASS;
    know_thread();
    if (!is_shared && !pthread_equal(pthread_self(), owner)) {
        // Another thread. What it gets has no place in the record: that ends with the owner's next call.
        if (mode == PLAY)
            dmc_second_thread(call);
        __atomic_store_n(&has_second_thread, 1, __ATOMIC_RELEASE);
        return PASS;
    }
    if (__builtin_expect(__atomic_load_n(&has_second_thread, __ATOMIC_ACQUIRE), 0)) {
        dmc_refuse(call, "by several threads, though it asked for a thread level at which one calls");
        mode = PASS;
        return PASS;
    }
    // One that was left by a jump is farther down than whoever calls now.
    if (in_call && stack < in_call) {
        // A function of the program that the library calls. What it asks for has no place in the record.
        if (mode == PLAY)
            dmc_stop(call, "a function of the program that MPI calls makes calls itself: they are not recorded");
        return PASS;
    }
    in_call = stack;
    return mode;
}

void leave(void)
{
    in_call = 0;
}

void suspend(void)
{
    is_suspended = 1;
}

void resume(void)
{
    is_suspended = 0;
}

void rank_begins(int result, int level)
{
    char library[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length, rank, size;
    MPI_Comm parent = MPI_COMM_NULL;
    if (result != MPI_SUCCESS)
        return;
    PMPI_Get_library_version(library, &length);
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    PMPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL)
        return;
    know_thread();
    owner = pthread_self();
    is_shared = level >= MPI_THREAD_SERIALIZED;
    threads_begin(level);
    mode = dmc_begin_rank(library, rank, size, level);
}

static int begins(int result, int *provided)
{
    int level = MPI_THREAD_SINGLE;
    PMPI_Query_thread(&level);
    rank_begins(result, level);
    if (mode == PASS)
        return result;
    dmc_call(CALL_Init, NULL, 0, 0, 0);
    int64_t outs[] = {level, 0, 0};
    int rank, size;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    outs[1] = rank;
    outs[2] = size;
    dmc_outs(outs, 3);
    if (provided)
        *provided = (int)outs[0];
    world_is(mode, (int)outs[1], (int)outs[2]);
    return result;
}

int MPI_Init(int *argc, char ***argv)
{
    find_library();
    return begins(NEXT(Init)(argc, argv), NULL);
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    find_library();
    return begins(NEXT(Init_thread)(argc, argv, required, provided), provided);
}

int MPI_Finalize(void)
{
    ENTER(Finalize);
    if (treatment != PASS) {
        dmc_call(CALL_Finalize, NULL, 0, 0, 0);
        dmc_end();
        objects_end();
        mode = PASS;
    }
    if (treatment == PLAY)
        return PMPI_Finalize();
    return NEXT(Finalize)();
}

int result_of(int treatment, int result, MPI_Comm comm)
{
    int class = MPI_SUCCESS;
    if (treatment == RECORD && result != MPI_SUCCESS)
        PMPI_Error_class(result, &class);
    class = (int)out(class);
    if (treatment == PLAY && class != MPI_SUCCESS && comm != MPI_COMM_NULL)
        PMPI_Comm_call_errhandler(comm, class);
    leave();
    return treatment == PLAY ? class : result;
}

// ---- What is asked of the process ----------------------------------------------------------------------------------

int MPI_Get_processor_name(char *name, int *length)
{
    ENTER(Get_processor_name);
    PASSED(Get_processor_name, (name, length));
    dmc_call(CALL_Get_processor_name, NULL, 0, 0, 0);
    int result = MAKE(Get_processor_name, (name, length));
    *length = (int)out(*length);
    dmc_bytes(name, (uint64_t)*length + 1);
    return result_of(treatment, result, MPI_COMM_NULL);
}

int MPI_Query_thread(int *level)
{
    ENTER(Query_thread);
    PASSED(Query_thread, (level));
    dmc_call(CALL_Query_thread, NULL, 0, 0, 0);
    int result = MAKE(Query_thread, (level));
    *level = (int)out(*level);
    return result_of(treatment, result, MPI_COMM_NULL);
}
