// execer [--exec-when FILE] PROGRAM ARGUMENT...: a rank whose process begins as another program and becomes PROGRAM with
// execvp, when FILE exists. Its process id stays the same.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const char *file = NULL;
    int first = 1;
    if (argc > 2 && strcmp(argv[1], "--exec-when") == 0) {
        file = argv[2];
        first = 3;
    }
    if (first >= argc) {
        fprintf(stderr, "usage: execer [--exec-when FILE] PROGRAM ARGUMENT...\n");
        return 2;
    }
    printf("{\"type\":\"before_exec\",\"pid\":%d}\n", (int)getpid());
    fflush(stdout);
    const struct timespec millisecond = {.tv_nsec = 1000000};
    while (file != NULL && access(file, F_OK) != 0)
        nanosleep(&millisecond, NULL);
    execvp(argv[first], &argv[first]);
    fprintf(stderr, "execer: %s: %s\n", argv[first], strerror(errno));
    return 2;
}
