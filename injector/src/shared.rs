//! The memory that a process shares with us, as we see it.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::InjectError;
use crate::layout::{HEADERS_AT, MAX_RINGS, RINGS_AT, control, header, shared_bytes};
use crate::rings::{RecordedCall, RingState, read_ring};

/// A thread hears after so many records that there is room again.
const PIECE_RECORDS: usize = 1024;

/// The mapping itself.
#[derive(Debug)]
pub(crate) struct SharedMapping {
    first: NonNull<AtomicU64>,
    bytes: usize,
}

// SAFETY: the memory is only read and written with atomic operations, and is mapped for as long as this lives.
unsafe impl Send for SharedMapping {}
// SAFETY: as above.
unsafe impl Sync for SharedMapping {}

/// Has a process record, or not, from whatever thread.
#[derive(Clone, Debug)]
pub struct Switch {
    mapping: Arc<SharedMapping>,
    are_off: [Arc<AtomicBool>; RecordedPart::ALL.len()],
}

/// What code in a process records. Each is turned off and on by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordedPart {
    /// Copies of memory.
    Copies,
    /// MPI calls.
    Calls,
    /// Heap blocks.
    Heap,
}

impl RecordedPart {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Copies, Self::Calls, Self::Heap];

    /// Where its deadline stands in the control page.
    pub(crate) fn deadline(self) -> usize {
        match self {
            Self::Copies => control::DEADLINE,
            Self::Calls => control::CALLS_DEADLINE,
            Self::Heap => control::HEAP_DEADLINE,
        }
    }
}

/// See the [module](self).
#[derive(Debug)]
pub struct SharedRings {
    switch: Switch,
    ring_bytes: usize,
    states: Vec<RingState>,
    /// Losses that the process has counted: never fewer, whatever it writes there.
    counted_lost: [RecordLosses; MAX_RINGS + 1],
    lost: RecordLosses,
}

/// Records that found no room, or that nobody could read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordLosses {
    /// But for those of MPI calls.
    pub movements: u64,
    /// Of MPI calls, and those that may have been.
    pub calls: u64,
}

impl RecordLosses {
    /// Of whatever.
    pub fn all(self) -> u64 {
        self.movements.saturating_add(self.calls)
    }

    /// Adds others.
    pub fn add(&mut self, others: Self) {
        self.movements = self.movements.saturating_add(others.movements);
        self.calls = self.calls.saturating_add(others.calls);
    }

    /// What has come to these since `before`.
    fn since(self, before: Self) -> Self {
        Self {
            movements: self.movements.saturating_sub(before.movements),
            calls: self.calls.saturating_sub(before.calls),
        }
    }
}

/// What a look at all rings of a process gave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Records that were taken.
    pub records: usize,
    /// So much of the fullest ring was in use, in records of one piece.
    pub fullest: u64,
}

impl SharedMapping {
    fn of(file: &File, bytes: usize) -> Result<Self, InjectError> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping anywhere; nothing of ours is replaced.
        let at =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, rights, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if at == libc::MAP_FAILED {
            return Err(InjectError::last("its shared memory here"));
        }
        let first = NonNull::new(at.cast()).ok_or(InjectError::Unknown("a mapping at nowhere"))?;
        Ok(Self { first, bytes })
    }

    fn words(&self, at: usize, count: usize) -> &[AtomicU64] {
        assert!(at.is_multiple_of(8) && at + 8 * count <= self.bytes, "within the mapping");
        // SAFETY: it lies within the mapping, is aligned, and any bytes are words; others write only words there too.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr().add(at / 8), count) }
    }

    pub(crate) fn word(&self, at: usize) -> &AtomicU64 {
        &self.words(at, 1)[0]
    }

    pub(crate) fn header(&self, ring: usize, field: usize) -> &AtomicU64 {
        self.word(HEADERS_AT + ring * header::BYTES + field)
    }
}

impl Switch {
    /// Nothing of this part is recorded from now on.
    pub fn turn_off(&self, part: RecordedPart) {
        self.off(part).store(true, Ordering::SeqCst);
        self.set(part.deadline(), 0);
    }

    /// Takes that back: recording goes on when its time is set the next time.
    pub fn turn_on(&self, part: RecordedPart) {
        self.off(part).store(false, Ordering::SeqCst);
    }

    /// Nothing at all is recorded any more.
    pub fn end(&self) {
        RecordedPart::ALL.into_iter().for_each(|part| self.turn_off(part));
    }

    /// Whether nothing of this part is to be recorded.
    pub fn is_off(&self, part: RecordedPart) -> bool {
        self.off(part).load(Ordering::SeqCst)
    }

    /// From now on nothing is recorded any more once the counter is past this, if it is not turned off.
    pub fn record_until(&self, counter: u64) {
        for part in RecordedPart::ALL {
            self.set_unless(part.deadline(), counter, self.off(part));
        }
    }

    fn off(&self, part: RecordedPart) -> &AtomicBool {
        &self.are_off[part as usize]
    }

