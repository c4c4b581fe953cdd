/*
 * A messaging library over RDMA verbs, of the kind that libmsg_figure2 is over MPI: messages are staged in communication
 * buffers that are filled from their bottom upwards, and a rare one has something put in front of it. With the fault, the
 * pointer arithmetic of that path lacks a pair of parentheses, and the message leaves from another communication buffer.
 *
 * MPI only tells the ranks how to connect. The device is opened before main(), so that whoever attaches then sees all of the
 * queue pairs' lives. Environment: RDMA_LIBRARY, in place of libibverbs.so.1; RDMA_DEVICE, in place of the first one;
 * RDMA_GID, number of the port's address, in place of 1; RDMA_EXTENDED, if it is set: requests are built by ibv_wr_* functions,
 * and completion queues are extended ones.
 */
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job.h"
#include "msg.h"

enum { BUFFERS = 16, BUFFER_BYTES = 1024, MOST_BYTES = 448, PORT = 1, MOST_RANKS = 16 };
enum { TAG_PLAIN = 1, TAG_PIGGYBACK = 2 };
enum { READ_NUMBER = 1000000, ADD_NUMBER };

typedef struct {
	uint64_t event;
	uint64_t sequence;
	uint64_t unused[3];
} piggyback_t;

/* How a message gets there. */
static const char *const HOWS[] = { "send", "inline", "srq", "write", "write_imm", "read", "atomic" };
enum how { SEND, INLINE, SHARED, WRITE, WRITE_IMM, READ, ATOMIC, HOWS_END };

/* What ranks tell each other of their end. */
struct end {
	union ibv_gid gid;
	uint32_t queue;
	uint32_t key;
	uint64_t receive_pool;
	uint64_t counter;
};

/* Where a message lies that the receiver reads itself. */
struct there {
	uint64_t addr;
	uint64_t bytes;
};

struct peer {
	struct ibv_qp *qp;
	struct end far;
	unsigned char *receive_pool;
	uint64_t written;  /* messages that went to the other end's pool */
	uint64_t taken;    /* of those in the own pool */
	struct {
		uint64_t buffer;
		uint32_t tag;
	} arrived[BUFFERS];
	uint64_t first;
	uint64_t count;
};

#undef ibv_reg_mr
#define FUNCTIONS(F)                                                                                                 \
	F(ibv_get_device_list) F(ibv_get_device_name) F(ibv_open_device) F(ibv_alloc_pd) F(ibv_reg_mr)               \
	F(ibv_create_cq) F(ibv_create_srq) F(ibv_create_qp) F(ibv_modify_qp) F(ibv_query_gid) F(ibv_qp_to_qp_ex)

/* By name, so that it can be another library than the one that MPI may have loaded. */
static struct {
#define POINTER(name) __typeof__(&name) name;
	FUNCTIONS(POINTER)
} verbs;

static struct msg_options options;
static struct msg_statistics statistics;
static enum how how;
static bool extended;
/* Two things go wrong in the provider of RDMA in software (rdma-core 44), and are not asked of it: after an ibv_next_poll that finds
 * nothing ibv_end_poll takes one completion more, and of a list of inline data nothing is sent. */
static bool is_stand_in;
static struct ibv_context *device;
static struct ibv_pd *domain;
static struct ibv_cq *send_cq, *receive_cq;
static struct ibv_srq *shared;
static struct ibv_mr *region;
static struct peer peers[MOST_RANKS];
static unsigned char *send_pool; /* one buffer more than is used: there is always a buffer before */
static unsigned char *read_pool;
static unsigned char *pools;
static uint64_t *counter, *fetched;
static uint64_t next_send_buffer, next_read_buffer, retries;
static int own_rank, ranks;

static void give_up(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	MPI_Abort(MPI_COMM_WORLD, 2);
}

