// Reductions whose results show in which order they were done: sums of numbers of all sizes, and products of matrices.
//
//   reductions --log DIR
//
// Each rank computes what the order of ranks gives, and logs for each call whether that came.
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "logged.h"

enum { MANY = 7, MATRICES = 3 };

struct matrix {
    double at[2][2];
    // Between matrices there is room that is no part of the type.
    double gap;
};

static MPI_Datatype matrix_type;
static MPI_Op product;
static int wrong;

static double number_of(int who, int at)
{
    double number = 1.0 / (3 * who + at + 1);
    for (int i = 0; i < who * 7 % 5; i++)
        number *= 1000;
    return who % 2 ? -number : number;
}

static struct matrix matrix_of(int who, int at)
{
    return (struct matrix){{{1 + number_of(who, at), 0.5}, {at, 1}}, who};
}

static struct matrix times(struct matrix a, struct matrix b)
{
    struct matrix made = {.gap = b.gap};
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            made.at[i][j] = a.at[i][0] * b.at[0][j] + a.at[i][1] * b.at[1][j];
    return made;
}

static void multiply(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    struct matrix *left = in, *right = inout;
    for (int i = 0; i < *count; i++)
        right[i] = times(left[i], right[i]);
}

// Of ranks 0 to `last`.
static double sum_to(int last, int at)
{
    double sum = number_of(0, at);
    for (int who = 1; who <= last; who++)
        sum = sum + number_of(who, at);
    return sum;
}

static struct matrix product_to(int last, int at)
{
    struct matrix made = matrix_of(0, at);
    for (int who = 1; who <= last; who++)
        made = times(made, matrix_of(who, at));
    return made;
}

static void check(const char *what, int is_ordered)
{
    note(what, is_ordered, 0, 0, 0);
    wrong += !is_ordered;
    pause_a_little();
}

// Whether so many numbers are the sums up to a rank, from the nth on.
static int are_sums(const double *numbers, int count, int last, int from)
{
    int same = 1;
    for (int i = 0; i < count; i++)
        same &= numbers[i] == sum_to(last, from + i);
    return same;
}

static int are_products(const struct matrix *matrices, int count, int last, double gap)
{
    int same = 1;
    for (int i = 0; i < count; i++) {
        struct matrix wanted = product_to(last, i);
        same &= !memcmp(matrices[i].at, wanted.at, sizeof wanted.at) && matrices[i].gap == gap;
    }
    return same;
}

static void sums(void)
{
    double own[MANY * MOST_RANKS], got[MANY * MOST_RANKS];
    int counts[MOST_RANKS], before = 0;
    const int last = ranks - 1;
    for (int i = 0; i < MANY * ranks; i++)
        own[i] = number_of(rank, i);

    MPI_Allreduce(own, got, MANY, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    check("Allreduce", are_sums(got, MANY, last, 0));
    memcpy(got, own, sizeof got);
    MPI_Allreduce(MPI_IN_PLACE, got, MANY, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    check("Allreduce in place", are_sums(got, MANY, last, 0));

    MPI_Reduce(own, got, MANY, MPI_DOUBLE, MPI_SUM, last, MPI_COMM_WORLD);
    check("Reduce", rank != last || are_sums(got, MANY, last, 0));
    memcpy(got, own, sizeof got);
    MPI_Reduce(rank == last ? MPI_IN_PLACE : own, got, MANY, MPI_DOUBLE, MPI_SUM, last, MPI_COMM_WORLD);
    check("Reduce in place", rank != last || are_sums(got, MANY, last, 0));

    MPI_Scan(own, got, MANY, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    check("Scan", are_sums(got, MANY, rank, 0));
    got[0] = 42;
    MPI_Exscan(own, got, MANY, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    check("Exscan", rank == 0 ? got[0] == 42 : are_sums(got, MANY, rank - 1, 0));

    MPI_Reduce_scatter_block(own, got, MANY, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    check("Reduce_scatter_block", are_sums(got, MANY, last, rank * MANY));
    for (int i = 0; i < ranks; i++) {
        counts[i] = i % MANY;
        before += i < rank ? counts[i] : 0;
    }
    MPI_Reduce_scatter(own, got, counts, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    check("Reduce_scatter", are_sums(got, counts[rank], last, before));
    memcpy(got, own, sizeof got);
    MPI_Reduce_scatter(MPI_IN_PLACE, got, counts, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    check("Reduce_scatter in place", are_sums(got, counts[rank], last, before));
}

static void products(void)
{
    struct matrix own[MATRICES], got[MATRICES];
    for (int i = 0; i < MATRICES; i++) {
        own[i] = matrix_of(rank, i);
        got[i].gap = -1;
    }
    MPI_Allreduce(own, got, MATRICES, matrix_type, product, MPI_COMM_WORLD);
    check("Allreduce of matrices", are_products(got, MATRICES, ranks - 1, -1));
    MPI_Scan(own, got, MATRICES, matrix_type, product, MPI_COMM_WORLD);
    check("Scan of matrices", are_products(got, MATRICES, rank, -1));
}

int main(int argc, char **argv)
{
    int all_wrong;
    MPI_Datatype four;
    MPI_Init(&argc, &argv);
    open_log(argc > 2 ? argv[2] : ".");
    MPI_Type_contiguous(4, MPI_DOUBLE, &four);
    MPI_Type_create_resized(four, 0, sizeof(struct matrix), &matrix_type);
    MPI_Type_commit(&matrix_type);
    MPI_Op_create(multiply, 0, &product);
    sums();
    products();
    MPI_Reduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    close_log();
    if (rank == 0)
        printf("%d results are not those of the order of ranks\n", all_wrong);
    MPI_Op_free(&product);
    MPI_Type_free(&matrix_type);
    MPI_Type_free(&four);
    MPI_Finalize();
    return 0;
}
