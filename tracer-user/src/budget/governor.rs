//! When to watch and when to pause.

use std::collections::BTreeMap;

/// An allowance is whole when so much time's share is saved up: how long it takes to come back after a pause.
const PERIOD_NS: f64 = 1e9;
/// What was used too much is paid back by pausing longer, but no longer than so many periods: a burst of hits
/// that was noticed late must not blind the session for minutes. Where all processors are busy it takes a tenth of a second and
/// more until probes are gone: ten allowances of 1%.
const MOST_DEBT: f64 = 20.0;

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Go on as before.
    Stay,
    /// Detach the most expensive probes.
    Pause,
    /// Attach them again.
    Resume,
}

/// The allowances of all processes.
#[derive(Clone, Debug)]
pub struct Governor {
    share: f64,
    left_ns: BTreeMap<u32, f64>,
    paused: bool,
}

impl Governor {
    /// For a share of every process's time.
    pub fn new(share: f64) -> Self {
        Self { share, left_ns: BTreeMap::new(), paused: false }
    }

    /// A process begins with a whole allowance.
    fn whole_ns(&self) -> f64 {
        self.share * PERIOD_NS
    }

    /// Time has passed, and processes (by any number) have spent some of it on probes.
    pub fn step(&mut self, elapsed_ns: u64, spent_ns: impl IntoIterator<Item = (u32, f64)>) -> Action {
        let (whole, gain) = (self.whole_ns(), self.share * elapsed_ns as f64);
        for (process, spent) in spent_ns {
            let left = self.left_ns.entry(process).or_insert(whole);
            *left = (*left + gain - spent).clamp(-MOST_DEBT * whole, whole);
        }
        let least = self.least();
        match self.paused {
            false if least < 0.0 => {
                self.paused = true;
                Action::Pause
            }
            true if least >= whole => {
                self.paused = false;
                Action::Resume
            }
            _ => Action::Stay,
        }
    }

    /// Forgets a process that has ended.
    pub fn forget(&mut self, process: u32) {
        self.left_ns.remove(&process);
    }

    /// Whether watching is paused.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Whether nobody has spent anything to speak of for a while.
    pub fn is_at_rest(&self) -> bool {
        self.least() > 0.9 * self.whole_ns()
    }

    fn least(&self) -> f64 {
        self.left_ns.values().copied().fold(self.whole_ns(), f64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Runs a job in steps of a millisecond; gives back the share of its time that it spent on probes.
    fn spend(governor: &mut Governor, steps: u64, watched_cost_share: f64) -> f64 {
        let mut spent = 0.0;
        for _ in 0..steps {
            let cost = if governor.is_paused() { 0.0 } else { watched_cost_share * MS as f64 };
            spent += cost;
            governor.step(MS, [(0, cost)]);
        }
        spent / (steps * MS) as f64
    }

    #[test]
    fn what_costs_less_than_the_budget_is_never_paused() {
        let mut governor = Governor::new(0.01);
        for _ in 0..10_000 {
            assert_eq!(governor.step(MS, [(0, 0.009 * MS as f64)]), Action::Stay);
        }
    }

    #[test]
    fn a_storm_is_watched_in_bursts_that_cost_the_budget() {
        for share in [0.01, 0.03, 0.1] {
            let mut governor = Governor::new(share);
            spend(&mut governor, 2_000, 0.8);
            let spent = spend(&mut governor, 20_000, 0.8);
            assert!((0.7 * share..=1.05 * share).contains(&spent), "{spent} of {share}");
        }
    }

    #[test]
    fn a_storm_that_begins_after_a_quiet_time_costs_little_more_than_what_was_saved() {
        let mut governor = Governor::new(0.01);
        spend(&mut governor, 10_000, 0.001);
        let spent = spend(&mut governor, 10_000, 0.8);
        assert!(spent < 0.012, "{spent}");
        let rest = spend(&mut governor, 10_000, 0.001);
        assert!(rest <= 0.001 && !governor.is_paused() && governor.is_at_rest(), "{rest}");
    }

    #[test]
    fn what_was_spent_because_a_pause_began_late_is_paid_back() {
        let mut governor = Governor::new(0.01);
        let (mut spent, mut elapsed_ms) = (0.0, 0);
        while elapsed_ms < 60_000 {
            // It takes a tenth of a second until a pause is decided on, and hits cost all of it.
            let step_ms = if governor.is_paused() { 1 } else { 100 };
            let cost = if governor.is_paused() { 0.0 } else { (step_ms * MS) as f64 };
            (spent, elapsed_ms) = (spent + cost, elapsed_ms + step_ms);
            governor.step(step_ms * MS, [(0, cost)]);
        }
        let share = spent / (elapsed_ms * MS) as f64;
        assert!((0.009..0.0115).contains(&share), "{share}");
    }

    #[test]
    fn the_process_that_spends_most_decides_for_all() {
        let mut governor = Governor::new(0.01);
        let actions: Vec<Action> =
            (0..100).map(|_| governor.step(MS, [(0, 0.0), (7, 0.5 * MS as f64)])).collect();
        assert!(actions.contains(&Action::Pause));
        governor.forget(7);
        assert_eq!(governor.step(MS, [(0, 0.0)]), Action::Resume);
    }

    #[test]
    fn a_storm_that_was_noticed_late_blinds_for_seconds_not_for_minutes() {
        let mut governor = Governor::new(0.01);
        governor.step(10_000 * MS, [(0, 8e9)]);
        let blind = (0..).find(|_| governor.step(MS, [(0, 0.0)]) == Action::Resume);
        assert!(blind < Some(21_100), "{blind:?} ms");
    }
}
