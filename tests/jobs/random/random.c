// A program made from a number: random messages and collectives that cannot deadlock, and a log of what happened.
//
//   random --seed S --programs N --log DIR [--untold 1] [--threads 0 | --numbered 1]
//
// All ranks draw the same plan from the seed: rounds, each of one kind. Every message carries its sender's rank, thread
// and number of the call that sent it, so that whoever receives it knows which send it got. Calls are counted as dmscope
// counts them: those that communicate, polls only when they answer yes. The log of a rank has a line for each message
// received (`R receive send`) and for each one completed (`C message call`), each with the kind of its communicator.
//
// With --threads 0 each rank has one thread, number 0, and with --numbered 1 threads have numbers of their own in place of the kernel's:
// then logs of equal runs are equal.
//
// With --untold 1 a third of the calls ask for no status: then only the data says whose message a receive from anybody got.
//
// Within a round all receives of a rank are of one kind (source and tag given or not), so that any order in which
// messages arrive can be received; tags differ from round to round, and a round whose receives take any tag from anybody
// ends with a barrier.
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "communicators.h"
#include "dice.h"
#include "log.h"

enum { MOST_MESSAGES = 24, MOST_COMMS = 6, TAGS = 3, SMALL = 16, LARGE = 24000 };

int world_rank;
static int world_size;
static int untold;
static int threads = 1, numbered;

// ---- Messages -----------------------------------------------------------------------------------------------------

struct message {
    int from, to;      // numbers in the communicator
    int source, dest;  // as calls name them
    int tag, bytes;
};

// One that this rank sends or receives.
struct op {
    struct id id;
    int sends;
    char *buffer;
    MPI_Request request;
    int persistent;
    int done;
    int kind;  // of the communicator
};

static void received(struct thread *t, struct op *op)
{
    struct id send;
    memcpy(&send, op->buffer, sizeof send);
    log_ids(t, 'R', op->id, send, op->kind);
}

static void completed(struct thread *t, struct op *op)
{
    op->done = 1;
    log_ids(t, 'C', op->id, this_call(t, 0), op->kind);
    if (!op->sends)
        received(t, op);
}

// Starts the send of a message in one of the ways there are.
static void start_send(struct thread *t, struct dice *dice, MPI_Comm comm, const struct message *m, struct op *op)
{
    op->sends = 1;
    op->kind = kind_of(comm);
    op->buffer = calloc(1, (size_t)m->bytes);
    int n = m->bytes;
    // Written before the call that it names.
    int way = (int)roll(dice, 7);
    int preparing = way >= 4;
    struct id id = {world_rank, t->tid, t->calls + (preparing ? 2 : 1), 0};
    memcpy(op->buffer, &id, sizeof id);
    op->id = id;
    switch (way) {
    case 0: CALL(t, MPI_Isend(op->buffer, n, MPI_CHAR, m->dest, m->tag, comm, &op->request)); break;
    case 1: CALL(t, MPI_Issend(op->buffer, n, MPI_CHAR, m->dest, m->tag, comm, &op->request)); break;
    case 2: CALL(t, MPI_Ibsend(op->buffer, n, MPI_CHAR, m->dest, m->tag, comm, &op->request)); break;
    case 3:
        CALL(t, MPI_Bsend(op->buffer, n, MPI_CHAR, m->dest, m->tag, comm));
        completed(t, op);
        return;
    case 4: CALL(t, MPI_Send_init(op->buffer, n, MPI_CHAR, m->dest, m->tag, comm, &op->request)); break;
    case 5: CALL(t, MPI_Ssend_init(op->buffer, n, MPI_CHAR, m->dest, m->tag, comm, &op->request)); break;
    default: CALL(t, MPI_Bsend_init(op->buffer, n, MPI_CHAR, m->dest, m->tag, comm, &op->request)); break;
    }
    if (preparing) {
        op->persistent = 1;
        CALL(t, MPI_Start(&op->request));
    }
}

// Posts a receive that does not wait.
static void start_receive(struct thread *t, struct dice *dice, MPI_Comm comm, int source, int tag, struct op *op)
{
    op->kind = kind_of(comm);
    op->buffer = calloc(1, LARGE);
    if (roll(dice, 3) == 0) {
        CALL(t, MPI_Recv_init(op->buffer, LARGE, MPI_CHAR, source, tag, comm, &op->request));
        op->persistent = 1;
        CALL(t, MPI_Startall(1, &op->request));
    } else {
        CALL(t, MPI_Irecv(op->buffer, LARGE, MPI_CHAR, source, tag, comm, &op->request));
    }
    op->id = this_call(t, 0);
}

