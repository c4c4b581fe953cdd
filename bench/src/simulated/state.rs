//! What all nodes of a made-up job know.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use rustix::time::{ClockId, clock_gettime};

use super::counted_bus::SendCounters;
use crate::generate::{GeneratedJob, Standstill};

/// What nodes do.
#[derive(Clone, Copy, Debug)]
pub struct FleetJob {
    /// Its records.
    pub generated: GeneratedJob,
    /// How it ends.
    pub standstill: Standstill,
}

/// What all nodes know.
pub(super) struct FleetState {
    pub(super) job: FleetJob,
    pub(super) sent: Arc<SendCounters>,
    /// Nodes with a session.
    pub(super) open: AtomicUsize,
    /// When data begins to move; 0: it is not known yet.
    pub(super) begins_ns: AtomicU64,
    /// When the job comes to a stand.
    pub(super) stands_ns: AtomicU64,
    /// What it took to make records up.
    pub(super) generating_ns: AtomicU64,
    /// How long a turn of all nodes took at most.
    pub(super) longest_pass_ns: AtomicU64,
    /// Nodes are to end.
    pub(super) stop: AtomicBool,
}

/// Processor time of this thread.
pub(super) fn thread_cpu_ns() -> u64 {
    ns(clock_gettime(ClockId::ThreadCPUTime))
}

/// A time of a clock.
pub(super) fn ns(time: rustix::time::Timespec) -> u64 {
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}
