//! Command lines of `dmscope`.

use std::ffi::OsString;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::{FinishedSession, RunningSession, binary};
use crate::job::JobSpec;

/// A command line of `dmscope`.
pub struct Dmscope {
    args: Vec<OsString>,
    /// What comes behind all options.
    operands: Vec<OsString>,
    job: Option<JobSpec>,
    says_json: bool,
    program: Option<PathBuf>,
}

impl Dmscope {
    /// `dmscope attach` to a process.
    pub fn attach(pid: u32) -> Self {
        Self::attach_to(&pid.to_string())
    }

    /// `dmscope attach`, without a budget: tests are about everything that happens. `DMSCOPE_TEST_PROBES=fast` has any test use
    /// fast probes.
    pub fn attach_to(job: &str) -> Self {
        let engine = std::env::var("DMSCOPE_TEST_PROBES").map(|engine| ["--probes".to_owned(), engine]);
        let session = Self::command("attach", [job]).json().args(["--budget", "none"]);
        session.args(engine.into_iter().flatten())
    }

    /// `dmscope run`, with the job's command; in a folder that is made for the job.
    pub fn run(job: &JobSpec) -> Self {
        let operands = std::iter::once("--".into()).chain(job.words());
        Self { job: Some(job.clone()), ..Self::command("run", operands).json().args(["--budget", "none"]) }
    }

    /// `dmscope analyze`, of a tape.
    pub fn analyze(tape: &Path) -> Self {
        Self::command("analyze", [tape]).json()
    }

    /// Any other command, which need not say JSON.
    pub fn command<S: Into<OsString>>(name: &str, operands: impl IntoIterator<Item = S>) -> Self {
        Self {
            args: vec![name.into()],
            operands: operands.into_iter().map(Into::into).collect(),
            job: None,
            says_json: false,
            program: None,
        }
    }

    /// What it says is JSON lines.
    pub fn json(mut self) -> Self {
        self.says_json = true;
        self.args(["--json"])
    }

    /// Adds options, before all operands.
    pub fn args<S: Into<OsString>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Records to a tape.
    pub fn record(self, tape: &Path) -> Self {
        self.args(["--record".as_ref(), tape.as_os_str()])
    }

    /// Another file with the program.
    pub fn program(mut self, program: &Path) -> Self {
        self.program = Some(program.to_owned());
        self
    }

    fn binary(&self) -> Result<PathBuf> {
        self.program.clone().map_or_else(binary, Ok)
    }

    /// Starts it in a folder of its own.
    pub fn spawn(&self) -> Result<RunningSession> {
        self.spawn_as(Command::new(self.binary()?))
    }

    /// Starts it through another command, whose last arguments it becomes.
    pub fn spawn_through<S: Into<OsString>>(
        &self,
        wrapper: impl IntoIterator<Item = S>,
    ) -> Result<RunningSession> {
        let mut words = wrapper.into_iter().map(Into::into);
        let mut command = Command::new(words.next().context("no command to start dmscope with")?);
        command.args(words).arg(self.binary()?);
        self.spawn_as(command)
    }

    /// Starts it and waits for its end.
    pub fn finish(&self) -> Result<FinishedSession> {
        self.spawn()?.finish()
    }

    fn spawn_as(&self, mut command: Command) -> Result<RunningSession> {
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
        RunningSession::start(command, directory, self.says_json, events_pipe)
    }
}
