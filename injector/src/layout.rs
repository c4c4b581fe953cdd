//! Where everything is in the memory that a process shares with us, and what the code in it knows.
//!
//! ```text
//! control page │ headers of rings, 128 bytes each │ ring 0 │ ring 1 │ …
//! ```
//!
//! A ring belongs to one thread, found by its thread pointer in a small hash table: the headers. The thread writes to the
//! first cache line of its header, we to the second.

/// So many threads of a process have rings; what others do is counted as lost.
pub const MAX_RINGS: usize = 64;
/// Bytes of one record in a ring.
pub const RING_RECORD_BYTES: usize = 64;
/// A ring counts as full so many records before it is: signal handlers may come in between the look and the writing.
pub(crate) const MARGIN_RECORDS: u64 = 16;
/// Part of a ring that is for MPI calls alone: there are few of them, and without one of them nothing is known of messages any more.
pub(crate) const CALLS_SHARE: u64 = 4;
/// A thread other than the first is on its own stack if it is so near below its thread pointer.
pub(crate) const STACK_BELOW_POINTER_BYTES: u64 = 256 << 10;

pub(crate) const PAGE_BYTES: u64 = 4096;

/// The control page.
pub(crate) mod control {
    /// No copies are recorded once the processor's counter is past this.
    pub const DEADLINE: usize = 0;
    /// Records of threads without a ring, but for MPI calls.
    pub const LOST: usize = 8;
    /// The same as [`DEADLINE`] for heap blocks …
    pub const HEAP_DEADLINE: usize = 24;
    /// … and for MPI calls.
    pub const CALLS_DEADLINE: usize = 40;
    /// What stands in the place of return addresses that the kernel has hooked; 0: not seen yet.
    pub const TRAMPOLINE: usize = 16;
    /// MPI calls of threads without a ring.
    pub const LOST_CALLS: usize = 32;
}

/// A ring's header.
pub(crate) mod header {
    pub const BYTES: usize = 128;
    /// Thread pointer of the thread that it belongs to; 0: none yet.
    pub const OWNER: usize = 0;
    /// Records that were begun.
    pub const HEAD: usize = 8;
    /// Records that found no room, but for MPI calls.
    pub const LOST: usize = 16;
    /// Where the return address of the thread's last noted call lies.
    pub const CALL_SP: usize = 24;
    pub const CALL_RETURN: usize = 32;
    /// Its hook, and in the upper half whether the kernel hooks its return.
    pub const CALL_HOOK: usize = 40;
    /// Between these, all is stack of the thread.
    pub const STACK_LOW: usize = 48;
    pub const STACK_HIGH: usize = 56;
    /// Records that we have read.
    pub const TAIL: usize = 64;
    /// Address of the ring in the process.
    pub const DATA: usize = 72;
    /// Noted calls so far, half a word …
    pub const CALLS: usize = 80;
    /// … and what the last one is called outside of here, half a word.
    pub const CALL_NAME: usize = 84;
    /// Where the last whole call stores a handle that is to be read at the next one; 0: nowhere.
    pub const MADE_AT: usize = 88;
    /// What that call is called, and in the upper half how many bytes the handle has.
    pub const MADE_BY: usize = 96;
    /// Calls that others had counted before the first one was noted: [`CALLS`] goes on from there.
    pub const CALLS_BEFORE: usize = 104;
    /// MPI calls that found no room.
    pub const LOST_CALLS: usize = 112;
}

/// A record in a ring.
pub(crate) mod record {
    pub const COUNTER: usize = 0;
    pub const FIRST: usize = 8;
    pub const SECOND: usize = 16;
    pub const THIRD: usize = 24;
    pub const RETURN: usize = 32;
    pub const CALL_RETURN: usize = 40;
    pub const THREAD: usize = 48;
    pub const HOOK: usize = 52;
    pub const CALL_HOOK: usize = 56;
    /// Its number in the ring, from 1, written last: then the record is complete.
    pub const SERIAL: usize = 60;

    /// Of a whole call, where the noted call's return address is otherwise.
    pub const FOURTH: usize = CALL_RETURN;
    /// Of a whole call, in the place of the noted call: another piece follows …
    pub const WHOLE: u32 = 1 << 31;
    /// … and it is made in a noted call.
    pub const NESTED: u32 = 1;
}

