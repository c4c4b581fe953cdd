//! The clocks, read in one place.

use rustix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC in nanoseconds: the clock of the records.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Processor time of this process so far.
pub fn process_cpu_ns() -> u64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}

/// What two clocks show at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockPair {
    /// CLOCK_MONOTONIC.
    pub monotonic_ns: u64,
    /// Seconds since 1970.
    pub wall_clock_s: u64,
    /// What that leaves out, ns.
    pub wall_clock_rest_ns: u32,
    /// They were read at most so long one after the other.
    pub apart_ns: u64,
}

/// Reads both clocks, so often that it was not interrupted in between at least once.
pub fn pair() -> ClockPair {
    const TRIES: usize = 20;
    let read = || {
        let before_ns = monotonic_ns();
        let wall = clock_gettime(ClockId::Realtime);
        let apart_ns = monotonic_ns().saturating_sub(before_ns);
        ClockPair {
            monotonic_ns: before_ns + apart_ns / 2,
            wall_clock_s: wall.tv_sec as u64,
            wall_clock_rest_ns: wall.tv_nsec as u32,
            apart_ns,
        }
    };
    let first = read();
    (1..TRIES)
        .map(|_| read())
        .fold(first, |best, next| if next.apart_ns < best.apart_ns { next } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_are_read_at_one_moment() {
        let (one, other) = (pair(), pair());
        let wall_ns =
            |pair: &ClockPair| pair.wall_clock_s * 1_000_000_000 + u64::from(pair.wall_clock_rest_ns);
        let differ_ns = (wall_ns(&other) - wall_ns(&one)).abs_diff(other.monotonic_ns - one.monotonic_ns);
        // Nobody sets the clock in between; it may be slewed.
        assert!(differ_ns <= one.apart_ns + other.apart_ns + 1000, "{differ_ns} {one:?} {other:?}");
    }
}
