//! How long is waited for something on this machine.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// On a slow machine, an emulated one say, everything takes so many times as long.
static SLOWNESS: LazyLock<u32> = LazyLock::new(|| {
    let asked = std::env::var("DMSCOPE_TEST_SLOWNESS").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or(1).clamp(1, 1000)
});

/// A limit for what usually takes far less: longer on a machine that is said to be slow (DMSCOPE_TEST_SLOWNESS).
pub fn patience(limit: Duration) -> Duration {
    limit * *SLOWNESS
}

/// When such a limit ends that begins now.
pub fn deadline(limit: Duration) -> Instant {
    Instant::now() + patience(limit)
}
