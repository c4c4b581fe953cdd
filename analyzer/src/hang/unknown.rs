//! Hangs whose cause is not known: all ranks are inside MPI, and none of them moves.

use std::collections::BTreeMap;

use super::activity::knows_communicator;
use super::call_text::{pending_of, request_texts};
use super::communicators::SampledCommunicators;
use super::dependency::Rank;
use super::found::{BlockedGroup, FoundHang, stuck_rank};
use super::progress::Observation;
use super::view::{JobView, RankState, call_of};
use crate::findings::finding::Fault;
use crate::mpi::calls::{self, Waiting};
use crate::tape::input::{CallInProgress, CodePlace};

/// Nothing must have moved for so long.
pub(super) const LEAST_NS: u64 = 10_000_000_000;

/// If all ranks that are alive are in MPI calls and have not moved for long.
pub(super) fn hang(view: &JobView<'_>, communicators: &SampledCommunicators) -> Option<FoundHang> {
    let alive: Vec<(Rank, &RankState<'_>)> = view
        .ranks
        .iter()
        .filter(|(_, state)| state.ended.is_none())
        .map(|(rank, state)| (*rank, state))
        .collect();
    if alive.is_empty() || !alive.iter().all(|(_, state)| is_long_in_mpi(state, view.job.now_ns())) {
        return None;
    }
    let ranks = alive.iter().filter_map(|(rank, _)| stuck_rank(*rank, view)).collect();
    let mut hang = FoundHang::of(Fault::UnknownHang, ranks, view);
    hang.groups = groups(&alive, view);
    hang.unknown = unknown(&alive, view, communicators);
    Some(hang)
}

fn is_long_in_mpi(state: &RankState<'_>, now_ns: u64) -> bool {
    let Some((Observation::InCall(_), since_ns)) = state.still else { return false };
    let waits_outside = |call: &CallInProgress| calls::waits_outside(&call.function);
    now_ns.saturating_sub(since_ns) >= LEAST_NS && !call_of(state).is_none_or(waits_outside)
}

fn groups(alive: &[(Rank, &RankState<'_>)], view: &JobView<'_>) -> Vec<BlockedGroup> {
    let mut groups: BTreeMap<(String, Option<CodePlace>, String), BlockedGroup> = BTreeMap::new();
    for (rank, state) in alive {
        let Some(call) = call_of(state) else { continue };
        let arguments = stuck_rank(*rank, view).map(|rank| rank.arguments).unwrap_or_default();
        let comm = arguments.iter().find(|(name, _)| *name == "comm").map(|(_, comm)| comm.clone());
        let pending = request_texts(call, state.pid, view);
        let key = (call.function.clone(), call.site, comm.unwrap_or_default());
        let arguments: Vec<_> = arguments.into_iter().filter(|(name, _)| *name != "request").collect();
        match groups.get_mut(&key) {
            Some(group) => {
                group.ranks.push(*rank);
                group.arguments.retain(|argument| arguments.contains(argument));
                group.add(pending);
            }
            None => {
                let (function, site) = (call.function.clone(), call.site);
                let mut group =
                    BlockedGroup { ranks: vec![*rank], function, site, arguments, pending: Vec::new() };
                group.add(pending);
                groups.insert(key, group);
            }
        }
    }
    let mut groups: Vec<BlockedGroup> = groups.into_values().collect();
    groups.sort_by(|a, b| a.ranks.cmp(&b.ranks));
    groups
}

impl BlockedGroup {
    fn add(&mut self, pending: Vec<String>) {
        const MOST_PENDING: usize = 8;
        for text in pending {
            if self.pending.len() < MOST_PENDING && !self.pending.contains(&text) {
                self.pending.push(text);
            }
        }
    }
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
        Some(Waiting::Requests { .. }) => {
            let pending = pending_of(call).count();
            let known = request_texts(call, pid, view).len();
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
