/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
 *
 * System calls that move data between processes or change what is mapped where, seen at
 * the common exit of all system calls: unlike a tracepoint of one call it needs no tracefs,
 * and unlike a trampoline into one function it is allowed where fentry programs are not.
 */
#ifndef DMSCOPE_MEMORY_H
#define DMSCOPE_MEMORY_H

/* The kernel takes at most 1024 iovecs on each side. */
#define CROSS_SEGMENTS 2048
#define MAX_ERRNO 4095
#define ENOENT 2
/* Arguments of mmap. */
#define PROT_EXEC 4
#define MAP_PRIVATE 2
#define MAP_TYPE 0xf
#define MAP_ANONYMOUS 0x20
#define EBUSY 16
/* Of thread_info.status: the system call is one of the 32-bit table, whose numbers mean other calls. */
#define TS_COMPAT 2

static __always_inline bool failed(long ret)
{
	return ret < 0 && ret >= -MAX_ERRNO;
}

struct found_area {
	struct dms_map *r;
};

/* Names a file as /proc does: by what was opened, also where that lies in another file, as in an overlay file system. */
static __always_inline void name_file(struct dms_map *r, struct file *file)
{
	struct inode *inode = BPF_CORE_READ(file, f_inode), *opened;

	if (bpf_core_field_exists(struct backing_file, user_path) && BPF_CORE_READ(file, f_mode) & FMODE_BACKING) {
		opened = BPF_CORE_READ((struct backing_file *)file, user_path.dentry, d_inode);
		if (BPF_CORE_READ(opened, i_sb, s_magic) == OVERLAYFS_SUPER_MAGIC)
			inode = opened;
	}
	r->inode = BPF_CORE_READ(inode, i_ino);
	r->dev = BPF_CORE_READ(inode, i_sb, s_dev);
}

static long describe_area(struct task_struct *task, struct vm_area_struct *vma, void *data)
{
	struct found_area *found = data;
	struct dms_map *r = found->r;
	struct file *file = vma->vm_file;

	if (!r->len_bytes)
		r->len_bytes = vma->vm_end - r->addr;
	r->flags = (vma->vm_flags & VM_SHARED ? DMS_MAP_SHARED : 0) |
		   (vma->vm_flags & VM_EXEC ? DMS_MAP_EXEC : 0);
	if (file) {
		r->flags |= DMS_MAP_FILE;
		name_file(r, file);
		r->offset_bytes = (vma->vm_pgoff << 12) + (r->addr - vma->vm_start);
	}
	return 0;
}

/* The kernel refuses while another thread of the process changes its mappings, which takes microseconds. */
#define MOST_TRIES 4096

struct search {
	__u64 address;
	struct found_area found;
	long error;
};

static long try_to_find(__u32 i, void *data)
{
	struct search *search = data;

	search->error = bpf_find_vma(bpf_get_current_task_btf(), search->address, describe_area, &search->found, 0);
	return search->error != -EBUSY;
}

static __always_inline void put_map(struct target *t, const struct dms_map *description)
{
	struct dms_map *r = reserve(t, sizeof(*r), OF_MAPPINGS);

	if (!r)
		return;
	__builtin_memcpy(r, description, sizeof(*r));
	fill_header(&r->h, DMS_MAP, 0, 0);
	submit(r);
}

/* Describes what was just mapped by what the kernel knows of it; 0, or an error. */
static __always_inline long find_area(struct dms_map *description)
{
	struct search search = { .address = description->addr, .found = { .r = description } };

	bpf_loop(MOST_TRIES, try_to_find, &search, 0);
	return search.error;
}

/*
 * These are functions of their own, which get numbers or memory of their caller: the kernel checks each of them once,
 * and not with all that came before. Checking is most of what attaching takes.
 */
