/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
 *
 * RDMA verbs: work requests of a list that was posted.
 */
#ifndef DMSCOPE_VERBS_WORK_H
#define DMSCOPE_VERBS_WORK_H

struct posting {
	struct work_request request;
	__u64 next;	/* the request that is looked at next */
	__u64 refused;	/* the first that was not taken; 0: all were */
	__u64 sp;
	__u64 remote;
	__u32 queue;
	__u32 probe;
	__u32 took_ns;
	__u16 flags;
	__u16 segment;
};

static __always_inline void record_work(struct posting *p, const struct work_segment *segment)
{
	struct dms_work *r;
	struct thread *th;
	struct target *t = current_target(&th);

	if (!t)
		return;
	r = reserve(t, sizeof(*r), OF_MOVEMENTS);
	if (!r)
		return;
	r->addr = segment->addr;
	r->number = p->request.number;
	r->queue = p->queue;
	r->len_bytes = segment->len_bytes;
	fill_context(&r->ctx, th, p->sp);
	r->operation = p->flags ? 0 : p->request.operation;
	r->send_flags = p->flags ? 0 : p->request.send_flags;
	r->segment = p->segment;
	r->segments = p->request.segment_count;
	r->took_ns = p->took_ns;
	r->remote = p->remote;
	fill_header(&r->h, DMS_WORK, p->flags, p->probe);
	submit(r);
}

static long post_segment(__u32 i, void *data)
{
	struct posting *p = data;
	struct work_segment segment = {};

	if (i && i >= p->request.segment_count)
		return 1;
	p->segment = i;
	if (p->request.segment_count &&
	    bpf_probe_read_user(&segment, sizeof(segment), (void *)(p->request.segments + i * sizeof(segment)))) {
		struct thread *th;
		struct target *t = current_target(&th);

		if (t)
			count_lost(t, OF_MOVEMENTS);
		return 1;
	}
	record_work(p, &segment);
	if (p->remote)
		p->remote += segment.len_bytes;
	return 0;
}

static __always_inline bool is_one_sided(__u32 operation)
{
	return operation == WR_RDMA_WRITE || operation == WR_RDMA_WRITE_WITH_IMM || operation == WR_RDMA_READ ||
	       operation == WR_ATOMIC_CMP_AND_SWP || operation == WR_ATOMIC_FETCH_AND_ADD;
}

static long post_request(__u32 i, void *data)
{
	struct posting *p = data;
	__u64 at = p->next;
	__u32 size = p->flags ? RECEIVE_REQUEST_BYTES : sizeof(p->request);
	struct thread *th;
	struct target *t;

	if (!at || at == p->refused)
		return 1;
	t = current_target(&th);
	if (!t)
		return 1;
	if (bpf_probe_read_user(&p->request, size, (void *)at)) {
		count_lost(t, OF_MOVEMENTS);
		p->next = 0;
		return 1;
	}
	p->next = p->request.next;
	p->remote = 0;
	if (!p->flags && is_one_sided(p->request.operation))
		p->remote = read_word(at + REMOTE_AT);
	if (p->request.segment_count > MOST_SEGMENTS)
		count_lost(t, OF_MOVEMENTS);
	bpf_loop(MOST_SEGMENTS, post_segment, p, 0);
	return 0;
}

#endif
