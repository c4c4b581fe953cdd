//! The memory that a process shares with us, as we see it.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::InjectError;
use crate::layout::{HEADERS_AT, MAX_RINGS, RINGS_AT, control, header, shared_bytes};
use crate::rings::{CallRecord, RingState, read_ring};

/// See the [module](self).
#[derive(Debug)]
pub struct Shared {
    first: NonNull<AtomicU64>,
    bytes: usize,
    ring_bytes: usize,
    states: Vec<RingState>,
    /// Losses that the process has counted: never fewer, whatever it writes there.
    counted_lost: [u64; MAX_RINGS + 1],
    lost: u64,
}

// SAFETY: the memory is only read and written with atomic operations, and is mapped for as long as this lives.
unsafe impl Send for Shared {}

/// What a look at all rings of a process gave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Records that were taken.
    pub records: usize,
    /// The fullest ring had so many.
    pub fullest: usize,
}

impl Shared {
    /// Maps the memory.
    pub(crate) fn map(file: &File, ring_bytes: usize) -> Result<Self, InjectError> {
        let bytes = shared_bytes(ring_bytes);
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping anywhere; nothing of ours is replaced.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, rights, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if at == libc::MAP_FAILED {
            return Err(InjectError::last("its shared memory here"));
        }
        let first = NonNull::new(at.cast()).ok_or(InjectError::Unknown("a mapping at nowhere"))?;
        let states = vec![RingState::default(); MAX_RINGS];
        Ok(Self { first, bytes, ring_bytes, states, counted_lost: [0; MAX_RINGS + 1], lost: 0 })
    }

    fn words(&self, at: usize, count: usize) -> &[AtomicU64] {
        assert!(at.is_multiple_of(8) && at + 8 * count <= self.bytes, "within the mapping");
        // SAFETY: it lies within the mapping, is aligned, and any bytes are words; others write only words there too.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr().add(at / 8), count) }
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        &self.words(at, 1)[0]
    }

    fn header(ring: usize, field: usize) -> usize {
        HEADERS_AT + ring * header::BYTES + field
    }

    /// Says where the rings are in the process.
    pub(crate) fn lay_out(&self, address: u64) {
        for ring in 0..MAX_RINGS {
            let data = address + (RINGS_AT + ring * self.ring_bytes) as u64;
            self.word(Self::header(ring, header::DATA)).store(data, Ordering::Relaxed);
        }
    }

    /// From now on nothing is recorded any more once the counter is past this; 0: nothing is.
    pub fn record_until(&self, counter: u64) {
        self.word(control::DEADLINE).store(counter, Ordering::Release);
    }

    /// Until when the process records. It could have been written by the process.
    pub fn deadline(&self) -> u64 {
        self.word(control::DEADLINE).load(Ordering::Acquire)
    }

    /// Records that found no room, or that nobody could read, since the beginning.
    pub fn lost(&mut self) -> u64 {
        let given_up: u64 = self.states.iter().map(|state| state.given_up).fold(0, u64::saturating_add);
        for (at, counted) in (0..=MAX_RINGS).map(|ring| match ring {
            MAX_RINGS => (ring, control::LOST),
            _ => (ring, Self::header(ring, header::LOST)),
        }) {
            let now = self.word(counted).load(Ordering::Relaxed);
            let before = std::mem::replace(&mut self.counted_lost[at], now);
            self.lost = self.lost.saturating_add(now.saturating_sub(before));
        }
        self.lost.saturating_add(given_up)
    }

    /// Reads what is in all rings, at most so much of each.
    pub fn drain(&mut self, most: usize, mut take: impl FnMut(CallRecord)) -> Drained {
        let mut drained = Drained::default();
        for ring in 0..MAX_RINGS {
            if self.word(Self::header(ring, header::OWNER)).load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut state = self.states[ring];
            let head = self.word(Self::header(ring, header::HEAD)).load(Ordering::Acquire);
            let words = self.words(RINGS_AT + ring * self.ring_bytes, self.ring_bytes / 8);
            let found = read_ring(words, head, &mut state, most, &mut take);
            self.word(Self::header(ring, header::TAIL)).store(state.tail, Ordering::Release);
            self.states[ring] = state;
            drained.records += found;
            drained.fullest = drained.fullest.max(found);
        }
        drained
    }

    /// A ring has room for so many records.
    pub fn ring_records(&self) -> usize {
        self.ring_bytes / crate::RING_RECORD_BYTES
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: it was mapped by us with this length, and nobody has a reference into it.
        unsafe { libc::munmap(self.first.as_ptr().cast(), self.bytes) };
    }
}
