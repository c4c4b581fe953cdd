//! Room for what is known of the memory of all processes together.
//!
//! A process has no more than its own limits allow, but a tape may fork a large one as often as it likes.

/// Regions and blocks of all processes: some hundred MiB.
const MOST: usize = 3 << 20;
/// Each record makes no more than so many.
const BY_A_RECORD: usize = 2;
/// Where all room is taken it is asked for so often before it is counted again.
const ASKED: usize = 256;

/// What is taken at most: it is counted only when that seems too much.
#[derive(Debug, Default)]
pub(crate) struct MemoryRoom {
    /// When it was counted last …
    counted: usize,
    /// … how many records there had been …
    records: usize,
    /// … and how many were taken since.
    taken: usize,
    refused: usize,
}

impl MemoryRoom {
    /// Whether there is room for so many more, which are taken then. `count`: goes through all processes.
    pub fn take(&mut self, more: usize, records: usize, count: impl FnOnce() -> usize) -> bool {
        if self.is_enough(more, records) {
            self.taken += more;
            return true;
        }
        self.refused += 1;
        if self.refused % ASKED != 1 {
            return false;
        }
        (self.counted, self.records, self.taken) = (count(), records, 0);
        let is_enough = self.is_enough(more, records);
        if is_enough {
            self.taken = more;
            self.refused = 0;
        }
        is_enough
    }

    fn is_enough(&self, more: usize, records: usize) -> bool {
        let made = records.saturating_sub(self.records).saturating_mul(BY_A_RECORD);
        self.counted.saturating_add(self.taken).saturating_add(made).saturating_add(more) <= MOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_stays_within_the_bound_and_is_rarely_counted() {
        let (mut room, mut held, mut counted) = (MemoryRoom::default(), 0, 0);
        for _ in 0..1 << 16 {
            let count = || {
                counted += 1;
                held
            };
            if room.take(1000, 0, count) {
                held += 1000;
            }
        }
        assert!(held <= MOST && held > MOST - 1000, "{held}");
        assert!(counted <= (1 << 16) / ASKED + 1, "{counted}");
    }

    #[test]
    fn what_was_given_back_is_room_again() {
        let mut room = MemoryRoom::default();
        assert!(room.take(MOST, 0, || 0));
        assert!(!room.take(1, 0, || MOST));
        assert!((0..=ASKED).any(|_| room.take(1, 0, || 0)));
        // Records may have made as many as there is room for.
        assert!(!room.take(1, MOST, || MOST));
    }
}
