//! What dmscope costs: each kind of measurement is a function that returns a [`report::Section`].
//!
//! All measuring is paired and in turn (A B A B …), so that a machine whose speed drifts does not
//! decide a ratio. Figures are kept with all their runs.

pub mod alongside;
pub mod attach;
pub mod case;
pub mod contention;
pub mod counters;
pub mod detection;
pub mod empty;
pub mod floor;
pub mod generate;
pub mod jobs;
pub mod kernel_time;
pub mod kinds;
pub mod latency;
pub mod looks;
pub mod machine;
pub mod ours;
pub mod peers;
pub mod phases;
pub mod pipeline;
pub mod places;
pub mod report;
pub mod samples;
pub mod scale;
pub mod tape;
pub mod watched;
pub mod workload;
