// Deterministic runs: files and windows, by their handles. Their ranks come to the collective calls on them before any goes on.
#include <stdlib.h>

#include "logical_parts.h"

struct known {
    uint64_t bits;
    MPI_Group group;
};

static struct known *known;
static int known_count;
// No group of the program has such a tag.
static const int tag = -1;

void know_group(uint64_t bits, MPI_Group group)
{
    known = realloc(known, (size_t)(known_count + 1) * sizeof *known);
    if (!known)
        PMPI_Abort(MPI_COMM_WORLD, MPI_ERR_NO_MEM);
    known[known_count++] = (struct known){bits, group};
}

void meet_at(uint64_t bits)
{
    for (int i = 0; i < known_count; i++)
        if (known[i].bits == bits) {
            int size = 0;
            PMPI_Group_size(known[i].group, &size);
            if (size > 1)
                meet_group(known[i].group, tag);
            return;
        }
}

void forget_group(uint64_t bits)
{
    for (int i = 0; i < known_count; i++)
        if (known[i].bits == bits) {
            PMPI_Group_free(&known[i].group);
            known[i] = known[--known_count];
            return;
        }
}
