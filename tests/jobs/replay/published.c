// The four benchmarks of M. Elwakil, Z. Yang, "Deterministic replay for message-passing based concurrent programs", 2011, as MPI
// programs: all receives are from anybody, as those of endpoints are.
//
//   published PROGRAM --log DIR [--rounds N] [--messages K] [--delay-us D] [--quiet]
//
// tree      each two ranks send K messages to the same parent, from the leaves to the root (3 to 21 ranks there)
// graph     each rank sends K messages to each other one (2 to 11 ranks there, K = 10; with 10 ranks and K from 1 to 10 it is "ten nodes")
// bully     the rank with the highest number is dead; each one that hears of it asks those above, and the highest that lives
//           becomes the leader (3 to 12 ranks there)
//
// Messages have 50 bytes, those of bully 4. `--quiet`: nothing is logged but the last number, for measurements.
#include <stdlib.h>
#include <string.h>

#include "logged.h"

static int rounds = 1, messages = 10, is_quiet;

static void got(int from, int value, int round)
{
    if (is_quiet)
        result = (result ^ (uint32_t)(from * 1000003 + value)) * 0x100000001b3ULL;
    else
        note("got", from, value, round, 0);
}

struct content {
    int value;
    char rest[46];
};

_Static_assert(sizeof(struct content) == 52, "50 bytes, and two that no one reads");

enum { BYTES = 50, TAG = 1 };

static void send_to(int to, int value)
{
    struct content content = {value, {0}};
    pause_a_little();
    MPI_Send(&content, BYTES, MPI_BYTE, to, TAG, MPI_COMM_WORLD);
}

static int receive(int round)
{
    struct content content;
    MPI_Status status;
    MPI_Recv(&content, BYTES, MPI_BYTE, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &status);
    got(status.MPI_SOURCE, content.value, round);
    return content.value;
}

static void tree(int round)
{
    int sum = rank + round, children = (2 * rank + 1 < ranks) + (2 * rank + 2 < ranks);
    for (int i = 0; i < children * messages; i++)
        sum = sum * 31 + receive(round);
    for (int i = 0; rank > 0 && i < messages; i++)
        send_to((rank - 1) / 2, sum + i);
}

static void graph(int round)
{
    struct content in[MOST_RANKS];
    MPI_Request requests[MOST_RANKS];
    for (int turn = 0; turn < messages; turn++) {
        for (int i = 0; i < ranks - 1; i++)
            MPI_Irecv(&in[i], BYTES, MPI_BYTE, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &requests[i]);
        for (int i = 1; i < ranks; i++)
            send_to((rank + i) % ranks, turn);
        for (int left = ranks - 1; left > 0; left--) {
            MPI_Status status;
            int index;
            MPI_Waitany(ranks - 1, requests, &index, &status);
            got(status.MPI_SOURCE, in[index].value, round);
        }
    }
}

enum { ELECTION = 1, ALIVE, DEAD, LEADER };

static void tell(int to, int what)
{
    pause_a_little();
    MPI_Send(&what, 1, MPI_INT, to, TAG, MPI_COMM_WORLD);
}

static void ask_those_above(void)
{
    for (int to = rank + 1; to < ranks; to++)
        tell(to, ELECTION);
}

// Rank 0, or another one in turn, begins; all above it hear of it and ask those above themselves. So it is known how many messages
// each gets, but not in which order.
static void bully(int round)
{
    int dead = ranks - 1, first = round % dead, leads = rank == dead - 1;
    int asked = rank > first ? rank - first : 0, answers = rank >= first && rank != dead ? ranks - 1 - rank : 0;
    int expected = asked + answers + (rank != dead && !leads), has_asked = rank == first, alive_above = 0, answered = 0;
    if (has_asked)
        ask_those_above();
    for (int i = 0; i < expected; i++) {
        int what;
        MPI_Status status;
        MPI_Recv(&what, 1, MPI_INT, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &status);
        got(status.MPI_SOURCE, what, round);
        if (what == ELECTION) {
            tell(status.MPI_SOURCE, rank == dead ? DEAD : ALIVE);
            if (rank != dead && !has_asked) {
                has_asked = 1;
                ask_those_above();
            }
        } else if (what == ALIVE || what == DEAD) {
            answered++;
            alive_above += what == ALIVE;
        }
        // Whoever leads has asked the dead one only.
        if (answered == answers && answers > 0 && alive_above == 0 && what == DEAD)
            for (int to = 0; to < dead; to++)
                if (to != rank)
                    tell(to, LEADER);
    }
}

static const struct {
    const char *name;
    void (*round)(int round);
} programs[] = {{"tree", tree}, {"graph", graph}, {"bully", bully}};

int main(int argc, char **argv)
{
    const char *folder = ".", *wanted = argc > 1 ? argv[1] : "";
    for (int i = 2; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--log"))
            folder = value;
        else if (!strcmp(argv[i], "--rounds"))
            rounds = atoi(value);
        else if (!strcmp(argv[i], "--messages"))
            messages = atoi(value);
        else if (!strcmp(argv[i], "--delay-us"))
            delay_us = atoi(value);
        else if (!strcmp(argv[i], "--quiet"))
            is_quiet = 1;
    }
    MPI_Init(&argc, &argv);
    open_log(folder);
    const int smallest = !strcmp(wanted, "bully") ? 3 : 2;
    int found = 0;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        if (strcmp(wanted, programs[i].name))
            continue;
        found = ranks >= smallest;
        for (int round = 0; found && round < rounds; round++) {
            programs[i].round(round);
            // Messages of a round must not be taken for those of the next one.
            MPI_Barrier(MPI_COMM_WORLD);
        }
    }
    if (!found) {
        fprintf(stderr, "published: no program %s, or too few ranks for it\n", wanted);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    note("end", (int)(result >> 32), (int)result, 0, 0);
    close_log();
    MPI_Finalize();
    return 0;
}
