// Goes on sending while every rank makes children now and then: some only fork and copy, some start another program. With
// `--vfork-ms` the last rank begins with a child of vfork, which it waits for as nothing can interrupt.
// `forker --child` is that program; it knows nothing of MPI.
#include "job.h"

#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGE_BYTES = 1024, COPIES_PER_CHILD = 100 };

// What a child does; its exit status is 0 if its copies are right.
static int child(void)
{
    unsigned char from[MESSAGE_BYTES], to[MESSAGE_BYTES];
    uint64_t errors = 0;
    for (uint64_t i = 0; i < COPIES_PER_CHILD; i++) {
        pattern_fill(from, sizeof(from), i);
        memcpy(to, from, sizeof(from));
        errors += pattern_errors(to, sizeof(to), i);
    }
    return errors == 0 ? 0 : 1;
}

// Makes a child and waits for it; returns 1 if it did not end well.
static uint64_t run_child(bool executes, char *program)
{
    const pid_t pid = fork();
    if (pid == 0) {
        if (executes)
            execl("/proc/self/exe", program, "--child", (char *)NULL);
        _exit(executes ? 127 : child());
    }
    int status = 0;
    return pid < 0 || waitpid(pid, &status, 0) != pid || status != 0;
}

static void wait_for_child_of_vfork(uint64_t time_ms)
{
    const struct timespec time = {.tv_sec = time_ms / 1000, .tv_nsec = time_ms % 1000 * 1000000};
    const pid_t pid = vfork();
    if (pid == 0) {
        nanosleep(&time, NULL);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--child") == 0)
        return child();
    uint64_t every = 100, vfork_ms = 0;
    const struct job_option own[] = {
        {"--every", OPTION_U64, &every, "iterations from child to child"},
        {"--vfork-ms", OPTION_U64, &vfork_ms, "time of a child of vfork"},
    };
    struct job job = {.iterations = 10000};
    job_start(&job, "forker", MPI_THREAD_SINGLE, argc, argv, own, 2);
    const int right = (job.rank + 1) % job.ranks;
    const int left = (job.rank + job.ranks - 1) % job.ranks;
    unsigned char *out = must_allocate(MESSAGE_BYTES);
    unsigned char *in = must_allocate(MESSAGE_BYTES);
    uint64_t errors = 0, children = 0;
    if (vfork_ms > 0 && job.rank == job.ranks - 1)
        wait_for_child_of_vfork(vfork_ms);
    while (job_next_iteration(&job)) {
        if (every > 0 && job.finished_iterations % every == 0)
            errors += run_child(children++ % 2 == 1, argv[0]);
        pattern_fill(out, MESSAGE_BYTES, mix((uint64_t)job.rank, job.finished_iterations, 90));
        COUNTED_SEND("to the right", out, MESSAGE_BYTES, right, 1, MPI_COMM_WORLD);
        job_await_message(left, 1, MPI_COMM_WORLD);
        COUNTED_RECEIVE("from the left", in, MESSAGE_BYTES, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        errors += pattern_errors(in, MESSAGE_BYTES, mix((uint64_t)left, job.finished_iterations, 90)) > 0;
    }
    free(out);
    free(in);
    job_report(&job, "{\"type\":\"result\",\"rank\":%d,\"children\":%lu,\"copies_per_child\":%d}", job.rank,
               (unsigned long)children, COPIES_PER_CHILD);
    return job_finish(&job, errors);
}
