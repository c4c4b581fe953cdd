//! Hangs whose cause is not known: all ranks are inside MPI, and none of them moves.

use std::collections::{BTreeMap, BTreeSet};

use super::activity::knows_communicator;
use super::call_text::{knows_request, pending_of};
use super::communicators::SampledCommunicators;
use super::dependency::Rank;
use super::found::FoundHang;
use super::progress::Observation;
use super::step_budget::TooLarge;
use super::view::{JobView, RankState, call_of};
use crate::findings::finding::Fault;
use crate::mpi::calls::{self, Waiting};
use crate::tape::input::CallInProgress;

/// Nothing must have moved for so long.
pub(super) const LEAST_NS: u64 = 10_000_000_000;

/// If all ranks that are alive are in MPI calls and have not moved for long.
pub(super) fn hang(
    view: &JobView<'_>,
    communicators: &SampledCommunicators,
) -> Result<Option<FoundHang>, TooLarge> {
    let alive: Vec<(Rank, &RankState<'_>)> = view
        .ranks
        .iter()
        .filter(|(_, state)| state.ended.is_none())
        .map(|(rank, state)| (*rank, state))
        .collect();
    if alive.is_empty() || !alive.iter().all(|(_, state)| is_long_in_mpi(state, view.job.now_ns())) {
        return Ok(None);
    }
    let held_up = alive.iter().map(|(rank, _)| *rank).collect();
    let hang = FoundHang::of(Fault::UnknownHang, BTreeSet::new(), held_up, None, view)?;
    let complete = alive.iter().filter(|(_, state)| call_of(state).is_some_and(is_complete));
    Ok(Some(FoundHang {
        unknown: unknown(&alive, view, communicators),
        complete: complete.map(|(rank, _)| *rank).collect(),
        results: view.job.records_results,
        ..hang
    }))
}

fn is_long_in_mpi(state: &RankState<'_>, now_ns: u64) -> bool {
    let Some((Observation::InCall(_), since_ns)) = state.still else { return false };
    let waits_outside = |call: &CallInProgress| calls::waits_outside(&call.function);
    now_ns.saturating_sub(since_ns) >= LEAST_NS && !call_of(state).is_none_or(waits_outside)
}

/// All that a call waits for is complete, as the library's memory says, and still it does not return.
fn is_complete(call: &CallInProgress) -> bool {
    !call.requests.is_empty() && call.requests.iter().all(|request| request.complete == Some(true))
}

/// What could not be found out that would tell more.
fn unknown(
    alive: &[(Rank, &RankState<'_>)],
    view: &JobView<'_>,
    communicators: &SampledCommunicators,
) -> Vec<String> {
    let mut by_what: BTreeMap<(&str, &str), Vec<Rank>> = BTreeMap::new();
    for (rank, state) in alive {
        let Some(call) = call_of(state) else { continue };
        for what in missing(call, state.pid, view, communicators) {
            by_what.entry((what, &call.function)).or_default().push(*rank);
        }
    }
    let text = |((what, function), ranks): ((&str, &str), Vec<Rank>)| {
        format!("{what} of {} in {function}", ranks_text(&ranks))
    };
    by_what.into_iter().map(text).collect()
}

fn missing(
    call: &CallInProgress,
    pid: u32,
    view: &JobView<'_>,
    communicators: &SampledCommunicators,
) -> Vec<&'static str> {
    const WAITS: &str = "what is waited for";
    let Some(row) = calls::row(&call.function) else { return vec![WAITS] };
    match row.awaits() {
        None => vec![WAITS],
        Some(Waiting::Requests { .. }) if is_complete(call) => Vec::new(),
        Some(Waiting::Requests { .. }) => {
            let pending = pending_of(call).count();
            let known = pending_of(call).filter(|request| knows_request(request, pid, view)).count();
            if pending == 0 || known < pending { vec!["the requests"] } else { Vec::new() }
        }
        Some(_) => match knows_communicator(call, pid, view, communicators) {
            Some(false) => vec!["the communicator"],
            _ => Vec::new(),
        },
    }
}

/// `rank 2`, `ranks 0, 3 and 7 more`.
fn ranks_text(ranks: &[Rank]) -> String {
    const MOST: usize = 8;
    let told: Vec<String> = ranks.iter().take(MOST).map(ToString::to_string).collect();
    let more = if ranks.len() > MOST { format!(" and {} more", ranks.len() - MOST) } else { String::new() };
    format!("rank{} {}{more}", if ranks.len() == 1 { "" } else { "s" }, told.join(", "))
}
