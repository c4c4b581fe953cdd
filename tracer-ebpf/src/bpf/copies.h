/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
 *
 * Memory copies and packs of derived datatypes.
 */
#ifndef DMSCOPE_COPIES_H
#define DMSCOPE_COPIES_H

/* At a place where rdi, rsi, rdx are those of memcpy, memmove, mempcpy or a checked form. */
SEC("uprobe.multi")
int dms_copy(struct pt_regs *ctx)
{
	KEEP_FRAME_OF_TASK(ctx, multi);
	__u64 cookie = bpf_get_attach_cookie(ctx);
	struct thread *th;
	struct target *t = hit_target(&th, CLASS_COPY);
	struct dms_copy *r;

	if (!t || is_recorded_by_other_link(th, cookie) || is_moved(t, cookie))
		return 0;
	r = reserve(t, sizeof(*r), OF_MOVEMENTS);
	if (!r)
		return 0;
	r->dst = PT_REGS_PARM1(ctx);
	r->src = PT_REGS_PARM2(ctx);
	r->len_bytes = PT_REGS_PARM3(ctx);
	fill_context(&r->ctx, th, PT_REGS_SP(ctx));
	fill_header(&r->h, DMS_COPY, 0, cookie_probe(cookie));
	submit(r);
	return 0;
}

struct user_iovec {
	__u64 base;
	__u64 len_bytes;
};

/*
 * Open MPI: advance(convertor, iov, &count, &bytes). The first iovec is the contiguous
 * side; the user's buffer stands in the convertor, at an offset found at attach.
 */
static __always_inline int pack(struct pt_regs *ctx, bool unpack)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	struct user_iovec iov = {};
	struct dms_pack *r;
	struct target *t;
	struct thread *th;
	__u64 user;

	t = hit_target(&th, unpack ? CLASS_UNPACK : CLASS_PACK);
	if (!t)
		return 0;
	bpf_probe_read_user(&iov, sizeof(iov), (void *)PT_REGS_PARM2(ctx));
	user = read_word(PT_REGS_PARM1(ctx) + cookie_argument(cookie));
	r = reserve(t, sizeof(*r), OF_MOVEMENTS);
	if (!r)
		return 0;
	r->dst = unpack ? user : iov.base;
	r->src = unpack ? iov.base : user;
	r->len_bytes = iov.len_bytes;
	r->segments = 0;
	fill_context(&r->ctx, th, PT_REGS_SP(ctx));
	fill_header(&r->h, DMS_PACK, unpack ? DMS_PACK_UNPACK : 0, cookie_probe(cookie));
	submit(r);
	return 0;
}

SEC("uprobe.multi")
int dms_pack(struct pt_regs *ctx)
{
	KEEP_FRAME_OF_TASK(ctx, multi);
	return pack(ctx, false);
}

SEC("uprobe.multi")
int dms_unpack(struct pt_regs *ctx)
{
	KEEP_FRAME_OF_TASK(ctx, multi);
	return pack(ctx, true);
}

#endif
