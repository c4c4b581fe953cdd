// What goes wrong before a rank that completes two receives at once, or probes: the bad rank sends two messages, and makes
// its fault with the second. Its partner uses the operation under test.
#include "generated.h"

enum completion { WAIT, WAITALL, WAITANY, WAITSOME, TEST, TESTALL, TESTANY, TESTSOME };
enum probe { PROBE, PROBE_ANY_SOURCE, IPROBE, IPROBE_ANY_SOURCE, MPROBE, IMPROBE };
enum { MESSAGES = 2 };

static const int tags[MESSAGES] = {TAG, SECOND_TAG};

// With persistent sends where the fault is that one of them is not started, which waiting for it does not show.
static void send_persistently(const struct scene *scene)
{
    const int number = 1;
    MPI_Request requests[MESSAGES];
    for (int i = 0; i < MESSAGES; i++)
        MPI_Send_init(&number, 1, MPI_INT, scene->partner, tags[i], scene->comms[0], &requests[i]);
    MPI_Startall(scene->wrong ? 1 : MESSAGES, requests);
    MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < MESSAGES; i++)
        MPI_Request_free(&requests[i]);
}

static void send_both(const struct scene *scene)
{
    const int number = 1, to = makes(scene, OTHER_RANK) ? scene->third : scene->partner;
    const int tag = makes(scene, OTHER_TAG) ? WRONG_TAG : SECOND_TAG;
    if (scene->fault == MISSING_START) {
        send_persistently(scene);
        return;
    }
    MPI_Send(&number, 1, MPI_INT, scene->partner, TAG, scene->comms[0]);
    if (!makes(scene, MISSING_CALL))
        MPI_Send(&number, 1, MPI_INT, to, tag, scene->comms[makes(scene, OTHER_COMMUNICATOR)]);
}

static void wait_for_each(MPI_Request *requests)
{
    for (int i = 0; i < MESSAGES; i++)
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE); // call: wait
}

static void wait_for_any(MPI_Request *requests)
{
    int index = 0;
    for (int done = 0; done < MESSAGES; done++)
        MPI_Waitany(MESSAGES, requests, &index, MPI_STATUS_IGNORE); // call: waitany
}

static void wait_for_some(MPI_Request *requests)
{
    int indices[MESSAGES];
    for (int done = 0, count = 0; done < MESSAGES; done += count)
        MPI_Waitsome(MESSAGES, requests, &count, indices, MPI_STATUSES_IGNORE); // call: waitsome
}

static void test_each(MPI_Request *requests)
{
    for (int i = 0; i < MESSAGES; i++)
        for (int is_done = 0; !is_done;)
            MPI_Test(&requests[i], &is_done, MPI_STATUS_IGNORE); // call: test
}

static void test_all(MPI_Request *requests)
{
    for (int is_done = 0; !is_done;)
        MPI_Testall(MESSAGES, requests, &is_done, MPI_STATUSES_IGNORE); // call: testall
}

static void test_any(MPI_Request *requests)
{
    int index = 0, is_done = 0;
    for (int done = 0; done < MESSAGES; done += is_done)
        MPI_Testany(MESSAGES, requests, &index, &is_done, MPI_STATUS_IGNORE); // call: testany
}

static void test_some(MPI_Request *requests)
{
    int indices[MESSAGES];
    for (int done = 0, count = 0; done < MESSAGES; done += count)
        MPI_Testsome(MESSAGES, requests, &count, indices, MPI_STATUSES_IGNORE); // call: testsome
}

static void complete_both(const struct scene *scene, int kind)
{
    int numbers[MESSAGES];
    MPI_Request requests[MESSAGES];
    for (int i = 0; i < MESSAGES; i++)
        MPI_Irecv(&numbers[i], 1, MPI_INT, scene->bad, tags[i], scene->comms[0], &requests[i]);
    switch ((enum completion)kind) {
    case WAIT:
        wait_for_each(requests);
        break;
    case WAITALL:
        MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE); // call: waitall
        break;
    case WAITANY:
        wait_for_any(requests);
        break;
    case WAITSOME:
        wait_for_some(requests);
        break;
    case TEST:
        test_each(requests);
        break;
    case TESTALL:
        test_all(requests);
        break;
    case TESTANY:
        test_any(requests);
        break;
    case TESTSOME:
        test_some(requests);
        break;
    }
}

static void run_completion(const struct scene *scene, const struct operation *operation)
{
    if (scene->is_bad)
        send_both(scene);
    else if (scene->is_partner)
        complete_both(scene, operation->is.kind);
}

static void receive_matched(MPI_Message *message)
{
    int number = 0;
    MPI_Mrecv(&number, 1, MPI_INT, message, MPI_STATUS_IGNORE);
}

static void receive_probed(const struct scene *scene, int tag)
{
    int number = 0;
    MPI_Recv(&number, 1, MPI_INT, scene->bad, tag, scene->comms[0], MPI_STATUS_IGNORE);
}

static void probe_one(const struct scene *scene, int kind, int tag)
{
    const MPI_Comm comm = scene->comms[0];
    MPI_Message message;
    int is_there = 0;
    switch ((enum probe)kind) {
    case PROBE:
        MPI_Probe(scene->bad, tag, comm, MPI_STATUS_IGNORE); // call: probe
        break;
    case PROBE_ANY_SOURCE:
        MPI_Probe(MPI_ANY_SOURCE, tag, comm, MPI_STATUS_IGNORE); // call: probe_any_source
        break;
    case IPROBE:
        while (!is_there)
            MPI_Iprobe(scene->bad, tag, comm, &is_there, MPI_STATUS_IGNORE); // call: iprobe
        break;
    case IPROBE_ANY_SOURCE:
        while (!is_there)
            MPI_Iprobe(MPI_ANY_SOURCE, tag, comm, &is_there, MPI_STATUS_IGNORE); // call: iprobe_any_source
        break;
    case MPROBE:
        MPI_Mprobe(scene->bad, tag, comm, &message, MPI_STATUS_IGNORE); // call: mprobe
        receive_matched(&message);
        return;
    case IMPROBE:
        while (!is_there)
            MPI_Improbe(scene->bad, tag, comm, &is_there, &message, MPI_STATUS_IGNORE); // call: improbe
        receive_matched(&message);
        return;
    }
    receive_probed(scene, tag);
}

static void run_probe(const struct scene *scene, const struct operation *operation)
{
    if (scene->is_bad)
        send_both(scene);
    else if (scene->is_partner)
        for (int i = 0; i < MESSAGES; i++)
            probe_one(scene, operation->is.kind, tags[i]);
}

const struct operation completions[] = {
    {"wait", run_completion, {WAIT}},
    {"waitall", run_completion, {WAITALL}},
    {"waitany", run_completion, {WAITANY}},
    {"waitsome", run_completion, {WAITSOME}},
    {"test", run_completion, {TEST}},
    {"testall", run_completion, {TESTALL}},
    {"testany", run_completion, {TESTANY}},
    {"testsome", run_completion, {TESTSOME}},
    {.name = NULL},
};

const struct operation probes[] = {
    {"probe", run_probe, {PROBE}},
    {"probe_any_source", run_probe, {PROBE_ANY_SOURCE}},
    {"iprobe", run_probe, {IPROBE}},
    {"iprobe_any_source", run_probe, {IPROBE_ANY_SOURCE}},
    {"mprobe", run_probe, {MPROBE}},
    {"improbe", run_probe, {IMPROBE}},
    {.name = NULL},
};
