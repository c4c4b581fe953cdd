/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
 *
 * RDMA verbs: queue pairs as they are connected, or found in use.
 */
#ifndef DMSCOPE_VERBS_QUEUES_H
#define DMSCOPE_VERBS_QUEUES_H

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
	r = reserve(t, sizeof(*r), OF_MOVEMENTS);
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
	r = reserve(t, sizeof(*r), OF_MOVEMENTS);
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

#endif
