//! A job that runs, and what is left of it when it has ended.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::processes::{descendants, environment_variable, is_alive, parent};
use crate::{JobSpec, Site, report};

/// How long the launcher may take to end its ranks before they are killed.
const GRACE: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(2);

/// Lines of one output, filled by a thread that reads it.
#[derive(Default)]
struct Lines {
    lines: Mutex<(Vec<String>, bool)>, // the lines, and whether the end was reached
    changed: Condvar,
}

impl Lines {
    fn read(self: &Arc<Self>, output: impl Read + Send + 'static) -> JoinHandle<()> {
        let lines = Arc::clone(self);
        std::thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                lines.lines.lock().expect("lines").0.push(String::from_utf8_lossy(&line).into_owned());
                lines.changed.notify_all();
            }
            lines.lines.lock().expect("lines").1 = true;
            lines.changed.notify_all();
        })
    }

    fn so_far(&self) -> Vec<String> {
        self.lines.lock().expect("lines").0.clone()
    }

    /// The first line that `wanted` accepts; nothing if there is none until the deadline or the output's end.
    fn wait_for(&self, timeout: Duration, wanted: impl Fn(&str) -> bool) -> Option<String> {
        let guard = self.lines.lock().expect("lines");
        let goes_on =
            |(lines, ended): &mut (Vec<String>, bool)| !*ended && !lines.iter().any(|line| wanted(line));
        let (guard, _) = self.changed.wait_timeout_while(guard, timeout, goes_on).expect("lines");
        guard.0.iter().find(|line| wanted(line)).cloned()
    }
}

/// A job that was started. Dropping it ends its launcher and its ranks.
pub struct RunningJob {
    spec: JobSpec,
    child: Child,
    started: Instant,
    directory: TempDir,
    stdout: Arc<Lines>,
    stderr: Arc<Lines>,
    readers: Vec<JoinHandle<()>>,
}

impl RunningJob {
    pub(crate) fn start(spec: &JobSpec) -> Result<Self> {
        let directory = TempDir::with_prefix("job-").context("cannot make a folder for a job")?;
        for (name, contents) in &spec.files {
            fs::write(directory.path().join(name), contents)
                .with_context(|| format!("cannot write {name}"))?;
        }
        let mut command = spec.command();
        if spec.is_held {
            command.arg("--wait-for").arg(go_file(directory.path()));
        }
        command.current_dir(&directory).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        let (stdout, stderr) = (Arc::<Lines>::default(), Arc::<Lines>::default());
        let readers = vec![
            stdout.read(child.stdout.take().context("the job's standard output")?),
            stderr.read(child.stderr.take().context("the job's standard error")?),
        ];
        Ok(Self { spec: spec.clone(), child, started: Instant::now(), directory, stdout, stderr, readers })
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
        let deadline = Instant::now() + timeout;
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

    /// True if the launcher has ended.
    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait().context("waiting for a job")?.is_some())
    }

    /// Waits for the job's end. Fails if it takes longer; the job is ended then.
    pub fn finish(mut self, timeout: Duration) -> Result<FinishedJob> {
        let deadline = Instant::now() + timeout;
        while !self.has_ended()? {
            if Instant::now() > deadline {
                return Err(self.complain(&format!("the job did not end within {timeout:?}")));
            }
            std::thread::sleep(POLL);
        }
        let elapsed = self.started.elapsed();
        let status = self.child.wait().context("waiting for a job")?;
        for reader in self.readers.drain(..) {
            reader.join().map_err(|_| anyhow!("a reader of the job's output failed"))?;
        }
        let directory =
            std::mem::replace(&mut self.directory, TempDir::new().context("a folder to swap in")?);
        Ok(FinishedJob {
            status,
            elapsed,
            directory,
            stdout: self.stdout.so_far(),
            stderr: self.stderr.so_far(),
        })
    }

    fn complain(&self, what: &str) -> anyhow::Error {
        let (out, err) = (self.stdout.so_far().join("\n"), self.stderr.so_far().join("\n"));
        anyhow!("{}: {what}\nstdout:\n{out}\nstderr:\n{err}", self.spec.program.display())
    }
}

fn go_file(directory: &Path) -> PathBuf {
    directory.join("go")
}

fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // A process that is gone already is what was wanted.
        let _ = kill_process(pid, signal);
    }
}

impl Drop for RunningJob {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        let family = descendants(self.launcher_pid());
        signal(self.launcher_pid(), Signal::TERM);
        let deadline = Instant::now() + GRACE;
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

/// A job that has ended.
pub struct FinishedJob {
    /// Exit status of the launcher.
    pub status: ExitStatus,
    /// From the launcher's start to its end.
    pub elapsed: Duration,
    /// Lines of the standard output of all ranks.
    pub stdout: Vec<String>,
    /// Lines of the standard error of all ranks and the launcher.
    pub stderr: Vec<String>,
    directory: TempDir,
}

impl FinishedJob {
    /// Reads a file that the job left in its folder.
    pub fn file(&self, name: &str) -> Result<String> {
        fs::read_to_string(self.directory.path().join(name))
            .with_context(|| format!("the job left no {name}"))
    }

    /// Fails unless the launcher ended with 0.
    pub fn check_status(&self) -> Result<()> {
        if !self.status.success() {
            bail!("the job ended with {}\nstderr:\n{}", self.status, self.stderr.join("\n"));
        }
        Ok(())
    }

    /// Fails unless an own job ended with 0 and found its data right.
    pub fn check_verdict(&self) -> Result<()> {
        self.check_status()?;
        report::check_verdict(&self.stdout)
    }

    /// The call sites that an own job counted.
    pub fn sites(&self) -> Result<Vec<Site>> {
        report::sites(&self.stdout)
    }

    /// An own job's JSON lines of one type (`result`, `crash`, ...).
    pub fn lines_of_type(&self, wanted: &str) -> Result<Vec<Value>> {
        report::lines_of_type(&self.stdout, wanted)
    }

    /// Sum of a number over the `result` lines of all ranks.
    pub fn total(&self, field: &str) -> Result<u64> {
        let results = self.lines_of_type("result")?;
        let numbers = results.iter().map(|line| line[field].as_u64());
        numbers
            .map(|number| number.with_context(|| format!("a result line without the number {field}")))
            .sum()
    }
}
