// Lapses with requests.
#include "errors.h"

// Rank 0 receives from ranks 1 and 2.
static void start_receives(int *numbers, MPI_Request *requests)
{
    for (int i = 0; i < 2; i++) {
        numbers[i] = 0;
        MPI_Irecv(&numbers[i], 1, MPI_INT, i + 1, TAG, MPI_COMM_WORLD, &requests[i]);
    }
}

static uint64_t wrong_numbers(const int *numbers)
{
    return (uint64_t)(numbers[0] != NUMBER) + (uint64_t)(numbers[1] != NUMBER);
}

// Rank 2 does not send.
static uint64_t waitall_unmatched(const struct scene *scene)
{
    int numbers[2];
    MPI_Request requests[2];
    if (scene->rank == 1 || (scene->rank == 2 && !scene->faulty))
        send_number(0);
    if (scene->rank > 0)
        return 0;
    start_receives(numbers, requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE); // at fault: waitall_unmatched
    return wrong_numbers(numbers);
}

// Neither rank 1 nor rank 2 sends.
static uint64_t waitany_unmatched(const struct scene *scene)
{
    int numbers[2];
    MPI_Request requests[2];
    if ((scene->rank == 1 || scene->rank == 2) && !scene->faulty)
        send_number(0);
    if (scene->rank > 0)
        return 0;
    start_receives(numbers, requests);
    for (int done = 0; done < 2; done++) {
        int index = 0;
        MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE); // at fault: waitany_unmatched
    }
    return wrong_numbers(numbers);
}

// Rank 1 asks again and again for a message that is not sent.
static uint64_t test_forever(const struct scene *scene)
{
    int number = 0, has_come = 0;
    MPI_Request request;
    if (scene->rank == 0 && !scene->faulty)
        send_number(1);
    if (scene->rank != 1)
        return 0;
    MPI_Irecv(&number, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD, &request);
    while (!has_come)
        MPI_Test(&request, &has_come, MPI_STATUS_IGNORE); // at fault: test_forever
    return number != NUMBER;
}

// Rank 0 forgets to start its persistent send; waiting for a request that is not active returns at once.
static uint64_t persistent_unstarted(const struct scene *scene)
{
    int number = scene->rank == 0 ? NUMBER : 0;
    MPI_Request request;
    if (scene->rank > 1)
        return 0;
    if (scene->rank == 0) {
        MPI_Send_init(&number, 1, MPI_INT, 1, TAG, MPI_COMM_WORLD, &request);
        if (!scene->faulty)
            MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv_init(&number, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD, &request);
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE); // at fault: persistent_unstarted
    }
    MPI_Request_free(&request);
    return number != NUMBER;
}

// Rank 1 sends and never asks whether it is done.
static uint64_t leaked_send(const struct scene *scene)
{
    static const int number = NUMBER;
    MPI_Request request;
    if (scene->rank == 1) {
        MPI_Isend(&number, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD, &request); // at fault: leaked_send
        if (!scene->faulty)
            MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    return scene->rank == 0 ? receive_number(1) : 0;
}

// Rank 1 starts to receive what nobody sends, and does not come back to it.
static uint64_t leaked_receive(const struct scene *scene)
{
    static int number;
    MPI_Request request;
    if (scene->rank == 0 && !scene->faulty)
        send_number(1);
    if (scene->rank != 1)
        return 0;
    MPI_Irecv(&number, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD, &request); // at fault: leaked_receive
    if (scene->faulty)
        return 0;
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return number != NUMBER;
}

const struct lapse request_lapses[] = {
    {.name = "waitall_unmatched", .least_ranks = 3, .run = waitall_unmatched},
    {.name = "waitany_unmatched", .least_ranks = 3, .run = waitany_unmatched},
    {.name = "test_forever", .least_ranks = 2, .run = test_forever},
    {.name = "persistent_unstarted", .least_ranks = 2, .run = persistent_unstarted},
    {.name = "leaked_send", .least_ranks = 2, .run = leaked_send, .ends = true},
    {.name = "leaked_receive", .least_ranks = 2, .run = leaked_receive, .ends = true},
    {.name = NULL},
};
