//! Counts, for people and for measuring ourselves.

use serde::{Deserialize, Serialize};

use super::finding::{GroupView, Place, WhoCount, is_none_left_out};
pub use crate::job::verbs::VerbsCounts;
use crate::tape::input::StrangerCost;
use crate::tape::plan::ProbeClass;

/// Counts of a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Statistics {
    /// From the first input to the last, CLOCK_MONOTONIC.
    pub duration_ns: u64,
    /// Records read.
    pub records: u64,
    /// Records that could not be read.
    pub bad_records: u64,
    /// Records of probes that no plan has.
    pub unplanned_records: u64,
    /// Messages whose data was not seen to move: each is taken as one movement.
    #[serde(default)]
    pub unseen_messages: u64,
    /// What went over TCP; nothing if nothing did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpStatistics>,
    /// What was done by RDMA verbs; nothing if nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rdma: Option<VerbsCounts>,
    /// Records that came after later ones.
    pub late_records: u64,
    /// Lost records of movements.
    pub lost_movements: u64,
    /// Lost records of MPI calls and of process life, and those that may have been.
    #[serde(default)]
    pub lost_calls: u64,
    /// Lost records of memory and process life.
    pub lost_state: u64,
    /// Time in which movements were watched; less than `duration_ns` where a budget had to be kept.
    #[serde(default)]
    pub watched_ns: u64,
    /// The same for MPI calls, which pause only if they alone take too much of the budget.
    #[serde(default)]
    pub calls_watched_ns: u64,
    /// How often watching movements was paused to keep a budget.
    #[serde(default)]
    pub pauses: u64,
    /// Probes that were out at the end, by id.
    #[serde(default)]
    pub probes_off: Vec<u32>,
    /// Data movements (of at least one byte).
    pub movements: u64,
    /// Copies of zero bytes.
    pub empty_movements: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Operations: movements, packs counted as one.
    pub operations: u64,
    /// Chains in groups.
    pub chains: u64,
    /// Chains that a loss may have changed.
    pub inconclusive_chains: u64,
    /// Chains that there was no room for.
    pub chains_not_kept: u64,
    /// Chain groups.
    pub groups: u64,
    /// Operations whose chains are not finished.
    pub pending_operations: u64,
    /// Mappings and heap blocks that there was no room for.
    pub memory_not_kept: u64,
    /// What watching cost processes outside the job; known at the end of a session that ended well.
    #[serde(default)]
    pub strangers: Option<Box<StrangerCost>>,
    /// By process, in order of rank and pid: of 1,024 at most, those that lost records or have ended rather than others.
    pub processes: Vec<ProcessStatistics>,
    /// Others.
    #[serde(default, skip_serializing_if = "is_none_left_out")]
    pub processes_left_out: u64,
    /// By probe, in order of id; only those that were hit.
    pub probes: Vec<ProbeStatistics>,
    /// By MPI function, in order of its name.
    pub calls: Vec<CallStatistics>,
    /// The groups with most chains.
    pub top_groups: Vec<GroupView>,
}

impl Statistics {
    /// All records that were lost.
    pub fn lost(&self) -> u64 {
        self.lost_movements.saturating_add(self.lost_calls).saturating_add(self.lost_state)
    }
}

/// What processes that call MPI moved over TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpStatistics {
    /// Seen to be sent, on connections whose other end was seen to receive.
    pub sent_bytes: u64,
    /// Seen to be received, on connections whose other end was seen to send.
    pub received_bytes: u64,
    /// Of those received: nobody was seen to send them.
    pub unseen_bytes: u64,
    /// Of those sent: nobody was seen to receive them, although what follows was received.
    #[serde(default)]
    pub missed_bytes: u64,
    /// Of those sent: on their way at the end.
    #[serde(default)]
    pub unread_bytes: u64,
    /// Sent to or received from processes that were not seen at it: launchers, other jobs.
    pub with_others_bytes: u64,
}

/// Counts of a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessStatistics {
    /// Its rank.
    pub rank: Option<u32>,
    /// Process id.
    pub pid: u32,
    /// Name of its node, of a job on several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Path of the program.
    pub exe: String,
    /// Whether it was still there.
    pub alive: bool,
    /// Records by kind, those that there were.
    pub records: Vec<KindCount>,
    /// Data movements.
    pub movements: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// MPI calls.
    pub mpi_calls: u64,
    /// Lost records of movements.
    pub lost_movements: u64,
    /// Lost records of MPI calls and of process life, and those that may have been.
    #[serde(default)]
    pub lost_calls: u64,
    /// Lost records of memory and process life.
    pub lost_state: u64,
    /// Records that came after later ones.
    pub late_records: u64,
    /// Written ranges of its own memory that are still live.
    pub live_buffers: u64,
}

/// A count of one kind of record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindCount {
    /// The kind.
    pub kind: String,
    /// The count.
    pub count: u64,
}

/// Counts of a probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeStatistics {
    /// Its id in the plan.
    pub probe: u32,
    /// What it watches.
    pub class: ProbeClass,
    /// Function of the library.
    pub function: String,
    /// Where.
    pub place: Place,
    /// Hits.
    pub hits: u64,
    /// Hits by rank: of 1,024 at most.
    #[serde(with = "crate::findings::runs")]
    pub by_who: Vec<WhoCount>,
    /// Others that have hit it.
    #[serde(default, skip_serializing_if = "is_none_left_out")]
    pub by_who_left_out: u64,
}

/// Counts of an MPI function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallStatistics {
    /// Its name; empty: outside MPI, or not known.
    pub function: String,
    /// Calls.
    pub calls: u64,
    /// Movements inside them.
    pub movements: u64,
    /// Bytes that these moved.
    pub bytes: u64,
}
