/*
 * Posts and polls a known number of times, over the stand-in provider: as a rank of a job that calls MPI.
 *
 * Of each iteration: a list of two sends of 100 and 2 * 50 bytes, an RDMA write of 30, a receive, a receive of a shared queue, and
 * as many completions.
 */
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "job.h"

struct queues {
	struct ibv_qp qp;
	struct ibv_cq cq;
	struct ibv_srq srq;
};

static char data[256];

static void post(struct queues *q, int iteration)
{
	struct ibv_sge halves[2] = { { (uintptr_t)data, 50, 1 }, { (uintptr_t)data + 64, 50, 1 } };
	struct ibv_sge whole = { (uintptr_t)data, 100, 1 }, part = { (uintptr_t)data, 30, 1 };
	struct ibv_send_wr write = { .wr_id = 3, .sg_list = &part, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE };
	struct ibv_send_wr second = { .wr_id = 2, .next = &write, .sg_list = halves, .num_sge = 2, .opcode = IBV_WR_SEND };
	struct ibv_send_wr first = { .wr_id = iteration, .next = &second, .sg_list = &whole, .num_sge = 1, .opcode = IBV_WR_SEND };
	struct ibv_recv_wr receive = { .wr_id = 4, .sg_list = &whole, .num_sge = 1 };
	struct ibv_send_wr *bad;
	struct ibv_recv_wr *bad_receive;

	ibv_post_send(&q->qp, &first, &bad);
	ibv_post_recv(&q->qp, &receive, &bad_receive);
	ibv_post_srq_recv(&q->srq, &receive, &bad_receive);
}

static int poll(struct queues *q)
{
	struct ibv_wc wc[4];
	int n, all = 0;

	while ((n = ibv_poll_cq(&q->cq, 4, wc)) > 0)
		all += n;
	return all;
}

static struct ibv_context *open_device(void)
{
	void *provider = dlopen("libstandin-rdmav34.so", RTLD_NOW);
	struct ibv_context *(*open)(void) = provider ? (struct ibv_context *(*)(void))dlsym(provider, "standin_open") : NULL;

	if (!open)
		fprintf(stderr, "%s\n", dlerror());
	return open ? open() : NULL;
}

static bool is_late(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "--late"))
			return true;
	return false;
}

int main(int argc, char **argv)
{
	bool late = is_late(argc, argv);
	const struct job_option own[] = { { "--late", OPTION_SET, &late, "opens its device when it was let go, and waits a little" } };
	struct job job = { .iterations = 1000 };
	struct queues *q = calloc(1, sizeof(*q));
	struct ibv_context *device = late ? NULL : open_device();
	uint64_t completions = 0;

	job_start(&job, "standin", MPI_THREAD_SINGLE, argc, argv, own, 1);
	if (late) {
		device = open_device();
		sleep(3);
	}
	if (!q || !device)
		MPI_Abort(MPI_COMM_WORLD, 2);
	q->qp.context = q->cq.context = q->srq.context = device;
	q->qp.qp_num = 77;
	while (job_next_iteration(&job)) {
		post(q, (int)job.finished_iterations);
		completions += (uint64_t)poll(q);
	}
	return job_finish(&job, completions != 5 * job.finished_iterations);
}
