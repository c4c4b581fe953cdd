//! Which thread this is, and where on its stack.

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
