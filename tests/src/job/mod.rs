//! An MPI job: what to run and how, while it runs, and what it left.

pub mod build;
mod finished;
mod implementation;
mod output;
pub mod packaged;
mod running;
mod spec;

pub use finished::FinishedJob;
pub use implementation::MpiImplementation;
pub use output::CountedSite;
pub use running::RunningJob;
pub use spec::{JobSpec, Transport};
