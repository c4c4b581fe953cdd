//! The order in which the calls of all ranks ended.
//!
//! Each call of each rank that does not just answer no takes the next position when it ends. In an identical replay a call ends
//! when all calls before it have ended. That cannot stop a job which got that far before: what a call waited for, calls before
//! it had done, and a rank that waits for its turn helps the library on.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::answer::{BadRecord, RecordEntry};

/// What all ranks share, in a file of zeros that all have mapped.
#[repr(C)]
#[derive(Debug, Default)]
pub struct SharedOrder {
    /// The position whose turn it is in an identical replay.
    next: AtomicU64,
    /// Where the recorded order ends; from there on positions are taken as calls come.
    end: AtomicU64,
    /// Positions taken behind the end.
    free: AtomicU64,
}

/// Length of the file.
pub const ORDER_BYTES: usize = size_of::<SharedOrder>();

impl SharedOrder {
    /// One for a replay up to a position.
    pub fn up_to(end: u64) -> [u8; ORDER_BYTES] {
        let mut bytes = [0; ORDER_BYTES];
        bytes[8..16].copy_from_slice(&end.to_le_bytes());
        bytes
    }

    /// Where the recorded order ends.
    pub fn end(&self) -> u64 {
        self.end.load(Ordering::Relaxed)
    }

    /// Takes the next position behind the recorded order.
    #[inline]
    pub fn take(&self) -> u64 {
        self.end() + self.free.fetch_add(1, Ordering::AcqRel)
    }

    /// Whether all calls of the recorded order have ended up to this position.
    pub fn has_passed(&self, position: u64) -> bool {
        let next = self.next.load(Ordering::Acquire);
        next > position || next >= self.end()
    }

    /// Ends a turn, if it is that of this position.
    #[inline]
    pub fn pass_on(&self, position: u64) -> bool {
        self.next.compare_exchange(position, position + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// The positions in a rank's record.
///
/// # Errors
/// It is none.
pub fn positions_of(mut record: &[u8]) -> Result<Vec<u64>, BadRecord> {
    let (mut positions, mut last) = (Vec::new(), 0_u64);
    while !record.is_empty() {
        if let RecordEntry::Position(behind) = RecordEntry::take(&mut record)? {
            let is_behind = behind > 0 || positions.is_empty();
            last = last.checked_add(behind).filter(|_| is_behind).ok_or(BadRecord)?;
            positions.push(last);
        }
    }
    Ok(positions)
}

/// Where the order ends that the positions of all ranks make: the first that none of them has.
///
/// # Errors
/// Two ranks have the same.
pub fn end_of(ranks: &[Vec<u64>]) -> Result<u64, BadRecord> {
    let mut all: Vec<u64> = ranks.iter().flatten().copied().collect();
    all.sort_unstable();
    if all.windows(2).any(|two| two[0] == two[1]) {
        return Err(BadRecord);
    }
    let end = all.iter().zip(0..).take_while(|(position, number)| *position == number).count();
    Ok(end as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Recording;
    use crate::answer::Answer;

    fn shared(end: u64) -> SharedOrder {
        SharedOrder { end: AtomicU64::new(end), ..SharedOrder::default() }
    }

    proptest! {
        #[test]
        fn positions_come_back_however_ranks_take_turns(ranks in proptest::collection::vec(0_usize..4, 0..200)) {
            let order = shared(0);
            let mut recordings: Vec<(Recording, Vec<u8>)> = (0..4).map(|_| Default::default()).collect();
            let mut expected = vec![Vec::new(); 4];
            for rank in &ranks {
                let (recording, out) = &mut recordings[*rank];
                recording.answer(Answer::Yes, out);
                let position = order.take();
                recording.position(position, out);
                expected[*rank].push(position);
            }
            let found: Vec<Vec<u64>> =
                recordings.iter().map(|(_, bytes)| positions_of(bytes).expect("a record")).collect();
            prop_assert_eq!(&found, &expected);
            prop_assert_eq!(end_of(&found), Ok(ranks.len() as u64));
        }
    }

    #[test]
    fn the_order_ends_before_the_first_position_that_nobody_has() {
        assert_eq!(end_of(&[vec![0, 3], vec![1, 4]]), Ok(2));
        assert_eq!(end_of(&[vec![1], vec![]]), Ok(0));
        assert_eq!(end_of(&[vec![0, 2], vec![1, 2]]), Err(BadRecord));
    }

    #[test]
    fn positions_that_do_not_rise_are_no_record() {
        let mut bytes = Vec::new();
        RecordEntry::Position(3).write(&mut bytes);
        RecordEntry::Position(0).write(&mut bytes);
        assert_eq!(positions_of(&bytes), Err(BadRecord));
    }

    #[test]
    fn turns_are_passed_on_in_order_and_what_comes_behind_is_counted_on() {
        let order = shared(2);
        assert!(!order.pass_on(1));
        assert!(order.pass_on(0) && order.has_passed(0) && !order.has_passed(1));
        assert!(order.pass_on(1) && order.has_passed(5));
        assert_eq!((order.take(), order.take()), (2, 3));
    }

    #[test]
    fn the_file_is_read_as_it_was_written() {
        let bytes = SharedOrder::up_to(7);
        // SAFETY: atomic integers, of which any bytes are a value.
        let order: SharedOrder = unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) };
        assert_eq!((order.end(), order.take()), (7, 7));
    }
}
