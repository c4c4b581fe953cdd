//! What clocks show in a rank that runs alone.

use std::io;
use std::path::Path;

use replay::{CLOCKS, ClockTrack};

use crate::played_clocks::gone_on;

/// What they showed, and how they go on where the record has nothing for them.
#[derive(Debug)]
pub(crate) struct AloneClocks {
    track: ClockTrack,
    /// What they showed really, at the first reading that has none, and what they showed last in the record.
    ended: [Option<(i64, i64)>; CLOCKS],
}

impl AloneClocks {
    /// From a record as dmscope has put it down: eight bytes that are not for clocks, then the record.
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        let bytes = std::fs::read(path)?;
        let record = bytes.get(8..).ok_or(io::ErrorKind::InvalidData)?.to_vec();
        Ok(Self { track: ClockTrack::new(record), ended: [None; CLOCKS] })
    }

    /// What a clock shows that really shows `real`.
    pub(crate) fn show(&mut self, clock: u8, real: i64) -> i64 {
        if let Some(shows) = self.track.read(clock) {
            return shows;
        }
        let last = self.track.showed(clock);
        let Some(ended) = self.ended.get_mut(usize::from(clock)) else { return real };
        // Of one that was never read there is nothing to go on from.
        let (since, last) = *ended.get_or_insert((real, if last == 0 { real } else { last }));
        gone_on(clock, last, since, real)
    }
}
