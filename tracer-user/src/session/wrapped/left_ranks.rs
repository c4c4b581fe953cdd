//! Whether a job's launcher has not taken notice of ranks that have ended.
//!
//! Launchers ask at once how a rank has ended. Open MPI's waits for itself now and then where a job aborts, and would for ever: in one of
//! 30 to 60 runs.

use std::time::{Duration, Instant};

use procfs::process::{ProcState, Process};

/// No launcher that is at work takes as long.
const PATIENCE: Duration = Duration::from_secs(10);

/// For how long there are such ranks.
#[derive(Debug, Default)]
pub(super) struct LeftRanks {
    since: Option<Instant>,
}

impl LeftRanks {
    /// What is said of it.
    pub(super) const WORDS: &str =
        "the job's launcher did not end with its ranks, and takes no notice of them: it was ended";

    /// Whether it has been so for long. `ranks`: process ids, 0 for those of other nodes.
    pub(super) fn are_left(&mut self, ranks: &[u32], now: Instant) -> bool {
        if !ranks.iter().any(|rank| is_left(*rank)) {
            self.since = None;
            return false;
        }
        now.duration_since(*self.since.get_or_insert(now)) >= PATIENCE
    }
}

/// Whether a process has ended, and its parent, which nobody has stopped, has not asked how.
fn is_left(pid: u32) -> bool {
    let state = |pid: i32| {
        let stat = Process::new(pid).and_then(|process| process.stat()).ok()?;
        Some((stat.state().ok()?, stat.ppid))
    };
    let Some((ProcState::Zombie, parent)) = i32::try_from(pid).ok().filter(|pid| *pid > 0).and_then(state)
    else {
        return false;
    };
    state(parent).is_some_and(|(state, _)| !matches!(state, ProcState::Stopped | ProcState::Tracing))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_that_has_ended_and_is_not_asked_for_is_left_after_a_while() {
        let script = "true & echo $!; exec sleep 100";
        let mut parent =
            Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().expect("sh is there");
        let mut line = String::new();
        let output = parent.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut line).expect("it is text");
        let child: u32 = line.trim().parse().expect("a process id");
        let deadline = Instant::now() + Duration::from_secs(20);
        while !is_left(child) {
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        let (mut left, now) = (LeftRanks::default(), Instant::now());
        assert!(!left.are_left(&[0, child], now));
        assert!(!left.are_left(&[0, child], now + PATIENCE / 2));
        assert!(left.are_left(&[0, child], now + PATIENCE));
        assert!(!left.are_left(&[0, std::process::id()], now + PATIENCE), "this one goes on");
        parent.kill().and_then(|()| parent.wait()).expect("it is ours");
        assert!(!left.are_left(&[child], now + PATIENCE), "nobody is left to ask");
    }
}
