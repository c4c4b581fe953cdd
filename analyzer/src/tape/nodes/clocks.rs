//! What the clocks of nodes show at the same time.
//!
//! The clock of a node's records never jumps, and goes a little faster or slower than those of others. Its wall clock is what it
//! has in common with them, and may be set to another time. So how far the two go apart from one reading to the next is
//! believed where clocks can go apart so far, and is a jump of the wall clock otherwise, which says nothing.

use crate::tape::input::{ClockReading, Start};

/// The kernel slews clocks by 500 ppm at most; crystals differ by less.
const MOST_DRIFT_NS_PER_S: u64 = 500_000;
/// Readings are not better than this.
const READING_ERROR_NS: u64 = 1_000_000;
const NS_PER_S: u64 = 1_000_000_000;

/// What must be added to times of one node to have those of another: their wall clocks show the same.
pub(super) fn ahead_ns(of: &Start, node: &Start) -> i64 {
    let began = |start: &Start| i128::from(start.wall_clock_ns()) - i128::from(start.time_ns);
    clamped(began(node) - began(of))
}

/// How the two clocks of one node go apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockDrift {
    last: ClockReading,
}

impl ClockDrift {
    /// From a first reading on.
    pub(super) fn new(first: ClockReading) -> Self {
        Self { last: first }
    }

    /// By how much more the wall clock went on than the clock of the records did, since the last reading.
    pub(super) fn step_ns(&mut self, next: ClockReading) -> i64 {
        let last = std::mem::replace(&mut self.last, next);
        let Some(elapsed_ns) = next.time_ns.checked_sub(last.time_ns) else { return 0 };
        let went_ns = i128::from(next.wall_clock_ns) - i128::from(last.wall_clock_ns);
        let step_ns = clamped(went_ns - i128::from(elapsed_ns));
        let errors_ns = last.error_ns.unwrap_or(0).saturating_add(next.error_ns.unwrap_or(0));
        let drift_ns = u128::from(elapsed_ns) * u128::from(MOST_DRIFT_NS_PER_S) / u128::from(NS_PER_S);
        let most_ns = u128::from(READING_ERROR_NS) + drift_ns + u128::from(errors_ns.min(NS_PER_S));
        if u128::from(step_ns.unsigned_abs()) <= most_ns { step_ns } else { 0 }
    }
}

fn clamped(ns: i128) -> i64 {
    ns.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(time_ns: u64, wall_clock_ns: u64) -> ClockReading {
        ClockReading { time_ns, wall_clock_ns, ..ClockReading::default() }
    }

    #[test]
    fn what_clocks_can_go_apart_is_believed_and_a_jump_is_not() {
        const S: u64 = NS_PER_S;
        let mut drift = ClockDrift::new(reading(S, 50 * S));
        assert_eq!(drift.step_ns(reading(11 * S, 60 * S + 400_000)), 400_000);
        assert_eq!(drift.step_ns(reading(21 * S, 70 * S)), -400_000);
        assert_eq!(drift.step_ns(reading(31 * S, 100 * S)), 0, "it was set");
        assert_eq!(drift.step_ns(reading(41 * S, 110 * S + 5)), 5, "it goes on from there");
        assert_eq!(drift.step_ns(reading(40 * S, 109 * S)), 0, "no clock of records goes back");
    }

    #[test]
    fn readings_that_cannot_be_do_no_harm() {
        let mut drift = ClockDrift::new(reading(0, u64::MAX));
        drift.step_ns(ClockReading { error_ns: Some(u64::MAX), ..reading(u64::MAX, 0) });
        drift.step_ns(ClockReading { error_ns: Some(u64::MAX), ..reading(u64::MAX, u64::MAX) });
    }
}
