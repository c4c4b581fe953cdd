// Programs whose results depend on the order in which messages arrive: one for each call that is not deterministic.
//
//   anyorder CASE --log DIR [--rounds N] [--delay-us D] [--timed 0]
//
// In each round every rank sends a message to every other one, and receives one from each in the case's way. What a rank
// got (source, tag, content, answers of tests) is logged.
//
// With --timed 0 nothing that clocks show is logged, and `all` leaves out the case `clocks`. With --told 1, `all` leaves out those that
// ask for no status.
//
// The case `crash` is a master that dies of an abort if its first message of a round comes from the last rank, right behind
// one from the last but one; the case `hang` waits for ever for a message in answer to a certain order. `isendrecv` is not in `all`: in its
// status MPICH 4.0 does not say what a record needs.
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>

#include "logged.h"

enum { TAGS = 3 };

struct content {
    int from, round, tag, rest[5];
};

static int rounds = 20, timed = 1, told;

static void got(const struct content *content, const MPI_Status *status)
{
    if (content->from != status->MPI_SOURCE || content->tag != status->MPI_TAG) {
        fprintf(stderr, "rank %d: wrong content\n", rank);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    note("got", status->MPI_SOURCE, status->MPI_TAG, content->round, content->rest[0]);
}

// ---- Sends ---------------------------------------------------------------------------------------------------------

static struct content out[MOST_RANKS];
static MPI_Request sends[MOST_RANKS];

static void send_all(int round, MPI_Comm comm)
{
    int count = 0;
    for (int i = 1; i < ranks; i++) {
        int to = (rank + i) % ranks;
        out[count] = (struct content){rank, round, (round + i) % TAGS, {rank * 1000 + round}};
        pause_a_little();
        MPI_Isend(&out[count], sizeof out[count], MPI_BYTE, to, out[count].tag, comm, &sends[count]);
        count++;
    }
}

static void finish_sends(void)
{
    MPI_Waitall(ranks - 1, sends, MPI_STATUSES_IGNORE);
}

// ---- Ways to receive what all others have sent in a round ------------------------------------------------------------

static struct content in[MOST_RANKS];
static MPI_Request receives[MOST_RANKS];
static MPI_Status statuses[MOST_RANKS];

static void by_source(int round)
{
    (void)round;
    for (int i = 1; i < ranks; i++) {
        MPI_Recv(&in[0], sizeof in[0], MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &statuses[0]);
        got(&in[0], &statuses[0]);
        pause_a_little();
    }
}

// From a known rank, but with any tag.
static void by_tag(int round)
{
    (void)round;
    for (int i = 1; i < ranks; i++) {
        MPI_Recv(&in[0], sizeof in[0], MPI_BYTE, (rank + i) % ranks, MPI_ANY_TAG, MPI_COMM_WORLD, &statuses[0]);
        got(&in[0], &statuses[0]);
    }
}

// The status is not asked for: the content says whose message it was.
static void by_source_untold(int round)
{
    (void)round;
    for (int i = 1; i < ranks; i++) {
        MPI_Recv(&in[0], sizeof in[0], MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        note("got", in[0].from, in[0].tag, in[0].round, 0);
    }
}

static void post_all(MPI_Comm comm)
{
    for (int i = 1; i < ranks; i++)
        MPI_Irecv(&in[i - 1], sizeof in[0], MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &receives[i - 1]);
}

// Completed out of order, one after the other.
static void by_wait(int round)
{
    post_all(MPI_COMM_WORLD);
    for (int i = ranks - 2; i >= 0; i--) {
        int at = (i + round) % (ranks - 1);
        MPI_Wait(&receives[at], &statuses[at]);
        got(&in[at], &statuses[at]);
    }
}

static void by_waitall(int round)
{
    (void)round;
    post_all(MPI_COMM_WORLD);
    MPI_Waitall(ranks - 1, receives, statuses);
    for (int i = 0; i < ranks - 1; i++)
        got(&in[i], &statuses[i]);
}

static void by_waitall_untold(int round)
{
    (void)round;
    post_all(MPI_COMM_WORLD);
    MPI_Waitall(ranks - 1, receives, MPI_STATUSES_IGNORE);
    for (int i = 0; i < ranks - 1; i++)
        note("got", in[i].from, in[i].tag, in[i].round, 0);
}

static void by_waitany(int round)
{
    (void)round;
    post_all(MPI_COMM_WORLD);
    for (;;) {
        int index;
        MPI_Waitany(ranks - 1, receives, &index, &statuses[0]);
        if (index == MPI_UNDEFINED)
            return;
        note("index", index, 0, 0, 0);
        got(&in[index], &statuses[0]);
        pause_a_little();
    }
}

static void by_some(int round, int (*call)(int, MPI_Request *, int *, int *, MPI_Status *))
{
    int indices[MOST_RANKS], count, left = ranks - 1, in_vain = 0;
    (void)round;
    post_all(MPI_COMM_WORLD);
    while (left > 0) {
        call(ranks - 1, receives, &count, indices, statuses);
        in_vain += count == 0;
        if (count > 0)
            note("some", count, in_vain, 0, 0);
        for (int i = 0; i < count; i++)
            got(&in[indices[i]], &statuses[i]);
        left -= count;
        pause_a_little();
    }
}

static void by_waitsome(int round)
{
    by_some(round, MPI_Waitsome);
}

static void by_testsome(int round)
{
    by_some(round, MPI_Testsome);
}

static void by_test(int round)
{
    (void)round;
    post_all(MPI_COMM_WORLD);
    for (int left = ranks - 1, turn = 0; left > 0; turn++) {
        int at = turn % (ranks - 1), flag;
        if (receives[at] == MPI_REQUEST_NULL)
            continue;
        MPI_Test(&receives[at], &flag, &statuses[at]);
        if (flag) {
            note("turn", turn, at, 0, 0);
            got(&in[at], &statuses[at]);
            left--;
        }
        pause_a_little();
    }
}

static void by_testall(int round)
{
    int flag = 0, in_vain = 0;
    (void)round;
    post_all(MPI_COMM_WORLD);
    while (!flag) {
        MPI_Testall(ranks - 1, receives, &flag, statuses);
        in_vain += !flag;
        pause_a_little();
    }
    note("in_vain", in_vain, 0, 0, 0);
    for (int i = 0; i < ranks - 1; i++)
        got(&in[i], &statuses[i]);
}

static void by_testany(int round)
{
    int in_vain = 0;
    (void)round;
    post_all(MPI_COMM_WORLD);
    for (;;) {
        int index, flag;
        MPI_Testany(ranks - 1, receives, &index, &flag, &statuses[0]);
        in_vain += !flag;
        if (flag && index == MPI_UNDEFINED)
            return;
        if (flag) {
            note("index", index, in_vain, 0, 0);
            got(&in[index], &statuses[0]);
        }
        pause_a_little();
    }
}

static void by_get_status(int round)
{
    (void)round;
    post_all(MPI_COMM_WORLD);
    for (int left = ranks - 1, turn = 0; left > 0; turn++) {
        int at = turn % (ranks - 1), flag;
        if (receives[at] == MPI_REQUEST_NULL)
            continue;
        MPI_Request_get_status(receives[at], &flag, &statuses[at]);
        if (flag) {
            note("turn", turn, at, statuses[at].MPI_SOURCE, 0);
            MPI_Wait(&receives[at], &statuses[at]);
            got(&in[at], &statuses[at]);
            left--;
        }
        pause_a_little();
    }
}

static void take_probed(const MPI_Status *status)
{
    MPI_Status own;
    MPI_Recv(&in[0], sizeof in[0], MPI_BYTE, status->MPI_SOURCE, status->MPI_TAG, MPI_COMM_WORLD, &own);
    got(&in[0], &own);
}

static void by_probe(int round)
{
    (void)round;
    for (int i = 1; i < ranks; i++) {
        MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &statuses[0]);
        take_probed(&statuses[0]);
        pause_a_little();
    }
}

static void by_iprobe(int round)
{
    int in_vain = 0;
    for (int i = 1; i < ranks;) {
        int flag, is_any = (i + round) % 2;
        MPI_Iprobe(is_any ? MPI_ANY_SOURCE : (rank + 1) % ranks, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &statuses[0]);
        // The other one may have sent all it has.
        if (!flag && !is_any)
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &statuses[0]);
        in_vain += !flag;
        if (flag) {
            note("in_vain", in_vain, 0, 0, 0);
            take_probed(&statuses[0]);
            i++;
        }
        pause_a_little();
    }
}

