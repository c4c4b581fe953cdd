//! Hangs as they were found: ranks, calls, and what could not be known.

use std::collections::BTreeSet;

use super::call_text::shown_of;
use super::dependency::Rank;
use super::groups::{BlockedGroup, MOST_ALONE, groups, told_alone};
use super::step_budget::TooLarge;
use super::view::{Doing, JobView, thread};
use super::waits::Waits;
use crate::findings::finding::Fault;
use crate::tape::input::ThreadFacts;

/// A cause, with what was found of the ranks.
pub(crate) struct FoundHang {
    pub fault: Fault,
    pub at_fault: BTreeSet<Rank>,
    /// All others in it.
    pub held_up: BTreeSet<Rank>,
    /// Those that are told one by one, at fault first: all of them, or some of many.
    pub ranks: Vec<HangingRank>,
    /// Since when the last of them has not moved.
    pub since_ns: u64,
    /// All of them together with those that do the same, if they are many or no cause is known.
    pub groups: Vec<BlockedGroup>,
    /// Where no cause is known: what could not be found out.
    pub unknown: Vec<String>,
    /// The same: ranks in calls that wait for nothing any more.
    pub complete: Vec<Rank>,
    /// The same: results of calls were recorded.
    pub results: bool,
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
    pub doing: Doing,
    pub thread: Option<ThreadFacts>,
    /// Names and values of the arguments worth showing.
    pub arguments: Vec<(&'static str, String)>,
    pub waits_for: BTreeSet<Rank>,
}

/// How a rank was found.
fn hanging_rank(
    rank: Rank,
    at_fault: bool,
    waits: Option<&Waits>,
    view: &JobView<'_>,
) -> Option<HangingRank> {
    let state = view.ranks.get(&rank)?;
    let thread = state.still.and_then(|(seen, _)| thread(seen)).cloned();
    let call = thread.as_ref().and_then(|thread| thread.call.as_ref());
    let arguments = call.map(|call| shown_of(call, Some((state.pid, &view.job.messages))));
    Some(HangingRank {
        rank,
        pid: state.pid,
        at_fault,
        doing: Doing::of(state),
        arguments: arguments.unwrap_or_default(),
        thread,
        waits_for: waits.map_or_else(BTreeSet::new, |waits| waits.of_all([rank])),
    })
}

impl FoundHang {
    /// `waits`: whom ranks wait for, where a cause is known.
    pub(super) fn of(
        fault: Fault,
        at_fault: BTreeSet<Rank>,
        held_up: BTreeSet<Rank>,
        waits: Option<&Waits>,
        view: &JobView<'_>,
    ) -> Result<Self, TooLarge> {
        let all = || at_fault.iter().chain(&held_up).copied();
        let is_large = at_fault.len() + held_up.len() > MOST_ALONE;
        let groups = match is_large || fault.has_no_cause() {
            true => groups(all(), &at_fault, waits, view)?,
            false => Vec::new(),
        };
        let told = if is_large { told_alone(&groups) } else { all().collect() };
        let ranks = told.into_iter().filter_map(|rank| {
            let rank = hanging_rank(rank, at_fault.contains(&rank), waits, view)?;
            view.work.spend(1 + rank.waits_for.len()).ok().map(|()| rank)
        });
        let ranks = ranks.collect();
        view.work.check()?;
        let since_ns = |rank| view.ranks.get(&rank).and_then(|state| state.still).map_or(0, |still| still.1);
        let since_ns = all().map(since_ns).max().unwrap_or(0);
        Ok(Self {
            fault,
            at_fault,
            held_up,
            ranks,
            since_ns,
            groups,
            unknown: Vec::new(),
            complete: Vec::new(),
            results: false,
            collectives: Vec::new(),
        })
    }

    /// Whether a rank is in it.
    pub fn has(&self, rank: Rank) -> bool {
        self.at_fault.contains(&rank) || self.held_up.contains(&rank)
    }

    /// Whether it is another look at the same.
    pub fn is_same(&self, other: &Self) -> bool {
        self.fault == other.fault && self.at_fault == other.at_fault
    }

    /// All ranks in it.
    pub fn all(&self) -> impl Iterator<Item = Rank> {
        self.at_fault.iter().chain(&self.held_up).copied()
    }
}
