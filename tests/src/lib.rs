//! Helpers of the live tests: how to start real MPI jobs, watch them, and check what they say of themselves.
//!
//! ```no_run
//! use std::time::Duration;
//! use live::{JobSpec, MpiImplementation};
//!
//! # fn main() -> anyhow::Result<()> {
//! let mut job = JobSpec::own(MpiImplementation::OpenMpi, "figure2")?.ranks(4).args(["--iterations", "1000"]).held().spawn()?;
//! job.wait_until_ready(Duration::from_secs(30))?;
//! let pids = job.rank_pids()?; // in rank order; attach here
//! job.go()?;
//! let finished = job.finish(Duration::from_secs(60))?;
//! finished.check_verdict()?;
//! let staged: u64 = finished.sites()?.iter().filter(|site| site.label == "stage").map(|site| site.calls).sum();
//! # Ok(())
//! # }
//! ```

pub mod catalogue;
pub mod counted;
pub mod exported;
pub mod fault_case;
pub mod generated;
mod job;
pub mod latency;
pub mod made_up;
pub mod replayed;
pub mod right_jobs;
mod session;
mod system;
pub mod timed;
pub mod watched_cases;

pub use job::{CountedSite, FinishedJob, JobSpec, MpiImplementation, RunningJob, Transport, build, packaged};
pub use session::{Cluster, Dmscope, Findings, FinishedSession, RunningSession, TcpBytes, binary, findings};
pub use system::{
    Browser, BusServer, CarriedMessages, Nodes, RawClient, SOME_UID, SOME_USER, Slurm, SmallDisk, deadline,
    debugger, number_from_environment, patience, processes, users,
};
