/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
 *
 * MPI calls whose results are wanted: what their arguments point to, at the entry or at the
 * return. Of a polling call nothing is recorded unless its answer is yes.
 */
#ifndef DMSCOPE_RESULTS_H
#define DMSCOPE_RESULTS_H

struct piece {
	struct target *t;
	__u64 from;	/* user space; 0: what the thread has kept */
	__u32 serial;
	__u32 argument;
	__u32 probe;
	__u32 total_bytes;
	__u32 flags;
};

static long put_piece(__u32 number, void *context)
{
	struct piece *piece = context;
	__u32 position = number * PIECE_BYTES;
	__u32 bytes = piece->total_bytes - position;
	struct dms_values *r = reserve(piece->t, sizeof(*r), OF_CALLS);
	struct thread *th;
	long failed = 1;

	if (!r)
		return 1;
	if (bytes > PIECE_BYTES)
		bytes = PIECE_BYTES;
	__builtin_memset(r->words, 0, sizeof(r->words));
	if (piece->from) {
		failed = bpf_probe_read_user(r->words, bytes, (void *)(piece->from + position));
	} else {
		th = current_thread(false);
		if (th && position + PIECE_BYTES <= sizeof(th->kept))
			failed = bpf_probe_read_kernel(r->words, PIECE_BYTES, (char *)th->kept + position);
	}
	/* What cannot be read is left out, with all behind it: it is not zero. */
	if (failed) {
		bpf_ringbuf_discard(r, BPF_RB_NO_WAKEUP);
		return 1;
	}
	r->serial = piece->serial;
	r->argument = piece->argument;
	r->total_bytes = piece->total_bytes;
	r->position_bytes = position;
	fill_header(&r->h, DMS_VALUES, piece->flags, piece->probe);
	submit(r);
	return 0;
}

static __always_inline void put_values(struct piece *piece)
{
	__u32 pieces = (piece->total_bytes + PIECE_BYTES - 1) / PIECE_BYTES;

	if (piece->total_bytes > MAX_VALUE_BYTES)
		pieces = MAX_VALUE_BYTES / PIECE_BYTES;
	bpf_loop(pieces, put_piece, piece, 0);
}

static __always_inline bool is_wanted(struct dms_read *read, __u8 how)
{
	return (read->how & ~READ_COUNT_BEHIND) == how;
}

/* All that is to be read now, but for what goes with the RETURN. */
static __always_inline void put_reads(struct target *t, struct thread *th, struct dms_shape *shape, __u32 probe,
				      bool at_return)
{
	struct piece piece = {
		.t = t,
		.serial = th->call_serial,
		.probe = probe,
		.flags = at_return ? DMS_VALUES_RETURN : 0,
	};
	int i;

	for (i = 0; i < MAX_READS; i++) {
		struct dms_read *read = &shape->reads[i];

		if (!is_wanted(read, at_return ? READ_USED | READ_AT_RETURN : READ_USED))
			continue;
		piece.total_bytes = bytes_of(th, read);
		piece.from = argument_of(th, read->argument);
		piece.argument = read->argument;
		if (piece.total_bytes)
			put_values(&piece);
	}
}

/* What a polling call asks for is gone when it has said yes. */
static __always_inline void keep_reads(struct thread *th, struct dms_shape *shape)
{
	int i;

	th->kept_bytes = 0;
	for (i = 0; i < MAX_READS; i++) {
		struct dms_read *read = &shape->reads[i];
		__u32 bytes;

		if (!is_wanted(read, READ_USED))
			continue;
		th->kept_bytes = bytes = bytes_of(th, read);
		th->kept_argument = read->argument;
		if (bytes > sizeof(th->kept))
			bytes = sizeof(th->kept);
		if (bpf_probe_read_user(th->kept, bytes, (void *)argument_of(th, read->argument)))
			th->kept_bytes = 0;
	}
}

static __always_inline void put_stack_arguments(struct target *t, struct thread *th, struct dms_shape *shape,
						__u32 probe)
{
	struct piece piece = {
		.t = t,
		.from = th->call_sp + 8,
		.serial = th->call_serial,
		.argument = DMS_STACK_ARGUMENTS,
		.probe = probe,
		.total_bytes = 8 * shape->stack_arguments,
	};

	put_values(&piece);
}

static __always_inline void put_call(struct target *t, struct thread *th, __u32 probe)
{
	struct dms_call *r = reserve(t, sizeof(*r), OF_CALLS);
	int i;

	if (!r)
		return;
	r->call_return = th->call_return;
	for (i = 0; i < 6; i++)
		r->args[i] = th->args[i];
	fill_header(&r->h, DMS_CALL, 0, probe);
	submit(r);
}

