//! A value that belongs to one thread: it is got at without a lock, which every call would feel. Where several threads make calls it is
//! shared between them, behind a lock.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::thread::ThisThread;

/// The value, once it has been given.
pub(crate) struct OwnedByThread<T> {
    /// Number of the thread that gave it. 0: nothing was given yet.
    owner: AtomicU64,
    /// Other threads get at it too.
    is_shared: AtomicBool,
    /// Number of the thread that is at it, or [`NOBODY`]: a signal handler of that thread does not get at it as well. After a panic, or
    /// before it is there, [`CLOSED`].
    holder: AtomicU64,
    value: UnsafeCell<Option<T>>,
}

/// No thread has these numbers.
const NOBODY: u64 = 0;
const CLOSED: u64 = u64::MAX;
/// So often it is tried before the processor is given away.
const MOST_SPINS: u32 = 100;
/// So often before it is given away for a while.
const MOST_YIELDS: u32 = 2000;

// SAFETY: either only the thread that gave the value gets at it, and only once at a time, or all do, one at a time; it may be dropped by
// another one.
unsafe impl<T: Send> Sync for OwnedByThread<T> {}

impl<T> OwnedByThread<T> {
    pub(crate) const fn new() -> Self {
        Self {
            owner: AtomicU64::new(0),
            is_shared: AtomicBool::new(false),
            holder: AtomicU64::new(CLOSED),
            value: UnsafeCell::new(None),
        }
    }

    /// Gives the value, which belongs to this thread from now on, or to all; a second one is not taken.
    pub(crate) fn give(&self, value: T, is_shared: bool) {
        let own = ThisThread::now().number();
        if self.owner.compare_exchange(0, own, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return;
        }
        // SAFETY: this thread alone became the owner, and as long as it is closed nobody gets at it.
        unsafe { *self.value.get() = Some(value) };
        self.is_shared.store(is_shared, Ordering::Release);
        self.holder.store(NOBODY, Ordering::Release);
    }

    /// From now on other threads get at it too. To be called by its owner, before there are such threads.
    pub(crate) fn share(&self) {
        if self.is_owner() {
            self.is_shared.store(true, Ordering::Release);
        }
    }

    #[inline]
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::Relaxed)
    }

    /// The value, if it belongs to this thread, which is not at it already. One that is shared is waited for.
    #[inline]
    pub(crate) fn get(&self) -> Option<Owned<'_, T>> {
        self.get_within(u32::MAX)
    }

    /// The same, but one that is shared is not waited for long.
    pub(crate) fn get_soon(&self) -> Option<Owned<'_, T>> {
        self.get_within(MOST_YIELDS)
    }

    #[inline]
    fn get_within(&self, tries: u32) -> Option<Owned<'_, T>> {
        let own = ThisThread::now().number();
        if self.is_shared() {
            self.lock(own, tries)?;
        } else {
            if self.owner.load(Ordering::Relaxed) != own || self.holder.load(Ordering::Relaxed) != NOBODY {
                return None;
            }
            self.holder.store(own, Ordering::Relaxed);
        }
        // SAFETY: the holder alone comes here, and as long as it is the holder not twice.
        let value = unsafe { &mut *self.value.get() };
        value.as_mut().map(|value| Owned { value, holder: &self.holder })
    }

    /// From now on nobody gets at it.
    pub(crate) fn close(&self) {
        self.holder.store(CLOSED, Ordering::Release);
    }

    #[cold]
    fn lock(&self, own: u64, most_tries: u32) -> Option<()> {
        for tries in 0..most_tries {
            match self.holder.compare_exchange_weak(NOBODY, own, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(()),
                Err(holder) if holder == own || holder == CLOSED => return None,
                // Who holds it does so for less than a microsecond, unless it is not running.
                Err(_) if tries < MOST_SPINS => std::hint::spin_loop(),
                Err(_) if tries < MOST_YIELDS => std::thread::yield_now(),
                // It may have a lower priority than this one.
                Err(_) => std::thread::sleep(Duration::from_micros(50)),
            }
        }
        None
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
    holder: &'a AtomicU64,
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
        let next = if std::thread::panicking() { CLOSED } else { NOBODY };
        self.holder.store(next, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_thread_that_gave_it_gets_the_value_and_once_at_a_time() {
        let owned = OwnedByThread::new();
        assert!(owned.get().is_none() && !owned.is_anothers());
        owned.give(1, false);
        owned.give(2, false);
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
    fn threads_that_share_it_get_it_one_at_a_time() {
        let owned = OwnedByThread::new();
        owned.give((0_u64, 0_u64), false);
        owned.share();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        let mut value = owned.get().expect("it is waited for");
                        assert!(owned.get().is_none(), "this thread is at it");
                        assert_eq!(value.0, value.1);
                        value.0 += 1;
                        value.1 += 1;
                    }
                });
            }
        });
        assert_eq!(owned.get().map(|value| value.0), Some(40_000));
    }

    #[test]
    fn after_a_panic_nobody_gets_it() {
        let owned = OwnedByThread::new();
        owned.give(1, false);
        let panics = std::panic::AssertUnwindSafe(|| {
            let _value = owned.get();
            panic!("on purpose");
        });
        assert!(std::panic::catch_unwind(panics).is_err());
        assert!(owned.get().is_none());
    }
}
