#include "communicators.h"

#include <stdint.h>

#include "dice.h"

// The group of every second rank of a communicator, this rank's half, made in one of the ways there are.
static MPI_Group half_of(struct thread *t, uint64_t seed, int round, MPI_Comm comm)
{
    int rank, size, ranks[64], count = 0;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    struct dice plan = dice_of(seed, (uint64_t)round, 2000);
    MPI_Group all, half, other;
    CALL(t, MPI_Comm_group(comm, &all));
    int way = (int)roll(&plan, 6), parity = rank % 2;
    int last = size - 1 - (size - 1 - parity) % 2;
    int same[1][3] = {{last, parity, -2}};
    int rest[1][3] = {{1 - parity, size - 1, 2}};
    switch (way) {
    case 0:
        for (int i = 0; i < size; i++)
            if (i % 2 == parity)
                ranks[count++] = size - 1 - i;
        // Backwards, and of the other half where the number of ranks is even.
        if (size % 2 == 0)
            for (int i = 0; i < count; i++)
                ranks[i] ^= 1;
        CALL(t, MPI_Group_incl(all, count, ranks, &half));
        break;
    case 1:
        for (int i = 1 - parity; i < size; i += 2)
            ranks[count++] = i;
        CALL(t, MPI_Group_excl(all, count, ranks, &half));
        break;
    case 2: CALL(t, MPI_Group_range_incl(all, 1, same, &half)); break;
    case 3:
        if (1 - parity >= size)
            CALL(t, MPI_Group_range_excl(all, 0, rest, &half));
        else
            CALL(t, MPI_Group_range_excl(all, 1, rest, &half));
        break;
    case 4:
        CALL(t, MPI_Group_range_incl(all, 1, same, &other));
        CALL(t, MPI_Group_intersection(other, all, &half));
        CALL(t, MPI_Group_free(&other));
        break;
    default:
        for (int i = 1 - parity; i < size; i += 2)
            ranks[count++] = i;
        CALL(t, MPI_Group_incl(all, count, ranks, &other));
        CALL(t, MPI_Group_difference(all, other, &half));
        if (other != MPI_GROUP_EMPTY)
            CALL(t, MPI_Group_free(&other));
    }
    CALL(t, MPI_Group_free(&all));
    return half;
}

// What is remembered of a communicator, and of its duplicates: how it was made, and whether this rank's group is the second.
static int remembered;

void begin_communicators(void)
{
    MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &remembered, NULL);
}

static MPI_Comm remember(MPI_Comm comm, int kind, int second)
{
    if (comm != MPI_COMM_NULL)
        MPI_Comm_set_attr(comm, remembered, (void *)(intptr_t)(2 * kind + second));
    return comm;
}

static int recall(MPI_Comm comm)
{
    void *value = NULL;
    int found = 0;
    MPI_Comm_get_attr(comm, remembered, (void *)&value, &found);
    return found ? (int)(intptr_t)value : 0;
}

int kind_of(MPI_Comm comm)
{
    return recall(comm) / 2;
}

int is_between(MPI_Comm comm)
{
    int between;
    MPI_Comm_test_inter(comm, &between);
    return between;
}

struct place place_of(MPI_Comm comm)
{
    struct place place = {.between = is_between(comm)};
    int others = 0;
    MPI_Comm_rank(comm, &place.number);
    MPI_Comm_size(comm, &place.size);
    if (place.between) {
        MPI_Comm_remote_size(comm, &others);
        int second = recall(comm) % 2;
        place.second = second ? others : place.size;
        place.number += second ? others : 0;
        place.size += others;
    }
    return place;
}

int rank_of(const struct place *place, int number)
{
    return place->between && number >= place->second ? number - place->second : number;
}

// A part of a grid of two or three dimensions, or of its duplicate.
static MPI_Comm part_of_grid(struct thread *t, struct dice *plan, MPI_Comm comm, int size)
{
    int rows = size % 2 == 0 ? 2 : 1, dimensions = 2 + (int)roll(plan, 2);
    int dims[3] = {rows, size / rows, 1}, periods[3] = {0, 1, 0}, remain[3];
    MPI_Comm grid, other, part;
    for (int i = 0; i < 3; i++)
        remain[i] = (int)roll(plan, 2);
    CALL(t, MPI_Cart_create(comm, dimensions, dims, periods, 0, &grid));
    if (grid == MPI_COMM_NULL)
        return MPI_COMM_NULL;
    if (roll(plan, 2)) {
        CALL(t, MPI_Comm_dup(grid, &other));
        CALL(t, MPI_Comm_free(&grid));
        grid = other;
    }
    CALL(t, MPI_Cart_sub(grid, remain, &part));
    CALL(t, MPI_Comm_free(&grid));
    return remember(part, OF_GRID, 0);
}

