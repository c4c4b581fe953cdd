// Rank 0 serves requests in whatever order they come: receives with wildcards, replies of the size that was asked for.
#include "job.h"

enum { TAG_REQUEST_FIRST = 10, REQUEST_TAGS = 4, TAG_REPLY = 1, MAX_REPLY_BYTES = 8192 };

struct request {
    uint64_t seed;
    uint64_t bytes;
};

static struct request request_of(int client, uint64_t step)
{
    const uint64_t seed = mix((uint64_t)client, step, 60);
    return (struct request){.seed = seed, .bytes = 8 + seed % (MAX_REPLY_BYTES - 8)};
}

static void serve(const struct job *job, unsigned char *reply)
{
    for (int client = 1; client < job->ranks; client++) {
        struct request request;
        MPI_Status status;
        job_await_message(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD);
        MPI_Recv(&request, sizeof(request), MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        pattern_fill(reply, request.bytes, request.seed);
        MPI_Send(reply, (int)request.bytes, MPI_BYTE, status.MPI_SOURCE, TAG_REPLY, MPI_COMM_WORLD);
    }
}

static uint64_t ask(const struct job *job, unsigned char *reply)
{
    const struct request request = request_of(job->rank, job->finished_iterations);
    const int tag = TAG_REQUEST_FIRST + (int)(request.seed % REQUEST_TAGS);
    MPI_Status status;
    int bytes = 0;
    MPI_Send(&request, sizeof(request), MPI_BYTE, 0, tag, MPI_COMM_WORLD);
    job_await_message(0, TAG_REPLY, MPI_COMM_WORLD);
    MPI_Recv(reply, MAX_REPLY_BYTES, MPI_BYTE, 0, TAG_REPLY, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    return (uint64_t)bytes != request.bytes || pattern_errors(reply, request.bytes, request.seed) > 0;
}

int main(int argc, char **argv)
{
    struct job job = {.iterations = 20000};
    job_start(&job, "anysource", MPI_THREAD_SINGLE, argc, argv, NULL, 0);
    unsigned char *reply = must_allocate(MAX_REPLY_BYTES);
    uint64_t errors = 0;
    while (job_next_iteration(&job)) {
        if (job.rank == 0)
            serve(&job, reply);
        else
            errors += ask(&job, reply);
    }
    free(reply);
    return job_finish(&job, errors);
}
