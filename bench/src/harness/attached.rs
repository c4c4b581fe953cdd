//! `dmscope attach` as somebody who looks on.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use live::{Dmscope, RunningJob, RunningSession};
use tempfile::TempDir;

use super::Onlooker;

/// What one session left.
#[derive(Clone, Copy, Debug, Default)]
pub struct SessionRecords {
    /// Records that were analysed.
    pub records: u64,
    /// Records that found no room.
    pub lost: u64,
    /// Size of the tape.
    pub tape_bytes: u64,
    /// Part of the session in which movements were watched.
    pub watched: f64,
}

/// Attaches with everything on, recording too, before the job moves.
pub struct AttachedDmscope {
    options: Vec<String>,
    directory: TempDir,
    running: Option<RunningSession>,
    /// What the last session left.
    pub seen: SessionRecords,
}

impl AttachedDmscope {
    /// An onlooker that adds options to those of `dmscope attach`.
    ///
    /// # Errors
    /// There is no room for the tape.
    pub fn new(options: &[&str]) -> Result<Self> {
        let options = options.iter().map(|&option| option.to_owned()).collect();
        Ok(Self {
            options,
            directory: TempDir::with_prefix("bench-")?,
            running: None,
            seen: SessionRecords::default(),
        })
    }

    fn is_fast(&self) -> bool {
        self.options.iter().any(|option| option == "fast")
    }

    fn tape(&self) -> PathBuf {
        self.directory.path().join("tape.dmt")
    }
}

impl Onlooker for AttachedDmscope {
    /// Fast probes are not put into processes that are stopped.
    fn comes_while_ranks_are_stopped(&self) -> bool {
        !self.is_fast()
    }

    fn begin(&mut self, job: &RunningJob) -> Result<()> {
        let attach =
            Dmscope::attach(job.launcher_pid()).args(self.options.iter().cloned()).record(&self.tape());
        let mut watching = attach.spawn()?;
        let attached = watching.wait_until_attached()?;
        // Where they are not possible, kernel probes are used: that would be another measurement.
        ensure!(!self.is_fast() || attached["fast"].as_u64() > Some(0), "no fast probes: {attached}");
        self.running = Some(watching);
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        let session = self.running.take().context("dmscope was not started")?.finish()?;
        let statistics = &session.report()?["statistics"];
        let count =
            |name: &str| statistics[name].as_u64().with_context(|| format!("no {name} in the report"));
        self.seen = SessionRecords {
            records: count("records")?,
            lost: count("lost_movements")? + count("lost_calls")? + count("lost_state")?,
            tape_bytes: std::fs::metadata(self.tape())?.len(),
            watched: count("watched_ns")? as f64 / count("duration_ns")?.max(1) as f64,
        };
        Ok(())
    }
}
