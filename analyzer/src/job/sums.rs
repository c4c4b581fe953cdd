//! Counts of what was seen elsewhere: of a job whose records are read by agents on its nodes.

use super::probes::CallCounts;
use super::streams::StreamCounts;
use super::verbs::VerbsCounts;

/// Counts of all nodes together. They only come and go as differences, and go around rather than fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SummedTotals {
    pub records: u64,
    pub bad_records: u64,
    pub unplanned_records: u64,
    /// Messages whose data moved unseen.
    pub unseen_messages: u64,
    /// Mappings and heap blocks that there was no room for.
    pub memory_not_kept: u64,
    /// Bytes of streams of which both ends were seen …
    pub streams: StreamCounts,
    /// … and of those of which one was.
    pub streams_of_one_end: StreamCounts,
    /// Work requests and completions of RDMA verbs.
    pub verbs: VerbsCounts,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Sums {
    pub totals: SummedTotals,
    /// By slot of the probe.
    calls: Vec<CallCounts>,
}

impl Sums {
    /// What MPI functions did; slots beyond have done nothing.
    pub fn calls(&self) -> &[CallCounts] {
        &self.calls
    }

    /// What the function of a slot did.
    pub fn calls_mut(&mut self, slot: usize) -> &mut CallCounts {
        if slot >= self.calls.len() {
            self.calls.resize(slot + 1, CallCounts::default());
        }
        &mut self.calls[slot]
    }
}
