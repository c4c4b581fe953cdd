// What is written down of messages, beside what is in the other parts: communicators.
#include <stdlib.h>

#include "logical.h"

void message_sends(int treatment, MPI_Comm comm, int dest, int tag, int is_synchronous)
{
    if (wants_messages(treatment) && dest >= 0)
        dms_message_send(bits_of_comm(comm), dest, tag, is_synchronous, 0);
}

// Ranks of a group in MPI_COMM_WORLD; NULL if they are not to be had.
static int *ranks_of(MPI_Group group, int *count)
{
    MPI_Group world;
    if (PMPI_Group_size(group, count) != MPI_SUCCESS || *count <= 0 || PMPI_Comm_group(MPI_COMM_WORLD, &world) != MPI_SUCCESS)
        return NULL;
    int *ranks = malloc(2 * (size_t)*count * sizeof *ranks);
    for (int i = 0; ranks && i < *count; i++)
        ranks[*count + i] = i;
    if (ranks && PMPI_Group_translate_ranks(group, *count, ranks + *count, world, ranks) != MPI_SUCCESS) {
        free(ranks);
        ranks = NULL;
    }
    PMPI_Group_free(&world);
    // Processes of another job are none of these.
    for (int i = 0; ranks && i < *count; i++) {
        if (ranks[i] < 0) {
            free(ranks);
            return NULL;
        }
    }
    return ranks;
}

// `like`: another one with the same groups, where those of this one cannot be asked for yet.
static void message_comm_like(int treatment, int result, MPI_Comm comm, MPI_Comm like)
{
    int is_inter = 0, own_count = 0, remote_count = 0;
    int *own = NULL, *remote = NULL;
    MPI_Group group;
    if (!wants_messages(treatment) || result != MPI_SUCCESS || comm == MPI_COMM_NULL)
        return;
    PMPI_Comm_test_inter(like, &is_inter);
    if (PMPI_Comm_group(like, &group) == MPI_SUCCESS) {
        own = ranks_of(group, &own_count);
        PMPI_Group_free(&group);
    }
    if (is_inter && PMPI_Comm_remote_group(like, &group) == MPI_SUCCESS) {
        remote = ranks_of(group, &remote_count);
        PMPI_Group_free(&group);
    }
    if (own && (!is_inter || remote))
        dms_message_comm(bits_of_comm(comm), own_count, own, remote ? remote_count : 0, remote);
    free(own);
    free(remote);
}

void message_comm(int treatment, int result, MPI_Comm comm)
{
    message_comm_like(treatment, result, comm, comm);
}

// Makers of communicators that are not a part of the way that a program goes.
#define MAKES(name, params, args)                                                                                      \
    int MPI_##name params                                                                                              \
    {                                                                                                                  \
        const int is_logical = dms_is_in_logical_run();                                                                \
        if (is_logical)                                                                                                \
            meet(comm);                                                                                                \
        int result = PMPI_##name args;                                                                                 \
        message_comm(RECORD, result, *made);                                                                           \
        if (is_logical)                                                                                                \
            name_comm(result, made);                                                                                   \
        return result;                                                                                                 \
    }

MAKES(Comm_dup_with_info, (MPI_Comm comm, MPI_Info info, MPI_Comm *made), (comm, info, made))
MAKES(Cart_sub, (MPI_Comm comm, const int remain[], MPI_Comm *made), (comm, remain, made))
MAKES(Dist_graph_create,
      (MPI_Comm comm, int n, const int sources[], const int degrees[], const int destinations[], const int weights[],
       MPI_Info info, int reorder, MPI_Comm *made),
      (comm, n, sources, degrees, destinations, weights, info, reorder, made))

int MPI_Comm_idup(MPI_Comm comm, MPI_Comm *made, MPI_Request *request)
{
    int result;
    if (!dms_is_in_logical_run()) {
        result = PMPI_Comm_idup(comm, made, request);
        message_comm_like(RECORD, result, *made, comm);
        return result;
    }
    // Made at once, since all must know its number: a program that must go on before others have come to it waits.
    meet(comm);
    result = PMPI_Comm_dup(comm, made);
    name_comm(result, made);
    return result == MPI_SUCCESS ? PMPI_Ibarrier(MPI_COMM_SELF, request) : result;
}

int MPI_Comm_disconnect(MPI_Comm *comm)
{
    if (dms_is_in_logical_run()) {
        meet(*comm);
        forget_comm(*comm);
    }
    if (dms_messages)
        dms_message_comm_freed(bits_of_comm(*comm));
    return PMPI_Comm_disconnect(comm);
}
