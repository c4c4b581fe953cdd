//! What processes came to: as findings tell it, else how they ended or where they were last found.

use std::collections::{BTreeMap, BTreeSet};

use super::arguments::owned;
use super::data::HangRole;
use super::places::Places;
use crate::findings::finding::{
    Fault, Hang, HangGroup, MOST_WAITED_FOR, Place, StuckCall, StuckRank, StuckState,
};
use crate::findings::report::Report;
use crate::job::process::{Process, Who};
use crate::present::hang::title;
use crate::present::text::{duration_text, who_text};
use crate::timeline::{History, Look, ProcessEnd, called, stack};

/// What one process came to.
pub(super) struct Last {
    pub rank: StuckRank,
    pub role: Option<HangRole>,
    pub reason: String,
    /// Since when at the latest, CLOCK_MONOTONIC.
    pub since_ns: u64,
    /// The thread that tells it; 0: not known.
    pub tid: u32,
}

/// What findings tell, by rank and process. `pid`: of a rank, as its node calls it; 0: not known.
pub(super) fn told(report: &Report, pid: impl Fn(Who) -> u32) -> BTreeMap<(Who, u32), Last> {
    let mut all: BTreeMap<(Who, u32), Last> = BTreeMap::new();
    let mut tell = |new: Last| match all.get_mut(&(new.rank.who, new.rank.pid)) {
        None => {
            all.insert((new.rank.who, new.rank.pid), new);
        }
        Some(known) => join(known, new),
    };
    for finding in &report.findings {
        let Some(hang) = finding.hang() else { continue };
        let who_at_fault = hang.who_at_fault();
        let culprit = (who_text(&who_at_fault), who_at_fault.len() == 1);
        hang.ranks.iter().for_each(|rank| tell(last_of(rank.clone(), hang, &culprit)));
        let alone: BTreeSet<Who> = hang.ranks.iter().map(|rank| rank.who).collect();
        for group in &hang.groups {
            for &who in group.ranks.iter().filter(|who| !alone.contains(who)) {
                tell(last_of(one_of(group, who, pid(who)), hang, &culprit));
            }
        }
    }
    all
}

/// What is known of a rank that is not told of alone.
fn one_of(group: &HangGroup, who: Who, pid: u32) -> StuckRank {
    StuckRank {
        who,
        pid,
        at_fault: group.at_fault,
        state: group.state,
        status: None,
        call: group.call.clone(),
        error: None,
        sender: None,
        // Each of thousands may wait for thousands.
        waits_for: group.waits_for.iter().take(MOST_WAITED_FOR).copied().collect(),
        waits_for_left_out: (group.waits_for.len() as u64 + group.waits_for_left_out)
            .saturating_sub(MOST_WAITED_FOR as u64),
        stack: group.place.iter().cloned().collect(),
    }
}

/// `culprit`: who is at fault, and whether it is one.
fn last_of(rank: StuckRank, hang: &Hang, culprit: &(String, bool)) -> Last {
    let role = if rank.at_fault { HangRole::AtFault } else { HangRole::Affected };
    let (since_ns, reason) = (hang.since_ns, reason(&rank, hang, culprit));
    Last { rank, role: Some(role), reason, since_ns, tid: 0 }
}

/// Whoever is at fault in one finding and waits in another is at fault.
fn join(known: &mut Last, mut new: Last) {
    if new.role < known.role {
        std::mem::swap(known, &mut new);
    }
    known.rank.waits_for.extend(new.rank.waits_for);
    known.rank.waits_for.sort_unstable();
    known.rank.waits_for.dedup();
}

fn reason(rank: &StuckRank, hang: &Hang, (culprit, one): &(String, bool)) -> String {
    match hang.fault {
        _ if rank.at_fault => {
            format!("At fault: {} ({culprit}).", uncapitalized(&title(hang)))
        }
        Fault::Crash | Fault::Truncated | Fault::InvalidCall | Fault::MismatchedCollective
            if rank.state == StuckState::Died =>
        {
            format!("It ended after {culprit}, most likely because of that.")
        }
        Fault::UnknownHang | Fault::NotAnalysed => "It has not moved for long; why is not known.".to_owned(),
        _ => format!("It only waits: {culprit} {} at fault.", if *one { "is" } else { "are" }),
    }
}

fn uncapitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

/// What a process came to that no finding tells of.
pub(super) fn untold(
    process: &Process,
    who: Who,
    history: &History,
    places: &mut Places<'_>,
) -> Option<Last> {
    match (history.end, history.last_look()) {
        (Some(end), _) => Some(ended(process, who, end, places)),
        (None, Some(look)) => Some(found(process, who, look, places)),
        (None, None) => None,
    }
}

fn nobody_says(process: &Process, who: Who, state: StuckState) -> StuckRank {
    StuckRank {
        who,
        pid: process.pid,
        at_fault: false,
        state,
        status: None,
        call: None,
        error: None,
        sender: None,
        waits_for: Vec::new(),
        waits_for_left_out: 0,
        stack: Vec::new(),
    }
}

fn ended(process: &Process, who: Who, end: ProcessEnd, places: &mut Places<'_>) -> Last {
    let state = if end.status == 0 { StuckState::Ended } else { StuckState::Died };
    let stack: Vec<Place> = end.place.iter().map(|&place| places.at(place)).collect();
    let rank = StuckRank { status: Some(end.status), stack, ..nobody_says(process, who, state) };
    Last { rank, role: None, reason: String::new(), since_ns: end.time_ns, tid: 0 }
}

fn found(process: &Process, who: Who, look: &Look, places: &mut Places<'_>) -> Last {
    let call = look.thread.call.as_ref().map(|call| StuckCall {
        function: call.function.clone(),
        arguments: owned(crate::hang::call_text::shown(call)),
        place: call.site.map_or_else(Place::default, |site| places.at(called(site))),
    });
    let state = match (&call, look.is_stopped()) {
        (_, true) => StuckState::Stopped,
        (Some(_), false) => StuckState::InCall,
        (None, false) => StuckState::Outside,
    };
    let stack: Vec<Place> = stack(&look.thread).map(|place| places.at(place)).collect();
    let for_ns = look.last_ns.saturating_sub(look.since_ns);
    let reason = format!(
        "It was found so for {} until it was last looked at. No finding is about it.",
        duration_text(for_ns)
    );
    let rank = StuckRank { call, stack, ..nobody_says(process, who, state) };
    Last { rank, role: None, reason, since_ns: look.since_ns, tid: look.thread.tid }
}
