// Which rank has which rows of the matrix, and how it gets them.
#include "gauss.h"
#include "job.h"

enum { TAG_BLOCK = 1 };

int width_of(const struct system *system)
{
    return system->unknowns + system->right_sides;
}

int rows_of(const struct system *system, int rank)
{
    return system->first_of[rank + 1] - system->first_of[rank];
}

int owner_of(const struct system *system, int row)
{
    const int rank = row / rows_of(system, 0);
    return rank < system->ranks ? rank : system->ranks - 1;
}

double *row_of_block(const struct system *system, int row)
{
    return system->block + (size_t)(row - system->first_of[system->rank]) * (size_t)width_of(system);
}

double *solution_of(const struct system *system, int row)
{
    return system->solution + (size_t)row * (size_t)system->right_sides;
}

void make_blocks(struct system *system)
{
    const int rows = system->unknowns / system->ranks;
    const bool has_table = system->slip != ALL_WITHOUT_BLOCK_TABLE;
    system->solved = system->slip == ROWS_LEFT_OVER ? rows * system->ranks : system->unknowns;
    system->first_of = has_table ? must_allocate(((size_t)system->ranks + 1) * sizeof(int)) : NULL;
    for (int rank = 0; rank < system->ranks; rank++)
        system->first_of[rank] = rank * rows; // at fault: no block table
    system->first_of[system->ranks] = system->solved;
}

static void fill_rows(const struct system *system, int rank, double *element)
{
    for (int row = system->first_of[rank]; row < system->first_of[rank + 1]; row++) {
        for (int column = 0; column < system->unknowns; column++)
            *element++ = coefficient(row, column, system->unknowns);
        for (int side = 0; side < system->right_sides; side++)
            *element++ = right_side(row, side);
    }
}

void distribute(struct system *system)
{
    const int last = system->ranks - 1, width = width_of(system);
    if (system->rank > 0) {
        const int room = block_capacity(system);
        MPI_Recv(system->block, room, MPI_DOUBLE, 0, TAG_BLOCK, MPI_COMM_WORLD, MPI_STATUS_IGNORE); // at fault: block
        return;
    }
    double *message = must_allocate((size_t)rows_of(system, last) * (size_t)width * sizeof(double));
    for (int rank = 1; rank <= last; rank++) {
        fill_rows(system, rank, message);
        MPI_Send(message, rows_of(system, rank) * width, MPI_DOUBLE, rank, TAG_BLOCK, MPI_COMM_WORLD);
    }
    fill_rows(system, 0, system->block);
    free(message);
}
