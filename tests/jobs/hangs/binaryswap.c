// Compositing of images by binary swap: every rank renders a whole image, and in each stage halves of what it has are
// exchanged with a partner, until each rank has its part of the sum of all images, which rank 0 collects. In every
// stage the ranks are in groups, half as large as in the stage before, that agree on a number by hand: all tell it to
// the root of their group, and the sum comes back along a tree.
//
// With --fault, a `break` is missing: one root goes on with a step that only the ranks inside the tree have to do.
#include "choice.h"
#include "job.h"

enum { TAG_COST = 1, TAG_SUM = 2, TAG_HALF = 3, TAG_PART = 4 };

enum place_in_tree { ROOT, INSIDE, LEAF };

struct group {
    int base;  // the root; a multiple of the size
    int size;  // a power of two
    bool break_is_missing;
};

struct span {
    size_t start, count; // pixels
};

static uint32_t rendered(int rank, uint64_t frame, size_t pixel)
{
    return (uint32_t)mix((uint64_t)rank, frame, pixel) & 0xffff;
}

static uint64_t cost_of(int rank, uint64_t frame)
{
    return mix((uint64_t)rank, frame, 60) & 0xffffff;
}

// Children of a rank in the tree: it plus each power of two below its own lowest bit.
static int first_step(const struct group *group, int rank)
{
    const int in_group = rank - group->base;
    return (in_group == 0 ? group->size : in_group & -in_group) / 2;
}

static enum place_in_tree place_of(const struct group *group, int rank)
{
    if (rank == group->base)
        return ROOT;
    return first_step(group, rank) > 0 ? INSIDE : LEAF;
}

static void send_down(const struct group *group, int rank, uint64_t sum)
{
    for (int step = first_step(group, rank); step > 0; step /= 2)
        MPI_Send(&sum, 1, MPI_UINT64_T, rank + step, TAG_SUM, MPI_COMM_WORLD);
}

