// One name out of a list. See choice.h.
#include "choice.h"

#include <mpi.h>
#include <stdio.h>
#include <string.h>

size_t choice_of(const char *option, const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (names[i] != NULL && strcmp(names[i], name) == 0)
            return i;
    fprintf(stderr, "%s %s: not one of", option, name);
    for (size_t i = 0; i < count; i++)
        if (names[i] != NULL)
            fprintf(stderr, " %s", names[i]);
    fputc('\n', stderr);
    MPI_Abort(MPI_COMM_WORLD, 2);
    return 0;
}
