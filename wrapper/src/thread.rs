//! Which thread this is: for the kernel's and the C library's part, and by a name that is the same in every run.
//!
//! The process begins with one thread. Any other is named after the one that creates it, and after how many that has created before. Threads
//! that the MPI library creates, for itself, have no name.

use std::cell::Cell;

/// One that is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThisThread(u64);

impl ThisThread {
    pub(crate) fn now() -> Self {
        // SAFETY: always possible.
        Self(unsafe { libc::pthread_self() } as u64)
    }

    /// Never 0.
    pub(crate) fn number(self) -> u64 {
        self.0
    }
}

/// The name of the thread that a process begins with.
const FIRST_NAME: u64 = 1;
/// No thread's: of the row in which clocks are recorded where threads call one at a time.
pub(crate) const CLOCKS_NAME: u64 = 2;

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
    NAME.set(FIRST_NAME);
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

fn child_name(parent: u64, number: u64) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = (parent.rotate_left(32) ^ number).wrapping_mul(FACTOR);
    (mixed ^ mixed >> 29).wrapping_mul(FACTOR).max(CLOCKS_NAME + 1)
}

/// Which of the rank's threads this one is, if that is known.
#[inline]
pub(crate) fn place() -> Option<usize> {
    PLACE.get().checked_sub(1)
}

pub(crate) fn set_place(place: usize) {
    PLACE.set(place + 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_have_names_of_their_own_by_who_created_them() {
        let children = |parent: u64| (1..100).map(move |number| child_name(parent, number));
        let mut names: Vec<u64> =
            children(FIRST_NAME).chain(children(FIRST_NAME).flat_map(children)).collect();
        assert_eq!(names[0], child_name(FIRST_NAME, 1), "it is the same in every run");
        names.push(FIRST_NAME);
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!((names.len(), names[0]), (count, FIRST_NAME));
    }
}