// Receives one message, waiting for it.
static void receive_now(struct thread *t, struct dice *dice, MPI_Comm comm, int source, int tag, struct op *op)
{
    op->kind = kind_of(comm);
    op->buffer = calloc(1, LARGE);
    MPI_Status status;
    MPI_Message message;
    int flag = 0;
    int no_status = roll(dice, 3) == 0 && (untold || source != MPI_ANY_SOURCE);
    switch (roll(dice, 6)) {
    case 0:
        CALL(t, MPI_Probe(source, tag, comm, &status));
        CALL(t, MPI_Recv(op->buffer, LARGE, MPI_CHAR, status.MPI_SOURCE, status.MPI_TAG, comm, MPI_STATUS_IGNORE));
        break;
    case 1:
        POLL(t, MPI_Iprobe(source, tag, comm, &flag, &status), flag);
        CALL(t, MPI_Recv(op->buffer, LARGE, MPI_CHAR, status.MPI_SOURCE, status.MPI_TAG, comm, &status));
        break;
    case 2:
        CALL(t, MPI_Mprobe(source, tag, comm, &message, &status));
        CALL(t, MPI_Mrecv(op->buffer, LARGE, MPI_CHAR, &message, &status));
        break;
    case 3:
        POLL(t, MPI_Improbe(source, tag, comm, &flag, &message, &status), flag);
        CALL(t, MPI_Imrecv(op->buffer, LARGE, MPI_CHAR, &message, &op->request));
        op->id = this_call(t, 0);
        return;
    default:
        CALL(t, MPI_Recv(op->buffer, LARGE, MPI_CHAR, source, tag, comm, no_status ? MPI_STATUS_IGNORE : &status));
    }
    op->id = this_call(t, 0);
    completed(t, op);
}

// ---- Completion ---------------------------------------------------------------------------------------------------

static int gather_open(struct op *ops, int count, int *which, MPI_Request *requests)
{
    int open = 0;
    for (int i = 0; i < count; i++)
        if (!ops[i].done) {
            which[open] = i;
            requests[open++] = ops[i].request;
        }
    return open;
}

static void give_back(struct op *ops, const int *which, const MPI_Request *requests, int open)
{
    for (int i = 0; i < open; i++)
        ops[which[i]].request = requests[i];
}

// Completes requests, in one of the ways there are, until none is open.
static void complete_all(struct thread *t, struct dice *dice, struct op *ops, int count)
{
    int which[4 * MOST_MESSAGES], indices[4 * MOST_MESSAGES];
    MPI_Request requests[4 * MOST_MESSAGES];
    MPI_Status statuses[4 * MOST_MESSAGES];
    int open;

    while ((open = gather_open(ops, count, which, requests)) > 0) {
        int index = 0, flag = 0, out = 0, no_status = untold && roll(dice, 3) == 0;
        MPI_Status *all = no_status ? MPI_STATUSES_IGNORE : statuses, *one = no_status ? MPI_STATUS_IGNORE : statuses;
        switch (roll(dice, 8)) {
        case 0:
            CALL(t, MPI_Waitall(open, requests, all));
            give_back(ops, which, requests, open);
            for (int i = 0; i < open; i++)
                completed(t, &ops[which[i]]);
            break;
        case 1:
            CALL(t, MPI_Waitany(open, requests, &index, one));
            give_back(ops, which, requests, open);
            completed(t, &ops[which[index]]);
            break;
        case 2:
            CALL(t, MPI_Waitsome(open, requests, &out, indices, all));
            give_back(ops, which, requests, open);
            for (int i = 0; i < out; i++)
                completed(t, &ops[which[indices[i]]]);
            break;
        case 3:
            index = (int)roll(dice, (uint32_t)open);
            CALL(t, MPI_Wait(&requests[index], one));
            give_back(ops, which, requests, open);
            completed(t, &ops[which[index]]);
            break;
        case 4:
            index = (int)roll(dice, (uint32_t)open);
            POLL(t, MPI_Test(&requests[index], &flag, one), flag);
            give_back(ops, which, requests, open);
            completed(t, &ops[which[index]]);
            break;
        case 5:
            POLL(t, MPI_Testall(open, requests, &flag, all), flag);
            give_back(ops, which, requests, open);
            for (int i = 0; i < open; i++)
                completed(t, &ops[which[i]]);
            break;
        case 6:
            POLL(t, MPI_Testany(open, requests, &index, &flag, one), flag);
            give_back(ops, which, requests, open);
            completed(t, &ops[which[index]]);
            break;
        default:
            POLL(t, MPI_Testsome(open, requests, &out, indices, all), out > 0);
            give_back(ops, which, requests, open);
            for (int i = 0; i < out; i++)
                completed(t, &ops[which[indices[i]]]);
        }
    }
    for (int i = 0; i < count; i++) {
        if (ops[i].persistent)
            CALL(t, MPI_Request_free(&ops[i].request));
        free(ops[i].buffer);
    }
}

