// Ranks whose threads receive from anybody at the same time: which thread gets which message is decided by chance.
//
//   anythread CASE --log DIR [--rounds N] [--delay-us D] [--threads T] [--c11 1]
//
// In each round every thread sends a message to every other rank, and takes as many as there are other ranks, in the case's way. What
// each thread got (source, tag, content, answers of tests) is logged: in DIR/rankN.threadT, and at the end in DIR/rankN.log, thread by
// thread. With the case `all` the cases follow each other.
//
// The case `serialized` asks for MPI_THREAD_SERIALIZED: threads call one at a time, and chance decides which does. The case `crash` is an
// abort if thread 1 of rank 0 gets its first two messages of a round from the last rank. In the case `locked` threads call one at a time
// too, behind a lock of their own that MPI does not know of: who gets it first is not recorded. In the case `tagged` each thread has a tag of
// its own, so that none competes with another. In the case `told` all threads but the first poll in vain until that tells them by a variable
// that it is done. With --c11 1 threads are those of C11.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <time.h>

#include "logged.h"

enum { MOST_THREADS = 8 };

struct content {
    int from, thread, number, rest[5];
};

static int rounds = 20, threads = 3, are_c11;

// One of the rank's threads.
struct worker {
    int number, sent, finished_rounds;
    struct dice chance;
    FILE *file;
    struct content out[MOST_RANKS];
    MPI_Request sends[MOST_RANKS];
    pthread_t thread;
    thrd_t c11_thread;
    void *(*begin)(void *);
    // A receive that another thread waits for.
    MPI_Request handed;
    MPI_Comm own;
    struct content taken;
};

static struct worker workers[MOST_THREADS];
static pthread_barrier_t barrier;

static void idle(struct worker *worker)
{
    if (delay_us > 0 && roll(&worker->chance, 3) == 0)
        usleep(roll(&worker->chance, (uint32_t)delay_us));
    // How often clocks are read is chance, as where an interpreter waits for its lock.
    struct timespec now;
    for (uint32_t left = roll(&worker->chance, 3); left > 0; left--)
        clock_gettime(left == 1 ? CLOCK_MONOTONIC : CLOCK_REALTIME, &now);
}

static void say(struct worker *worker, const char *what, int a, int b, int c, int d)
{
    fprintf(worker->file, "thread %d %s %d %d %d %d\n", worker->number, what, a, b, c, d);
}

