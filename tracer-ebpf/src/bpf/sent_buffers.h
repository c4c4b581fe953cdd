/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
 *
 * What is in the buffer of a send when it begins, and whether that has changed before it is complete: stores of the program
 * hit no probe.
 */
#ifndef DMSCOPE_SENT_BUFFERS_H
#define DMSCOPE_SENT_BUFFERS_H

#define MOST_SENT_BUFFERS 16384
/* Requests of one call that are looked at. */
#define MOST_LOOKED_AT 256
/* Of a buffer three windows are kept: at its beginning, its middle and its end; or all of it, if it is no longer than they are. */
#define WINDOW_WORDS 8
#define WINDOW_BYTES (8 * WINDOW_WORDS)

/* dms_shape.buffers */
enum {
	BUFFERS_SENT = 1,	/* the call begins a send, or prepares one */
	BUFFERS_STARTED,
	BUFFERS_COMPLETE,	/* all requests that it names */
	BUFFERS_SOME_COMPLETE,
};

/* By where the program keeps the request. What is not a send's any more stays until it is found so, or others need the room. */
struct request_place {
	__u64 at;
	__u32 tgid;
	__u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MOST_SENT_BUFFERS);
	__type(key, struct request_place);
	__type(value, struct sent_buffer);
} sent_buffers SEC(".maps");

static __always_inline __u64 read_handle(__u64 at, __u32 handle_bytes)
{
	return handle_bytes == 4 ? read_half(at) : read_word(at);
}

/*
 * The size of an element of a datatype that MPI has from the beginning, where its libraries keep it; else one byte, the least. The
 * user side knows the length of the buffer, and leaves out what lies beyond.
 */
static __always_inline __u32 element_bytes(__u64 datatype, __u32 handle_bytes)
{
	/* MPICH has it in the handle, Open MPI behind the object's head of 16 bytes and 8 of flags and numbers. */
	__u64 bytes = handle_bytes == 4 ? datatype >> 8 & 0xff : read_word(datatype + 24);

	return bytes && bytes <= 64 ? bytes : 1;
}

/* Where the window of a number begins in a buffer of this length. */
static __always_inline __u64 window_start(__u64 len_bytes, __u32 window)
{
	if (len_bytes <= SAMPLE_WORDS * 8)
		return window * WINDOW_BYTES;
	return window == 0 ? 0 : window == 1 ? (len_bytes / 2) & ~7ULL : len_bytes - WINDOW_BYTES;
}

/* False: it cannot be read. */
static __always_inline bool sample(__u64 *words, __u64 buffer, __u64 len_bytes)
{
	__u32 bytes = len_bytes;
	int i;

	if (len_bytes <= SAMPLE_WORDS * 8) {
		__builtin_memset(words, 0, SAMPLE_WORDS * 8);
		if (bytes > SAMPLE_WORDS * 8)
			return false;
		return !bpf_probe_read_user(words, bytes, (void *)buffer);
	}
	for (i = 0; i < SAMPLE_WORDS / WINDOW_WORDS; i++)
		if (bpf_probe_read_user(words + i * WINDOW_WORDS, WINDOW_BYTES,
					(void *)(buffer + window_start(len_bytes, i))))
			return false;
	return true;
}

static __always_inline void fill_sent_buffer(struct sent_buffer *sent, struct thread *th, struct dms_shape *shape,
					     __u64 request_at, __u32 count)
{
	sent->buffer = argument_of(th, shape->buffer);
	sent->len_bytes = (__u64)count * element_bytes(argument_of(th, shape->datatype), shape->handle_bytes);
	sent->handle = read_handle(request_at, shape->handle_bytes);
	sent->since_ns = sample(sent->words, sent->buffer, sent->len_bytes) ? bpf_ktime_get_ns() : 0;
}

/* A send has begun, or was prepared: its request is there. Mostly the program has used the same place before. */
static __always_inline void keep_sent_buffer(struct thread *th, struct dms_shape *shape)
{
	struct request_place place = {};
	struct sent_buffer *sent;
	__s32 count = (__s32)argument_of(th, shape->count);

	place.at = argument_of(th, shape->request);
	place.tgid = bpf_get_current_pid_tgid() >> 32;
	if (count <= 0 || argument_of(th, shape->buffer) < LOWEST_PLACE)
		return;
	sent = bpf_map_lookup_elem(&sent_buffers, &place);
	if (sent) {
		fill_sent_buffer(sent, th, shape, place.at, count);
		return;
	}
	fill_sent_buffer(&th->sent, th, shape, place.at, count);
	if (th->sent.since_ns)
		bpf_map_update_elem(&sent_buffers, &place, &th->sent, BPF_ANY);
}