__noinline int mapped(__u64 address, __u64 len_bytes)
{
	struct dms_map description = { .addr = address, .len_bytes = len_bytes };
	struct thread *th;
	struct target *t;
	long error;

	t = current_target(&th);
	if (!t)
		return 0;
	error = find_area(&description);
	/* Without what it is, shared memory would be taken for private. If it is gone, another thread has unmapped it. */
	if (!error)
		put_map(t, &description);
	else if (error != -ENOENT)
		count_lost(t, OF_MAPPINGS);
	return 0;
}

struct mmap_arguments {
	__u64 len_bytes;
	__u64 protection;
	__u64 flags;
	__u64 descriptor;
	__u64 offset_bytes;
};

/* The file that a descriptor stands for; it may be another one by now if another thread closes it at once. */
static __always_inline struct file *file_of(__u32 descriptor)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct file **files = BPF_CORE_READ(task, files, fdt, fd), *file = NULL;

	if (descriptor < BPF_CORE_READ(task, files, fdt, max_fds))
		bpf_probe_read_kernel(&file, sizeof(file), files + descriptor);
	return file;
}

/*
 * The arguments tell all of private memory without a file. Of other memory they do if the kernel's
 * lists of mappings are locked, which they may be for long if whoever changes them lost its CPU.
 */
__noinline int mapped_by_call(const struct mmap_arguments *call, __u64 address)
{
	struct dms_map description = { .addr = address };
	__u64 flags;
	bool shared;
	struct thread *th;
	struct target *t;
	struct file *file;
	long error = -EBUSY;

	t = current_target(&th);
	if (!t || !call)
		return 0;
	description.len_bytes = call->len_bytes;
	flags = call->flags;
	shared = (flags & MAP_TYPE) != MAP_PRIVATE;
	if (shared || !(flags & MAP_ANONYMOUS))
		error = find_area(&description);
	if (error == -ENOENT)
		return 0;
	if (error) {
		description.flags = (shared ? DMS_MAP_SHARED : 0) | (call->protection & PROT_EXEC ? DMS_MAP_EXEC : 0);
		file = flags & MAP_ANONYMOUS ? NULL : file_of(call->descriptor);
		/* Shared memory without a file has one that only its mapping knows. */
		if (flags & MAP_ANONYMOUS ? shared : !file) {
			count_lost(t, OF_MAPPINGS);
			return 0;
		}
		if (file) {
			description.flags |= DMS_MAP_FILE;
			name_file(&description, file);
			description.offset_bytes = call->offset_bytes;
		}
	}
	put_map(t, &description);
	return 0;
}

/* No length: the shared memory that was attached at the address, all of it. */
__noinline int unmapped(__u64 address, __u64 len_bytes)
{
	struct dms_unmap *r;
	struct thread *th;
	struct target *t;

	t = current_target(&th);
	if (!t)
		return 0;
	r = reserve(t, sizeof(*r), OF_MAPPINGS);
	if (!r)
		return 0;
	r->addr = address;
	r->len_bytes = len_bytes;
	fill_header(&r->h, DMS_UNMAP, 0, 0);
	submit(r);
	return 0;
}

struct user_segments {
	struct user_iovec iov;	/* what is left of the current one */
	__u64 next;		/* address of the next */
	__u64 left;		/* how many are left */
};

static __always_inline void refill(struct user_segments *s)
{
	if (s->iov.len_bytes || !s->left)
		return;
	if (bpf_probe_read_user(&s->iov, sizeof(s->iov), (void *)s->next))
		s->iov.len_bytes = 0;
	s->next += sizeof(s->iov);
	s->left--;
}

struct crossing {
	struct user_segments local;
	struct user_segments remote;
	__u64 sp;
	__u64 moved;	/* bytes not yet told */
	__u32 remote_pid;
	__u16 flags;
};

