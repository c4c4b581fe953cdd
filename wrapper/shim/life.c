// The beginning and the end of a rank.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

#include "logical.h"

#ifdef OPEN_MPI
static const int is_open_mpi = 1;
MPI_Comm comm_world, comm_self, comm_null;
MPI_Request request_null;
MPI_Datatype type_byte, type_int, type_packed;
MPI_Info info_null;

static void find_handles(void)
{
    comm_world = dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world");
    comm_self = dlsym(RTLD_DEFAULT, "ompi_mpi_comm_self");
    comm_null = dlsym(RTLD_DEFAULT, "ompi_mpi_comm_null");
    request_null = dlsym(RTLD_DEFAULT, "ompi_request_null");
    type_byte = dlsym(RTLD_DEFAULT, "ompi_mpi_byte");
    type_int = dlsym(RTLD_DEFAULT, "ompi_mpi_int");
    type_packed = dlsym(RTLD_DEFAULT, "ompi_mpi_packed");
    info_null = dlsym(RTLD_DEFAULT, "ompi_mpi_info_null");
}
#else
static const int is_open_mpi = 0;

static void find_handles(void)
{
}
#endif

void check_library(void)
{
    static int is_found;
    if (is_found)
        return;
    if (!dlsym(RTLD_DEFAULT, "PMPI_Get_version"))
        find_mpi_libraries();
    const int has_open_mpi = dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world") != NULL;
    const int has_mpi = dlsym(RTLD_DEFAULT, "PMPI_Get_version") != NULL;
    if (has_mpi && has_open_mpi != is_open_mpi) {
        static const char words[] = "dmscope: this program uses another MPI library than was taken for it; name the right "
                                    "one with --mpi\n";
        if (write(STDERR_FILENO, words, sizeof words - 1) < 0)
            _exit(3);
        _exit(2);
    }
    if (has_mpi)
        find_handles();
    is_found = has_mpi;
}

__attribute__((constructor)) static void loaded(void)
{
    check_library();
    dms_process_begins();
}

void wait_for_turn(void)
{
    // Others may need what this rank has started: the library goes on while it waits.
    for (unsigned tries = 0; !dms_leave(); tries++) {
        const struct timespec while_others_compute = {0, 50 * 1000};
        progress();
        if (tries > 1000)
            nanosleep(&while_others_compute, NULL);
    }
}

static void begin(int result)
{
    char library[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length, rank, size, level;
    MPI_Comm parent = MPI_COMM_NULL;
    if (result != MPI_SUCCESS)
        return;
    PMPI_Get_library_version(library, &length);
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    PMPI_Query_thread(&level);
    PMPI_Comm_get_parent(&parent);
    // Levels have other numbers in each library.
    level = level == MPI_THREAD_MULTIPLE ? 3 : level == MPI_THREAD_SERIALIZED ? 2 : level == MPI_THREAD_FUNNELED ? 1 : 0;
    int here = dms_is_logical() ? logical_ranks_here() : size;
    dms_begin(library, rank, size, level, parent != MPI_COMM_NULL, here, bits_of(MPI_REQUEST_NULL));
    if (level == 3 && dms_is_replayed())
        prepare_progress();
    message_comm(RECORD, MPI_SUCCESS, MPI_COMM_WORLD);
    message_comm(RECORD, MPI_SUCCESS, MPI_COMM_SELF);
}

int MPI_Init(int *argc, char ***argv)
{
    check_library();
    dms_init(1);
    int result = PMPI_Init(argc, argv);
    dms_init(0);
    begin(result);
    return result;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    check_library();
    dms_init(1);
    int result = PMPI_Init_thread(argc, argv, required, provided);
    dms_init(0);
    begin(result);
    return result;
}

int MPI_Finalize(void)
{
    ENTER(Finalize, 0, 0, 0);
    if (treatment != PASS) {
        look_at_undecided();
        if (treatment == LOGICAL)
            logical_end();
        dms_end();
        end_silence();
    }
    // It is said to have ended: nothing more is told of it.
    return PMPI_Finalize();
}
