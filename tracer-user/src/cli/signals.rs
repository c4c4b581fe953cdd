//! What a signal means for a session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// A signal that follows so soon is the same request: `timeout` signals its child and then the group of both, a terminal
/// that is closed sends several.
const SAME_REQUEST: Duration = Duration::from_secs(1);
/// Of a session that was ended at once.
const STATUS_AT_ONCE: i32 = 2;

/// The first signal ends the session in good order; one that comes a second later, or after that, ends it at once.
pub(super) fn stop_on_signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot listen to signals")?;
    let thread = std::thread::Builder::new().name("dms-signals".into());
    let listen = move || {
        let mut first = None;
        for _ in signals.forever() {
            let now = Instant::now();
            if ends_at_once(*first.get_or_insert(now), now) {
                signal_hook::low_level::exit(STATUS_AT_ONCE);
            }
            told.store(true, Ordering::Relaxed);
        }
    };
    thread.spawn(listen).context("cannot listen to signals")?;
    Ok(stop)
}

fn ends_at_once(first: Instant, now: Instant) -> bool {
    now.duration_since(first) >= SAME_REQUEST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_signal_that_comes_a_second_later_ends_a_session_at_once() {
        let first = Instant::now();
        assert!(!ends_at_once(first, first));
        assert!(!ends_at_once(first, first + Duration::from_millis(900)));
        assert!(ends_at_once(first, first + Duration::from_millis(1100)));
    }
}
