//! A job that runs.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use rustix::process::Signal;
use tempfile::TempDir;

use super::{FinishedJob, JobSpec};
use crate::system::processes::{descendants, environment_variable, is_alive, parent, signal};
use crate::system::{Lines, deadline};

/// How long the launcher may take to end its ranks before they are killed.
const GRACE: Duration = Duration::from_secs(3);
/// Ranks may outlive the launcher a little.
const OUTPUT_ENDS: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(2);

/// A job that was started. Dropping it ends its launcher and its ranks.
pub struct RunningJob {
    spec: JobSpec,
    child: Child,
    started: Instant,
    directory: TempDir,
    stdout: Arc<Lines>,
    stderr: Arc<Lines>,
}

impl JobSpec {
    /// Starts the job in a folder of its own.
    pub fn spawn(&self) -> Result<RunningJob> {
        RunningJob::start(self)
    }
}

impl RunningJob {
    fn start(spec: &JobSpec) -> Result<Self> {
        let directory = TempDir::with_prefix("job-").context("cannot make a folder for a job")?;
        spec.put_files(directory.path())?;
        let mut command = spec.command(directory.path());
        if spec.is_held {
            command.arg("--wait-for").arg(go_file(directory.path()));
        }
        if spec.is_endless {
            command.arg("--until").arg(stop_file(directory.path()));
        }
        command.current_dir(&directory).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        let (stdout, stderr) = (Arc::<Lines>::default(), Arc::<Lines>::default());
        stdout.read(child.stdout.take().context("the job's standard output")?);
        stderr.read(child.stderr.take().context("the job's standard error")?);
        Ok(Self { spec: spec.clone(), child, started: Instant::now(), directory, stdout, stderr })
    }

    /// Process id of mpirun.
    pub fn launcher_pid(&self) -> u32 {
        self.child.id()
    }

    /// The folder the job runs in.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Process ids of the ranks in rank order. Fails if they are not all there.
    pub fn rank_pids(&self) -> Result<Vec<u32>> {
        let variable = self.spec.library.rank_variable();
        let family = descendants(self.launcher_pid());
        let rank_of = |pid: u32| environment_variable(pid, variable)?.parse::<usize>().ok();
        let mut pids = vec![None; self.spec.ranks];
        for pid in family {
            // What a rank starts has the rank's environment too.
            let is_child_of_rank = parent(pid).is_some_and(|parent| rank_of(parent).is_some());
            match rank_of(pid) {
                Some(rank) if rank < pids.len() && !is_child_of_rank => pids[rank] = Some(pid),
                _ => {}
            }
        }
        pids.into_iter()
            .enumerate()
            .map(|(rank, pid)| pid.ok_or_else(|| anyhow!("rank {rank} has no process")))
            .collect()
    }

    /// Waits until all ranks exist, for jobs that say nothing; returns their process ids.
    pub fn wait_for_ranks(&mut self, timeout: Duration) -> Result<Vec<u32>> {
        let deadline = deadline(timeout);
        loop {
            match self.rank_pids() {
                Ok(pids) => return Ok(pids),
                Err(error) if Instant::now() > deadline => return Err(self.complain(&format!("{error:#}"))),
                Err(_) if self.has_ended()? => {
                    return Err(self.complain("the job ended before its ranks were seen"));
                }
                Err(_) => std::thread::sleep(POLL),
            }
        }
    }

    /// Waits for the line `ready` of an own job.
    pub fn wait_until_ready(&self, timeout: Duration) -> Result<()> {
        self.wait_for_line(timeout, |line| line == "ready").map(|_| ())
    }

    /// Waits for a line of the job's standard output.
    pub fn wait_for_line(&self, timeout: Duration, wanted: impl Fn(&str) -> bool) -> Result<String> {
        self.stdout.wait_for(timeout, wanted).ok_or_else(|| self.complain("the awaited line did not come"))
    }

    /// Lets a held job move.
    pub fn go(&self) -> Result<()> {
        File::create(go_file(self.directory.path())).context("cannot let the job go").map(|_| ())
    }

    /// Lets an endless job come to its end.
    pub fn stop(&self) -> Result<()> {
        File::create(stop_file(self.directory.path())).context("cannot stop the job").map(|_| ())
    }

    /// True if the launcher has ended.
    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait().context("waiting for a job")?.is_some())
    }

    /// Waits for the job's end. Fails if it takes longer; the job is ended then.
    pub fn finish(mut self, timeout: Duration) -> Result<FinishedJob> {
        let deadline = deadline(timeout);
        while !self.has_ended()? {
            if Instant::now() > deadline {
                return Err(self.complain(&format!("the job did not end within {timeout:?}")));
            }
            std::thread::sleep(POLL);
        }
        let elapsed = self.started.elapsed();
        let status = self.child.wait().context("waiting for a job")?;
        if ![&self.stdout, &self.stderr].iter().all(|output| output.wait_for_end(OUTPUT_ENDS)) {
            return Err(self.complain("the launcher has ended, and its output is still held open"));
        }
        let directory =
            std::mem::replace(&mut self.directory, TempDir::new().context("a folder to swap in")?);
        Ok(FinishedJob::new(status, elapsed, self.stdout.so_far(), self.stderr.so_far(), directory))
    }

    fn complain(&self, what: &str) -> anyhow::Error {
        let (out, err) = (self.stdout.so_far().join("\n"), self.stderr.so_far().join("\n"));
        anyhow!("{}: {what}\nstdout:\n{out}\nstderr:\n{err}", self.spec.program.display())
    }
}

fn go_file(directory: &Path) -> PathBuf {
    directory.join("go")
}

fn stop_file(directory: &Path) -> PathBuf {
    directory.join("stop")
}

impl Drop for RunningJob {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        let family = descendants(self.launcher_pid());
        signal(self.launcher_pid(), Signal::TERM);
        let deadline = deadline(GRACE);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(POLL);
        }
        for pid in family.into_iter().filter(|pid| is_alive(*pid)) {
            signal(pid, Signal::KILL);
        }
        if matches!(self.child.try_wait(), Ok(None)) {
            signal(self.launcher_pid(), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}
