//! Hangs as they were found: ranks, calls, and what could not be known.

use std::collections::BTreeSet;

use super::wait_for::Rank;
use crate::findings::finding::Fault;
use crate::job::collectives::Entered;
use crate::tape::input::{CodePlace, ThreadFacts};

/// A cause, with what was found of the ranks.
pub(crate) struct FoundHang {
    pub fault: Fault,
    pub ranks: Vec<HangingRank>,
    /// Since when the last of them has not moved.
    pub since_ns: u64,
    /// Where no cause is known: ranks that are in the same call.
    pub groups: Vec<BlockedGroup>,
    /// … and what could not be found out.
    pub unknown: Vec<String>,
    /// Collective calls on the communicators that have to do with it.
    pub collectives: Vec<CommCallCounts>,
}

/// How many collective calls ranks have made on a communicator.
pub(crate) struct CommCallCounts {
    pub comm: String,
    pub entered: Vec<Entered>,
    /// The number of the first one that differs.
    pub differ_at: Option<u64>,
}

/// A rank that does not go on.
pub(crate) struct HangingRank {
    pub rank: Rank,
    pub pid: u32,
    pub at_fault: bool,
    pub thread: Option<ThreadFacts>,
    /// Names and values of the arguments worth showing.
    pub arguments: Vec<(&'static str, String)>,
    pub waits_for: BTreeSet<Rank>,
    pub ended: Option<bool>,
    pub stopped: bool,
}

/// Ranks that are in the same call, called at the same place, on the same communicator.
pub(crate) struct BlockedGroup {
    pub ranks: Vec<Rank>,
    pub function: String,
    pub site: Option<CodePlace>,
    /// Arguments that are the same for all of them.
    pub arguments: Vec<(&'static str, String)>,
    /// What their requests stand for.
    pub pending: Vec<String>,
}
