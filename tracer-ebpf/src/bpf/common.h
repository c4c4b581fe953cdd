/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
 *
 * What all programs share: who is watched, where records go, and what is lost.
 */
#ifndef DMSCOPE_COMMON_H
#define DMSCOPE_COMMON_H

/* As many processes can be watched at once; each has a ring and a slot of counters. */
#define MAX_SLOTS 256
/* Code ranges of a process whose allocations count as "its own". */
#define MAX_OWN 8
/* The user side has not told yet which code is the process's own: all of it may be. */
#define OWNS_ALL 0xffffffff
#define PAGE_SIZE 4096

/* Arguments of an MPI call at most; a power of two. */
#define CALL_ARGUMENTS 16
/* Of what a polling call asks for, so much is kept until its answer is known: as many words as come in twelve pieces. */
#define KEPT_WORDS 60

struct code_range {
	__u64 start;
	__u64 end;
};

/* A watched process: its PID may be another's later, which began at another time. */
struct target {
	__u64 start_ticks;
	__u32 slot;
	__u32 owns;	/* used entries of own */
	struct code_range own[MAX_OWN];
	__u64 fault_at;	/* where it last got a signal that ends programs */
	__u32 fault_signal;
	__u32 is_moved;	/* it records by itself what `fates` says was moved */
	__u64 notes_at;	/* where its threads note their MPI calls, if they do: see context.h */
};

/* One cache line a slot, so that processes do not share any. */
struct slot_counters {
	__u64 lost_movements;
	__u64 lost_calls;	/* records without which it is not known what it has called, nor whether it lives */
	__u64 lost_state;	/* records without which the process's memory is not known */
	__u64 declined;		/* hits of allocation probes that were not worth a record */
	__u64 refused;		/* polling calls that were followed to their return, and said no */
	__u64 unused[3];
} __attribute__((aligned(64)));

struct slot_counters counters[MAX_SLOTS];

/* Set before load. */
const volatile __u64 tick_ns = 10000000;
const volatile __u64 alloc_min_bytes = 4096;
/*
 * How far records fill a ring, by what they tell of. Without one heap block it is not known what memory holds, without one
 * MPI call nothing of messages any more; the rest is for mappings and the life of processes.
 */
const volatile __u64 movement_limit_bytes = ~0ULL;
const volatile __u64 heap_limit_bytes = ~0ULL;
const volatile __u64 call_limit_bytes = ~0ULL;

/* What a record tells of. */
enum record_subject { OF_MOVEMENTS, OF_HEAP, OF_CALLS, OF_MAPPINGS, OF_LIFE };

/*
 * From Linux 6.13 on the frame of a program may lie on a stack of the processor, which is sound for programs that nothing
 * like them interrupts. A task may be preempted within a program of a uprobe, and another one run into the same probe on
 * this processor: it would write over the frame. Programs that have a tail call keep their frame on the stack of the task;
 * these are never made. One table for each kind of program: the kernel does not let them share.
 */
const volatile bool makes_tail_calls = false;

struct tail_calls {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
};

struct tail_calls multi_tail_calls SEC(".maps");
struct tail_calls session_tail_calls SEC(".maps");

#define KEEP_FRAME_OF_TASK(ctx, kind)                                                                                \
	do {                                                                                                         \
		if (makes_tail_calls)                                                                                \
			bpf_tail_call(ctx, &kind##_tail_calls, 0);                                                   \
	} while (0)

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct target);
} targets SEC(".maps");

struct ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, PAGE_SIZE);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, MAX_SLOTS);
	__type(key, __u32);
	__array(values, struct ring);
} rings SEC(".maps");

/*
 * The user side adds one whenever it changed `targets`: what threads keep of it is old then.
 * It starts above the zero of a new thread.
 */
