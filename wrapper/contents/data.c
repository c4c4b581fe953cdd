// Data of messages, as the bytes that are sent: of derived datatypes, packed.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "contents.h"

// Bytes that are packed at once.
enum { BLOCK_BYTES = 1 << 20, CACHED = 64 };

struct type_facts {
    MPI_Count size, lower, extent;
    // Its bytes lie side by side, as they are sent.
    int is_plain;
};

static int is_named(MPI_Datatype type)
{
    int integers, addresses, types, combiner = MPI_COMBINER_NAMED;
    return PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner) == MPI_SUCCESS &&
           combiner == MPI_COMBINER_NAMED;
}

static struct type_facts facts_of(MPI_Datatype type)
{
    // Predefined types are never gone: what is known of them stays true.
    static __thread struct {
        uint64_t bits;
        struct type_facts facts;
    } cache[CACHED] PRELOADED;
    const uint64_t bits = BITS(type);
    const size_t place = (bits * 0x9e3779b97f4a7c15u) >> 58;
    if (cache[place].bits == bits && bits)
        return cache[place].facts;
    struct type_facts facts = {0, 0, 0, 0};
    if (type == MPI_DATATYPE_NULL)
        return facts;
    PMPI_Type_size_x(type, &facts.size);
    PMPI_Type_get_extent_x(type, &facts.lower, &facts.extent);
    if (is_named(type)) {
        facts.is_plain = facts.lower == 0 && facts.extent == facts.size;
        cache[place].bits = bits;
        cache[place].facts = facts;
    }
    return facts;
}

MPI_Datatype kept_type(MPI_Datatype type)
{
    MPI_Datatype kept = type;
    // The program may free its own while the request is active.
    if (type != MPI_DATATYPE_NULL && !is_named(type))
        PMPI_Type_dup(type, &kept);
    return kept;
}

void dropped_type(MPI_Datatype type)
{
    if (type != MPI_DATATYPE_NULL && !is_named(type))
        PMPI_Type_free(&type);
}

char *displaced(const void *buf, MPI_Count elements, MPI_Datatype type)
{
    return (char *)buf + elements * facts_of(type).extent;
}

void add(struct data *data, const void *buf, MPI_Count count, MPI_Datatype type)
{
    struct segment segment = {(char *)buf, count, type};
    if (data->count == 0 && !data->more) {
        data->first = segment;
        data->count = 1;
        return;
    }
    if (data->count >= data->room) {
        int room = data->room ? 2 * data->room : 16;
        struct segment *more = realloc(data->more, (size_t)room * sizeof *more);
        if (!more)
            abort();
        if (!data->more)
            more[0] = data->first;
        data->more = more;
        data->room = room;
    }
    data->more[data->count++] = segment;
}

void drop(struct data *data)
{
    free(data->more);
    *data = (struct data){0};
}

struct scratch {
    MPI_Count room;
    char bytes[];
};

static pthread_key_t scratch_key;

static void make_key(void)
{
    if (pthread_key_create(&scratch_key, free) != 0)
        abort();
}

// Of each thread, until it ends.
static char *scratch(MPI_Count bytes)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_key);
    struct scratch *memory = pthread_getspecific(scratch_key);
    if (!memory || bytes > memory->room) {
        memory = realloc(memory, sizeof *memory + (size_t)bytes);
        if (!memory || pthread_setspecific(scratch_key, memory) != 0)
            abort();
        memory->room = bytes;
    }
    return memory->bytes;
}

static MPI_Count least(MPI_Count a, MPI_Count b)
{
    return a < b ? a : b;
}

// Items that are packed at once.
static MPI_Count block_of(const struct type_facts *facts)
{
    return facts->size >= BLOCK_BYTES ? 1 : BLOCK_BYTES / facts->size;
}

static const char *pack(const struct segment *from, MPI_Count item, MPI_Count items, const struct type_facts *facts)
{
    int room = 0, position = 0;
    PMPI_Pack_size((int)items, from->type, MPI_COMM_SELF, &room);
    char *packed = scratch(room);
    PMPI_Pack(from->buf + item * facts->extent, (int)items, from->type, packed, room, &position, MPI_COMM_SELF);
    return packed;
}

