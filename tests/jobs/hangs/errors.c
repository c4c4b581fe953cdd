// Errors in the use of MPI: with --fault NAME one of them, made after the same communication was done right; with
// --right NAME the same communication, done right again; without either, every one of them done right.
#include "errors.h"

#include "choice.h"
#include "job.h"

enum { MOST_LAPSES = 64 };

struct lapses {
    const struct lapse *all[MOST_LAPSES];
    const char *names[MOST_LAPSES];
    size_t count;
};

void send_number(int to)
{
    const int number = NUMBER;
    MPI_Send(&number, 1, MPI_INT, to, TAG, MPI_COMM_WORLD);
}

uint64_t receive_number(int from)
{
    int number = 0;
    MPI_Recv(&number, 1, MPI_INT, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return number != NUMBER;
}

uint64_t hear_from_rank_1(const struct scene *scene)
{
    if (scene->rank != 1)
        return receive_number(1);
    for (int rank = 0; rank < scene->ranks; rank++)
        if (rank != 1)
            send_number(rank);
    return 0;
}

static struct lapses list_lapses(void)
{
    static const struct lapse *const families[] = {message_lapses, request_lapses, collective_lapses, window_lapses,
                                                   outside_lapses, call_lapses,    death_lapses};
    struct lapses list = {.count = 0};
    for (size_t family = 0; family < sizeof(families) / sizeof(families[0]); family++)
        for (const struct lapse *lapse = families[family]; lapse->name != NULL && list.count < MOST_LAPSES; lapse++) {
            list.names[list.count] = lapse->name;
            list.all[list.count++] = lapse;
        }
    return list;
}

// The one that an option names, which must be possible with the job's ranks; NULL if the option is not given.
static const struct lapse *chosen(const struct lapses *list, const char *option, const char *name, int ranks)
{
    if (name == NULL)
        return NULL;
    const struct lapse *lapse = list->all[choice_of(option, name, list->names, list->count)];
    if (ranks < lapse->least_ranks) {
        fprintf(stderr, "%s %s: needs %d ranks\n", option, name, lapse->least_ranks);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return lapse;
}

static uint64_t run_right(const struct lapses *list, const struct lapse *only, struct scene scene)
{
    uint64_t errors = 0;
    scene.faulty = false;
    for (size_t i = 0; i < list->count; i++)
        if (only == NULL ? scene.ranks >= list->all[i]->least_ranks : list->all[i] == only) {
            errors += list->all[i]->run(&scene);
            MPI_Barrier(MPI_COMM_WORLD); // a receive from anybody must not get what belongs to the next one
        }
    return errors;
}

int main(int argc, char **argv)
{
    uint64_t long_bytes = 1 << 20, right_first = 1;
    double compute_s = 0.5;
    const char *fault_name = NULL, *right_name = NULL;
    const struct job_option own[] = {
        {"--fault", OPTION_TEXT, &fault_name, "the error to make; an unknown name lists all"},
        {"--right", OPTION_TEXT, &right_name, "the communication to do right"},
        {"--right-first", OPTION_U64, &right_first, "how often it is done right before the error is made"},
        {"--long-bytes", OPTION_U64, &long_bytes, "of a message that waits for its receiver"},
        {"--compute", OPTION_F64, &compute_s, "seconds of computing where a rank computes"},
    };
    struct job job = {.iterations = 2};
    job_start(&job, "errors", MPI_THREAD_SINGLE, argc, argv, own, sizeof(own) / sizeof(own[0]));
    const struct lapses list = list_lapses();
    const struct lapse *fault = chosen(&list, "--fault", fault_name, job.ranks);
    const struct lapse *right = chosen(&list, "--right", right_name, job.ranks);
    struct scene scene = {.rank = job.rank, .ranks = job.ranks, .long_bytes = long_bytes, .compute_s = compute_s};
    uint64_t errors = 0;
    while (job_next_iteration(&job)) {
        scene.faulty = fault != NULL && job.finished_iterations > right_first;
        errors += scene.faulty ? fault->run(&scene) : run_right(&list, fault != NULL ? fault : right, scene);
        if (scene.faulty && !fault->ends) {
            MPI_Finalize();
            return 0;
        }
    }
    const int status = job_finish(&job, errors);
    if (scene.faulty && fault->after_finalize != NULL)
        fault->after_finalize(&scene);
    return status;
}
