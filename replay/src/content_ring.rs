//! What a rank and dmscope share while contents are recorded: a file that both have mapped, a page and behind it a ring.
//!
//! The rank writes as long as there is room, and waits for dmscope if there is none. What is in the ring outlives the rank.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// How long the page is; the ring begins behind it.
pub const RING_PAGE_BYTES: usize = 4096;
/// Bytes of the ring.
pub const RING_BYTES: usize = 4 << 20;

/// The format of the page.
const FORMAT: u64 = u64::from_le_bytes(*b"dmscont\x01");

/// The page. Zeros are a page on which nothing was written.
#[repr(C)]
#[derive(Debug)]
pub struct RingPage {
    format: AtomicU64,
    /// Bytes that the rank has written since it began.
    written: AtomicU64,
    /// Polls that answered no after all of these.
    pub again: AtomicU64,
    /// Not zero: the rank's contents are recorded no longer; the reason is in the record.
    pub stopped: AtomicU32,
    padding: [u32; 9],
    /// Bytes that dmscope has taken. On a cache line of its own.
    taken: AtomicU64,
}

const _: () = assert!(size_of::<RingPage>() <= RING_PAGE_BYTES);

impl RingPage {
    /// Says that the page is one.
    pub fn begin(&self) {
        self.format.store(FORMAT, Ordering::Release);
    }

    /// Whether a rank of this version has begun.
    pub fn has_begun(&self) -> bool {
        self.format.load(Ordering::Acquire) == FORMAT
    }

    /// For the rank: the place to write to, and for how many bytes there is room without going around.
    pub fn free(&self) -> (usize, usize) {
        let written = self.written.load(Ordering::Relaxed);
        let used = written.wrapping_sub(self.taken.load(Ordering::Acquire)).min(RING_BYTES as u64) as usize;
        let at = (written % RING_BYTES as u64) as usize;
        (at, (RING_BYTES - used).min(RING_BYTES - at))
    }

    /// For the rank: so many bytes were written there.
    pub fn wrote(&self, bytes: usize) {
        let written = self.written.load(Ordering::Relaxed).wrapping_add(bytes as u64);
        self.written.store(written, Ordering::Release);
    }

    /// For dmscope: where there is something to take, how much without going around, and how many bytes came before.
    pub fn filled(&self) -> (usize, usize, u64) {
        let taken = self.taken.load(Ordering::Relaxed);
        let filled = self.written.load(Ordering::Acquire).wrapping_sub(taken).min(RING_BYTES as u64) as usize;
        let at = (taken % RING_BYTES as u64) as usize;
        (at, filled.min(RING_BYTES - at), taken)
    }

    /// For dmscope: so many bytes were taken from there.
    pub fn took(&self, bytes: usize) {
        let taken = self.taken.load(Ordering::Relaxed).wrapping_add(bytes as u64);
        self.taken.store(taken, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_that_is_full_has_no_room_until_something_is_taken() {
        // SAFETY: all fields are integers, of which zero is a value.
        let page: RingPage = unsafe { std::mem::zeroed() };
        assert_eq!((page.free(), page.filled()), ((0, RING_BYTES), (0, 0, 0)));
        page.wrote(RING_BYTES - 10);
        assert_eq!(page.free(), (RING_BYTES - 10, 10));
        page.wrote(10);
        assert_eq!(page.free(), (0, 0));
        assert_eq!(page.filled(), (0, RING_BYTES, 0));
        page.took(100);
        assert_eq!(page.free(), (0, 100));
        assert_eq!(page.filled(), (100, RING_BYTES - 100, 100));
        page.wrote(100);
        page.took(RING_BYTES - 100);
        assert_eq!(page.filled(), (0, 100, RING_BYTES as u64));
    }
}
