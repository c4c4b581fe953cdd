/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
 *
 * MPI calls. A polling call is seen where it succeeds: at a place that it reaches only
 * then, or, where the code has none, at its return with its flag set.
 */
#ifndef DMSCOPE_CALLS_H
#define DMSCOPE_CALLS_H

/* The cookie's argument: which parameter points to where a handle is stored, from 1 (0: none) … */
#define MADE_PARAMETER 31
/* … whether handles are half a word … */
#define MADE_HALF 32
/* … and how many arguments on the stack are recorded as well. */
#define STACK_SHIFT 6
#define MOST_STACK_ARGUMENTS 5

static __always_inline __u64 made_at(struct pt_regs *ctx, __u64 return_slot, __u32 parameter)
{
	__u64 second = PT_REGS_PARM2(ctx), third = PT_REGS_PARM3(ctx), fourth = PT_REGS_PARM4(ctx);
	__u64 fifth = PT_REGS_PARM5(ctx), sixth = PT_REGS_PARM6(ctx);

	if (parameter > 6)
		return read_word(return_slot + 8 * (parameter - 6));
	/* Else the compiler reads from a chosen offset, which the verifier does not allow. */
	barrier_var(second);
	barrier_var(third);
	barrier_var(fourth);
	barrier_var(fifth);
	barrier_var(sixth);
	return parameter == 2 ? second : parameter == 3 ? third : parameter == 4 ? fourth : parameter == 5 ? fifth
													    : sixth;
}

/*
 * Without a hooked return, what a call stored is read at the thread's next call. By then a handle
 * may have been overwritten, mostly because what it stood for is over. Threads that note their calls
 * may make many before the next hit: then nothing is read here.
 */
static __always_inline void put_made(struct target *t, struct thread *th)
{
	struct dms_made *r = reserve(t, sizeof(*r), OF_CALLS);
	__u64 at = th->made_at;

	th->made_at = 0;
	if (!r)
		return;
	r->handle = 0;
	bpf_probe_read_user(&r->handle, th->made_bytes == 4 ? 4 : 8, (void *)at);
	fill_header(&r->h, DMS_MADE, 0, th->made_probe);
	submit(r);
}

static __always_inline void expect_made(struct pt_regs *ctx, struct thread *th, __u64 return_slot, __u64 cookie)
{
	__u32 argument = cookie_argument(cookie);

	if (!argument || th->target.notes_at)
		return;
	th->made_at = made_at(ctx, return_slot, argument & MADE_PARAMETER);
	th->made_probe = cookie_probe(cookie);
	th->made_bytes = argument & MADE_HALF ? 4 : 8;
}

/* What does not fit into registers: where communicators of collective calls mostly are. */
static __always_inline void put_stack(struct target *t, __u64 return_slot, __u32 serial, __u32 probe, __u32 count)
{
	struct dms_values *r;

	if (!count || count > MOST_STACK_ARGUMENTS)
		return;
	r = reserve(t, sizeof(*r), OF_CALLS);
	if (!r)
		return;
	/* All that fits, whose length the verifier knows; the rest is no argument. */
	if (bpf_probe_read_user(r->words, sizeof(r->words), (void *)(return_slot + 8))) {
		bpf_ringbuf_discard(r, BPF_RB_NO_WAKEUP);
		return;
	}
	r->serial = serial;
	r->argument = DMS_STACK_ARGUMENTS;
	r->total_bytes = 8 * count;
	r->position_bytes = 0;
	fill_header(&r->h, DMS_VALUES, 0, probe);
	submit(r);
}

