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
/* Of what is built between ibv_wr_start and ibv_wr_complete; a power of two. */
#define MOST_BUILT 64
/* What a probe's cookie says of a post: what kind of queue the first argument is, and whether there is a list of requests. */
#define POST_SEND 0
#define POST_SHARED_RECEIVE 2
#define POST_BUILT 3
/* What it says of a function that builds requests, where it is no operation of a new one. */
#define BUILD_START 0x100
#define BUILD_ABORT 0x101
#define BUILD_SEGMENT 0x102
#define BUILD_SEGMENTS 0x103
#define BUILD_INLINE 0x104
#define BUILD_INLINE_LIST 0x105
/* And of one of a completion queue. */
#define POLL_LIST 0
#define POLL_NEXT 1
#define POLL_END 2
#define POLL_READ_OPERATION 3
#define POLL_READ_BYTES 4
#define POLL_READ_QUEUE 5
/* Of struct ibv_qp. */
#define QUEUE_CONTEXT_AT 0
#define QUEUE_SEND_CQ_AT 24
#define QUEUE_RECEIVE_CQ_AT 32
#define QUEUE_SHARED_AT 40
#define QUEUE_HANDLE_AT 48
#define QUEUE_NUMBER_AT 52
#define QUEUE_TYPE_AT 60
/* Of struct ibv_qp_ex: what the program says of the next request. */
#define BUILT_NUMBER_AT 168
#define BUILT_FLAGS_AT 176
/* Of struct ibv_cq_ex. */
#define POLLED_STATUS_AT 132
#define POLLED_NUMBER_AT 136
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
/* enum ibv_send_flags */
#define SEND_INLINE 8
/* enum ibv_wc_opcode */
#define WC_RECEIVE 128
/* What ibv_start_poll answers if there is nothing: ENOENT. */
#define NOTHING_THERE 2
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

/* Which queue pairs put their completions into a completion queue: one, or SEVERAL. */
struct users {
	__u32 sender;	/* 0: none */
	__u32 receiver;
};

struct users_key {
	__u64 start_ticks;
	__u64 queue_at;
	__u64 pid;
};

#define SEVERAL 0xffffffff

/* Only of queue pairs of which it was told. A program need not ask an extended queue what it can tell by itself. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 14);
	__type(key, struct users_key);
	__type(value, struct users);
} completion_users SEC(".maps");

static __always_inline struct users_key users_key(const struct target *t, __u64 queue_at)
{
	struct users_key key = { .start_ticks = t->start_ticks, .queue_at = queue_at };

	key.pid = bpf_get_current_pid_tgid() >> 32;
	return key;
}

static __always_inline __u32 one_more(__u32 user, __u32 queue)
{
	return !user || user == queue ? queue : SEVERAL;
}

static __always_inline void note_user(const struct target *t, __u64 queue_at, __u32 queue, bool receives)
{
	struct users_key key = users_key(t, queue_at);
	struct users *known = bpf_map_lookup_elem(&completion_users, &key), users = {};

	if (known)
		users = *known;
	if (receives)
		users.receiver = one_more(users.receiver, queue);
	else
		users.sender = one_more(users.sender, queue);
	bpf_map_update_elem(&completion_users, &key, &users, BPF_ANY);
}

static __always_inline void note_completion_queues(const struct target *t, __u64 qp)
{
	__u32 queue = read_half(qp + QUEUE_NUMBER_AT);

	note_user(t, read_word(qp + QUEUE_SEND_CQ_AT), queue, false);
	note_user(t, read_word(qp + QUEUE_RECEIVE_CQ_AT), queue, true);
}

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

	if (!t || is_told(t, queue))
		return 0;
	note_completion_queues(t, qp);
	if (read_half(qp + QUEUE_TYPE_AT) != TYPE_RELIABLE_CONNECTED)
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

/*
 * Requests that a thread builds by ibv_wr_* functions, until they are posted together. What a request is and where its data
 * lies is said by one call after the other.
 */
struct built_segment {
	__u64 addr;
	__u64 number;
	__u64 remote;
	__u32 len_bytes;
	__u8 operation;
	__u8 send_flags;
	__u8 segment;
	__u8 segments;
};

