//! Hangs as they were found: ranks, calls, and what could not be known.

use std::collections::BTreeSet;

use super::call_text::shown_of;
use super::dependency::Rank;
use super::progress::Observation;
use super::view::{JobView, thread};
use crate::findings::finding::Fault;
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
    pub members: Vec<MemberProgress>,
    /// The number of the first one that differs.
    pub differ_at: Option<u64>,
}

/// How far a rank has come in its collective calls on a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemberProgress {
    pub rank: Rank,
    pub entered: u64,
    pub completed: u64,
    /// Of so many it is not known whether they are complete.
    pub unknown: u64,
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

/// How a rank was found.
pub(super) fn stuck_rank(rank: Rank, view: &JobView<'_>) -> Option<HangingRank> {
    let state = view.ranks.get(&rank)?;
    let thread = state.still.and_then(|(seen, _)| thread(seen)).cloned();
    let call = thread.as_ref().and_then(|thread| thread.call.as_ref());
    let arguments = call.map(|call| shown_of(call, Some((state.pid, &view.job.messages))));
    Some(HangingRank {
        rank,
        pid: state.pid,
        at_fault: false,
        arguments: arguments.unwrap_or_default(),
        thread,
        waits_for: BTreeSet::new(),
        ended: state.ended,
        stopped: matches!(state.still, Some((Observation::Stopped(_), _))),
    })
}

impl FoundHang {
    pub(super) fn of(fault: Fault, ranks: Vec<HangingRank>, view: &JobView<'_>) -> Self {
        let since_ns = |rank: &HangingRank| {
            view.ranks.get(&rank.rank).and_then(|state| state.still).map_or(0, |still| still.1)
        };
        let since_ns = ranks.iter().map(since_ns).max().unwrap_or(0);
        Self { fault, since_ns, ranks, groups: Vec::new(), unknown: Vec::new(), collectives: Vec::new() }
    }
}
