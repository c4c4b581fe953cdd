//! What is known of a thread when it begins to note its calls by itself: it goes on from there.

use std::sync::atomic::Ordering;

use crate::layout::{MAX_RINGS, STACK_BELOW_POINTER_BYTES, control, first_ring, header};
use crate::shared::SharedRings;

/// A thread whose calls others have followed so far. Its process stands still.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadBefore {
    /// Its thread pointer.
    pub pointer: u64,
    /// It is the first thread of its process.
    pub is_first: bool,
    /// So many calls were counted.
    pub calls: u32,
    /// The last one.
    pub call: Option<NotedBefore>,
    /// A handle that it stores, which nobody has read yet.
    pub made: Option<MadeBefore>,
}

/// A call that a thread may be in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotedBefore {
    /// Where its return address lies.
    pub stack_pointer: u64,
    /// The return address.
    pub return_address: u64,
    /// Number of a hook of the same call.
    pub hook: u32,
    /// What others call it.
    pub name: u32,
    /// The address that the kernel has put in the place of its return address, if it has.
    pub hooked_by: Option<u64>,
}

/// A handle that a call stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MadeBefore {
    /// Where.
    pub at: u64,
    /// What others call the call.
    pub by: u32,
    /// Half a word or a whole one.
    pub bytes: u32,
}

impl SharedRings {
    /// Threads go on from what is known of them, if there are rings left. `main_stack`: of their process's first thread.
    pub fn take_over(&self, threads: &[ThreadBefore], main_stack: (u64, u64)) {
        threads
            .iter()
            .filter(|thread| thread.pointer != 0)
            .for_each(|thread| self.take_over_one(thread, main_stack));
    }

    fn take_over_one(&self, thread: &ThreadBefore, main_stack: (u64, u64)) {
        let mapping = self.mapping();
        let is_free = |ring: &usize| mapping.header(*ring, header::OWNER).load(Ordering::Relaxed) == 0;
        let first = first_ring(thread.pointer);
        let Some(ring) = (0..MAX_RINGS).map(|n| (first + n) % MAX_RINGS).find(is_free) else { return };
        let put = |field, word: u64| mapping.header(ring, field).store(word, Ordering::SeqCst);
        let (low, high) = match thread.is_first {
            true => main_stack,
            false => (thread.pointer.saturating_sub(STACK_BELOW_POINTER_BYTES), thread.pointer),
        };
        put(header::STACK_LOW, low);
        put(header::STACK_HIGH, high);
        put(header::CALLS_BEFORE, thread.calls.into());
        let name = thread.call.map_or(0, |call| call.name);
        put(header::CALLS, u64::from(thread.calls) | u64::from(name) << 32);
        if let Some(call) = thread.call {
            put(header::CALL_SP, call.stack_pointer);
            put(header::CALL_RETURN, call.return_address);
            put(header::CALL_HOOK, u64::from(call.hook) | u64::from(call.hooked_by.is_some()) << 32);
            // The same for all calls of the process.
            if let Some(trampoline) = call.hooked_by {
                mapping.word(control::TRAMPOLINE).store(trampoline, Ordering::SeqCst);
            }
        }
        if let Some(made) = thread.made {
            put(header::MADE_AT, made.at);
            put(header::MADE_BY, u64::from(made.by) | u64::from(made.bytes) << 32);
        }
        // Last: from now on it is the thread's.
        put(header::OWNER, thread.pointer);
    }
}