static void by_mprobe(int round)
{
    (void)round;
    for (int i = 1; i < ranks; i++) {
        MPI_Message message;
        MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &statuses[0]);
        MPI_Mrecv(&in[0], sizeof in[0], MPI_BYTE, &message, &statuses[1]);
        got(&in[0], &statuses[1]);
        pause_a_little();
    }
}

static void by_improbe(int round)
{
    int in_vain = 0;
    (void)round;
    for (int i = 1; i < ranks;) {
        MPI_Message message;
        int flag;
        MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &message, &statuses[0]);
        in_vain += !flag;
        if (flag) {
            note("in_vain", in_vain, 0, 0, 0);
            MPI_Imrecv(&in[0], sizeof in[0], MPI_BYTE, &message, &receives[0]);
            MPI_Wait(&receives[0], &statuses[1]);
            got(&in[0], &statuses[1]);
            i++;
        }
        pause_a_little();
    }
}

static MPI_Request prepared[MOST_RANKS];

static void by_persistent(int round)
{
    int completed = 0;
    if (round == 0) {
        MPI_Datatype type;
        MPI_Type_contiguous((int)sizeof in[0], MPI_BYTE, &type);
        MPI_Type_commit(&type);
        for (int i = 0; i < ranks - 1; i++)
            MPI_Recv_init(&in[i], 1, type, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &prepared[i]);
        MPI_Type_free(&type);
    }
    if (round % 2)
        MPI_Startall(ranks - 1, prepared);
    else
        for (int i = 0; i < ranks - 1; i++)
            MPI_Start(&prepared[i]);
    while (completed < ranks - 1) {
        int index, flag = 1;
        if (round % 3)
            MPI_Waitany(ranks - 1, prepared, &index, &statuses[0]);
        else
            MPI_Testany(ranks - 1, prepared, &index, &flag, &statuses[0]);
        if (!flag)
            continue;
        note("index", index, 0, 0, 0);
        got(&in[index], &statuses[0]);
        completed++;
        pause_a_little();
    }
    if (round == rounds - 1)
        for (int i = 0; i < ranks - 1; i++)
            MPI_Request_free(&prepared[i]);
}

