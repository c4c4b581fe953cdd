/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
 *
 * What the BPF programs write into the rings. Every record is a whole number of
 * 64-bit words with no implicit padding (ring memory is not zeroed). The Rust side
 * of this file is analyzer/src/tape/wire/; a test compares sizes and offsets of both.
 */
#ifndef DMSCOPE_WIRE_H
#define DMSCOPE_WIRE_H

enum dms_kind {
	DMS_COPY = 1,	/* a memory copy, seen just before it runs */
	DMS_PACK = 2,	/* a pack or unpack of a derived datatype, seen at its entry */
	DMS_CROSS = 3,	/* process_vm_readv/writev, seen at its return, one record a segment */
	DMS_CALL = 4,	/* an MPI call, seen at its entry */
	DMS_DONE = 5,	/* a polling MPI call that answered yes, or a reported error that the program survives */
	DMS_ALLOC = 6,	/* a heap block, seen when the allocator returns it */
	DMS_FREE = 7,	/* a heap block, seen when it is given back */
	DMS_MAP = 8,	/* a new mapping, seen when it exists */
	DMS_UNMAP = 9,	/* an address range that is no longer mapped */
	DMS_FORK = 10,	/* a new process */
	DMS_EXEC = 11,	/* a process replaced its program */
	DMS_EXIT = 12,	/* a process (not a mere thread) ended */
	DMS_VALUES = 13,	/* what an argument of the thread's last MPI call points to */
	DMS_RETURN = 14,	/* the thread's last MPI call returned */
	DMS_MADE = 15,	/* what the thread's last MPI call stored, seen at the next one */
	DMS_STREAM = 16,	/* bytes into or out of a TCP stream, seen when they have moved, one record a segment */
	DMS_WORK = 17,	/* a work request, seen when it was posted, one record a segment */
	DMS_COMPLETION = 18,	/* a work completion, seen when it was polled */
	DMS_QUEUE = 19,	/* a queue pair is about to be set up, connected or reset */
	/* 20 and 21 are not written here: see analyzer/src/tape/wire/record.rs */
	DMS_HELD_UP = 22,	/* dmscope ran where the thread waited for its processor, told at the thread's next hit */
	DMS_THREAD = 23,	/* a new thread of the process */
};

/* dms_header.flags */
enum {
	DMS_PACK_UNPACK = 1,	/* PACK: the destination is the non-contiguous side */
	DMS_CROSS_WRITE = 1,	/* CROSS: writev, the remote side is the destination */
	DMS_STREAM_RECEIVE = 1,	/* STREAM: out of the stream into memory */
	DMS_WORK_RECEIVE = 1,	/* WORK: posted to a receive queue … */
	DMS_WORK_SHARED = 2,	/* … which several queue pairs share */
	DMS_CALL_NESTED = 1,	/* CALL: made inside another MPI call */
	DMS_VALUES_RETURN = 1,	/* VALUES: read when the call returned, not at its entry */
	DMS_HELD_UP_MOVED = 1,	/* HELD_UP: the thread changed its processor */
	DMS_HELD_UP_SLEPT = 2,	/* HELD_UP: it slept in between as well */
	DMS_THREAD_IN_CALL = 1,	/* THREAD: created within an MPI call */
};

/* dms_map.flags */
enum {
	DMS_MAP_SHARED = 1,
	DMS_MAP_EXEC = 2,
	DMS_MAP_FILE = 4,
};

struct dms_header {
	__u64 time_ns;	/* CLOCK_MONOTONIC */
	__u32 pid;	/* thread group id in the initial pid namespace */
	__u32 tid;
	__u16 kind;
	__u16 flags;
	__u32 probe;	/* id in the plan; 0: none (kernel events) */
};

/* The outermost MPI call that the thread is in; all zero if none is known. */
struct dms_context {
	__u64 call_return;	/* return address of the call, user space */
	__u32 call_probe;	/* probe id of the entry point */
	__u32 call_serial;	/* calls of this thread so far */
};

struct dms_copy {	/* COPY */
	struct dms_header h;
	__u64 dst;
	__u64 src;
	__u64 len_bytes;
	struct dms_context ctx;
};

struct dms_pack {	/* PACK */
	struct dms_header h;
	__u64 dst;
	__u64 src;
	__u64 len_bytes;	/* at most this many bytes are moved */
	struct dms_context ctx;
	__u64 segments;		/* 0: not known, at least two */
};

struct dms_cross {	/* CROSS */
	struct dms_header h;
	__u64 local;
	__u64 remote;
	__u64 len_bytes;
	struct dms_context ctx;
	__u32 remote_pid;	/* as the caller named it, in its own pid namespace */
	__u32 segment;		/* 0, 1, … within one system call */
};

struct dms_stream {	/* STREAM */
	struct dms_header h;
	__u64 addr;		/* 0: not known */
	__u64 stream;		/* the same number at both ends, another one for each direction */
	__u32 position;		/* in the stream: TCP's sequence number of the first byte */
	__u32 len_bytes;
	struct dms_context ctx;
};

