/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
 *
 * Processes: children of watched ones are watched too, from their first instruction.
 */
#ifndef DMSCOPE_LIFE_H
#define DMSCOPE_LIFE_H

static __always_inline void life(struct target *t, __u16 kind, __u16 flags, __u64 value)
{
	struct dms_life *r;

	r = reserve(t, sizeof(*r), OF_LIFE);
	if (!r)
		return;
	r->value = value;
	fill_header(&r->h, kind, flags, 0);
	submit(r);
}

/* PF_IO_WORKER and PF_USER_WORKER: the kernel's own work for the process. */
#define WORKS_FOR_THE_KERNEL 0x4010

/* A function of its own: see memory.h. Of the processes that are watched, since who created a thread names it in a replay. */
__noinline int thread_begins(__u64 tid)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	struct target *t = target_of(task);
	struct dms_context within;

	if (!t)
		return 0;
	fill_context(&within, current_thread(false), BPF_CORE_READ(regs, sp));
	life(t, DMS_THREAD, within.call_probe ? DMS_THREAD_IN_CALL : 0, tid);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(dms_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 parent_tgid = parent->tgid, child_tgid = child->tgid;
	struct target *t, its;

	if (parent_tgid == child_tgid)
		return child->flags & WORKS_FOR_THE_KERNEL ? 0 : thread_begins(child->pid);
	t = target_of(parent);
	if (!t)
		return 0;
	/* It shares the parent's ring until the user side gives it one. */
	__builtin_memcpy(&its, t, sizeof(its));
	its.start_ticks = start_ticks(child);
	its.notes_at = 0; /* that memory is not there in a child */
	its.is_moved = 0;
	if (bpf_map_update_elem(&targets, &child_tgid, &its, BPF_ANY))
		count_lost(t, OF_LIFE);
	life(t, DMS_FORK, 0, child_tgid);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(dms_exec, struct task_struct *p, int old_pid, struct linux_binprm *bprm)
{
	struct target *t = target_of(p);
	struct thread *th = current_thread(false);

	if (!t)
		return 0;
	t->owns = OWNS_ALL;
	t->notes_at = 0;
	t->is_moved = 0;
	/* The only thread that is left looks again. */
	if (th)
		th->watch_epoch = 0;
	life(t, DMS_EXEC, 0, 0);
	return 0;
}

/*
 * The thread that a fault is in is rarely the last one of its process. A signal that a handler sends again
 * (code 0 or less) does not hide the fault that it was called for.
 */
SEC("tp_btf/signal_deliver")
int BPF_PROG(dms_signal, int signal, struct kernel_siginfo *info)
{
	struct pt_regs *regs;
	struct target *t;

	/* SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV */
	if (signal != 4 && signal != 6 && signal != 7 && signal != 8 && signal != 11)
		return 0;
	t = target_of(bpf_get_current_task_btf());
	/* Not as a field of what the tracepoint gives: kernels before 6.13 take that for a number. */
	if (!t || (BPF_CORE_READ(info, si_code) <= 0 && t->fault_signal == signal))
		return 0;
	regs = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
	t->fault_at = BPF_CORE_READ(regs, ip);
	t->fault_signal = signal;
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(dms_exit, struct task_struct *p)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct target *t = target_of(p);
	__u32 signal = p->exit_code & 0x7f;
	struct dms_end *r;

	/* Only the last thread of the process ends it. */
	if (!t || p->signal->live.counter)
		return 0;
	r = reserve(t, sizeof(*r), OF_LIFE);
	if (r) {
		r->status = p->exit_code;
		r->at = signal && t->fault_signal == signal ? t->fault_at : 0;
		fill_header(&r->h, DMS_EXIT, 0, 0);
		submit(r);
	}
	bpf_map_delete_elem(&targets, &tgid);
	return 0;
}

#endif
