// Where things of a program and of the C library are, in the log of each rank.
//
//   addresses DIR
#include "logged.h"

static int object;

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    open_log(argc > 1 ? argv[1] : ".");
    fprintf(log_file, "%p %p %p\n", (void *)&object, (void *)(uintptr_t)main, (void *)stdout);
    close_log();
    MPI_Finalize();
    return 0;
}
