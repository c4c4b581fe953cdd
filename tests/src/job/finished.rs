//! What is left of a job that has ended.

use std::fs;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tempfile::TempDir;

use super::output::{self, CountedSite};

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
    /// What a job left that this process started, or `dmscope run` did.
    pub(crate) fn new(
        status: ExitStatus,
        elapsed: Duration,
        stdout: Vec<String>,
        stderr: Vec<String>,
        directory: TempDir,
    ) -> Self {
        Self { status, elapsed, stdout, stderr, directory }
    }

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
        output::check_verdict(&self.stdout)
    }

    /// How long an own job moved data, by its own clock.
    pub fn moving_seconds(&self) -> Result<f64> {
        self.check_verdict()?;
        output::seconds(&self.stdout).context("the job does not say how long it took")
    }

    /// The call sites that an own job counted.
    pub fn sites(&self) -> Result<Vec<CountedSite>> {
        output::sites(&self.stdout)
    }

    /// An own job's JSON lines of one type (`result`, `crash`, ...).
    pub fn lines_of_type(&self, wanted: &str) -> Result<Vec<Value>> {
        output::lines_of_type(&self.stdout, wanted)
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
