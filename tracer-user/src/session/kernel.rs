//! What a session needs of the kernel. It decides nothing; [`super::live::LiveKernel`] is the real one, and tests have
//! one that follows a script.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use analyzer::input::{ProbeCosts, ThreadFacts};
use analyzer::pipeline::LastCall;
use analyzer::plan::Plan;
use analyzer::wire::{FileId, RawRecord};

use crate::kernel::{Attached, HolderGone, KernelError, ProcessKey, SlotCounters, StrangerHits, Target};
use crate::kernel::{DrainBatch, ReaderFailed, SlotsInUse};
use crate::plan::FileSlots;

/// Nothing comes any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TracingFailed {
    /// Out of the rings.
    #[error(transparent)]
    Reader(#[from] ReaderFailed),
    /// Into them.
    #[error(transparent)]
    Holder(#[from] HolderGone),
}

impl TracingFailed {
    /// Why the session ended, as its tape says it.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Reader(_) => "the thread that reads the rings failed",
            Self::Holder(_) => "the process that holds the probes ended",
        }
    }
}

/// The kernel side of a session.
pub(super) trait Kernel {
    /// Attaches the probes of a plan. `targets`: the files that they are in.
    fn attach(&mut self, plan: &Plan, targets: &BTreeMap<FileId, Target>) -> Attached;

    /// Has the job's processes record by themselves what goes through these slots, as far as they allow it. The probes that are
    /// named are not needed then: they count as attached by [`Kernel::attach`].
    fn use_slots(&mut self, files: Vec<FileSlots>, pids: &[u32]) -> SlotsInUse;

    /// The same for processes that are watched already, whose probes are attached: from one moment on each records by itself, so
    /// that no hit is lost or recorded twice. Nothing may be paused.
    fn move_to_slots(&mut self, files: Vec<FileSlots>, pids: &[u32]) -> SlotsInUse;

    /// Files that were loaded later: MPI calls that leave them are recorded so as well, once [`Kernel::use_slots_late`] was asked for
    /// the processes that map them.
    fn add_slots(&mut self, files: Vec<FileSlots>);

    /// The same for a process that came later or has loaded more, where slots are in use; whether there was anything to do.
    ///
    /// # Errors
    /// Why some of what it copies is not seen.
    fn use_slots_late(&mut self, pid: u32) -> Result<bool, String>;

    /// Detaches probes, and those that are in a bundle with them; gives back which.
    fn detach(&mut self, probes: &BTreeSet<u32>) -> BTreeSet<u32>;

    /// The same for good, of files that nobody maps any more. What the job's processes record by themselves goes on.
    fn drop_probes(&mut self, probes: &BTreeSet<u32>) -> BTreeSet<u32>;

    /// Attaches probes again that were detached; those that were too expensive before, `hot`, apart from the rest.
    fn reattach(&mut self, probes: &BTreeSet<u32>, hot: &BTreeSet<u32>) -> Attached;

    /// Has probes of files whose scope is each reached process seen in one more, also those that are attached later.
    fn reach(&mut self, pid: u32);

    /// Takes out the probes that are for this process alone.
    fn leave(&mut self, pid: u32);

    /// Hits of processes that are not watched, since the programs were loaded.
    fn stranger_hits(&self) -> StrangerHits;

    /// Detaches everything: the session is over.
    fn detach_all(&mut self);

    /// While it is paused, movements between processes by system calls leave no records.
    fn pause(&mut self, is_paused: bool);

    /// Watches a process from now on: its records go to the ring of `slot`. All its code counts as its own until
    /// it is told otherwise.
    ///
    /// # Errors
    /// Too many processes are watched.
    fn watch(&mut self, process: ProcessKey, slot: u32) -> Result<(), KernelError>;

    /// Says where the code of a watched process lies whose small heap blocks are recorded. One that is not watched
    /// (any more) stays so.
    ///
    /// # Errors
    /// The kernel's refusal.
    fn tell_own_code(&mut self, pid: u32, own_code: &[(u64, u64)]) -> Result<(), KernelError>;

    /// No longer watches the process that started then; `None`: whichever has this PID.
    fn unwatch(&mut self, pid: u32, started: Option<u64>);

    /// Makes the rings of slots, from the first on as many as can be had, and has them drained; gives back how many,
    /// and why there are no more.
    fn make_rings(&mut self, slots: Range<u32>) -> (u32, Option<KernelError>);

    /// What a slot counted since its ring was made.
    fn counters(&self, slot: u32) -> SlotCounters;

    /// What was drained from the rings, if anything comes in time.
    ///
    /// # Errors
    /// Nobody reads rings any more, or the probes are gone.
    fn next_batch(&mut self, timeout: Duration) -> Result<Option<DrainBatch>, TracingFailed>;

    /// Room that a batch's records had.
    fn give_back(&mut self, records: Vec<RawRecord>);

    /// Drains the rings a last time, and gives what is left.
    fn drain_rest(&mut self) -> Vec<DrainBatch>;

    /// What hits cost now, when nothing is attached; nobody decides by it.
    fn probe_costs(&mut self) -> ProbeCosts;
}

/// Reads what threads are doing, in a thread of its own.
pub(super) trait ThreadReader: Send {
    /// Does what takes long once, before anything is asked of it.
    fn get_ready(&mut self) {}

    /// What the threads of these processes do; of each process with the last MPI calls of its threads as they were
    /// recorded.
    fn read(&mut self, processes: BTreeMap<u32, Vec<LastCall>>) -> ReadThreads;
}

/// What was found of the threads of some processes.
#[derive(Debug, Default)]
pub(super) struct ReadThreads {
    /// What they do.
    pub threads: Vec<ThreadFacts>,
    /// PIDs of processes of which nothing could be found, and why.
    pub unreadable: BTreeMap<u32, String>,
}