static uint32_t sum_of_segment(const struct segment *from, uint32_t sum)
{
    const struct type_facts facts = facts_of(from->type);
    if (facts.size == 0 || from->count <= 0)
        return sum;
    if (facts.is_plain)
        return dmc_sum(from->buf, (uint64_t)(from->count * facts.size), sum);
    for (MPI_Count item = 0; item < from->count; item += block_of(&facts)) {
        MPI_Count items = least(block_of(&facts), from->count - item);
        sum = dmc_sum(pack(from, item, items, &facts), (uint64_t)(items * facts.size), sum);
    }
    return sum;
}

uint32_t sum_of(struct data *data)
{
    uint32_t sum = 0;
    for (int i = 0; i < data->count; i++)
        sum = sum_of_segment(&segments_of(data)[i], sum);
    return sum;
}

uint32_t sum_of_buffer(const void *buf, MPI_Count count, MPI_Datatype type)
{
    struct data data = {0};
    add(&data, buf, count, type);
    return sum_of(&data);
}

// The first bytes of a segment go to the record.
static void record_bytes(const struct segment *from, MPI_Count bytes)
{
    const struct type_facts facts = facts_of(from->type);
    dmc_head((uint64_t)bytes);
    if (bytes == 0)
        return;
    if (facts.is_plain) {
        dmc_more(from->buf, (uint64_t)bytes);
        return;
    }
    const MPI_Count all = (bytes + facts.size - 1) / facts.size;
    for (MPI_Count item = 0; item < all; item += block_of(&facts)) {
        MPI_Count items = least(block_of(&facts), all - item);
        dmc_more(pack(from, item, items, &facts), (uint64_t)least(items * facts.size, bytes - item * facts.size));
    }
}

static void unpack(const char *packed, struct segment *to, MPI_Count item, MPI_Count items,
                   const struct type_facts *facts)
{
    int position = 0;
    PMPI_Unpack((void *)packed, (int)(items * facts->size), &position, to->buf + item * facts->extent, (int)items,
                to->type, MPI_COMM_SELF);
}

// What the record has next goes into a segment.
static void play_bytes(struct segment *to)
{
    const struct type_facts facts = facts_of(to->type);
    uint64_t length = 0;
    const char *bytes = dmc_take(&length);
    if (length > (uint64_t)(to->count * facts.size))
        dmc_stop(0, "the buffer is smaller than what it got");
    if (length == 0)
        return;
    if (facts.is_plain) {
        memcpy(to->buf, bytes, length);
        return;
    }
    const MPI_Count whole = (MPI_Count)length / facts.size, rest = (MPI_Count)length % facts.size;
    for (MPI_Count item = 0; item < whole; item += block_of(&facts))
        unpack(bytes + item * facts.size, to, item, least(block_of(&facts), whole - item), &facts);
    if (rest) {
        // A part of an item: the other part stays as it is.
        char *packed = (char *)pack(to, whole, 1, &facts);
        memcpy(packed, bytes + whole * facts.size, (size_t)rest);
        unpack(packed, to, whole, 1, &facts);
    }
}

void put_data(int treatment, struct data *data)
{
    for (int i = 0; i < data->count; i++) {
        struct segment *segment = &segments_of(data)[i];
        if (treatment == PLAY)
            play_bytes(segment);
        else
            record_bytes(segment, segment->count > 0 ? segment->count * facts_of(segment->type).size : 0);
    }
}

void put_received(int treatment, struct segment *to, const MPI_Status *status, int is_there)
{
    if (treatment == PLAY) {
        play_bytes(to);
        return;
    }
    MPI_Count bytes = 0;
    if (is_there)
        PMPI_Get_elements_x(status, MPI_BYTE, &bytes);
    record_bytes(to, bytes > 0 ? least(bytes, to->count * facts_of(to->type).size) : 0);
}
