//! What this machine says about its processes: a thin layer that reads `/proc`, and pure
//! functions over what it read.

pub mod clock;
pub mod cpus;
pub mod files;
pub mod gather;
pub mod jobs;
pub mod launched;
pub mod mappings;
pub mod memory;
pub mod placement;
pub mod processes;
pub mod symbols;

pub use gather::gather;
pub use jobs::{Job, JobError, find_jobs, job_of};
pub use mappings::process_facts;
pub use processes::{MpiLibrary, RankProcess};
