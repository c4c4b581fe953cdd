//! Whether a job that runs with the wrapper can still go on.
//!
//! A rank that waits may wait for one that computes, or that is stopped in a debugger. But if all wait in calls, and none of
//! them has gone on for a while, none will.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use replay::shared_page::{PageState, SharedPage};

/// A rank at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RankView {
    pub state: PageState,
    pub calls: u64,
    /// The process is there, nobody has stopped it, and where its threads make calls at the same time, none computes beside them.
    pub is_running: bool,
}

impl RankView {
    pub(super) fn of(page: &SharedPage) -> Self {
        Self { state: page.state(), calls: page.calls.load(Ordering::Relaxed), is_running: may_wait(page) }
    }
}

/// Whether a rank that is in a call waits, for all that is known of its process. Of one that is not seen here, it is not known.
pub(super) fn may_wait(page: &SharedPage) -> bool {
    let pid = page.pid.load(Ordering::Relaxed);
    let is_running = state_of(format!("/proc/{pid}/stat").as_ref())
        .is_some_and(|state| !matches!(state, 't' | 'T' | 'Z' | 'X'));
    is_running && (page.threads.load(Ordering::Relaxed) == 0 || !computes_beside_calls(pid, page))
}

/// Whether a thread that is in no call computes: it may do what the others wait for.
fn computes_beside_calls(pid: u32, page: &SharedPage) -> bool {
    let in_call: Vec<u32> = page.thread_ids.iter().map(|id| id.load(Ordering::Relaxed)).collect();
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    threads.flatten().any(|thread| {
        let id = thread.file_name().to_str().and_then(|name| name.parse().ok());
        id.is_some_and(|id| !in_call.contains(&id)) && goes_on(&thread.path())
    })
}

/// Whether a thread outside of calls may go on by itself. It does not where it waits for another one, or for what others send; of one
/// whose wait is not known, that is assumed, since libraries have such threads.
fn goes_on(thread: &Path) -> bool {
    match state_of(&thread.join("stat")) {
        Some('R' | 'D') => true,
        Some('S') => {
            let waits_in = fs::read_to_string(thread.join("wchan")).unwrap_or_default();
            waits_in.contains("nanosleep")
        }
        _ => false,
    }
}

fn state_of(stat: &Path) -> Option<char> {
    let stat = fs::read_to_string(stat).ok()?;
    stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next())
}

/// How the job has gone on.
#[derive(Debug)]
pub(super) struct Progress {
    last: Vec<RankView>,
    since: Instant,
}

impl Progress {
    pub(super) fn new(now: Instant) -> Self {
        Self { last: Vec::new(), since: now }
    }

    /// Whether all ranks of the job, which has so many, have waited for so long.
    pub(super) fn is_stuck(
        &mut self,
        ranks: Vec<RankView>,
        size: usize,
        now: Instant,
        patience: Duration,
    ) -> bool {
        let waits = |rank: &RankView| rank.is_running && rank.state != PageState::Outside;
        let is_over = ranks.iter().all(|rank| rank.state == PageState::Finalized);
        let may_go_on = ranks.len() < size || is_over || !ranks.iter().all(waits);
        if may_go_on || ranks != self.last {
            self.last = ranks;
            self.since = now;
            return false;
        }
        now.duration_since(self.since) >= patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(5);

    fn rank(state: PageState, calls: u64) -> RankView {
        RankView { state, calls, is_running: true }
    }

    /// Whether it is stuck at the end of these seconds, looked at each second.
    fn is_stuck_after(seconds: u64, ranks: impl Fn(u64) -> Vec<RankView>) -> bool {
        let begin = Instant::now();
        let mut progress = Progress::new(begin);
        let mut look =
            |second| progress.is_stuck(ranks(second), 2, begin + Duration::from_secs(second), PATIENCE);
        (0..seconds).for_each(|second| _ = look(second));
        look(seconds)
    }

    #[test]
    fn all_that_wait_for_long_are_stuck() {
        let waiting = |_| vec![rank(PageState::InCall, 3), rank(PageState::InCall, 4)];
        assert!(!is_stuck_after(4, waiting));
        assert!(is_stuck_after(5, waiting));
        assert!(is_stuck_after(5, |_| vec![rank(PageState::InCall, 3), rank(PageState::Finalized, 4)]));
    }

    #[test]
    fn a_rank_that_computes_or_is_stopped_may_help_the_others() {
        let stopped = RankView { is_running: false, ..rank(PageState::InCall, 4) };
        assert!(!is_stuck_after(60, |_| vec![rank(PageState::InCall, 3), rank(PageState::Outside, 4)]));
        assert!(!is_stuck_after(60, |_| vec![rank(PageState::InCall, 3), stopped.clone()]));
        assert!(!is_stuck_after(60, |_| vec![rank(PageState::InCall, 3)]));
    }

    #[test]
    fn a_rank_that_makes_calls_goes_on_and_a_job_that_has_ended_is_not_stuck() {
        assert!(!is_stuck_after(60, |second| vec![
            rank(PageState::InCall, 3),
            rank(PageState::InCall, second)
        ]));
        assert!(!is_stuck_after(60, |_| vec![rank(PageState::Finalized, 3), rank(PageState::Finalized, 3)]));
    }
}
