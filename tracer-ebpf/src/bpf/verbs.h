/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
 *
 * RDMA verbs: work requests that were posted, and completions as they are polled, at the functions of the provider that
 * the tables of an opened device lead to; and queue pairs as they are connected. Structures are those of
 * <infiniband/verbs.h>.
 */
#ifndef DMSCOPE_VERBS_H
#define DMSCOPE_VERBS_H

/* Of one list, of one request, of one poll; what is beyond is counted as lost. */
#define MOST_REQUESTS 1024
#define MOST_SEGMENTS 64
#define MOST_COMPLETIONS 1024
/* What a probe's cookie says of a post: what kind of queue the first argument is. */
#define POST_SEND 0
#define POST_SHARED_RECEIVE 2
/* Of struct ibv_qp. */
#define QUEUE_CONTEXT_AT 0
#define QUEUE_SHARED_AT 40
#define QUEUE_HANDLE_AT 48
#define QUEUE_NUMBER_AT 52
#define QUEUE_TYPE_AT 60
/* Of struct ibv_device. */
#define DEVICE_NAME_AT 24
/* Of struct ibv_send_wr: where it writes or reads at the other end. */
#define REMOTE_AT 40
/* enum ibv_wr_opcode */
#define WR_RDMA_WRITE 0
#define WR_RDMA_WRITE_WITH_IMM 1
#define WR_RDMA_READ 4
#define WR_ATOMIC_CMP_AND_SWP 5
#define WR_ATOMIC_FETCH_AND_ADD 6
/* enum ibv_qp_state */
#define STATE_READY_TO_RECEIVE 2
#define STATE_READY_TO_SEND 3
/* enum ibv_qp_type */
#define TYPE_RELIABLE_CONNECTED 2
/* enum ibv_qp_attr_mask */
#define ATTR_STATE 1

/* The beginning of struct ibv_send_wr and of struct ibv_recv_wr, which ends before the operation. */
struct work_request {
	__u64 number;
	__u64 next;
	__u64 segments;
	__u32 segment_count;
	__u32 operation;
	__u32 send_flags;
	__u32 immediate;
};

#define RECEIVE_REQUEST_BYTES offsetof(struct work_request, operation)

/* struct ibv_sge */
struct work_segment {
	__u64 addr;
	__u32 len_bytes;
	__u32 key;
};

/* struct ibv_wc */
struct work_completion {
	__u64 number;
	__u32 status;
	__u32 operation;
	__u32 vendor_error;
	__u32 len_bytes;
	__u32 immediate;
	__u32 queue;
	__u32 source_queue;
	__u32 flags;
	__u64 unused;
};

/* The beginning of struct ibv_qp_attr. */
struct queue_attributes {
	__u32 state;
	__u32 unused[4];
	__u32 receive_psn;
	__u32 send_psn;
	__u32 peer;
	__u32 more_unused[6];
	__u64 address[2];
	__u32 flow_label;
	__u8 index;
	__u8 hops[3];
	__u16 lid;
	__u8 level[3];
	__u8 is_global;
	__u8 port;
};

/* A queue pair of a process. */
struct pair_key {
	__u64 start_ticks;
	__u32 pid;
	__u32 queue;
};

/* Queue pairs that were connected while we watched, or of which it was told that they are in use. None takes the place of
 * another one: that would be told again and again. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 16);
	__type(key, struct pair_key);
	__type(value, __u8);
} told_pairs SEC(".maps");

/* Whether it was told of before, or there is no room for more. */
static __always_inline bool is_told(const struct target *t, __u32 queue)
{
	struct pair_key key = { .start_ticks = t->start_ticks, .pid = bpf_get_current_pid_tgid() >> 32, .queue = queue };
	__u8 told = 1;

	if (bpf_map_lookup_elem(&told_pairs, &key))
		return true;
	return bpf_map_update_elem(&told_pairs, &key, &told, BPF_ANY) != 0;
}