SEC("uprobe.multi")
int dms_call(struct pt_regs *ctx)
{
	KEEP_FRAME_OF_TASK(ctx, multi);
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u64 return_slot, return_address;
	enum entered entered = ENTERED;
	struct dms_call *r;
	struct thread *th;
	struct target *t;
	bool outermost;

	t = hit_target(&th, CLASS_CALL);
	if (!t || is_recorded_by_other_link(th, cookie))
		return 0;
	return_slot = PT_REGS_SP(ctx) + cookie_stack_bytes(cookie);
	return_address = read_word(return_slot);
	if (th)
		entered = enter_call(t, th, return_slot, return_address, cookie_probe(cookie));
	/* Without memory for the thread nobody knows which way it came. */
	if (!th && is_moved(t, cookie)) {
		count_lost(t, OF_CALLS);
		return 0;
	}
	/* One that came through its slot before that led elsewhere was not recorded. */
	if (entered != ENTERED && is_moved(t, cookie))
		return 0;
	outermost = entered != ENTERED_NESTED;
	if (th && outermost) {
		if (th->made_at)
			put_made(t, th);
		expect_made(ctx, th, return_slot, cookie);
	}
	r = reserve(t, sizeof(*r), OF_CALLS);
	if (!r)
		return 0;
	r->call_return = return_address;
	r->args[0] = PT_REGS_PARM1(ctx);
	r->args[1] = PT_REGS_PARM2(ctx);
	r->args[2] = PT_REGS_PARM3(ctx);
	r->args[3] = PT_REGS_PARM4(ctx);
	r->args[4] = PT_REGS_PARM5(ctx);
	r->args[5] = PT_REGS_PARM6(ctx);
	fill_header(&r->h, DMS_CALL, outermost ? 0 : DMS_CALL_NESTED, cookie_probe(cookie));
	submit(r);
	if (th && outermost)
		put_stack(t, return_slot, th->call_serial, cookie_probe(cookie), cookie_argument(cookie) >> STACK_SHIFT);
	return 0;
}

static __always_inline int poll_done(struct target *t, struct thread *th, __u32 probe)
{
	struct dms_header *r;

	if (!t)
		return 0;
	see_noted_call(th);
	if (th && th->made_at)
		put_made(t, th);
	r = reserve(t, sizeof(*r), OF_MOVEMENTS);
	if (!r)
		return 0;
	fill_header(r, DMS_DONE, 0, probe);
	submit(r);
	return 0;
}

SEC("uprobe.multi")
int dms_poll_success(struct pt_regs *ctx)
{
	KEEP_FRAME_OF_TASK(ctx, multi);
	struct thread *th;
	struct target *t = hit_target(&th, CLASS_POLL_SUCCESS);

	return poll_done(t, th, cookie_probe(bpf_get_attach_cookie(ctx)));
}

/* The argument of the probe says which parameter is the flag (or the count of completions). */
static __always_inline bool poll_enter(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u64 second, third, fourth;
	struct thread *th;
	struct target *t;
	__u32 argument;

	t = hit_target_with_thread(&th, CLASS_POLL_RETURN, OF_MOVEMENTS);
	if (!t)
		return false;
	second = PT_REGS_PARM2(ctx);
	third = PT_REGS_PARM3(ctx);
	fourth = PT_REGS_PARM4(ctx);
	/* Else the compiler reads from a chosen offset, which the verifier does not allow. */
	barrier_var(second);
	barrier_var(third);
	barrier_var(fourth);
	argument = cookie_argument(cookie);
	th->poll_flag = argument == 1 ? second : argument == 2 ? third : fourth;
	if (enter_call(t, th, PT_REGS_SP(ctx), read_word(PT_REGS_SP(ctx)), cookie_probe(cookie)))
		th->call_hooked = 1;
	return true;
}

static __always_inline int poll_return(struct pt_regs *ctx)
{
	struct thread *th = current_thread(false);
	struct target *t;
	int flag = 0;

	if (!th || !th->poll_flag)
		return 0;
	bpf_probe_read_user(&flag, sizeof(flag), (void *)th->poll_flag);
	th->poll_flag = 0;
	if (flag > 0) {
		t = current_target(&th);
		return poll_done(t, th, cookie_probe(bpf_get_attach_cookie(ctx)));
	}
	count_refused(&th->target);
	return 0;
}

SEC("uprobe.session")
int dms_poll_session(struct pt_regs *ctx)
{
	KEEP_FRAME_OF_TASK(ctx, session);
	if (is_return(ctx))
		return poll_return(ctx);
	return poll_enter(ctx) ? 0 : 1;
}

SEC("uprobe.multi")
int dms_poll_entry(struct pt_regs *ctx)
{
	KEEP_FRAME_OF_TASK(ctx, multi);
	poll_enter(ctx);
	return 0;
}

SEC("uretprobe.multi")
int dms_poll_exit(struct pt_regs *ctx)
{
	KEEP_FRAME_OF_TASK(ctx, multi);
	return poll_return(ctx);
}

#endif
