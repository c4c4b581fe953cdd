// Programs as a parallelizing compiler makes them: in each layer every rank starts all its receives and sends, and
// waits for all of them at once. Who sends what to whom comes from a seed; every rank works the whole pattern out.
//
// With --fault, one receive of one rank names a wrong source. That rank says so in a line {"type":"fault",...}.
#include "choice.h"
#include "job.h"

struct pattern {
    uint64_t seed;
    uint64_t layers;
    uint64_t sends_per_rank; // in each layer
    uint64_t max_bytes;
};

struct message {
    int source, destination;
    int tag; // its number in the layer
    size_t bytes;
    uint64_t content;
};

// One receive that is wrong.
struct mistake {
    int rank;          // negative: there is none
    uint64_t layer;
    int tag;
    int wrong_source;
};

struct buffers {
    unsigned char *memory; // of max_bytes for each message of a layer
    MPI_Request *requests;
};

static struct message message_of(const struct pattern *pattern, int ranks, uint64_t layer, int number)
{
    const uint64_t random = mix(pattern->seed, layer, (uint64_t)number);
    const int source = number % ranks;
    return (struct message){
        .source = source,
        .destination = (source + 1 + (int)(random % (uint64_t)(ranks - 1))) % ranks,
        .tag = number,
        .bytes = 1 + (random >> 32) % pattern->max_bytes,
        .content = mix(random, 0, 70),
    };
}

static int messages_in_layer(const struct pattern *pattern, int ranks)
{
    return (int)pattern->sends_per_rank * ranks;
}

// The first message of the layer, beginning at a random one, whose receiver is `rank`, or anybody if that is negative.
static struct message message_for(const struct pattern *pattern, int ranks, uint64_t layer, int rank)
{
    const int count = messages_in_layer(pattern, ranks);
    const int first = (int)(mix(pattern->seed, layer, 71) % (uint64_t)count);
    for (int i = 0; i < count; i++) {
        const struct message message = message_of(pattern, ranks, layer, (first + i) % count);
        if (rank < 0 || message.destination == rank)
            return message;
    }
    fprintf(stderr, "layers: rank %d receives nothing in this layer\n", rank);
    MPI_Abort(MPI_COMM_WORLD, 2);
    return (struct message){0};
}

static struct mistake make_mistake(const struct pattern *pattern, const struct job *job, uint64_t layer, int rank)
{
    const struct message message = message_for(pattern, job->ranks, layer, rank);
    int wrong_source = (message.source + 1) % job->ranks;
    if (wrong_source == message.destination && job->ranks > 2)
        wrong_source = (wrong_source + 1) % job->ranks;
    if (job->rank == message.destination) {
        printf("{\"type\":\"fault\",\"rank\":%d,\"layer\":%lu,\"tag\":%d,\"right_source\":%d,\"wrong_source\":%d}\n",
               job->rank, (unsigned long)layer, message.tag, message.source, wrong_source);
        fflush(stdout);
    }
    return (struct mistake){message.destination, layer, message.tag, wrong_source};
}

static int source_of(const struct message *message, uint64_t layer, const struct mistake *mistake)
{
    const bool is_wrong =
        message->destination == mistake->rank && layer == mistake->layer && message->tag == mistake->tag;
    return is_wrong ? mistake->wrong_source : message->source;
}

static uint64_t run_layer(const struct pattern *pattern, const struct job *job, uint64_t layer,
                          const struct mistake *mistake, const struct buffers *buffers)
{
    const int count = messages_in_layer(pattern, job->ranks);
    int started = 0;
    uint64_t errors = 0;
    for (int i = 0; i < count; i++) {
        const struct message message = message_of(pattern, job->ranks, layer, i);
        unsigned char *buffer = buffers->memory + (size_t)i * pattern->max_bytes;
        const int bytes = (int)message.bytes, from = source_of(&message, layer, mistake);
        MPI_Request *request = &buffers->requests[started];
        if (message.destination == job->rank) {
            MPI_Irecv(buffer, bytes, MPI_BYTE, from, message.tag, MPI_COMM_WORLD, request);
            started++;
        } else if (message.source == job->rank) {
            pattern_fill(buffer, message.bytes, message.content);
            MPI_Isend(buffer, bytes, MPI_BYTE, message.destination, message.tag, MPI_COMM_WORLD, request);
            started++;
        }
    }
    MPI_Waitall(started, buffers->requests, MPI_STATUSES_IGNORE); // at fault: wrong source
    for (int i = 0; i < count; i++) {
        const struct message message = message_of(pattern, job->ranks, layer, i);
        const unsigned char *buffer = buffers->memory + (size_t)i * pattern->max_bytes;
        if (message.destination == job->rank)
            errors += pattern_errors(buffer, message.bytes, message.content) > 0;
    }
    return errors;
}

int main(int argc, char **argv)
{
    static const char *const faults[] = {"none", "wrong_source"};
    struct pattern pattern = {.seed = 1, .layers = 4, .sends_per_rank = 6, .max_bytes = 2048};
    uint64_t bad_layer = UINT64_MAX, bad_rank = UINT64_MAX, right_first = 1;
    const char *fault = faults[0];
    const struct job_option own[] = {
        {"--fault", OPTION_TEXT, &fault, "wrong_source"},
        {"--bad-layer", OPTION_U64, &bad_layer, "the layer with the fault, from 0; else the last one"},
        {"--bad-rank", OPTION_U64, &bad_rank, "the rank with the fault; else the seed decides"},
        {"--right-first", OPTION_U64, &right_first, "iterations before the fault"},
        {"--seed", OPTION_U64, &pattern.seed, "of the pattern"},
        {"--layers", OPTION_U64, &pattern.layers, "in each iteration"},
        {"--sends", OPTION_U64, &pattern.sends_per_rank, "of each rank in each layer"},
        {"--max-bytes", OPTION_U64, &pattern.max_bytes, "of a message"},
    };
    struct job job = {.iterations = 2};
    job_start(&job, "layers", MPI_THREAD_SINGLE, argc, argv, own, sizeof(own) / sizeof(own[0]));
    const bool faulty = choice_of("--fault", fault, faults, 2) > 0;
    if (job.ranks < 2 || pattern.sends_per_rank == 0 || pattern.layers == 0 || pattern.max_bytes == 0) {
        fprintf(stderr, "layers: needs two ranks, a layer, and messages\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    const size_t messages = (size_t)messages_in_layer(&pattern, job.ranks);
    const struct buffers buffers = {.memory = must_allocate(messages * pattern.max_bytes),
                                    .requests = must_allocate(messages * sizeof(MPI_Request))};
    struct mistake mistake = {.rank = -1};
    uint64_t errors = 0;
    while (job_next_iteration(&job)) {
        if (faulty && job.finished_iterations > right_first)
            mistake = make_mistake(&pattern, &job, bad_layer < pattern.layers ? bad_layer : pattern.layers - 1,
                                   bad_rank < (uint64_t)job.ranks ? (int)bad_rank : -1);
        for (uint64_t layer = 0; layer < pattern.layers; layer++)
            errors += run_layer(&pattern, &job, layer, &mistake, &buffers);
    }
    free(buffers.requests);
    free(buffers.memory);
    job_report(&job, "{\"type\":\"result\",\"rank\":%d,\"layers\":%lu}", job.rank,
               (unsigned long)(job.finished_iterations * pattern.layers));
    return job_finish(&job, errors);
}
