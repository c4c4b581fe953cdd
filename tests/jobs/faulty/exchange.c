// See exchange.h.
#include "exchange.h"


#include "msg.h"

// Sends one message to `destination` and receives one from `source`; returns 1 if what came is not what was sent.
static uint64_t shift(const struct job *job, int destination, int source, void *out, void *in, size_t bytes)
{
    // A long message waits for its receiver: every second rank receives first.
    enum { LONG_BYTES = 4096 };
    const bool receives_first = bytes >= LONG_BYTES && job->rank % 2 == 1;
    pattern_fill(out, bytes, mix((uint64_t)job->rank, job->finished_iterations, 1));
    if (receives_first)
        msg_receive(in, bytes, source);
    msg_send(out, bytes, destination);
    if (!receives_first)
        msg_receive(in, bytes, source);
    return pattern_errors(in, bytes, mix((uint64_t)source, job->finished_iterations, 1)) > 0;
}

static void report(struct job *job, uint64_t corrupted)
{
    const struct msg_statistics done = msg_statistics();
    job_report(job,
               "{\"type\":\"result\",\"rank\":%d,\"iterations\":%lu,\"sends\":%lu,\"rare_sends\":%lu,"
               "\"wrong_sends\":%lu,\"corrupted_received\":%lu,\"go_monotonic_ns\":%lu,"
               "\"first_wrong_movement_monotonic_ns\":%lu}",
               job->rank, (unsigned long)job->finished_iterations, (unsigned long)done.sends,
               (unsigned long)done.rare_sends, (unsigned long)done.wrong_sends, (unsigned long)corrupted,
               (unsigned long)job->go_ns, (unsigned long)done.first_wrong_ns);
}

int exchange_run(const struct exchange *defaults, int argc, char **argv)
{
    struct exchange exchange = *defaults;
    bool with_fault = true;
    double start_after_s = 0;
    bool opens_first = false;
    const char *how = NULL;
    const struct job_option own[] = {
        {"--size", OPTION_U64, &exchange.size_bytes, "bytes of a message"},
        {"--rare", OPTION_F64, &exchange.rare_rate, "share of the messages that take the rare path, 0..1"},
        {"--bug", OPTION_SET, &with_fault, "the rare path has its fault (default)"},
        {"--no-bug", OPTION_CLEAR, &with_fault, "the rare path is right"},
        {"--start-after", OPTION_F64, &start_after_s, "seconds before the rare path is taken for the first time"},
        {"--open-first", OPTION_SET, &opens_first, "the ranks connect before they say that they are ready"},
        {"--how", OPTION_TEXT, &how, "what moves a message, where there are several ways"},
    };
    struct job job = {.iterations = 50000};
    job_init(&job, exchange.name, MPI_THREAD_SINGLE, argc, argv, own, sizeof(own) / sizeof(own[0]));
    if (exchange.size_bytes == 0 || exchange.size_bytes > msg_max_bytes()) {
        fprintf(stderr, "--size must be 1 to %zu\n", msg_max_bytes());
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (!opens_first)
        job_await_go(&job);
    const uint64_t rare_from_ns = monotonic_ns() + (uint64_t)(start_after_s * 1e9);
    msg_open(&(struct msg_options){.comm = MPI_COMM_WORLD,
                                   .with_fault = with_fault,
                                   .rare_rate = exchange.rare_rate,
                                   .rare_from_ns = rare_from_ns,
                                   .how = how});
    if (opens_first)
        job_await_go(&job);
    void *out = must_allocate(exchange.size_bytes);
    void *in = must_allocate(exchange.size_bytes);
    const int right = (job.rank + 1) % job.ranks;
    const int left = (job.rank + job.ranks - 1) % job.ranks;
    uint64_t corrupted = 0;
    while (job_next_iteration(&job)) {
        corrupted += shift(&job, right, left, out, in, exchange.size_bytes);
        corrupted += shift(&job, left, right, out, in, exchange.size_bytes);
    }
    report(&job, corrupted);
    free(out);
    free(in);
    msg_close();
    return job_finish(&job, with_fault ? 0 : corrupted);
}
