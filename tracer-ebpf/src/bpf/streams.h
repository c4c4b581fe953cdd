/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
 *
 * What moves through TCP connections: bytes into and out of a stream at positions that both ends count alike, since
 * they are what is on the wire. Seen behind the protocol, before the system call returns: the stream stands at the
 * end of what moved, and the arguments of the call are still there.
 */
#ifndef DMSCOPE_STREAMS_H
#define DMSCOPE_STREAMS_H

/* Segments that one system call takes at most. */
#define MOST_IOVECS 1024
#define MSG_PEEK 2
#define MSG_TRUNC 0x20
#define RCV_SHUTDOWN 1
#define AF_INET 2
#define AF_INET6 10
/* Of task_struct.flags. */
#define PF_IO_WORKER 0x00000010

/* An address of either family: those of IPv4 as IPv6 maps them. */
struct stream_address {
	__u64 high;
	__u64 low;
};

/* Of this machine since it booted: streams that never leave it are told from those of other machines. */
const volatile __u64 machine_seed = 0;

static __always_inline __u64 mixed(__u64 hash, __u64 word)
{
	hash = (hash ^ word) + 0x9e3779b97f4a7c15ULL;
	hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9ULL;
	hash = (hash ^ hash >> 27) * 0x94d049bb133111ebULL;
	return hash ^ hash >> 31;
}

/* As IPv6 maps it, both words in the order of the bytes on the wire. */
static __always_inline struct stream_address mapped_address(__u32 address)
{
	return (struct stream_address){ .low = (__u64)address << 32 | 0xffff0000 };
}

static __always_inline bool is_loopback(const struct stream_address *address)
{
	bool mapped = !address->high && (__u32)address->low == 0xffff0000;

	return (mapped && (address->low >> 32 & 0xff) == 127) || (!address->high && address->low == 1ULL << 56);
}

/* Both ends of a stream, from the one that writes to the one that reads. */
struct stream_ends {
	struct stream_address from;
	struct stream_address to;
	__u32 ports;
	__u32 network;	/* the network namespace */
};

/* A function of its own: the kernel checks it once, and not with all that came before. */
__noinline __u64 stream_number(const struct stream_ends *ends)
{
	__u64 hash = 0;

	if (!ends)
		return 0;
	/* Addresses that every network namespace of every machine has. */
	if (is_loopback(&ends->from) || is_loopback(&ends->to))
		hash = mixed(machine_seed, ends->network);
	hash = mixed(mixed(hash, ends->from.high), ends->from.low);
	hash = mixed(mixed(hash, ends->to.high), ends->to.low);
	return mixed(hash, ends->ports);
}

/* The number of the stream out of a socket or into it; the same at both ends. */
static __always_inline __u64 stream_of(struct sock *sk, bool receive)
{
	__u16 near = sk->__sk_common.skc_num, far = __builtin_bswap16(sk->__sk_common.skc_dport);
	struct stream_ends ends = {
		.ports = receive ? (__u32)far << 16 | near : (__u32)near << 16 | far,
		.network = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum),
	};
	struct stream_address *here = receive ? &ends.to : &ends.from;
	struct stream_address *there = receive ? &ends.from : &ends.to;

	if (sk->__sk_common.skc_family == AF_INET) {
		*here = mapped_address(sk->__sk_common.skc_rcv_saddr);
		*there = mapped_address(sk->__sk_common.skc_daddr);
	} else {
		bpf_probe_read_kernel(here, sizeof(*here), &sk->__sk_common.skc_v6_rcv_saddr);
		bpf_probe_read_kernel(there, sizeof(*there), &sk->__sk_common.skc_v6_daddr);
	}
	return stream_number(&ends);
}

/*
 * Where the program's side is, as the arguments of the system call say: one buffer, or segments. A base of 0: nobody
 * knows. A function of its own, as above.
 */
