// Sends and checks all the time while everything around it happens at once: timers interrupt it, threads come and go and
// signal it, children are made, run another program or are killed, libraries are loaded and unloaded.
// `storm --child` is what a child runs; it knows nothing of MPI.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "job.h"

enum { MESSAGE_BYTES = 2048, COPIES = 50, THREADS = 4, TIMER_US = 3000 };

static volatile sig_atomic_t interrupted;
static pthread_t main_thread;

// Copies and checks; returns how many copies were wrong.
static uint64_t copy_and_check(uint64_t seed)
{
    unsigned char from[MESSAGE_BYTES], to[MESSAGE_BYTES];
    uint64_t errors = 0;
    for (uint64_t i = 0; i < COPIES; i++) {
        pattern_fill(from, sizeof(from), seed + i);
        memcpy(to, from, sizeof(from));
        errors += pattern_errors(to, sizeof(to), seed + i) > 0;
    }
    return errors;
}

static void on_signal(int number)
{
    unsigned char from[64], to[64];
    memset(from, number, sizeof(from));
    memcpy(to, from, sizeof(from));
    interrupted += memcmp(to, from, sizeof(from)) == 0;
}

static void *thread(void *seed)
{
    void *block = malloc(MESSAGE_BYTES);
    pthread_kill(main_thread, SIGUSR1);
    const uint64_t errors = copy_and_check((uint64_t)(uintptr_t)seed) + (block == NULL);
    free(block);
    return (void *)(uintptr_t)errors;
}

static uint64_t thread_storm(uint64_t seed)
{
    pthread_t threads[THREADS];
    uint64_t errors = 0;
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, thread, (void *)(uintptr_t)(seed + (uint64_t)i)) != 0)
            return 1;
    for (int i = 0; i < THREADS; i++) {
        void *wrong = NULL;
        pthread_join(threads[i], &wrong);
        errors += (uint64_t)(uintptr_t)wrong;
    }
    return errors;
}

// Makes a child that copies, runs another program, or is killed in the middle; returns 1 if it did not end as it should.
static uint64_t run_child(uint64_t kind, char *program)
{
    const pid_t pid = fork();
    if (pid == 0) {
        if (kind == 0)
            _exit(copy_and_check(7) == 0 ? 0 : 1);
        if (kind == 1)
            execl("/proc/self/exe", program, "--child", (char *)NULL);
        for (;;)
            copy_and_check(11);
    }
    if (pid > 0 && kind == 2)
        kill(pid, SIGKILL);
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return 1;
    return kind == 2 ? !WIFSIGNALED(status) : status != 0;
}

static uint64_t load_and_unload(void)
{
    void *handle = dlopen("libmsg_figure2.so", RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        return 1;
    size_t (*most)(void) = NULL;
    // POSIX's way to make a function pointer of what dlsym returns.
    *(void **)&most = dlsym(handle, "msg_max_bytes");
    const bool works = most != NULL && most() > 0;
    return dlclose(handle) != 0 || !works;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--child") == 0)
        return copy_and_check(13) == 0 ? 0 : 1;
    uint64_t every = 20;
    const struct job_option own[] = {{"--every", OPTION_U64, &every, "iterations from one event to the next"}};
    struct job job = {.iterations = 10000};
    job_start(&job, "storm", MPI_THREAD_FUNNELED, argc, argv, own, 1);
    main_thread = pthread_self();
    const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    const struct itimerval timer = {{0, TIMER_US}, {0, TIMER_US}};
    setitimer(ITIMER_REAL, &timer, NULL);
    const int right = (job.rank + 1) % job.ranks;
    const int left = (job.rank + job.ranks - 1) % job.ranks;
    unsigned char *out = must_allocate(MESSAGE_BYTES);
    unsigned char *in = must_allocate(MESSAGE_BYTES);
    uint64_t errors = 0, events = 0;
    while (job_next_iteration(&job)) {
        if (every > 0 && job.finished_iterations % every == 0) {
            const uint64_t kind = mix((uint64_t)job.rank, events++, 91) % 5;
            if (kind < 3)
                errors += run_child(kind, argv[0]);
            else
                errors += kind == 3 ? thread_storm(events) : load_and_unload();
        }
        pattern_fill(out, MESSAGE_BYTES, mix((uint64_t)job.rank, job.finished_iterations, 92));
        COUNTED_SEND("to the right", out, MESSAGE_BYTES, right, 1, MPI_COMM_WORLD);
        job_await_message(left, 1, MPI_COMM_WORLD);
        COUNTED_RECEIVE("from the left", in, MESSAGE_BYTES, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        errors += pattern_errors(in, MESSAGE_BYTES, mix((uint64_t)left, job.finished_iterations, 92)) > 0;
    }
    const struct itimerval none = {0};
    setitimer(ITIMER_REAL, &none, NULL);
    free(out);
    free(in);
    job_report(&job, "{\"type\":\"result\",\"rank\":%d,\"events\":%lu,\"signals\":%ld}", job.rank,
               (unsigned long)events, (long)interrupted);
    return job_finish(&job, errors);
}
