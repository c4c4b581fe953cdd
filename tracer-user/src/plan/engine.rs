//! The two ways to record copies and MPI calls.

use serde::{Deserialize, Serialize};

/// Who records what can be recorded without the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
pub enum Engine {
    /// Traps of the kernel, as for everything else: nothing is written into the job
    #[default]
    Kernel,
    /// Code that is put into the job's processes, where it allows that, and taken out again
    Fast,
}
