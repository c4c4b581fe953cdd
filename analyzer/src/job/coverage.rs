//! How much of the job was watched.

use crate::tape::input;

/// What is watched now, and was so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct WatchedTime {
    /// Since when not; `None`: movements are watched.
    paused_since_ns: Option<u64>,
    /// All finished pauses together.
    paused_ns: u64,
    /// How many there were.
    pub pauses: u64,
    /// Probes that are out, by id.
    pub off: Vec<u32>,
    /// Not everything was watched all the time.
    pub sampled: bool,
}

/// What a change means for chains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Watching goes on as it was.
    None,
    /// What is under way ends here, as at the end of a session.
    Pause,
    /// Watching begins, as it does at an attach.
    Resume,
}

impl WatchedTime {
    /// Takes what was said.
    pub fn update(&mut self, now: &input::Coverage) -> Change {
        self.off.clone_from(&now.off);
        self.sampled |= now.paused || !now.off.is_empty();
        match (self.paused_since_ns, now.paused) {
            (None, true) => {
                self.paused_since_ns = Some(now.time_ns);
                self.pauses += 1;
                Change::Pause
            }
            (Some(since_ns), false) => {
                self.paused_since_ns = None;
                self.paused_ns = self.paused_ns.saturating_add(now.time_ns.saturating_sub(since_ns));
                Change::Resume
            }
            _ => Change::None,
        }
    }

    /// Whether what is recorded of movements is only a part.
    pub fn is_paused(&self) -> bool {
        self.paused_since_ns.is_some()
    }

    /// Time without watching, up to now.
    pub fn paused_ns(&self, now_ns: u64) -> u64 {
        let this = self.paused_since_ns.map_or(0, |since_ns| now_ns.saturating_sub(since_ns));
        self.paused_ns.saturating_add(this)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(time_ns: u64, paused: bool, off: &[u32]) -> input::Coverage {
        input::Coverage { time_ns, paused, off: off.into() }
    }

    #[test]
    fn time_without_watching_adds_up_and_runs_while_it_lasts() {
        let mut coverage = WatchedTime::default();
        assert_eq!(coverage.update(&said(10, true, &[])), Change::Pause);
        assert_eq!(coverage.update(&said(20, true, &[1])), Change::None);
        assert_eq!(coverage.update(&said(30, false, &[1])), Change::Resume);
        assert_eq!(coverage.update(&said(100, true, &[])), Change::Pause);
        assert_eq!((coverage.paused_ns(105), coverage.pauses), (25, 2));
    }

    #[test]
    fn a_probe_that_was_out_once_leaves_the_session_sampled() {
        let mut coverage = WatchedTime::default();
        assert_eq!(coverage.update(&said(10, false, &[7])), Change::None);
        coverage.update(&said(20, false, &[]));
        assert!(coverage.sampled && coverage.off.is_empty());
    }
}
