//! The user-space half of dmscope: what the machine is like, what to probe, the kernel side,
//! the collector, the session that joins them, and the command line.

pub mod budget;
pub mod cli;
pub mod collector;
pub mod elf;
pub mod host;
pub mod kernel;
pub mod mpi_runtime;
pub mod page;
pub mod plan;
pub mod session;
pub mod sink;
pub mod stacks;
