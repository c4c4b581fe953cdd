//! A value that belongs to one thread: it is got at without a lock, which every call would feel.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::thread::ThisThread;

/// The value, once it has been given.
pub(crate) struct OwnedByThread<T> {
    /// Number of the thread. 0: nothing was given yet.
    owner: AtomicU64,
    /// The owner is at it, or has not yet put it there: a signal handler of that thread does not get at it as well, and nobody
    /// does after a panic.
    is_taken: AtomicBool,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: only the thread that gave the value gets at it, and only once at a time; it may be dropped by another one.
unsafe impl<T: Send> Sync for OwnedByThread<T> {}

impl<T> OwnedByThread<T> {
    pub(crate) const fn new() -> Self {
        Self { owner: AtomicU64::new(0), is_taken: AtomicBool::new(true), value: UnsafeCell::new(None) }
    }

    /// Gives the value, which belongs to this thread from now on; a second one is not taken.
    pub(crate) fn give(&self, value: T) {
        let own = ThisThread::now().number();
        if self.owner.compare_exchange(0, own, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return;
        }
        // SAFETY: this thread alone became the owner, and as long as it is taken the owner does not get at it.
        unsafe { *self.value.get() = Some(value) };
        self.is_taken.store(false, Ordering::Release);
    }

    /// The value, if it belongs to this thread, which is not at it already.
    #[inline]
    pub(crate) fn get(&self) -> Option<Owned<'_, T>> {
        if !self.is_owner() || self.is_taken.load(Ordering::Relaxed) {
            return None;
        }
        self.is_taken.store(true, Ordering::Relaxed);
        // SAFETY: the owner alone comes here, and `is_taken` keeps it from coming twice.
        let value = unsafe { &mut *self.value.get() };
        value.as_mut().map(|value| Owned { value, is_taken: &self.is_taken })
    }

    fn is_owner(&self) -> bool {
        self.owner.load(Ordering::Relaxed) == ThisThread::now().number()
    }

    /// Whether it belongs to another thread.
    pub(crate) fn is_anothers(&self) -> bool {
        self.owner.load(Ordering::Acquire) != 0 && !self.is_owner()
    }
}

/// The value, while its thread is at it.
pub(crate) struct Owned<'a, T> {
    value: &'a mut T,
    is_taken: &'a AtomicBool,
}

impl<T> Deref for Owned<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value
    }
}

impl<T> DerefMut for Owned<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value
    }
}

impl<T> Drop for Owned<'_, T> {
    fn drop(&mut self) {
        // After a panic the wrapper stands aside: what it was at may be half done.
        if !std::thread::panicking() {
            self.is_taken.store(false, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_thread_that_gave_it_gets_the_value_and_once_at_a_time() {
        let owned = OwnedByThread::new();
        assert!(owned.get().is_none() && !owned.is_anothers());
        owned.give(1);
        owned.give(2);
        {
            let mut value = owned.get().expect("it was given here");
            assert!(owned.get().is_none(), "it is taken");
            *value += 10;
        }
        assert_eq!(owned.get().map(|value| *value), Some(11));
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(owned.get().is_none() && owned.is_anothers()));
        });
    }

    #[test]
    fn after_a_panic_nobody_gets_it() {
        let owned = OwnedByThread::new();
        owned.give(1);
        let panics = std::panic::AssertUnwindSafe(|| {
            let _value = owned.get();
            panic!("on purpose");
        });
        assert!(std::panic::catch_unwind(panics).is_err());
        assert!(owned.get().is_none());
    }
}
