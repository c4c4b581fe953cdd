//! What clocks showed, of a record of which nothing else is wanted.

use crate::answer::{CLOCKS, RecordEntry};

/// The readings of a record: those of each clock in their order. Between clocks the order is not held, since libraries of a
/// job that is not there may have read one of them.
#[derive(Clone, Debug)]
pub struct ClockTrack {
    record: Vec<u8>,
    /// Of each clock: up to where the record was read for it, and what it showed there.
    at: [(usize, i64); CLOCKS],
}

impl ClockTrack {
    /// Of a record.
    pub fn new(record: Vec<u8>) -> Self {
        Self { record, at: [(0, 0); CLOCKS] }
    }

    /// What a clock shows that is read now. None: the record has no other reading of it.
    pub fn read(&mut self, clock: u8) -> Option<i64> {
        let (at, showed) = self.at.get_mut(usize::from(clock))?;
        loop {
            let mut rest = self.record.get(*at..).filter(|rest| !rest.is_empty())?;
            let entry = RecordEntry::take(&mut rest).ok()?;
            *at = self.record.len() - rest.len();
            if let RecordEntry::Clock { clock: read, went_on } = entry
                && read == clock
            {
                *showed = showed.wrapping_add(went_on);
                return Some(*showed);
            }
        }
    }

    /// What a clock showed last.
    pub fn showed(&self, clock: u8) -> i64 {
        self.at.get(usize::from(clock)).map_or(0, |(_, showed)| *showed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Answer, Recording};

    #[test]
    fn clocks_show_what_they_showed_whatever_was_answered_between() {
        let (mut recording, mut out) = (Recording::default(), Vec::new());
        recording.clock(1, 100, &mut out);
        recording.answer(Answer::From(Some(3)), &mut out);
        recording.clock(1, 107, &mut out);
        recording.answer(Answer::No, &mut out);
        recording.clock(2, -5, &mut out);
        let mut track = ClockTrack::new(out);
        assert_eq!(track.read(2), Some(-5));
        assert_eq!((track.read(1), track.read(1)), (Some(100), Some(107)));
        assert_eq!((track.read(1), track.read(2)), (None, None));
        assert_eq!((track.showed(1), track.showed(2)), (107, -5));
    }
}
