//! Helpers of the live tests: how to start real MPI jobs, watch them, and check what they say of themselves.
//!
//! ```no_run
//! use std::time::Duration;
//! use live::{JobSpec, MpiLibrary};
//!
//! # fn main() -> anyhow::Result<()> {
//! let mut job = JobSpec::own(MpiLibrary::OpenMpi, "figure2")?.ranks(4).args(["--iterations", "1000"]).held().spawn()?;
//! job.wait_until_ready(Duration::from_secs(30))?;
//! let pids = job.rank_pids()?; // in rank order; attach here
//! job.go()?;
//! let finished = job.finish(Duration::from_secs(60))?;
//! finished.check_verdict()?;
//! let staged: u64 = finished.sites()?.iter().filter(|site| site.label == "stage").map(|site| site.calls).sum();
//! # Ok(())
//! # }
//! ```

mod browser;
pub mod build;
pub mod catalogue;
pub mod debugger;
mod dmscope;
pub mod findings;
pub mod generated;
mod kernel;
pub mod latency;
mod lines;
pub mod made_up;
pub mod packaged;
pub mod processes;
mod report;
mod running;
mod small_disk;
mod spec;

pub use browser::Browser;
pub use dmscope::{Dmscope, Session, Watching, binary};
pub use findings::Findings;
pub use report::Site;
pub use running::{FinishedJob, RunningJob};
pub use small_disk::SmallDisk;
pub use spec::{JobSpec, MpiLibrary, Transport};
