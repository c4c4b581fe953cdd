//! A `dmscope` that runs: what it says, and that nothing of it is left.

use std::io::{PipeReader, PipeWriter};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use super::FinishedSession;
use crate::job::{FinishedJob, RunningJob};
use crate::system::processes::{descendants, is_alive, parent, signal};
use crate::system::{HeldObjects, Lines, deadline, held_objects};

const POLL: Duration = Duration::from_millis(2);
/// How long anything may take on a busy machine before it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(60);

/// A `dmscope` that runs. Dropping it ends it.
pub struct RunningSession {
    child: Child,
    started: Instant,
    directory: TempDir,
    is_run: bool,
    says_json: bool,
    stdout: Arc<Lines>,
    stderr: Arc<Lines>,
    events: Arc<Lines>,
    events_end: Option<PipeWriter>,
    in_kernel: HeldObjects,
    holder: Option<u32>,
    patience: Duration,
}

impl RunningSession {
    /// Starts a command in a folder of its own. With a pipe for events, standard output and error are those of a job that
    /// dmscope starts.
    pub(super) fn start(
        mut command: Command,
        directory: TempDir,
        says_json: bool,
        events_pipe: Option<(PipeReader, PipeWriter)>,
    ) -> Result<Self> {
        command.current_dir(&directory).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = Instant::now();
        let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        let (stdout, stderr) = (Arc::<Lines>::default(), Arc::<Lines>::default());
        stdout.read(child.stdout.take().context("dmscope's standard output")?);
        stderr.read(child.stderr.take().context("dmscope's standard error")?);
        let is_run = events_pipe.is_some();
        let (mut events, mut events_end) = (Arc::clone(&stdout), None);
        if let Some((reader, writer)) = events_pipe {
            events = Arc::default();
            events.read(reader);
            events_end = Some(writer);
        }
        Ok(Self {
            child,
            started,
            directory,
            is_run,
            says_json,
            stdout,
            stderr,
            events,
            events_end,
            in_kernel: HeldObjects::default(),
            holder: None,
            patience: PATIENCE,
        })
    }

    /// How long to wait for what it says, if that is not the usual time.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Process id of `dmscope` itself.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The folder it runs in; that of the job under `dmscope run`.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Waits until the probes are in place.
    pub fn wait_until_attached(&mut self) -> Result<Value> {
        let attached = self.wait_for_event("attached")?;
        self.look_into_the_kernel();
        ensure!(!self.in_kernel.is_empty(), "dmscope holds no BPF program or no map");
        Ok(attached)
    }

    /// Waits for a line of standard output that has a text in it.
    pub fn wait_for_line(&self, text: &str) -> Result<String> {
        let line = self.stdout.wait_for(self.patience, |line| line.contains(text));
        line.ok_or_else(|| self.complain(&format!("no line with {text:?}")))
    }

    /// Waits for a line of standard error that has a text in it.
    pub fn wait_for_complaint(&self, text: &str) -> Result<String> {
        let line = self.stderr.wait_for(self.patience, |line| line.contains(text));
        line.ok_or_else(|| self.complain(&format!("no line with {text:?}")))
    }