__noinline int find_buffers(struct user_segments *s, __u64 call, __u64 second, __u64 third)
{
	__u64 vector[2] = {};

	if (!s)
		return 0;
	s->iov.base = 0;
	s->iov.len_bytes = ~0ULL;
	s->next = 0;
	s->left = 0;
	switch (call) {
	case 0:  /* read */
	case 1:  /* write */
	case 44: /* sendto */
	case 45: /* recvfrom */
		s->iov.base = second;
		s->iov.len_bytes = third;
		break;
	case 19: /* readv */
	case 20: /* writev */
		s->iov.len_bytes = 0;
		s->next = second;
		s->left = third;
		break;
	case 46: /* sendmsg */
	case 47: /* recvmsg: behind the name and its length */
		if (bpf_probe_read_user(vector, sizeof(vector), (void *)(second + 16)))
			break;
		s->iov.len_bytes = 0;
		s->next = vector[0];
		s->left = vector[1];
		break;
	}
	return 0;
}

struct streaming {
	struct user_segments buffers;
	__u64 stream;
	__u64 sp;
	__u32 position;
	__u32 left_bytes;
	bool receive;
};

static long stream_segment(__u32 i, void *data)
{
	struct streaming *s = data;
	struct dms_stream *r;
	struct thread *th;
	struct target *t;
	__u64 n;

	refill(&s->buffers);
	n = s->buffers.iov.len_bytes < s->left_bytes ? s->buffers.iov.len_bytes : s->left_bytes;
	if (!n)
		return !s->buffers.left; /* an empty iovec */
	t = current_target(&th);
	if (!t)
		return 1;
	r = reserve(t, sizeof(*r), OF_MOVEMENTS);
	if (r) {
		r->addr = s->buffers.iov.base;
		r->stream = s->stream;
		r->position = s->position;
		r->len_bytes = n;
		fill_context(&r->ctx, th, s->sp);
		fill_header(&r->h, DMS_STREAM, s->receive ? DMS_STREAM_RECEIVE : 0, 0);
		submit(r);
	}
	if (s->buffers.iov.base)
		s->buffers.iov.base += n;
	s->buffers.iov.len_bytes -= n;
	s->position += n;
	s->left_bytes -= n;
	return s->left_bytes == 0;
}

/* A function of its own, as above. */
__noinline int tell_stream(const struct streaming *moved)
{
	struct streaming s;
	struct thread *th;
	struct target *t = current_target(&th);

	if (!t || !moved)
		return 0;
	s = *moved; /* what a loop works on must lie on the stack of its own function */
	bpf_loop(MOST_IOVECS, stream_segment, &s, 0);
	if (s.left_bytes)
		count_lost(t, OF_MOVEMENTS);
	return 0;
}

/* So many bytes went into or out of a socket, in a call of MPI or not: libraries have threads, and polling calls no probe. */
static __always_inline void streamed(struct sock *sk, int bytes, bool receive)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct streaming s = { .left_bytes = bytes, .receive = receive };
	struct pt_regs *regs;
	struct tcp_sock *tcp;
	__u16 family = sk->__sk_common.skc_family;
	bool is_unknown;
	struct thread *th;
	struct target *t;

	if (bytes <= 0 || is_paused || (family != AF_INET && family != AF_INET6))
		return;
	t = current_target(&th);
	if (!t)
		return;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	s.sp = regs->sp;
	tcp = bpf_skc_to_tcp_sock(sk);
	if (!tcp)
		return;
	s.stream = stream_of(sk, receive);
	s.position = (receive ? tcp->copied_seq : tcp->write_seq) - bytes;
	/* The end of the stream counts as one byte; it was read as well. */
	if (receive && sk->sk_shutdown & RCV_SHUTDOWN && tcp->copied_seq == tcp->rcv_nxt)
		s.position--;
	is_unknown = task->flags & PF_IO_WORKER || task->thread_info.status & TS_COMPAT;
	find_buffers(&s.buffers, is_unknown ? ~0ULL : regs->orig_ax, regs->si, regs->dx);
	tell_stream(&s);
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(dms_sent, struct sock *sk, int ret, int flags)
{
	streamed(sk, ret, false);
	return 0;
}

/* What is looked at stays in the stream; what is thrown away unread is not in the buffer. */
SEC("tp_btf/sock_recv_length")
int BPF_PROG(dms_received, struct sock *sk, int ret, int flags)
{
	if (!(flags & (MSG_PEEK | MSG_TRUNC)))
		streamed(sk, ret, true);
	return 0;
}

#endif
