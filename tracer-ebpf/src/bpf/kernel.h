/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
 *
 * The few kernel structures that are read, as CO-RE declarations: the loader finds
 * where the fields are in the running kernel.
 */
#ifndef DMSCOPE_KERNEL_H
#define DMSCOPE_KERNEL_H

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8;
	unsigned long ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};

struct super_block {
	__u32 s_dev;
	unsigned long s_magic;
};

struct inode {
	struct super_block *i_sb;
	unsigned long i_ino;
};

struct file {
	struct inode *f_inode;
	unsigned int f_mode;
};

struct mm_struct {
	struct file *exe_file;
};

struct dentry {
	struct inode *d_inode;
};

struct path {
	struct dentry *dentry;
};

/* What an overlay file system maps in place of the file that was opened. */
struct backing_file {
	struct path user_path;
};

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
	unsigned long vm_flags;
	unsigned long vm_pgoff;
	struct file *vm_file;
};

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
};

struct sched_entity {
	__u64 sum_exec_runtime;
};

struct sched_info {
	__u64 run_delay;	/* it could have run, and did not, ns */
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct thread_info {
	__u32 status;
};

struct in6_addr {
	__u8 bytes[16];
};

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct sock_common {
	__u32 skc_daddr;
	__u32 skc_rcv_saddr;
	__u16 skc_dport;	/* in the order of the wire */
	__u16 skc_num;
	unsigned short skc_family;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct sock {
	struct sock_common __sk_common;
	__u8 sk_shutdown;
};

/* Positions are those behind the last byte. */
struct tcp_sock {
	__u32 rcv_nxt;		/* received */
	__u32 copied_seq;	/* read by the program */
	__u32 write_seq;	/* written by the program */
};

struct thread_struct {
	unsigned long fsbase;	/* the thread pointer */
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int __state;
	unsigned int flags;
	struct sched_entity se;
	int pid;
	int tgid;
	int exit_code;
	__u64 start_boottime;
	struct signal_struct *signal;
	struct task_struct *group_leader;
	struct files_struct *files;
	struct mm_struct *mm;
	struct sched_info sched_info;
	unsigned long nvcsw;	/* how often it went to sleep */
	struct thread_struct thread;
};

struct kernel_siginfo {
	int si_code;
};

struct linux_binprm;

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop

/* vm_flags */
#define VM_EXEC 0x00000004
#define VM_SHARED 0x00000008

/* Of f_mode, one of these bits: another one in other versions. */
#define FMODE_BACKING (3 << 24)
/* s_magic */
#define OVERLAYFS_SUPER_MAGIC 0x794c7630

#endif
