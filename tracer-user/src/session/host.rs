//! What a session needs of the machine beside the kernel part: the clock, `/proc`, and where its own threads run.
//! [`super::live::LiveHost`] is the real one.

use analyzer::RdmaAddress;
use analyzer::input::{ClockReading, Mapping, ProcessFacts};
use analyzer::wire::QueueChange;

use crate::host::{JobError, NodeJob};
use crate::kernel::ProcessKey;

/// The machine that a session runs on. Its threads share it.
pub(super) trait Host: Send + Sync {
    /// CLOCK_MONOTONIC: the clock of the records.
    fn now_ns(&self) -> u64;

    /// What its clocks show beside each other.
    fn clocks(&self) -> ClockReading;

    /// Processor time that this process has used so far.
    fn own_cpu_ns(&self) -> u64;

    /// What `/proc` says of a process now. `time_ns`: CLOCK_MONOTONIC before.
    ///
    /// # Errors
    /// It is gone, or cannot be looked at.
    fn process_facts(&self, pid: u32, time_ns: u64) -> Result<ProcessFacts, JobError>;

    /// When a process started: with its PID, who it is.
    ///
    /// # Errors
    /// It is gone, or cannot be looked at.
    fn start_ticks(&self, pid: u32) -> Result<u64, JobError>;

    /// What a process maps now; `None`: it is gone, or cannot be looked at.
    fn mappings(&self, pid: u32) -> Option<Vec<Mapping>>;

    /// Addresses of its RDMA devices.
    fn rdma_addresses(&self) -> Vec<RdmaAddress>;

    /// Who is at the other end of a queue pair that a process uses; `None`: it cannot be asked, or is not connected.
    fn found_connected(&self, pid: u32, in_use: &QueueChange) -> Option<QueueChange>;

    /// Whether a process that has a rank's environment has an MPI library too.
    fn runs_mpi(&self, pid: u32) -> bool;

    /// Whether the process that started then has ended, be it that its parent has not noticed yet.
    ///
    /// # Errors
    /// It cannot be looked at, which says nothing of its end.
    fn has_ended(&self, pid: u32, started: Option<u64>) -> Result<bool, JobError>;

    /// The launcher of a job and what it started that is no rank: from these, more ranks may come.
    fn starters(&self, job: &NodeJob) -> Vec<u32>;

    /// What these processes have started, and what that has.
    fn descendants(&self, pids: &[u32]) -> Vec<u32>;

    /// Ranks that were started since the job was looked at.
    fn late_ranks(&self, job: &NodeJob) -> Vec<ProcessKey>;

    /// Keeps the calling thread on these CPUs; without any, it stays where it may be.
    fn stay_on(&self, cpus: &[u32]);

    /// Lets the calling thread run soon after it wakes up.
    fn run_early(&self);

    /// Lets the calling thread run only after the job's.
    fn yield_to_the_job(&self);

    /// Takes that back.
    fn catch_up(&self);
}
