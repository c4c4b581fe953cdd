//! What is left of a `dmscope` that has ended.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::Value;

use super::Findings;
use crate::job::FinishedJob;

/// A `dmscope` that has ended.
pub struct FinishedSession {
    /// Exit status; nothing if a signal ended it.
    pub status: Option<i32>,
    /// From start to end.
    pub elapsed: Duration,
    /// Lines of standard output; under `dmscope run` those of the job.
    pub stdout: Vec<String>,
    /// Lines of standard error.
    pub stderr: Vec<String>,
    /// JSON lines, in the order in which they were said.
    pub events: Vec<Value>,
    pub(super) report_line: Option<String>,
    /// The job, under `dmscope run`.
    pub job: Option<FinishedJob>,
}

impl FinishedSession {
    /// The line with the report, as it was written.
    pub fn report_line(&self) -> Result<&str> {
        self.report_line.as_deref().ok_or_else(|| {
            anyhow!("no report; status {:?}, stderr:\n{}", self.status, self.stderr.join("\n"))
        })
    }

    /// The report that it ended with.
    pub fn report(&self) -> Result<&Value> {
        self.report_line()?;
        let event = self.events.iter().rfind(|event| event["event"] == "report");
        Ok(&event.context("no report")?["report"])
    }

    /// What the report found.
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
