//! What the commands print: text for people, JSON for programs.

pub mod probes;
pub mod ps;
mod table;