// One receive too many is posted, and cancelled; in some rounds somebody sends to it. In a communicator of its own: a rank that is a round
// behind receives with any tag.
static void by_cancel(int round)
{
    static MPI_Comm own;
    static struct content more;
    MPI_Request request;
    MPI_Status status;
    int cancelled, wanted = (rank + 1) % ranks, tag = 1000 + round;
    int sends_more = round % 3 == 0;
    if (round == 0)
        MPI_Comm_dup(MPI_COMM_WORLD, &own);
    MPI_Irecv(&more, sizeof more, MPI_BYTE, MPI_ANY_SOURCE, tag, own, &request);
    struct content extra = {rank, round, tag, {0}};
    MPI_Request sending = MPI_REQUEST_NULL;
    if (sends_more) {
        pause_a_little();
        MPI_Isend(&extra, sizeof extra, MPI_BYTE, wanted, tag, own, &sending);
    }
    by_source(round);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &cancelled);
    note("cancelled", cancelled, round, 0, 0);
    if (!cancelled)
        got(&more, &status);
    else if (sends_more) {
        MPI_Recv(&more, sizeof more, MPI_BYTE, MPI_ANY_SOURCE, tag, own, &status);
        got(&more, &status);
    }
    MPI_Wait(&sending, MPI_STATUS_IGNORE);
    if (round == rounds - 1)
        MPI_Comm_free(&own);
}

