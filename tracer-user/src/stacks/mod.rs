//! What threads are doing: registers → frames → the MPI call that they are in, and its arguments.
//!
//! Nothing is stopped and nothing is written. The registers of a thread that sleeps are those of its
//! entry into the kernel; one that runs is sampled by the clock, with its stack.

mod image;
mod memory;
mod reader;
mod registers;
mod thread;
mod unwind;

pub use reader::StackReader;
pub use registers::Registers;
pub use thread::{RunningSample, SampleRunning, ThreadView};
