//! Movements of data one by one, for whoever writes them down.

use crate::chains::LinkedMovement;
use crate::job::movement::Movement;
use crate::job::names::Kind;
use crate::job::process::Processes;

/// A data movement: each record of one is one, and several may be pieces of one operation.
///
/// Places, buffers and calls are numbers that stand for the same as long as the session lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataMovement {
    /// CLOCK_MONOTONIC, before the data moves.
    pub time_ns: u64,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Its rank in MPI_COMM_WORLD.
    pub rank: Option<u32>,
    /// How.
    pub kind: Kind,
    /// How much.
    pub len_bytes: u64,
    /// For [`Pipeline::site_place`](super::Pipeline::site_place): where in code.
    pub site: u32,
    /// For [`Pipeline::call_of_site`](super::Pipeline::call_of_site): in which MPI call.
    pub call: u32,
    /// For [`Pipeline::buffer_view`](super::Pipeline::buffer_view): from where.
    pub source: u32,
    /// In the process that holds it; 0: not known.
    pub source_addr: u64,
    /// To where.
    pub destination: u32,
    /// In the process that holds it; 0: not known.
    pub destination_addr: u64,
    /// Rank of the other process, where the data is moved from or to another one's memory.
    pub peer_rank: Option<u32>,
    /// Number of the operation that it is, or is a piece of; none: chains were not followed.
    pub operation: Option<u64>,
    /// The operation that wrote most of what it read; none: none that was seen.
    pub written_by: Option<u64>,
}

impl DataMovement {
    pub(super) fn of(m: &Movement, linked: Option<LinkedMovement>, processes: &Processes) -> Self {
        let rank_of = |process: u32| processes.all().get(process as usize).and_then(|process| process.rank);
        Self {
            time_ns: m.time_ns,
            pid: m.pid,
            tid: m.tid,
            rank: rank_of(m.process),
            kind: m.kind,
            len_bytes: m.len_bytes,
            site: m.site.0,
            call: m.call.0,
            source: m.source.buffer.0,
            source_addr: m.source.addr,
            destination: m.destination.buffer.0,
            destination_addr: m.destination.addr,
            peer_rank: m.remote.and_then(rank_of),
            operation: linked.map(|linked| linked.op),
            written_by: linked.and_then(|linked| linked.written_by),
        }
    }
}
