// Right, but slow: in each iteration neighbours exchange a number and all agree on a sum, while one rank computes or
// sleeps before its turn, or the ranks have different amounts of work. Whoever waits here waits for nothing broken.
#include "job.h"
#include "work.h"

enum { TAG = 1 };

struct delays {
    uint64_t slow_rank, slow_iteration, work_steps;
    double compute_s, sleep_s, uneven_s;
    bool in_collective;
};

static void take_time(const struct job *job, const struct delays *delays)
{
    const uint64_t turn = (uint64_t)job->rank + job->finished_iterations;
    compute_for(delays->uneven_s * (double)(turn % (uint64_t)job->ranks));
    if ((uint64_t)job->rank != delays->slow_rank || job->finished_iterations != delays->slow_iteration)
        return;
    compute_for(delays->compute_s);
    work_through(delays->work_steps);
    sleep_for(delays->sleep_s);
}

static uint64_t exchange(const struct job *job)
{
    const int right = (job->rank + 1) % job->ranks, left = (job->rank + job->ranks - 1) % job->ranks;
    int received = -1;
    MPI_Send(&job->rank, 1, MPI_INT, right, TAG, MPI_COMM_WORLD);
    MPI_Recv(&received, 1, MPI_INT, left, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return received != left;
}

static uint64_t agree(const struct job *job)
{
    int sum = 0;
    MPI_Allreduce(&job->rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return sum != job->ranks * (job->ranks - 1) / 2;
}

int main(int argc, char **argv)
{
    struct delays delays = {.slow_rank = 1, .slow_iteration = 2};
    const struct job_option own[] = {
        {"--compute", OPTION_F64, &delays.compute_s, "seconds that the slow rank computes"},
        {"--work", OPTION_U64, &delays.work_steps, "steps of computing of the slow rank, as long as they take"},
        {"--sleep", OPTION_F64, &delays.sleep_s, "seconds that the slow rank sleeps"},
        {"--uneven", OPTION_F64, &delays.uneven_s, "seconds of work of a rank, times 0, 1, ... in turns"},
        {"--in-collective", OPTION_SET, &delays.in_collective, "the others wait in a collective, not in a receive"},
        {"--slow-rank", OPTION_U64, &delays.slow_rank, "the slow rank"},
        {"--slow-iteration", OPTION_U64, &delays.slow_iteration, "the iteration in which it is slow, from 1"},
    };
    struct job job = {.iterations = 4};
    job_start(&job, "slow", MPI_THREAD_SINGLE, argc, argv, own, sizeof(own) / sizeof(own[0]));
    uint64_t errors = 0;
    while (job_next_iteration(&job)) {
        if (!delays.in_collective)
            take_time(&job, &delays);
        errors += exchange(&job);
        if (delays.in_collective)
            take_time(&job, &delays);
        errors += agree(&job);
    }
    job_report(&job, "{\"type\":\"result\",\"rank\":%d,\"iterations\":%lu}", job.rank,
               (unsigned long)job.finished_iterations);
    return job_finish(&job, errors);
}
