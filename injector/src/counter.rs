//! The processor's counter, and what it shows beside the clock of the records.

use std::time::Duration;

/// The counter now.
pub fn counter() -> u64 {
    // SAFETY: every x86-64 processor has it.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Whether the counter runs at one rate on all processors, whatever they do: the kernel takes it for its own clock then.
pub fn counter_is_invariant() -> bool {
    let source = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    source.is_ok_and(|source| source.trim() == "tsc") && has_invariant_counter()
}

fn has_invariant_counter() -> bool {
    const HIGHEST: u32 = 0x8000_0000;
    const POWER: u32 = 0x8000_0007;
    const INVARIANT: u32 = 1 << 8;
    use std::arch::x86_64::__cpuid;
    __cpuid(HIGHEST).eax >= POWER && __cpuid(POWER).edx & INVARIANT != 0
}

/// Counter and clock at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterPair {
    /// The processor's counter.
    pub counter: u64,
    /// CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// How far apart they were read at most, in steps of the counter.
    pub apart: u64,
}

impl CounterPair {
    /// Reads both, so often that nothing came in between at least once.
    pub fn read() -> Self {
        const TRIES: usize = 8;
        (0..TRIES).map(|_| Self::read_once()).min_by_key(|pair| pair.apart).unwrap_or_default()
    }

    fn read_once() -> Self {
        let before = counter();
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: it is ours to be written to.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
        let apart = counter().saturating_sub(before);
        let time_ns = now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned();
        Self { counter: before + apart / 2, time_ns, apart }
    }
}

/// Converts the counter to the clock: on a straight line between two pairs that were read before and after. An error is
/// at most that with which a pair was read, some tens of nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct CounterClock {
    before: CounterPair,
    after: CounterPair,
    /// Nanoseconds of a step of the counter, times 2^32: a product in place of a quotient for each record.
    rate: u64,
}

impl CounterClock {
    /// Takes long enough that the rate is known well.
    pub fn begin() -> Self {
        let before = CounterPair::read();
        std::thread::sleep(Duration::from_millis(2));
        Self::between(before, CounterPair::read())
    }

    /// A clock between two pairs.
    pub fn between(before: CounterPair, after: CounterPair) -> Self {
        let steps = after.counter.wrapping_sub(before.counter).max(1);
        let took_ns = after.time_ns.saturating_sub(before.time_ns);
        let rate = (u128::from(took_ns) << 32) / u128::from(steps);
        Self { before, after, rate: u64::try_from(rate).unwrap_or(u64::MAX) }
    }

    /// What is converted next lies between the last pair and this one.
    pub fn advance(&mut self, now: CounterPair) {
        // So near each other they would not tell the rate.
        const LEAST_NS: u64 = 500_000;
        if now.time_ns >= self.after.time_ns + LEAST_NS {
            *self = Self::between(self.after, now);
        }
    }

    /// CLOCK_MONOTONIC of a counter's reading.
    #[inline]
    pub fn time_ns(&self, counter: u64) -> u64 {
        let distance = i128::from(counter.wrapping_sub(self.before.counter).cast_signed());
        let time_ns = i128::from(self.before.time_ns) + ((distance * i128::from(self.rate)) >> 32);
        u64::try_from(time_ns).unwrap_or(0)
    }

    /// Steps of the counter in a time.
    pub fn steps(&self, time: Duration) -> u64 {
        let steps = u128::from(self.after.counter.wrapping_sub(self.before.counter));
        let took_ns = u128::from(self.after.time_ns.saturating_sub(self.before.time_ns)).max(1);
        u64::try_from(time.as_nanos() * steps / took_ns).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(counter: u64, time_ns: u64) -> CounterPair {
        CounterPair { counter, time_ns, apart: 0 }
    }

    #[test]
    fn the_counter_is_converted_on_a_line_between_two_readings_and_beyond() {
        let mut clock = CounterClock::between(pair(1000, 500_000), pair(3000, 1_500_000));
        assert_eq!(clock.time_ns(2000), 1_000_000);
        assert_eq!(clock.time_ns(3500), 1_750_000);
        assert_eq!(clock.time_ns(900), 450_000);
        assert_eq!(clock.steps(Duration::from_micros(1000)), 2000);
        clock.advance(pair(4000, 2_500_000));
        assert_eq!((clock.time_ns(3000), clock.time_ns(3500)), (1_500_000, 2_000_000));
        clock.advance(pair(4001, 2_500_001));
        assert_eq!(clock.time_ns(3500), 2_000_000, "nothing is told by pairs that are so near");
    }

    #[test]
    fn readings_that_no_clock_gives_are_converted_to_something() {
        let clock = CounterClock::between(pair(u64::MAX, u64::MAX), pair(0, 0));
        let _ = (clock.time_ns(0), clock.time_ns(u64::MAX), clock.steps(Duration::MAX));
    }

    #[test]
    fn the_clock_and_the_converted_counter_show_the_same_time() {
        if !counter_is_invariant() {
            return;
        }
        let mut clock = CounterClock::begin();
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(1));
            let now = CounterPair::read();
            let distance_ns = clock.time_ns(now.counter).abs_diff(now.time_ns);
            assert!(distance_ns < 20_000, "{distance_ns} ns apart");
            clock.advance(now);
        }
    }
}
