/*
 * Stands in for an RDMA provider where there is no RDMA: stripped, and its functions are reached through tables alone. It
 * really moves data between processes that share a file, in the order in which it was sent, and writes and reads the memory
 * of the process at the other end. All copies are loops or system calls, so that nobody sees more of them than of hardware.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pair_driver.h"

#define QUEUES 64
#define MESSAGES 32
#define MOST_BYTES 8192
#define RING 1024
#define FIRST_NUMBER 100
#define SHARED_FILE "standin-rdma"

struct message {
	uint32_t bytes;
	uint32_t opcode;
	uint32_t immediate;
	uint32_t unused;
	unsigned char data[MOST_BYTES];
};

/* What one queue pair has been sent, and not taken yet. */
struct mailbox {
	_Atomic uint32_t sent;
	_Atomic uint32_t taken;
	pid_t owner;
	struct message messages[MESSAGES];
};

struct world {
	_Atomic uint32_t queues;
	struct mailbox boxes[QUEUES];
};

struct receive {
	uint64_t number;
	int segments;
	struct ibv_sge segment[4];
};

struct receive_ring {
	struct receive posted[RING];
	unsigned first;
	unsigned count;
};

struct pair_cq {
	struct ibv_cq cq;
	struct ibv_wc done[RING];
	unsigned first;
	unsigned count;
	struct pair_qp *queues; /* that put what they receive here */
};

struct pair_srq {
	struct ibv_srq srq;
	struct receive_ring ring;
};

struct pair_qp {
	struct ibv_qp qp;
	struct receive_ring own;
	struct receive_ring *ring;
	struct mailbox *inbox;
	struct mailbox *outbox;
	int memory; /* of the process at the other end */
	struct pair_qp *next;
};

static struct world *world;

static void move(unsigned char *to, const unsigned char *from, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		to[i] = from[i];
}

static void complete(struct pair_cq *cq, const struct ibv_wc *wc)
{
	cq->done[(cq->first + cq->count++) % RING] = *wc;
}

static bool has_room(const struct pair_qp *qp)
{
	return qp->outbox->sent - qp->outbox->taken < MESSAGES;
}

static void deliver(struct pair_qp *qp, const struct ibv_send_wr *wr, uint32_t opcode, uint32_t told_bytes)
{
	uint32_t at = qp->outbox->sent;
	struct message *message = &qp->outbox->messages[at % MESSAGES];

	message->bytes = 0;
	message->opcode = opcode;
	message->immediate = wr->imm_data;
	for (int i = 0; opcode == IBV_WC_RECV && i < wr->num_sge; i++) {
		move(message->data + message->bytes, (unsigned char *)wr->sg_list[i].addr, wr->sg_list[i].length);
		message->bytes += wr->sg_list[i].length;
	}
	if (opcode != IBV_WC_RECV)
		message->bytes = told_bytes;
	qp->outbox->sent = at + 1;
}

/* Writes or reads memory of the other end; all of its bytes. */
static uint32_t reach(struct pair_qp *qp, const struct ibv_send_wr *wr, bool write)
{
	uint64_t remote = wr->wr.rdma.remote_addr;
	uint32_t all = 0;

	for (int i = 0; i < wr->num_sge; i++) {
		void *near = (void *)wr->sg_list[i].addr;
		size_t bytes = wr->sg_list[i].length;
		ssize_t done = write ? pwrite(qp->memory, near, bytes, (off_t)(remote + all)) :
				       pread(qp->memory, near, bytes, (off_t)(remote + all));

		if (done != (ssize_t)bytes)
			perror("memory of the other end");
		all += bytes;
	}
	return all;
}

static void add(struct pair_qp *qp, const struct ibv_send_wr *wr)
{
	uint64_t old = 0, sum;

	if (pread(qp->memory, &old, sizeof(old), (off_t)wr->wr.atomic.remote_addr) != sizeof(old))
		perror("memory of the other end");
	sum = old + wr->wr.atomic.compare_add;
	if (pwrite(qp->memory, &sum, sizeof(sum), (off_t)wr->wr.atomic.remote_addr) != sizeof(sum))
		perror("memory of the other end");
	move((unsigned char *)wr->sg_list[0].addr, (unsigned char *)&old, sizeof(old));
}

static enum ibv_wc_opcode perform(struct pair_qp *qp, const struct ibv_send_wr *wr)
{
	switch (wr->opcode) {
	case IBV_WR_RDMA_WRITE:
		reach(qp, wr, true);
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		deliver(qp, wr, IBV_WC_RECV_RDMA_WITH_IMM, reach(qp, wr, true));
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		reach(qp, wr, false);
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		add(qp, wr);
		return IBV_WC_FETCH_ADD;
	default:
		deliver(qp, wr, IBV_WC_RECV, 0);
		return IBV_WC_SEND;
	}
}

/* What finds no room is refused, and all that is behind it: the program has to try again. */
static int post_send(struct ibv_qp *of, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct pair_qp *qp = (struct pair_qp *)of;

	for (; wr; wr = wr->next) {
		if (!has_room(qp)) {
			*bad = wr;
			return ENOMEM;
		}
		enum ibv_wc_opcode opcode = perform(qp, wr);
		if (wr->send_flags & IBV_SEND_SIGNALED)
			complete((struct pair_cq *)of->send_cq,
				 &(struct ibv_wc){ .wr_id = wr->wr_id, .qp_num = of->qp_num, .opcode = opcode });
	}
	return 0;
}

