// Communicators, requests and messages, by their handles: what is known of them, and what stands for them in a rank that runs
// alone. There each is a real object of the MPI library, so that all that is local can be done with it.
#include <stdlib.h>
#include <string.h>

#include "contents.h"

static void *room_for(size_t bytes)
{
    void *memory = calloc(1, bytes);
    if (!memory)
        abort();
    return memory;
}

// ---- Handles -------------------------------------------------------------------------------------------------------

static size_t place_of(const struct map *map, uint64_t key)
{
    size_t place = (key * 0x9e3779b97f4a7c15u >> 20) & (map->room - 1);
    while (map->values[place] && map->keys[place] != key)
        place = (place + 1) & (map->room - 1);
    return place;
}

void *map_get(const struct map *map, uint64_t key)
{
    return map->room ? map->values[place_of(map, key)] : NULL;
}

static void grow(struct map *map)
{
    struct map larger = {0};
    larger.room = map->room ? 2 * map->room : 64;
    larger.keys = room_for(larger.room * sizeof *larger.keys);
    larger.values = room_for(larger.room * sizeof *larger.values);
    for (size_t i = 0; i < map->room; i++)
        if (map->values[i])
            map_set(&larger, map->keys[i], map->values[i]);
    free(map->keys);
    free(map->values);
    *map = larger;
}

void map_set(struct map *map, uint64_t key, void *value)
{
    if (2 * (map->count + 1) > map->room)
        grow(map);
    size_t place = place_of(map, key);
    if (value) {
        map->count += !map->values[place];
        map->keys[place] = key;
        map->values[place] = value;
        return;
    }
    if (!map->values[place])
        return;
    map->values[place] = NULL;
    map->count--;
    // Those behind it are put where they are found.
    for (size_t next = (place + 1) & (map->room - 1); map->values[next]; next = (next + 1) & (map->room - 1)) {
        uint64_t moved_key = map->keys[next];
        void *moved = map->values[next];
        map->values[next] = NULL;
        size_t to = place_of(map, moved_key);
        map->keys[to] = moved_key;
        map->values[to] = moved;
    }
}

// ---- Communicators -------------------------------------------------------------------------------------------------

static struct map comms;
static int64_t comm_count;

const struct comm *comm_of(MPI_Comm comm)
{
    static const struct comm nothing = {-1, 0, 0, 0, 0};
    const struct comm *known = map_get(&comms, BITS(comm));
    return known ? known : &nothing;
}

static void know(MPI_Comm comm, struct comm facts)
{
    struct comm *known = map_get(&comms, BITS(comm));
    if (!known)
        known = room_for(sizeof *known);
    facts.number = comm_count++;
    *known = facts;
    map_set(&comms, BITS(comm), known);
}

void world_is(int treatment, int rank, int size)
{
    (void)treatment;
    know(MPI_COMM_WORLD, (struct comm){0, rank, size, 0, 0});
    know(MPI_COMM_SELF, (struct comm){0, 0, 1, 0, 0});
}

void comm_made(int treatment, MPI_Comm parent, MPI_Comm *made)
{
    int64_t outs[] = {0, 0, 0, 0, 0};
    if (treatment == RECORD && *made != MPI_COMM_NULL) {
        int rank, size, remote = 0, inter = 0;
        PMPI_Comm_rank(*made, &rank);
        PMPI_Comm_size(*made, &size);
        PMPI_Comm_test_inter(*made, &inter);
        if (inter)
            PMPI_Comm_remote_size(*made, &remote);
        int64_t facts[] = {1, rank, size, remote, inter};
        memcpy(outs, facts, sizeof outs);
    }
    dmc_outs(outs, 5);
    if (!outs[0]) {
        *made = MPI_COMM_NULL;
        return;
    }
    // One that only this process is in, with the parent's error handler.
    if (treatment == PLAY && *made == MPI_COMM_NULL)
        PMPI_Comm_split(parent, 0, 0, made);
    know(*made, (struct comm){0, (int)outs[1], (int)outs[2], (int)outs[3], (int)outs[4]});
}

