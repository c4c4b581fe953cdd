/*
 * Stands in for an RDMA provider where there is no RDMA: a library that is stripped and exports nothing but how to open a
 * device, whose table leads to static functions. It loops back: what is sent completes at once. It tests how the functions
 * are found and what is counted, not RDMA.
 */
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#define RING 256

struct standin_queue {
	struct ibv_wc done[RING];
	unsigned first;
	unsigned count;
};

static struct standin_queue queue;

static void complete(uint64_t number, uint32_t queue_number, enum ibv_wc_opcode operation, uint32_t bytes)
{
	struct ibv_wc *wc = &queue.done[(queue.first + queue.count++) % RING];

	memset(wc, 0, sizeof(*wc));
	wc->wr_id = number;
	wc->qp_num = queue_number;
	wc->opcode = operation;
	wc->byte_len = bytes;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	for (; wr; wr = wr->next) {
		if (queue.count == RING) {
			*bad = wr;
			return 12;
		}
		complete(wr->wr_id, qp->qp_num, IBV_WC_SEND, 0);
	}
	return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)bad;
	for (; wr; wr = wr->next)
		complete(wr->wr_id, qp->qp_num, IBV_WC_RECV, wr->num_sge ? wr->sg_list[0].length : 0);
	return 0;
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)srq;
	(void)bad;
	for (; wr; wr = wr->next)
		complete(wr->wr_id, 0, IBV_WC_RECV, 0);
	return 0;
}

static int poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *wc)
{
	int n;

	(void)cq;
	for (n = 0; n < most && queue.count; n++) {
		wc[n] = queue.done[queue.first];
		queue.first = (queue.first + 1) % RING;
		queue.count--;
	}
	return n;
}

/* Where the machine has a device, a provider has it open. */
struct ibv_context *standin_open(void)
{
	struct ibv_context *context = calloc(1, sizeof(*context));

	if (context) {
		context->cmd_fd = open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC);
		context->abi_compat = __VERBS_ABI_IS_EXTENDED;
		context->ops.poll_cq = poll_cq;
		context->ops.post_srq_recv = post_srq_recv;
		context->ops.post_send = post_send;
		context->ops.post_recv = post_recv;
	}
	return context;
}
