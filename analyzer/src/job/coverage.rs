//! How much of the job was watched.

use crate::tape::input;

/// What is watched now, and was so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct WatchedTime {
    movements: Pauses,
    calls: Pauses,
    /// Probes that are out, by id.
    pub off: Vec<u32>,
    /// Not everything was watched all the time.
    pub sampled: bool,
}

/// When something was not watched.
#[derive(Clone, Debug, Default)]
struct Pauses {
    /// Since when not; `None`: it is watched.
    since_ns: Option<u64>,
    /// All finished ones together.
    finished_ns: u64,
    count: u64,
}

impl Pauses {
    fn update(&mut self, is_paused: bool, now_ns: u64) -> Change {
        match (self.since_ns, is_paused) {
            (None, true) => {
                self.since_ns = Some(now_ns);
                self.count += 1;
                Change::Pause
            }
            (Some(since_ns), false) => {
                self.since_ns = None;
                self.finished_ns = self.finished_ns.saturating_add(now_ns.saturating_sub(since_ns));
                Change::Resume
            }
            _ => Change::None,
        }
    }

    fn all_ns(&self, now_ns: u64) -> u64 {
        let this = self.since_ns.map_or(0, |since_ns| now_ns.saturating_sub(since_ns));
        self.finished_ns.saturating_add(this)
    }
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
        self.movements.update(now.paused, now.time_ns)
    }

    /// The same for MPI calls: whether some may be missed from now on.
    pub fn update_calls(&mut self, hides_calls: bool, now_ns: u64) -> Change {
        self.calls.update(hides_calls, now_ns)
    }

    /// Whether all MPI calls were watched so far.
    pub fn has_all_calls(&self) -> bool {
        self.calls.count == 0
    }

    /// How often movements were not watched.
    pub fn pauses(&self) -> u64 {
        self.movements.count
    }

    /// Whether what is recorded of movements is only a part.
    pub fn is_paused(&self) -> bool {
        self.movements.since_ns.is_some()
    }

    /// Time without watching movements, up to now.
    pub fn paused_ns(&self, now_ns: u64) -> u64 {
        self.movements.all_ns(now_ns)
    }

    /// Time without watching MPI calls, up to now.
    pub fn calls_paused_ns(&self, now_ns: u64) -> u64 {
        self.calls.all_ns(now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(time_ns: u64, paused: bool, off: &[u32]) -> input::Coverage {
        input::Coverage { time_ns, paused, off: off.into(), ..input::Coverage::default() }
    }

    #[test]
    fn time_without_watching_adds_up_and_runs_while_it_lasts() {
        let mut coverage = WatchedTime::default();
        assert_eq!(coverage.update(&said(10, true, &[])), Change::Pause);
        assert_eq!(coverage.update(&said(20, true, &[1])), Change::None);
        assert_eq!(coverage.update(&said(30, false, &[1])), Change::Resume);
        assert_eq!(coverage.update(&said(100, true, &[])), Change::Pause);
        assert_eq!((coverage.paused_ns(105), coverage.pauses()), (25, 2));
    }

    #[test]
    fn a_probe_that_was_out_once_leaves_the_session_sampled() {
        let mut coverage = WatchedTime::default();
        assert_eq!(coverage.update(&said(10, false, &[7])), Change::None);
        coverage.update(&said(20, false, &[]));
        assert!(coverage.sampled && coverage.off.is_empty());
    }
}
