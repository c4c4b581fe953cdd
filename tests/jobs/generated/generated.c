// A program made from an operation and a fault: with --operation NAME and --fault NAME rounds of ordinary communication, in
// each of which the operation is done right, then one in which --bad-rank makes the fault. With --right it is done right
// there as well: the same program without the fault. A rank that is through goes to MPI_Finalize.
#include "generated.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "choice.h"
#include "job.h"

enum { MOST_OPERATIONS = 256 };

static const char *const fault_names[FAULTS] = {
    [NO_FAULT] = "none",
    [OTHER_OPERATION] = "other_operation",
    [OTHER_ORDER] = "other_order",
    [OTHER_COMMUNICATOR] = "other_communicator",
    [OTHER_ROOT] = "other_root",
    [OTHER_TAG] = "other_tag",
    [OTHER_RANK] = "other_rank",
    [MISSING_CALL] = "missing_call",
    [MISSING_START] = "missing_start",
    [MISSING_WAIT] = "missing_wait",
};

static const struct operation *operation_called(const char *name)
{
    static const struct operation *const families[] = {
        blocking_collectives, nonblocking_collectives, persistent_collectives, makers, sends, receives, completions,
        probes, synchronizations};
    const struct operation *all[MOST_OPERATIONS];
    const char *names[MOST_OPERATIONS];
    size_t count = 0;
    for (size_t family = 0; family < sizeof(families) / sizeof(families[0]); family++)
        for (const struct operation *one = families[family]; one->name != NULL && count < MOST_OPERATIONS; one++) {
            names[count] = one->name;
            all[count++] = one;
        }
    return all[choice_of("--operation", name, names, count)];
}

static MPI_Comm make_ring(const struct scene *scene)
{
    const int size = scene->ranks, periodic = 1;
    MPI_Comm ring;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &ring);
    return ring;
}

static struct scene make_scene(const struct job *job, int bad, enum fault fault)
{
    struct scene scene = {.rank = job->rank, .ranks = job->ranks, .bad = bad, .fault = fault};
    scene.partner = (bad + 1) % job->ranks;
    scene.third = job->ranks > 2 ? (bad + 2) % job->ranks : -1;
    scene.is_bad = job->rank == bad;
    scene.is_partner = job->rank == scene.partner;
    for (int i = 0; i < 2; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &scene.comms[i]);
        scene.grids[i] = make_ring(&scene);
    }
    return scene;
}

// What programs do beside the operation under test, in a communicator of its own.
static void communicate(const struct scene *scene)
{
    const int right = (scene->rank + 1) % scene->ranks, left = (scene->rank + scene->ranks - 1) % scene->ranks;
    int number = 0, sum = 0;
    MPI_Sendrecv(&scene->rank, 1, MPI_INT, right, TAG, &number, 1, MPI_INT, left, TAG, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (sum != scene->ranks * (scene->ranks - 1) / 2)
        MPI_Abort(MPI_COMM_WORLD, 3);
}

static void end_hung(int signal_number)
{
    static const char text[] = "hung\n";
    (void)signal_number;
    (void)!write(STDOUT_FILENO, text, sizeof(text) - 1);
    _exit(4);
}

int main(int argc, char **argv)
{
    const char *operation_name = "", *fault_name = "none";
    uint64_t bad_rank = 0, rounds = 3, watchdog_s = 60;
    double late_s = 0;
    bool right = false;
    const struct job_option own[] = {
        {"--operation", OPTION_TEXT, &operation_name, "the operation under test; an unknown name lists all"},
        {"--fault", OPTION_TEXT, &fault_name, "the fault; an unknown name lists all"},
        {"--bad-rank", OPTION_U64, &bad_rank, "the rank that makes it"},
        {"--right", OPTION_SET, &right, "the same program without the fault"},
        {"--rounds", OPTION_U64, &rounds, "how often all is done right before"},
        {"--late", OPTION_F64, &late_s, "seconds that this rank sleeps before the last round"},
        {"--watchdog", OPTION_U64, &watchdog_s, "after so many seconds the job ends itself, with status 4"},
    };
    struct job job = {.iterations = 1};
    job_start(&job, "generated", MPI_THREAD_SINGLE, argc, argv, own, sizeof(own) / sizeof(own[0]));
    signal(SIGALRM, end_hung);
    alarm((unsigned)watchdog_s);
    const struct operation *operation = operation_called(operation_name);
    const enum fault fault = (enum fault)choice_of("--fault", fault_name, fault_names, FAULTS);
    struct scene scene = make_scene(&job, (int)bad_rank, fault);
    for (uint64_t round = 0; round <= rounds; round++) {
        const bool is_last = round == rounds;
        communicate(&scene);
        if (is_last && scene.is_bad && late_s > 0)
            usleep((useconds_t)(late_s * 1e6));
        scene.wrong = is_last && scene.is_bad && !right;
        operation->run(&scene, operation);
    }
    MPI_Finalize(); // call: finalize
    puts("through"); // each rank: some may not be
    return 0;
}
