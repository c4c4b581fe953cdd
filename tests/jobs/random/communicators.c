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

MPI_Comm another(struct thread *t, uint64_t seed, int round, MPI_Comm comm)
{
    int size, rank;
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &rank);
    struct dice plan = dice_of(seed, (uint64_t)round, 3000);
    MPI_Comm made = MPI_COMM_NULL;
    int way = (int)roll(&plan, 5), fewer = size - (int)roll(&plan, 2);
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
    } else {
        int right = (rank + 1) % size, left = (rank + size - 1) % size, weight = 1;
        CALL(t, MPI_Dist_graph_create_adjacent(comm, 1, &left, &weight, 1, &right, &weight, MPI_INFO_NULL, 0, &made));
    }
    return made;
}
