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
#define MOST_BUILT 16
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
	union {
		struct ibv_cq cq;
		struct ibv_cq_ex extended;
	};
	struct ibv_wc polled; /* by start_poll or next_poll */
	struct ibv_wc done[RING];
	unsigned first;
	unsigned count;
	struct pair_qp *queues; /* that put what they receive here */
};

struct pair_srq {
	struct ibv_srq srq;
	struct receive_ring ring;
};

/* A request between wr_start and wr_complete. */
struct built {
	struct ibv_send_wr wr;
	struct ibv_sge segment[4];
	unsigned char data[MOST_BYTES];
};

struct pair_qp {
	union {
		struct ibv_qp qp;
		struct ibv_qp_ex extended;
	};
	struct built *built;
	unsigned built_count;
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

static void submit(struct pair_qp *qp, const struct ibv_send_wr *wr)
{
	enum ibv_wc_opcode opcode = perform(qp, wr);

	if (wr->send_flags & IBV_SEND_SIGNALED)
		complete((struct pair_cq *)qp->qp.send_cq,
			 &(struct ibv_wc){ .wr_id = wr->wr_id, .qp_num = qp->qp.qp_num, .opcode = opcode });
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
		submit(qp, wr);
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

static bool get_completion(struct pair_cq *cq, struct ibv_wc *wc)
{
	if (!cq->count)
		return false;
	*wc = cq->done[cq->first];
	cq->first = (cq->first + 1) % RING;
	cq->count--;
	return true;
}

static void take_all(struct pair_cq *cq)
{
	for (struct pair_qp *qp = cq->queues; qp; qp = qp->next)
		take(cq, qp);
}

static int poll_cq(struct ibv_cq *of, int most, struct ibv_wc *wc)
{
	int n = 0;

	take_all((struct pair_cq *)of);
	while (n < most && get_completion((struct pair_cq *)of, &wc[n]))
		n++;
	return n;
}

static void wr_start(struct ibv_qp_ex *qp)
{
	((struct pair_qp *)qp)->built_count = 0;
}

static void wr_abort(struct ibv_qp_ex *qp)
{
	((struct pair_qp *)qp)->built_count = 0;
}

static struct built *last_built(struct ibv_qp_ex *of)
{
	struct pair_qp *qp = (struct pair_qp *)of;

	return &qp->built[(qp->built_count - 1) % MOST_BUILT];
}

static struct ibv_send_wr *wr_begin(struct ibv_qp_ex *of, enum ibv_wr_opcode opcode)
{
	struct pair_qp *qp = (struct pair_qp *)of;
	struct built *built;

	qp->built_count++;
	built = last_built(of);
	built->wr = (struct ibv_send_wr){ .wr_id = of->wr_id, .opcode = opcode, .send_flags = of->wr_flags };
	built->wr.sg_list = built->segment;
	return &built->wr;
}

static void wr_send(struct ibv_qp_ex *qp)
{
	wr_begin(qp, IBV_WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *qp, __be32 immediate)
{
	wr_begin(qp, IBV_WR_SEND_WITH_IMM)->imm_data = immediate;
}

static void wr_reach(struct ibv_qp_ex *qp, enum ibv_wr_opcode opcode, uint64_t remote, __be32 immediate)
{
	struct ibv_send_wr *wr = wr_begin(qp, opcode);

	wr->wr.rdma.remote_addr = remote;
	wr->imm_data = immediate;
}

static void wr_rdma_write(struct ibv_qp_ex *qp, uint32_t key, uint64_t remote)
{
	(void)key;
	wr_reach(qp, IBV_WR_RDMA_WRITE, remote, 0);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *qp, uint32_t key, uint64_t remote, __be32 immediate)
{
	(void)key;
	wr_reach(qp, IBV_WR_RDMA_WRITE_WITH_IMM, remote, immediate);
}

static void wr_rdma_read(struct ibv_qp_ex *qp, uint32_t key, uint64_t remote)
{
	(void)key;
	wr_reach(qp, IBV_WR_RDMA_READ, remote, 0);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *qp, uint32_t key, uint64_t remote, uint64_t more)
{
	struct ibv_send_wr *wr = wr_begin(qp, IBV_WR_ATOMIC_FETCH_AND_ADD);

	(void)key;
	wr->wr.atomic.remote_addr = remote;
	wr->wr.atomic.compare_add = more;
}

static void wr_set_sge_list(struct ibv_qp_ex *qp, size_t count, const struct ibv_sge *list)
{
	struct built *built = last_built(qp);

	built->wr.num_sge = count < 4 ? (int)count : 4;
	for (int i = 0; i < built->wr.num_sge; i++)
		built->segment[i] = list[i];
}

static void wr_set_sge(struct ibv_qp_ex *qp, uint32_t key, uint64_t addr, uint32_t length)
{
	last_built(qp)->segment[0] = (struct ibv_sge){ .addr = addr, .length = length, .lkey = key };
	last_built(qp)->wr.num_sge = 1;
}

/* Data is taken at once: the program may overwrite it before it is posted. */
static void wr_set_inline_data_list(struct ibv_qp_ex *qp, size_t count, const struct ibv_data_buf *list)
{
	struct built *built = last_built(qp);
	uint32_t bytes = 0;

	for (size_t i = 0; i < count; i++) {
		move(built->data + bytes, list[i].addr, list[i].length);
		bytes += (uint32_t)list[i].length;
	}
	built->segment[0] = (struct ibv_sge){ .addr = (uintptr_t)built->data, .length = bytes };
	built->wr.num_sge = 1;
}

static void wr_set_inline_data(struct ibv_qp_ex *qp, void *addr, size_t length)
{
	struct built *built = last_built(qp);

	move(built->data, addr, length);
	built->segment[0] = (struct ibv_sge){ .addr = (uintptr_t)built->data, .length = (uint32_t)length };
	built->wr.num_sge = 1;
}

/* All that was built, or nothing. */
static int wr_complete(struct ibv_qp_ex *of)
{
	struct pair_qp *qp = (struct pair_qp *)of;

	if (qp->built_count > MOST_BUILT || MESSAGES - (qp->outbox->sent - qp->outbox->taken) < qp->built_count)
		return ENOMEM;
	for (unsigned i = 0; i < qp->built_count; i++)
		submit(qp, &qp->built[i].wr);
	return 0;
}

static int show_next(struct ibv_cq_ex *of)
{
	struct pair_cq *cq = (struct pair_cq *)of;

	take_all(cq);
	if (!get_completion(cq, &cq->polled))
		return ENOENT;
	of->wr_id = cq->polled.wr_id;
	of->status = cq->polled.status;
	return 0;
}

static int next_poll(struct ibv_cq_ex *of)
{
	return show_next(of);
}

static int start_poll(struct ibv_cq_ex *of, struct ibv_poll_cq_attr *attributes)
{
	return attributes->comp_mask ? EINVAL : show_next(of);
}

static void end_poll(struct ibv_cq_ex *of)
{
	((struct pair_cq *)of)->polled.wr_id = 0;
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *of)
{
	return ((struct pair_cq *)of)->polled.opcode;
}

static uint32_t read_byte_len(struct ibv_cq_ex *of)
{
	return ((struct pair_cq *)of)->polled.byte_len;
}

static uint32_t read_qp_num(struct ibv_cq_ex *of)
{
	return ((struct pair_cq *)of)->polled.qp_num;
}

static __be32 read_imm_data(struct ibv_cq_ex *of)
{
	return ((struct pair_cq *)of)->polled.imm_data;
}

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attributes)
{
	struct pair_cq *cq = calloc(1, sizeof(*cq));

	(void)attributes;
	if (!cq)
		return NULL;
	cq->cq.context = context;
	cq->extended.start_poll = start_poll;
	cq->extended.next_poll = next_poll;
	cq->extended.end_poll = end_poll;
	cq->extended.read_opcode = read_opcode;
	cq->extended.read_byte_len = read_byte_len;
	cq->extended.read_qp_num = read_qp_num;
	cq->extended.read_imm_data = read_imm_data;
	return &cq->extended;
}

static struct ibv_qp *create_qp(struct ibv_context *context, struct ibv_qp_init_attr *attributes);

static struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attributes)
{
	struct ibv_qp *qp = create_qp(context, (struct ibv_qp_init_attr *)attributes);
	struct ibv_qp_ex *extended = (struct ibv_qp_ex *)qp;

	if (!qp || !(attributes->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
		return qp;
	((struct pair_qp *)qp)->built = calloc(MOST_BUILT, sizeof(struct built));
	extended->wr_start = wr_start;
	extended->wr_complete = wr_complete;
	extended->wr_abort = wr_abort;
	extended->wr_send = wr_send;
	extended->wr_send_imm = wr_send_imm;
	extended->wr_rdma_write = wr_rdma_write;
	extended->wr_rdma_write_imm = wr_rdma_write_imm;
	extended->wr_rdma_read = wr_rdma_read;
	extended->wr_atomic_fetch_add = wr_atomic_fetch_add;
	extended->wr_set_sge = wr_set_sge;
	extended->wr_set_sge_list = wr_set_sge_list;
	extended->wr_set_inline_data = wr_set_inline_data;
	extended->wr_set_inline_data_list = wr_set_inline_data_list;
	return qp;
}

static struct ibv_context *open_pair(struct ibv_device *device)
{
	struct verbs_context *all = calloc(1, sizeof(*all));
	struct ibv_context *context = &all->context;
	int file = open(SHARED_FILE, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (!all || file < 0 || ftruncate(file, sizeof(*world)))
		return NULL;
	world = mmap(NULL, sizeof(*world), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	close(file);
	if (world == MAP_FAILED)
		return NULL;
	all->sz = sizeof(*all);
	all->create_cq_ex = create_cq_ex;
	all->create_qp_ex = create_qp_ex;
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
