//! Threads as the kernel shows them, and what their stacks are read with.

use std::fs::File;
use std::io;
use std::time::Duration;

use analyzer::input::Mapping;
use analyzer::pipeline::LastCall;
use serde::{Deserialize, Serialize};

use super::registers::Registers;

/// A thread of a watched process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadView {
    /// Its process.
    pub pid: u32,
    /// Itself.
    pub tid: u32,
    /// As the kernel has it: 0 can run, else why it does not.
    pub state: u32,
    /// Processor time, nanoseconds.
    pub ran_ns: u64,
    /// Where the kernel has put an address of its own instead of a return address, and that one.
    pub hooked: Option<(u64, u64)>,
    /// Where its last MPI call stored a handle that is in no record yet, and whether handles are half a word.
    pub made: Option<(u64, bool)>,
    /// Of the program, at its last entry into the kernel.
    pub registers: Registers,
}

/// A thread caught while it ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunningSample {
    /// Of the program.
    pub registers: Registers,
    /// Its stack from the stack pointer on.
    #[serde(skip)]
    pub stack: Vec<u8>,
}

/// Waits until a thread (by its id) has run a little, and says where it was; `None`: it did not run in time.
pub type SampleRunning = fn(tid: u32, patience: Duration) -> Option<RunningSample>;

/// A process whose threads are read, as far as it is known without looking into its memory.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SampledProcess {
    /// What it maps, in order of address.
    pub mappings: Vec<Mapping>,
    /// Path of its program.
    pub program: String,
    /// In MPI_COMM_WORLD, and that one's size.
    pub rank: Option<(u32, u32)>,
    /// Its threads.
    pub threads: Vec<ThreadView>,
    /// The last MPI calls of its threads, as they were recorded when they began.
    pub last_calls: Vec<LastCall>,
}

/// What whoever reads stacks may ask for.
pub trait Surroundings {
    /// Where a thread of the process is that can run; `Ok(None)`: it did not run in time.
    ///
    /// # Errors
    /// Nobody answers.
    fn sample(&mut self, tid: u32) -> io::Result<Option<RunningSample>>;

    /// The file of a mapping, by where that begins; `Ok(None)`: it cannot be opened.
    ///
    /// # Errors
    /// Nobody answers.
    fn file(&mut self, start: u64) -> io::Result<Option<File>>;
}
