/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
 *
 * RDMA verbs: completions as they are polled, as a list or one after the other.
 */
#ifndef DMSCOPE_VERBS_POLLING_H
#define DMSCOPE_VERBS_POLLING_H

/* What a probe's cookie says of a function of a completion queue. */
#define POLL_LIST 0
#define POLL_NEXT 1
#define POLL_END 2
#define POLL_READ_OPERATION 3
#define POLL_READ_BYTES 4
#define POLL_READ_QUEUE 5

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
		count_lost(t, OF_MOVEMENTS);
		return 1;
	}
	r = reserve(t, sizeof(*r), OF_MOVEMENTS);
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
	r = reserve(t, sizeof(*r), OF_MOVEMENTS);
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
	struct target *t = hit_target_with_thread(&th, CLASS_VERBS_POLL, OF_MOVEMENTS);

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
		count_lost(t, OF_MOVEMENTS);
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
