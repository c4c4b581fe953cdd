// Deterministic runs: waiting for the answers of logical time, and for what MPI does then.
#include <sched.h>

#include "logical_parts.h"

static int is_answered(void)
{
    int answer = dms_turn();
    if (answer & 2)
        post_decided();
    return answer & 1;
}

void wait_for_answer(void)
{
    while (!is_answered())
        progress();
}

// Waits until MPI has done what it surely will.
int finish(MPI_Request *request, MPI_Status *status)
{
    int flag = 0, result = PMPI_Test(request, &flag, status);
    while (result == MPI_SUCCESS && !flag) {
        sched_yield();
        result = PMPI_Test(request, &flag, status);
    }
    return result;
}

// Waits for what may need that others receive; 0: the test was put off.
int finish_or_put_off(int is_test, MPI_Request *request, MPI_Status *status, int *result)
{
    int flag = 0;
    *result = PMPI_Test(request, &flag, status);
    if (flag || *result != MPI_SUCCESS)
        return 1;
    dms_ask_mpi(is_test);
    while (!is_answered()) {
        progress();
        *result = PMPI_Test(request, &flag, status);
        if (flag || *result != MPI_SUCCESS) {
            dms_stop_asking();
            return 1;
        }
    }
    return 0;
}

int is_complete_or_put_off(MPI_Request request, int *result)
{
    int flag = 0;
    dms_ask_mpi(1);
    for (;;) {
        *result = PMPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE);
        if (flag || *result != MPI_SUCCESS) {
            dms_stop_asking();
            return 1;
        }
        if (is_answered())
            return 0;
        progress();
    }
}