void comm_duplicated(MPI_Comm comm, MPI_Comm duplicate)
{
    know(duplicate, *comm_of(comm));
}

void comm_gone(MPI_Comm comm)
{
    free(map_get(&comms, BITS(comm)));
    map_set(&comms, BITS(comm), NULL);
}

// ---- Requests ------------------------------------------------------------------------------------------------------

static struct map requests;
static int64_t request_count;

struct pool {
    uint64_t *handles;
    size_t count, room;
};

static void put_back(struct pool *pool, uint64_t handle)
{
    if (pool->count == pool->room) {
        pool->room = pool->room ? 2 * pool->room : 64;
        pool->handles = realloc(pool->handles, pool->room * sizeof *pool->handles);
        if (!pool->handles)
            abort();
    }
    pool->handles[pool->count++] = handle;
}

static struct pool free_requests, free_messages;

// A request that does nothing, and never will.
MPI_Request idle_request(void)
{
    MPI_Request request = MPI_REQUEST_NULL;
    if (free_requests.count) {
        memcpy(&request, &free_requests.handles[--free_requests.count], sizeof request);
        return request;
    }
    PMPI_Send_init(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_SELF, &request);
    return request;
}

struct request *request_of(uint64_t bits)
{
    return map_get(&requests, bits);
}

int64_t request_number(MPI_Request request)
{
    const struct request *known = request_of(BITS(request));
    return known ? known->number : -1;
}

static void forget(struct request *request)
{
    for (int i = 0; i < request->data.count; i++)
        dropped_type(segments_of(&request->data)[i].type);
    drop(&request->data);
}

struct request *request_made(int treatment, enum operation operation, struct data *data, MPI_Request *made)
{
    if (treatment == PLAY)
        *made = idle_request();
    struct request *known = map_get(&requests, BITS(*made));
    if (known)
        forget(known);
    else
        known = room_for(sizeof *known);
    *known = (struct request){.number = request_count++, .operation = operation, .is_active = 1, .data = *data};
    for (int i = 0; i < data->count; i++)
        segments_of(&known->data)[i].type = kept_type(segments_of(&known->data)[i].type);
    *data = (struct data){0};
    map_set(&requests, BITS(*made), known);
    return known;
}

void request_gone(int treatment, uint64_t bits, MPI_Request *handle)
{
    struct request *request = map_get(&requests, bits);
    if (request) {
        map_set(&requests, bits, NULL);
        forget(request);
        free(request);
    }
    if (treatment == PLAY) {
        put_back(&free_requests, bits);
        *handle = MPI_REQUEST_NULL;
    }
}

// ---- Messages of matched probes ------------------------------------------------------------------------------------

// A message that is never received.
MPI_Message message_made(void)
{
    static MPI_Comm comm;
    static int has_comm;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Request sent;
    if (free_messages.count) {
        memcpy(&message, &free_messages.handles[--free_messages.count], sizeof message);
        return message;
    }
    if (!has_comm)
        has_comm = PMPI_Comm_split(MPI_COMM_SELF, 0, 0, &comm) == MPI_SUCCESS;
    PMPI_Isend(NULL, 0, MPI_BYTE, 0, 0, comm, &sent);
    PMPI_Mprobe(0, 0, comm, &message, MPI_STATUS_IGNORE);
    PMPI_Request_free(&sent);
    return message;
}

void message_gone(MPI_Message message)
{
    put_back(&free_messages, BITS(message));
}

void objects_end(void)
{
    for (size_t i = 0; i < free_requests.count; i++) {
        MPI_Request request;
        memcpy(&request, &free_requests.handles[i], sizeof request);
        PMPI_Request_free(&request);
    }
    free_requests.count = free_messages.count = 0;
}