struct draft {
	__u32 count;	/* of segments; there may be more than have room */
	__u32 first;	/* the first of the last request */
	struct built_segment segments[MOST_BUILT];
};

struct draft_key {
	__u64 thread;
	__u64 qp;
};

/* The kernel has memory for more of them again as soon as an interrupt was taken, as for threads. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 12);
	__type(key, struct draft_key);
	__type(value, struct draft);
} drafts SEC(".maps");

/* Too large for a stack. */
struct draft empty_draft;

static __always_inline struct draft_key draft_key(__u64 qp)
{
	return (struct draft_key){ .thread = bpf_get_current_pid_tgid(), .qp = qp };
}

static __always_inline struct built_segment *built_segment(struct draft *draft, __u32 at)
{
	if (at >= MOST_BUILT)
		return NULL;
	/* The kernel must see the bound where the compiler knows it already. */
	barrier_var(at);
	return &draft->segments[at & (MOST_BUILT - 1)];
}

/* wr_send(queue pair, …), wr_rdma_write(queue pair, key, where, …) and its like: a request without data, so far. */
static __always_inline void build_request(struct draft *draft, struct pt_regs *ctx, __u32 operation)
{
	__u64 qp = PT_REGS_PARM1(ctx);
	struct built_segment *s = built_segment(draft, draft->count);

	draft->first = draft->count++;
	if (!s)
		return;
	s->addr = 0;
	s->len_bytes = 0;
	s->number = read_word(qp + BUILT_NUMBER_AT);
	s->remote = is_one_sided(operation) ? PT_REGS_PARM3(ctx) : 0;
	s->operation = operation;
	s->send_flags = read_half(qp + BUILT_FLAGS_AT);
	s->segment = s->segments = 0;
}

struct building {
	struct draft_key key;
	__u64 list;		/* of struct ibv_sge, or of struct ibv_data_buf: both begin with an address and a length */
	struct work_segment only;	/* if there is no list */
	__u64 remote;
	__u32 count;
	__u32 send_flags;
};

static long build_segment(__u32 i, void *data)
{
	struct building *b = data;
	struct draft *draft = bpf_map_lookup_elem(&drafts, &b->key);
	struct work_segment segment = b->only;
	struct built_segment *first, *s;
	__u32 at;

	if (!draft || i >= b->count)
		return 1;
	first = built_segment(draft, draft->first);
	at = draft->first + i;
	s = built_segment(draft, at);
	draft->count = at + 1;
	if (!first || !s)
		return 0;
	/* What cannot be read has no length. */
	if (b->list)
		bpf_probe_read_user(&segment, sizeof(segment), (void *)(b->list + i * sizeof(segment)));
	if (!i)
		b->remote = first->remote;
	s->addr = segment.addr;
	s->len_bytes = segment.len_bytes;
	s->number = first->number;
	s->remote = b->remote;
	s->operation = first->operation;
	s->send_flags = first->send_flags | b->send_flags;
	s->segment = i;
	s->segments = b->count;
	if (b->remote)
		b->remote += segment.len_bytes;
	return 0;
}

/* wr_set_sge(queue pair, key, address, length), wr_set_sge_list(queue pair, count, list), wr_set_inline_data(queue pair, address,
 * length), wr_set_inline_data_list(queue pair, count, list): where the data of the last request lies. */
static __always_inline void build_segments(struct draft_key key, struct pt_regs *ctx, __u32 what)
{
	struct building b = { .key = key, .count = 1 };

	if (what == BUILD_SEGMENT) {
		b.only.addr = PT_REGS_PARM3(ctx);
		b.only.len_bytes = PT_REGS_PARM4(ctx);
	} else if (what == BUILD_INLINE) {
		b.only.addr = PT_REGS_PARM2(ctx);
		b.only.len_bytes = PT_REGS_PARM3(ctx);
	} else {
		b.count = PT_REGS_PARM2(ctx);
		b.list = PT_REGS_PARM3(ctx);
	}
	if (what == BUILD_INLINE || what == BUILD_INLINE_LIST)
		b.send_flags = SEND_INLINE;
	bpf_loop(MOST_SEGMENTS, build_segment, &b, 0);
}

