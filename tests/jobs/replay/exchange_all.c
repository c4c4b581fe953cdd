// What a rank can get in other ways than by plain messages from anybody: halos in derived datatypes, collective calls of all kinds
// on communicators of all kinds, nonblocking and persistent ones, parts of what was asked for, errors. What it got is in the log.
//
//   exchange_all --log DIR [--steps N] [--other STEP] [--die RANK] [--window STEP] [--large BYTES]
//
// --other: at this step rank 1 sends another value, --die: this rank ends by a signal at the last step, --window: at this step a
// window is made, --large: so much is broadcast in each step.
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "logged.h"

enum { WIDE = 24, HIGH = 16, MOST = 4096 };

static int steps = 3, other_step = -1, dying_rank = -1, window_step = -1, large_bytes;
static uint32_t random_state;

static double value_at(int step, int i)
{
    random_state = random_state * 1664525 + 1013904223;
    return rank * 1000 + step + i / 16.0 + (random_state >> 24) / 1024.0;
}

static void note_bytes(const char *what, const void *at, size_t bytes)
{
    uint64_t sum = 1469598103934665603u;
    for (size_t i = 0; i < bytes; i++)
        sum = (sum ^ ((const unsigned char *)at)[i]) * 1099511628211u;
    note(what, (int)sum, (int)(sum >> 32), (int)bytes, 0);
}

static void note_status(const char *what, const MPI_Status *status, MPI_Datatype type)
{
    int count, elements;
    MPI_Get_count(status, type, &count);
    MPI_Get_elements(status, type, &elements);
    note(what, status->MPI_SOURCE, status->MPI_TAG, count, elements);
}

// ---- A field whose edges go to neighbours: columns, a corner of it, structures with gaps ---------------------------

struct cell {
    char kind;
    double mass;
    short charge;
};

static double field[HIGH][WIDE];
static struct cell cells[WIDE], got_cells[2][WIDE];

static MPI_Datatype cell_type(void)
{
    const int lengths[] = {1, 1, 1};
    const MPI_Aint places[] = {offsetof(struct cell, kind), offsetof(struct cell, mass), offsetof(struct cell, charge)};
    const MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT};
    MPI_Datatype packed, type;
    MPI_Type_create_struct(3, lengths, places, types, &packed);
    MPI_Type_create_resized(packed, 0, sizeof(struct cell), &type);
    MPI_Type_free(&packed);
    MPI_Type_commit(&type);
    return type;
}

static void fill(int step)
{
    for (int i = 0; i < HIGH; i++)
        for (int j = 0; j < WIDE; j++)
            field[i][j] = value_at(step, i * WIDE + j);
    for (int j = 0; j < WIDE; j++)
        cells[j] = (struct cell){(char)('a' + j), value_at(step, j), (short)(rank * 100 + j)};
    if (step == other_step && rank == 1)
        field[3][1] += 1;
}

static void halo(MPI_Comm grid, int step)
{
    MPI_Datatype column, corner, cell = cell_type();
    const int sizes[] = {HIGH, WIDE}, subsizes[] = {3, 5}, starts[] = {2, 7};
    int left, right, up, down;
    MPI_Request requests[8];
    MPI_Status statuses[8];
    fill(step);
    MPI_Type_vector(HIGH, 1, WIDE, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_C, MPI_DOUBLE, &corner);
    MPI_Type_commit(&corner);
    MPI_Cart_shift(grid, 0, 1, &left, &right);
    MPI_Cart_shift(grid, 1, 1, &up, &down);
    note("neighbours", left, right, up, down);
    MPI_Irecv(&field[0][0], 1, column, left, 1, grid, &requests[0]);
    MPI_Irecv(&field[0][WIDE - 1], 1, column, right, 2, grid, &requests[1]);
    MPI_Isend(&field[0][1], 1, column, left, 2, grid, &requests[2]);
    MPI_Isend(&field[0][WIDE - 2], 1, column, right, 1, grid, &requests[3]);
    // Room for more than comes.
    MPI_Irecv(got_cells[0], WIDE, cell, left, 3, grid, &requests[4]);
    MPI_Irecv(got_cells[1], WIDE, cell, right, 4, grid, &requests[5]);
    MPI_Isend(cells, WIDE / 2, cell, right, 3, grid, &requests[6]);
    MPI_Isend(cells, WIDE, cell, left, 4, grid, &requests[7]);
    MPI_Type_free(&column);
    MPI_Waitall(8, requests, statuses);
    note_status("cells", &statuses[4], cell);
    note_bytes("field", field, sizeof field);
    for (int j = 0; j < WIDE; j++)
        note("cell", got_cells[0][j].kind, got_cells[0][j].charge, (int)(got_cells[0][j].mass * 100), got_cells[1][j].charge);
    MPI_Status status;
    MPI_Sendrecv_replace(field, 1, corner, right, 5, left, 5, grid, &status);
    note_status("corner", &status, MPI_DOUBLE);
    note_bytes("field", field, sizeof field);
    MPI_Type_free(&corner);
    MPI_Type_free(&cell);
}

