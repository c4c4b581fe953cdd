// A job that changes its ways: quiet, a storm of small messages, quiet again; each for --phase-seconds. Says how many
// messages it got through in each tenth of a second, so that what somebody costs it can be seen over time.
#include <unistd.h>

#include "job.h"

#define WINDOW_NS 100000000u
#define QUIET_PAUSE_US 2000
#define MAX_WINDOWS 4096
#define PHASES 3
#define STORM 1
#define MESSAGES_PER_DECISION 64

// Rank 0 sends a message and its partner sends it back.
static uint64_t round_trip(const struct job *job, uint64_t number)
{
    uint64_t message = mix(0, number, 77);
    const uint64_t expected = message;
    if (job->rank == 0) {
        MPI_Send(&message, 1, MPI_UINT64_T, 1, 1, MPI_COMM_WORLD);
        job_await_message(1, 2, MPI_COMM_WORLD);
        MPI_Recv(&message, 1, MPI_UINT64_T, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (job->rank == 1) {
        job_await_message(0, 1, MPI_COMM_WORLD);
        MPI_Recv(&message, 1, MPI_UINT64_T, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&message, 1, MPI_UINT64_T, 0, 2, MPI_COMM_WORLD);
    }
    return message != expected;
}

int main(int argc, char **argv)
{
    static uint64_t messages_in[MAX_WINDOWS];
    double phase_seconds = 4;
    const struct job_option own[] = {{"--phase-seconds", OPTION_F64, &phase_seconds, "how long each of the three is"}};
    struct job job = {.iterations = 1};
    job_start(&job, "phases", MPI_THREAD_SINGLE, argc, argv, own, 1);
    const uint64_t begin_ns = monotonic_ns(), phase_ns = (uint64_t)(phase_seconds * 1e9);
    uint64_t errors = 0, number = 0, phase = 0;
    while (phase < PHASES) {
        const uint64_t messages = phase == STORM ? MESSAGES_PER_DECISION : 1;
        for (uint64_t i = 0; i < messages; i++)
            errors += round_trip(&job, number++);
        const uint64_t window = (monotonic_ns() - begin_ns) / WINDOW_NS;
        if (window < MAX_WINDOWS)
            messages_in[window] += messages;
        if (phase != STORM)
            usleep(QUIET_PAUSE_US);
        // All must know when it changes: rank 0 says so.
        phase = (monotonic_ns() - begin_ns) / phase_ns;
        MPI_Bcast(&phase, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    }
    for (uint64_t window = 0; job.rank == 0 && window < PHASES * phase_ns / WINDOW_NS && window < MAX_WINDOWS; window++)
        job_report(&job, "{\"type\":\"window\",\"messages\":%llu}", (unsigned long long)messages_in[window]);
    job.finished_iterations = number;
    return job_finish(&job, errors);
}
