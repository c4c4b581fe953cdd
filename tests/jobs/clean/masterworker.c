// Rank 0 hands out tasks to whoever is free; the others work. One iteration is one round of tasks.
#include "job.h"

enum { TAG_TASK = 1, TAG_RESULT = 2, TAG_ROUND_IS_OVER = 3, TASKS_PER_WORKER = 8, TASK_WORDS = 64 };

struct task {
    uint64_t number;
    uint64_t data[TASK_WORDS];
};

struct result {
    uint64_t number;
    uint64_t sum;
};

static uint64_t word(uint64_t number, uint64_t index)
{
    return mix(number, index, 20);
}

static void hand_out(uint64_t number, int worker)
{
    struct task task = {.number = number};
    for (uint64_t i = 0; i < TASK_WORDS; i++)
        task.data[i] = word(number, i);
    MPI_Send(&task, sizeof(task), MPI_BYTE, worker, TAG_TASK, MPI_COMM_WORLD);
}

static bool is_right(const struct result *result)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < TASK_WORDS; i++)
        sum += word(result->number, i);
    return sum == result->sum;
}

static uint64_t lead_round(const struct job *job, uint64_t round)
{
    const int workers = job->ranks - 1;
    const uint64_t tasks = (uint64_t)workers * TASKS_PER_WORKER;
    uint64_t handed_out = 0, errors = 0;
    for (int worker = 1; worker <= workers; worker++)
        hand_out(round * tasks + handed_out++, worker);
    for (uint64_t done = 0; done < tasks; done++) {
        struct result result;
        MPI_Status status;
        job_await_message(MPI_ANY_SOURCE, TAG_RESULT, MPI_COMM_WORLD);
        MPI_Recv(&result, sizeof(result), MPI_BYTE, MPI_ANY_SOURCE, TAG_RESULT, MPI_COMM_WORLD, &status);
        errors += !is_right(&result);
        if (handed_out < tasks)
            hand_out(round * tasks + handed_out++, status.MPI_SOURCE);
        else
            MPI_Send(NULL, 0, MPI_BYTE, status.MPI_SOURCE, TAG_ROUND_IS_OVER, MPI_COMM_WORLD);
    }
    return errors;
}

static void work_round(void)
{
    for (;;) {
        struct task task;
        MPI_Status status;
        job_await_message(0, MPI_ANY_TAG, MPI_COMM_WORLD);
        MPI_Recv(&task, sizeof(task), MPI_BYTE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        if (status.MPI_TAG == TAG_ROUND_IS_OVER)
            return;
        struct result result = {.number = task.number};
        for (int i = 0; i < TASK_WORDS; i++)
            result.sum += task.data[i];
        MPI_Send(&result, sizeof(result), MPI_BYTE, 0, TAG_RESULT, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    struct job job = {.iterations = 10000};
    job_start(&job, "masterworker", MPI_THREAD_SINGLE, argc, argv, NULL, 0);
    uint64_t errors = 0;
    while (job_next_iteration(&job)) {
        if (job.rank == 0)
            errors += lead_round(&job, job.finished_iterations);
        else
            work_round();
    }
    return job_finish(&job, errors);
}