#define NEED(is_there)                                                                                               \
	do {                                                                                                         \
		if (!(is_there))                                                                                     \
			give_up(#is_there);                                                                          \
	} while (0)

static const char *setting(const char *name, const char *otherwise)
{
	const char *value = getenv(name);

	return value && *value ? value : otherwise;
}

static struct ibv_cq *make_completion_queue(int entries)
{
	struct ibv_cq_init_attr_ex wanted = { .cqe = (uint32_t)entries, .wc_flags = IBV_WC_STANDARD_FLAGS };
	struct ibv_cq_ex *queue;

	if (!extended)
		return verbs.ibv_create_cq(device, entries, NULL, NULL, 0);
	queue = ibv_create_cq_ex(device, &wanted);
	return queue ? ibv_cq_ex_to_cq(queue) : NULL;
}

static struct ibv_qp *make_pair(struct ibv_qp_init_attr *wanted)
{
	struct ibv_qp_init_attr_ex more = { .send_cq = wanted->send_cq,
					    .recv_cq = wanted->recv_cq,
					    .srq = wanted->srq,
					    .cap = wanted->cap,
					    .qp_type = wanted->qp_type,
					    .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					    .pd = domain,
					    .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
							      IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
							      IBV_QP_EX_WITH_RDMA_READ |
							      IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD };

	return extended ? ibv_create_qp_ex(device, &more) : verbs.ibv_create_qp(domain, wanted);
}

/* From it whoever attaches then knows the functions of those that are made later. Of real devices it is known without. */
static void make_unused_pair(void)
{
	struct ibv_qp_init_attr wanted = { .qp_type = IBV_QPT_RC,
					   .cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 } };

	domain = verbs.ibv_alloc_pd(device);
	wanted.send_cq = wanted.recv_cq = make_completion_queue(1);
	if (!domain || !wanted.send_cq || !make_pair(&wanted))
		fprintf(stderr, "no extended queue pair: %s\n", strerror(errno));
}

__attribute__((constructor)) static void open_device(void)
{
	void *library = dlopen(setting("RDMA_LIBRARY", "libibverbs.so.1"), RTLD_NOW);
	const char *wanted = getenv("RDMA_DEVICE");
	struct ibv_device **list;

	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return;
	}
#define LOOK_UP(name) verbs.name = (__typeof__(&name))dlsym(library, #name);
	FUNCTIONS(LOOK_UP)
	list = verbs.ibv_get_device_list(NULL);
	for (; list && *list; list++)
		if (!wanted || !strcmp(wanted, verbs.ibv_get_device_name(*list)))
			break;
	if (list && *list)
		device = verbs.ibv_open_device(*list);
	extended = getenv("RDMA_EXTENDED") != NULL;
	is_stand_in = getenv("RDMA_LIBRARY") != NULL;
	if (device && extended && is_stand_in)
		make_unused_pair();
}

size_t msg_max_bytes(void)
{
	return MOST_BYTES;
}

struct msg_statistics msg_statistics(void)
{
	return statistics;
}

static struct ibv_sge segment(const void *at, size_t bytes)
{
	return (struct ibv_sge){ .addr = (uintptr_t)at, .length = (uint32_t)bytes, .lkey = region->lkey };
}

