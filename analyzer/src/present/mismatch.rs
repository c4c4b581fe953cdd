//! Collective mismatches in words.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::hang::{call_at, died_in, render_ranks};
use super::text::{comm_text, who_text};
use crate::findings::finding::{CollectiveMismatch, MismatchedGroup, MismatchedRank, StuckCall};
use crate::job::process::Who;

/// Groups told one by one.
const MOST_TOLD: usize = 4;
/// Groups shown.
const MOST_SHOWN: usize = 16;

/// As a heading.
pub(crate) fn title(mismatch: &CollectiveMismatch) -> String {
    format!("Collective mismatch on {}", comm_text(&mismatch.comm))
}

/// Ranks, their call, and whether they are at fault.
type CallGroup<'a> = (Vec<Who>, &'a StuckCall, bool);

/// Ranks whose calls are the same, from the same place: those at fault first.
fn groups<'a>(mismatch: &'a CollectiveMismatch) -> Vec<CallGroup<'a>> {
    if !mismatch.groups.is_empty() {
        let of = |group: &'a MismatchedGroup| (group.ranks.clone(), &group.call, group.at_fault);
        return mismatch.groups.iter().map(of).collect();
    }
    let mut groups: BTreeMap<(bool, u64, &str, u64), CallGroup<'_>> = BTreeMap::new();
    for MismatchedRank { who, at_fault, group, call } in &mismatch.ranks {
        let key = (!at_fault, *group, call.place.module.as_str(), call.place.offset_bytes);
        groups.entry(key).or_insert_with(|| (Vec::new(), call, *at_fault)).0.push(*who);
    }
    groups.into_values().collect()
}

/// Ranks that made another call than the most, or those that did not.
pub(crate) fn who(mismatch: &CollectiveMismatch, at_fault: bool) -> Vec<Who> {
    let groups = groups(mismatch).into_iter().filter(|group| group.2 == at_fault);
    let mut who: Vec<Who> = groups.flat_map(|group| group.0).collect();
    who.sort_unstable();
    who
}

/// In one sentence, and what to do next.
pub(crate) fn say(mismatch: &CollectiveMismatch) -> (String, Vec<String>) {
    let groups = groups(mismatch);
    let told = |wrong: bool| -> Vec<String> {
        let of = groups.iter().filter(|group| group.2 == wrong).take(MOST_TOLD);
        of.map(|(ranks, call, _)| format!("{} in {}", who_text(ranks), call_at(call))).collect()
    };
    let died = mismatch.death.as_ref().map_or_else(String::new, |death| format!("; {}", died_in(death)));
    let hangs = if mismatch.hang.is_some() { "; the job hangs in it" } else { "" };
    let which = if mismatch.is_tie { ", as many on each side" } else { "" };
    let summary = format!(
        "{}: collective call number {} on it is {}, but {}{which}{hangs}{died}.",
        title(mismatch),
        mismatch.position,
        told(true).join(", "),
        told(false).join(", "),
    );
    let wrong = who(mismatch, true);
    let next = vec![
        format!("Look at the branch by which {} came to another call than the rest.", who_text(&wrong)),
        "All ranks of a communicator or window must make the same collective calls in the same order, with the same root, operation and amount of data, in place all or none; blocking and nonblocking calls do not match.".to_owned(),
    ];
    (summary, next)
}

/// All ranks with their calls, and where they are if the job hangs, or how they died.
pub(crate) fn render(out: &mut String, mismatch: &CollectiveMismatch) {
    let groups = groups(mismatch);
    let left = groups.len().saturating_sub(MOST_SHOWN);
    for (ranks, call, at_fault) in groups.into_iter().take(MOST_SHOWN) {
        let role = if at_fault { "at fault" } else { "expected" };
        let _ = writeln!(out, "   {}, {role}: {}", who_text(&ranks), call_at(call));
    }
    if left > 0 {
        let _ = writeln!(out, "   and {left} more calls that differ");
    }
    for hang in mismatch.hang.iter().chain(&mismatch.death) {
        render_ranks(out, hang);
    }
}
