// Threads of the program: their names, and what each of them numbers for itself.
#define _GNU_SOURCE
#include <dlfcn.h>

#include "contents.h"

// They may call at the same time.
static int is_multiple;

void threads_begin(int level)
{
    is_multiple = level == MPI_THREAD_MULTIPLE;
}

int are_threads_concurrent(void)
{
    return is_multiple;
}

// The other wrapper gives threads names.
void know_thread(void)
{
    static __thread int is_known PRELOADED;
    if (is_known)
        return;
    is_known = 1;
    uint64_t (*name)(void) = (uint64_t(*)(void))dlsym(RTLD_DEFAULT, "dmscope_thread_name");
    dmc_thread(name ? name() : 0);
}

int64_t next_number(enum numbered what)
{
    static int64_t of_rank[NUMBERED];
    static __thread int64_t of_thread[NUMBERED] PRELOADED;
    if (!is_multiple)
        return of_rank[what]++;
    // Bits of the thread's name: 0 of the one that the process began with.
    return dmc_thread_bits() << 32 | of_thread[what]++;
}
