//! Who hangs, and why: causes if they can be proven, else the ranks and what is not known of them.

use std::collections::{BTreeMap, BTreeSet};

use super::activity::{activity, collective_waits};
use super::communicators::{SampledCommunicators, followed};
use super::dependency::{Rank, RankActivity};
use super::found::{CommCallCounts, FoundHang, MemberProgress};
use super::localize::HangCause;
use super::step_budget::TooLarge;
use super::unknown;
use super::view::JobView;
use super::wait_for::WaitForGraph;
use crate::findings::finding::Fault;
use crate::job::collectives::MemberCalls;
use crate::job::messages::{Call, CommId};

/// Communicators whose collective calls are shown with a hang.
const MOST_COMMUNICATORS: usize = 8;

/// Why ranks do not go on. Ranks that nothing is known of may always move. What is too large to be followed is said to be.
pub(crate) fn hangs(view: &JobView<'_>) -> Vec<FoundHang> {
    found(view).unwrap_or_else(|TooLarge| vec![not_analysed(view)])
}

fn found(view: &JobView<'_>) -> Result<Vec<FoundHang>, TooLarge> {
    let communicators = SampledCommunicators::of(view)?;
    let activities: BTreeMap<Rank, RankActivity> =
        view.ranks.keys().map(|rank| (*rank, activity(*rank, view, &communicators))).collect();
    // Who reads arguments stops where there is too much.
    view.work.check()?;
    let members = communicators.members(view, &activities);
    let job = WaitForGraph::new(&activities, &members, &view.work);
    let (causes, waits) = job.causes()?;
    if causes.is_empty() {
        let unknown = unknown::hang(view, &communicators)?;
        return unknown.into_iter().map(|hang| with_counts(hang, &activities, view)).collect();
    }
    let hang = |HangCause { fault, at_fault, held_up }: HangCause| {
        let hang = FoundHang::of(fault, at_fault, held_up, Some(&waits), view)?;
        with_counts(hang, &activities, view)
    };
    causes.into_iter().map(hang).collect()
}

/// Ranks stand still, and nobody can say whether they will go on.
fn not_analysed(view: &JobView<'_>) -> FoundHang {
    let since = view.ranks.values().filter_map(|state| Some(state.still?.1));
    let still = view.ranks.values().filter(|state| state.still.is_some()).count();
    let unknown = format!(
        "whether {still} ranks that stand still can go on: to follow what they wait for takes more than the {} steps that \
         one look may take",
        view.work.most()
    );
    FoundHang {
        fault: Fault::NotAnalysed,
        at_fault: BTreeSet::new(),
        held_up: BTreeSet::new(),
        ranks: Vec::new(),
        since_ns: since.max().unwrap_or(0),
        groups: Vec::new(),
        unknown: vec![unknown],
        complete: Vec::new(),
        results: false,
        collectives: Vec::new(),
    }
}

/// Adds how far ranks have come on the communicators that they wait in.
fn with_counts(
    mut hang: FoundHang,
    activities: &BTreeMap<Rank, RankActivity>,
    view: &JobView<'_>,
) -> Result<FoundHang, TooLarge> {
    let waiting = hang.all().filter_map(|rank| activities.get(&rank));
    let numbers: BTreeSet<u64> = waiting.flat_map(RankActivity::communicators).collect();
    let collectives = view.job.messages.collectives();
    for comm in numbers.into_iter().filter_map(followed) {
        let calls = collectives.calls(comm.0);
        view.work.spend(1 + calls.len())?;
        if calls.is_empty() || hang.collectives.len() >= MOST_COMMUNICATORS {
            continue;
        }
        let members: Vec<MemberProgress> =
            calls.iter().map(|calls| progress(calls, comm, activities, view)).collect();
        let differ_at = collectives.differ_at(comm.0);
        let comm = view.job.messages.name_of(comm);
        hang.collectives.push(CommCallCounts { comm, members, differ_at });
    }
    Ok(hang)
}

/// How far a member has come: what records tell of its calls, and where it was found.
fn progress(
    calls: &MemberCalls,
    comm: CommId,
    activities: &BTreeMap<Rank, RankActivity>,
    view: &JobView<'_>,
) -> MemberProgress {
    let MemberCalls { rank, entered, completed } = *calls;
    let activity = activities.get(&rank);
    let completed = (completed + left_unseen(rank, comm, activity, view)).min(entered);
    let waits = activity.map_or(0, |activity| collective_waits(activity, comm));
    MemberProgress { rank, entered, completed, unknown: (entered - completed).saturating_sub(waits) }
}

/// Calls that a rank has left, which no record of a collective call tells: another call came after it, or it is outside of
/// MPI.
fn left_unseen(rank: Rank, comm: CommId, activity: Option<&RankActivity>, view: &JobView<'_>) -> u64 {
    let Some(pid) = view.ranks.get(&rank).map(|state| state.pid) else { return 0 };
    let is_left = |call: &Call| {
        let last = view.job.last_call(pid, call.tid);
        activity == Some(&RankActivity::Outside) || last.is_some_and(|last| !call.may_be(last))
    };
    view.job.messages.open_collectives(pid, comm).filter(|call| is_left(call)).count() as u64
}
