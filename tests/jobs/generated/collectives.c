// What goes wrong with collective operations of all forms: one rank does something else than the others.
#include "collectives.h"

#include <string.h>

static int numbers_in[BLOCK * MOST_RANKS], numbers_out[BLOCK * MOST_RANKS];
static int counts[MOST_RANKS], places[MOST_RANKS], byte_places[MOST_RANKS];
static MPI_Aint addresses[MOST_RANKS];
static MPI_Datatype types[MOST_RANKS];

static struct arguments arguments_of(const struct scene *scene, int which)
{
    for (int i = 0; i < MOST_RANKS; i++) {
        counts[i] = BLOCK;
        places[i] = i * BLOCK;
        byte_places[i] = i * BLOCK * (int)sizeof(int);
        addresses[i] = byte_places[i];
        types[i] = MPI_INT;
    }
    return (struct arguments){.root = 0,
                              .comm = scene->comms[which],
                              .grid = scene->grids[which],
                              .in = numbers_in,
                              .out = numbers_out,
                              .counts = counts,
                              .places = places,
                              .byte_places = byte_places,
                              .addresses = addresses,
                              .types = types};
}

// Another operation than the one under test, which no rank gets through alone.
static void call_another(const struct scene *scene, const struct operation *operation)
{
    int sum = 0;
    if (strstr(operation->name, "barrier") != NULL)
        MPI_Allreduce(&scene->rank, &sum, 1, MPI_INT, MPI_SUM, scene->comms[0]); // call: another allreduce
    else
        MPI_Barrier(scene->comms[0]); // call: another barrier
}

// A root that the operation cannot be done with: a rank that will not send takes its place, or a rank that waits for what
// the root gets.
static int other_root(const struct scene *scene)
{
    return scene->bad == 0 ? 1 : scene->bad;
}

enum form { BLOCKING, NONBLOCKING, PERSISTENT_FORM };

static void begin(const struct scene *scene, const struct operation *operation, enum form form,
                  const struct arguments *a, MPI_Request *request)
{
    if (form == BLOCKING)
        operation->is.blocking(a);
    else
        operation->is.with_request(a, request);
    if (form == PERSISTENT_FORM && !makes(scene, MISSING_START))
        MPI_Start(request);
}

// Waiting for a persistent operation that was not started returns at once.
static void complete(const struct scene *scene, enum form form, MPI_Request *request)
{
    if (form == BLOCKING || makes(scene, MISSING_WAIT))
        return;
    MPI_Wait(request, MPI_STATUS_IGNORE); // call: wait for a collective
    if (form == PERSISTENT_FORM)
        MPI_Request_free(request);
}

static void run_form(const struct scene *scene, const struct operation *operation, enum form form)
{
    struct arguments a = arguments_of(scene, makes(scene, OTHER_COMMUNICATOR));
    MPI_Request request;
    if (makes(scene, MISSING_CALL))
        return;
    if (makes(scene, OTHER_OPERATION)) {
        call_another(scene, operation);
        return;
    }
    if (makes(scene, OTHER_ROOT))
        a.root = other_root(scene);
    if (makes(scene, OTHER_ORDER))
        call_another(scene, operation);
    begin(scene, operation, form, &a, &request);
    complete(scene, form, &request);
    if (scene->fault == OTHER_ORDER && !scene->wrong)
        call_another(scene, operation);
}

void run_blocking(const struct scene *scene, const struct operation *operation)
{
    run_form(scene, operation, BLOCKING);
}

void run_nonblocking(const struct scene *scene, const struct operation *operation)
{
    run_form(scene, operation, NONBLOCKING);
}

void run_persistent(const struct scene *scene, const struct operation *operation)
{
    run_form(scene, operation, PERSISTENT_FORM);
}