    fn set_unless(&self, deadline: usize, counter: u64, is_off: &AtomicBool) {
        if is_off.load(Ordering::SeqCst) {
            return;
        }
        self.set(deadline, counter);
        // It may have been turned off in between.
        if is_off.load(Ordering::SeqCst) {
            self.set(deadline, 0);
        }
    }

    /// Whether code in the process looks at the clock to see if it is to record: not where it is turned off, nor where it has found
    /// that the time is over.
    pub fn is_asked(&self, part: RecordedPart) -> bool {
        self.mapping.word(part.deadline()).load(Ordering::SeqCst) != 0
    }

    fn set(&self, deadline: usize, counter: u64) {
        self.mapping.word(deadline).store(counter, Ordering::SeqCst);
    }
}

impl SharedRings {
    /// Maps the memory that a process shares, with rings of the size that was asked for.
    ///
    /// # Errors
    /// No memory, or a file that is not as long as it must be.
    pub fn open(file: &File, ring_bytes: usize) -> Result<Self, InjectError> {
        let ring_bytes = crate::layout::ring_bytes(ring_bytes);
        let length = file.metadata().map_err(|source| InjectError::of("its shared memory", source))?.len();
        if length < shared_bytes(ring_bytes) as u64 {
            return Err(InjectError::Unknown("its shared memory is too short"));
        }
        let mapping = Arc::new(SharedMapping::of(file, shared_bytes(ring_bytes))?);
        let switch = Switch { mapping, are_off: Default::default() };
        let states = vec![RingState::default(); MAX_RINGS];
        Ok(Self {
            switch,
            ring_bytes,
            states,
            counted_lost: [RecordLosses::default(); MAX_RINGS + 1],
            lost: RecordLosses::default(),
        })
    }

    /// Says where the rings are in the process.
    pub(crate) fn lay_out(&self, address: u64) {
        for ring in 0..MAX_RINGS {
            let data = address + (RINGS_AT + ring * self.ring_bytes) as u64;
            self.switch.mapping.header(ring, header::DATA).store(data, Ordering::Relaxed);
        }
    }

    pub(crate) fn mapping(&self) -> &SharedMapping {
        &self.switch.mapping
    }

    /// What has the process record, or not.
    pub fn switch(&self) -> &Switch {
        &self.switch
    }

    /// Records that found no room, or that nobody could read, since the beginning.
    pub fn lost(&mut self) -> RecordLosses {
        let given_up: u64 = self.states.iter().map(|state| state.given_up).fold(0, u64::saturating_add);
        let mapping = &self.switch.mapping;
        for at in 0..=MAX_RINGS {
            let (movements, calls) = match at {
                MAX_RINGS => (mapping.word(control::LOST), mapping.word(control::LOST_CALLS)),
                ring => (mapping.header(ring, header::LOST), mapping.header(ring, header::LOST_CALLS)),
            };
            let now = RecordLosses {
                movements: movements.load(Ordering::Relaxed),
                calls: calls.load(Ordering::Relaxed),
            };
            let before = std::mem::replace(&mut self.counted_lost[at], now);
            self.lost.add(now.since(before));
        }
        let mut lost = self.lost;
        lost.add(RecordLosses { movements: 0, calls: given_up });
        lost
    }

    /// Reads what is in all rings; `None`: nothing. `seen`: called before any is taken; all that are taken were begun earlier.
    pub fn drain<S>(
        &mut self,
        seen: impl FnOnce() -> S,
        mut take: impl FnMut(&mut S, &RecordedCall),
    ) -> Option<(Drained, S)> {
        let mapping = &self.switch.mapping;
        let is_used = |ring: usize| mapping.header(ring, header::OWNER).load(Ordering::Relaxed) != 0;
        let begun = |ring: usize| mapping.header(ring, header::HEAD).load(Ordering::Acquire);
        let begun: [Option<u64>; MAX_RINGS] = std::array::from_fn(|ring| is_used(ring).then(|| begun(ring)));
        let has_more =
            |(ring, head): (usize, &Option<u64>)| head.is_some_and(|head| head != self.states[ring].tail);
        if !begun.iter().enumerate().any(has_more) {
            return None;
        }
        let (mut drained, mut seen) = (Drained::default(), seen());
        for (ring, head) in begun.into_iter().enumerate().filter_map(|(ring, head)| Some((ring, head?))) {
            let state = &mut self.states[ring];
            let words = mapping.words(RINGS_AT + ring * self.ring_bytes, self.ring_bytes / 8);
            drained.fullest = drained.fullest.max(head.wrapping_sub(state.tail));
            // In pieces: the thread has room again while the rest is read.
            loop {
                let found = read_ring(words, head, state, PIECE_RECORDS, |call| take(&mut seen, call));
                mapping.header(ring, header::TAIL).store(state.tail, Ordering::Release);
                drained.records += found;
                if found < PIECE_RECORDS {
                    break;
                }
            }
        }
        Some((drained, seen))
    }

    /// A ring has room for so many records.
    pub fn ring_records(&self) -> u64 {
        (self.ring_bytes / crate::RING_RECORD_BYTES) as u64
    }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped by us with this length, and nobody has a reference into it.
        unsafe { libc::munmap(self.first.as_ptr().cast(), self.bytes) };
    }
}
