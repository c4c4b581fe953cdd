//! What the kernel layer is told and answers.

use std::sync::Arc;

use analyzer::plan::Probe;

use crate::host::RankProcess;
use crate::host::files::OpenedFile;
use crate::plan::code::{Instructions, first_instruction, is_unchanged};

/// As many processes can be watched at once.
pub const MAX_SLOTS: u32 = 256;
/// Code ranges of a process whose allocations are its own; as many fit.
pub const MAX_OWN_RANGES: usize = 8;

/// A process, whatever becomes of its PID later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessKey {
    /// In the initial pid namespace.
    pub pid: u32,
    /// When it started, in clock ticks since the machine did.
    pub start_ticks: u64,
}

impl ProcessKey {
    /// The process that was found to be a rank.
    pub fn of_rank(rank: &RankProcess) -> Self {
        Self { pid: rank.pid, start_ticks: rank.start_ticks }
    }
}

/// How a file's probes are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One link for whoever runs the file: strangers pay a trap, the job pays least.
    EveryProcess,
    /// A link for each process that the tracer was told to reach, and no breakpoint in any other.
    EachReached,
}

/// A file that probes of a plan are in.
#[derive(Clone, Debug)]
pub struct Target {
    /// The very file that the plan was made from.
    pub file: Arc<OpenedFile>,
    /// Its instructions at the places of probes, as the plan saw them.
    pub code: Instructions,
    /// For whom its probes are.
    pub scope: Scope,
}

impl Target {
    /// A file of our own, of which no plan was made: its instructions as they are now at these offsets.
    pub fn as_it_is(file: OpenedFile, offsets: impl IntoIterator<Item = u64>, scope: Scope) -> Self {
        let instruction = |at| Some((at, first_instruction(&file.code_at(at))?.to_vec()));
        let code = offsets.into_iter().filter_map(instruction).collect();
        Self { file: Arc::new(file), code, scope }
    }

    /// Whether the plan's instruction is still at the place of a probe.
    pub(super) fn still_has(&self, probe: &Probe) -> bool {
        let seen = self.code.get(&probe.offset_bytes).map(Vec::as_slice);
        is_unchanged(seen, &self.file.code_at(probe.offset_bytes))
    }
}

/// What happened to the probes of a plan.
#[derive(Debug, Default)]
pub struct Attached {
    /// How many are attached.
    pub probes: usize,
    /// Which could not be placed, and what the kernel said.
    pub failed: Vec<(Probe, String)>,
}