// ---- Persistent and matched messages --------------------------------------------------------------------------------

static void messages(int step)
{
    static char attached[1 << 16];
    const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    int out = rank * 7 + step, in = -1, flag = 0, size;
    MPI_Request requests[2], one;
    MPI_Status status;
    MPI_Message message;
    void *detached;
    MPI_Send_init(&out, 1, MPI_INT, right, 7, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv_init(&in, 1, MPI_INT, left, 7, MPI_COMM_WORLD, &requests[1]);
    for (int i = 0; i < 3; i++) {
        out++;
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        note("persistent", in, i, 0, 0);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    MPI_Buffer_attach(attached, sizeof attached);
    pause_a_little();
    MPI_Bsend(&out, 1, MPI_INT, right, 8, MPI_COMM_WORLD);
    MPI_Mprobe(left, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
    note_status("probed", &status, MPI_INT);
    MPI_Imrecv(&in, 1, MPI_INT, &message, &one);
    while (!flag)
        MPI_Request_get_status(one, &flag, &status);
    note("matched", in, message == MPI_MESSAGE_NULL, one != MPI_REQUEST_NULL, 0);
    MPI_Wait(&one, &status);
    note_status("waited", &status, MPI_INT);
    MPI_Buffer_detach(&detached, &size);
    note("detached", detached == attached, size, 0, 0);
    MPI_Recv(&in, 1, MPI_INT, MPI_PROC_NULL, 9, MPI_COMM_WORLD, &status);
    note_status("nobody", &status, MPI_INT);
    // It is cancelled: nobody sends it.
    MPI_Irecv(&in, 1, MPI_INT, left, 99, MPI_COMM_WORLD, &one);
    MPI_Cancel(&one);
    MPI_Wait(&one, &status);
    MPI_Test_cancelled(&status, &flag);
    note("cancelled", flag, one == MPI_REQUEST_NULL, 0, 0);
}

// ---- Collective calls -----------------------------------------------------------------------------------------------

struct place {
    double value;
    int at;
};

static void collectives(MPI_Comm comm, const char *name, int step)
{
    int me, size;
    double sent[MOST], got[MOST];
    int counts[MOST_RANKS], displs[MOST_RANKS];
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &size);
    note(name, me, size, step, 0);
    for (int i = 0; i < MOST; i++) {
        sent[i] = value_at(step, i);
        got[i] = -1;
    }
    for (int i = 0; i < size; i++) {
        counts[i] = i + 1;
        displs[i] = i * (size + 1);
    }
#define GOT(what) note_bytes(what, got, sizeof got)
    const int root = step % size;
    MPI_Barrier(comm);
    memcpy(got, sent, sizeof got);
    MPI_Bcast(got, 100, MPI_DOUBLE, root, comm);
    GOT("bcast");
    MPI_Gather(sent, 3, MPI_DOUBLE, got, 3, MPI_DOUBLE, root, comm);
    GOT("gather");
    MPI_Gatherv(sent, me + 1, MPI_DOUBLE, got, counts, displs, MPI_DOUBLE, root, comm);
    GOT("gatherv");
    MPI_Scatter(sent, 2, MPI_DOUBLE, me == root ? MPI_IN_PLACE : got, 2, MPI_DOUBLE, root, comm);
    GOT("scatter");
    MPI_Scatterv(sent, counts, displs, MPI_DOUBLE, got, me + 1, MPI_DOUBLE, root, comm);
    GOT("scatterv");
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, got, 2, MPI_DOUBLE, comm);
    GOT("allgather");
    MPI_Allgatherv(sent, me + 1, MPI_DOUBLE, got, counts, displs, MPI_DOUBLE, comm);
    GOT("allgatherv");
    MPI_Alltoall(sent, 2, MPI_DOUBLE, got, 2, MPI_DOUBLE, comm);
    GOT("alltoall");
    for (int i = 0; i < size; i++)
        counts[i] = 2;
    MPI_Alltoallv(sent, counts, displs, MPI_DOUBLE, got, counts, displs, MPI_DOUBLE, comm);
    GOT("alltoallv");
    struct place mine = {sent[5], me}, best;
    MPI_Allreduce(&mine, &best, 1, MPI_DOUBLE_INT, MPI_MAXLOC, comm);
    note("maxloc", (int)(best.value * 100), best.at, 0, 0);
    MPI_Allreduce(MPI_IN_PLACE, got, 50, MPI_DOUBLE, MPI_SUM, comm);
    GOT("allreduce");
    MPI_Reduce(sent, got, 70, MPI_DOUBLE, MPI_MIN, root, comm);
    GOT("reduce");
    MPI_Reduce_scatter(sent, got, counts, MPI_DOUBLE, MPI_SUM, comm);
    GOT("reduce_scatter");
    MPI_Reduce_scatter_block(sent, got, 3, MPI_DOUBLE, MPI_SUM, comm);
    GOT("reduce_scatter_block");
    MPI_Scan(sent, got, 5, MPI_DOUBLE, MPI_SUM, comm);
    GOT("scan");
    MPI_Exscan(sent, got + 10, 5, MPI_DOUBLE, MPI_SUM, comm);
    GOT("exscan");
    // All at once, and each is looked at when it is complete.
    double parts[6][64] = {{0}};
    MPI_Request requests[7];
    MPI_Ibcast(strcpy((char *)parts[0], me == root ? "from the root" : ""), 64, MPI_CHAR, root, comm, &requests[0]);
    MPI_Iallreduce(sent, parts[1], 20, MPI_DOUBLE, MPI_MAX, comm, &requests[1]);
    MPI_Igatherv(sent, 2, MPI_DOUBLE, parts[2], counts, displs, MPI_DOUBLE, root, comm, &requests[2]);
    MPI_Iallgather(sent, 1, MPI_DOUBLE, parts[3], 1, MPI_DOUBLE, comm, &requests[3]);
    MPI_Ialltoall(sent, 1, MPI_DOUBLE, parts[4], 1, MPI_DOUBLE, comm, &requests[4]);
    MPI_Iscan(sent, parts[5], 4, MPI_DOUBLE, MPI_PROD, comm, &requests[5]);
    MPI_Ibarrier(comm, &requests[6]);
    for (int left = 7; left > 0; left--) {
        int index;
        MPI_Status status;
        MPI_Waitany(7, requests, &index, &status);
        note("complete", index, left, requests[index] == MPI_REQUEST_NULL, 0);
        if (index < 6)
            note_bytes("part", parts[index], sizeof parts[index]);
    }
}

// ---- Communicators --------------------------------------------------------------------------------------------------

static int copied;

static int copy(MPI_Comm comm, int key, void *extra, void *value, void *out, int *flag)
{
    (void)comm, (void)key, (void)extra;
    copied++;
    *(void **)out = (char *)value + 1;
    *flag = 1;
    return MPI_SUCCESS;
}

static void attributes(void)
{
    int key, flag, *bound;
    void *value;
    MPI_Comm twin;
    MPI_Comm_create_keyval(copy, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, (void *)40);
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    MPI_Comm_get_attr(twin, key, &value, &flag);
    note("attribute", flag, (int)(intptr_t)value, copied, 0);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &flag);
    note("bound", flag, *bound, 0, 0);
    MPI_Comm_compare(twin, MPI_COMM_WORLD, &flag);
    note("compared", flag, MPI_CONGRUENT, 0, 0);
    MPI_Comm_free(&twin);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
    MPI_Comm_free_keyval(&key);
}

