//! Who hangs, and why: causes if they can be proven, else the ranks and what is not known of them.

use std::collections::{BTreeMap, BTreeSet};

use super::found::{CommCallCounts, FoundHang, HangingRank};
use super::localize::HangCause;
use super::unknown;
use super::view::{JobView, SampledCommunicators, activity, communicators_of, followed, stuck_rank};
use super::wait_for::{Rank, RankActivity, WaitForGraph};

/// Communicators whose collective calls are shown with a hang.
const MOST_COMMUNICATORS: usize = 8;

/// Why ranks do not go on. Ranks that nothing is known of may always move.
pub(crate) fn hangs(view: &JobView<'_>) -> Vec<FoundHang> {
    let communicators = SampledCommunicators::of(view);
    let activities: BTreeMap<Rank, RankActivity> =
        view.ranks.keys().map(|rank| (*rank, activity(*rank, view, &communicators))).collect();
    let members = communicators.members(view, &activities);
    let job = WaitForGraph { activities: &activities, members: &members };
    let causes = job.causes();
    if causes.is_empty() {
        return unknown::hang(view).into_iter().map(|hang| with_counts(hang, &activities, view)).collect();
    }
    let hangs = causes.iter().map(|cause| hang(cause, &job, view));
    hangs.map(|hang| with_counts(hang, &activities, view)).collect()
}

fn hang(cause: &HangCause, job: &WaitForGraph<'_>, view: &JobView<'_>) -> FoundHang {
    let all = cause.at_fault.iter().chain(&cause.held_up);
    let stuck: Vec<HangingRank> = all
        .filter_map(|&rank| {
            let at_fault = cause.at_fault.contains(&rank);
            Some(HangingRank { at_fault, waits_for: job.waits_for(rank), ..stuck_rank(rank, view)? })
        })
        .collect();
    FoundHang::of(cause.fault, stuck, view)
}

/// Adds how far ranks have come on the communicators that they wait in.
fn with_counts(
    mut hang: FoundHang,
    activities: &BTreeMap<Rank, RankActivity>,
    view: &JobView<'_>,
) -> FoundHang {
    let waiting = hang.ranks.iter().filter_map(|rank| activities.get(&rank.rank));
    let numbers: BTreeSet<u64> = waiting.flat_map(communicators_of).collect();
    let counts = numbers.into_iter().filter_map(followed).filter_map(|comm| {
        let entered = view.messages.collectives().entered(comm.0);
        let differ_at = view.messages.collectives().differ_at(comm.0);
        let comm = view.messages.name_of(comm);
        (!entered.is_empty()).then_some(CommCallCounts { comm, entered, differ_at })
    });
    hang.collectives = counts.take(MOST_COMMUNICATORS).collect();
    hang
}
