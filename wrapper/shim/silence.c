// A communicator in which nobody ever sends: its rank is alone there.
#include <pthread.h>
#include <sched.h>

#include "shim.h"

static MPI_Comm silent;
static int has_silent;
// A receive of what nobody sends.
static MPI_Request never;
static int has_never;

MPI_Comm silent_comm(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (!has_silent)
        has_silent = PMPI_Comm_dup(MPI_COMM_SELF, &silent) == MPI_SUCCESS;
    pthread_mutex_unlock(&lock);
    return has_silent ? silent : MPI_COMM_SELF;
}

void prepare_progress(void)
{
    has_never = PMPI_Irecv(NULL, 0, MPI_BYTE, 0, 0, silent_comm(), &never) == MPI_SUCCESS;
}

// A test has the library go on, a probe of MPICH does not.
void progress(void)
{
    static int is_tested;
    int flag;
    // By one thread at a time: the others give it the processor.
    if (__atomic_test_and_set(&is_tested, __ATOMIC_ACQUIRE)) {
        sched_yield();
        return;
    }
    if (!has_never && !dms_threads)
        prepare_progress();
    if (has_never)
        PMPI_Test(&never, &flag, MPI_STATUS_IGNORE);
    __atomic_clear(&is_tested, __ATOMIC_RELEASE);
    sched_yield();
}

void end_silence(void)
{
    if (has_never && PMPI_Cancel(&never) == MPI_SUCCESS)
        PMPI_Wait(&never, MPI_STATUS_IGNORE);
    has_never = 0;
    if (has_silent)
        PMPI_Comm_free(&silent);
    has_silent = 0;
}
