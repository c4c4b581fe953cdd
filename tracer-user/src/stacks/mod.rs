//! What threads are doing: registers → frames → the MPI call that they are in, and its arguments.
//!
//! Nothing is stopped and nothing is written. The registers of a thread that sleeps are those of its
//! entry into the kernel; one that runs is sampled by the clock, with its stack. A child without rights reads: code,
//! tables and memory are the job's, which may be hostile.

mod child;
mod client;
mod image;
mod memory;
mod messages;
mod reader;
mod registers;
mod thread;
mod unwind;

pub use child::serve;
pub use client::StackChild;
pub use image::Image;
pub use reader::StackReader;
pub use registers::Registers;
pub use thread::{RunningSample, SampleRunning, SampledProcess, Surroundings, ThreadView};
pub use unwind::{Caller, UnwindError};
