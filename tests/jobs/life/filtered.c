// filtered PROGRAM ARGUMENT...: becomes PROGRAM under a seccomp filter that allows everything, as programs in containers are under
// one that does not.
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: filtered PROGRAM ARGUMENT...\n");
        return 2;
    }
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    const struct sock_fprog filter = {.len = 1, .filter = &allow};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
        fprintf(stderr, "filtered: no filter: %s\n", strerror(errno));
        return 2;
    }
    execvp(argv[1], &argv[1]);
    fprintf(stderr, "filtered: %s: %s\n", argv[1], strerror(errno));
    return 2;
}