static void by_sendrecv(int round)
{
    for (int i = 1; i < ranks; i++) {
        struct content own = {rank, round, TAGS, {i}};
        if (i % 2)
            MPI_Sendrecv(&own, sizeof own, MPI_BYTE, (rank + i) % ranks, TAGS, &in[0], sizeof in[0], MPI_BYTE,
                         MPI_ANY_SOURCE, TAGS, MPI_COMM_WORLD, &statuses[0]);
        else {
            in[0] = own;
            MPI_Sendrecv_replace(&in[0], sizeof in[0], MPI_BYTE, (rank + i) % ranks, TAGS, MPI_ANY_SOURCE, TAGS,
                                 MPI_COMM_WORLD, &statuses[0]);
        }
        got(&in[0], &statuses[0]);
    }
    by_source(round);
}

// Those of MPI 4, which not every library has: sent and received by one request, completed out of order.
static void by_isendrecv(int round)
{
#if MPI_VERSION >= 4
    struct content own[MOST_RANKS];
    for (int i = 1; i < ranks; i++) {
        int to = (rank + i) % ranks;
        own[i] = in[i - 1] = (struct content){rank, round, TAGS, {i}};
        if (i % 2)
            MPI_Isendrecv(&own[i], sizeof own[i], MPI_BYTE, to, TAGS, &in[i - 1], sizeof in[0], MPI_BYTE,
                          MPI_ANY_SOURCE, TAGS, MPI_COMM_WORLD, &receives[i - 1]);
        else
            MPI_Isendrecv_replace(&in[i - 1], sizeof in[0], MPI_BYTE, to, TAGS, MPI_ANY_SOURCE, TAGS, MPI_COMM_WORLD,
                                  &receives[i - 1]);
    }
    for (int left = ranks - 1; left; left--) {
        int index, flag = 0;
        while (round % 2 && !flag) {
            MPI_Testany(ranks - 1, receives, &index, &flag, &statuses[0]);
            note("test", flag, index, 0, 0);
        }
        if (!flag)
            MPI_Waitany(ranks - 1, receives, &index, &statuses[0]);
        note("index", index, 0, 0, 0);
        // MPICH 4.0 does not say in the status whose message it was.
        note("got", in[index].from, in[index].tag, in[index].round, in[index].rest[0]);
    }
#endif
    by_source(round);
}

// Two communicators at once, one of them with the ranks backwards.
static void by_communicators(int round)
{
    static MPI_Comm backwards;
    struct content own, theirs[MOST_RANKS];
    MPI_Request requests[2 * MOST_RANKS], sending[MOST_RANKS];
    if (round == 0)
        MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &backwards);
    int there = ranks - 1 - rank;
    own = (struct content){there, round, TAGS + 1, {7}};
    post_all(MPI_COMM_WORLD);
    for (int i = 0; i < ranks - 1; i++) {
        requests[i] = receives[i];
        MPI_Irecv(&theirs[i], sizeof theirs[i], MPI_BYTE, MPI_ANY_SOURCE, TAGS + 1, backwards, &requests[ranks - 1 + i]);
    }
    for (int i = 1; i < ranks; i++) {
        pause_a_little();
        MPI_Isend(&own, sizeof own, MPI_BYTE, (there + i) % ranks, TAGS + 1, backwards, &sending[i - 1]);
    }
    for (int left = 2 * (ranks - 1); left > 0; left--) {
        int index;
        MPI_Waitany(2 * (ranks - 1), requests, &index, &statuses[0]);
        note("index", index, 0, 0, 0);
        got(index < ranks - 1 ? &in[index] : &theirs[index - (ranks - 1)], &statuses[0]);
    }
    MPI_Waitall(ranks - 1, sending, MPI_STATUSES_IGNORE);
    if (round == rounds - 1)
        MPI_Comm_free(&backwards);
}

