//! Ranks that do the same at the same place, together: of thousands nobody reads one by one.

use std::collections::{BTreeMap, BTreeSet};

use super::call_text::{request_texts, shown_of};
use super::dependency::Rank;
use super::step_budget::TooLarge;
use super::view::{Doing, JobView, call_of, thread};
use super::waits::Waits;
use crate::tape::input::CodePlace;

/// Ranks that are told one by one; of more, those that are alike are told together.
pub(crate) const MOST_ALONE: usize = 64;
/// Groups of a hang; of more, those in the same function are one, wherever it was called.
const MOST_GROUPS: usize = 64;
/// What requests of a group stand for, of the first ranks in it.
const MOST_PENDING: usize = 8;

/// Ranks that do the same at the same place, on the same communicator.
#[derive(Debug, Default)]
pub(crate) struct BlockedGroup {
    pub ranks: Vec<Rank>,
    pub at_fault: bool,
    pub doing: Doing,
    /// The call that they are in, if it is one.
    pub function: Option<String>,
    /// Where it was called, or where they are, if they are at one place.
    pub site: Option<CodePlace>,
    /// Arguments that are the same for all of them.
    pub arguments: Vec<(&'static str, String)>,
    /// What their requests stand for.
    pub pending: Vec<String>,
    /// All that they wait for.
    pub waits_for: BTreeSet<Rank>,
}

/// What ranks of a group have in common. Those at fault come first.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct GroupKey {
    waits: bool,
    doing: Doing,
    function: Option<String>,
    site: Option<CodePlace>,
    comm: Option<String>,
}

/// All ranks of a hang by what they do. `waits`: whom they wait for, if that is known.
pub(super) fn groups(
    ranks: impl Iterator<Item = Rank>,
    at_fault: &BTreeSet<Rank>,
    waits: Option<&Waits>,
    view: &JobView<'_>,
) -> Result<Vec<BlockedGroup>, TooLarge> {
    let mut groups: BTreeMap<GroupKey, BlockedGroup> = BTreeMap::new();
    for rank in ranks {
        view.work.spend(1)?;
        let (key, alone) = group_of_one(rank, at_fault.contains(&rank), view);
        match groups.get_mut(&key) {
            Some(group) => group.join(alone),
            None => {
                groups.insert(key, alone);
            }
        }
    }
    let mut groups = coarsened(groups);
    for group in &mut groups {
        group.ranks.sort_unstable();
        group.waits_for = waits.map_or_else(BTreeSet::new, |waits| waits.of_all(group.ranks.iter().copied()));
        group.pending = pending(&group.ranks, view);
    }
    groups.sort_by(|a, b| (!a.at_fault, &a.ranks).cmp(&(!b.at_fault, &b.ranks)));
    Ok(groups)
}

fn group_of_one(rank: Rank, at_fault: bool, view: &JobView<'_>) -> (GroupKey, BlockedGroup) {
    let state = &view.ranks[&rank];
    let call = call_of(state);
    let arguments = call.map(|call| shown_of(call, Some((state.pid, &view.job.messages))));
    let mut arguments = arguments.unwrap_or_default();
    arguments.retain(|(name, _)| *name != "request");
    let innermost = || thread(state.still?.0)?.frames.first().copied();
    let alone = BlockedGroup {
        ranks: vec![rank],
        at_fault,
        doing: Doing::of(state),
        function: call.map(|call| call.function.clone()),
        site: call.map_or_else(innermost, |call| call.site),
        arguments,
        ..BlockedGroup::default()
    };
    let comm = alone.arguments.iter().find(|(name, _)| *name == "comm").map(|(_, comm)| comm.clone());
    let (doing, function, site) = (alone.doing, alone.function.clone(), alone.site);
    (GroupKey { waits: !at_fault, doing, function, site, comm }, alone)
}

/// As many groups as are told at most.
fn coarsened(groups: BTreeMap<GroupKey, BlockedGroup>) -> Vec<BlockedGroup> {
    let without_site = |key: GroupKey| GroupKey { site: None, ..key };
    let without_call = |key: GroupKey| GroupKey { function: None, site: None, comm: None, ..key };
    let groups = joined(groups, without_site);
    joined(groups, without_call).into_values().collect()
}

/// If there are too many groups, those with the same key without what `without` leaves out are one.
fn joined(
    groups: BTreeMap<GroupKey, BlockedGroup>,
    without: impl Fn(GroupKey) -> GroupKey,
) -> BTreeMap<GroupKey, BlockedGroup> {
    if groups.len() <= MOST_GROUPS {
        return groups;
    }
    let mut fewer: BTreeMap<GroupKey, BlockedGroup> = BTreeMap::new();
    for (key, group) in groups {
        match fewer.entry(without(key)) {
            std::collections::btree_map::Entry::Occupied(mut known) => known.get_mut().join(group),
            std::collections::btree_map::Entry::Vacant(free) => {
                free.insert(group);
            }
        }
    }
    fewer
}

impl BlockedGroup {
    /// What they have in common stays.
    fn join(&mut self, other: Self) {
        self.ranks.extend(other.ranks);
        self.site = self.site.filter(|site| other.site == Some(*site));
        self.function.take_if(|function| other.function.as_ref() != Some(function));
        self.arguments.retain(|argument| other.arguments.contains(argument));
    }
}

fn pending(ranks: &[Rank], view: &JobView<'_>) -> Vec<String> {
    let mut pending = Vec::new();
    for rank in ranks.iter().take(MOST_ALONE) {
        let state = &view.ranks[rank];
        for text in call_of(state).into_iter().flat_map(|call| request_texts(call, state.pid, view)) {
            if pending.len() < MOST_PENDING && !pending.contains(&text) {
                pending.push(text);
            }
        }
    }
    pending
}

/// Ranks to be told one by one: all of a few; of many those at fault and some of each group, of small groups rather than of
/// large ones.
pub(super) fn told_alone(groups: &[BlockedGroup]) -> Vec<Rank> {
    let mut by_size: Vec<&BlockedGroup> = groups.iter().collect();
    by_size.sort_by_key(|group| (!group.at_fault, group.ranks.len()));
    let mut told = Vec::new();
    for (at, group) in by_size.iter().enumerate() {
        // What small groups leave goes to those behind them.
        let share = match group.at_fault {
            true => MOST_ALONE - told.len(),
            false => (MOST_ALONE - told.len()) / (by_size.len() - at),
        };
        let mut some: Vec<Rank> = group.ranks.iter().take(share).copied().collect();
        told.append(&mut some);
    }
    let is_at_fault =
        |rank: &Rank| groups.iter().any(|group| group.at_fault && group.ranks.binary_search(rank).is_ok());
    told.sort_by_key(|rank| (!is_at_fault(rank), *rank));
    told
}
