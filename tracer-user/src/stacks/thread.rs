//! Threads as the kernel shows them.

use std::time::Duration;

use super::registers::Registers;

/// A thread of a watched process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug)]
pub struct RunningSample {
    /// Of the program.
    pub registers: Registers,
    /// Its stack from the stack pointer on.
    pub stack: Vec<u8>,
}

/// Waits until a thread (by its id) has run a little, and says where it was; `None`: it did not run in time.
pub type SampleRunning = fn(tid: u32, patience: Duration) -> Option<RunningSample>;
