//! Jobs that run with the preloaded wrapper: recorded for replay, replayed, or decided by logical time. Nothing here needs root or the kernel's help.
//!
//! The wrapper and dmscope share a folder with a file for each rank (see `replay::shared_page`).

mod alone;
mod call_names;
mod content_rings;
mod deterministic;
mod exploring;
mod frontier;
mod job;
mod left_ranks;
mod nodes;
mod open_wildcards;
mod pages;
mod places_of_calls;
mod probed_copies;
mod probed_job;
mod probed_journal;
mod probed_messages;
mod probed_posts;
mod probed_rank;
mod probed_threads;
mod recorded_job;
mod recording;
mod replaying;
mod shared_folder;
mod stuck;
mod swap;
mod tape_of_ranks;
mod wrapper_file;

pub use alone::{AloneEnd, AloneJob, AloneSettings, run_alone};
pub use call_names::call_name;
pub use content_rings::RankContents;
pub use deterministic::{DeterministicEnd, DeterministicSettings, deterministic};
pub use exploring::{ExploreSettings, Explored, ExploredRun, RunVerdict, explore};
pub use nodes::share_ranks;
pub use probed_job::{FindPlace, ProbedJob, ProbedTape, RecordWishes};
pub use recorded_job::RecordedJob;
pub use recording::{RecordSettings, record};
pub use replaying::{ReplayEnd, ReplaySettings, Replayed, replay};
pub use swap::{ExchangePoint, Swap};
pub use tape_of_ranks::JobRecorded;
pub use wrapper_file::WrapperKind;