/* What the program's own struct says of a queue pair. */
static __always_inline void fill_queue(struct dms_queue *r, __u64 qp)
{
	__u64 device = read_word(read_word(qp + QUEUE_CONTEXT_AT));

	r->queue = read_half(qp + QUEUE_NUMBER_AT);
	r->type = read_half(qp + QUEUE_TYPE_AT);
	r->shared = DMS_SHARED_QUEUE(read_word(qp + QUEUE_SHARED_AT));
	r->device[0] = read_word(device + DEVICE_NAME_AT);
	r->device[1] = read_word(device + DEVICE_NAME_AT + 8);
}

/* Before the first request to a queue pair that was not seen to be connected. */
static __noinline int tell_in_use(__u64 qp, __u32 queue, __u32 probe)
{
	struct dms_queue *r;
	struct thread *th;
	struct target *t = current_target(&th);

	if (!t || is_told(t, queue) || read_half(qp + QUEUE_TYPE_AT) != TYPE_RELIABLE_CONNECTED)
		return 0;
	r = reserve(t, sizeof(*r), false);
	if (!r)
		return 0;
	r->address[0] = r->address[1] = 0;
	r->peer = 0;
	r->state = DMS_QUEUE_IN_USE;
	r->port = r->index = 0;
	r->lid = r->is_global = 0;
	r->psn = read_half(qp + QUEUE_HANDLE_AT);
	fill_queue(r, qp);
	fill_header(&r->h, DMS_QUEUE, 0, probe);
	submit(r);
	return 0;
}

struct posting {
	struct work_request request;
	__u64 next;	/* the request that is looked at next */
	__u64 refused;	/* the first that was not taken; 0: all were */
	__u64 sp;
	__u64 remote;
	__u32 queue;
	__u32 probe;
	__u32 took_ns;
	__u16 flags;
	__u16 segment;
};

static __always_inline void record_work(struct posting *p, const struct work_segment *segment)
{
	struct dms_work *r;
	struct thread *th;
	struct target *t = current_target(&th);

	if (!t)
		return;
	r = reserve(t, sizeof(*r), false);
	if (!r)
		return;
	r->addr = segment->addr;
	r->number = p->request.number;
	r->queue = p->queue;
	r->len_bytes = segment->len_bytes;
	fill_context(&r->ctx, th, p->sp);
	r->operation = p->flags ? 0 : p->request.operation;
	r->send_flags = p->flags ? 0 : p->request.send_flags;
	r->segment = p->segment;
	r->segments = p->request.segment_count;
	r->took_ns = p->took_ns;
	r->remote = p->remote;
	fill_header(&r->h, DMS_WORK, p->flags, p->probe);
	submit(r);
}

static long post_segment(__u32 i, void *data)
{
	struct posting *p = data;
	struct work_segment segment = {};

	if (i && i >= p->request.segment_count)
		return 1;
	p->segment = i;
	if (p->request.segment_count &&
	    bpf_probe_read_user(&segment, sizeof(segment), (void *)(p->request.segments + i * sizeof(segment)))) {
		struct thread *th;
		struct target *t = current_target(&th);

		if (t)
			count_lost(t, false);
		return 1;
	}
	record_work(p, &segment);
	if (p->remote)
		p->remote += segment.len_bytes;
	return 0;
}

static __always_inline bool is_one_sided(__u32 operation)
{
	return operation == WR_RDMA_WRITE || operation == WR_RDMA_WRITE_WITH_IMM || operation == WR_RDMA_READ ||
	       operation == WR_ATOMIC_CMP_AND_SWP || operation == WR_ATOMIC_FETCH_AND_ADD;
}

static long post_request(__u32 i, void *data)
{
	struct posting *p = data;
	__u64 at = p->next;
	__u32 size = p->flags ? RECEIVE_REQUEST_BYTES : sizeof(p->request);
	struct thread *th;
	struct target *t;

	if (!at || at == p->refused)
		return 1;
	t = current_target(&th);
	if (!t)
		return 1;
	if (bpf_probe_read_user(&p->request, size, (void *)at)) {
		count_lost(t, false);
		p->next = 0;
		return 1;
	}
	p->next = p->request.next;
	p->remote = 0;
	if (!p->flags && is_one_sided(p->request.operation))
		p->remote = read_word(at + REMOTE_AT);
	if (p->request.segment_count > MOST_SEGMENTS)
		count_lost(t, false);
	bpf_loop(MOST_SEGMENTS, post_segment, p, 0);
	return 0;
}