/// The second piece of a whole call. It has a serial as the first one has.
pub(crate) mod rest {
    pub const FIFTH: usize = 0;
    pub const SIXTH: usize = 8;
    /// Arguments on the stack.
    pub const STACK: usize = 16;
    /// The handle that the whole call before has stored.
    pub const MADE: usize = 40;
    /// Noted calls of the thread so far.
    pub const CALLS: usize = 48;
    /// What is no number of a hook: this is no record.
    pub const HOOK: usize = super::record::HOOK;
    pub const NO_HOOK: u32 = u32::MAX;
    /// What the call is called that has stored the handle; 0: there is none.
    pub const MADE_BY: usize = 56;
}

/// So many arguments on the stack are recorded at most.
pub const MOST_STACK_ARGUMENTS: usize = 3;

/// What stands behind the code of each hook.
pub(crate) mod data {
    /// Where it jumps on to.
    pub const TARGET: usize = 0;
    /// Address of the page that is zero in children of fork.
    pub const GUARD: usize = 8;
    /// Address of the control page.
    pub const SHARED: usize = 16;
    /// Where a thread's id is, from its thread pointer.
    pub const THREAD_ID: usize = 24;
    /// The hook's number; of noted calls in the upper half whether the kernel hooks their returns.
    pub const HOOK: usize = 32;
    /// Numbers of records are cut to this.
    pub const MASK: usize = 40;
    /// A ring with so many records is full for this call.
    pub const LIMIT: usize = 48;
    /// Id of the process, as its first thread knows it.
    pub const PROCESS: usize = 56;
    /// The first thread's stack.
    pub const STACK_LOW: usize = 64;
    pub const STACK_HIGH: usize = 72;
    /// Not 0: the call does not count if it is made within a noted one.
    pub const MAY_BE_NESTED: usize = 80;
    /// What a noted call is called outside of here.
    pub const CALL_NAME: usize = 88;
    /// So many arguments on the stack are recorded.
    pub const STACK_ARGUMENTS: usize = 96;
    /// Which argument points to where the call stores a handle, from 1; 0: none does.
    pub const MADE_ARGUMENT: usize = 104;
    /// The call's name, and in the upper half how many bytes the handle has.
    pub const MADE_BY: usize = 112;
    /// Between these is memory of the program that stays as long as it runs.
    pub const PROGRAM_LOW: usize = 120;
    pub const PROGRAM_HIGH: usize = 128;
    /// Which argument points to what the call completes: 1, or 2, if the first is a count above zero; 0: none does.
    pub const REQUESTS: usize = 136;

    // Of allocators, in the place of what is for MPI calls alone.
    /// Which function it is.
    pub const HEAP_CALL: usize = MAY_BE_NESTED;
    /// Blocks that are smaller are nobody's messages.
    pub const LEAST_BYTES: usize = CALL_NAME;
    /// Calls from between these are the program's own.
    pub const OWN_LOW: usize = STACK_ARGUMENTS;
    pub const OWN_HIGH: usize = MADE_ARGUMENT;
    /// Where the function goes on behind the kernel's probe.
    pub const BEHIND: usize = MADE_BY;

    /// A multiple of 16.
    pub const BYTES: usize = 144;
}

pub(crate) const HEADERS_AT: usize = PAGE_BYTES as usize;
pub(crate) const RINGS_AT: usize = HEADERS_AT + MAX_RINGS * header::BYTES;

/// Bytes of the shared memory for rings of a size.
pub(crate) fn shared_bytes(ring_bytes: usize) -> usize {
    RINGS_AT + MAX_RINGS * ring_bytes
}

/// In the table of headers a thread pointer is looked for from here on.
pub(crate) fn first_ring(thread_pointer: u64) -> usize {
    const MIX: u64 = 0x9E37_79B9_7F4A_7C15;
    ((thread_pointer >> 12).wrapping_mul(MIX) >> 58) as usize
}

/// A ring holds a power of two of records, and so many that the margin is small beside them.
pub(crate) fn ring_bytes(wanted: usize) -> usize {
    wanted.clamp(64 * RING_RECORD_BYTES, 1 << 26).next_power_of_two()
}

// The code takes both for granted.
const _: () =
    assert!(MAX_RINGS == 64 && header::BYTES == 128 && RINGS_AT.is_multiple_of(PAGE_BYTES as usize));
