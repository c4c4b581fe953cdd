//! Asking for memory before it is needed.

/// Has the processor fetch an entry, if there is one, while other work goes on.
#[inline(always)]
pub(crate) fn prefetch<T>(entries: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(entry) = entries.get(at) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch changes nothing that can be seen, and the entry is there.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(entry).cast()) };
    }
}
