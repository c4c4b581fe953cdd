/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
 *
 * Processor time that dmscope takes from the job: where its own threads run on processors that the job uses as well.
 * What they run is counted by processor; a thread of the job looks at its hits whether it had to wait meanwhile.
 */
#ifndef DMSCOPE_OWN_TIME_H
#define DMSCOPE_OWN_TIME_H

/* Not worth a record. */
#define LEAST_HELD_UP_NS 1000

/* The inode of dmscope's program, set before load; 0: nobody asks. */
const volatile __u64 own_program = 0;

struct own_time {
	__u64 ran_ns;
	__u64 since_ns;		/* a thread of dmscope runs since then; 0: none does */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct own_time);
} own_times SEC(".maps");

/* All processes of dmscope run the same program: helpers too, and a child of ours that is about to start the job. */
static __always_inline bool is_own_thread(struct task_struct *task)
{
	struct mm_struct *mm = task->mm;

	return mm && BPF_CORE_READ(mm, exe_file, f_inode, i_ino) == own_program;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(dms_switch, bool preempted, struct task_struct *before, struct task_struct *next)
{
	__u32 zero = 0;
	struct own_time *own = bpf_map_lookup_elem(&own_times, &zero);
	bool is_own;

	if (!own)
		return 0;
	is_own = is_own_thread(next);
	if (!is_own && !own->since_ns)
		return 0;
	if (own->since_ns)
		own->ran_ns += bpf_ktime_get_ns() - own->since_ns;
	own->since_ns = is_own ? bpf_ktime_get_ns() : 0;
	return 0;
}

/* What dmscope ran on a processor so far. */
static __always_inline __u64 own_ns(__u32 cpu)
{
	__u32 zero = 0;
	struct own_time *own = bpf_map_lookup_percpu_elem(&own_times, &zero, cpu);
	__u64 since_ns, now_ns;

	if (!own)
		return 0;
	since_ns = own->since_ns;
	if (!since_ns)
		return own->ran_ns;
	now_ns = bpf_ktime_get_ns();
	return own->ran_ns + (now_ns > since_ns ? now_ns - since_ns : 0);
}

static __always_inline void note_processor(struct thread *th, struct task_struct *task)
{
	__u32 cpu = bpf_get_smp_processor_id();

	th->waited_ns = task->sched_info.run_delay;
	th->sleeps = task->nvcsw;
	th->own_ns = own_ns(cpu);
	th->processor = cpu + 1;
}

/* At a hit of a call: whether the thread has waited for its processor while dmscope ran. */
static __always_inline void put_held_up(struct target *t, struct thread *th)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct dms_held_up *r;
	__u64 waited, own;
	__u16 flags = 0;

	if (!own_program)
		return;
	if (!th->processor) {
		note_processor(th, task);
		return;
	}
	waited = task->sched_info.run_delay - th->waited_ns;
	if (waited < LEAST_HELD_UP_NS)
		return;
	own = own_ns(th->processor - 1) - th->own_ns;
	if (bpf_get_smp_processor_id() != th->processor - 1)
		flags |= DMS_HELD_UP_MOVED;
	if (task->nvcsw != th->sleeps)
		flags |= DMS_HELD_UP_SLEPT;
	note_processor(th, task);
	if (own < LEAST_HELD_UP_NS && !(flags & DMS_HELD_UP_MOVED))
		return;
	r = reserve(t, sizeof(*r), OF_MOVEMENTS);
	if (!r)
		return;
	r->waited_ns = waited;
	r->own_ns = own;
	fill_header(&r->h, DMS_HELD_UP, flags, 0);
	submit(r);
}

#endif