// Which of a receive and collective operations is complete first.
static void by_collectives(int round)
{
    int sum = 0, own = rank + round, flag, in_vain = 0;
    MPI_Request requests[3];
    MPI_Iallreduce(&own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(&in[0], sizeof in[0], MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[1]);
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[2]);
    for (int left = 3; left > 0;) {
        int index;
        MPI_Testany(3, requests, &index, &flag, &statuses[0]);
        in_vain += !flag;
        if (!flag)
            continue;
        note("index", index, in_vain, index == 0 ? sum : 0, 0);
        if (index == 1)
            got(&in[0], &statuses[0]);
        left--;
    }
    for (int i = 2; i < ranks; i++) {
        MPI_Recv(&in[0], sizeof in[0], MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &statuses[0]);
        got(&in[0], &statuses[0]);
    }
}

// ---- Faults ----------------------------------------------------------------------------------------------------------

// Calls for nothing: no requests, requests that are none, messages with nobody. There may be no arrays then.
static void by_nothing(int round)
{
    enum { NONE = 2 };
    MPI_Request none[NONE] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status status, all[NONE];
    int flags[5] = {0}, indices[NONE] = {0}, index = 0, outcounts[4] = {0};
    MPI_Waitall(0, NULL, NULL);
    MPI_Testall(0, NULL, &flags[0], NULL);
    MPI_Waitany(0, NULL, &index, &status);
    MPI_Testany(0, NULL, &index, &flags[1], &status);
    MPI_Waitsome(0, NULL, &outcounts[0], NULL, NULL);
    MPI_Testsome(0, NULL, &outcounts[1], NULL, NULL);
    MPI_Waitall(NONE, none, all);
    MPI_Testall(NONE, none, &flags[2], all);
    MPI_Waitany(NONE, none, &index, &status);
    MPI_Testany(NONE, none, &index, &flags[3], &status);
    MPI_Waitsome(NONE, none, &outcounts[2], indices, all);
    MPI_Testsome(NONE, none, &outcounts[3], indices, all);
    MPI_Request_get_status(MPI_REQUEST_NULL, &flags[4], MPI_STATUS_IGNORE);
    note("nothing", index == MPI_UNDEFINED, flags[0] + flags[1] + flags[2] + flags[3] + flags[4],
         outcounts[0] == MPI_UNDEFINED && outcounts[1] == MPI_UNDEFINED,
         outcounts[2] == MPI_UNDEFINED && outcounts[3] == MPI_UNDEFINED);
    MPI_Irecv(&in[0], sizeof in[0], MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &none[0]);
    MPI_Isend(&out[0], sizeof out[0], MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &none[1]);
    MPI_Waitall(NONE, none, all);
    MPI_Probe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status);
    note("nobody", all[0].MPI_SOURCE == MPI_PROC_NULL, all[0].MPI_TAG == MPI_ANY_TAG,
         status.MPI_SOURCE == MPI_PROC_NULL, none[0] == MPI_REQUEST_NULL);
    by_source(round);
}

static int crash_after;

// A master that dies in one order of arrival.
// All times of a day and of what a program may run fit into one number.
static int microseconds(long seconds, long rest)
{
    return (int)((seconds % 1000) * 1000000 + rest);
}

// What clocks show decides in which order the messages are received.
static void by_clocks(int round)
{
    (void)round;
    int readings = 0;
    double begin = MPI_Wtime(), end = begin;
    while (end < begin + 2e-5) {
        end = MPI_Wtime();
        readings++;
    }
    struct timespec mono, real;
    struct timeval day;
    struct rusage usage;
    time_t seconds = 0;
    clock_gettime(CLOCK_MONOTONIC, &mono);
    timespec_get(&real, TIME_UTC);
    gettimeofday(&day, NULL);
    getrusage(RUSAGE_SELF, &usage);
    note("wtime", readings, (int)(end - begin), (int)((end - begin) * 1e9), (int)time(&seconds));
    note("clocks", (int)mono.tv_nsec, (int)real.tv_nsec, (int)day.tv_usec, (int)clock());
    note("usage", microseconds(usage.ru_utime.tv_sec, usage.ru_utime.tv_usec),
         microseconds(usage.ru_stime.tv_sec, usage.ru_stime.tv_usec), (int)seconds, 0);
    const int step = (readings + mono.tv_nsec) % 2 ? 1 : ranks - 1;
    for (int i = 1; i < ranks; i++) {
        MPI_Recv(&in[0], sizeof in[0], MPI_BYTE, (rank + i * step) % ranks, MPI_ANY_TAG, MPI_COMM_WORLD, &statuses[0]);
        got(&in[0], &statuses[0]);
    }
}