/* post_send(queue pair, list, refused), post_recv(queue pair, list, …), post_srq_recv(shared receive queue, list, …) */
static __always_inline bool verbs_post_enter(struct pt_regs *ctx)
{
	struct thread *th;
	struct target *t = hit_target_with_thread(&th, CLASS_VERBS_POST, false);

	if (!t || !th)
		return false;
	th->post_queue = PT_REGS_PARM1(ctx);
	th->post_at = PT_REGS_PARM2(ctx);
	th->post_refused_at = PT_REGS_PARM3(ctx);
	th->verbs_since_ns = bpf_ktime_get_ns();
	return true;
}

static __always_inline __u32 short_time(__u64 ns)
{
	return ns < ~0U ? ns : ~0U;
}

/* When it is known how many requests were taken. */
static __always_inline int verbs_post_return(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	struct posting p = { .sp = PT_REGS_SP(ctx), .probe = cookie_probe(cookie) };
	struct thread *th;
	struct target *t = current_target(&th);

	if (!t || !th || !th->post_at)
		return 0;
	p.next = th->post_at;
	th->post_at = 0;
	p.took_ns = short_time(bpf_ktime_get_ns() - th->verbs_since_ns);
	if ((int)PT_REGS_RC(ctx)) {
		p.refused = read_word(th->post_refused_at);
		if (!p.refused)
			return 0;
	}
	if (cookie_argument(cookie) != POST_SEND)
		p.flags = DMS_WORK_RECEIVE;
	if (cookie_argument(cookie) == POST_SHARED_RECEIVE) {
		p.flags |= DMS_WORK_SHARED;
		p.queue = DMS_SHARED_QUEUE(th->post_queue);
	} else {
		p.queue = read_half(th->post_queue + QUEUE_NUMBER_AT);
		tell_in_use(th->post_queue, p.queue, p.probe);
	}
	bpf_loop(MOST_REQUESTS, post_request, &p, 0);
	if (p.next && p.next != p.refused)
		count_lost(t, false);
	return 0;
}

SEC("uprobe.session")
int dms_verbs_post_session(struct pt_regs *ctx)
{
	KEEP_FRAME_OF_TASK(ctx, session);
	if (is_return(ctx))
		return verbs_post_return(ctx);
	return verbs_post_enter(ctx) ? 0 : 1;
}

SEC("uprobe.multi")
int dms_verbs_post_entry(struct pt_regs *ctx)
{
	KEEP_FRAME_OF_TASK(ctx, multi);
	verbs_post_enter(ctx);
	return 0;
}

SEC("uretprobe.multi")
int dms_verbs_post_exit(struct pt_regs *ctx)
{
	KEEP_FRAME_OF_TASK(ctx, multi);
	return verbs_post_return(ctx);
}

/* ibv_modify_qp(queue pair, attributes, which of them): rare, and what makes a pair of two queue pairs. */
SEC("uprobe.multi")
int dms_verbs_queue(struct pt_regs *ctx)
{
	KEEP_FRAME_OF_TASK(ctx, multi);
	__u64 qp = PT_REGS_PARM1(ctx);
	struct queue_attributes attributes = {};
	struct dms_queue *r;
	struct thread *th;
	struct target *t = hit_target(&th, CLASS_VERBS_QUEUE);

	if (!t || !(PT_REGS_PARM3(ctx) & ATTR_STATE))
		return 0;
	bpf_probe_read_user(&attributes, sizeof(attributes), (void *)PT_REGS_PARM2(ctx));
	if (attributes.state == STATE_READY_TO_RECEIVE)
		is_told(t, read_half(qp + QUEUE_NUMBER_AT));
	r = reserve(t, sizeof(*r), false);
	if (!r)
		return 0;
	r->address[0] = attributes.address[0];
	r->address[1] = attributes.address[1];
	r->peer = attributes.peer;
	r->state = attributes.state;
	r->port = attributes.port;
	r->index = attributes.index;
	r->lid = attributes.lid;
	r->is_global = attributes.is_global != 0;
	r->psn = attributes.state == STATE_READY_TO_SEND ? attributes.send_psn : attributes.receive_psn;
	fill_queue(r, qp);
	fill_header(&r->h, DMS_QUEUE, 0, cookie_probe(bpf_get_attach_cookie(ctx)));
	submit(r);
	return 0;
}

