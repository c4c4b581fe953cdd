//! Which thread this is: for the kernel's and the C library's part, and by a name that is the same in every run.
//!
//! Threads that the MPI library creates, for itself, have no name.

use std::cell::Cell;

use replay::thread_name::{FIRST_THREAD, child_name};

/// One that is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThisThread(u64);

impl ThisThread {
    pub(crate) fn now() -> Self {
        let thread_pointer: u64;
        // SAFETY: of each thread the word there is the thread pointer itself (ELF handling for thread-local storage, 3.4.2).
        unsafe {
            std::arch::asm!("mov {}, fs:0", out(reg) thread_pointer, options(pure, readonly, nostack, preserves_flags));
        }
        Self(thread_pointer)
    }

    /// Never 0.
    pub(crate) fn number(self) -> u64 {
        self.0
    }
}

thread_local! {
    /// 0: none.
    static NAME: Cell<u64> = const { Cell::new(0) };
    /// How many threads this one has created.
    static CHILDREN: Cell<u64> = const { Cell::new(0) };
    /// Which of the rank's threads this one is, from 1; 0: that is not known yet.
    static PLACE: Cell<usize> = const { Cell::new(0) };
}

/// The process begins, with this thread.
pub(crate) fn first_begins() {
    NAME.set(FIRST_THREAD);
}

/// A thread begins that was given this name.
pub(crate) fn begins(name: u64) {
    NAME.set(name);
}

/// This thread's name; 0: none.
pub(crate) fn name() -> u64 {
    NAME.get()
}

/// The name of the next thread that this one creates, which has a name itself.
pub(crate) fn name_child() -> u64 {
    let number = CHILDREN.get() + 1;
    CHILDREN.set(number);
    child_name(NAME.get(), number)
}

/// Which of the rank's threads this one is, if that is known.
#[inline]
pub(crate) fn place() -> Option<usize> {
    PLACE.get().checked_sub(1)
}

pub(crate) fn set_place(place: usize) {
    PLACE.set(place + 1);
}
