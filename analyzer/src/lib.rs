//! The pure half of dmscope.
//!
//! ```text
//! record → decode → state (processes, memory) → link (chains) → groups → invariants → findings
//! ```
//!
//! Nothing here reads a file, a clock, the environment or a thread's mind: the same inputs
//! give the same findings, live or from a tape.

mod alerts;
mod buckets;
pub mod calls;
mod calls_begun;
mod chains;
mod coverage;
mod distribution;
mod extents;
mod failures;
pub mod finding;
mod frequent;
mod groups;
pub mod input;
mod left_over;
mod live;
mod memory;
mod message_data;
pub mod mpi;
pub mod names;
pub mod neighbours;
pub mod options;
pub mod page;
pub mod pipeline;
mod places;
pub mod plan;
mod prefetch;
mod probes;
pub mod process;
mod rank_counts;
pub mod reference;
pub mod render;
mod report;
mod resolve;
mod scores;
pub mod sequencer;
mod standstill;
mod state;
pub mod statistics;
pub mod symbols;
pub mod tape;
pub mod timeline;
pub mod wire;
pub mod words;