// Those that share memory: all but some, in any order.
static MPI_Comm on_node(struct thread *t, uint64_t seed, int round, MPI_Comm comm)
{
    struct dice own = dice_of(seed, (uint64_t)round, 4000 + (uint64_t)world_rank);
    int type = roll(&own, 5) ? MPI_COMM_TYPE_SHARED : MPI_UNDEFINED, key = (int)roll(&own, 3);
    MPI_Comm made;
    CALL(t, MPI_Comm_split_type(comm, type, key, MPI_INFO_NULL, &made));
    return remember(made, OF_NODE, 0);
}

// Two groups of a communicator, one of them backwards.
static MPI_Comm between(struct thread *t, struct dice *plan, int round, MPI_Comm comm, int rank, int size)
{
    int cut = 1 + (int)roll(plan, (uint32_t)size - 1), second = rank >= cut;
    // As ranks in their groups.
    int leader = (int)roll(plan, (uint32_t)cut), other = (int)roll(plan, (uint32_t)(size - cut));
    MPI_Comm half, made;
    CALL(t, MPI_Comm_split(comm, second, second ? rank : -rank, &half));
    int own_leader = second ? other : leader, remote = second ? cut - 1 - leader : cut + other, own;
    MPI_Comm_rank(half, &own);
    // What others than the leader pass means nothing.
    int leads = own == own_leader;
    CALL(t, MPI_Intercomm_create(half, own_leader, leads ? comm : MPI_COMM_NULL, leads ? remote : 0, round % 1000, &made));
    CALL(t, MPI_Comm_free(&half));
    return remember(made, BETWEEN, second);
}

// Both groups as one, in one order or the other.
static MPI_Comm merged(struct thread *t, struct dice *plan, MPI_Comm comm)
{
    int second = recall(comm) % 2, turned = (int)roll(plan, 2);
    MPI_Comm made;
    CALL(t, MPI_Intercomm_merge(comm, second ^ turned, &made));
    return remember(made, MERGED, 0);
}

// Made from those that some ranks of each group are in.
static MPI_Comm of_both_groups(struct thread *t, MPI_Comm comm, struct dice *plan)
{
    int rank;
    MPI_Comm made;
    MPI_Comm_rank(comm, &rank);
    if (roll(plan, 3))
        return merged(t, plan, comm);
    CALL(t, MPI_Comm_split(comm, rank % 2, -rank, &made));
    return remember(made, BETWEEN, recall(comm) % 2);
}

MPI_Comm another(struct thread *t, uint64_t seed, int round, MPI_Comm comm)
{
    int size, rank;
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &rank);
    struct dice plan = dice_of(seed, (uint64_t)round, 3000);
    MPI_Comm made = MPI_COMM_NULL;
    if (is_between(comm))
        return of_both_groups(t, comm, &plan);
    int way = (int)roll(&plan, 9), fewer = size - (int)roll(&plan, 2);
    if (fewer < 1)
        fewer = 1;
    if (way < 2) {
        MPI_Group half = half_of(t, seed, round, comm);
        if (way == 0)
            CALL(t, MPI_Comm_create(comm, half, &made));
        else
            CALL(t, MPI_Comm_create_group(comm, half, round % 1000, &made));
        CALL(t, MPI_Group_free(&half));
    } else if (way == 2) {
        int dims[2] = {1, fewer}, periods[2] = {0, 1};
        CALL(t, MPI_Cart_create(comm, 2, dims, periods, 0, &made));
    } else if (way == 3) {
        int index[64], edges[1] = {0};
        for (int i = 0; i < fewer; i++)
            index[i] = 0;
        CALL(t, MPI_Graph_create(comm, fewer, index, edges, 0, &made));
    } else if (way == 4 || (way >= 7 && size < 2)) {
        int right = (rank + 1) % size, left = (rank + size - 1) % size, weight = 1;
        CALL(t, MPI_Dist_graph_create_adjacent(comm, 1, &left, &weight, 1, &right, &weight, MPI_INFO_NULL, 0, &made));
    } else if (way == 5) {
        made = part_of_grid(t, &plan, comm, fewer);
    } else if (way == 6) {
        made = on_node(t, seed, round, comm);
    } else {
        made = between(t, &plan, round, comm, rank, size);
        if (way == 8) {
            MPI_Comm one = merged(t, &plan, made);
            CALL(t, MPI_Comm_free(&made));
            made = one;
        }
    }
    // Open MPI hands on to some what it remembers of the old one.
    return way < 5 ? remember(made, ANY_WAY, 0) : made;
}