static void groups(int step)
{
    MPI_Group all, some, others, none;
    MPI_Comm made;
    int members[MOST_RANKS], places[MOST_RANKS], count = 0, size, me;
    for (int i = 0; i < ranks; i += 2)
        members[count++] = ranks - 1 - i;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, count, members, &some);
    MPI_Group_difference(all, some, &others);
    MPI_Group_intersection(some, others, &none);
    MPI_Group_size(some, &size);
    MPI_Group_rank(some, &me);
    note("group", size, me, none == MPI_GROUP_EMPTY, me == MPI_UNDEFINED);
    MPI_Group_translate_ranks(some, count, (int[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, all, places);
    note_bytes("places", places, (size_t)count * sizeof(int));
    MPI_Comm_create(MPI_COMM_WORLD, some, &made);
    note("created", made == MPI_COMM_NULL, 0, 0, 0);
    if (made != MPI_COMM_NULL) {
        collectives(made, "some", step);
        MPI_Comm_free(&made);
    } else if (ranks > 1) {
        MPI_Comm_create_group(MPI_COMM_WORLD, others, 5, &made);
        collectives(made, "others", step);
        MPI_Comm_free(&made);
    }
    MPI_Group_free(&all);
    MPI_Group_free(&some);
    MPI_Group_free(&others);
    if (none != MPI_GROUP_EMPTY)
        MPI_Group_free(&none);
}

// Two halves that talk to each other.
static void halves(void)
{
    MPI_Comm half, between, merged;
    const int is_upper = rank >= ranks / 2;
    int inter, size, sum = rank, got = -1, all[MOST_RANKS];
    MPI_Comm_split(MPI_COMM_WORLD, is_upper, -rank, &half);
    if (ranks > 1) {
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, is_upper ? ranks / 2 - 1 : ranks - 1, 6, &between);
        MPI_Comm_test_inter(between, &inter);
        MPI_Comm_remote_size(between, &size);
        MPI_Allreduce(&sum, &got, 1, MPI_INT, MPI_SUM, between);
        note("between", inter, size, got, 0);
        MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, between);
        note_bytes("all", all, (size_t)size * sizeof(int));
        int word = rank;
        MPI_Bcast(&word, 1, MPI_INT, is_upper ? 0 : rank == ranks / 2 - 1 ? MPI_ROOT : MPI_PROC_NULL, between);
        note("word", word, 0, 0, 0);
        MPI_Intercomm_merge(between, is_upper, &merged);
        MPI_Comm_size(merged, &size);
        note("merged", size, 0, 0, 0);
        MPI_Comm_free(&merged);
        MPI_Comm_free(&between);
    }
    MPI_Comm_free(&half);
}