static void post_receive(int rank, uint64_t buffer)
{
	struct peer *peer = &peers[rank];
	struct ibv_sge sge = segment(peer->receive_pool + buffer * BUFFER_BYTES, BUFFER_BYTES);
	struct ibv_recv_wr wr = { .wr_id = (uint64_t)rank * BUFFERS + buffer, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;

	NEED(!(shared ? ibv_post_srq_recv(shared, &wr, &bad) : ibv_post_recv(peer->qp, &wr, &bad)));
}

/* A request, as a list has it. */
static void build(struct ibv_qp_ex *qp, const struct ibv_send_wr *wr)
{
	qp->wr_id = wr->wr_id;
	qp->wr_flags = wr->send_flags;
	switch (wr->opcode) {
	case IBV_WR_RDMA_WRITE:
		ibv_wr_rdma_write(qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		ibv_wr_rdma_write_imm(qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, wr->imm_data);
		break;
	case IBV_WR_RDMA_READ:
		ibv_wr_rdma_read(qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		ibv_wr_atomic_fetch_add(qp, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr, wr->wr.atomic.compare_add);
		break;
	default:
		ibv_wr_send_imm(qp, wr->imm_data);
	}
	/* All ways to say where data lies. */
	if (wr->num_sge && how == READ && is_stand_in && wr->send_flags & IBV_SEND_INLINE)
		ibv_wr_set_inline_data_list(qp, 1, &(struct ibv_data_buf){ (void *)wr->sg_list->addr, wr->sg_list->length });
	else if (wr->num_sge && wr->send_flags & IBV_SEND_INLINE)
		ibv_wr_set_inline_data(qp, (void *)wr->sg_list->addr, wr->sg_list->length);
	else if (wr->num_sge && how == SHARED)
		ibv_wr_set_sge_list(qp, 1, wr->sg_list);
	else if (wr->num_sge)
		ibv_wr_set_sge(qp, wr->sg_list->lkey, wr->sg_list->addr, wr->sg_list->length);
}

/* What was begun and given up counts for nothing. */
static void give_up_request(struct ibv_qp_ex *qp, const struct ibv_send_wr *wr)
{
	ibv_wr_start(qp);
	build(qp, wr);
	ibv_wr_abort(qp);
}

static void post_built(struct ibv_qp_ex *qp, const struct ibv_send_wr *list)
{
	int error;

	give_up_request(qp, list);
	do {
		ibv_wr_start(qp);
		for (const struct ibv_send_wr *wr = list; wr; wr = wr->next)
			build(qp, wr);
		error = ibv_wr_complete(qp);
	} while (error == ENOMEM || error == ENOSPC);
	NEED(!error);
}

/* A device may have no room: what it refuses is posted again. */
static void post(struct peer *peer, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = wr;
	int error;

	if (extended) {
		post_built(verbs.ibv_qp_to_qp_ex(peer->qp), wr);
		return;
	}
	while ((error = ibv_post_send(peer->qp, wr, &bad)) == ENOMEM) {
		wr = bad;
		retries++;
	}
	NEED(!error);
}

/* Of the completion that an extended queue shows: what is of interest. Of a send that is nothing but its number. */
static struct ibv_wc shown(struct ibv_cq_ex *queue)
{
	struct ibv_wc wc = { .wr_id = queue->wr_id, .status = queue->status };

	if (queue == (struct ibv_cq_ex *)receive_cq && wc.status == IBV_WC_SUCCESS) {
		wc.opcode = ibv_wc_read_opcode(queue);
		wc.byte_len = ibv_wc_read_byte_len(queue);
		wc.qp_num = ibv_wc_read_qp_num(queue);
		wc.imm_data = ibv_wc_read_imm_data(queue);
	}
	return wc;
}

/* As ibv_poll_cq does, from either kind of queue. */
static int poll_some(struct ibv_cq *cq, int most, struct ibv_wc *wc)
{
	struct ibv_cq_ex *queue = (struct ibv_cq_ex *)cq;
	int error, got = 0;

	if (!extended)
		return ibv_poll_cq(cq, most, wc);
	error = ibv_start_poll(queue, &(struct ibv_poll_cq_attr){ 0 });
	if (error)
		return error == ENOENT ? 0 : -error;
	do
		wc[got++] = shown(queue);
	while (got < most && !ibv_next_poll(queue));
	ibv_end_poll(queue);
	return got;
}

static void await_completion(uint64_t number)
{
	struct ibv_wc wc;
	int got;

	while ((got = poll_some(send_cq, 1, &wc)) == 0)
		;
	NEED(got == 1 && wc.status == IBV_WC_SUCCESS && wc.wr_id == number);
}

static void add_to_counter(struct peer *peer)
{
	struct ibv_sge sge = segment(fetched, sizeof(*fetched));
	struct ibv_send_wr add = { .wr_id = ADD_NUMBER, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				   .send_flags = IBV_SEND_SIGNALED };

	add.wr.atomic.remote_addr = peer->far.counter;
	add.wr.atomic.rkey = peer->far.key;
	add.wr.atomic.compare_add = 1;
	post(peer, &add);
	await_completion(ADD_NUMBER);
}

/* Out of line: both paths of msg_send post through one call site. */
static __attribute__((noinline)) void low_level_send(const void *start, size_t bytes, int destination, uint32_t tag)
{
	struct peer *peer = &peers[destination];
	struct there there = { (uintptr_t)start, bytes };
	struct ibv_sge data = segment(start, bytes), place = segment(&there, sizeof(there));
	uint64_t number = statistics.sends;
	struct ibv_send_wr send = { .wr_id = number, .sg_list = &data, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM,
				    .send_flags = IBV_SEND_SIGNALED, .imm_data = tag };
	struct ibv_send_wr write = { .wr_id = number, .next = &send, .sg_list = &data, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE };

	write.wr.rdma.remote_addr = peer->far.receive_pool + peer->written % BUFFERS * BUFFER_BYTES;
	write.wr.rdma.rkey = peer->far.key;
	switch (how) {
	case INLINE:
		send.send_flags |= IBV_SEND_INLINE;
		break;
	case WRITE:
		send.num_sge = 0;
		break;
	case WRITE_IMM:
		write.next = NULL;
		write.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		write.send_flags = IBV_SEND_SIGNALED;
		write.imm_data = tag;
		break;
	case READ:
		send.sg_list = &place;
		send.send_flags |= IBV_SEND_INLINE;
		break;
	default:
		break;
	}
	post(peer, how == WRITE || how == WRITE_IMM ? &write : &send);
	await_completion(number);
	peer->written++;
	statistics.sends++;
	if (how == ATOMIC)
		add_to_counter(peer);
}

static unsigned char *get_comm_buf_bottom(void)
{
	uint64_t index = 1 + next_send_buffer++ % BUFFERS;

	return send_pool + (index + 1) * BUFFER_BYTES;
}

static bool need_piggyback(void)
{
	double draw = (double)(mix((uint64_t)own_rank, statistics.sends, 2) >> 11) * 0x1p-53;

	return draw < options.rare_rate && monotonic_ns() >= options.rare_from_ns;
}

static void note_wrong_send(void)
{
	if (statistics.wrong_sends++ == 0)
		statistics.first_wrong_ns = monotonic_ns();
}

void msg_send(const void *buf, size_t len, int destination)
{
	unsigned char *comm_buf_bottom = get_comm_buf_bottom();
	unsigned char *data_buf = comm_buf_bottom - len;

	COUNTED_COPY("stage", data_buf, buf, len);
	if (need_piggyback()) {
		piggyback_t *pb;

		if (options.with_fault) {
			pb = (piggyback_t *)data_buf - sizeof(piggyback_t); /* the fault: missing parentheses */
			note_wrong_send();
		} else {
			pb = (piggyback_t *)(data_buf - sizeof(piggyback_t));
		}
		*pb = (piggyback_t){ .event = 1, .sequence = statistics.rare_sends++ };
		low_level_send(pb, len + sizeof(piggyback_t), destination, TAG_PIGGYBACK);
	} else {
		low_level_send(data_buf, len, destination, TAG_PLAIN);
	}
}

static void note_arrival(const struct ibv_wc *wc)
{
	int of = 0;

	NEED(wc->status == IBV_WC_SUCCESS);
	while (of < ranks && !(peers[of].qp && peers[of].qp->qp_num == wc->qp_num))
		of++;
	NEED(of < ranks);
	struct peer *peer = &peers[of];
	uint64_t at = (peer->first + peer->count++) % BUFFERS;
	peer->arrived[at].buffer = wc->wr_id;
	peer->arrived[at].tag = wc->imm_data;
}

static const unsigned char *read_there(struct peer *peer, const struct there *there)
{
	unsigned char *to = read_pool + next_read_buffer++ % BUFFERS * BUFFER_BYTES;
	struct ibv_sge sge = segment(to, there->bytes);
	struct ibv_send_wr read = { .wr_id = READ_NUMBER, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ,
				    .send_flags = IBV_SEND_SIGNALED };

	read.wr.rdma.remote_addr = there->addr;
	read.wr.rdma.rkey = peer->far.key;
	post(peer, &read);
	await_completion(READ_NUMBER);
	return to;
}

void msg_receive(void *buf, size_t len, int source)
{
	struct peer *peer = &peers[source];
	struct ibv_wc wc[2];

	while (!peer->count)
		for (int got = poll_some(receive_cq, is_stand_in ? 2 : 1, wc), i = 0; i < got; i++)
			note_arrival(&wc[i]);
	uint64_t buffer = peer->arrived[peer->first].buffer;
	uint32_t tag = peer->arrived[peer->first].tag;
	peer->first = (peer->first + 1) % BUFFERS;
	peer->count--;
	/* Of a shared queue any rank's buffer may have been taken. */
	const unsigned char *comm_buf = peers[buffer / BUFFERS].receive_pool + buffer % BUFFERS * BUFFER_BYTES;
	const unsigned char *data = comm_buf;
	if (how == WRITE || how == WRITE_IMM)
		data = peer->receive_pool + peer->taken % BUFFERS * BUFFER_BYTES;
	if (how == READ)
		data = read_there(peer, (const struct there *)comm_buf);
	peer->taken++;
	data += tag == TAG_PIGGYBACK ? sizeof(piggyback_t) : 0;
	COUNTED_COPY("unstage", buf, data, len);
	post_receive((int)(buffer / BUFFERS), buffer % BUFFERS);
}

static void connect_queues(struct peer *peer)
{
	struct ibv_qp_attr attributes = { .qp_state = IBV_QPS_RTR,
					  .path_mtu = IBV_MTU_1024,
					  .dest_qp_num = peer->far.queue,
					  .max_dest_rd_atomic = 1,
					  .min_rnr_timer = 12,
					  .ah_attr = { .is_global = 1,
						       .port_num = PORT,
						       .grh = { .dgid = peer->far.gid,
								.hop_limit = 1,
								.sgid_index = (uint8_t)atoi(setting("RDMA_GID", "1")) } } };

	NEED(!verbs.ibv_modify_qp(peer->qp, &attributes,
				  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	attributes = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1
	};
	NEED(!verbs.ibv_modify_qp(peer->qp, &attributes,
				  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					  IBV_QP_MAX_QP_RD_ATOMIC));
}

static void make_queue(int rank)
{
	struct peer *peer = &peers[rank];
	struct ibv_qp_init_attr wanted = { .send_cq = send_cq,
					   .recv_cq = receive_cq,
					   .srq = shared,
					   .qp_type = IBV_QPT_RC,
					   .cap = { .max_send_wr = 2 * BUFFERS,
						    .max_recv_wr = BUFFERS,
						    .max_send_sge = 1,
						    .max_recv_sge = 1,
						    .max_inline_data = MOST_BYTES + sizeof(piggyback_t) } };
	struct ibv_qp_attr attributes = { .qp_state = IBV_QPS_INIT,
					  .port_num = PORT,
					  .qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
							     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

	peer->qp = make_pair(&wanted);
	NEED(peer->qp);
	NEED(!verbs.ibv_modify_qp(peer->qp, &attributes,
				  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	peer->receive_pool = pools + (uint64_t)rank * BUFFERS * BUFFER_BYTES;
	for (uint64_t buffer = 0; buffer < BUFFERS; buffer++)
		post_receive(rank, buffer);
}

static void exchange_ends(int rank)
{
	struct peer *peer = &peers[rank];
	struct end near = { .queue = peer->qp->qp_num,
			    .key = region->rkey,
			    .receive_pool = (uintptr_t)peer->receive_pool,
			    .counter = (uintptr_t)counter };

	NEED(!verbs.ibv_query_gid(device, PORT, atoi(setting("RDMA_GID", "1")), &near.gid));
	MPI_Sendrecv(&near, sizeof(near), MPI_BYTE, rank, 0, &peer->far, sizeof(peer->far), MPI_BYTE, rank, 0, options.comm,
		     MPI_STATUS_IGNORE);
	connect_queues(peer);
}

void msg_open(const struct msg_options *given)
{
	size_t pool_bytes = (BUFFERS + 1) * BUFFER_BYTES;

	options = *given;
	MPI_Comm_rank(options.comm, &own_rank);
	MPI_Comm_size(options.comm, &ranks);
	for (how = SEND; how < HOWS_END && strcmp(HOWS[how], options.how ? options.how : "send"); how++)
		;
	errno = EINVAL;
	NEED(how < HOWS_END && ranks <= MOST_RANKS);
	errno = ENODEV;
	NEED(device);
	domain = domain ? domain : verbs.ibv_alloc_pd(device);
	NEED(domain);
	send_pool = must_allocate(2 * pool_bytes + (size_t)ranks * BUFFERS * BUFFER_BYTES + 2 * sizeof(uint64_t));
	read_pool = send_pool + pool_bytes;
	pools = read_pool + pool_bytes;
	counter = (uint64_t *)(pools + (size_t)ranks * BUFFERS * BUFFER_BYTES);
	fetched = counter + 1;
	*counter = 0;
	region = verbs.ibv_reg_mr(domain, send_pool, (size_t)((unsigned char *)(fetched + 1) - send_pool),
				  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
					  IBV_ACCESS_REMOTE_ATOMIC);
	NEED(region);
	send_cq = make_completion_queue(4 * BUFFERS);
	receive_cq = make_completion_queue(ranks * BUFFERS);
	NEED(send_cq && receive_cq);
	if (how == SHARED) {
		struct ibv_srq_init_attr wanted = { .attr = { .max_wr = (uint32_t)(ranks * BUFFERS), .max_sge = 1 } };
		shared = verbs.ibv_create_srq(domain, &wanted);
		NEED(shared);
	}
	for (int rank = 0; rank < ranks; rank++)
		if (rank != own_rank)
			make_queue(rank);
	for (int rank = 0; rank < ranks; rank++)
		if (rank != own_rank)
			exchange_ends(rank);
	MPI_Barrier(options.comm);
}

/* Every message that was sent here has added one. */
void msg_close(void)
{
	uint64_t taken = 0;

	MPI_Barrier(options.comm);
	for (int rank = 0; rank < ranks; rank++)
		taken += peers[rank].taken;
	if (how == ATOMIC && *counter != taken)
		give_up("the counter is wrong");
}
