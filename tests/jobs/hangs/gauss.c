// Solves systems of linear equations on any number of ranks and checks each solution; with --fault as somebody wrote
// the program who had just learned to send messages.
#include "gauss.h"

#include <math.h>

#include "choice.h"
#include "job.h"

static const char *const SLIP_NAMES[SLIPS] = {
    [NO_SLIP] = "none",
    [PIVOT_FROM_BELOW] = "pivot_from_below",
    [PIVOT_FROM_OWNER] = "pivot_from_owner",
    [PIVOT_FROM_HALF] = "pivot_from_half",
    [PIVOT_TO_ABOVE] = "pivot_to_above",
    [SOLVED_FROM_LAST] = "solved_from_last",
    [SOLVED_TO_FIRST] = "solved_to_first",
    [BLOCK_BUFFER_SHORT] = "block_buffer_short",
    [PIVOT_BUFFER_SHORT] = "pivot_buffer_short",
    [SOLVED_BUFFER_SHORT] = "solved_buffer_short",
    [LAST_WITHOUT_FACTORS] = "last_without_factors",
    [LAST_DIVIDES_BY_RANKS_BELOW] = "last_divides_by_ranks_below",
    [SHARE_ALL_SEND_FIRST] = "share_all_send_first",
    [ALL_WITHOUT_BLOCK_TABLE] = "all_without_block_table",
    [ALL_DIVIDE_BY_HUNDREDTHS] = "all_divide_by_hundredths",
    [ALL_COUNT_BELOW_ZERO] = "all_count_below_zero",
    [ELIMINATE_ADDS] = "eliminate_adds",
    [ELIMINATE_SKIPS_ROW] = "eliminate_skips_row",
    [FACTOR_UNDIVIDED] = "factor_undivided",
    [FACTOR_SINGLE_PRECISION] = "factor_single_precision",
    [PIVOT_ROW_WRONG] = "pivot_row_wrong",
    [PIVOT_WRONG_TYPE] = "pivot_wrong_type",
    [PIVOT_SENT_SHORT] = "pivot_sent_short",
    [PIVOT_SENT_BEFORE_RECEIVED] = "pivot_sent_before_received",
    [BACK_STARTS_LATE] = "back_starts_late",
    [BACK_UNDIVIDED] = "back_undivided",
    [SHARE_WRONG_SLOT] = "share_wrong_slot",
    [SHARE_OVERWRITES] = "share_overwrites",
    [ROWS_LEFT_OVER] = "rows_left_over",
};

#define TOLERANCE 1e-10

// From -1 to 1.
static double random_number(int a, int b, int c)
{
    return (double)(mix((uint64_t)a, (uint64_t)b, (uint64_t)c) >> 11) * 0x1p-52 - 1;
}

// The diagonal is larger than the rest of its row: no pivoting is needed.
double coefficient(int row, int column, int unknowns)
{
    return row == column ? unknowns : random_number(row, column, 40);
}

double right_side(int row, int side)
{
    return random_number(row, side, 41) * 10;
}

static double *zeros(int rows, int columns)
{
    const size_t bytes = (size_t)rows * (size_t)columns * sizeof(double);
    return memset(must_allocate(bytes), 0, bytes);
}

static void make_room(struct system *system)
{
    const int rows = rows_of(system, system->rank);
    const bool has_factors = system->slip != LAST_WITHOUT_FACTORS || system->rank < system->ranks - 1;
    system->block = zeros(rows, width_of(system));
    system->factors = has_factors ? zeros(rows, 1) : NULL;
    system->pivot = zeros(1, width_of(system));
    system->solution = zeros(system->unknowns, system->right_sides);
}

static void free_all(const struct system *system)
{
    free(system->solution);
    free(system->pivot);
    free(system->factors);
    free(system->block);
    free(system->first_of);
}

// Equations of one row that the solution does not fulfil; what is not a number fulfils none.
static uint64_t broken_equations(const struct system *system, int row, double *coefficients)
{
    uint64_t broken = 0;
    for (int column = 0; column < system->unknowns; column++)
        coefficients[column] = coefficient(row, column, system->unknowns);
    for (int side = 0; side < system->right_sides; side++) {
        double rest = right_side(row, side);
        for (int column = 0; column < system->unknowns; column++)
            rest -= coefficients[column] * solution_of(system, column)[side];
        broken += !(fabs(rest) < TOLERANCE);
    }
    return broken;
}

// Every rank checks its share of all rows, whatever its block was.
static uint64_t check(const struct system *system)
{
    const int share = system->unknowns / system->ranks, first = system->rank * share;
    const int end = system->rank == system->ranks - 1 ? system->unknowns : first + share;
    double *coefficients = zeros(1, system->unknowns);
    uint64_t broken = 0;
    if (system->slip == ALL_COUNT_BELOW_ZERO) {
        const unsigned before = (unsigned)(first - system->first_of[system->rank]) - 1;
        coefficients[0] = system->solution[(size_t)before * (size_t)system->right_sides]; // at fault: below zero
    }
    for (int row = first; row < end; row++)
        broken += broken_equations(system, row, coefficients);
    free(coefficients);
    return broken;
}

static uint64_t solve(const struct job *job, enum slip slip, int unknowns, int right_sides)
{
    struct system system = {
        .slip = slip, .rank = job->rank, .ranks = job->ranks, .unknowns = unknowns, .right_sides = right_sides};
    make_blocks(&system);
    make_room(&system);
    distribute(&system);
    eliminate(&system);
    substitute_back(&system);
    share_solution(&system);
    const uint64_t broken = check(&system);
    free_all(&system);
    return broken;
}

int main(int argc, char **argv)
{
    uint64_t unknowns = 34, right_sides = 3, right_first = 1;
    const char *fault = SLIP_NAMES[NO_SLIP];
    const struct job_option own[] = {
        {"--fault", OPTION_TEXT, &fault, "what is wrong with the program; an unknown name lists all"},
        {"--unknowns", OPTION_U64, &unknowns, "rows of the matrix, at least two per rank"},
        {"--right-sides", OPTION_U64, &right_sides, "systems with the same matrix that are solved at once"},
        {"--right-first", OPTION_U64, &right_first, "systems that are solved before the fault is made"},
    };
    struct job job = {.iterations = 2};
    job_start(&job, "gauss", MPI_THREAD_SINGLE, argc, argv, own, sizeof(own) / sizeof(own[0]));
    const enum slip slip = (enum slip)choice_of("--fault", fault, SLIP_NAMES, SLIPS);
    if (unknowns < 2 * (uint64_t)job.ranks || unknowns > 100000 || right_sides == 0 || right_sides > 1000000) {
        fprintf(stderr, "--unknowns must be at least %d, --right-sides at least 1\n", 2 * job.ranks);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    uint64_t errors = 0;
    while (job_next_iteration(&job)) {
        const enum slip now = job.finished_iterations > right_first ? slip : NO_SLIP;
        const uint64_t broken = solve(&job, now, (int)unknowns, (int)right_sides);
        job_report(&job, "{\"type\":\"result\",\"rank\":%d,\"broken_equations\":%lu}", job.rank, (unsigned long)broken);
        errors += broken;
    }
    return job_finish(&job, errors);
}