struct dms_work {	/* WORK */
	struct dms_header h;
	__u64 addr;		/* of this segment */
	__u64 number;		/* the program's own: wr_id */
	__u32 queue;		/* number of the queue pair; shared receive queue: of its address (DMS_SHARED_QUEUE) */
	__u32 len_bytes;	/* of this segment */
	struct dms_context ctx;
	__u8 operation;		/* enum ibv_wr_opcode */
	__u8 send_flags;	/* enum ibv_send_flags */
	__u8 segment;		/* 0, 1, … within one request */
	__u8 segments;		/* there are; 0: it has no data, and one record */
	__u32 took_ns;		/* it was being posted for so long */
	__u64 remote;		/* what it writes or reads there, of this segment; others: 0 */
};

/* A shared receive queue has no number of its own. */
#define DMS_SHARED_QUEUE(address) ((__u32)((address) >> 4))

struct dms_completion {	/* COMPLETION */
	struct dms_header h;
	__u64 number;		/* wr_id */
	__u32 queue;		/* number of the queue pair; 0: it is not known which, nor all of the rest */
	__u32 len_bytes;	/* of what was received */
	__u32 operation;	/* enum ibv_wc_opcode */
	__u32 status;		/* enum ibv_wc_status; 0: success */
	struct dms_context ctx;
	__u32 took_ns;		/* the poll took so long */
	__u32 idle_ns;		/* so long ago the thread's last poll of this queue began that found nothing; 0: not known */
};

/* Something was posted to a queue pair that was not seen to be connected: who is at its other end is for others to ask. */
#define DMS_QUEUE_IN_USE 0x80

struct dms_queue {	/* QUEUE: what ibv_modify_qp is asked for, or that a queue pair is in use */
	struct dms_header h;
	__u64 address[2];	/* of the other end: its GID as it lies in memory */
	__u32 queue;		/* number of the queue pair */
	__u32 peer;		/* and of the other end's */
	__u8 state;		/* enum ibv_qp_state: the next one; or DMS_QUEUE_IN_USE */
	__u8 type;		/* enum ibv_qp_type */
	__u8 port;
	__u8 index;		/* of its own GID among those of the port */
	__u16 lid;		/* of the other end */
	__u16 is_global;	/* the GID counts, and not the LID */
	__u32 psn;		/* first packet to receive (next state: ready to receive) or to send (ready to send); in use: its handle */
	__u32 shared;		/* its shared receive queue, as in dms_work; 0: none */
	__u64 device[2];	/* the beginning of the device's name */
};

struct dms_call {	/* CALL */
	struct dms_header h;
	__u64 call_return;
	__u64 args[6];
};

/* Arguments on the stack (the seventh and those after it) count as what this argument points to. */
#define DMS_STACK_ARGUMENTS 6
/*
 * In the place of an argument: buffers of sends that have changed since these began, and are not complete. Five words for each: which of
 * the call's requests it is, where the buffer is, nanoseconds since it was looked at for the first time, the first byte that has
 * changed, and 0.
 */
#define DMS_CHANGED_BUFFERS 64
#define DMS_NO_ARGUMENT 0xff

struct dms_values {	/* VALUES: one piece; others may follow */
	struct dms_header h;
	__u32 serial;		/* calls of this thread so far */
	__u32 argument;		/* which one points to it, from 0 */
	__u32 total_bytes;	/* of all pieces; some may never come */
	__u32 position_bytes;	/* of this one */
	__u64 words[5];
};

struct dms_return {	/* RETURN */
	struct dms_header h;
	__u32 serial;
	__s32 code;		/* what it returned */
	__u32 argument;		/* the one that points to `word`; DMS_NO_ARGUMENT: none */
	__u32 bytes;		/* of word */
	__u64 word;
};

struct dms_made {	/* MADE: the probe is that of the call which stored it */
	struct dms_header h;
	__u64 handle;
};

struct dms_held_up {	/* HELD_UP: since the thread's hit of a call before */
	struct dms_header h;
	__u64 waited_ns;	/* it could have run, and did not */
	__u64 own_ns;		/* dmscope ran for so long on the processor where the thread was at that hit */
};

struct dms_alloc {	/* ALLOC */
	struct dms_header h;
	__u64 addr;
	__u64 size_bytes;
	__u64 old;		/* realloc: the block it replaces */
	__u64 caller;		/* return address */
};

struct dms_free {	/* FREE */
	struct dms_header h;
	__u64 addr;
	__u64 caller;
};

struct dms_map {	/* MAP */
	struct dms_header h;
	__u64 addr;
	__u64 len_bytes;
	__u64 offset_bytes;	/* in the file */
	__u64 inode;
	__u32 dev;		/* new-style encoding: major << 20 | minor */
	__u32 flags;
};

struct dms_unmap {	/* UNMAP */
	struct dms_header h;
	__u64 addr;
	__u64 len_bytes;	/* 0: of the System V segment that is attached at addr */
};

struct dms_life {	/* FORK: the child's pid; THREAD: its tid; EXEC: 0 */
	struct dms_header h;
	__u64 value;
};

struct dms_end {	/* EXIT */
	struct dms_header h;
	__u64 status;	/* as wait() gives it */
	__u64 at;	/* the instruction that got the signal which ended it; 0: none, or not known */
};

#endif