// The root's number, in all ranks of the group.
static uint64_t broadcast(const struct group *group, int rank, uint64_t sum)
{
    const int parent = rank & (rank - 1);
    switch (place_of(group, rank)) {
    case ROOT:
        send_down(group, rank, sum);
        if (!group->break_is_missing)
            break;
        __attribute__((fallthrough));
    case INSIDE:
        MPI_Recv(&sum, 1, MPI_UINT64_T, parent, TAG_SUM, MPI_COMM_WORLD, MPI_STATUS_IGNORE); // at fault: no break
        send_down(group, rank, sum);
        break;
    case LEAF:
        MPI_Recv(&sum, 1, MPI_UINT64_T, parent, TAG_SUM, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        break;
    }
    return sum;
}

// Sum of the group's numbers, in its root.
static uint64_t gather_sum(const struct group *group, int rank, uint64_t mine)
{
    switch (place_of(group, rank)) {
    case ROOT:
        for (int member = group->base + 1; member < group->base + group->size; member++) {
            uint64_t theirs = 0;
            MPI_Recv(&theirs, 1, MPI_UINT64_T, member, TAG_COST, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            mine += theirs;
        }
        break;
    case INSIDE:
    case LEAF:
        MPI_Send(&mine, 1, MPI_UINT64_T, group->base, TAG_COST, MPI_COMM_WORLD);
        break;
    }
    return mine;
}

static uint64_t agree_on_cost(const struct group *group, int rank, uint64_t frame)
{
    const uint64_t sum = broadcast(group, rank, gather_sum(group, rank, cost_of(rank, frame)));
    uint64_t expected = 0;
    for (int member = group->base; member < group->base + group->size; member++)
        expected += cost_of(member, frame);
    return sum != expected;
}

static void add(uint32_t *to, const uint32_t *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] += from[i];
}

// The lower rank of a pair keeps the first half. Returns what the rank has then.
static struct span swap_halves(uint32_t *image, uint32_t *incoming, struct span has, int partner, bool is_lower)
{
    const size_t half = has.count / 2;
    const struct span first = {has.start, half}, second = {has.start + half, has.count - half};
    const struct span kept = is_lower ? first : second, given = is_lower ? second : first;
    const int out = (int)given.count, in = (int)kept.count;
    if (is_lower)
        MPI_Send(image + given.start, out, MPI_UINT32_T, partner, TAG_HALF, MPI_COMM_WORLD);
    MPI_Recv(incoming, in, MPI_UINT32_T, partner, TAG_HALF, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (!is_lower)
        MPI_Send(image + given.start, out, MPI_UINT32_T, partner, TAG_HALF, MPI_COMM_WORLD);
    add(image + kept.start, incoming, kept.count);
    return kept;
}

// What a rank has at the end: each bit of its number chose a half.
static struct span part_of(int rank, int ranks, size_t pixels)
{
    struct span part = {0, pixels};
    for (int distance = ranks / 2; distance > 0; distance /= 2) {
        const size_t half = part.count / 2;
        const bool is_lower = (rank & distance) == 0;
        part = is_lower ? (struct span){part.start, half} : (struct span){part.start + half, part.count - half};
    }
    return part;
}

static void collect(const struct job *job, uint32_t *image, size_t pixels)
{
    const struct span mine = part_of(job->rank, job->ranks, pixels);
    if (job->rank > 0) {
        MPI_Send(image + mine.start, (int)mine.count, MPI_UINT32_T, 0, TAG_PART, MPI_COMM_WORLD);
        return;
    }
    for (int rank = 1; rank < job->ranks; rank++) {
        const struct span part = part_of(rank, job->ranks, pixels);
        const int count = (int)part.count;
        MPI_Recv(image + part.start, count, MPI_UINT32_T, rank, TAG_PART, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static uint64_t wrong_pixels(const struct job *job, const uint32_t *image, size_t pixels)
{
    uint64_t wrong = 0;
    for (size_t pixel = 0; pixel < pixels && job->rank == 0; pixel++) {
        uint32_t expected = 0;
        for (int rank = 0; rank < job->ranks; rank++)
            expected += rendered(rank, job->finished_iterations, pixel);
        wrong += image[pixel] != expected;
    }
    return wrong;
}

// `bad_rank` is the root that the break is missing for, or none if negative.
static uint64_t composite(const struct job *job, uint32_t *image, uint32_t *incoming, size_t pixels, int bad_rank)
{
    const uint64_t frame = job->finished_iterations;
    struct span has = {0, pixels};
    uint64_t errors = 0;
    for (size_t pixel = 0; pixel < pixels; pixel++)
        image[pixel] = rendered(job->rank, frame, pixel);
    for (int size = job->ranks; size > 1; size /= 2) {
        const int base = job->rank / size * size, partner = job->rank ^ (size / 2);
        const struct group group = {base, size, job->rank == bad_rank && base == bad_rank};
        errors += agree_on_cost(&group, job->rank, frame);
        has = swap_halves(image, incoming, has, partner, job->rank < partner);
    }
    collect(job, image, pixels);
    // Nobody begins the next frame before rank 0 has this one.
    const struct group all = {0, job->ranks, false};
    errors += broadcast(&all, job->rank, job->rank == 0 ? frame : 0) != frame;
    return errors + wrong_pixels(job, image, pixels);
}

static int power_of_two_below(int number)
{
    int power = 1;
    while (power * 2 <= number)
        power *= 2;
    return power;
}

int main(int argc, char **argv)
{
    static const char *const faults[] = {"none", "missing_break"};
    uint64_t pixels = 16384, bad_rank = UINT64_MAX, right_first = 1;
    const char *fault = faults[0];
    const struct job_option own[] = {
        {"--fault", OPTION_TEXT, &fault, "missing_break"},
        {"--bad-rank", OPTION_U64, &bad_rank, "the rank the break is missing for, even; else three quarters of all"},
        {"--right-first", OPTION_U64, &right_first, "images that are made before the fault"},
        {"--pixels", OPTION_U64, &pixels, "of an image"},
    };
    struct job job = {.iterations = 2};
    job_start(&job, "binaryswap", MPI_THREAD_SINGLE, argc, argv, own, sizeof(own) / sizeof(own[0]));
    const bool faulty = choice_of("--fault", fault, faults, 2) > 0;
    if (power_of_two_below(job.ranks) != job.ranks || pixels < (uint64_t)job.ranks) {
        fprintf(stderr, "binaryswap: needs a power of two of ranks, and a pixel for each\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (bad_rank == UINT64_MAX)
        bad_rank = (uint64_t)(job.ranks / 4 * 3) & ~1u;
    if (bad_rank % 2 != 0 || bad_rank >= (uint64_t)job.ranks) {
        fprintf(stderr, "--bad-rank must be a root: even, and a rank\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    uint32_t *image = must_allocate(pixels * sizeof(*image));
    uint32_t *incoming = must_allocate(pixels * sizeof(*incoming));
    uint64_t errors = 0;
    while (job_next_iteration(&job)) {
        const bool now = faulty && job.finished_iterations > right_first;
        errors += composite(&job, image, incoming, pixels, now ? (int)bad_rank : -1);
    }
    free(incoming);
    free(image);
    job_report(&job, "{\"type\":\"result\",\"rank\":%d,\"images\":%lu}", job.rank,
               (unsigned long)job.finished_iterations);
    return job_finish(&job, errors);
}
