//! What is in place while a measured job runs.

use std::time::Duration;

use anyhow::Result;
use live::RunningJob;

/// How long anything may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Something that is in place while a job runs; it is told when the job has ended.
pub trait Onlooker {
    /// Whether it can come while ranks are stopped by a signal.
    fn comes_while_ranks_are_stopped(&self) -> bool {
        true
    }

    /// Puts itself in place; the job's ranks exist and do not move, unless they are stopped while it cannot come.
    ///
    /// # Errors
    /// It cannot.
    fn begin(&mut self, job: &RunningJob) -> Result<()>;

    /// The job has ended.
    ///
    /// # Errors
    /// It failed in the meantime.
    fn end(&mut self) -> Result<()>;
}

/// An onlooker that does nothing: the job runs alone.
pub struct Nobody;

impl Onlooker for Nobody {
    fn begin(&mut self, _job: &RunningJob) -> Result<()> {
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        Ok(())
    }
}