static int add_receives(struct receive_ring *ring, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	for (; wr; wr = wr->next) {
		struct receive *receive = &ring->posted[(ring->first + ring->count) % RING];

		if (ring->count == RING || wr->num_sge > 4) {
			*bad = wr;
			return ENOMEM;
		}
		receive->number = wr->wr_id;
		receive->segments = wr->num_sge;
		for (int i = 0; i < wr->num_sge; i++)
			receive->segment[i] = wr->sg_list[i];
		ring->count++;
	}
	return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return add_receives(&((struct pair_qp *)qp)->own, wr, bad);
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return add_receives(&((struct pair_srq *)srq)->ring, wr, bad);
}

static void put(const struct receive *receive, const struct message *message)
{
	uint32_t at = 0;

	for (int i = 0; i < receive->segments && at < message->bytes; i++) {
		uint32_t left = message->bytes - at, room = receive->segment[i].length;
		uint32_t bytes = left < room ? left : room;

		move((unsigned char *)receive->segment[i].addr, message->data + at, bytes);
		at += bytes;
	}
}

static void take(struct pair_cq *cq, struct pair_qp *qp)
{
	while (qp->inbox->taken != qp->inbox->sent && qp->ring->count) {
		const struct message *message = &qp->inbox->messages[qp->inbox->taken % MESSAGES];
		struct receive *receive = &qp->ring->posted[qp->ring->first];
		struct ibv_wc wc = { .wr_id = receive->number,
				     .qp_num = qp->qp.qp_num,
				     .opcode = message->opcode,
				     .byte_len = message->bytes,
				     .imm_data = message->immediate,
				     .wc_flags = IBV_WC_WITH_IMM };

		if (message->opcode == IBV_WC_RECV)
			put(receive, message);
		qp->ring->first = (qp->ring->first + 1) % RING;
		qp->ring->count--;
		complete(cq, &wc);
		qp->inbox->taken++;
	}
}

static int poll_cq(struct ibv_cq *of, int most, struct ibv_wc *wc)
{
	struct pair_cq *cq = (struct pair_cq *)of;
	int n;

	for (struct pair_qp *qp = cq->queues; qp; qp = qp->next)
		take(cq, qp);
	for (n = 0; n < most && cq->count; n++) {
		wc[n] = cq->done[cq->first];
		cq->first = (cq->first + 1) % RING;
		cq->count--;
	}
	return n;
}

static struct ibv_context *open_pair(struct ibv_device *device)
{
	struct ibv_context *context = calloc(1, sizeof(*context));
	int file = open(SHARED_FILE, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (!context || file < 0 || ftruncate(file, sizeof(*world)))
		return NULL;
	world = mmap(NULL, sizeof(*world), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	close(file);
	if (world == MAP_FAILED)
		return NULL;
	context->device = device;
	context->abi_compat = __VERBS_ABI_IS_EXTENDED;
	context->ops.poll_cq = poll_cq;
	context->ops.post_srq_recv = post_srq_recv;
	context->ops.post_send = post_send;
	context->ops.post_recv = post_recv;
	return context;
}

static struct ibv_cq *create_cq(struct ibv_context *context)
{
	struct pair_cq *cq = calloc(1, sizeof(*cq));

	if (cq)
		cq->cq.context = context;
	return &cq->cq;
}

static struct ibv_srq *create_srq(struct ibv_context *context)
{
	struct pair_srq *srq = calloc(1, sizeof(*srq));

	if (srq)
		srq->srq.context = context;
	return &srq->srq;
}

static struct ibv_qp *create_qp(struct ibv_context *context, struct ibv_qp_init_attr *attributes)
{
	struct pair_qp *qp = calloc(1, sizeof(*qp));
	struct pair_cq *receives = (struct pair_cq *)attributes->recv_cq;
	uint32_t index = world->queues++;

	if (!qp || index >= QUEUES)
		return NULL;
	qp->qp.context = context;
	qp->qp.send_cq = attributes->send_cq;
	qp->qp.recv_cq = attributes->recv_cq;
	qp->qp.srq = attributes->srq;
	qp->qp.qp_num = FIRST_NUMBER + index;
	qp->qp.qp_type = attributes->qp_type;
	qp->ring = attributes->srq ? &((struct pair_srq *)attributes->srq)->ring : &qp->own;
	qp->inbox = &world->boxes[index];
	qp->inbox->owner = getpid();
	qp->next = receives->queues;
	receives->queues = qp;
	return &qp->qp;
}

static int modify_qp(struct ibv_qp *of, struct ibv_qp_attr *attributes, int mask)
{
	struct pair_qp *qp = (struct pair_qp *)of;
	char path[64];

	if (!(mask & IBV_QP_DEST_QPN))
		return 0;
	qp->outbox = &world->boxes[(attributes->dest_qp_num - FIRST_NUMBER) % QUEUES];
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)qp->outbox->owner);
	qp->memory = open(path, O_RDWR | O_CLOEXEC);
	return qp->memory < 0 ? errno : 0;
}

struct pair_driver pair_driver = {
	.open = open_pair,
	.create_cq = create_cq,
	.create_srq = create_srq,
	.create_qp = create_qp,
	.modify_qp = modify_qp,
};