// ---- Rounds -------------------------------------------------------------------------------------------------------

// The number of a rank that another one can send to.
static int someone(struct dice *plan, const struct place *place, int from)
{
    if (!place->between) {
        int to = (int)roll(plan, (uint32_t)place->size);
        // What a rank sends to itself does not say where it came from.
        return untold && to == from ? (to + 1) % place->size : to;
    }
    if (from >= place->second)
        return (int)roll(plan, (uint32_t)place->second);
    return place->second + (int)roll(plan, (uint32_t)(place->size - place->second));
}

// Messages between any ranks of a communicator, received in any way.
static void exchange(struct thread *t, uint64_t seed, int round, MPI_Comm comm)
{
    struct place place = place_of(comm);
    int rank = place.number;
    struct dice plan = dice_of(seed, (uint64_t)round, 1000);
    struct message messages[MOST_MESSAGES];
    int count = 1 + (int)roll(&plan, MOST_MESSAGES);
    for (int i = 0; i < count; i++) {
        static const int sizes[] = {SMALL, 200, 3000, LARGE};
        messages[i].from = (int)roll(&plan, (uint32_t)place.size);
        messages[i].to = someone(&plan, &place, messages[i].from);
        messages[i].source = rank_of(&place, messages[i].from);
        messages[i].dest = rank_of(&place, messages[i].to);
        messages[i].tag = round % 1000 * TAGS + (int)roll(&plan, TAGS);
        messages[i].bytes = sizes[roll(&plan, 4)];
    }
    int takes_all = roll(&plan, 4) == 0;
    int any_source = takes_all || roll(&plan, 2), any_tag = takes_all || (!any_source && roll(&plan, 2));

    struct dice own = dice_of(seed, (uint64_t)round, (uint64_t)world_rank);
    struct op ops[4 * MOST_MESSAGES] = {0};
    int used = 0, mine[MOST_MESSAGES], receives = 0;
    for (int i = 0; i < count; i++)
        if (messages[i].to == rank)
            mine[receives++] = i;
    shuffle(&own, mine, receives);
    int posted = (int)roll(&own, (uint32_t)receives + 1);
#define SOURCE(i) (any_source ? MPI_ANY_SOURCE : messages[mine[i]].source)
#define TAG(i) (any_tag ? MPI_ANY_TAG : messages[mine[i]].tag)
    for (int i = 0; i < posted; i++)
        start_receive(t, &own, comm, SOURCE(i), TAG(i), &ops[used++]);
    for (int i = 0; i < count; i++)
        if (messages[i].from == rank)
            start_send(t, &own, comm, &messages[i], &ops[used++]);
    for (int i = posted; i < receives; i++)
        receive_now(t, &own, comm, SOURCE(i), TAG(i), &ops[used++]);
    complete_all(t, &own, ops, used);
    if (takes_all)
        CALL(t, MPI_Barrier(comm));
}

// Everybody sends to one neighbour and receives from the other, in one call.
static void shift(struct thread *t, uint64_t seed, int round, MPI_Comm comm)
{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    struct dice plan = dice_of(seed, (uint64_t)round, 1000);
    int by = (int)roll(&plan, (uint32_t)size), open_ends = (int)roll(&plan, 2), replace = (int)roll(&plan, 2);
    int to = rank + by, from = rank - by;
    to = to < size ? to : open_ends ? MPI_PROC_NULL : to - size;
    from = from >= 0 ? from : open_ends ? MPI_PROC_NULL : from + size;
    int kind = kind_of(comm);
    struct op in = {.buffer = calloc(1, LARGE), .kind = kind}, out = {.buffer = calloc(1, LARGE), .kind = kind, .sends = 1};
    struct id id = {world_rank, t->tid, t->calls + 1, 0};
    MPI_Status status;
    memcpy(out.buffer, &id, sizeof id);
    int tag = round % 1000 * TAGS;
    if (replace) {
        memcpy(in.buffer, &id, sizeof id);
        CALL(t, MPI_Sendrecv_replace(in.buffer, SMALL, MPI_CHAR, to, tag, from, tag, comm, &status));
    } else {
        CALL(t, MPI_Sendrecv(out.buffer, SMALL, MPI_CHAR, to, tag, in.buffer, LARGE, MPI_CHAR, from, tag, comm, &status));
    }
    out.id = this_call(t, 0);
    in.id = this_call(t, 1);
    if (to != MPI_PROC_NULL)
        completed(t, &out);
    if (from != MPI_PROC_NULL)
        completed(t, &in);
    free(in.buffer);
    free(out.buffer);
}

