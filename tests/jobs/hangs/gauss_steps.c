// The three steps of the solution: elimination, back-substitution, sharing.
#include "gauss.h"
#include "job.h"

enum { TAG_PIVOT = 2, TAG_SOLVED = 3, TAG_PART = 4 };

static void send_pivot_on(const struct system *system)
{
    if (system->rank == system->ranks - 1)
        return;
    const int to = pivot_destination(system);
    MPI_Send(system->pivot, pivot_sent(system), pivot_type(system), to, TAG_PIVOT, MPI_COMM_WORLD);
}

// The owner's row goes down the ranks below it.
static void pass_pivot(const struct system *system, int k)
{
    const int owner = owner_of(system, k);
    if (system->rank < owner)
        return;
    if (system->rank == owner) {
        const int row = system->slip == PIVOT_ROW_WRONG ? k % rows_of(system, owner) + system->first_of[owner] : k;
        memcpy(system->pivot, row_of_block(system, row), (size_t)width_of(system) * sizeof(double));
        send_pivot_on(system);
        return;
    }
    const int from = pivot_source(system, owner), room = pivot_capacity(system);
    const MPI_Datatype type = pivot_type(system);
    if (system->slip == PIVOT_SENT_BEFORE_RECEIVED)
        send_pivot_on(system);
    MPI_Recv(system->pivot, room, type, from, TAG_PIVOT, MPI_COMM_WORLD, MPI_STATUS_IGNORE); // at fault: pivot
    if (system->slip != PIVOT_SENT_BEFORE_RECEIVED)
        send_pivot_on(system);
}

static double factor_of(const struct system *system, const double *row, int k)
{
    if (system->slip == FACTOR_UNDIVIDED)
        return row[k];
    const double factor = row[k] / system->pivot[k];
    return system->slip == FACTOR_SINGLE_PRECISION ? (double)(float)factor : factor;
}

static void subtract_pivot(const struct system *system, int k)
{
    const int first = system->first_of[system->rank], end = system->first_of[system->rank + 1];
    const int below = k + 1 > first ? k + 1 : first;
    for (int row = below + (system->slip == ELIMINATE_SKIPS_ROW); row < end; row++) {
        double *element = row_of_block(system, row);
        system->factors[row - first] = factor_of(system, element, k); // at fault: no factors
        const double factor = system->factors[row - first] * (system->slip == ELIMINATE_ADDS ? -1 : 1);
        for (int column = k; column < width_of(system); column++)
            element[column] -= factor * system->pivot[column];
    }
}

static void set_report_interval(struct system *system)
{
    const int parts = system->slip == ALL_DIVIDE_BY_HUNDREDTHS ? system->unknowns / 100 : 10;
    system->report_every = system->unknowns / parts; // at fault: hundredths
}

void eliminate(struct system *system)
{
    set_report_interval(system);
    for (int k = 0; k < system->solved; k++) {
        pass_pivot(system, k);
        subtract_pivot(system, k);
    }
}

static void solve_row(const struct system *system, int row)
{
    const double *element = row_of_block(system, row);
    const int after = row + (system->slip == BACK_STARTS_LATE ? 2 : 1);
    const double divisor = system->slip == BACK_UNDIVIDED ? 1 : element[row];
    double *solution = solution_of(system, row);
    for (int side = 0; side < system->right_sides; side++) {
        double rest = element[system->unknowns + side];
        for (int column = after; column < system->solved; column++)
            rest -= element[column] * solution_of(system, column)[side];
        solution[side] = rest / divisor;
    }
}

static void set_rows_per_rank_below(struct system *system)
{
    const int last = system->ranks - 1;
    const int ranks_below = system->slip == LAST_DIVIDES_BY_RANKS_BELOW ? last - system->rank : system->ranks;
    system->report_every = system->unknowns / ranks_below; // at fault: ranks below
}

// Each row of the solution goes up the ranks above its owner.
void substitute_back(struct system *system)
{
    set_rows_per_rank_below(system);
    const int from = solved_source(system), to = solved_destination(system), room = solved_capacity(system);
    for (int row = system->solved - 1; row >= 0; row--) {
        const int owner = owner_of(system, row);
        double *solved = solution_of(system, row);
        if (system->rank > owner)
            continue;
        if (system->rank == owner)
            solve_row(system, row);
        else
            MPI_Recv(solved, room, MPI_DOUBLE, from, TAG_SOLVED, MPI_COMM_WORLD, MPI_STATUS_IGNORE); // at fault: solved
        if (system->rank > 0)
            MPI_Send(solved, system->right_sides, MPI_DOUBLE, to, TAG_SOLVED, MPI_COMM_WORLD);
    }
}

struct part {
    double *values;
    int count;
};

static struct part part_of(const struct system *system, int rank)
{
    const int owner = (rank + system->ranks) % system->ranks;
    const int count = rows_of(system, owner) * system->right_sides;
    return (struct part){solution_of(system, system->first_of[owner]), count};
}

// Sends a copy, and clears it too early.
static void exchange_copies(const struct part *out, const struct part *in, int right, int left)
{
    const size_t bytes = (size_t)out->count * sizeof(double);
    double *copy = must_allocate(bytes);
    MPI_Request request;
    memcpy(copy, out->values, bytes);
    MPI_Isend(copy, out->count, MPI_DOUBLE, right, TAG_PART, MPI_COMM_WORLD, &request);
    memset(copy, 0, bytes);
    MPI_Recv(in->values, in->count, MPI_DOUBLE, left, TAG_PART, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    free(copy);
}

static void exchange(const struct part *out, const struct part *in, int right, int left, bool sends_first)
{
    if (sends_first)
        MPI_Send(out->values, out->count, MPI_DOUBLE, right, TAG_PART, MPI_COMM_WORLD); // at fault: all send first
    MPI_Recv(in->values, in->count, MPI_DOUBLE, left, TAG_PART, MPI_COMM_WORLD, MPI_STATUS_IGNORE); // at fault: part
    if (!sends_first)
        MPI_Send(out->values, out->count, MPI_DOUBLE, right, TAG_PART, MPI_COMM_WORLD);
}

void share_solution(struct system *system)
{
    const int right = (system->rank + 1) % system->ranks;
    const int left = (system->rank + system->ranks - 1) % system->ranks;
    const bool sends_first = system->slip == SHARE_ALL_SEND_FIRST || system->rank % 2 == 0;
    for (int step = 0; step < system->ranks - 1; step++) {
        const struct part out = part_of(system, system->rank - step);
        struct part in = part_of(system, system->rank - step - 1);
        if (system->slip == SHARE_WRONG_SLOT)
            in.values = system->solution;
        if (system->slip == SHARE_OVERWRITES)
            exchange_copies(&out, &in, right, left);
        else
            exchange(&out, &in, right, left, sends_first);
    }
}
