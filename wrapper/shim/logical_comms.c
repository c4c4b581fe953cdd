// Deterministic runs: communicators by numbers that all their ranks know, and collective calls, which all come to before any goes on.
#include <stdlib.h>
#include <string.h>

#include "logical_parts.h"

static struct comm *comms;
static int comm_count, last_comm;

static int *world_ranks(MPI_Group group, int *count)
{
    MPI_Group world;
    PMPI_Group_size(group, count);
    int room = *count > 0 ? *count : 1;
    int *ranks = malloc((size_t)room * sizeof *ranks), *here = malloc((size_t)room * sizeof *here);
    if (!ranks || !here)
        PMPI_Abort(MPI_COMM_WORLD, MPI_ERR_NO_MEM);
    for (int i = 0; i < *count; i++)
        here[i] = i;
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    PMPI_Group_translate_ranks(group, *count, here, world, ranks);
    PMPI_Group_free(&world);
    free(here);
    return ranks;
}

static void add_comm(MPI_Comm handle, int id)
{
    MPI_Group local, remote;
    int is_inter, count, others = 0, *group, *far = NULL;
    PMPI_Comm_test_inter(handle, &is_inter);
    PMPI_Comm_group(handle, &local);
    group = world_ranks(local, &count);
    PMPI_Group_free(&local);
    if (is_inter) {
        PMPI_Comm_remote_group(handle, &remote);
        far = world_ranks(remote, &others);
        PMPI_Group_free(&remote);
    }
    int *all = malloc((size_t)(count + others + 1) * sizeof *all);
    comms = realloc(comms, (size_t)(comm_count + 1) * sizeof *comms);
    if (!all || !comms)
        PMPI_Abort(MPI_COMM_WORLD, MPI_ERR_NO_MEM);
    memcpy(all, group, (size_t)count * sizeof *all);
    if (others)
        memcpy(all + count, far, (size_t)others * sizeof *all);
    if (id > 1)
        dms_add_comm((unsigned)id, is_inter ? others : count, is_inter ? far : group, count + others, all);
    comms[comm_count++] =
        (struct comm){handle, id, is_inter ? others : count, is_inter ? far : group};
    if (is_inter)
        free(group);
    free(all);
}

// NULL: it was made by a call that is not looked at.
const struct comm *comm_of(MPI_Comm handle)
{
    if (!comm_count) {
        add_comm(MPI_COMM_WORLD, 0);
        add_comm(MPI_COMM_SELF, 1);
    }
    if (last_comm < comm_count && comms[last_comm].handle == handle)
        return &comms[last_comm];
    for (int i = comm_count - 1; i >= 0; i--)
        if (comms[i].handle == handle) {
            last_comm = i;
            return &comms[i];
        }
    if (handle != MPI_COMM_NULL)
        dms_uncovered(4);
    return NULL;
}

void meet(MPI_Comm comm)
{
    const struct comm *known = comm_of(comm);
    if (!known || known->id == 1)
        return;
    dms_ask_meeting((unsigned)known->id);
    wait_for_answer();
}

static void meet_ranks(int count, const int *ranks, int tag)
{
    int id = dms_group(count, ranks, tag);
    if (id < 0) {
        dms_uncovered(4);
        return;
    }
    dms_ask_meeting((unsigned)id);
    wait_for_answer();
}

void meet_group(MPI_Group group, int tag)
{
    int count, *ranks = world_ranks(group, &count);
    meet_ranks(count, ranks, tag);
    free(ranks);
}

void meet_both(MPI_Comm local, int local_leader, MPI_Comm peer, int remote_leader, int tag)
{
    int rank, own;
    meet(local);
    PMPI_Comm_rank(local, &rank);
    PMPI_Comm_rank(MPI_COMM_WORLD, &own);
    const struct comm *known = rank == local_leader ? comm_of(peer) : NULL;
    if (known && remote_leader >= 0 && remote_leader < known->size) {
        const int leaders[] = {own, known->group[remote_leader]};
        // No group has such a tag.
        meet_ranks(2, leaders, ~tag);
    }
    meet(local);
}

void name_comm(int result, const MPI_Comm *made)
{
    if (result != MPI_SUCCESS || *made == MPI_COMM_NULL)
        return;
    comm_of(MPI_COMM_WORLD);
    MPI_Comm among = *made;
    int is_inter, rank, id = -1;
    PMPI_Comm_test_inter(*made, &is_inter);
    if (is_inter)
        PMPI_Intercomm_merge(*made, 0, &among);
    PMPI_Comm_rank(among, &rank);
    if (rank == 0)
        id = dms_new_comm();
    PMPI_Bcast(&id, 1, MPI_INT, 0, among);
    if (is_inter)
        PMPI_Comm_free(&among);
    if (id < 0)
        dms_uncovered(4);
    else
        add_comm(*made, id);
}

void forget_comm(MPI_Comm comm)
{
    for (int i = 0; i < comm_count; i++)
        if (comms[i].handle == comm) {
            dms_remove_comm((unsigned)comms[i].id);
            free(comms[i].group);
            comms[i] = comms[--comm_count];
            return;
        }
}

int logical_ranks_here(void)
{
    MPI_Comm node;
    int size = 0;
    if (PMPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node) != MPI_SUCCESS)
        return 0;
    PMPI_Comm_size(node, &size);
    PMPI_Comm_free(&node);
    return size;
}
