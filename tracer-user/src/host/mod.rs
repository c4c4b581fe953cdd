//! What this machine says about its processes: a thin layer that reads `/proc`, and pure
//! functions over what it read.

mod as_mapped;
pub mod capabilities;
pub mod clock;
pub mod cpus;
pub mod deadline;
mod debug_files;
mod error;
mod extended_objects;
pub mod files;
pub mod gather;
pub mod job_name;
pub mod jobs;
pub mod launched;
pub mod mappings;
pub mod memory;
pub mod memory_child;
pub mod output_file;
pub mod output_folder;
pub mod own_settings;
pub mod parsing;
pub mod placement;
pub mod processes;
pub(crate) mod queue_pairs;
pub(crate) mod rdma;
pub mod sandbox;
pub mod source_lines;
pub mod sudo;
pub mod support;
pub mod symbols;
pub mod unique_word;
mod unseen_work;
mod verbs;
pub mod verbs_devices;

pub use error::JobError;
pub use gather::gather;
pub use jobs::{NodeJob, find_jobs, job_of};
pub use processes::{MpiLibrary, RankProcess, process_facts};