static void topologies(MPI_Comm grid)
{
    int dims[2], periods[2], coords[2], in[] = {rank == 0 ? ranks - 1 : rank - 1}, out[] = {(rank + 1) % ranks};
    int kind, weights[] = {3}, indegree, outdegree, weighted, from[4], to[4], in_weights[4], out_weights[4];
    int sent[8] = {rank, rank + 1, rank + 2, rank + 3}, got[8];
    MPI_Comm ring, rows;
    MPI_Cart_get(grid, 2, dims, periods, coords);
    note("grid", dims[0], dims[1], coords[0], coords[1]);
    MPI_Topo_test(grid, &kind);
    MPI_Cart_rank(grid, coords, &indegree);
    note("kind", kind == MPI_CART, indegree, 0, 0);
    memset(got, -1, sizeof got);
    MPI_Neighbor_alltoall(sent, 1, MPI_INT, got, 1, MPI_INT, grid);
    note_bytes("neighbours", got, sizeof got);
    MPI_Cart_sub(grid, (int[]){0, 1}, &rows);
    int row = rank;
    MPI_Allreduce(MPI_IN_PLACE, &row, 1, MPI_INT, MPI_SUM, rows);
    note("row", row, 0, 0, 0);
    MPI_Comm_free(&rows);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, in, weights, 1, out, weights, MPI_INFO_NULL, 0, &ring);
    MPI_Dist_graph_neighbors_count(ring, &indegree, &outdegree, &weighted);
    MPI_Dist_graph_neighbors(ring, 4, from, in_weights, 4, to, out_weights);
    note("ring", indegree * 10 + outdegree, weighted, from[0], to[0] + in_weights[0]);
    MPI_Request request;
    MPI_Ineighbor_allgather(sent, 2, MPI_INT, got, 2, MPI_INT, ring, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    note("allgather", got[0], got[1], 0, 0);
    MPI_Comm_free(&ring);
}

