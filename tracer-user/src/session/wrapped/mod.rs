//! Jobs that run with the preloaded wrapper: recorded for replay, or replayed. Nothing here needs root or the kernel's help.
//!
//! The wrapper and dmscope share a folder with a file for each rank (see `replay::shared_page`).

mod call_names;
mod job;
mod pages;
mod recorded_job;
mod recording;
mod replaying;
mod stuck;
mod wrapper_file;

pub use recorded_job::RecordedJob;
pub use recording::{JobRecorded, record};
pub use replaying::{ReplayEnd, ReplaySettings, replay};
pub use wrapper_file::WrapperKind;
