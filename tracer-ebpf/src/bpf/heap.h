/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
 *
 * Heap blocks: those that are large, and those that the program asks for itself.
 */
#ifndef DMSCOPE_HEAP_H
#define DMSCOPE_HEAP_H

/* The argument of an allocation probe; the user side knows the same numbers. */
enum {
	ALLOC_MALLOC = 0,	/* size */
	ALLOC_CALLOC = 1,	/* count, size */
	ALLOC_REALLOC = 2,	/* old, size */
	ALLOC_ALIGNED = 3,	/* alignment, size */
	ALLOC_POSIX = 4,	/* &result, alignment, size */
};

/* The argument of a free probe: 1 if blocks have glibc's header before them. */
#define FREE_GLIBC 1

/* Whether the block is worth a record: then its address is taken at the return. */
static __always_inline bool alloc_enter(struct pt_regs *ctx)
{
	__u32 kind = cookie_argument(bpf_get_attach_cookie(ctx));
	__u64 first = PT_REGS_PARM1(ctx), second = PT_REGS_PARM2(ctx), third = PT_REGS_PARM3(ctx);
	__u64 size, old = 0, result = 0;
	struct thread *th;
	struct target *t;

	t = hit_target_with_thread(&th, CLASS_ALLOC, OF_HEAP);
	if (!t)
		return false;
	/* Else the compiler reads from a chosen offset, which the verifier does not allow. */
	barrier_var(first);
	barrier_var(second);
	barrier_var(third);
	switch (kind) {
	case ALLOC_MALLOC:
		size = first;
		break;
	case ALLOC_CALLOC:
		size = first * second;
		break;
	case ALLOC_REALLOC:
		old = first;
		size = second;
		break;
	case ALLOC_ALIGNED:
		size = second;
		break;
	default:
		result = first;
		size = third;
	}
	/* A block that was worth a record and gets short is none any more: glibc has its length before it. */
	if (size < alloc_min_bytes && !is_own(t, read_word(PT_REGS_SP(ctx))) &&
	    !(old && (read_word(old - 8) & ~7ULL) >= alloc_min_bytes)) {
		count_declined(t);
		return false;
	}
	th->alloc_size_bytes = size;
	th->alloc_old = old;
	th->alloc_result = result;
	return true;
}

static __always_inline int alloc_return(struct pt_regs *ctx)
{
	struct dms_alloc *r;
	struct thread *th;
	struct target *t;
	__u64 size, block;

	t = current_target(&th);
	if (!t || !th || !th->alloc_size_bytes)
		return 0;
	size = th->alloc_size_bytes;
	th->alloc_size_bytes = 0;
	block = th->alloc_result ? read_word(th->alloc_result) : PT_REGS_RC(ctx);
	if (!block)
		return 0;
	r = reserve(t, sizeof(*r), OF_HEAP);
	if (!r)
		return 0;
	r->addr = block;
	r->size_bytes = size;
	r->old = th->alloc_old;
	r->caller = PT_REGS_IP(ctx);
	fill_header(&r->h, DMS_ALLOC, 0, cookie_probe(bpf_get_attach_cookie(ctx)));
	submit(r);
	return 0;
}

SEC("uprobe.session")
int dms_alloc_session(struct pt_regs *ctx)
{
	KEEP_FRAME_OF_TASK(ctx, session);
	if (is_return(ctx))
		return alloc_return(ctx);
	return alloc_enter(ctx) ? 0 : 1;
}

SEC("uprobe.multi")
int dms_alloc_entry(struct pt_regs *ctx)
{
	KEEP_FRAME_OF_TASK(ctx, multi);
	alloc_enter(ctx);
	return 0;
}

SEC("uretprobe.multi")
int dms_alloc_exit(struct pt_regs *ctx)
{
	KEEP_FRAME_OF_TASK(ctx, multi);
	return alloc_return(ctx);
}

SEC("uprobe.multi")
int dms_free(struct pt_regs *ctx)
{
	KEEP_FRAME_OF_TASK(ctx, multi);
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u64 block = PT_REGS_PARM1(ctx);
	__u64 caller;
	struct dms_free *r;
	struct thread *th;
	struct target *t;

	t = hit_target(&th, CLASS_FREE);
	if (!t || !block)
		return 0;
	caller = read_word(PT_REGS_SP(ctx) + cookie_stack_bytes(cookie));
	if (cookie_argument(cookie) == FREE_GLIBC && !is_own(t, caller) &&
	    (read_word(block - 8) & ~7ULL) < alloc_min_bytes) {
		count_declined(t);
		return 0;
	}
	r = reserve(t, sizeof(*r), OF_HEAP);
	if (!r)
		return 0;
	r->addr = block;
	r->caller = caller;
	fill_header(&r->h, DMS_FREE, 0, cookie_probe(cookie));
	submit(r);
	return 0;
}

#endif
