// Communicators, requests and messages, by their handles: what is known of them, and what stands for them in a rank that runs
// alone. There each is a real object of the MPI library, so that all that is local can be done with it.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "contents.h"

// All that threads share here. Where they call one at a time, a lock would only be felt.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void begin_alone(void)
{
    if (are_threads_concurrent())
        pthread_mutex_lock(&lock);
}

static void end_alone(void)
{
    if (are_threads_concurrent())
        pthread_mutex_unlock(&lock);
}

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
    begin_alone();
    void *value = map->room ? map->values[place_of(map, key)] : NULL;
    end_alone();
    return value;
}

static void put(struct map *map, uint64_t key, void *value);

static void grow(struct map *map)
{
    struct map larger = {0};
    larger.room = map->room ? 2 * map->room : 64;
    larger.keys = room_for(larger.room * sizeof *larger.keys);
    larger.values = room_for(larger.room * sizeof *larger.values);
    for (size_t i = 0; i < map->room; i++)
        if (map->values[i])
            put(&larger, map->keys[i], map->values[i]);
    free(map->keys);
    free(map->values);
    *map = larger;
}

void map_set(struct map *map, uint64_t key, void *value)
{
    begin_alone();
    put(map, key, value);
    end_alone();
}

// Unless the key stands for something else by now.
static void remove_if(struct map *map, uint64_t key, const void *value)
{
    begin_alone();
    if (map->room && map->values[place_of(map, key)] == value)
        put(map, key, NULL);
    end_alone();
}

// Of a map that no other thread is at.
static void put(struct map *map, uint64_t key, void *value)
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
    facts.number = next_number(COMMS);
    *known = facts;
    map_set(&comms, BITS(comm), known);
}

void world_is(int treatment, int rank, int size)
{
    (void)treatment;
    know(MPI_COMM_WORLD, (struct comm){0, rank, size, 0, 0});
    know(MPI_COMM_SELF, (struct comm){0, 0, 1, 0, 0});
}

// One thread at a time: Open MPI lets those that make communicators wait for each other.
static int split(MPI_Comm parent, MPI_Comm *made)
{
    static pthread_mutex_t splits = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&splits);
    int result = PMPI_Comm_split(parent, 0, 0, made);
    pthread_mutex_unlock(&splits);
    return result;
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
        split(parent, made);
    know(*made, (struct comm){0, (int)outs[1], (int)outs[2], (int)outs[3], (int)outs[4]});
}

void comm_duplicated(MPI_Comm comm, MPI_Comm duplicate)
{
    know(duplicate, *comm_of(comm));
}

struct comm *comm_gone(MPI_Comm comm)
{
    struct comm *known = map_get(&comms, BITS(comm));
    map_set(&comms, BITS(comm), NULL);
    return known;
}

void comm_kept(MPI_Comm comm, struct comm *known)
{
    if (known)
        map_set(&comms, BITS(comm), known);
}

// ---- Requests ------------------------------------------------------------------------------------------------------

static struct map requests;

struct pool {
    uint64_t *handles;
    size_t count, room;
};

static void put_back(struct pool *pool, uint64_t handle)
{
    begin_alone();
    if (pool->count == pool->room) {
        pool->room = pool->room ? 2 * pool->room : 64;
        pool->handles = realloc(pool->handles, pool->room * sizeof *pool->handles);
        if (!pool->handles)
            abort();
    }
    pool->handles[pool->count++] = handle;
    end_alone();
}

// Whether there was one.
static int take_out(struct pool *pool, void *handle, size_t bytes)
{
    begin_alone();
    const int is_there = pool->count > 0;
    if (is_there)
        memcpy(handle, &pool->handles[--pool->count], bytes);
    end_alone();
    return is_there;
}

static struct pool free_requests, free_messages;

// A request that does nothing, and never will.
MPI_Request idle_request(void)
{
    MPI_Request request = MPI_REQUEST_NULL;
    if (take_out(&free_requests, &request, sizeof request))
        return request;
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
    if (known && !known->is_claimed)
        forget(known);
    else
        known = room_for(sizeof *known);
    *known = (struct request){.number = next_number(REQUESTS), .operation = operation, .is_active = 1, .data = *data};
    for (int i = 0; i < data->count; i++)
        segments_of(&known->data)[i].type = kept_type(segments_of(&known->data)[i].type);
    *data = (struct data){0};
    map_set(&requests, BITS(*made), known);
    return known;
}

void idle_made(int treatment, MPI_Request *made)
{
    if (treatment == PLAY)
        *made = idle_request();
    else if (*made != MPI_REQUEST_NULL)
        // Whatever had its handle is complete, and told by the call that is at it.
        map_set(&requests, BITS(*made), NULL);
}

void request_gone(int treatment, uint64_t bits, struct request *known, MPI_Request *handle)
{
    if (known) {
        remove_if(&requests, bits, known);
        forget(known);
        free(known);
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
    static pthread_mutex_t makes = PTHREAD_MUTEX_INITIALIZER;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Request sent;
    if (take_out(&free_messages, &message, sizeof message))
        return message;
    pthread_mutex_lock(&makes);
    if (!has_comm)
        has_comm = split(MPI_COMM_SELF, &comm) == MPI_SUCCESS;
    PMPI_Isend(NULL, 0, MPI_BYTE, 0, 0, comm, &sent);
    PMPI_Mprobe(0, 0, comm, &message, MPI_STATUS_IGNORE);
    PMPI_Request_free(&sent);
    pthread_mutex_unlock(&makes);
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