static void crash(int round)
{
    int last = -1;
    (void)round;
    for (int i = 1; i < ranks; i++) {
        MPI_Recv(&in[0], sizeof in[0], MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &statuses[0]);
        got(&in[0], &statuses[0]);
        int is_bad = rank == 0 && last == 1 && in[0].from == ranks - 1 && in[0].round == round;
        last = in[0].from;
        if (is_bad && ++crash_after == 3) {
            printf("rank 0 dies in round %d\n", round);
            fflush(stdout);
            fflush(log_file);
            // Not by a signal, which leaves files behind.
            _exit(77);
        }
        pause_a_little();
    }
}

// In one order of arrival rank 0 waits for a message that nobody sends.
static void hang(int round)
{
    by_source(round);
    if (rank == 0 && in[0].from == 1 && ++crash_after == 3) {
        printf("rank 0 hangs in round %d\n", round);
        fflush(stdout);
        fflush(log_file);
        MPI_Recv(&in[0], sizeof in[0], MPI_BYTE, 1, 4711, MPI_COMM_WORLD, &statuses[0]);
    }
}

static const struct {
    const char *name;
    void (*receive)(int round);
} cases[] = {
    {"source", by_source},         {"tag", by_tag},
    {"untold", by_source_untold},  {"wait", by_wait},
    {"waitall", by_waitall},       {"waitall-untold", by_waitall_untold},
    {"waitany", by_waitany},       {"waitsome", by_waitsome},
    {"test", by_test},             {"testall", by_testall},
    {"testany", by_testany},       {"testsome", by_testsome},
    {"get-status", by_get_status}, {"probe", by_probe},
    {"iprobe", by_iprobe},         {"mprobe", by_mprobe},
    {"improbe", by_improbe},       {"persistent", by_persistent},
    {"cancel", by_cancel},         {"sendrecv", by_sendrecv},
    {"isendrecv", by_isendrecv},
    {"communicators", by_communicators}, {"collectives", by_collectives},
    {"nothing", by_nothing},       {"clocks", by_clocks},
    {"crash", crash},              {"hang", hang},
};

static void run(void (*receive)(int round))
{
    for (int round = 0; round < rounds; round++) {
        send_all(round, MPI_COMM_WORLD);
        receive(round);
        finish_sends();
    }
    // A case must have taken all its messages before the next one begins.
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    const char *folder = ".", *wanted = argc > 1 ? argv[1] : "";
    for (int i = 2; i + 1 < argc; i++) {
        if (!strcmp(argv[i], "--log"))
            folder = argv[++i];
        else if (!strcmp(argv[i], "--rounds"))
            rounds = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--delay-us"))
            delay_us = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--timed"))
            timed = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--told"))
            told = atoi(argv[++i]);
    }
    struct timespec begin;
    clock_gettime(CLOCK_REALTIME, &begin);
    MPI_Init(&argc, &argv);
    open_log(folder);
    if (delay_us > 0)
        setpriority(PRIO_PROCESS, 0, (int)roll(&chance, 5));
    // It was read before the rank was known.
    if (timed)
        note("begin", (int)(begin.tv_sec % 1000000), (int)begin.tv_nsec, 0, 0);
    int found = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int is_untold = cases[i].receive == by_source_untold || cases[i].receive == by_waitall_untold;
        int is_left_out = cases[i].receive == crash || cases[i].receive == hang || cases[i].receive == by_isendrecv ||
                          (!timed && cases[i].receive == by_clocks) || (told && is_untold);
        if (strcmp(wanted, cases[i].name) && (strcmp(wanted, "all") || is_left_out))
            continue;
        found = 1;
        fprintf(log_file, "case %s\n", cases[i].name);
        run(cases[i].receive);
    }
    if (!found) {
        fprintf(stderr, "anyorder: no case %s\n", wanted);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    close_log();
    MPI_Finalize();
    return 0;
}
