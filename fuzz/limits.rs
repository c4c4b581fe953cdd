//! Limits of an input: processor time here, memory by libFuzzer (`-rss_limit_mb`).

/// Processor time that one input may take, a sanitizer's share included.
const MOST_SECONDS: f64 = 1.0;

/// Runs it, and fails if it takes more than a second of processor time: the clock of a busy machine would tell nothing.
pub fn within_a_second<T>(run: impl FnOnce() -> T) -> T {
    let begin = processor_seconds();
    let result = run();
    let took = processor_seconds() - begin;
    assert!(took <= MOST_SECONDS, "{took:.2} s of processor time");
    result
}

fn processor_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it fills in what it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
