// hider: makes whoever reads its environment wait for ever, by pages that it promises to fill when they are first
// touched, and never does. Run it with an environment of some pages. Not an MPI program.
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096UL

extern char **environ;

static int fail(const char *what)
{
    perror(what);
    return 1;
}

int main(void)
{
    uintptr_t begin = UINTPTR_MAX;
    uintptr_t end = 0;
    for (char **entry = environ; *entry != NULL; entry++) {
        const uintptr_t at = (uintptr_t)*entry;
        begin = at < begin ? at : begin;
        end = at + strlen(*entry) > end ? at + strlen(*entry) : end;
    }
    // Whole pages of the environment, in which nothing else lies.
    begin = (begin + PAGE - 1) / PAGE * PAGE;
    end = end / PAGE * PAGE;
    if (begin >= end) {
        fprintf(stderr, "hider: the environment is too small\n");
        return 2;
    }
    const int faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    if (faults < 0)
        return fail("userfaultfd");
    struct uffdio_api api = {.api = UFFD_API};
    if (ioctl(faults, UFFDIO_API, &api) != 0)
        return fail("UFFDIO_API");
    if (mmap((void *)begin, end - begin, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
        MAP_FAILED)
        return fail("mmap");
    struct uffdio_register all = {.range = {.start = begin, .len = end - begin}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (ioctl(faults, UFFDIO_REGISTER, &all) != 0)
        return fail("UFFDIO_REGISTER");
    if (write(STDOUT_FILENO, "hidden\n", 7) != 7)
        return fail("write");
    for (;;)
        pause();
}
