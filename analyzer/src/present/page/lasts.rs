//! What processes came to: as findings tell it, else how they ended or where they were last found.

use std::collections::BTreeMap;

use super::arguments::owned;
use super::data::HangRole;
use super::places::Places;
use crate::findings::finding::{Fault, Hang, Place, StuckCall, StuckRank, StuckState};
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

/// What findings tell, by rank and process.
pub(super) fn told(report: &Report) -> BTreeMap<(Who, u32), Last> {
    let mut all: BTreeMap<(Who, u32), Last> = BTreeMap::new();
    for finding in &report.findings {
        let Some(hang) = finding.hang() else { continue };
        for rank in &hang.ranks {
            let new = last_of(rank, hang);
            match all.get_mut(&(rank.who, rank.pid)) {
                None => {
                    all.insert((rank.who, rank.pid), new);
                }
                Some(known) => join(known, new),
            }
        }
    }
    all
}

fn last_of(rank: &StuckRank, hang: &Hang) -> Last {
    let role = if rank.at_fault { HangRole::AtFault } else { HangRole::Affected };
    let since_ns = hang.since_ns;
    Last { rank: rank.clone(), role: Some(role), reason: reason(rank, hang), since_ns, tid: 0 }
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

fn reason(rank: &StuckRank, hang: &Hang) -> String {
    let at_fault: Vec<Who> = hang.ranks.iter().filter(|r| r.at_fault).map(|r| r.who).collect();
    let (culprit, one) = (who_text(&at_fault), at_fault.len() == 1);
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
        _ => format!("It only waits: {culprit} {} at fault.", if one { "is" } else { "are" }),
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
