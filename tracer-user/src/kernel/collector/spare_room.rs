//! Room for records, used again: the next ones find a place without asking the system for memory.

use std::sync::atomic::{AtomicUsize, Ordering};

use analyzer::wire::RawRecord;
use crossbeam_channel::{Receiver, Sender, unbounded};

/// Room that is kept: for so many records, as many as are held until they can be put in order.
const MAX_RECORDS: usize = 1 << 20;

/// Shared by the thread that fills pieces and the one that gives them back.
pub(super) struct SpareRoom {
    given: Sender<Vec<RawRecord>>,
    pieces: Receiver<Vec<RawRecord>>,
    records: AtomicUsize,
}

impl SpareRoom {
    pub(super) fn new() -> Self {
        let (given, pieces) = unbounded();
        Self { given, pieces, records: AtomicUsize::new(0) }
    }

    /// Keeps a piece, unless there is enough: what a burst needed is given back to the system.
    pub(super) fn give(&self, mut records: Vec<RawRecord>) {
        records.clear();
        let room = records.capacity();
        if self.records.fetch_add(room, Ordering::Relaxed) + room > MAX_RECORDS
            || self.given.send(records).is_err()
        {
            self.records.fetch_sub(room, Ordering::Relaxed);
        }
    }

    /// A piece that is empty.
    pub(super) fn take(&self) -> Vec<RawRecord> {
        let Ok(records) = self.pieces.try_recv() else { return Vec::new() };
        self.records.fetch_sub(records.capacity(), Ordering::Relaxed);
        records
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_used_again_and_what_is_beyond_the_bound_is_not_kept() {
        let room = SpareRoom::new();
        let half = MAX_RECORDS / 2;
        (0..3).for_each(|_| room.give(Vec::with_capacity(half)));
        assert_eq!([room.take(), room.take(), room.take()].map(|piece| piece.capacity()), [half, half, 0]);
        room.give(Vec::with_capacity(MAX_RECORDS));
        assert_eq!(room.take().capacity(), MAX_RECORDS);
    }
}
