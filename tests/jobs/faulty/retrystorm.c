// Neighbours exchange data and renew their connections now and then. One rank does not notice the reply to one of its
// requests and repeats it over and over; the data are right and the job ends well.
#include "cm.h"
#include "job.h"

struct settings {
    uint64_t bad_rank;
    uint64_t size_bytes;
    uint64_t repetitions;
    bool with_fault;
    bool late;
};

// A rank asks for a new connection to its right neighbour once in this many iterations.
#define ITERATIONS_PER_CONNECTION 100

static uint64_t shift(const struct job *job, int destination, int source, void *out, void *in, size_t bytes)
{
    pattern_fill(out, bytes, mix((uint64_t)job->rank, job->finished_iterations, 3));
    cm_send(out, bytes, destination);
    cm_receive(in, bytes, source);
    return pattern_errors(in, bytes, mix((uint64_t)source, job->finished_iterations, 3)) > 0;
}

static void report(struct job *job)
{
    const struct cm_statistics done = cm_statistics();
    job_report(job,
               "{\"type\":\"result\",\"rank\":%d,\"iterations\":%lu,\"requests\":%lu,\"repetitions\":%lu,"
               "\"replies\":%lu,\"duplicates\":%lu,\"go_monotonic_ns\":%lu,"
               "\"first_wrong_movement_monotonic_ns\":%lu}",
               job->rank, (unsigned long)job->finished_iterations, (unsigned long)done.requests,
               (unsigned long)done.repetitions, (unsigned long)done.replies, (unsigned long)done.duplicates,
               (unsigned long)job->go_ns, (unsigned long)done.first_repetition_ns);
}

static bool has_fault(const struct job *job, const struct settings *settings)
{
    const bool due = !settings->late || job_progress(job) >= 0.9;
    return settings->with_fault && due && (uint64_t)job->rank == settings->bad_rank;
}

static uint64_t run(struct job *job, const struct settings *settings)
{
    void *out = must_allocate(settings->size_bytes);
    void *in = must_allocate(settings->size_bytes);
    const int right = (job->rank + 1) % job->ranks;
    const int left = (job->rank + job->ranks - 1) % job->ranks;
    uint64_t errors = 0;
    while (job_next_iteration(job)) {
        if (job->finished_iterations % ITERATIONS_PER_CONNECTION == 1)
            cm_connect(right);
        errors += shift(job, right, left, out, in, settings->size_bytes);
        errors += shift(job, left, right, out, in, settings->size_bytes);
        cm_progress();
        cm_check_timers(has_fault(job, settings), settings->repetitions);
    }
    free(out);
    free(in);
    return errors;
}

int main(int argc, char **argv)
{
    // 32 repetitions for two messages: as far from its peers as a storm in a production code was, and far enough among
    // only eight ranks, whose ways through shared memory differ by chance as well.
    struct settings settings = {.bad_rank = 5, .size_bytes = 256, .repetitions = 32, .with_fault = true};
    const struct job_option own[] = {
        {"--bad-rank", OPTION_U64, &settings.bad_rank, "the rank that misses the reply"},
        {"--size", OPTION_U64, &settings.size_bytes, "bytes of a data message"},
        {"--repetitions", OPTION_U64, &settings.repetitions, "requests repeated per iteration"},
        {"--late", OPTION_SET, &settings.late, "only in the last tenth of the run"},
        {"--no-bug", OPTION_CLEAR, &settings.with_fault, "no rank misses anything"},
    };
    struct job job = {.iterations = 10000};
    job_start(&job, "retrystorm", MPI_THREAD_SINGLE, argc, argv, own, sizeof(own) / sizeof(own[0]));
    if (settings.size_bytes == 0 || settings.size_bytes > cm_max_bytes()) {
        fprintf(stderr, "--size must be 1 to %zu\n", cm_max_bytes());
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (settings.with_fault && settings.bad_rank >= (uint64_t)job.ranks) {
        fprintf(stderr, "--bad-rank %lu: there are %d ranks\n", (unsigned long)settings.bad_rank, job.ranks);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    cm_open(MPI_COMM_WORLD);
    const uint64_t errors = run(&job, &settings);
    cm_close();
    report(&job);
    return job_finish(&job, errors);
}