volatile __u32 watch_epoch SEC(".data.watch") = 1;
/* Set by the user side while probes are out: nobody follows what system calls move between processes either. */
volatile __u32 is_paused SEC(".data.watch") = 0;
/*
 * Links that are held twice for a moment, since some of their probes are to go: the hits of the others are recorded by the
 * first of both links while this is 0, and by the second from then on.
 */
volatile __u32 second_links SEC(".data.watch") = 0;

/* What became of a probe since it was attached, by its id. */
#define MOST_FATES 65536
#define FATE_MOVED 1	/* processes whose target says so record it by themselves */
#define FATE_LINKED_TWICE 2

volatile __u8 fates[MOST_FATES] SEC(".data.fates");

static __always_inline __u8 fate(__u32 probe)
{
	return probe < MOST_FATES ? fates[probe] : 0;
}

/*
 * Probes by what they watch, in the order of the user side's classes. Processes that nobody watches run into them
 * where they map the same files: they pay for it, and it is told.
 */
enum probe_class {
	CLASS_COPY,
	CLASS_PACK,
	CLASS_UNPACK,
	CLASS_CALL,
	CLASS_CALL_RESULTS,
	CLASS_POLL_SUCCESS,
	CLASS_POLL_RETURN,
	CLASS_ALLOC,
	CLASS_FREE,
	CLASS_ERROR,
	CLASS_VERBS_POST,
	CLASS_VERBS_POLL,
	CLASS_VERBS_QUEUE,
	CLASS_VERBS_BUILD,
	CLASSES,
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, CLASSES);
	__type(key, __u32);
	__type(value, __u64);
} stranger_hits SEC(".maps");

/* A completion queue that a thread found empty. */
struct idle_queue {
	__u64 at;
	__u64 since_ns;		/* when that poll began */
};

#define IDLE_QUEUES 4

/* A completion that a thread has got from an extended completion queue, and asks more about. */
struct polled {
	__u64 queue_at;		/* the completion queue; 0: none */
	__u64 number;
	__u64 time_ns;		/* when the poll had returned */
	__u64 idle_since_ns;
	__u32 took_ns;
	__u32 probe;
	__u32 known;		/* of the following, as bits */
	__u32 operation;
	__u32 len_bytes;
	__u32 queue;
};

/* Words of a buffer that are kept: see sent_buffers.h. */
#define SAMPLE_WORDS 24

/* The buffer of a send, as it was when that began. */
struct sent_buffer {
	__u64 since_ns;	/* 0: the request is not active */
	__u64 handle;	/* the request */
	__u64 buffer;	/* user space */
	__u64 len_bytes;
	__u64 words[SAMPLE_WORDS];
};

