// Loads a messaging library in the middle of the run and goes on with it: the first half of the iterations sends with
// plain MPI, the second half through libmsg_figure2.so.
#include <dlfcn.h>

#include "job.h"
#include "msg.h"

enum { MESSAGE_BYTES = 256 };

struct library {
    void (*open)(const struct msg_options *);
    void (*send)(const void *, size_t, int);
    void (*receive)(void *, size_t, int);
    void (*close)(void);
};

static void *symbol(void *handle, const char *name)
{
    void *address = dlsym(handle, name);
    if (address == NULL) {
        fprintf(stderr, "dlopener: %s\n", dlerror());
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return address;
}

static struct library load(void)
{
    void *handle = dlopen("libmsg_figure2.so", RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        fprintf(stderr, "dlopener: %s\n", dlerror());
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    struct library library;
    // POSIX's way to make a function pointer of what dlsym returns.
    *(void **)&library.open = symbol(handle, "msg_open");
    *(void **)&library.send = symbol(handle, "msg_send");
    *(void **)&library.receive = symbol(handle, "msg_receive");
    *(void **)&library.close = symbol(handle, "msg_close");
    library.open(&(struct msg_options){.comm = MPI_COMM_WORLD});
    return library;
}

int main(int argc, char **argv)
{
    struct job job = {.iterations = 100000};
    job_start(&job, "dlopener", MPI_THREAD_SINGLE, argc, argv, NULL, 0);
    if (job.iterations < 2) {
        fprintf(stderr, "dlopener: runs for --iterations only, at least 2\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    const uint64_t loads_at = job.iterations / 2 + 1;
    const int right = (job.rank + 1) % job.ranks;
    const int left = (job.rank + job.ranks - 1) % job.ranks;
    unsigned char *out = must_allocate(MESSAGE_BYTES);
    unsigned char *in = must_allocate(MESSAGE_BYTES);
    struct library library = {0};
    uint64_t errors = 0, loaded_ns = 0;
    while (job_next_iteration(&job)) {
        if (job.finished_iterations == loads_at) {
            library = load();
            loaded_ns = monotonic_ns();
        }
        pattern_fill(out, MESSAGE_BYTES, mix((uint64_t)job.rank, job.finished_iterations, 80));
        if (job.finished_iterations >= loads_at) {
            library.send(out, MESSAGE_BYTES, right);
            library.receive(in, MESSAGE_BYTES, left);
        } else {
            COUNTED_SEND("plain", out, MESSAGE_BYTES, right, 1, MPI_COMM_WORLD);
            job_await_message(left, 1, MPI_COMM_WORLD);
            COUNTED_RECEIVE("plain", in, MESSAGE_BYTES, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        errors += pattern_errors(in, MESSAGE_BYTES, mix((uint64_t)left, job.finished_iterations, 80)) > 0;
    }
    library.close();
    free(out);
    free(in);
    job_report(&job, "{\"type\":\"result\",\"rank\":%d,\"plain_iterations\":%lu,\"loaded_monotonic_ns\":%lu}", job.rank,
               (unsigned long)(loads_at - 1), (unsigned long)loaded_ns);
    return job_finish(&job, errors);
}