// More than fits into what is kept of a rank at once.
static void large(int step)
{
    char *all = malloc((size_t)large_bytes);
    if (!all)
        MPI_Abort(MPI_COMM_WORLD, 2);
    uint32_t next = (uint32_t)step;
    for (int i = 0; i < large_bytes; i++) {
        next = next * 1664525 + 1013904223;
        all[i] = rank == 0 ? (char)(next >> 24) : 0;
    }
    MPI_Bcast(all, large_bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
    note_bytes("large", all, (size_t)large_bytes);
    free(all);
}

// A message that is too long, with an error handler that hears of it.
static int heard;

static void hear(MPI_Comm *comm, int *error, ...)
{
    (void)comm;
    int class;
    MPI_Error_class(*error, &class);
    heard += class == MPI_ERR_TRUNCATE;
}

static void errors(void)
{
    MPI_Errhandler handler;
    MPI_Comm twin;
    int four[4] = {1, 2, 3, 4}, one[4] = {-1, -1, -1, -1}, class;
    const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    MPI_Comm_create_errhandler(hear, &handler);
    MPI_Comm_set_errhandler(twin, handler);
    MPI_Request request;
    MPI_Isend(four, 4, MPI_INT, right, 3, twin, &request);
    MPI_Error_class(MPI_Recv(one, 1, MPI_INT, left, 3, twin, MPI_STATUS_IGNORE), &class);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    note("error", class == MPI_ERR_TRUNCATE, heard, 0, 0);
    MPI_Errhandler_free(&handler);
    MPI_Comm_free(&twin);
}

int main(int argc, char **argv)
{
    int dims[2] = {0, 0}, level, length;
    const int periods[2] = {1, 0};
    char name[MPI_MAX_PROCESSOR_NAME];
    MPI_Comm grid;
    steps = atoi(option(argc, argv, "--steps", "3"));
    other_step = atoi(option(argc, argv, "--other", "-1"));
    dying_rank = atoi(option(argc, argv, "--die", "-1"));
    large_bytes = atoi(option(argc, argv, "--large", "0"));
    window_step = atoi(option(argc, argv, "--window", "-1"));
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    open_log(option(argc, argv, "--log", "."));
    // What the kernel draws is not in any record: nothing here may depend on it.
    random_state = (uint32_t)rank;
    MPI_Get_processor_name(name, &length);
    note_bytes("name", name, (size_t)length);
    MPI_Dims_create(ranks, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &grid);
    attributes();
    errors();
    for (int step = 0; step < steps; step++) {
        halo(grid, step);
        messages(step);
        collectives(MPI_COMM_WORLD, "world", step);
        groups(step);
        halves();
        topologies(grid);
        if (large_bytes > 0)
            large(step);
        fflush(log_file);
        if (step == window_step) {
            MPI_Win window;
            MPI_Win_create(field, sizeof field, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
            MPI_Win_free(&window);
        }
        if (step == steps - 1 && rank == dying_rank) {
            fprintf(stderr, "rank %d dies at step %d\n", rank, step);
            raise(SIGSEGV);
        }
    }
    MPI_Comm_free(&grid);
    close_log();
    MPI_Finalize();
    return 0;
}
