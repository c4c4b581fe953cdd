// Several threads of every rank exchange messages with the threads of the same number of the neighbours. Threads live for
// one iteration, so that threads come and go during the run.
#include "job.h"

#include <pthread.h>

enum { MAX_THREADS = 16 };

struct worker {
    const struct job *job;
    int number;
    uint64_t messages;
    uint64_t size_bytes;
    uint64_t errors;
};

static void *exchange(void *argument)
{
    struct worker *worker = argument;
    const struct job *job = worker->job;
    const int right = (job->rank + 1) % job->ranks;
    const int left = (job->rank + job->ranks - 1) % job->ranks;
    const int bytes = (int)worker->size_bytes;
    unsigned char *out = must_allocate(worker->size_bytes);
    unsigned char *in = must_allocate(worker->size_bytes);
    for (uint64_t i = 0; i < worker->messages; i++) {
        const uint64_t message = job->finished_iterations * worker->messages + i;
        pattern_fill(out, worker->size_bytes, mix((uint64_t)job->rank, message, 40 + (uint64_t)worker->number));
        MPI_Sendrecv(out, bytes, MPI_BYTE, right, worker->number, in, bytes, MPI_BYTE, left, worker->number,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        const uint64_t seed = mix((uint64_t)left, message, 40 + (uint64_t)worker->number);
        worker->errors += pattern_errors(in, worker->size_bytes, seed) > 0;
    }
    free(out);
    free(in);
    return NULL;
}

int main(int argc, char **argv)
{
    uint64_t threads = 3, messages = 50, size_bytes = 1024;
    const struct job_option own[] = {
        {"--threads", OPTION_U64, &threads, "threads per rank, at most 16"},
        {"--messages", OPTION_U64, &messages, "messages per thread and iteration"},
        {"--size", OPTION_U64, &size_bytes, "bytes of a message"},
    };
    struct job job = {.iterations = 10};
    job_start(&job, "threads", MPI_THREAD_MULTIPLE, argc, argv, own, sizeof(own) / sizeof(own[0]));
    if (threads == 0 || threads > MAX_THREADS) {
        fprintf(stderr, "--threads must be 1 to %d\n", MAX_THREADS);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    uint64_t errors = 0;
    while (job_next_iteration(&job)) {
        pthread_t ids[MAX_THREADS];
        struct worker workers[MAX_THREADS];
        for (uint64_t i = 0; i < threads; i++) {
            workers[i] = (struct worker){&job, (int)i, messages, size_bytes, 0};
            if (pthread_create(&ids[i], NULL, exchange, &workers[i]) != 0) {
                fprintf(stderr, "threads: cannot make a thread\n");
                MPI_Abort(MPI_COMM_WORLD, 2);
            }
        }
        for (uint64_t i = 0; i < threads; i++) {
            pthread_join(ids[i], NULL);
            errors += workers[i].errors;
        }
    }
    return job_finish(&job, errors);
}
