// hider: makes whoever reads its environment wait for ever. The environment lies in a file of a file system that this
// program serves itself, and it answers no read. Run it as root, with an environment of some pages. Not an MPI program.
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE 4096UL
#define FOLDER "/mnt"
#define FILE_NODE 2
#define FILE_BYTES (1UL << 30)

extern char **environ;

static int fail(const char *what)
{
    perror(what);
    return 1;
}

static void answer(int fuse, uint64_t unique, int error, const void *body, size_t bytes)
{
    struct fuse_out_header header = {.len = (uint32_t)(sizeof(header) + bytes), .error = error, .unique = unique};
    struct iovec parts[] = {{&header, sizeof(header)}, {(void *)body, bytes}};
    // A request that was given up meanwhile is no error.
    if (writev(fuse, parts, 2) < 0 && errno != ENOENT)
        perror("answer");
}

static struct fuse_attr attributes(uint64_t node)
{
    const int is_file = node == FILE_NODE;
    return (struct fuse_attr){.ino = node,
                              .size = is_file ? FILE_BYTES : 0,
                              .mode = is_file ? S_IFREG | 0444 : S_IFDIR | 0555,
                              .nlink = 1,
                              .blksize = PAGE};
}

static void serve_one(int fuse, const struct fuse_in_header *request)
{
    switch (request->opcode) {
    case FUSE_INIT: {
        const struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = PAGE};
        return answer(fuse, request->unique, 0, &out, sizeof(out));
    }
    case FUSE_LOOKUP: {
        const struct fuse_entry_out out = {.nodeid = FILE_NODE, .attr = attributes(FILE_NODE)};
        return answer(fuse, request->unique, 0, &out, sizeof(out));
    }
    case FUSE_GETATTR: {
        const struct fuse_attr_out out = {.attr = attributes(request->nodeid)};
        return answer(fuse, request->unique, 0, &out, sizeof(out));
    }
    case FUSE_OPEN: {
        const struct fuse_open_out out = {.fh = 1};
        return answer(fuse, request->unique, 0, &out, sizeof(out));
    }
    case FUSE_READ: // For ever.
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
        return;
    default:
        return answer(fuse, request->unique, -ENOSYS, NULL, 0);
    }
}

static void *serve(void *descriptor)
{
    static char request[1 << 16];
    const int fuse = *(const int *)descriptor;
    while (read(fuse, request, sizeof(request)) > 0)
        serve_one(fuse, (const struct fuse_in_header *)request);
    return NULL;
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
    // Nobody else sees what is mounted, and it is gone when this process is.
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return fail("a mount namespace");
    static int fuse;
    fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (fuse < 0)
        return fail("/dev/fuse");
    char options[64];
    snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fuse);
    if (mount("hider", FOLDER, "fuse", MS_NOSUID | MS_NODEV, options) != 0)
        return fail("mount");
    pthread_t server;
    if (pthread_create(&server, NULL, serve, &fuse) != 0)
        return fail("a thread");
    const int file = open(FOLDER "/file", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return fail("the file");
    if (mmap((void *)begin, end - begin, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0) == MAP_FAILED)
        return fail("mmap");
    // While the thread is there that answers to it: at the end of the process there is none.
    close(file);
    if (write(STDOUT_FILENO, "hidden\n", 7) != 7)
        return fail("write");
    for (;;)
        pause();
}
