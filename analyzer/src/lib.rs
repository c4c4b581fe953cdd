//! The pure half of dmscope.
//!
//! ```text
//! inputs (live or of a tape) → Job → events → analyses → findings
//! ```
//!
//! Nothing here reads a file, a clock, the environment or a thread's mind: the same inputs
//! give the same findings, live or from a tape.
//!
//! Rooms in the order in which they may use each other: later ones use earlier ones.

pub mod tape;

pub mod mpi;

mod job;

pub mod options;

mod chains;

mod findings;

mod invariants;

mod hang;

mod errors;

pub mod timeline;

mod present;

pub mod pipeline;

pub use findings::statistics;
pub use invariants::knn_outliers;
pub use job::{messages, names, process, symbols};
pub use mpi::calls;
pub use options::reference;
pub use present::{clocks, page, render, text, visible};
pub use tape::verbs::{RELIABLE_CONNECTED, RdmaAddress, queue_state};
pub use tape::{plan, sequencer, wire};

/// Findings, and reports of all of them.
pub mod finding {
    pub use crate::findings::finding::*;
    pub use crate::findings::report::*;
}

/// What a session takes in.
pub mod input {
    pub use crate::tape::costs::*;
    pub use crate::tape::input::*;
    pub use crate::tape::plan::MpiKind;
}
