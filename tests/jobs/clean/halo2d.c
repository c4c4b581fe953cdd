// A five-point stencil on a two-dimensional process grid. Columns are derived datatypes, rows are contiguous.
//
// The field starts as a linear function of the place, so that the mean of the four neighbours is the value itself, and
// every step adds one: all values are whole numbers, and the result is known exactly.
#include "job.h"

struct grid {
    MPI_Comm comm;
    int place[2];    // of this rank in the process grid
    int blocks[2];   // ranks per direction
    int neighbour[2][2];
    size_t rows, columns; // of this rank's block, without ghost cells
    MPI_Datatype column;
};

static double *cell(double *field, const struct grid *grid, size_t row, size_t column)
{
    return &field[row * (grid->columns + 2) + column];
}

// The exact value after `step` steps; row and column count ghost cells, so the block begins at (1, 1).
static double exact(const struct grid *grid, size_t row, size_t column, uint64_t step)
{
    const double global_row = (double)((size_t)grid->place[0] * grid->rows + row);
    const double global_column = (double)((size_t)grid->place[1] * grid->columns + column);
    return global_row + 2 * global_column + (double)step;
}

static void fill(double *field, const struct grid *grid, uint64_t step)
{
    for (size_t row = 0; row < grid->rows + 2; row++)
        for (size_t column = 0; column < grid->columns + 2; column++)
            *cell(field, grid, row, column) = exact(grid, row, column, step);
}

// At the rim of the whole field there is no neighbour to get ghost cells from.
static void set_rim(double *field, const struct grid *grid, uint64_t step)
{
    for (int side = 0; side < 2; side++) {
        const size_t ghost_row = side == 0 ? 0 : grid->rows + 1;
        const size_t ghost_column = side == 0 ? 0 : grid->columns + 1;
        for (size_t i = 0; grid->neighbour[0][side] == MPI_PROC_NULL && i < grid->columns + 2; i++)
            *cell(field, grid, ghost_row, i) = exact(grid, ghost_row, i, step);
        for (size_t i = 0; grid->neighbour[1][side] == MPI_PROC_NULL && i < grid->rows + 2; i++)
            *cell(field, grid, i, ghost_column) = exact(grid, i, ghost_column, step);
    }
}

static void exchange(double *field, const struct grid *grid)
{
    MPI_Request requests[8];
    const int columns = (int)grid->columns;
    for (int side = 0; side < 2; side++) {
        const size_t row = side == 0 ? 1 : grid->rows, column = side == 0 ? 1 : grid->columns;
        const size_t ghost_row = side == 0 ? 0 : grid->rows + 1, ghost_column = side == 0 ? 0 : grid->columns + 1;
        const int up = grid->neighbour[0][side], aside = grid->neighbour[1][side];
        MPI_Request *request = &requests[4 * side];
        MPI_Irecv(cell(field, grid, ghost_row, 1), columns, MPI_DOUBLE, up, 1 - side, grid->comm, &request[0]);
        MPI_Irecv(cell(field, grid, 1, ghost_column), 1, grid->column, aside, 3 - side, grid->comm, &request[1]);
        MPI_Isend(cell(field, grid, row, 1), columns, MPI_DOUBLE, up, side, grid->comm, &request[2]);
        MPI_Isend(cell(field, grid, 1, column), 1, grid->column, aside, 2 + side, grid->comm, &request[3]);
    }
    MPI_Waitall(8, requests, MPI_STATUSES_IGNORE);
}

static void relax(double *to, double *from, const struct grid *grid)
{
    for (size_t row = 1; row <= grid->rows; row++)
        for (size_t column = 1; column <= grid->columns; column++)
            *cell(to, grid, row, column) =
                0.25 * (*cell(from, grid, row - 1, column) + *cell(from, grid, row + 1, column) +
                        *cell(from, grid, row, column - 1) + *cell(from, grid, row, column + 1)) + 1;
}

static uint64_t wrong_cells(double *field, const struct grid *grid, uint64_t step)
{
    uint64_t wrong = 0;
    for (size_t row = 1; row <= grid->rows; row++)
        for (size_t column = 1; column <= grid->columns; column++)
            wrong += *cell(field, grid, row, column) != exact(grid, row, column, step);
    return wrong;
}

static struct grid make_grid(size_t rows, size_t columns, int ranks)
{
    struct grid grid = {.rows = rows, .columns = columns};
    const int periodic[2] = {0, 0};
    MPI_Dims_create(ranks, 2, grid.blocks);
    MPI_Cart_create(MPI_COMM_WORLD, 2, grid.blocks, periodic, 0, &grid.comm);
    int rank = 0;
    MPI_Comm_rank(grid.comm, &rank);
    MPI_Cart_coords(grid.comm, rank, 2, grid.place);
    for (int direction = 0; direction < 2; direction++)
        MPI_Cart_shift(grid.comm, direction, 1, &grid.neighbour[direction][0], &grid.neighbour[direction][1]);
    MPI_Type_vector((int)rows, 1, (int)columns + 2, MPI_DOUBLE, &grid.column);
    MPI_Type_commit(&grid.column);
    return grid;
}

int main(int argc, char **argv)
{
    uint64_t halo_bytes = 2048, other_bytes = 2048;
    bool wide = false;
    const struct job_option own[] = {
        {"--halo-bytes", OPTION_U64, &halo_bytes, "bytes of a column of the block, exchanged as a derived datatype"},
        {"--row-bytes", OPTION_U64, &other_bytes, "bytes of a row of the block, exchanged as it lies"},
        {"--wide", OPTION_SET, &wide, "exchange the two: --halo-bytes is the row"},
    };
    struct job job = {.iterations = 4000};
    job_start(&job, "halo2d", MPI_THREAD_SINGLE, argc, argv, own, sizeof(own) / sizeof(own[0]));
    const size_t rows = (wide ? other_bytes : halo_bytes) / sizeof(double);
    const size_t columns = (wide ? halo_bytes : other_bytes) / sizeof(double);
    if (rows == 0 || columns == 0) {
        fprintf(stderr, "--halo-bytes and --row-bytes must be at least 8\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    struct grid grid = make_grid(rows, columns, job.ranks);
    double *field = must_allocate((rows + 2) * (columns + 2) * sizeof(double));
    double *next = must_allocate((rows + 2) * (columns + 2) * sizeof(double));
    fill(field, &grid, 0);
    fill(next, &grid, 0);
    while (job_next_iteration(&job)) {
        exchange(field, &grid);
        set_rim(field, &grid, job.finished_iterations - 1);
        relax(next, field, &grid);
        double *swap = field;
        field = next;
        next = swap;
    }
    const double elapsed_ns = (double)(monotonic_ns() - job.go_ns);
    job_report(&job, "{\"type\":\"result\",\"rank\":%d,\"iterations\":%lu,\"iteration_ns\":%.0f}", job.rank,
               (unsigned long)job.finished_iterations, elapsed_ns / (double)job.finished_iterations);
    const uint64_t errors = wrong_cells(field, &grid, job.finished_iterations);
    free(field);
    free(next);
    MPI_Type_free(&grid.column);
    MPI_Comm_free(&grid.comm);
    return job_finish(&job, errors);
}
