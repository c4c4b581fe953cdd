// Deterministic runs: the requests of the program, and those of MPI for them. Until a receive is decided the program has another
// request for it, which is never started.
#include <stdlib.h>
#include <string.h>

#include "logical_parts.h"

// Never started; used again and again.
static MPI_Request *unused;
static int unused_count, unused_room;

MPI_Request stand_in(void)
{
    MPI_Request made;
    if (unused_count)
        return unused[--unused_count];
    PMPI_Recv_init(NULL, 0, MPI_BYTE, 0, 0, silent_comm(), &made);
    return made;
}

static void give_back(MPI_Request request)
{
    if (unused_count == unused_room) {
        unused_room = unused_room ? 2 * unused_room : FEW;
        unused = realloc(unused, (size_t)unused_room * sizeof *unused);
        if (!unused)
            PMPI_Abort(MPI_COMM_WORLD, MPI_ERR_NO_MEM);
    }
    unused[unused_count++] = request;
}

void logical_end(void)
{
    while (unused_count)
        PMPI_Request_free(&unused[--unused_count]);
}

struct entry *entries;
static int entry_room, next_free;

int new_entry(struct entry entry)
{
    int place = next_free;
    while (place < entry_room && entries[place].state != UNUSED)
        place++;
    if (place == entry_room) {
        int larger = entry_room ? 2 * entry_room : FEW;
        entries = realloc(entries, (size_t)larger * sizeof *entries);
        if (!entries)
            PMPI_Abort(MPI_COMM_WORLD, MPI_ERR_NO_MEM);
        memset(entries + entry_room, 0, (size_t)(larger - entry_room) * sizeof *entries);
        entry_room = larger;
    }
    entries[place] = entry;
    next_free = place + 1;
    return place;
}

void free_entry(int place)
{
    entries[place].state = UNUSED;
    if (place < next_free)
        next_free = place;
}

int post_receive(const struct entry *entry, int source, int tag, MPI_Request *request)
{
#if MPI_VERSION >= 4
    return PMPI_Irecv_c(entry->buf, entry->count, entry->type, source, tag, entry->comm, request);
#else
    return PMPI_Irecv(entry->buf, (int)entry->count, entry->type, source, tag, entry->comm, request);
#endif
}

void keep_type(int place)
{
    PMPI_Type_dup(entries[place].type, &entries[place].type);
}

void forget_entry(int place)
{
    free(entries[place].copy);
    if (entries[place].is_receive)
        dms_forget_receive((unsigned)place);
    free_entry(place);
}

void post_decided(void)
{
    int source, tag, place;
    while ((place = dms_next_decided(&source, &tag)) >= 0) {
        struct entry *entry = &entries[place];
        if (entry->state != OPEN && entry->state != FREED)
            continue;
        int is_freed = entry->state == FREED;
        post_receive(entry, source, tag, &entry->mpi);
        entry->state = GIVEN;
        if (!entry->is_persistent)
            PMPI_Type_free(&entry->type);
        if (is_freed) {
            PMPI_Request_free(&entry->mpi);
            dms_forget_receive((unsigned)place);
            free_entry(place);
        }
    }
}

struct active active_of(MPI_Request *request)
{
    int place = dms_request(bits_of(*request));
    if (place >= 0 && entries[place].has_stand_in)
        return (struct active){place, &entries[place].mpi};
    return (struct active){place, request};
}

void is_over(MPI_Request *request, uint64_t bits, struct active at)
{
    dms_remove_request(bits);
    if (at.place < 0)
        return;
    // Of a persistent one the program keeps its own.
    if (entries[at.place].has_stand_in && !entries[at.place].is_persistent) {
        give_back(*request);
        *request = MPI_REQUEST_NULL;
    }
    forget_entry(at.place);
}

int is_receive(struct active at)
{
    return at.place >= 0 && entries[at.place].is_receive;
}

MPI_Request *send_of(struct active at)
{
    if (at.place >= 0 && entries[at.place].sends_too)
        return &entries[at.place].send;
    return is_receive(at) ? NULL : at.mpi;
}

int logical_request_free(MPI_Request *request)
{
    uint64_t bits = bits_of(*request);
    struct active at = active_of(request);
    int prepared = dms_prepared(bits);
    dms_remove_request(bits);
    if (prepared != NONE) {
        PMPI_Type_free(&entries[prepared].type);
        free_entry(prepared);
        dms_forget(bits);
        dms_remove_persistent(bits);
        return PMPI_Request_free(request);
    }
    if (at.place < 0 || !entries[at.place].has_stand_in)
        return PMPI_Request_free(request);
    give_back(*request);
    *request = MPI_REQUEST_NULL;
    // When MPI has sent it is not known: a copy stays.
    if (entries[at.place].sends_too)
        PMPI_Request_free(&entries[at.place].send);
    entries[at.place].copy = NULL;
    if (entries[at.place].state == OPEN) {
        entries[at.place].state = FREED;
        return MPI_SUCCESS;
    }
    int result = PMPI_Request_free(&entries[at.place].mpi);
    // A receive that MPI has still takes its message.
    if (!entries[at.place].is_receive)
        free_entry(at.place);
    return result;
}
