/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
 *
 * RDMA verbs: work requests as they are posted, and completions as they are polled, at the functions of the provider that
 * the tables of an opened device lead to. Structures are those of <infiniband/verbs.h>.
 */
#ifndef DMSCOPE_VERBS_H
#define DMSCOPE_VERBS_H

/* Of one list, of one request, of one poll; what is beyond is counted as lost. */
#define MOST_REQUESTS 1024
#define MOST_SEGMENTS 64
#define MOST_COMPLETIONS 1024
/* What a probe's cookie says of a post: what kind of queue the first argument is. */
#define POST_SEND 0
#define POST_SHARED_RECEIVE 2
/* Of struct ibv_qp. */
#define QUEUE_NUMBER_AT 52

/* The beginning of struct ibv_send_wr and of struct ibv_recv_wr, which has no operation. */
struct work_request {
	__u64 number;
	__u64 next;
	__u64 segments;
	__u32 segment_count;
	__u32 operation;
};

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

struct posting {
	__u64 next;	/* the request that is looked at next */
	__u64 segments;
	__u64 addr;
	__u64 sp;
	__u32 segment_count;
	__u32 len_bytes;
	__u32 queue;
	__u32 probe;
	__u32 receives;
	__u32 is_partial;
};

static long add_segment(__u32 i, void *data)
{
	struct posting *p = data;
	struct work_segment segment;

	if (i >= p->segment_count)
		return 1;
	if (bpf_probe_read_user(&segment, sizeof(segment), (void *)(p->segments + i * sizeof(segment)))) {
		p->is_partial = 1;
		return 1;
	}
	if (!i)
		p->addr = segment.addr;
	p->len_bytes += segment.len_bytes;
	return 0;
}

static long post_request(__u32 i, void *data)
{
	struct posting *p = data;
	struct work_request request;
	struct dms_work *r;
	struct thread *th;
	struct target *t;

	if (!p->next)
		return 1;
	t = current_target(&th);
	if (!t)
		return 1;
	if (bpf_probe_read_user(&request, sizeof(request), (void *)p->next)) {
		count_lost(t, false);
		p->next = 0;
		return 1;
	}
	p->next = request.next;
	p->segments = request.segments;
	p->segment_count = request.segment_count;
	p->addr = 0;
	p->len_bytes = 0;
	p->is_partial = request.segment_count > MOST_SEGMENTS;
	bpf_loop(MOST_SEGMENTS, add_segment, p, 0);
	if (p->is_partial)
		count_lost(t, false);
	r = reserve(t, sizeof(*r), false);
	if (!r)
		return 0;
	r->addr = p->addr;
	r->number = request.number;
	r->queue = p->queue;
	r->len_bytes = p->len_bytes;
	fill_context(&r->ctx, th, p->sp);
	r->operation = p->receives ? 0 : request.operation;
	r->segments = request.segment_count;
	fill_header(&r->h, DMS_WORK, p->receives ? DMS_WORK_RECEIVE : 0, p->probe);
	submit(r);
	return 0;
}

/* post_send(queue pair, list, …), post_recv(queue pair, list, …), post_srq_recv(shared receive queue, list, …) */
SEC("uprobe.multi")
int dms_verbs_post(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	struct posting p = { .next = PT_REGS_PARM2(ctx), .sp = PT_REGS_SP(ctx), .probe = cookie_probe(cookie) };
	struct thread *th;
	struct target *t = hit_target(&th, CLASS_VERBS_POST);

	if (!t)
		return 0;
	p.receives = cookie_argument(cookie) != POST_SEND;
	if (cookie_argument(cookie) != POST_SHARED_RECEIVE)
		bpf_probe_read_user(&p.queue, sizeof(p.queue), (void *)(PT_REGS_PARM1(ctx) + QUEUE_NUMBER_AT));
	bpf_loop(MOST_REQUESTS, post_request, &p, 0);
	if (p.next)
		count_lost(t, false);
	return 0;
}

struct polling {
	__u64 at;
	__u32 count;
	__u32 probe;
};

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
	fill_header(&r->h, DMS_COMPLETION, 0, p->probe);
	submit(r);
	return 0;
}

/* poll_cq(completion queue, most, completions) */
static __always_inline bool verbs_poll_enter(struct pt_regs *ctx)
{
	struct thread *th;
	struct target *t = hit_target_with_thread(&th, CLASS_VERBS_POLL, false);

	if (!t || !th)
		return false;
	th->completions_at = PT_REGS_PARM3(ctx);
	return true;
}

static __always_inline int verbs_poll_return(struct pt_regs *ctx)
{
	struct polling p = {};
	struct thread *th;
	struct target *t = current_target(&th);
	int count = (int)PT_REGS_RC(ctx);

	if (!t || !th || !th->completions_at)
		return 0;
	p.at = th->completions_at;
	p.probe = cookie_probe(bpf_get_attach_cookie(ctx));
	th->completions_at = 0;
	if (count <= 0) {
		count_refused(t);
		return 0;
	}
	p.count = count;
	if (p.count > MOST_COMPLETIONS)
		count_lost(t, false);
	bpf_loop(MOST_COMPLETIONS, take_completion, &p, 0);
	return 0;
}

SEC("uprobe.session")
int dms_verbs_poll_session(struct pt_regs *ctx)
{
	if (bpf_session_is_return())
		return verbs_poll_return(ctx);
	return verbs_poll_enter(ctx) ? 0 : 1;
}

SEC("uprobe.multi")
int dms_verbs_poll_entry(struct pt_regs *ctx)
{
	verbs_poll_enter(ctx);
	return 0;
}

SEC("uretprobe.multi")
int dms_verbs_poll_exit(struct pt_regs *ctx)
{
	return verbs_poll_return(ctx);
}

#endif
