//! The pure half of dmscope.
//!
//! ```text
//! record → decode → state (processes, memory) → link (chains) → groups → invariants → findings
//! ```
//!
//! Nothing here reads a file, a clock, the environment or a thread's mind: the same inputs
//! give the same findings, live or from a tape.

pub mod input;
pub mod plan;
pub mod sequencer;
pub mod tape;
pub mod wire;
