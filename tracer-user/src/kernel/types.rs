//! What the kernel layer is told and answers.

use std::path::PathBuf;

use analyzer::plan::Probe;

/// As many processes can be watched at once.
pub const MAX_SLOTS: u32 = 256;
/// Code ranges of a process whose allocations are its own; as many fit.
pub const MAX_OWN_RANGES: usize = 8;
/// How a file's probes are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One link for whoever runs the file: strangers pay a trap, the job pays least.
    EveryProcess,
    /// A link for one process.
    Process(u32),
}

impl Scope {
    /// A process that has ended needs no probes, and the kernel would refuse them.
    pub(super) fn is_there(self) -> bool {
        match self {
            Self::EveryProcess => true,
            Self::Process(pid) => std::path::Path::new(&format!("/proc/{pid}")).exists(),
        }
    }
}

/// A file that probes of a plan are in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Where it can be opened now.
    pub path: PathBuf,
    /// For whom its probes are.
    pub scopes: Vec<Scope>,
}

/// What happened to the probes of a plan.
#[derive(Debug, Default)]
pub struct Attached {
    /// How many are attached.
    pub probes: usize,
    /// Which could not be placed, and what the kernel said.
    pub failed: Vec<(Probe, String)>,
}