    /// Whether it has said its last: all but waiting for its end is over.
    pub fn has_reported(&self) -> bool {
        self.events.so_far().iter().any(|line| line.starts_with(r#"{"event":"report""#))
    }

    /// Waits for the first event of a kind.
    pub fn wait_for_event(&self, kind: &str) -> Result<Value> {
        self.wait_for(|event| event["event"] == kind)
    }

    /// Waits for an alert whose finding is `wanted`.
    pub fn wait_for_alert(&self, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        let event = self.wait_for(|event| event["event"] == "alert" && wanted(&event["alert"]["raised"]))?;
        Ok(event["alert"]["raised"].clone())
    }

    /// Waits for an event that is `wanted`.
    pub fn wait_for(&self, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        let parse = |line: &str| serde_json::from_str::<Value>(line).ok();
        let line =
            self.events.wait_for(self.patience, |line| parse(line).is_some_and(|event| wanted(&event)));
        line.as_deref().and_then(parse).ok_or_else(|| self.complain("the awaited event did not come"))
    }

    /// How many events it has said so far.
    pub fn said(&self) -> usize {
        self.events.so_far().len()
    }

    /// Waits for an event that is `wanted`, behind the first so many.
    pub fn wait_for_since(&self, said: usize, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        let deadline = deadline(self.patience);
        loop {
            let lines = self.events.so_far();
            let mut events =
                lines.iter().skip(said).filter_map(|line| serde_json::from_str::<Value>(line).ok());
            if let Some(event) = events.find(|event| wanted(event)) {
                return Ok(event);
            }
            if Instant::now() > deadline {
                return Err(self.complain("the awaited event did not come"));
            }
            std::thread::sleep(POLL);
        }
    }

    /// Asks it to detach and report, as ctrl-c does.
    pub fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    /// Sends a signal to `dmscope` itself.
    pub fn signal(&self, what: Signal) {
        signal(self.pid(), what);
    }

    /// Ends it with a signal, at whatever it is: what it has in the kernel now has to be gone later.
    pub fn end_by(&mut self, what: Signal) {
        self.look_into_the_kernel();
        self.signal(what);
    }

    /// The process that holds its probes.
    ///
    /// # Errors
    /// None is known: it is not attached yet.
    pub fn holder(&self) -> Result<u32> {
        self.holder.context("no process holds probes")
    }

    fn look_into_the_kernel(&mut self) {
        self.holder = holder_of(self.pid()).or(self.holder);
        self.in_kernel = held_objects(self.pid());
        self.in_kernel.extend(self.holder.map(held_objects).unwrap_or_default());
    }

    /// Lets a held job go that it is attached to, and waits for the right end of that, and for its own.
    pub fn see_through(self, job: RunningJob, timeout: Duration) -> Result<(FinishedSession, FinishedJob)> {
        job.go()?;
        let job = job.finish(timeout)?;
        job.check_verdict()?;
        Ok((self.finish()?, job))
    }

    /// Waits for its end; whatever it was, nothing of it may be left.
    pub fn finish(mut self) -> Result<FinishedSession> {
        let deadline = deadline(self.patience);
        let status = loop {
            if let Some(status) = self.child.try_wait().context("waiting for dmscope")? {
                break status;
            }
            if Instant::now() > deadline {
                return Err(self.complain("dmscope did not end"));
            }
            std::thread::sleep(POLL);
        };
        // It takes the probes out when dmscope is gone, however that was.
        while self.holder.is_some_and(|pid| holds_links(pid) && is_alive(pid)) {
            if Instant::now() > deadline {
                return Err(self.complain("the process that holds probes did not end"));
            }
            std::thread::sleep(POLL);
        }
        let elapsed = self.started.elapsed();
        drop(self.events_end.take());
        if ![&self.stdout, &self.stderr, &self.events].iter().all(|output| output.wait_for_end(self.patience))
        {
            return Err(self.complain("dmscope has ended, and its output is still held open"));
        }
        self.in_kernel.check_gone()?;
        let stderr = self.stderr.so_far();
        if stderr.iter().any(|line| line.contains("panicked")) {
            return Err(self.complain("dmscope panicked"));
        }
        let mut events = Vec::new();
        let mut report_line = None;
        for line in self.events.so_far().iter().filter(|_| self.says_json) {
            let event: Value =
                serde_json::from_str(line).with_context(|| format!("not a JSON line of dmscope: {line}"))?;
            if event["event"] == "report" {
                report_line = Some(line.clone());
            }
            events.push(event);
        }
        let stdout = self.stdout.so_far();
        let directory =
            std::mem::replace(&mut self.directory, TempDir::new().context("a folder to swap in")?);
        // The job's own status is not known through dmscope; its output is.
        let job =
            self.is_run.then(|| FinishedJob::new(status, elapsed, stdout.clone(), stderr.clone(), directory));
        Ok(FinishedSession { status: status.code(), elapsed, stdout, stderr, events, report_line, job })
    }

    fn complain(&self, what: &str) -> anyhow::Error {
        let text = |lines: &Lines| lines.so_far().join("\n");
        anyhow!("{what}\nevents:\n{}\nstderr:\n{}", shorten(&text(&self.events)), text(&self.stderr))
    }
}

/// The child of a `dmscope` that holds its probes.
fn holder_of(dmscope: u32) -> Option<u32> {
    descendants(dmscope).into_iter().find(|pid| parent(*pid) == Some(dmscope) && holds_links(*pid))
}

/// A PID may be another process's by now.
fn holds_links(pid: u32) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.ends_with(b"\0hold-links\0"))
}

/// The beginning of each line, without the many that only say that it goes on: reports are long.
fn shorten(text: &str) -> String {
    text.lines()
        .filter(|line| !line.contains(r#""event":"status""#))
        .map(|line| line.chars().take(300).collect::<String>() + "\n")
        .collect()
}

impl Drop for RunningSession {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let family = descendants(self.pid());
            self.signal(Signal::KILL);
            let _ = self.child.wait();
            for pid in family.into_iter().filter(|pid| is_alive(*pid)) {
                signal(pid, Signal::KILL);
            }
        }
    }
}
