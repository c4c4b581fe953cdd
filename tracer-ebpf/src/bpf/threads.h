/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
 *
 * What the threads of watched processes are doing, read on demand: nothing is stopped, and
 * nothing is paid while nobody asks.
 */
#ifndef DMSCOPE_THREADS_H
#define DMSCOPE_THREADS_H

/* One thread, as the iterator writes it. */
struct thread_view {
	__u32 pid;
	__u32 tid;
	__u32 state;	/* as in the kernel's task_struct: 0 can run, else why it does not */
	__u32 unused;
	__u64 ran_ns;	/* processor time */
	__u64 hooked_slot;	/* where the kernel's trampoline is instead of a return address; 0: nowhere */
	__u64 hooked_return;	/* the return address */
	__u64 made_at;		/* where its last MPI call stored a handle which nobody has read yet; 0: nowhere */
	__u32 made_bytes;
	__u32 made_probe;
	__u64 thread_pointer;
	__u64 call_sp;		/* where the return address of its last MPI call lies; 0: it has made none */
	__u64 call_return;
	__u32 call_probe;
	__u32 call_serial;
	__u64 call_hooked;
	__u64 trampoline;	/* what the kernel puts in the place of return addresses; 0: not known */
	struct pt_regs regs;	/* of the program, at its last entry into the kernel */
};

SEC("iter/task")
int dms_threads(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct thread_view view = {};
	struct pt_regs *regs;
	struct thread *th;
	struct target *t;

	if (!task)
		return 0;
	t = target_of(task);
	if (!t)
		return 0;
	view.pid = task->tgid;
	view.tid = task->pid;
	view.state = task->__state;
	view.ran_ns = task->se.sum_exec_runtime;
	th = bpf_task_storage_get(&threads, task, 0, 0);
	if (th) {
		/* One that notes its calls knows better what it has stored since. */
		view.made_at = t->notes_at ? 0 : th->made_at;
		view.made_bytes = th->made_bytes;
		view.made_probe = th->made_probe;
		view.call_sp = th->call_sp;
		view.call_return = th->call_return;
		view.call_probe = th->call_probe;
		view.call_serial = th->call_serial;
		view.call_hooked = th->call_hooked;
		view.trampoline = th->trampoline;
	}
	view.thread_pointer = task->thread.fsbase;
	if (th && th->call_probe && th->call_hooked) {
		view.hooked_slot = th->call_sp;
		view.hooked_return = th->call_return;
	}
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	bpf_probe_read_kernel(&view.regs, sizeof(view.regs), regs);
	bpf_seq_write(ctx->meta->seq, &view, sizeof(view));
	return 0;
}

#endif