struct polling {
	__u64 at;
	__u64 sp;
	__u64 idle_since_ns;	/* 0: not known */
	__u32 took_ns;
	__u32 count;
	__u32 probe;
};

/* 0: it does not fit. */
static __always_inline __u32 whole_time(__u64 ns)
{
	return ns < ~0U ? ns : 0;
}

static long take_completion(__u32 i, void *data)
{
	struct polling *p = data;
	struct work_completion completion;
	struct dms_completion *r;
	struct thread *th;
	struct target *t;

	if (i >= p->count)
		return 1;
	t = current_target(&th);
	if (!t)
		return 1;
	if (bpf_probe_read_user(&completion, sizeof(completion), (void *)(p->at + i * sizeof(completion)))) {
		count_lost(t, false);
		return 1;
	}
	r = reserve(t, sizeof(*r), false);
	if (!r)
		return 0;
	r->number = completion.number;
	r->queue = completion.queue;
	/* Of what failed, the number and the status alone are valid. */
	r->len_bytes = completion.status ? 0 : completion.len_bytes;
	r->operation = completion.status ? 0 : completion.operation;
	r->status = completion.status;
	fill_context(&r->ctx, th, p->sp);
	r->took_ns = p->took_ns;
	fill_header(&r->h, DMS_COMPLETION, 0, p->probe);
	r->idle_ns = p->idle_since_ns ? whole_time(r->h.time_ns - p->idle_since_ns) : 0;
	submit(r);
	return 0;
}

/* poll_cq(completion queue, most, completions) */
static __always_inline bool verbs_poll_enter(struct pt_regs *ctx)
{
	struct thread *th;
	struct target *t = hit_target_with_thread(&th, CLASS_VERBS_POLL, false);

	if (!t || !th)
		return false;
	th->poll_queue = PT_REGS_PARM1(ctx);
	th->completions_at = PT_REGS_PARM3(ctx);
	th->verbs_since_ns = bpf_ktime_get_ns();
	return true;
}

static __always_inline int verbs_poll_return(struct pt_regs *ctx)
{
	struct polling p = { .sp = PT_REGS_SP(ctx) };
	struct thread *th;
	struct target *t = current_target(&th);
	int count = (int)PT_REGS_RC(ctx);
	struct idle_queue *idle;

	if (!t || !th || !th->completions_at)
		return 0;
	p.at = th->completions_at;
	p.probe = cookie_probe(bpf_get_attach_cookie(ctx));
	th->completions_at = 0;
	idle = &th->idle[(th->poll_queue >> 6) % IDLE_QUEUES];
	if (count <= 0) {
		if (!count) {
			idle->at = th->poll_queue;
			idle->since_ns = th->verbs_since_ns;
		}
		count_refused(t);
		return 0;
	}
	p.count = count;
	p.took_ns = short_time(bpf_ktime_get_ns() - th->verbs_since_ns);
	p.idle_since_ns = idle->at == th->poll_queue ? idle->since_ns : 0;
	if (p.count > MOST_COMPLETIONS)
		count_lost(t, false);
	bpf_loop(MOST_COMPLETIONS, take_completion, &p, 0);
	return 0;
}

SEC("uprobe.session")
int dms_verbs_poll_session(struct pt_regs *ctx)
{
	KEEP_FRAME_OF_TASK(ctx, session);
	if (is_return(ctx))
		return verbs_poll_return(ctx);
	return verbs_poll_enter(ctx) ? 0 : 1;
}

SEC("uprobe.multi")
int dms_verbs_poll_entry(struct pt_regs *ctx)
{
	KEEP_FRAME_OF_TASK(ctx, multi);
	verbs_poll_enter(ctx);
	return 0;
}

SEC("uretprobe.multi")
int dms_verbs_poll_exit(struct pt_regs *ctx)
{
	KEEP_FRAME_OF_TASK(ctx, multi);
	return verbs_poll_return(ctx);
}

#endif