/* Whether the return is wanted. */
static __always_inline bool result_enter(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	struct dms_shape *shape = &shapes[cookie_argument(cookie) & (MAX_SHAPES - 1)];
	__u32 probe = cookie_probe(cookie), stack_arguments = shape->stack_arguments;
	__u64 sp = PT_REGS_SP(ctx);
	struct thread *th;
	struct target *t;

	t = hit_target_with_thread(&th, CLASS_CALL_RESULTS, OF_CALLS);
	if (!t)
		return false;
	/* What another call does inside is its own business. */
	if (!enter_call(t, th, sp, read_word(sp), probe))
		return false;
	put_held_up(t, th);
	th->args[0] = PT_REGS_PARM1(ctx);
	th->args[1] = PT_REGS_PARM2(ctx);
	th->args[2] = PT_REGS_PARM3(ctx);
	th->args[3] = PT_REGS_PARM4(ctx);
	th->args[4] = PT_REGS_PARM5(ctx);
	th->args[5] = PT_REGS_PARM6(ctx);
	if (stack_arguments > CALL_ARGUMENTS - 6)
		stack_arguments = CALL_ARGUMENTS - 6;
	if (stack_arguments)
		bpf_probe_read_user(&th->args[6], 8 * stack_arguments, (void *)(sp + 8));
	th->call_hooked = 1;
	if (shape->answer != DMS_NO_ARGUMENT) {
		keep_reads(th, shape);
		return true;
	}
	put_call(t, th, probe);
	if (stack_arguments)
		put_stack_arguments(t, th, shape, probe);
	put_reads(t, th, shape, probe, false);
	if (shape->buffers > BUFFERS_SENT)
		look_at_buffers(t, th, shape, probe, false);
	return true;
}

static __always_inline void put_return(struct target *t, struct thread *th, struct dms_shape *shape, __u32 probe,
				       __s32 code)
{
	struct dms_return *r = reserve(t, sizeof(*r), OF_CALLS);
	int i;

	if (!r)
		return;
	r->serial = th->call_serial;
	r->code = code;
	r->argument = DMS_NO_ARGUMENT;
	r->bytes = 0;
	r->word = 0;
	for (i = 0; i < MAX_READS; i++) {
		struct dms_read *read = &shape->reads[i];

		if (!is_wanted(read, READ_USED | READ_AT_RETURN | READ_INLINE))
			continue;
		r->argument = read->argument;
		r->bytes = read->element_bytes;
		r->word = read->element_bytes == 4 ? read_half(argument_of(th, read->argument))
						   : read_word(argument_of(th, read->argument));
	}
	fill_header(&r->h, DMS_RETURN, 0, probe);
	submit(r);
}

static __always_inline int result_return(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	struct dms_shape *shape = &shapes[cookie_argument(cookie) & (MAX_SHAPES - 1)];
	__u32 probe = cookie_probe(cookie);
	struct thread *th;
	struct target *t;

	t = current_target(&th);
	/* The stack is that of the caller again: else it is the return of a call inside. */
	if (!t || !th || th->call_probe != probe || PT_REGS_SP(ctx) != th->call_sp + 8)
		return 0;
	th->call_probe = 0;
	if (shape->answer != DMS_NO_ARGUMENT) {
		struct piece piece = {
			.t = t,
			.serial = th->call_serial,
			.argument = th->kept_argument,
			.probe = probe,
			.total_bytes = th->kept_bytes,
		};

		/* Less than none is MPI_UNDEFINED: there was nothing to ask about. */
		if (!read_half(argument_of(th, shape->answer))) {
			count_refused(t);
			return 0;
		}
		put_held_up(t, th);
		put_call(t, th, probe);
		if (piece.total_bytes)
			put_values(&piece);
		if (shape->buffers > BUFFERS_SENT)
			look_at_buffers(t, th, shape, probe, true);
	} else {
		put_held_up(t, th);
		if (shape->buffers == BUFFERS_SENT)
			keep_sent_buffer(th, shape);
	}
	put_reads(t, th, shape, probe, true);
	put_return(t, th, shape, probe, (__s32)PT_REGS_RC(ctx));
	return 0;
}

SEC("uprobe.session")
int dms_result_session(struct pt_regs *ctx)
{
	KEEP_FRAME_OF_TASK(ctx, session);
	if (is_return(ctx))
		return result_return(ctx);
	return result_enter(ctx) ? 0 : 1;
}

SEC("uprobe.multi")
int dms_result_entry(struct pt_regs *ctx)
{
	KEEP_FRAME_OF_TASK(ctx, multi);
	result_enter(ctx);
	return 0;
}

SEC("uretprobe.multi")
int dms_result_exit(struct pt_regs *ctx)
{
	KEEP_FRAME_OF_TASK(ctx, multi);
	return result_return(ctx);
}

#endif
