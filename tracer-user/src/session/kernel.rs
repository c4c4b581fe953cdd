//! What a session needs of the kernel. It decides nothing; [`super::live::LiveKernel`] is the real one, and tests have
//! one that follows a script.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use analyzer::input::ThreadFacts;
use analyzer::pipeline::LastCall;
use analyzer::plan::Plan;
use analyzer::wire::{FileId, RawRecord};

use crate::collector::DrainBatch;
use crate::kernel::{Attached, KernelError, SlotCounters, Target};

/// The kernel side of a session.
pub(super) trait Kernel {
    /// Attaches the probes of a plan. `targets`: the files that they are in; `apart`: probes that may be detached without
    /// others.
    fn attach(&mut self, plan: &Plan, targets: &BTreeMap<FileId, Target>, apart: &BTreeSet<u32>) -> Attached;

    /// Detaches probes, and those that cannot be without them; gives back which.
    fn detach(&mut self, probes: &BTreeSet<u32>) -> BTreeSet<u32>;

    /// Attaches probes again that were detached.
    fn reattach(&mut self, probes: &BTreeSet<u32>) -> Attached;

    /// Detaches everything: the session is over.
    fn detach_all(&mut self);

    /// While it is paused, movements between processes by system calls leave no records.
    fn pause(&mut self, is_paused: bool);

    /// Watches a process from now on: its records go to the ring of `slot`. `own_code`: where the code lies whose small
    /// heap blocks are recorded; `None`: not known yet, all are.
    ///
    /// # Errors
    /// Too many processes are watched.
    fn watch(&mut self, pid: u32, slot: u32, own_code: Option<&[(u64, u64)]>) -> Result<(), KernelError>;

    /// No longer watches a process.
    fn unwatch(&mut self, pid: u32);

    /// Makes the rings of slots, from the first on as many as there is memory for, and has them drained; gives back how
    /// many.
    fn make_rings(&mut self, slots: Range<u32>) -> u32;

    /// What a slot counted since its ring was made.
    fn counters(&self, slot: u32) -> SlotCounters;

    /// What was drained from the rings, if anything comes in time.
    fn next_batch(&mut self, timeout: Duration) -> Option<DrainBatch>;

    /// Room that a batch's records had.
    fn give_back(&mut self, records: Vec<RawRecord>);

    /// Drains the rings a last time, and gives what is left.
    fn drain_rest(&mut self) -> Vec<DrainBatch>;
}

/// Reads what threads are doing, in a thread of its own.
pub(super) trait ThreadReader: Send {
    /// What the threads of these processes do; of each process with the last MPI calls of its threads as they were
    /// recorded.
    fn read(&mut self, processes: BTreeMap<u32, Vec<LastCall>>) -> Vec<ThreadFacts>;
}