static void got(struct worker *worker, const struct content *content, const MPI_Status *status)
{
    if (content->from != status->MPI_SOURCE) {
        fprintf(stderr, "rank %d: wrong content\n", rank);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    say(worker, "got", status->MPI_SOURCE, status->MPI_TAG, content->thread, content->number);
}

// ---- Sends: each in its turn in another way --------------------------------------------------------------------------

static void send_all(struct worker *worker)
{
    for (int i = 1; i < ranks; i++) {
        const int to = (rank + i) % ranks, tag = worker->sent % 3;
        struct content *out = &worker->out[i];
        MPI_Request *request = &worker->sends[i];
        *out = (struct content){rank, worker->number, worker->sent, {0}};
        *request = MPI_REQUEST_NULL;
        idle(worker);
        // None of them waits until it is received: threads that take messages of later rounds would wait for each other.
        switch (worker->sent++ % 4) {
        case 0: MPI_Isend(out, sizeof *out, MPI_BYTE, to, tag, MPI_COMM_WORLD, request); break;
        case 1: MPI_Send(out, sizeof *out, MPI_BYTE, to, tag, MPI_COMM_WORLD); break;
        case 2: MPI_Bsend(out, sizeof *out, MPI_BYTE, to, tag, MPI_COMM_WORLD); break;
        case 3:
            MPI_Send_init(out, sizeof *out, MPI_BYTE, to, tag, MPI_COMM_WORLD, request);
            MPI_Start(request);
            break;
        }
    }
}

static void finish_sends(struct worker *worker)
{
    for (int i = 1; i < ranks; i++) {
        const int is_persistent = worker->sends[i] != MPI_REQUEST_NULL && worker->out[i].number % 4 == 3;
        MPI_Wait(&worker->sends[i], MPI_STATUS_IGNORE);
        if (is_persistent)
            MPI_Request_free(&worker->sends[i]);
    }
}

// ---- Ways to take as many messages as there are other ranks ---------------------------------------------------------

static void by_recv(struct worker *worker)
{
    for (int i = 1; i < ranks; i++) {
        struct content in;
        MPI_Status status;
        MPI_Recv(&in, sizeof in, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        got(worker, &in, &status);
        idle(worker);
    }
}

// From each rank one: threads compete for the messages of the same rank.
static void by_named_recv(struct worker *worker)
{
    for (int i = 1; i < ranks; i++) {
        struct content in;
        MPI_Status status;
        MPI_Recv(&in, sizeof in, MPI_BYTE, (rank + i) % ranks, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        got(worker, &in, &status);
    }
}

static void post_all(struct content *in, MPI_Request *receives)
{
    for (int i = 1; i < ranks; i++)
        MPI_Irecv(&in[i - 1], sizeof *in, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &receives[i - 1]);
}

static void by_waitall(struct worker *worker)
{
    struct content in[MOST_RANKS];
    MPI_Request receives[MOST_RANKS];
    MPI_Status statuses[MOST_RANKS];
    post_all(in, receives);
    idle(worker);
    MPI_Waitall(ranks - 1, receives, statuses);
    for (int i = 0; i < ranks - 1; i++)
        got(worker, &in[i], &statuses[i]);
}

static void by_waitany(struct worker *worker)
{
    struct content in[MOST_RANKS];
    MPI_Request receives[MOST_RANKS];
    post_all(in, receives);
    for (;;) {
        int index;
        MPI_Status status;
        MPI_Waitany(ranks - 1, receives, &index, &status);
        if (index == MPI_UNDEFINED)
            return;
        say(worker, "index", index, 0, 0, 0);
        got(worker, &in[index], &status);
    }
}

static void by_testsome(struct worker *worker)
{
    struct content in[MOST_RANKS];
    MPI_Request receives[MOST_RANKS];
    MPI_Status statuses[MOST_RANKS];
    int in_vain = 0;
    post_all(in, receives);
    for (int left = ranks - 1; left > 0;) {
        int count, indices[MOST_RANKS];
        MPI_Testsome(ranks - 1, receives, &count, indices, statuses);
        in_vain += count == 0;
        for (int i = 0; i < count; i++) {
            say(worker, "some", indices[i], count, in_vain, 0);
            got(worker, &in[indices[i]], &statuses[i]);
        }
        left -= count;
        sched_yield();
    }
}

static void by_waitsome(struct worker *worker)
{
    struct content in[MOST_RANKS];
    MPI_Request receives[MOST_RANKS];
    MPI_Status statuses[MOST_RANKS];
    post_all(in, receives);
    for (int left = ranks - 1; left > 0;) {
        int count, indices[MOST_RANKS];
        MPI_Waitsome(ranks - 1, receives, &count, indices, statuses);
        for (int i = 0; i < count; i++) {
            say(worker, "some", indices[i], count, 0, 0);
            got(worker, &in[indices[i]], &statuses[i]);
        }
        left -= count;
    }
}

static void by_testany(struct worker *worker)
{
    struct content in[MOST_RANKS];
    MPI_Request receives[MOST_RANKS];
    post_all(in, receives);
    for (int left = ranks - 1, in_vain = 0; left > 0;) {
        int index, flag;
        MPI_Status status;
        MPI_Testany(ranks - 1, receives, &index, &flag, &status);
        in_vain += !flag;
        if (flag) {
            say(worker, "index", index, in_vain, 0, 0);
            got(worker, &in[index], &status);
            left--;
        }
        sched_yield();
    }
}

static void by_testall(struct worker *worker)
{
    struct content in[MOST_RANKS];
    MPI_Request receives[MOST_RANKS];
    MPI_Status statuses[MOST_RANKS];
    int flag = 0, in_vain = 0;
    post_all(in, receives);
    while (!flag) {
        MPI_Testall(ranks - 1, receives, &flag, statuses);
        in_vain += !flag;
        sched_yield();
    }
    say(worker, "polls", in_vain, 0, 0, 0);
    for (int i = 0; i < ranks - 1; i++)
        got(worker, &in[i], &statuses[i]);
}

static void by_test(struct worker *worker)
{
    for (int i = 1; i < ranks; i++) {
        struct content in;
        MPI_Request receive;
        MPI_Status status;
        int flag = 0, in_vain = 0;
        MPI_Irecv(&in, sizeof in, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &receive);
        while (!flag) {
            MPI_Test(&receive, &flag, &status);
            in_vain += !flag;
            sched_yield();
        }
        say(worker, "polls", in_vain, 0, 0, 0);
        got(worker, &in, &status);
    }
}

static void by_persistent(struct worker *worker)
{
    struct content in;
    MPI_Request receive;
    MPI_Recv_init(&in, sizeof in, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &receive);
    for (int i = 1; i < ranks; i++) {
        MPI_Status status;
        MPI_Start(&receive);
        MPI_Wait(&receive, &status);
        got(worker, &in, &status);
    }
    MPI_Request_free(&receive);
}

static void by_mprobe(struct worker *worker)
{
    for (int i = 1; i < ranks; i++) {
        struct content in;
        MPI_Message message;
        MPI_Status status;
        MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
        idle(worker);
        MPI_Mrecv(&in, sizeof in, MPI_BYTE, &message, &status);
        got(worker, &in, &status);
    }
}

static void by_improbe(struct worker *worker)
{
    for (int left = ranks - 1, in_vain = 0; left > 0; in_vain++) {
        struct content in;
        MPI_Message message;
        MPI_Status status;
        int flag;
        MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &message, &status);
        if (flag) {
            say(worker, "polls", in_vain, 0, 0, 0);
            MPI_Mrecv(&in, sizeof in, MPI_BYTE, &message, &status);
            got(worker, &in, &status);
            left--;
        }
        sched_yield();
    }
}

// Who looks what has come may find that another thread takes it.
static void by_probe(struct worker *worker)
{
    for (int i = 1; i < ranks; i++) {
        struct content in;
        MPI_Status status;
        int flag;
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
        say(worker, "probed", flag, flag ? status.MPI_SOURCE : -1, flag ? status.MPI_TAG : -1, 0);
        MPI_Recv(&in, sizeof in, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        got(worker, &in, &status);
    }
}

// Three messages more to the next rank, from anybody's thread: only this case sends with tag 7.
static void by_sendrecv(struct worker *worker)
{
    struct content out = {rank, worker->number, worker->sent, {0}}, in;
    const int next = (rank + 1) % ranks;
    MPI_Status status;
    by_recv(worker);
    pthread_barrier_wait(&barrier);
    MPI_Barrier(worker->number == 0 ? MPI_COMM_WORLD : MPI_COMM_SELF);
    pthread_barrier_wait(&barrier);
    MPI_Sendrecv(&out, sizeof out, MPI_BYTE, next, 7, &in, sizeof in, MPI_BYTE, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &status);
    got(worker, &in, &status);
    MPI_Request receive, send;
    MPI_Irecv(&in, sizeof in, MPI_BYTE, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &receive);
    if (worker->number % 2 == 0) {
        MPI_Ssend(&out, sizeof out, MPI_BYTE, next, 7, MPI_COMM_WORLD);
    } else {
        MPI_Issend(&out, sizeof out, MPI_BYTE, next, 7, MPI_COMM_WORLD, &send);
        MPI_Wait(&send, MPI_STATUS_IGNORE);
    }
    MPI_Wait(&receive, &status);
    got(worker, &in, &status);
    in.from = rank;
    MPI_Sendrecv_replace(&in, sizeof in, MPI_BYTE, next, 7, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &status);
    got(worker, &in, &status);
    pthread_barrier_wait(&barrier);
    MPI_Barrier(worker->number == 0 ? MPI_COMM_WORLD : MPI_COMM_SELF);
    pthread_barrier_wait(&barrier);
}

// Another thread waits for what this one has posted.
static void by_hand(struct worker *worker)
{
    for (int i = 1; i < ranks; i++) {
        MPI_Status status;
        struct worker *neighbour = &workers[(worker->number + 1) % threads];
        MPI_Irecv(&worker->taken, sizeof worker->taken, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &worker->handed);
        pthread_barrier_wait(&barrier);
        MPI_Wait(&neighbour->handed, &status);
        got(worker, &neighbour->taken, &status);
        pthread_barrier_wait(&barrier);
    }
}

// The same with a persistent receive, which this one starts.
static void by_started(struct worker *worker)
{
    MPI_Recv_init(&worker->taken, sizeof worker->taken, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &worker->handed);
    for (int i = 1; i < ranks; i++) {
        MPI_Status status;
        struct worker *neighbour = &workers[(worker->number + 1) % threads];
        MPI_Start(&worker->handed);
        pthread_barrier_wait(&barrier);
        MPI_Wait(&neighbour->handed, &status);
        got(worker, &neighbour->taken, &status);
        pthread_barrier_wait(&barrier);
    }
    MPI_Request_free(&worker->handed);
}

// Threads make communicators at the same time, each from one of its own, while others receive. Nothing comes from nobody.
__attribute__((unused)) static void by_dup(struct worker *worker)
{
    MPI_Comm made;
    MPI_Status status;
    MPI_Comm_dup(worker->own, &made);
    MPI_Recv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, made, &status);
    by_recv(worker);
    MPI_Comm_free(&made);
}

// ---- Threads --------------------------------------------------------------------------------------------------------

typedef void way(struct worker *);

static const struct {
    const char *name;
    way *receive;
} cases[] = {
    {"recv", by_recv},         {"named", by_named_recv},       {"waitall", by_waitall},   {"waitany", by_waitany},
    {"testsome", by_testsome}, {"test", by_test},              {"persistent", by_persistent}, {"mprobe", by_mprobe},
    {"improbe", by_improbe},   {"probe", by_probe},            {"sendrecv", by_sendrecv}, {"hand", by_hand},
    {"started", by_started},   {"testany", by_testany},        {"testall", by_testall},   {"waitsome", by_waitsome},
#ifndef OPEN_MPI
    // Open MPI 4.1 hangs in it now and then, with nothing around it: in 2 of 30 runs.
    {"dup", by_dup},
#endif
};
enum { CASES = sizeof cases / sizeof *cases };

static const char *wanted;

static void die_of_luck(struct worker *worker, way *receive)
{
    if (strcmp(wanted, "crash") != 0 || rank != 0 || worker->number != 1)
        return receive(worker);
    int sources[MOST_RANKS] = {-1, -1};
    for (int i = 0; i < ranks - 1; i++) {
        struct content in;
        MPI_Status status;
        MPI_Recv(&in, sizeof in, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        got(worker, &in, &status);
        sources[i] = status.MPI_SOURCE;
    }
    if (sources[0] == ranks - 1 && sources[1] == ranks - 1) {
        printf("rank 0 dies in round %d of thread 1\n", worker->finished_rounds);
        fflush(stdout);
        fflush(worker->file);
        abort();
    }
}

// One at a time, and only by a lock of the program.
static void *work_locked(void *given)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct worker *worker = given;
    for (int round = 0; round < rounds; round++) {
        usleep(roll(&worker->chance, 1000));
        pthread_mutex_lock(&lock);
        send_all(worker);
        by_recv(worker);
        finish_sends(worker);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

// Each for itself: from anybody, but with the thread's tag. What is started again is too.
static void *work_tagged(void *given)
{
    struct worker *worker = given;
    const int tag = worker->number;
    MPI_Request sends[MOST_RANKS], receive;
    MPI_Recv_init(&worker->taken, sizeof worker->taken, MPI_BYTE, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &receive);
    for (int to = 0; to < ranks; to++)
        MPI_Send_init(&worker->out[to], sizeof worker->out[to], MPI_BYTE, to, tag, MPI_COMM_WORLD, &sends[to]);
    for (int round = 0; round < rounds; round++) {
        for (int i = 1; i < ranks; i++) {
            const int to = (rank + i) % ranks;
            worker->out[to] = (struct content){rank, tag, round, {0}};
            idle(worker);
            if (round % 2)
                MPI_Send(&worker->out[to], sizeof worker->out[to], MPI_BYTE, to, tag, MPI_COMM_WORLD);
            else
                MPI_Start(&sends[to]);
        }
        for (int i = 1; i < ranks; i++) {
            MPI_Status status;
            if (i % 2) {
                MPI_Start(&receive);
                MPI_Wait(&receive, &status);
            } else {
                MPI_Recv(&worker->taken, sizeof worker->taken, MPI_BYTE, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &status);
            }
            got(worker, &worker->taken, &status);
        }
        MPI_Waitall(ranks, sends, MPI_STATUSES_IGNORE);
    }
    for (int to = 0; to < ranks; to++)
        MPI_Request_free(&sends[to]);
    MPI_Request_free(&receive);
    return NULL;
}

// How often the others poll is chance, and so is which polls come after the last message.
static void *work_told(void *given)
{
    static atomic_int is_over;
    struct worker *worker = given;
    if (worker->number == 0) {
        for (int round = 0; round < rounds; round++) {
            send_all(worker);
            by_recv(worker);
            finish_sends(worker);
        }
        atomic_store(&is_over, 1);
        return NULL;
    }
    while (!atomic_load(&is_over)) {
        int flag;
        MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        idle(worker);
    }
    // Of some the polls are the last calls.
    if (worker->number == 2)
        return NULL;
    const struct content out = {rank, worker->number, 0, {0}};
    MPI_Status status;
    MPI_Sendrecv(&out, sizeof out, MPI_BYTE, (rank + 1) % ranks, 7, &worker->taken, sizeof worker->taken, MPI_BYTE,
                 MPI_ANY_SOURCE, 7, worker->own, &status);
    got(worker, &worker->taken, &status);
    return NULL;
}

static void *work(void *given)
{
    struct worker *worker = given;
    for (int i = 0; i < CASES; i++) {
        if (strcmp(wanted, "all") != 0 && strcmp(wanted, cases[i].name) != 0 && (strcmp(wanted, "crash") != 0 || i > 0))
            continue;
        for (int round = 0; round < rounds; round++) {
            send_all(worker);
            die_of_luck(worker, cases[i].receive);
            finish_sends(worker);
            worker->finished_rounds++;
        }
        // What one case leaves must not be taken by the next one.
        pthread_barrier_wait(&barrier);
        if (worker->number == 0)
            MPI_Barrier(MPI_COMM_WORLD);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

// One at a time, whoever comes first.
static void *work_alone(void *given)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int done;
    struct worker *worker = given;
    for (;;) {
        idle(worker);
        pthread_mutex_lock(&lock);
        const int is_over = done == rounds * threads;
        done += !is_over;
        if (!is_over) {
            // All that is logged is the rank's: which thread does it is not the same in any two runs.
            send_all(&workers[0]);
            by_waitany(&workers[0]);
            finish_sends(&workers[0]);
        }
        pthread_mutex_unlock(&lock);
        if (is_over)
            return NULL;
        sched_yield();
    }
}

static FILE *open_file(const char *folder, int thread)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/rank%d.thread%d", folder, rank, thread);
    FILE *file = fopen(path, "w+");
    if (!file) {
        perror(path);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return file;
}

static int begin_c11(void *given)
{
    struct worker *worker = given;
    worker->begin(worker);
    return 0;
}

static void begin_worker(struct worker *worker, void *(*begin)(void *))
{
    worker->begin = begin;
    if (are_c11)
        thrd_create(&worker->c11_thread, begin_c11, worker);
    else
        pthread_create(&worker->thread, NULL, begin, worker);
}

static void join_worker(struct worker *worker)
{
    if (are_c11)
        thrd_join(worker->c11_thread, NULL);
    else
        pthread_join(worker->thread, NULL);
}

int main(int argc, char **argv)
{
    const char *folder = ".";
    wanted = argc > 1 ? argv[1] : "all";
    for (int i = 2; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--log"))
            folder = argv[i + 1];
        else if (!strcmp(argv[i], "--rounds"))
            rounds = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--delay-us"))
            delay_us = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--threads"))
            threads = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--c11"))
            are_c11 = atoi(argv[i + 1]);
    }
    const int is_serialized = !strcmp(wanted, "serialized"), level = is_serialized ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE;
    int provided;
    MPI_Init_thread(&argc, &argv, level, &provided);
    open_log(folder);
    if (provided < level || threads < 1 || threads > MOST_THREADS) {
        fprintf(stderr, "level %d, %d threads\n", provided, threads);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    static char buffer[1 << 20];
    MPI_Buffer_attach(buffer, sizeof buffer);
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++) {
        workers[i].number = i;
        workers[i].chance = dice_of(roll(&chance, 1u << 30), (uint64_t)i, (uint64_t)rank);
        workers[i].file = open_file(folder, i);
        MPI_Comm_dup(MPI_COMM_WORLD, &workers[i].own);
    }
    // The first thread works too.
    void *(*begin)(void *) = is_serialized              ? work_alone
                             : !strcmp(wanted, "locked") ? work_locked
                             : !strcmp(wanted, "tagged") ? work_tagged
                             : !strcmp(wanted, "told")   ? work_told
                                                         : work;
    for (int i = 1; i < threads; i++)
        begin_worker(&workers[i], begin);
    begin(&workers[0]);
    for (int i = 1; i < threads; i++)
        join_worker(&workers[i]);
    for (int i = 0; i < threads; i++) {
        rewind(workers[i].file);
        for (int byte; (byte = getc(workers[i].file)) != EOF;) {
            putc(byte, log_file);
            result = (result ^ (unsigned char)byte) * 0x100000001b3ULL;
        }
        fclose(workers[i].file);
        MPI_Comm_free(&workers[i].own);
    }
    close_log();
    void *detached;
    int detached_bytes;
    MPI_Buffer_detach(&detached, &detached_bytes);
    MPI_Finalize();
    return 0;
}
