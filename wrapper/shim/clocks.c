// Clocks that programs read. The numbers of clocks are recorded; `clock_name` in replay/src/divergence.rs knows them too.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "shim.h"

enum { WTIME, TIME, TIME_OF_DAY, CLOCK, POSIX, POSIX_CLOCKS = 10, USER_TIME = POSIX + POSIX_CLOCKS, SYSTEM_TIME };
static const int64_t billion = 1000000000, million = 1000000;

#define READ(clock, shows)                                                                                             \
    dms_clock(clock, shows, (uintptr_t)__builtin_return_address(0), (uintptr_t)__builtin_frame_address(0))

double MPI_Wtime(void)
{
    check_library();
    double seconds = PMPI_Wtime();
    int64_t bits;
    __builtin_memcpy(&bits, &seconds, sizeof bits);
    bits = READ(WTIME, bits);
    __builtin_memcpy(&seconds, &bits, sizeof bits);
    return seconds;
}

// Its names in Fortran: where it is a jump to PMPI_Wtime nobody can tell who calls that.
#define ALSO(name) double name(void) __attribute__((alias("MPI_Wtime")));
ALSO(mpi_wtime)
ALSO(mpi_wtime_)
ALSO(mpi_wtime__)
ALSO(mpi_wtime_f08_)
ALSO(ompi_wtime_f)
ALSO(MPI_WTIME)

// The C library's own, which is asked for once: threads that do so at the same time find the same.
static int real_clock(clockid_t clock, struct timespec *now)
{
    static int (*found)(clockid_t, struct timespec *);
    int (*real)(clockid_t, struct timespec *) = __atomic_load_n(&found, __ATOMIC_RELAXED);
    if (!real) {
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
        __atomic_store_n(&found, real, __ATOMIC_RELAXED);
    }
    return real ? real(clock, now) : (int)syscall(SYS_clock_gettime, clock, now);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int result = real_clock(clock, now);
    if (result == 0 && clock >= 0 && clock < POSIX_CLOCKS) {
        int64_t shows = READ(POSIX + clock, now->tv_sec * billion + now->tv_nsec);
        now->tv_sec = shows / billion;
        now->tv_nsec = shows % billion;
    }
    return result;
}

int timespec_get(struct timespec *now, int base)
{
    if (base != TIME_UTC || real_clock(CLOCK_REALTIME, now) != 0)
        return 0;
    int64_t shows = READ(POSIX + CLOCK_REALTIME, now->tv_sec * billion + now->tv_nsec);
    now->tv_sec = shows / billion;
    now->tv_nsec = shows % billion;
    return base;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec real;
    if (zone && syscall(SYS_gettimeofday, NULL, zone) != 0)
        return -1;
    // The header says that it is never NULL; a program may not care.
    __asm__("" : "+r"(now));
    if (!now)
        return 0;
    if (real_clock(CLOCK_REALTIME, &real) != 0)
        return -1;
    int64_t shows = READ(TIME_OF_DAY, real.tv_sec * million + real.tv_nsec / 1000);
    now->tv_sec = shows / million;
    now->tv_usec = shows % million;
    return 0;
}

time_t time(time_t *now)
{
    struct timespec real;
    if (real_clock(CLOCK_REALTIME_COARSE, &real) != 0)
        return -1;
    time_t shows = READ(TIME, real.tv_sec);
    if (now)
        *now = shows;
    return shows;
}

clock_t clock(void)
{
    struct timespec real;
    if (real_clock(CLOCK_PROCESS_CPUTIME_ID, &real) != 0)
        return -1;
    return READ(CLOCK, real.tv_sec * million + real.tv_nsec / 1000);
}

// Processor time; the rest of it is as it is.
int getrusage(__rusage_who_t who, struct rusage *usage)
{
    int result = (int)syscall(SYS_getrusage, who, usage);
    if (result == 0 && who == RUSAGE_SELF) {
        int64_t user = READ(USER_TIME, usage->ru_utime.tv_sec * million + usage->ru_utime.tv_usec);
        int64_t system = READ(SYSTEM_TIME, usage->ru_stime.tv_sec * million + usage->ru_stime.tv_usec);
        usage->ru_utime = (struct timeval){user / million, user % million};
        usage->ru_stime = (struct timeval){system / million, system % million};
    }
    return result;
}
