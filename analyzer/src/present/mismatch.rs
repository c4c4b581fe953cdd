//! Collective mismatches in words.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::hang::{call_at, died_in, render_ranks};
use super::text::{comm_text, who_text};
use crate::findings::finding::{CollectiveMismatch, MismatchedRank, StuckCall};
use crate::job::process::Who;

/// Groups told one by one.
const MOST_TOLD: usize = 4;

/// As a heading.
pub(crate) fn title(mismatch: &CollectiveMismatch) -> String {
    format!("Collective mismatch on {}", comm_text(&mismatch.comm))
}

/// Ranks, their call, and whether they are at fault.
type CallGroup<'a> = (Vec<Who>, &'a StuckCall, bool);

/// Ranks whose calls are the same, from the same place: those at fault first.
fn groups(mismatch: &CollectiveMismatch) -> Vec<CallGroup<'_>> {
    let mut groups: BTreeMap<(bool, u64, &str, u64), CallGroup<'_>> = BTreeMap::new();
    for MismatchedRank { who, at_fault, group, call } in &mismatch.ranks {
        let key = (!at_fault, *group, call.place.module.as_str(), call.place.offset_bytes);
        groups.entry(key).or_insert_with(|| (Vec::new(), call, *at_fault)).0.push(*who);
    }
    groups.into_values().collect()
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
    let wrong: Vec<Who> = mismatch.ranks.iter().filter(|rank| rank.at_fault).map(|rank| rank.who).collect();
    let next = vec![
        format!("Look at the branch by which {} came to another call than the rest.", who_text(&wrong)),
        "All ranks of a communicator must make the same collective calls in the same order, with the same root, operation and amount of data, in place all or none; blocking and nonblocking calls do not match.".to_owned(),
    ];
    (summary, next)
}

/// All ranks with their calls, and where they are if the job hangs, or how they died.
pub(crate) fn render(out: &mut String, mismatch: &CollectiveMismatch) {
    for (ranks, call, at_fault) in groups(mismatch) {
        let role = if at_fault { "at fault" } else { "expected" };
        let _ = writeln!(out, "   {}, {role}: {}", who_text(&ranks), call_at(call));
    }
    for hang in mismatch.hang.iter().chain(&mismatch.death) {
        render_ranks(out, hang);
    }
}
