// Lapses with collective operations: rank 1, or the last one, does something else than the others.
#include "errors.h"
#include "job.h"
#include "work.h"

static uint64_t barrier_or_bcast(const struct scene *scene)
{
    int number = NUMBER;
    if (scene->faulty && scene->rank == 1)
        MPI_Bcast(&number, 1, MPI_INT, 0, MPI_COMM_WORLD); // at fault: barrier_or_bcast
    else
        MPI_Barrier(MPI_COMM_WORLD);
    return number != NUMBER;
}

// Rank 1 takes itself for the root. A long message: of a short one nobody would notice, or anybody, as the library's tree
// has it.
static uint64_t bcast_other_root(const struct scene *scene)
{
    const int root = scene->faulty && scene->rank == 1 ? 1 : 0, bytes = (int)scene->long_bytes;
    unsigned char *message = must_allocate(scene->long_bytes);
    pattern_fill(message, scene->long_bytes, (uint64_t)scene->rank);
    MPI_Bcast(message, bytes, MPI_BYTE, root, MPI_COMM_WORLD); // at fault: bcast_other_root
    const uint64_t errors = pattern_errors(message, scene->long_bytes, 0);
    free(message);
    return errors;
}

// The rank with the other root has sent and goes on, the root waits for it.
static uint64_t gather_other_root(const struct scene *scene)
{
    enum { MOST_RANKS = 1024 };
    const int root = scene->faulty && scene->rank == 1 ? 2 : 0, number = NUMBER;
    int numbers[MOST_RANKS] = {0};
    MPI_Gather(&number, 1, MPI_INT, numbers, 1, MPI_INT, root, MPI_COMM_WORLD);
    return scene->rank == 0 && numbers[1] != NUMBER;
}

static uint64_t other_operation(const struct scene *scene)
{
    const MPI_Op operation = scene->faulty && scene->rank == 1 ? MPI_MAX : MPI_SUM;
    int sum = 0;
    MPI_Allreduce(&scene->rank, &sum, 1, MPI_INT, operation, MPI_COMM_WORLD); // at fault: other_operation
    return sum != scene->ranks * (scene->ranks - 1) / 2;
}

// A float has as many bytes as an int: the library adds what it is given.
static uint64_t other_datatype(const struct scene *scene)
{
    const MPI_Datatype type = scene->faulty && scene->rank == 1 ? MPI_FLOAT : MPI_INT;
    int sum = 0;
    MPI_Allreduce(&scene->rank, &sum, 1, type, MPI_SUM, MPI_COMM_WORLD); // at fault: other_datatype
    return sum != scene->ranks * (scene->ranks - 1) / 2;
}

static uint64_t other_size(const struct scene *scene)
{
    enum { COUNT = 16 };
    const int room = scene->faulty && scene->rank == 1 ? COUNT / 2 : COUNT;
    int numbers[COUNT] = {0};
    if (scene->rank == 0)
        numbers[COUNT - 1] = NUMBER;
    MPI_Bcast(numbers, room, MPI_INT, 0, MPI_COMM_WORLD); // at fault: other_size
    return numbers[COUNT - 1] != NUMBER;
}

// The last rank takes two communicators in another order.
static uint64_t two_communicators(const struct scene *scene)
{
    MPI_Comm copies[2];
    const int first = scene->faulty && scene->rank == scene->ranks - 1;
    for (int i = 0; i < 2; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &copies[i]);
    MPI_Barrier(copies[first]); // at fault: two_communicators
    MPI_Barrier(copies[1 - first]);
    for (int i = 0; i < 2; i++)
        MPI_Comm_free(&copies[i]);
    return 0;
}

static uint64_t recv_in_collective(const struct scene *scene)
{
    int number = NUMBER;
    if (scene->faulty && scene->rank == 1)
        MPI_Recv(&number, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE); // at fault: recv_in_collective
    MPI_Barrier(MPI_COMM_WORLD);
    return number != NUMBER;
}