// Pairs of ranks: one sends and waits, the other receives.
static void pairs(struct thread *t, uint64_t seed, int round, MPI_Comm comm)
{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    struct dice plan = dice_of(seed, (uint64_t)round, 1000);
    int way = (int)roll(&plan, 3), peer = rank ^ 1, tag = round % 1000 * TAGS;
    struct op op = {.buffer = calloc(1, LARGE), .kind = kind_of(comm), .sends = rank % 2 == 0};
    if (peer < size && !op.sends) {
        CALL(t, MPI_Irecv(op.buffer, LARGE, MPI_CHAR, peer, tag, comm, &op.request));
        op.id = this_call(t, 0);
    }
    // A ready send needs a receive that is posted.
    CALL(t, MPI_Barrier(comm));
    if (peer < size && op.sends) {
        struct id id = {world_rank, t->tid, t->calls + 1, 0};
        memcpy(op.buffer, &id, sizeof id);
        if (way == 0)
            CALL(t, MPI_Send(op.buffer, LARGE, MPI_CHAR, peer, tag, comm));
        else if (way == 1)
            CALL(t, MPI_Ssend(op.buffer, SMALL, MPI_CHAR, peer, tag, comm));
        else
            CALL(t, MPI_Rsend(op.buffer, SMALL, MPI_CHAR, peer, tag, comm));
        op.id = this_call(t, 0);
        completed(t, &op);
        free(op.buffer);
    } else if (peer < size) {
        complete_all(t, &plan, &op, 1);
    } else {
        free(op.buffer);
    }
}