/* What is known of a thread between two probes. */
struct thread {
	struct target target;	/* of its process; old unless watch_epoch is the present one */
	__u32 watch_epoch;
	__u32 call_hooked;	/* its return is: the kernel's trampoline is where the return address was */
	__u64 trampoline;	/* of the process; 0: not known yet */
	__u64 call_sp;		/* where the return address of its MPI call lies */
	__u64 call_return;
	__u32 call_probe;
	__u32 call_serial;
	__u64 note_at;		/* where it notes its MPI calls; 0: not known */
	__u32 noted_calls;	/* so many when the note was read last */
	__u32 is_noted;		/* its call was noted, and no probe of the call itself has been hit since */
	__u32 second_links;	/* as its last hit of a second link found it */
	__u64 alloc_size_bytes;	/* of the allocation it is in */
	__u64 alloc_old;
	__u64 alloc_result;	/* posix_memalign: where the block's address will be stored */
	__u64 poll_flag;	/* of the polling call it is in */
	__u64 poll_queue;	/* the completion queue that it polls */
	struct idle_queue idle[IDLE_QUEUES];
	__u64 completions_at;	/* where the poll of a completion queue that it is in will store them */
	__u64 post_at;		/* the list of work requests that it is posting; 0: none */
	__u64 post_queue;
	__u64 post_refused_at;	/* where the first that is refused will be stored */
	__u64 verbs_since_ns;	/* when that, or the poll, began */
	struct polled polled;
	__u64 made_at;		/* where its last MPI call stored a handle; 0: nowhere */
	__u32 made_probe;
	__u32 made_bytes;
	__u64 waited_ns;	/* for its processor, up to its last hit of a call */
	__u64 own_ns;		/* what dmscope had run on the processor of that hit */
	__u64 sleeps;		/* up to then */
	__u64 processor;	/* and 1; 0: no such hit yet */
	__u64 args[CALL_ARGUMENTS];	/* of the call whose results are wanted */
	__u32 kept_bytes;	/* of a polling call: what `kept` would have, if it were large enough */
	__u32 kept_argument;
	__u64 kept[KEPT_WORDS];
	struct sent_buffer sent;	/* room to fill one in */
	__u32 changed_word;	/* of what is in it */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

/* What a probe's cookie says; the user side packs it in attach. */
static __always_inline __u32 cookie_probe(__u64 cookie) { return (__u32)cookie & 0x7fffffff; }
static __always_inline bool cookie_is_of_second_link(__u64 cookie) { return cookie >> 31 & 1; }
static __always_inline __u32 cookie_stack_bytes(__u64 cookie) { return (cookie >> 32) & 0xffff; }
static __always_inline __u32 cookie_argument(__u64 cookie) { return cookie >> 48; }

static __always_inline struct thread *current_thread(bool create)
{
	return bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0,
				    create ? BPF_LOCAL_STORAGE_GET_F_CREATE : 0);
}

/* When its process began, as /proc/PID/stat counts. */
static __always_inline __u64 start_ticks(struct task_struct *task)
{
	return BPF_CORE_READ(task, group_leader, start_boottime) / tick_ns;
}

/* How the process of a task is watched; NULL: not at all. */
static __always_inline struct target *target_of(struct task_struct *task)
{
	__u32 tgid = BPF_CORE_READ(task, tgid);
	struct target *t = bpf_map_lookup_elem(&targets, &tgid);

	return t && t->start_ticks == start_ticks(task) ? t : NULL;
}

/* The first hit of a thread since the list was changed, and every hit of a stranger. */
static __noinline struct target *look_up_target(void)
{
	__u32 epoch = watch_epoch; /* before the look-up, else a change in between would not be seen */
	struct target *t = target_of(bpf_get_current_task_btf());
	struct thread *th;

	if (!t)
		return NULL;
	th = current_thread(true);
	if (th) {
		th->target = *t;
		th->watch_epoch = epoch;
	}
	return t;
}

/*
 * Whether the process is watched, and how. The list of watched processes is a hash table;
 * threads keep what it said, because a look into it costs twice as much as one at the thread.
 * `thread` may be NULL for a watched process: there was no memory for it.
 */
static __always_inline struct target *current_target(struct thread **thread)
{
	struct thread *th = current_thread(false);
	struct target *t;

	*thread = th;
	if (th && th->watch_epoch == watch_epoch)
		return &th->target;
	t = look_up_target();
	if (t && !th)
		*thread = current_thread(false);
	return t;
}

static __noinline int count_stranger(__u32 class)
{
	__u64 *hits = bpf_map_lookup_elem(&stranger_hits, &class);

	/* On its own processor's line, but another task may come in between. */
	if (hits)
		__sync_fetch_and_add(hits, 1);
	return 0;
}

/* The same at the entry of a probe; a hit of a process that is not watched is counted. */
static __always_inline struct target *hit_target(struct thread **thread, enum probe_class class)
{
	struct target *t = current_target(thread);

	if (!t)
		count_stranger(class);
	return t;
}

/*
 * Whether the other of two links that hold a probe records this hit. The kernel runs programs of a place from the last one
 * that was attached to the first: so the second link decides for both.
 */
