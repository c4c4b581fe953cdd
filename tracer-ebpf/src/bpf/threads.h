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
	__u64 made_bytes;
	struct pt_regs regs;	/* of the program, at its last entry into the kernel */
};

SEC("iter/task")
int dms_threads(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct thread_view view = {};
	struct pt_regs *regs;
	struct thread *th;

	if (!task)
		return 0;
	if (!target_of(task))
		return 0;
	view.pid = task->tgid;
	view.tid = task->pid;
	view.state = task->__state;
	view.ran_ns = task->se.sum_exec_runtime;
	th = bpf_task_storage_get(&threads, task, 0, 0);
	if (th) {
		view.made_at = th->made_at;
		view.made_bytes = th->made_bytes;
	}
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
