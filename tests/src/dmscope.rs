//! The real `dmscope` binary: starting it, listening to what it says, and what is left when it has ended.

use std::ffi::OsString;
use std::io::PipeWriter;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::kernel::{HeldPrograms, held_programs};
use crate::lines::Lines;
use crate::processes::{self, is_alive};
use crate::running::{FinishedJob, ended_job, signal};
use crate::{Findings, JobSpec};

const POLL: Duration = Duration::from_millis(2);
/// How long anything may take on a busy machine before it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(60);

/// The binary under test: `$DMSCOPE`, or the release build of this workspace, built if that is needed.
pub fn binary() -> Result<PathBuf> {
    static BINARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    BINARY
        .get_or_init(|| build().map_err(|error| format!("{error:#}")))
        .clone()
        .map_err(|error| anyhow!(error))
}

fn build() -> Result<PathBuf> {
    if let Some(given) = std::env::var_os("DMSCOPE") {
        return Ok(given.into());
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    let mut command = Command::new(cargo);
    // With the features that the whole workspace needs: else it would be built once more.
    command.args(["build", "--quiet", "--release", "--workspace", "--bin", "dmscope", "--manifest-path"]);
    command.arg(manifest);
    let output = command.output().context("cannot start cargo")?;
    ensure!(output.status.success(), "dmscope cannot be built:\n{}", String::from_utf8_lossy(&output.stderr));
    // TARGET/release/deps/TEST, or TARGET/release/PROGRAM
    let own = std::env::current_exe().context("where is this program?")?;
    let folders = own.ancestors().skip(1).find(|folder| !folder.ends_with("deps"));
    Ok(folders.context("a program outside of a target folder")?.with_file_name("release").join("dmscope"))
}

/// A command line of `dmscope`.
pub struct Dmscope {
    args: Vec<OsString>,
    /// What comes behind all options.
    operands: Vec<OsString>,
    job: Option<JobSpec>,
    says_json: bool,
}

impl Dmscope {
    /// `dmscope attach`, without a budget: tests are about everything that happens.
    pub fn attach(pid: u32) -> Self {
        Self::command("attach", [pid.to_string()]).json().args(["--budget", "none"])
    }

    /// `dmscope run`, with the job's command; in a folder that is made for the job.
    pub fn run(job: &JobSpec) -> Self {
        let command = job.command();
        let words = std::iter::once(command.get_program()).chain(command.get_args()).map(OsString::from);
        let operands = std::iter::once("--".into()).chain(words);
        Self { job: Some(job.clone()), ..Self::command("run", operands).json().args(["--budget", "none"]) }
    }

    /// `dmscope analyze`
    pub fn analyze(tape: &Path) -> Self {
        Self::command("analyze", [tape]).json()
    }

    /// Any other command.
    pub fn command<S: Into<OsString>>(name: &str, operands: impl IntoIterator<Item = S>) -> Self {
        Self {
            args: vec![name.into()],
            operands: operands.into_iter().map(Into::into).collect(),
            job: None,
            says_json: false,
        }
    }

    fn json(mut self) -> Self {
        self.says_json = true;
        self.args(["--json"])
    }

    /// Adds options.
    pub fn args<S: Into<OsString>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Records to a tape.
    pub fn record(self, tape: &Path) -> Self {
        self.args(["--record".as_ref(), tape.as_os_str()])
    }

    /// Starts it.
    pub fn spawn(&self) -> Result<Watching> {
        self.spawn_as(Command::new(binary()?))
    }

    /// Starts it through another command, whose last arguments it becomes.
    pub fn spawn_through<S: Into<OsString>>(&self, wrapper: impl IntoIterator<Item = S>) -> Result<Watching> {
        let mut words = wrapper.into_iter().map(Into::into);
        let mut command = Command::new(words.next().context("no command to start dmscope with")?);
        command.args(words).arg(binary()?);
        self.spawn_as(command)
    }

    /// Starts it and waits for its end.
    pub fn finish(&self) -> Result<Session> {
        self.spawn()?.finish()
    }

    fn spawn_as(&self, mut command: Command) -> Result<Watching> {
        command.args(&self.args);
        let directory = TempDir::with_prefix("dmscope-").context("cannot make a folder for a session")?;
        let mut events_pipe = None;
        if let Some(job) = &self.job {
            job.put_files(directory.path())?;
            // Standard error is the job's as well: what dmscope says has a pipe of its own, by our name for its end.
            let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
            command.arg("--output").arg(format!("/proc/{}/fd/{}", std::process::id(), writer.as_raw_fd()));
            events_pipe = Some((reader, writer));
        }
        command.args(&self.operands);
        command.current_dir(&directory).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = Instant::now();
        let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        let (stdout, stderr) = (Arc::<Lines>::default(), Arc::<Lines>::default());
        let mut readers = vec![
            stdout.read(child.stdout.take().context("dmscope's standard output")?),
            stderr.read(child.stderr.take().context("dmscope's standard error")?),
        ];
        let (mut events, mut events_end) = (Arc::clone(&stdout), None);
        if let Some((reader, writer)) = events_pipe {
            events = Arc::default();
            readers.push(events.read(reader));
            events_end = Some(writer);
        }
        Ok(Watching {
            child,
            started,
            directory,
            is_run: self.job.is_some(),
            says_json: self.says_json,
            stdout,
            stderr,
            events,
            events_end,
            readers,
            programs: HeldPrograms::default(),
            patience: PATIENCE,
        })
    }
}

/// A `dmscope` that runs. Dropping it ends it.
pub struct Watching {
    child: Child,
    started: Instant,
    directory: TempDir,
    is_run: bool,
    says_json: bool,
    stdout: Arc<Lines>,
    stderr: Arc<Lines>,
    events: Arc<Lines>,
    events_end: Option<PipeWriter>,
    readers: Vec<JoinHandle<()>>,
    programs: HeldPrograms,
    patience: Duration,
}

impl Watching {
    /// How long to wait for what it says, if that is not the usual time.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Its process id.
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
        self.programs = held_programs(self.pid());
        ensure!(!self.programs.is_empty(), "dmscope holds no BPF program");
        Ok(attached)
    }

    /// Waits for a line of standard output that has a text in it.
    pub fn wait_for_line(&self, text: &str) -> Result<String> {
        let line = self.stdout.wait_for(self.patience, |line| line.contains(text));
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

    /// Asks it to detach and report, as ctrl-c does.
    pub fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    /// Sends a signal.
    pub fn signal(&self, what: Signal) {
        signal(self.pid(), what);
    }

    /// Waits for its end; whatever it was, nothing of it may be left.
    pub fn finish(mut self) -> Result<Session> {
        let deadline = Instant::now() + self.patience;
        let status = loop {
            if let Some(status) = self.child.try_wait().context("waiting for dmscope")? {
                break status;
            }
            if Instant::now() > deadline {
                return Err(self.complain("dmscope did not end"));
            }
            std::thread::sleep(POLL);
        };
        let elapsed = self.started.elapsed();
        drop(self.events_end.take());
        for reader in self.readers.drain(..) {
            reader.join().map_err(|_| anyhow!("a reader of dmscope's output failed"))?;
        }
        self.programs.check_gone()?;
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
        let job = self.is_run.then(|| ended_job(status, elapsed, stdout.clone(), stderr.clone(), directory));
        Ok(Session { status: status.code(), elapsed, stdout, stderr, events, report_line, job })
    }

    fn complain(&self, what: &str) -> anyhow::Error {
        let text = |lines: &Lines| lines.so_far().join("\n");
        anyhow!("{what}\nevents:\n{}\nstderr:\n{}", shorten(&text(&self.events)), text(&self.stderr))
    }
}

/// The beginning of each line, without the many that only say that it goes on: reports are long.
fn shorten(text: &str) -> String {
    text.lines()
        .filter(|line| !line.contains(r#""event":"status""#))
        .map(|line| line.chars().take(300).collect::<String>() + "\n")
        .collect()
}

impl Drop for Watching {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let family = processes::descendants(self.pid());
            self.signal(Signal::KILL);
            let _ = self.child.wait();
            for pid in family.into_iter().filter(|pid| is_alive(*pid)) {
                signal(pid, Signal::KILL);
            }
        }
    }
}

/// A `dmscope` that has ended.
pub struct Session {
    /// Exit status; nothing if a signal ended it.
    pub status: Option<i32>,
    /// From start to end.
    pub elapsed: Duration,
    /// Lines of standard output; under `dmscope run` those of the job.
    pub stdout: Vec<String>,
    /// Lines of standard error.
    pub stderr: Vec<String>,
    /// JSON lines.
    pub events: Vec<Value>,
    report_line: Option<String>,
    /// The job, under `dmscope run`.
    pub job: Option<FinishedJob>,
}

impl Session {
    /// The line with the report, as it was written.
    pub fn report_line(&self) -> Result<&str> {
        self.report_line.as_deref().ok_or_else(|| {
            anyhow!("no report; status {:?}, stderr:\n{}", self.status, self.stderr.join("\n"))
        })
    }

    /// The report.
    pub fn report(&self) -> Result<&Value> {
        self.report_line()?;
        let event = self.events.iter().rfind(|event| event["event"] == "report");
        Ok(&event.context("no report")?["report"])
    }

    /// What was found.
    pub fn findings(&self) -> Result<Findings> {
        Findings::of(self.report()?)
    }

    /// Everything that was said of one kind.
    pub fn events_of(&self, kind: &str) -> Vec<&Value> {
        self.events.iter().filter(|event| event["event"] == kind).collect()
    }

    /// The job that `dmscope run` started.
    pub fn job(&self) -> Result<&FinishedJob> {
        self.job.as_ref().context("dmscope started no job")
    }

    /// Fails unless it said what is wrong, once, without a report: exit status 2, and the words given.
    pub fn check_refusal(&self, words: &[&str]) -> Result<()> {
        let said = self.stderr.join("\n");
        ensure!(self.status == Some(2), "status {:?} instead of 2; it said:\n{said}", self.status);
        ensure!(self.report_line.is_none(), "a report in spite of the refusal");
        for word in words {
            if !said.contains(word) {
                bail!("not a word of {word:?} in:\n{said}");
            }
        }
        Ok(())
    }
}
