/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
 *
 * RDMA verbs: requests that a thread builds by ibv_wr_* functions, until they are posted together. What a request is and
 * where its data lies is said by one call after the other.
 */
#ifndef DMSCOPE_VERBS_BUILDING_H
#define DMSCOPE_VERBS_BUILDING_H

/* Of what is built between ibv_wr_start and ibv_wr_complete; a power of two. */
#define MOST_BUILT 64
/* What a probe's cookie says of a function that builds requests, where it is no operation of a new one. */
#define BUILD_START 0x100
#define BUILD_ABORT 0x101
#define BUILD_SEGMENT 0x102
#define BUILD_SEGMENTS 0x103
#define BUILD_INLINE 0x104
#define BUILD_INLINE_LIST 0x105

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
		count_lost(t, OF_MOVEMENTS);
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
			count_lost(t, OF_MOVEMENTS);
		tell_in_use(qp, c.posting.queue, probe);
		bpf_loop(MOST_BUILT, post_built, &c, 0);
	}
	bpf_map_delete_elem(&drafts, &c.key);
	return 0;
}

#endif
