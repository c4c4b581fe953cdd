//! The clocks, read in one place.

use analyzer::input::ClockReading;
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

impl ClockPair {
    /// Wall clock, ns since 1970.
    pub fn wall_clock_ns(&self) -> u64 {
        self.wall_clock_s.saturating_mul(1_000_000_000).saturating_add(self.wall_clock_rest_ns.into())
    }
}

/// Reads both clocks, and how far the wall clock may be off.
pub fn reading() -> ClockReading {
    let pair = pair();
    let error_ns = synchronization_error_ns().map(|error_ns| error_ns.saturating_add(pair.apart_ns));
    ClockReading { node: 0, time_ns: pair.monotonic_ns, wall_clock_ns: pair.wall_clock_ns(), error_ns }
}

/// How far the wall clock is from true time at most, as whoever synchronizes it (chrony, ntpd, systemd-timesyncd) has told the
/// kernel: ntp_adjtime(2), the distance to the root of NTP (RFC 5905, section 11.2.2). None: nobody does.
fn synchronization_error_ns() -> Option<u64> {
    // SAFETY: all zeros are a value of this structure of numbers.
    let mut clock: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: it is ours, and without modes the kernel only writes to it.
    let state = unsafe { libc::adjtimex(&raw mut clock) };
    let is_synchronized = state >= 0 && state != libc::TIME_ERROR && clock.status & libc::STA_UNSYNC == 0;
    is_synchronized.then(|| u64::try_from(clock.maxerror).unwrap_or(0).saturating_mul(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_are_read_at_one_moment() {
        let (one, other) = (pair(), pair());
        let differ_ns =
            (other.wall_clock_ns() - one.wall_clock_ns()).abs_diff(other.monotonic_ns - one.monotonic_ns);
        // Nobody sets the clock in between; it may be slewed.
        assert!(differ_ns <= one.apart_ns + other.apart_ns + 1000, "{differ_ns} {one:?} {other:?}");
    }
}