struct buffers_look {
	struct target *t;
	struct thread *th;
	__u64 requests_at;
	__u32 serial;
	__u32 probe;
	__u32 flags;
	__u32 told;
	__u32 handle_bytes;
	__u32 buffers;
	__u32 is_poll;	/* its requests were kept at its entry */
};

/*
 * Which byte of the sample is the first that has changed. The word is kept in memory on the way: of a number in a register the
 * verifier would look at all that comes after it once for each value: 141,000 instructions instead of 25,000.
 */
static __always_inline __u32 first_changed(struct thread *th, __u64 *before, __u64 *now)
{
	volatile __u32 *word = &th->changed_word;
	__u32 i;

	*word = SAMPLE_WORDS;
	for (i = SAMPLE_WORDS; i > 0; i--)
		if (before[i - 1] != now[i - 1])
			*word = i - 1;
	i = *word;
	if (i >= SAMPLE_WORDS)
		return SAMPLE_WORDS * 8;
	return 8 * i + __builtin_ctzll(before[i] ^ now[i]) / 8;
}

static __always_inline void tell_changed(struct buffers_look *look, struct sent_buffer *sent, __u32 number, __u32 byte,
					 __u64 now_ns)
{
	struct dms_values *r = reserve(look->t, sizeof(*r), OF_CALLS);

	if (!r)
		return;
	r->serial = look->serial;
	r->argument = DMS_CHANGED_BUFFERS;
	r->total_bytes = MAX_VALUE_BYTES;
	r->position_bytes = PIECE_BYTES * look->told++;
	r->words[0] = number;
	r->words[1] = sent->buffer;
	r->words[2] = now_ns - sent->since_ns;
	r->words[3] = window_start(sent->len_bytes, byte / WINDOW_BYTES) + byte % WINDOW_BYTES;
	r->words[4] = 0;
	fill_header(&r->h, DMS_VALUES, look->flags, look->probe);
	submit(r);
}

static long look_at_buffer(__u32 number, void *context)
{
	struct buffers_look *look = context;
	struct request_place place = {};
	struct thread *th = look->th;
	struct sent_buffer *sent;
	__u64 handle, now_ns;
	__u32 byte;

	place.at = look->requests_at + number * look->handle_bytes;
	place.tgid = bpf_get_current_pid_tgid() >> 32;
	sent = bpf_map_lookup_elem(&sent_buffers, &place);
	if (!sent)
		return 0;
	if (!look->is_poll) {
		handle = read_handle(place.at, look->handle_bytes);
	} else if (look->handle_bytes == 4) {
		handle = ((__u32 *)th->kept)[number & 63];
	} else {
		if (number >= KEPT_WORDS)
			return 1;
		handle = th->kept[number];
	}
	/* It stands for something else by now. */
	if (handle != sent->handle)
		return 0;
	now_ns = bpf_ktime_get_ns();
	if (look->buffers == BUFFERS_STARTED) {
		if (sample(sent->words, sent->buffer, sent->len_bytes))
			sent->since_ns = now_ns;
		return 0;
	}
	if (sent->since_ns && sample(th->sent.words, sent->buffer, sent->len_bytes)) {
		byte = first_changed(th, sent->words, th->sent.words);
		if (byte < SAMPLE_WORDS * 8) {
			tell_changed(look, sent, number, byte, now_ns);
			sent->since_ns = 0; /* Once is enough. */
		}
	}
	if (look->buffers == BUFFERS_COMPLETE)
		sent->since_ns = 0;
	return 0;
}

/* A call starts or completes requests. */
static __always_inline void look_at_buffers(struct target *t, struct thread *th, struct dms_shape *shape, __u32 probe,
					    bool is_poll)
{
	struct dms_read *read = &shape->reads[0];
	struct buffers_look look = {
		.t = t,
		.th = th,
		.requests_at = argument_of(th, read->argument),
		.serial = th->call_serial,
		.probe = probe,
		.handle_bytes = shape->handle_bytes,
		.buffers = shape->buffers,
		.is_poll = is_poll,
	};
	__u32 requests;

	if (shape->handle_bytes != 4 && shape->handle_bytes != 8)
		return;
	requests = (is_poll ? th->kept_bytes : bytes_of(th, read)) / shape->handle_bytes;
	if (requests > MOST_LOOKED_AT)
		requests = MOST_LOOKED_AT;
	bpf_loop(requests, look_at_buffer, &look, 0);
}

#endif
