//! What clocks show when a rank runs again.

use replay::{CLOCKS, Divergence, Playback};

/// MPI_Wtime, which shows the bits of a floating-point number of seconds. All other clocks show whole numbers.
const WTIME: u8 = 0;

/// A record, and how clocks go on behind its end.
#[derive(Debug)]
pub(crate) struct PlayedClocks {
    pub playback: Playback,
    /// What they showed really, at the first reading behind the end, and what they showed last in the record.
    ended: [Option<(i64, i64)>; CLOCKS],
    /// What they have shown so far, if that is wanted.
    kept: Vec<(u8, i64)>,
    /// So often more they are played before MPI_Init.
    early_left: usize,
}

impl PlayedClocks {
    pub(crate) fn new(playback: Playback) -> Self {
        Self { playback, ended: [None; CLOCKS], kept: Vec::new(), early_left: 0 }
    }

    /// Readings before MPI_Init, of which so many at most are recorded, and kept if that is wanted.
    pub(crate) fn begin_early(&mut self, most: usize, keeps: bool) {
        self.early_left = most;
        if keeps {
            self.kept.reserve_exact(most);
        }
    }

    /// What was kept of it.
    pub(crate) fn read_early(&self) -> &[(u8, i64)] {
        &self.kept
    }

    /// The same as [`PlayedClocks::read`], before MPI_Init.
    pub(crate) fn read_early_clock(&mut self, clock: u8, real: i64) -> Result<i64, Divergence> {
        let Some(left) = self.early_left.checked_sub(1) else { return Ok(real) };
        self.early_left = left;
        let shows = self.read(clock, real)?;
        // Nothing is allocated here.
        if self.kept.len() < self.kept.capacity() {
            self.kept.push((clock, shows));
        }
        Ok(shows)
    }

    /// What a clock shows that really shows `real`.
    ///
    /// # Errors
    /// The program does something else than it did.
    pub(crate) fn read(&mut self, clock: u8, real: i64) -> Result<i64, Divergence> {
        if let Some(shows) = self.playback.clock(clock)? {
            return Ok(shows);
        }
        let Some(last) = self.playback.showed(clock) else { return Ok(real) };
        let Some(ended) = self.ended.get_mut(usize::from(clock)) else { return Ok(real) };
        let (since, last) = *ended.get_or_insert((real, last));
        Ok(gone_on(clock, last, since, real))
    }
}

/// A clock that showed `last` when it really showed `since`, when it really shows `real`.
pub(crate) fn gone_on(clock: u8, last: i64, since: i64, real: i64) -> i64 {
    if clock != WTIME {
        return last.wrapping_add(real.wrapping_sub(since));
    }
    let seconds = |bits: i64| f64::from_bits(bits as u64);
    (seconds(last) + (seconds(real) - seconds(since))).to_bits() as i64
}

#[cfg(test)]
mod tests {
    use replay::Recording;

    use super::*;

    fn bits(seconds: f64) -> i64 {
        seconds.to_bits() as i64
    }

    #[test]
    fn behind_the_end_of_the_record_clocks_go_on_from_what_they_showed() {
        let (mut recording, mut out) = (Recording::default(), Vec::new());
        recording.clock(WTIME, bits(1000.5), &mut out);
        recording.clock(1, 77, &mut out);
        let mut clocks = PlayedClocks::new(Playback::new(out, 0).expect("a record"));
        assert_eq!(clocks.read(WTIME, bits(3.0)), Ok(bits(1000.5)));
        assert_eq!(clocks.read(1, 500), Ok(77));
        assert_eq!(clocks.read(WTIME, bits(4.0)), Ok(bits(1000.5)));
        assert_eq!(clocks.read(WTIME, bits(5.5)), Ok(bits(1002.0)));
        assert_eq!(clocks.read(1, 600), Ok(77));
        assert_eq!(clocks.read(1, 605), Ok(82));
        assert_eq!(clocks.read(2, 9), Ok(9), "it was never read");
    }
}
