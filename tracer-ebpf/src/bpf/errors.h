/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
 *
 * Errors that MPI calls report: the one function of the library that every failing call goes through, and whether it
 * comes back. Calls often jump there at their end, so that its return address is that of the call: it would look like
 * another call of the program. So it never begins a context of its own, and says which call it belongs to.
 */
#ifndef DMSCOPE_ERRORS_H
#define DMSCOPE_ERRORS_H

/* Where the code of the error and the name of the call are; the user side has the same. */
enum {
	ERROR_OPEN_MPI = 0,	/* (handler, object, type, code, name) */
	ERROR_OPEN_MPI_FATAL = 1,	/* (object, code behind a pointer or NULL, name) */
	ERROR_MPICH = 2,	/* (object, name, code) */
};

/* Bytes of the name that are kept: five arguments. */
#define ERROR_NAME_BYTES 40

/* The call that the thread is in, or that jumped here at its end. */
static __always_inline __u64 failing_call(struct thread *th, __u64 sp)
{
	bool there;

	see_noted_call(th);
	there = th && th->call_probe && sp <= th->call_sp && is_call_there(th);
	return there ? th->call_return : 0;
}

SEC("uprobe.multi")
int dms_error(struct pt_regs *ctx)
{
	KEEP_FRAME_OF_TASK(ctx, multi);
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u32 form = cookie_argument(cookie);
	__u64 second, third, fourth, fifth, code, name;
	struct dms_call *r;
	struct thread *th;
	struct target *t;

	t = hit_target(&th, CLASS_ERROR);
	if (!t)
		return 0;
	second = PT_REGS_PARM2(ctx);
	third = PT_REGS_PARM3(ctx);
	fourth = PT_REGS_PARM4(ctx);
	fifth = PT_REGS_PARM5(ctx);
	/* Else the compiler reads from a chosen offset, which the verifier does not allow. */
	barrier_var(second);
	barrier_var(third);
	barrier_var(fourth);
	barrier_var(fifth);
	/* With a code it was reported before. */
	if (form == ERROR_OPEN_MPI_FATAL && second)
		return 0;
	code = form == ERROR_OPEN_MPI ? fourth : form == ERROR_MPICH ? third : 0;
	name = form == ERROR_OPEN_MPI ? fifth : form == ERROR_MPICH ? second : third;
	r = reserve(t, sizeof(*r), OF_CALLS);
	if (!r)
		return 0;
	__builtin_memset(r->args, 0, sizeof(r->args));
	r->call_return = failing_call(th, PT_REGS_SP(ctx));
	r->args[0] = (__u32)code;
	bpf_probe_read_user_str(&r->args[1], ERROR_NAME_BYTES, (void *)name);
	fill_header(&r->h, DMS_CALL, DMS_CALL_NESTED, cookie_probe(cookie));
	submit(r);
	return 0;
}

/* The program goes on. */
SEC("uretprobe.multi")
int dms_error_returned(struct pt_regs *ctx)
{
	KEEP_FRAME_OF_TASK(ctx, multi);
	struct thread *th;
	struct target *t = current_target(&th);

	return poll_done(t, th, cookie_probe(bpf_get_attach_cookie(ctx)));
}

#endif
