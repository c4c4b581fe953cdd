//! Reading one ring.

use std::cell::RefCell;
use std::rc::Rc;

use analyzer::wire::RawRecord;
use libbpf_rs::{MapCore, RingBuffer, RingBufferBuilder};

use crate::kernel::rings::KernelRing;

/// What the shortest record takes of a ring, with what the kernel notes of it. So many fit into the ring: all that is there when a
/// look begins is taken by it, whatever comes meanwhile.
const LEAST_RECORD_BYTES: usize = 32;
/// A ring that is found filled up to no more than this part can wait longer for the next time.
const FEW: usize = 64;
/// Records are about this long.
const RECORD_BYTES: usize = 64;

#[derive(Default)]
struct RingBatch {
    records: Vec<RawRecord>,
    unreadable: u64,
}

/// One ring and the place that its records are copied to.
pub(in crate::kernel) struct RingReader {
    slot: u32,
    ring: RingBuffer<'static>,
    /// Of one look: as many as the ring can hold.
    most_taken: usize,
    few_records: usize,
    found: Rc<RefCell<RingBatch>>,
}

impl RingReader {
    pub(in crate::kernel) fn new(ring: KernelRing) -> Result<Self, libbpf_rs::Error> {
        let found = Rc::new(RefCell::new(RingBatch::default()));
        let sink = Rc::clone(&found);
        let mut builder = RingBufferBuilder::new();
        builder.add(&ring.map, move |bytes| {
            let mut found = sink.borrow_mut();
            match RawRecord::from_bytes(bytes) {
                Some(record) => found.records.push(record),
                None => found.unreadable += 1,
            }
            0
        })?;
        let ring_bytes = ring.map.max_entries() as usize;
        let (most_taken, few_records) = (ring_bytes / LEAST_RECORD_BYTES, ring_bytes / RECORD_BYTES / FEW);
        // The ring keeps the kernel's map alive through its own mapping.
        Ok(Self { slot: ring.slot, ring: builder.build()?, most_taken, few_records, found })
    }

    pub(super) fn slot(&self) -> u32 {
        self.slot
    }

    /// As many records are few for a ring of this size.
    pub(super) fn few_records(&self) -> usize {
        self.few_records
    }

    /// Copies what is there: the records, if there are any, and how many were none. `spare`: gives room for the next ones.
    pub(in crate::kernel) fn take(
        &mut self,
        spare: impl FnOnce() -> Vec<RawRecord>,
    ) -> (Option<Vec<RawRecord>>, u64) {
        // An error can only come from the callback, and that has none.
        self.ring.consume_raw_n(self.most_taken);
        let mut found = self.found.borrow_mut();
        let unreadable = std::mem::take(&mut found.unreadable);
        let found_any = !found.records.is_empty();
        let records = found_any.then(|| std::mem::replace(&mut found.records, spare()));
        (records, unreadable)
    }
}
