// Systems of linear equations with several right sides, solved by Gaussian elimination without pivoting: each rank has
// a block of rows; whatever is known of one row goes from rank to rank by hand.
#ifndef JOBS_GAUSS_H
#define JOBS_GAUSS_H

#include <mpi.h>
#include <stdbool.h>

// What the author of the program got wrong.
enum slip {
    NO_SLIP,
    // Ranks.
    PIVOT_FROM_BELOW,
    PIVOT_FROM_OWNER,
    PIVOT_FROM_HALF,
    PIVOT_TO_ABOVE,
    SOLVED_FROM_LAST,
    SOLVED_TO_FIRST,
    // Lengths of receive buffers.
    BLOCK_BUFFER_SHORT,
    PIVOT_BUFFER_SHORT,
    SOLVED_BUFFER_SHORT,
    // Faults of the last rank outside MPI.
    LAST_WITHOUT_FACTORS,
    LAST_DIVIDES_BY_RANKS_BELOW,
    // A deadlock of long messages.
    SHARE_ALL_SEND_FIRST,
    // Crashes of all ranks at one statement.
    ALL_WITHOUT_BLOCK_TABLE,
    ALL_DIVIDE_BY_HUNDREDTHS,
    ALL_COUNT_BELOW_ZERO,
    // Wrong results, and nothing else.
    ELIMINATE_ADDS,
    ELIMINATE_SKIPS_ROW,
    FACTOR_UNDIVIDED,
    FACTOR_SINGLE_PRECISION,
    PIVOT_ROW_WRONG,
    PIVOT_WRONG_TYPE,
    PIVOT_SENT_SHORT,
    PIVOT_SENT_BEFORE_RECEIVED,
    BACK_STARTS_LATE,
    BACK_UNDIVIDED,
    SHARE_WRONG_SLOT,
    SHARE_OVERWRITES,
    ROWS_LEFT_OVER,
    SLIPS
};

struct system {
    enum slip slip;
    int rank, ranks;
    int unknowns;
    int solved;       // how many of the unknowns the ranks' blocks cover: all, unless some rows are left over
    int right_sides;
    int *first_of;    // first row of each rank's block, and the end of the last block
    int report_every; // rows between two words about progress
    double *block;    // rows of this rank, each with its right sides
    double *factors;  // one per row of the block
    double *pivot;    // a row with its right sides
    double *solution; // unknowns x right sides
};

// Parts of the matrix; every rank can tell any of them.
double coefficient(int row, int column, int unknowns);
double right_side(int row, int side);

// gauss_slips.c: who exchanges how much with whom, right or wrong.
int pivot_source(const struct system *system, int owner);
int pivot_destination(const struct system *system);
int pivot_sent(const struct system *system);
int pivot_capacity(const struct system *system);
MPI_Datatype pivot_type(const struct system *system);
int solved_source(const struct system *system);
int solved_destination(const struct system *system);
int solved_capacity(const struct system *system);
int block_capacity(const struct system *system);

// gauss_blocks.c: which rank has which rows.
void make_blocks(struct system *system);
int owner_of(const struct system *system, int row);
int rows_of(const struct system *system, int rank);
// Elements of a row with its right sides.
int width_of(const struct system *system);
double *row_of_block(const struct system *system, int row);
double *solution_of(const struct system *system, int row);
// Rank 0 makes the matrix and sends each rank its block.
void distribute(struct system *system);

// gauss_steps.c
void eliminate(struct system *system);
void substitute_back(struct system *system);
// Every rank gets the whole solution: parts go around in a ring.
void share_solution(struct system *system);

#endif
