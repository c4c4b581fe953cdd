// Calls that fail, and a program that wants to be told and goes on: a rank that does not exist, a file that is not there, a
// buffer that is too short, found by MPI_Recv and by MPI_Test. Every fourth iteration sends what fits.
#include "job.h"

#include <string.h>

enum { TAG = 1, SENT = 16, SHORT = 8 };

static uint64_t is_not(int code, int expected)
{
    int class = MPI_SUCCESS;
    MPI_Error_class(code, &class);
    return class != expected;
}

static uint64_t wrong_rank(const struct job *job, const int *numbers)
{
    return is_not(MPI_Send(numbers, 1, MPI_INT, job->ranks, TAG, MPI_COMM_WORLD), MPI_ERR_RANK); // fails: rank
}

static uint64_t missing_file(void)
{
    MPI_File file;
    return MPI_File_open(MPI_COMM_SELF, "/nowhere/at/all", MPI_MODE_RDONLY, MPI_INFO_NULL, &file) == MPI_SUCCESS; // fails: file
}

static int receive(int *numbers, int room, int source)
{
    return MPI_Recv(numbers, room, MPI_INT, source, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE); // fails: truncated
}

static int receive_asking(int *numbers, int room, int source)
{
    MPI_Request request;
    int is_there = 0, code = MPI_SUCCESS;
    MPI_Irecv(numbers, room, MPI_INT, source, TAG, MPI_COMM_WORLD, &request);
    while (!is_there && code == MPI_SUCCESS)
        code = MPI_Test(&request, &is_there, MPI_STATUS_IGNORE);
    return code;
}

static uint64_t shift(const struct job *job, int *numbers, int room, bool asks)
{
    const int right = (job->rank + 1) % job->ranks, left = (job->rank + job->ranks - 1) % job->ranks;
    int sent[SENT];
    MPI_Request request;
    memset(sent, job->rank, sizeof(sent));
    MPI_Isend(sent, SENT, MPI_INT, right, TAG, MPI_COMM_WORLD, &request);
    job_await_message(left, TAG, MPI_COMM_WORLD);
    const int code = asks ? receive_asking(numbers, room, left) : receive(numbers, room, left);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return is_not(code, room < SENT ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
}

int main(int argc, char **argv)
{
    int numbers[SENT];
    struct job job = {.iterations = 200};
    job_start(&job, "handled", MPI_THREAD_SINGLE, argc, argv, NULL, 0);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    uint64_t errors = 0;
    while (job_next_iteration(&job)) {
        const uint64_t turn = job.finished_iterations % 4;
        if (turn == 0)
            errors += wrong_rank(&job, numbers) + missing_file();
        errors += shift(&job, numbers, turn == 3 ? SENT : SHORT, turn == 2);
    }
    return job_finish(&job, errors);
}