// Rank 1 is done after its computation, the others wait for it.
static uint64_t skips_collective(const struct scene *scene)
{
    int sum = 0;
    if (scene->rank == 1)
        compute_for(scene->compute_s);
    if (scene->faulty && scene->rank == 1)
        return 0;
    MPI_Allreduce(&scene->rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return sum != scene->ranks * (scene->ranks - 1) / 2;
}

// Rank 1 does not start an operation that the others wait for with a request.
static uint64_t ibarrier_unstarted(const struct scene *scene)
{
    MPI_Request request;
    if (scene->faulty && scene->rank == 1)
        return 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return 0;
}

// Rank 1 takes itself for the root of a short message: libraries do not notice.
static uint64_t survived_root(const struct scene *scene)
{
    const int root = scene->faulty && scene->rank == 1 ? 1 : 0;
    int number = scene->rank == root ? NUMBER : 0;
    MPI_Bcast(&number, 1, MPI_INT, root, MPI_COMM_WORLD); // at fault: survived_root
    MPI_Barrier(MPI_COMM_WORLD);
    return number != NUMBER;
}

// Rank 1 reduces in place, the others do not: libraries do not notice. What rank 1 should have given is not where it is taken
// from.
static uint64_t in_place_on_one(const struct scene *scene)
{
    const bool in_place = scene->faulty && scene->rank == 1;
    int sum = 0;
    const void *given = in_place ? MPI_IN_PLACE : (const void *)&scene->rank;
    MPI_Allreduce(given, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD); // at fault: in_place_on_one
    MPI_Barrier(MPI_COMM_WORLD);
    return sum != scene->ranks * (scene->ranks - 1) / 2;
}

// Rank 1 waits in the call, the others with a request.
static uint64_t barrier_or_ibarrier(const struct scene *scene)
{
    MPI_Request request;
    if (scene->faulty && scene->rank == 1) {
        MPI_Barrier(MPI_COMM_WORLD); // at fault: barrier_or_ibarrier
        return 0;
    }
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return 0;
}

// All but rank 1 share a communicator; rank 0 meets those in it, and the others meet all first.
static uint64_t overlapping_communicators(const struct scene *scene)
{
    MPI_Comm some;
    MPI_Comm_split(MPI_COMM_WORLD, scene->rank == 1 ? MPI_UNDEFINED : 0, scene->rank, &some);
    if (scene->faulty && scene->rank == 0)
        MPI_Barrier(some); // at fault: overlapping_communicators
    MPI_Barrier(MPI_COMM_WORLD);
    if (scene->rank != 1 && !(scene->faulty && scene->rank == 0))
        MPI_Barrier(some);
    if (scene->rank != 1)
        MPI_Comm_free(&some);
    return 0;
}

// All but rank 1 wait for a message, which comes, and for a collective operation, which rank 1 starts only when it has heard
// of another one.
static uint64_t waitall_collective(const struct scene *scene)
{
    MPI_Request requests[2];
    int number = NUMBER, heard = 0, sum = 0;
    const bool late = scene->faulty && scene->rank == 1;
    if (late)
        MPI_Recv(&heard, 1, MPI_INT, 0, OTHER_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE); // at fault: waitall_collective
    MPI_Iallreduce(&number, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
    const int next = (scene->rank + 1) % scene->ranks, previous = (scene->rank + scene->ranks - 1) % scene->ranks;
    MPI_Irecv(&heard, 1, MPI_INT, previous, TAG, MPI_COMM_WORLD, &requests[1]);
    MPI_Send(&number, 1, MPI_INT, next, TAG, MPI_COMM_WORLD);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    return sum != scene->ranks * NUMBER || heard != NUMBER;
}

// Rank 1 makes a communicator of itself and does not free it.
static uint64_t leaked_communicator(const struct scene *scene)
{
    MPI_Comm alone;
    MPI_Comm_split(MPI_COMM_WORLD, scene->rank == 1 ? 0 : MPI_UNDEFINED, 0, &alone); // at fault: leaked_communicator
    if (scene->rank != 1)
        return 0;
    MPI_Barrier(alone);
    if (!scene->faulty)
        MPI_Comm_free(&alone);
    return 0;
}

// Rank 1 describes what it sends and does not free the description.
static uint64_t leaked_datatype(const struct scene *scene)
{
    if (scene->rank > 1)
        return 0;
    int numbers[4] = {1, 0, NUMBER, 0};
    MPI_Datatype every_second = MPI_DATATYPE_NULL;
    if (scene->rank == 0) {
        MPI_Recv(numbers, 2, MPI_INT, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return numbers[1] != NUMBER;
    }
    MPI_Type_vector(2, 1, 2, MPI_INT, &every_second); // at fault: leaked_datatype
    MPI_Type_commit(&every_second);
    MPI_Send(numbers, 1, every_second, 0, TAG, MPI_COMM_WORLD);
    if (!scene->faulty)
        MPI_Type_free(&every_second);
    return 0;
}

// Rank 1 asks for the group of all and does not give it back.
static uint64_t leaked_group(const struct scene *scene)
{
    if (scene->rank != 1)
        return 0;
    MPI_Group all;
    int size = 0;
    MPI_Comm_group(MPI_COMM_WORLD, &all); // at fault: leaked_group
    MPI_Group_size(all, &size);
    if (!scene->faulty)
        MPI_Group_free(&all);
    return size != scene->ranks;
}

static void add(void *from, void *into, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        ((int *)into)[i] += ((int *)from)[i];
}

// Rank 1 makes an operation and does not free it.
static uint64_t leaked_operation(const struct scene *scene)
{
    MPI_Op sum;
    int one = 1, total = 0;
    MPI_Op_create(add, 1, &sum); // at fault: leaked_operation
    MPI_Allreduce(&one, &total, 1, MPI_INT, sum, MPI_COMM_WORLD);
    if (!scene->faulty || scene->rank != 1)
        MPI_Op_free(&sum);
    return total != scene->ranks;
}

const struct lapse collective_lapses[] = {
    {.name = "barrier_or_bcast", .least_ranks = 3, .run = barrier_or_bcast},
    {.name = "bcast_other_root", .least_ranks = 3, .run = bcast_other_root},
    {.name = "gather_other_root", .least_ranks = 3, .run = gather_other_root},
    {.name = "other_operation", .least_ranks = 3, .run = other_operation, .ends = true},
    {.name = "other_datatype", .least_ranks = 3, .run = other_datatype, .ends = true},
    {.name = "other_size", .least_ranks = 3, .run = other_size},
    {.name = "two_communicators", .least_ranks = 2, .run = two_communicators},
    {.name = "recv_in_collective", .least_ranks = 3, .run = recv_in_collective},
    {.name = "skips_collective", .least_ranks = 3, .run = skips_collective},
    {.name = "ibarrier_unstarted", .least_ranks = 3, .run = ibarrier_unstarted},
    {.name = "survived_root", .least_ranks = 3, .run = survived_root, .ends = true},
    {.name = "in_place_on_one", .least_ranks = 3, .run = in_place_on_one, .ends = true},
    {.name = "barrier_or_ibarrier", .least_ranks = 3, .run = barrier_or_ibarrier},
    {.name = "overlapping_communicators", .least_ranks = 3, .run = overlapping_communicators},
    {.name = "waitall_collective", .least_ranks = 3, .run = waitall_collective},
    {.name = "leaked_communicator", .least_ranks = 2, .run = leaked_communicator, .ends = true},
    {.name = "leaked_datatype", .least_ranks = 2, .run = leaked_datatype, .ends = true},
    {.name = "leaked_group", .least_ranks = 2, .run = leaked_group, .ends = true},
    {.name = "leaked_operation", .least_ranks = 2, .run = leaked_operation, .ends = true},
    {.name = NULL},
};
