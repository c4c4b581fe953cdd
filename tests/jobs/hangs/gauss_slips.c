// Who exchanges how much with whom: what the slips about ranks and lengths change.
#include "gauss.h"

// Rows of the matrix come from the rank above.
int pivot_source(const struct system *system, int owner)
{
    switch (system->slip) {
    case PIVOT_FROM_BELOW:
        return (system->rank + 1) % system->ranks;
    case PIVOT_FROM_OWNER:
        return owner;
    case PIVOT_FROM_HALF:
        return system->rank / 2;
    default:
        return system->rank - 1;
    }
}

int pivot_destination(const struct system *system)
{
    if (system->slip == PIVOT_TO_ABOVE)
        return (system->rank + system->ranks - 1) % system->ranks;
    return system->rank + 1;
}

int pivot_sent(const struct system *system)
{
    return system->slip == PIVOT_SENT_SHORT ? system->unknowns : width_of(system);
}

int pivot_capacity(const struct system *system)
{
    return system->slip == PIVOT_BUFFER_SHORT ? system->unknowns : width_of(system);
}

MPI_Datatype pivot_type(const struct system *system)
{
    return system->slip == PIVOT_WRONG_TYPE ? MPI_FLOAT : MPI_DOUBLE;
}

// Rows of the solution come from the rank below.
int solved_source(const struct system *system)
{
    return system->slip == SOLVED_FROM_LAST ? system->ranks - 1 : system->rank + 1;
}

int solved_destination(const struct system *system)
{
    return system->slip == SOLVED_TO_FIRST ? 0 : system->rank - 1;
}

int solved_capacity(const struct system *system)
{
    return system->slip == SOLVED_BUFFER_SHORT ? 1 : system->right_sides;
}

// All blocks but the last one have the same number of rows.
int block_capacity(const struct system *system)
{
    const int rows = system->slip == BLOCK_BUFFER_SHORT ? rows_of(system, 0) : rows_of(system, system->rank);
    return rows * width_of(system);
}
