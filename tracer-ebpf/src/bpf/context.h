/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
 *
 * Which MPI call a thread is in: the one whose probe it has hit last, or that it has noted itself since.
 */
#ifndef DMSCOPE_CONTEXT_H
#define DMSCOPE_CONTEXT_H

/* As layout.rs of the injector has them: headers of rings. */
#define NOTES 64
#define NOTE_BYTES 128
#define NOTE_MIX 0x9E3779B97F4A7C15ULL

struct note {
	__u64 owner;		/* thread pointer; 0: nobody's */
	__u64 unused[2];
	__u64 call_sp;
	__u64 call_return;
	__u32 hook;
	__u32 is_hooked;
	__u64 unused_too[4];
	__u32 calls;		/* noted so far */
	__u32 probe;
	__u64 unused_as_well[2];
	__u32 calls_before;	/* calls that were counted before the thread began to note */
	__u32 unused_at_the_end;
};

struct note_search {
	__u64 first;
	__u64 owner;
	__u64 at;	/* 0: it has none */
	struct note note;
};

static __always_inline bool read_note(struct note_search *s)
{
	return !bpf_probe_read_user(&s->note, sizeof(s->note), (void *)s->at);
}

/* The same as the code that notes does: from a place that the thread pointer gives to the next free one. */
static long look_for_note(__u32 i, void *data)
{
	struct note_search *s = data;
	__u64 begin = ((s->owner >> 12) * NOTE_MIX) >> 58;

	s->at = s->first + NOTE_BYTES * ((begin + i) & (NOTES - 1));
	if (!read_note(s))
		s->note.owner = 0;
	if (s->note.owner == s->owner)
		return 1;
	if (!s->note.owner || i == NOTES - 1)
		s->at = 0;
	return !s->at;
}

/* A function of its own: see memory.h. What a process notes is its own to say. */
__noinline int take_note(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *th = current_thread(false);
	struct note_search s = {};

	if (!th || !th->target.notes_at)
		return 0;
	s.first = th->target.notes_at;
	s.owner = BPF_CORE_READ(task, thread.fsbase);
	s.at = th->note_at;
	if (s.at - s.first >= NOTES * NOTE_BYTES || !read_note(&s) || s.note.owner != s.owner) {
		bpf_loop(NOTES, look_for_note, &s, 0);
		th->note_at = s.at;
		th->noted_calls = 0;
		/* Whoever notes calls goes on from what was known: their number, and what the last one has stored. */
		if (s.at) {
			th->noted_calls = s.note.calls_before;
			th->call_serial = s.note.calls_before;
			th->made_at = 0;
		}
	}
	if (!s.at || s.note.calls == th->noted_calls)
		return 0;
	th->call_serial += s.note.calls - th->noted_calls;
	th->noted_calls = s.note.calls;
	th->is_noted = 1;
	th->call_hooked = s.note.is_hooked;
	th->call_sp = s.note.call_sp;
	th->call_return = s.note.call_return;
	th->call_probe = s.note.probe;
	return 0;
}

static __always_inline void see_noted_call(struct thread *th)
{
	if (th && th->target.notes_at)
		take_note();
}

/* Whether the return address of the thread's call is still where it was pushed. */
static __always_inline bool is_call_there(struct thread *th)
{
	__u64 word = read_word(th->call_sp);

	if (!th->call_hooked || word == th->call_return)
		return word == th->call_return;
	if (!th->trampoline)
		th->trampoline = word;
	return word == th->trampoline;
}

/*
 * The MPI call that the thread is in, known from its entry alone: as long as the call has
 * not returned, its return address is still where it was pushed, and the stack is deeper.
 */
static __always_inline bool in_call(struct thread *th, __u64 sp)
{
	return th && th->call_probe && sp < th->call_sp && is_call_there(th);
}

static __always_inline void fill_context(struct dms_context *c, struct thread *th, __u64 sp)
{
	see_noted_call(th);
	if (in_call(th, sp)) {
		c->call_return = th->call_return;
		c->call_probe = th->call_probe;
		c->call_serial = th->call_serial;
	} else {
		c->call_return = 0;
		c->call_probe = 0;
		c->call_serial = 0;
	}
}

static __always_inline bool is_own(struct target *t, __u64 address)
{
	__u32 i;

	if (t->owns == OWNS_ALL)
		return true;
	for (i = 0; i < MAX_OWN; i++) {
		if (i >= t->owns)
			break;
		if (address >= t->own[i].start && address < t->own[i].end)
			return true;
	}
	return false;
}

/*
 * Whether a call is made by the library inside another one. The word of a call that returned may be left over in
 * a deeper frame of the program that has not written there yet; but such a frame's calls return to the program.
 */
static __always_inline bool is_nested(struct target *t, struct thread *th, __u64 return_slot, __u64 return_address)
{
	return in_call(th, return_slot) && (th->call_hooked || !is_own(t, return_address));
}

enum entered {
	ENTERED_NESTED,	/* the thread is in an MPI call already */
	ENTERED_NOTED,	/* it has noted this one by itself */
	ENTERED,
};

/* Notes the entry into an MPI call. */
static __always_inline enum entered enter_call(struct target *t, struct thread *th, __u64 return_slot,
					       __u64 return_address, __u32 probe)
{
	see_noted_call(th);
	if (is_nested(t, th, return_slot, return_address))
		return ENTERED_NESTED;
	if (th->is_noted && return_slot == th->call_sp && return_address == th->call_return) {
		th->is_noted = 0;
		th->call_hooked = 0;
		th->call_probe = probe;
		return ENTERED_NOTED;
	}
	/* One that the thread's call jumped to at its end, so that it returns for it. */
	if (th->call_probe && th->call_hooked && return_slot == th->call_sp && return_address != th->call_return &&
	    is_call_there(th))
		return ENTERED_NESTED;
	th->call_hooked = 0;
	th->call_sp = return_slot;
	th->call_return = return_address;
	th->call_probe = probe;
	th->call_serial++;
	return ENTERED;
}

#endif
