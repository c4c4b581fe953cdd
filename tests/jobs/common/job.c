// Start, main loop and end of a test job. See job.h.
#include "job.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#include "options.h"

// A job that runs for a time, or until it is told, asks rank 0 whether to go on once in this many iterations.
#define ITERATIONS_PER_DECISION 16

enum { MAX_OPTIONS = 32 };

static struct site *all_sites;
static bool yields; // --yield

static void site_register(struct site *site)
{
    site->next = __atomic_load_n(&all_sites, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&all_sites, &site->next, site, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
}

void site_hit(struct site *site, uint64_t bytes)
{
    __atomic_fetch_add(&site->bytes, bytes, __ATOMIC_RELAXED);
    if (__atomic_fetch_add(&site->calls, 1, __ATOMIC_RELAXED) == 0)
        site_register(site);
}

uint64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t mix(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t x = a * 0x9e3779b97f4a7c15u + b * 0xbf58476d1ce4e5b9u + c * 0x94d049bb133111ebu + 1;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

void pattern_fill(void *buffer, size_t bytes, uint64_t seed)
{
    unsigned char *byte = buffer;
    for (size_t i = 0; i < bytes; i++)
        byte[i] = (unsigned char)((seed >> (i % 8 * 8)) + i / 8);
}

uint64_t pattern_errors(const void *buffer, size_t bytes, uint64_t seed)
{
    const unsigned char *byte = buffer;
    uint64_t errors = 0;
    for (size_t i = 0; i < bytes; i++)
        errors += byte[i] != (unsigned char)((seed >> (i % 8 * 8)) + i / 8);
    return errors;
}

// Every rank looks for the file itself: ranks that wait inside MPI would burn the cores the tracer needs to attach.
static void wait_for_file(const char *path)
{
    const struct timespec millisecond = {.tv_nsec = 1000000};
    while (access(path, F_OK) != 0)
        nanosleep(&millisecond, NULL);
}

void job_init(struct job *job, const char *name, int thread_level, int argc, char **argv,
              const struct job_option *own_options, size_t own_option_count)
{
    const struct job_option shared[] = {
        {"--iterations", OPTION_U64, &job->iterations, "iterations of the main loop; 0: --seconds decides"},
        {"--seconds", OPTION_F64, &job->seconds, "how long the main loop runs, if --iterations is 0"},
        {"--pause-us", OPTION_U64, &job->pause_us, "sleep after each iteration"},
        {"--until", OPTION_TEXT, &job->until, "runs until this file exists, however long that is"},
        {"--wait-for", OPTION_TEXT, &job->wait_for, "nothing moves until this file exists"},
        {"--yield", OPTION_SET, &yields, "give the core away while waiting for a message"},
    };
    const size_t shared_count = sizeof(shared) / sizeof(shared[0]);
    struct job_option options[MAX_OPTIONS];
    size_t count = 0;
    for (size_t i = 0; i < own_option_count && count < MAX_OPTIONS - shared_count; i++)
        options[count++] = own_options[i];
    for (size_t i = 0; i < shared_count; i++)
        options[count++] = shared[i];
    const uint64_t default_iterations = job->iterations;
    job->iterations = UINT64_MAX;
    options_parse(argc, argv, options, count);
    if (job->iterations == UINT64_MAX) // not given: a given --seconds or --until decides, else the default
        job->iterations = job->seconds > 0 || job->until != NULL ? 0 : default_iterations;

    int provided = MPI_THREAD_SINGLE;
    MPI_Init_thread(&argc, &argv, thread_level, &provided);
    if (provided < thread_level) {
        fprintf(stderr, "%s: this MPI library does not give the thread level it needs\n", name);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    job->name = name;
    job->goes_on = true;
    job->report = open_memstream(&job->report_text, &job->report_bytes);
    MPI_Comm_rank(MPI_COMM_WORLD, &job->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job->ranks);
}

void job_await_go(struct job *job)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (job->rank == 0) {
        puts("ready");
        fflush(stdout);
    }
    if (job->wait_for != NULL)
        wait_for_file(job->wait_for);
    MPI_Barrier(MPI_COMM_WORLD);
    job->go_ns = monotonic_ns();
}

void job_start(struct job *job, const char *name, int thread_level, int argc, char **argv,
               const struct job_option *own_options, size_t own_option_count)
{
    job_init(job, name, thread_level, argc, argv, own_options, own_option_count);
    job_await_go(job);
}

void job_await_message(int source, int tag, MPI_Comm comm)
{
    for (int there = 0; yields && !there;) {
        MPI_Iprobe(source, tag, comm, &there, MPI_STATUS_IGNORE);
        if (!there)
            sched_yield();
    }
}

static double elapsed_s(const struct job *job)
{
    return (double)(monotonic_ns() - job->go_ns) * 1e-9;
}

double job_progress(const struct job *job)
{
    if (job->iterations > 0)
        return (double)job->finished_iterations / (double)job->iterations;
    return job->until != NULL ? 0 : elapsed_s(job) / job->seconds;
}

bool job_next_iteration(struct job *job)
{
    const uint64_t finished = job->finished_iterations;
    if (job->iterations > 0) {
        job->goes_on = finished < job->iterations;
    } else if (finished % ITERATIONS_PER_DECISION == 0) {
        int goes_on = job->until != NULL ? access(job->until, F_OK) != 0 : elapsed_s(job) < job->seconds;
        MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
        job->goes_on = goes_on != 0;
    }
    if (!job->goes_on)
        return false;
    if (finished > 0 && job->pause_us > 0)
        usleep((useconds_t)job->pause_us);
    job->finished_iterations++;
    return true;
}

void job_report(struct job *job, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(job->report, format, arguments);
    va_end(arguments);
    fputc('\n', job->report);
}

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

static void report_sites(struct job *job)
{
    for (struct site *site = __atomic_load_n(&all_sites, __ATOMIC_ACQUIRE); site != NULL; site = site->next) {
        Dl_info module = {0};
        const bool found = dladdr(site, &module) != 0;
        job_report(job,
                   "{\"type\":\"site\",\"rank\":%d,\"module\":\"%s\",\"kind\":\"%s\",\"label\":\"%s\","
                   "\"function\":\"%s\",\"file\":\"%s\",\"line\":%d,\"calls\":%lu,\"bytes\":%lu}",
                   job->rank, found ? file_name(module.dli_fname) : "?", site->kind, site->label, site->function,
                   file_name(site->file), site->line, (unsigned long)site->calls, (unsigned long)site->bytes);
    }
}

// Prints the reports of all ranks in rank order. `text` is this rank's report.
static void print_in_rank_order(const struct job *job, const char *text, int bytes)
{
    enum { REPORT_TAG = 32000 };
    if (job->rank != 0) {
        MPI_Send(text, bytes, MPI_CHAR, 0, REPORT_TAG, MPI_COMM_WORLD);
        return;
    }
    fwrite(text, 1, (size_t)bytes, stdout);
    for (int rank = 1; rank < job->ranks; rank++) {
        MPI_Status status;
        int count = 0;
        MPI_Probe(rank, REPORT_TAG, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_CHAR, &count);
        char *other = must_allocate((size_t)count + 1);
        MPI_Recv(other, count, MPI_CHAR, rank, REPORT_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        fwrite(other, 1, (size_t)count, stdout);
        free(other);
    }
}

int job_finish(struct job *job, uint64_t errors)
{
    const double seconds = elapsed_s(job);
    unsigned long mine = errors, total = 0;
    report_sites(job);
    fclose(job->report);
    MPI_Allreduce(&mine, &total, 1, MPI_UNSIGNED_LONG, MPI_SUM, MPI_COMM_WORLD);
    print_in_rank_order(job, job->report_text, (int)job->report_bytes);
    if (job->rank == 0) {
        printf("%s %s: %d ranks, %lu iterations, %.3f s, %lu errors\n", total == 0 ? "ok" : "wrong", job->name,
               job->ranks, (unsigned long)job->finished_iterations, seconds, total);
        fflush(stdout);
    }
    free(job->report_text);
    MPI_Finalize();
    return total == 0 ? 0 : 1;
}
