//! The user-space half of dmscope: what the machine is like, what to probe, the kernel side,
//! the collector, the session that joins them, and the command line.
//!
//! Rooms in the order in which they may use each other (a later one uses earlier ones, never the other way):
//! `elf`, `plan`, `host`, `budget`, `mpi_runtime`, `stacks`, `kernel`, `session`, `sink`, `page`, `cluster`, `cli`.

pub mod budget;
pub mod cli;
pub mod cluster;
pub mod elf;
pub mod host;
pub mod kernel;
pub mod mpi_runtime;
pub mod page;
pub mod plan;
pub mod session;
pub mod sink;
pub mod stacks;
