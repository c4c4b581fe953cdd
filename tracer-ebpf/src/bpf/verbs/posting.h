/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
 *
 * RDMA verbs: work requests as they are posted, at the functions of the provider that the tables of an opened device lead to.
 */
#ifndef DMSCOPE_VERBS_POSTING_H
#define DMSCOPE_VERBS_POSTING_H

/* What a probe's cookie says of a post: what kind of queue the first argument is, and whether there is a list of requests. */
#define POST_SEND 0
#define POST_SHARED_RECEIVE 2
#define POST_BUILT 3

/* post_send(queue pair, list, refused), post_recv(queue pair, list, …), post_srq_recv(shared receive queue, list, …),
 * wr_complete(queue pair) */
static __always_inline bool verbs_post_enter(struct pt_regs *ctx)
{
	bool is_list = cookie_argument(bpf_get_attach_cookie(ctx)) != POST_BUILT;
	struct thread *th;
	struct target *t = hit_target_with_thread(&th, CLASS_VERBS_POST, OF_MOVEMENTS);

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
		count_lost(t, OF_MOVEMENTS);
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

#endif
