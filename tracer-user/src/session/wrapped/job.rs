//! The job itself: started with the wrapper, ended if it must be.

use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use crate::host::jobs::descendants;
use crate::host::own_settings::OwnSettings;
use crate::host::processes::has_ended;
use crate::host::sudo::Account;
use crate::session::launch::launch;

/// How long a job may take to end by itself once it was told to.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a launcher may take to end by itself once a rank has ended.
const ABORT_PATIENCE: Duration = Duration::from_secs(2);

/// How a job is started.
#[derive(Clone, Copy)]
pub(super) struct JobStart<'a> {
    pub command: &'a [String],
    pub account: Option<&'a Account>,
    /// What is preloaded into it; the first is asked first.
    pub objects: &'a [PathBuf],
    /// What it finds in its environment: `NAME=VALUE`.
    pub environment: &'a [String],
    /// Its programs lie at the same addresses in each run.
    pub fixes_addresses: bool,
    /// Where its standard output goes, and behind `.err` its standard error, if not where ours go.
    pub output: Option<&'a Path>,
}

/// A job that runs.
pub(super) struct WrappedJob {
    child: Child,
    status: Option<ExitStatus>,
}

impl WrappedJob {
    /// Starts it.
    pub(super) fn start(start: &JobStart<'_>) -> Result<Self> {
        let JobStart { command, account, objects, environment, fixes_addresses, output } = *start;
        let before = OwnSettings::change()?;
        let before = if fixes_addresses { before.with_fixed_addresses() } else { before };
        let mut preload: Vec<String> = objects.iter().map(|path| path.display().to_string()).collect();
        preload.extend(std::env::var("LD_PRELOAD"));
        let env = ["env".to_owned(), format!("LD_PRELOAD={}", preload.join(":"))];
        let env = env.into_iter().chain(environment.iter().cloned());
        let into_file = output.into_iter().flat_map(|path| {
            let script = "exec \"$@\" </dev/null >\"$0\" 2>\"$0.err\"";
            ["sh".to_owned(), "-c".to_owned(), script.to_owned(), path.display().to_string()]
        });
        let with_wrapper: Vec<String> = into_file.chain(env).chain(command.iter().cloned()).collect();
        let waiting = launch(&with_wrapper, account, before).context("cannot make a process for the job")?;
        let child = waiting.go().with_context(|| format!("cannot run {}", command[0]))?;
        Ok(Self { child, status: None })
    }

    /// Its exit status, once it has ended.
    pub(super) fn status(&mut self) -> Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = self.child.try_wait().context("cannot wait for the job")?;
        }
        Ok(self.status)
    }

    /// Waits so long, or until it has ended: who waits for it does not wait longer than it takes.
    pub(super) fn pause(&self, most: Duration) {
        let process = Pid::from_raw(self.child.id().cast_signed());
        let end = process.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        let Some(end) = end.filter(|_| self.status.is_none()) else {
            return std::thread::sleep(most);
        };
        let limit = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
        // Interrupted by a signal: whoever calls looks what there is, and comes again.
        let _ = poll(&mut [PollFd::new(&end, PollFlags::IN)], Some(&limit));
    }

    /// Ends it: its launcher ends the ranks. `ranks`: for one that does not.
    pub(super) fn end(&mut self, ranks: &[u32]) -> Result<()> {
        self.let_abort(ranks)?;
        self.signal(Signal::TERM);
        let deadline = Instant::now() + PATIENCE;
        while self.status()?.is_none() {
            if Instant::now() > deadline {
                // They may be gone.
                started_among(ranks, &descendants(&[self.child.id()])).for_each(|pid| {
                    let _ = kill_process(pid, Signal::KILL);
                });
                self.signal(Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// A launcher that is about to end the job, because a rank has ended, may crash of a signal in the middle of that.
    fn let_abort(&mut self, ranks: &[u32]) -> Result<()> {
        let is_over = |pid: &u32| has_ended(*pid, None).unwrap_or(false);
        let deadline = Instant::now() + ABORT_PATIENCE;
        while self.status()?.is_none() && Instant::now() < deadline && ranks.iter().any(is_over) {
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            // Not waited for yet, so it is nobody else.
            let _ = kill_process(pid, signal);
        }
    }
}

/// Ranks say themselves which processes they are, and a hostile one says what it likes: only what the launcher has started is meant.
fn started_among(ranks: &[u32], started: &[u32]) -> impl Iterator<Item = Pid> {
    let ranks = ranks.iter().filter(|pid| started.contains(pid));
    ranks.filter_map(|pid| Pid::from_raw(i32::try_from(*pid).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_killed_but_ranks_that_the_launcher_has_started() {
        let said = [0, 1, 4711, 4712, u32::MAX, i32::MAX as u32 + 1];
        let killed: Vec<i32> =
            started_among(&said, &[4700, 4711, 4712]).map(|pid| pid.as_raw_nonzero().get()).collect();
        assert_eq!(killed, [4711, 4712]);
        assert_eq!(started_among(&[u32::MAX], &[u32::MAX]).count(), 0, "all processes");
    }
}