static __always_inline bool is_recorded_by_other_link(struct thread *th, __u64 cookie)
{
	/* Without memory for the thread each looks for itself. */
	__u32 are_second = th ? th->second_links : second_links;

	if (cookie_is_of_second_link(cookie)) {
		are_second = second_links;
		if (th)
			th->second_links = are_second;
		return !are_second;
	}
	return are_second && fate(cookie_probe(cookie)) == FATE_LINKED_TWICE;
}

/* Whether the process records by itself what this probe would record. */
static __always_inline bool is_moved(struct target *t, __u64 cookie)
{
	return t->is_moved && fate(cookie_probe(cookie)) == FATE_MOVED;
}

static __always_inline __u64 read_word(__u64 address)
{
	__u64 word = 0;

	bpf_probe_read_user(&word, sizeof(word), (void *)address);
	return word;
}

static __always_inline struct slot_counters *slot_counters(struct target *t)
{
	return &counters[t->slot & (MAX_SLOTS - 1)];
}

static __always_inline void count_lost(struct target *t, enum record_subject subject)
{
	struct slot_counters *c = slot_counters(t);

	if (subject == OF_MOVEMENTS)
		__sync_fetch_and_add(&c->lost_movements, 1);
	if (subject == OF_CALLS || subject == OF_LIFE)
		__sync_fetch_and_add(&c->lost_calls, 1);
	if (subject == OF_HEAP || subject == OF_MAPPINGS || subject == OF_LIFE)
		__sync_fetch_and_add(&c->lost_state, 1);
}

static __always_inline void count_declined(struct target *t)
{
	__sync_fetch_and_add(&slot_counters(t)->declined, 1);
}

static __always_inline void count_refused(struct target *t)
{
	__sync_fetch_and_add(&slot_counters(t)->refused, 1);
}

/* The kernel has memory for new threads again as soon as an interrupt was taken. */
#define MOST_THREAD_TRIES 4096

static long try_to_keep_thread(__u32 i, void *data)
{
	return current_thread(true) != NULL;
}

/*
 * The same, for programs that keep something for the thread. Without memory for that they cannot
 * follow what it does: a loss.
 */
static __always_inline struct target *hit_target_with_thread(struct thread **thread, enum probe_class class,
							     enum record_subject subject)
{
	struct target *t = hit_target(thread, class);

	if (t && !*thread) {
		bpf_loop(MOST_THREAD_TRIES, try_to_keep_thread, NULL, 0);
		t = current_target(thread);
	}
	if (t && !*thread)
		count_lost(t, subject);
	return *thread ? t : NULL;
}

static __always_inline bool has_room(void *ring, enum record_subject subject)
{
	__u64 limit_bytes = subject == OF_MOVEMENTS ? movement_limit_bytes
			    : subject == OF_HEAP    ? heap_limit_bytes
						    : call_limit_bytes;

	return subject > OF_CALLS || bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA) <= limit_bytes;
}

/* Room for one record in the ring of the process, or a counted loss. */
static __always_inline void *reserve(struct target *t, __u64 size, enum record_subject subject)
{
	__u32 slot = t->slot;
	void *ring = bpf_map_lookup_elem(&rings, &slot);
	void *record = NULL;

	if (ring && has_room(ring, subject))
		record = bpf_ringbuf_reserve(ring, size, 0);
	if (!record)
		count_lost(t, subject);
	return record;
}

/* The reader looks by itself, often enough: waking it costs the job more. */
static __always_inline void submit(void *record)
{
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

/* Last, just before submit: so records of one ring are nearly in order of time. */
static __always_inline void fill_header(struct dms_header *h, __u16 kind, __u16 flags, __u32 probe)
{
	__u64 id = bpf_get_current_pid_tgid();

	h->time_ns = bpf_ktime_get_ns();
	h->pid = id >> 32;
	h->tid = (__u32)id;
	h->kind = kind;
	h->flags = flags;
	h->probe = probe;
}

#endif