/* One record for each stretch that is contiguous on both sides. */
static long cross_segment(__u32 i, void *data)
{
	struct crossing *c = data;
	struct dms_cross *r;
	struct thread *th;
	struct target *t;
	__u64 n;

	refill(&c->local);
	refill(&c->remote);
	n = c->local.iov.len_bytes < c->remote.iov.len_bytes ? c->local.iov.len_bytes :
							       c->remote.iov.len_bytes;
	if (n > c->moved)
		n = c->moved;
	if (!n)
		return 0; /* an empty iovec */
	t = current_target(&th);
	if (!t)
		return 1;
	r = reserve(t, sizeof(*r), OF_MOVEMENTS);
	if (r) {
		r->local = c->local.iov.base;
		r->remote = c->remote.iov.base;
		r->len_bytes = n;
		r->remote_pid = c->remote_pid;
		r->segment = i;
		fill_context(&r->ctx, th, c->sp);
		fill_header(&r->h, DMS_CROSS, c->flags, 0);
		submit(r);
	}
	c->local.iov.base += n;
	c->local.iov.len_bytes -= n;
	c->remote.iov.base += n;
	c->remote.iov.len_bytes -= n;
	c->moved -= n;
	return c->moved == 0;
}

__noinline int crossed(const struct crossing *call)
{
	struct crossing c;
	struct thread *th;
	struct target *t;

	t = current_target(&th);
	if (!t || !call)
		return 0;
	/* Code that notes calls reads handles so: that is no movement of the program's. */
	if (t->notes_at && call->remote_pid == bpf_get_current_pid_tgid() >> 32 && call->moved <= sizeof(__u64))
		return 0;
	c = *call; /* what a loop works on must lie on the stack of its own function */
	bpf_loop(CROSS_SEGMENTS, cross_segment, &c, 0);
	if (c.moved)
		count_lost(t, OF_MOVEMENTS);
	return 0;
}

static __always_inline void crossed_by_call(struct pt_regs *regs, long ret, bool write)
{
	struct crossing c = {
		.local = { .next = regs->si, .left = regs->dx },
		.remote = { .next = regs->r10, .left = regs->r8 },
		.sp = regs->sp,
		.moved = ret,
		.remote_pid = regs->di,
		.flags = write ? DMS_CROSS_WRITE : 0,
	};

	if (!is_paused && ret > 0)
		crossed(&c);
}

static __always_inline void system_call_returned(long number, struct pt_regs *regs, long ret)
{
	struct mmap_arguments mmap;

	switch (number) {
	case 9: /* mmap */
		if (failed(ret))
			break;
		mmap = (struct mmap_arguments){ regs->si, regs->dx, regs->r10, regs->r8, regs->r9 };
		mapped_by_call(&mmap, ret);
		break;
	case 11: /* munmap */
		if (!failed(ret))
			unmapped(regs->di, regs->si);
		break;
	case 25: /* mremap */
		if (!failed(ret)) {
			unmapped(regs->di, regs->si);
			mapped(ret, regs->dx);
		}
		break;
	case 30: /* shmat: the length is that of the area */
		if (!failed(ret))
			mapped(ret, 0);
		break;
	case 67: /* shmdt */
		if (!failed(ret))
			unmapped(regs->di, 0);
		break;
	case 310:
		crossed_by_call(regs, ret, false);
		break;
	case 311:
		crossed_by_call(regs, ret, true);
		break;
	}
}

/* 32-bit programs are not followed, but a process that tries by such calls to hide what it maps is not complete. */
static __always_inline void compat_call_returned(long number, long ret)
{
	struct thread *th;
	struct target *t;

	switch (number) {
	case 90:  /* mmap, of the old kind */
	case 91:  /* munmap */
	case 117: /* ipc: shmat, shmdt */
	case 163: /* mremap */
	case 192: /* mmap */
	case 347: /* process_vm_readv */
	case 348: /* process_vm_writev */
	case 397: /* shmat */
	case 398: /* shmdt */
		t = failed(ret) ? NULL : current_target(&th);
		if (t)
			count_lost(t, OF_MAPPINGS);
	}
}

SEC("tp_btf/sys_exit")
int BPF_PROG(dms_sys_exit, struct pt_regs *regs, long ret)
{
	if (bpf_get_current_task_btf()->thread_info.status & TS_COMPAT)
		compat_call_returned(regs->orig_ax, ret);
	else
		system_call_returned(regs->orig_ax, regs, ret);
	return 0;
}

#endif