static long try_to_begin_draft(__u32 i, void *key)
{
	return !bpf_map_update_elem(&drafts, key, &empty_draft, BPF_ANY);
}

static __noinline int begin_draft(__u64 qp)
{
	struct draft_key key = draft_key(qp);
	struct thread *th;
	struct target *t = current_target(&th);

	bpf_loop(MOST_THREAD_TRIES, try_to_begin_draft, &key, 0);
	if (t && !bpf_map_lookup_elem(&drafts, &key))
		count_lost(t, false);
	return 0;
}

SEC("uprobe.multi")
int dms_verbs_build(struct pt_regs *ctx)
{
	KEEP_FRAME_OF_TASK(ctx, multi);
	struct draft_key key = draft_key(PT_REGS_PARM1(ctx));
	__u32 what = cookie_argument(bpf_get_attach_cookie(ctx));
	struct thread *th;
	struct target *t = hit_target(&th, CLASS_VERBS_BUILD);
	struct draft *draft;

	if (!t)
		return 0;
	count_declined(t);
	if (what == BUILD_START)
		return begin_draft(key.qp);
	draft = bpf_map_lookup_elem(&drafts, &key);
	/* It was begun unseen. */
	if (!draft)
		return 0;
	if (what == BUILD_ABORT)
		bpf_map_delete_elem(&drafts, &key);
	else if (what < BUILD_START)
		build_request(draft, ctx, what);
	else if (draft->count)
		build_segments(key, ctx, what);
	return 0;
}

struct committing {
	struct posting posting;
	struct draft_key key;
};

static long post_built(__u32 i, void *data)
{
	struct committing *c = data;
	struct draft *draft = bpf_map_lookup_elem(&drafts, &c->key);
	struct work_segment segment = {};
	struct built_segment *s;

	if (!draft || i >= draft->count)
		return 1;
	s = built_segment(draft, i);
	if (!s)
		return 1;
	segment.addr = s->addr;
	segment.len_bytes = s->len_bytes;
	c->posting.request.number = s->number;
	c->posting.request.operation = s->operation;
	c->posting.request.send_flags = s->send_flags;
	c->posting.request.segment_count = s->segments;
	c->posting.segment = s->segment;
	c->posting.remote = s->remote;
	record_work(&c->posting, &segment);
	return 0;
}

/* wr_complete(queue pair): takes all or nothing. */
static __noinline int commit(__u64 qp, __u64 sp, __u32 probe, __u32 took_ns, bool is_taken)
{
	struct committing c = { .posting = { .sp = sp, .probe = probe, .took_ns = took_ns }, .key = draft_key(qp) };
	struct draft *draft = bpf_map_lookup_elem(&drafts, &c.key);
	struct thread *th;
	struct target *t = current_target(&th);

	if (draft && t && is_taken) {
		c.posting.queue = read_half(qp + QUEUE_NUMBER_AT);
		if (draft->count > MOST_BUILT)
			count_lost(t, false);
		tell_in_use(qp, c.posting.queue, probe);
		bpf_loop(MOST_BUILT, post_built, &c, 0);
	}
	bpf_map_delete_elem(&drafts, &c.key);
	return 0;
}

/* post_send(queue pair, list, refused), post_recv(queue pair, list, …), post_srq_recv(shared receive queue, list, …),
 * wr_complete(queue pair) */
