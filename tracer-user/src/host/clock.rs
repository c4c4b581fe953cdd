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

/// Seconds since 1970, and the nanoseconds since then.
pub fn wall_clock() -> (u64, u32) {
    let now = clock_gettime(ClockId::Realtime);
    (now.tv_sec as u64, now.tv_nsec as u32)
}