// Collective calls, some of them with requests.
static void collect(struct thread *t, uint64_t seed, int round, MPI_Comm comm)
{
    int size, in = world_rank, out = 0;
    MPI_Comm_size(comm, &size);
    struct dice plan = dice_of(seed, (uint64_t)round, 1000);
    int root = (int)roll(&plan, (uint32_t)size), *all = calloc((size_t)size, sizeof *all), *from = calloc((size_t)size, sizeof *from);
    MPI_Request request;
    switch (roll(&plan, 8)) {
    case 0: CALL(t, MPI_Barrier(comm)); break;
    case 1: CALL(t, MPI_Bcast(&in, 1, MPI_INT, root, comm)); break;
    case 2: CALL(t, MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, comm)); break;
    case 3: CALL(t, MPI_Reduce(&in, &out, 1, MPI_INT, MPI_MAX, root, comm)); break;
    case 4: CALL(t, MPI_Gather(&in, 1, MPI_INT, all, 1, MPI_INT, root, comm)); break;
    case 5: CALL(t, MPI_Alltoall(from, 1, MPI_INT, all, 1, MPI_INT, comm)); break;
    case 6:
        CALL(t, MPI_Ibarrier(comm, &request));
        CALL(t, MPI_Wait(&request, MPI_STATUS_IGNORE));
        break;
    default:
        CALL(t, MPI_Iallreduce(&in, &out, 1, MPI_INT, MPI_SUM, comm, &request));
        CALL(t, MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    free(all);
    free(from);
}

// A receive that nobody sends to, taken back.
static void take_back(struct thread *t, MPI_Comm comm)
{
    int buffer;
    MPI_Request request;
    MPI_Status status;
    CALL(t, MPI_Irecv(&buffer, 1, MPI_INT, MPI_ANY_SOURCE, 30000, comm, &request));
    struct op op = {.id = this_call(t, 0), .sends = 1};
    CALL(t, MPI_Cancel(&request));
    CALL(t, MPI_Wait(&request, &status));
    completed(t, &op);
}

struct threaded {
    uint64_t seed;
    int round;
    MPI_Comm comm;
    FILE *log;
};

static void *beside(void *argument)
{
    struct threaded *job = argument;
    struct thread t = {.tid = numbered ? 1 : (int)syscall(SYS_gettid), .log = job->log};
    if (job->comm != MPI_COMM_NULL) {
        exchange(&t, job->seed + 77, job->round, job->comm);
        if (!is_between(job->comm))
            shift(&t, job->seed + 77, job->round + 1, job->comm);
    }
    return NULL;
}

// Two threads, each with a communicator of its own.
static void in_threads(struct thread *t, uint64_t seed, int round, MPI_Comm comm, MPI_Comm other)
{
    pthread_t thread;
    char *lines;
    size_t bytes;
    struct threaded job = {seed, round, other, open_memstream(&lines, &bytes)};
    pthread_create(&thread, NULL, beside, &job);
    exchange(t, seed, round, comm);
    pthread_join(thread, NULL);
    // Behind its own, whichever thread was faster.
    fclose(job.log);
    fwrite(lines, 1, bytes, t->log);
    free(lines);
}

// ---- A program ----------------------------------------------------------------------------------------------------

static void program(struct thread *t, uint64_t seed, int threads)
{
    MPI_Comm comms[MOST_COMMS] = {MPI_COMM_WORLD};
    int count = 1;
    struct dice plan = dice_of(seed, 0, 999);
    int rounds = 4 + (int)roll(&plan, 12);
    for (int round = 1; round <= rounds; round++) {
        int at = (int)roll(&plan, (uint32_t)count), kind = (int)roll(&plan, 14);
        int colors = 1 + (int)roll(&plan, 2), backwards = (int)roll(&plan, 2), other = (int)roll(&plan, 6);
        int tags = 10 * round;
        int makes = kind >= 10 || (kind == 9 && !(threads && count > 1));
        // Ranks that are not in a communicator have no part in what happens there.
        if (comms[at] == MPI_COMM_NULL && kind != 9 && !makes)
            continue;
        if (comms[at] == MPI_COMM_NULL && makes) {
            if (count < MOST_COMMS)
                comms[count++] = MPI_COMM_NULL;
            continue;
        }
        int two_groups = !makes && comms[at] != MPI_COMM_NULL && is_between(comms[at]);
        if (kind < 5 || (kind < 8 && two_groups))
            exchange(t, seed, tags, comms[at]);
        else if (kind == 5)
            shift(t, seed, tags, comms[at]);
        else if (kind == 6)
            pairs(t, seed, tags, comms[at]);
        else if (kind == 7)
            collect(t, seed, tags, comms[at]);
        else if (kind == 8)
            take_back(t, comms[at]);
        else if (kind == 9 && threads && count > 1)
            in_threads(t, seed, tags, comms[0], comms[count - 1]);
        else if (count < MOST_COMMS && other == 0) {
            CALL(t, MPI_Comm_dup(comms[at], &comms[count]));
            count++;
        } else if (count < MOST_COMMS && other == 1) {
            MPI_Request request;
            CALL(t, MPI_Comm_idup(comms[at], &comms[count], &request));
            CALL(t, MPI_Wait(&request, MPI_STATUS_IGNORE));
            count++;
        } else if (count < MOST_COMMS && other == 2 && !is_between(comms[at])) {
            int key = backwards ? -world_rank : world_rank;
            CALL(t, MPI_Comm_split(comms[at], world_rank % colors, key, &comms[count]));
            count++;
        } else if (count < MOST_COMMS) {
            comms[count] = another(t, seed, tags, comms[at]);
            count++;
        }
    }
    CALL(t, MPI_Barrier(MPI_COMM_WORLD));
    while (--count > 0)
        if (comms[count] != MPI_COMM_NULL)
            CALL(t, MPI_Comm_free(&comms[count]));
}

int main(int argc, char **argv)
{
    uint64_t seed = 1;
    int programs = 1, provided;
    const char *folder = ".";
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--seed"))
            seed = strtoull(argv[i + 1], NULL, 10);
        else if (!strcmp(argv[i], "--programs"))
            programs = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--log"))
            folder = argv[i + 1];
        else if (!strcmp(argv[i], "--untold"))
            untold = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--threads"))
            threads = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--numbered"))
            numbered = atoi(argv[i + 1]);
    }
    MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    char path[4096];
    snprintf(path, sizeof path, "%s/rank%d.log", folder, world_rank);
    struct thread t = {.tid = threads && !numbered ? (int)syscall(SYS_gettid) : 0, .log = fopen(path, "w")};
    if (!t.log) {
        perror(path);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    begin_communicators();
    static char room[MOST_MESSAGES * (LARGE + 200) * 4];
    MPI_Buffer_attach(room, sizeof room);
    for (int i = 0; i < programs; i++)
        program(&t, seed + (uint64_t)i, threads && provided == MPI_THREAD_MULTIPLE);
    fclose(t.log);
    MPI_Finalize();
    return 0;
}