static __always_inline bool verbs_post_enter(struct pt_regs *ctx)
{
	bool is_list = cookie_argument(bpf_get_attach_cookie(ctx)) != POST_BUILT;
	struct thread *th;
	struct target *t = hit_target_with_thread(&th, CLASS_VERBS_POST, false);

	if (!t || !th)
		return false;
	th->post_queue = PT_REGS_PARM1(ctx);
	th->post_at = is_list ? PT_REGS_PARM2(ctx) : th->post_queue;
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
	if (cookie_argument(cookie) == POST_BUILT)
		return commit(th->post_queue, p.sp, p.probe, p.took_ns, !(int)PT_REGS_RC(ctx));
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
	if (attributes.state == STATE_READY_TO_RECEIVE) {
		is_told(t, read_half(qp + QUEUE_NUMBER_AT));
		note_completion_queues(t, qp);
	}
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

/* What is known of a completion; bits of struct polled. */
#define KNOWS_OPERATION 1
#define KNOWS_BYTES 2
#define KNOWS_QUEUE 4
/* Records are so much older than those before them in their ring at most: far less than the bound on lateness. */
#define MOST_BACK_NS 5000000
/* A program that asks later may have used what it received long before: when it did is not known. */
#define LONGEST_READING_NS 200000000

static __always_inline bool is_receive(const struct polled *p)
{
	return p->operation & WC_RECEIVE;
}

/* Whether the program has asked for all that matters. */
static __always_inline bool is_told_of_all(const struct polled *p)
{
	__u32 needed = KNOWS_OPERATION | KNOWS_QUEUE;

	if (is_receive(p))
		needed |= KNOWS_BYTES;
	return (p->known & needed) == needed;
}

/* What the program did not ask, because it knows it by the completion queue: so do we, if there is one queue pair. */
static __always_inline void complete_by_users(const struct target *t, struct polled *p)
{
	struct users_key key = users_key(t, p->queue_at);
	struct users *users = bpf_map_lookup_elem(&completion_users, &key);
	__u32 user;

	if (!users)
		return;
	if (!(p->known & KNOWS_OPERATION) && users->sender && !users->receiver)
		p->known |= KNOWS_OPERATION;
	user = is_receive(p) ? users->receiver : users->sender;
	if ((p->known & (KNOWS_OPERATION | KNOWS_QUEUE)) == KNOWS_OPERATION && user && user != SEVERAL) {
		p->queue = user;
		p->known |= KNOWS_QUEUE;
	}
}

/* When the poll was, or nearly: the thread may have been kept from asking on. */
static __always_inline __u64 time_of_poll(const struct polled *p, __u64 now_ns)
{
	return now_ns - p->time_ns < MOST_BACK_NS ? p->time_ns : now_ns - MOST_BACK_NS;
}

/*
 * The completion that the thread has got from an extended queue: when all is known, or (`is_last`) nothing more will be
 * asked. Its time is that of the poll: the program may use what it received before it asks for all.
 */
static __noinline int tell_polled(__u64 sp, __u32 status, bool is_last)
{
	struct dms_completion *r;
	struct thread *th;
	struct target *t = current_target(&th);
	struct polled *p;

	if (!t || !th || !th->polled.queue_at)
		return 0;
	p = &th->polled;
	complete_by_users(t, p);
	if (!is_last && !is_told_of_all(p))
		return 0;
	p->queue_at = 0;
	r = reserve(t, sizeof(*r), false);
	if (!r)
		return 0;
	r->number = p->number;
	r->queue = p->queue;
	r->len_bytes = p->len_bytes;
	r->operation = p->operation;
	r->status = status;
	fill_context(&r->ctx, th, sp);
	r->took_ns = p->took_ns;
	fill_header(&r->h, DMS_COMPLETION, 0, p->probe);
	if (r->h.time_ns - p->time_ns > LONGEST_READING_NS)
		p->known = 0;
	r->h.time_ns = time_of_poll(p, r->h.time_ns);
	if (!is_told_of_all(p))
		r->queue = status ? p->queue : 0;
	r->idle_ns = p->idle_since_ns ? whole_time(r->h.time_ns - p->idle_since_ns) : 0;
	submit(r);
	return 0;
}

static __always_inline __u32 known_by(__u32 what)
{
	switch (what) {
	case POLL_READ_OPERATION:
		return KNOWS_OPERATION;
	case POLL_READ_BYTES:
		return KNOWS_BYTES;
	case POLL_READ_QUEUE:
		return KNOWS_QUEUE;
	default:
		return 0;
	}
}

/*
 * poll_cq(completion queue, most, completions); of an extended completion queue: start_poll(queue, …), next_poll(queue),
 * end_poll(queue), read_opcode(queue), read_byte_len(queue), read_qp_num(queue)
 */
static __always_inline bool verbs_poll_enter(struct pt_regs *ctx)
{
	__u32 what = cookie_argument(bpf_get_attach_cookie(ctx)), reads = known_by(what);
	__u64 queue = PT_REGS_PARM1(ctx);
	struct thread *th;
	struct target *t = hit_target_with_thread(&th, CLASS_VERBS_POLL, false);

	if (!t || !th)
		return false;
	if (reads) {
		count_refused(t);
		return th->polled.queue_at == queue && !(th->polled.known & reads);
	}
	if (what != POLL_LIST && th->polled.queue_at)
		tell_polled(PT_REGS_SP(ctx), 0, true);
	if (what == POLL_END) {
		count_declined(t);
		return false;
	}
	th->poll_queue = queue;
	th->completions_at = what == POLL_LIST ? PT_REGS_PARM3(ctx) : queue;
	th->verbs_since_ns = bpf_ktime_get_ns();
	return true;
}

static __always_inline struct idle_queue *idle_queue(struct thread *th)
{
	return &th->idle[(th->poll_queue >> 6) % IDLE_QUEUES];
}

static __always_inline void note_idle(struct target *t, struct thread *th, bool is_empty)
{
	struct idle_queue *idle = idle_queue(th);

	if (is_empty) {
		idle->at = th->poll_queue;
		idle->since_ns = th->verbs_since_ns;
	}
	count_refused(t);
}

static __always_inline __u64 idle_since(struct thread *th)
{
	struct idle_queue *idle = idle_queue(th);

	return idle->at == th->poll_queue ? idle->since_ns : 0;
}

/* start_poll and next_poll: what they have found is read by functions. */
static __always_inline int poll_next_return(struct pt_regs *ctx, struct target *t, struct thread *th)
{
	struct polled *p = &th->polled;
	int answer = (int)PT_REGS_RC(ctx);
	__u32 status;

	if (answer) {
		note_idle(t, th, answer == NOTHING_THERE);
		return 0;
	}
	p->queue_at = th->poll_queue;
	p->number = read_word(p->queue_at + POLLED_NUMBER_AT);
	p->time_ns = bpf_ktime_get_ns();
	p->took_ns = short_time(p->time_ns - th->verbs_since_ns);
	p->idle_since_ns = idle_since(th);
	p->probe = cookie_probe(bpf_get_attach_cookie(ctx));
	p->known = p->operation = p->len_bytes = p->queue = 0;
	status = read_half(p->queue_at + POLLED_STATUS_AT);
	/* Of what failed, the rest is not valid. */
	return tell_polled(PT_REGS_SP(ctx), status, status != 0);
}

static __always_inline int poll_read_return(struct pt_regs *ctx, struct thread *th, __u32 what)
{
	struct polled *p = &th->polled;
	__u32 value = PT_REGS_RC(ctx);

	if (!p->queue_at)
		return 0;
	if (what == POLL_READ_OPERATION)
		p->operation = value;
	else if (what == POLL_READ_BYTES)
		p->len_bytes = value;
	else
		p->queue = value;
	p->known |= known_by(what);
	return tell_polled(PT_REGS_SP(ctx), 0, false);
}

static __always_inline int verbs_poll_return(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	struct polling p = { .sp = PT_REGS_SP(ctx), .probe = cookie_probe(cookie) };
	__u32 what = cookie_argument(cookie);
	struct thread *th;
	struct target *t = current_target(&th);
	int count = (int)PT_REGS_RC(ctx);

	if (!t || !th)
		return 0;
	if (known_by(what))
		return poll_read_return(ctx, th, what);
	if (!th->completions_at)
		return 0;
	p.at = th->completions_at;
	th->completions_at = 0;
	if (what != POLL_LIST)
		return poll_next_return(ctx, t, th);
	if (count <= 0) {
		note_idle(t, th, !count);
		return 0;
	}
	p.count = count;
	p.took_ns = short_time(bpf_ktime_get_ns() - th->verbs_since_ns);
	p.idle_since_ns = idle_since(th);
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
