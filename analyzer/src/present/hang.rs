//! Hangs in words.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::text::{
    arguments_text, capitalized, comm_text, counted, place_text, times, who_text, who_text_and,
};
use super::visible::visible;
use crate::findings::finding::{
    CallError, ErrorReturned, Fault, Hang, HangGroup, Place, StuckCall, StuckRank, StuckState, WhoCount,
};
use crate::job::process::Who;
use crate::mpi::calls::{self, CallRow, Lifecycle, LockStep, Waiting};

/// Ranks told one by one in a sentence.
const MOST_TOLD: usize = 3;
/// Frames of a stack shown with each rank.
const MOST_FRAMES: usize = 12;
/// Groups of ranks that are shown.
const MOST_GROUPS: usize = 16;
/// Of so many ranks of a large job that are at fault stacks are shown.
const MOST_STACKS: usize = 2;
/// Different numbers of collective calls that are shown.
const MOST_COUNTS: usize = 8;

/// A hang or a death as a heading.
pub(crate) fn title(hang: &Hang) -> String {
    match hang.fault {
        Fault::Crash => "Crash".to_owned(),
        Fault::MismatchedCollective => match collective_comm(hang) {
            Some(comm) => format!("Collective mismatch on {}", comm_text(comm)),
            None => "Collective mismatch".to_owned(),
        },
        Fault::MissingMessage if awaits_receiver(hang) => "Unmatched send".to_owned(),
        Fault::MissingMessage => "Unmatched receive".to_owned(),
        Fault::Deadlock => "Deadlock".to_owned(),
        Fault::UncompletedRequest => "Uncompleted request".to_owned(),
        Fault::Truncated => "Message truncation (MPI_ERR_TRUNCATE)".to_owned(),
        Fault::InvalidCall => "Invalid call".to_owned(),
        Fault::Outside => "Ranks wait for one that does nothing".to_owned(),
        Fault::Stopped => "Ranks wait for one that is stopped".to_owned(),
        Fault::UnknownHang => "Hang of unknown cause".to_owned(),
        Fault::NotAnalysed => "Too large to analyse within the time".to_owned(),
    }
}

/// Ranks that are told of together: one alone, or a group.
#[derive(Clone)]
struct Party<'a> {
    who: Vec<Who>,
    state: StuckState,
    call: Option<&'a StuckCall>,
    place: Option<&'a Place>,
}

impl<'a> Party<'a> {
    fn of_rank(rank: &'a StuckRank) -> Self {
        let (who, place) = (vec![rank.who], innermost_place(rank));
        Self { who, state: rank.state, call: rank.call.as_ref(), place }
    }

    fn of_group(group: &'a HangGroup) -> Self {
        Self {
            who: group.ranks.clone(),
            state: group.state,
            call: group.call.as_ref(),
            place: group.place.as_ref(),
        }
    }

    fn doing(&self) -> String {
        match self.call {
            Some(call) => call_at(call),
            None => self.place.map_or_else(|| "an unknown place".to_owned(), place_text),
        }
    }
}

/// Those that are at fault, or the others: one by one if all of them are listed so, else by groups.
fn parties(hang: &Hang, at_fault: bool) -> Vec<Party<'_>> {
    let alone: Vec<Party<'_>> =
        hang.ranks.iter().filter(|rank| rank.at_fault == at_fault).map(Party::of_rank).collect();
    let groups = || hang.groups.iter().filter(|group| group.at_fault == at_fault);
    if groups().map(|group| group.ranks.len()).sum::<usize>() <= alone.len() {
        return alone;
    }
    groups().map(Party::of_group).collect()
}

/// The communicator that ranks meet different calls on, if they name the same one.
fn collective_comm(hang: &Hang) -> Option<&str> {
    let parties = [true, false].into_iter().flat_map(|at_fault| parties(hang, at_fault));
    let calls = parties.filter_map(|party| party.call).filter(|call| is_collective(call));
    let mut comms = calls.filter_map(|call| call.arguments.iter().find(|(name, _)| name == "comm"));
    let first = &comms.next()?.1;
    comms.all(|(_, comm)| comm == first).then_some(first)
}

fn is_collective(call: &StuckCall) -> bool {
    let waiting = calls::row(&call.function).and_then(CallRow::waiting);
    matches!(waiting, Some(Waiting::Collective(_) | Waiting::Finalize))
}

/// Whether all ranks at fault that wait for a message want to send it.
fn awaits_receiver(hang: &Hang) -> bool {
    let waits = parties(hang, true).into_iter().filter_map(|party| party.call);
    let mut waits = waits.filter(|call| !is_collective(call)).peekable();
    let sends = |call: &StuckCall| {
        let waiting = calls::row(&call.function).and_then(CallRow::waiting);
        matches!(waiting, Some(Waiting::Send(_)))
    };
    waits.peek().is_some() && waits.all(sends)
}

/// The fault in one sentence, and what to do next.
pub(crate) fn say(hang: &Hang) -> (String, Vec<String>) {
    let (at_fault, waiting) = (parties(hang, true), parties(hang, false));
    let who_at_fault = hang.who_at_fault();
    let (named, others) = (who_text(&who_at_fault), who_text(&hang.who_waits()));
    let has_error = hang.ranks.iter().any(|rank| rank.at_fault && rank.error.is_some());
    let summary = match hang.fault {
        Fault::Deadlock if who_at_fault.len() == 1 => {
            format!("Deadlock: {named} waits for itself: {}.", each(&at_fault))
        }
        Fault::Deadlock => format!("Deadlock: {named} wait for each other: {}.", each(&at_fault)),
        Fault::MissingMessage => missing(hang),
        Fault::UncompletedRequest => {
            let party = waiting.iter().find(|party| party.call.is_some());
            let for_it = party
                .map_or_else(String::new, |party| format!(", which {others} wait for in {}", party.doing()));
            let have = if who_at_fault.len() == 1 { "has" } else { "have" };
            format!(
                "{}: {named} {have} gone to MPI_Finalize without completing a collective call{for_it}.",
                title(hang)
            )
        }
        Fault::Truncated | Fault::InvalidCall | Fault::Crash | Fault::MismatchedCollective if has_error => {
            failed(hang)
        }
        Fault::MismatchedCollective => {
            let party = waiting.iter().find(|party| party.call.is_some());
            let met = party
                .map_or_else(String::new, |party| format!("; {others} wait for that in {}", party.doing()));
            format!("{}: {}{met}.", title(hang), each(&at_fault))
        }
        Fault::Crash | Fault::Truncated | Fault::InvalidCall => {
            crash(hang, &named, &hang.ranks.iter().filter(|rank| !rank.at_fault).collect::<Vec<_>>())
        }
        Fault::Outside => {
            let where_ = at_fault.first().map_or_else(String::new, |party| format!(" at {}", party.doing()));
            let does = if who_at_fault.len() == 1 { "does" } else { "do" };
            format!("{} wait for {named}, which {does} nothing{where_}.", capitalized(&others))
        }
        Fault::Stopped => {
            let is = if who_at_fault.len() == 1 { "is" } else { "are" };
            format!("{} wait for {named}, which {is} stopped.", capitalized(&others))
        }
        Fault::UnknownHang => unknown(hang),
        Fault::NotAnalysed => format!("{}: not known is {}.", title(hang), visible(&hang.unknown.join("; "))),
    };
    (summary, next_steps(hang, &named))
}

/// Nobody moves, and why is not known.
fn unknown(hang: &Hang) -> String {
    let told = hang.groups.iter().take(MOST_TOLD);
    let mut groups: Vec<String> = told
        .map(|group| format!("{} in {}", who_text(&group.ranks), Party::of_group(group).doing()))
        .collect();
    if hang.groups.len() > MOST_TOLD {
        groups.push(format!("and {} more", hang.groups.len() - MOST_TOLD));
    }
    format!("{}: no rank has moved for ten seconds or more: {}.", title(hang), groups.join(", "))
}

fn crash(hang: &Hang, named: &str, others: &[&StuckRank]) -> String {
    let first = hang.ranks.iter().find(|rank| rank.at_fault);
    let how = how_ended(first.and_then(|rank| rank.status), hang.who_at_fault().len());
    // Nobody else is told of that ended with status 0 and is at fault.
    let without = if first.and_then(|rank| rank.status) == Some(0) { ", without MPI_Finalize" } else { "" };
    let place = first.and_then(|rank| rank.stack.first());
    let where_ = place.map_or_else(String::new, |place| format!(" at {}", place_text(place)));
    let (died, wait): (Vec<&StuckRank>, Vec<&StuckRank>) =
        others.iter().partition(|rank| rank.state == StuckState::Died);
    let who = |ranks: Vec<&StuckRank>| who_text(&ranks.iter().map(|rank| rank.who).collect::<Vec<_>>());
    let after = if died.is_empty() { String::new() } else { format!("; {} ended after that", who(died)) };
    let held_up = if wait.is_empty() { String::new() } else { format!("; {} wait for it", who(wait)) };
    format!("{} {how}{without}{where_}{after}{held_up}.", capitalized(named))
}

/// Calls that failed and ended their ranks.
fn failed(hang: &Hang) -> String {
    let (failed, others): (Vec<&StuckRank>, Vec<&StuckRank>) =
        hang.ranks.iter().partition(|rank| rank.at_fault && rank.error.is_some());
    let told = failed.iter().take(MOST_TOLD).map(|rank| {
        let error = rank.error.as_ref().map_or_else(String::new, error_text);
        format!("{} in {}, {error}", who_text(&[rank.who]), doing(rank))
    });
    let mut calls: Vec<String> = told.collect();
    if failed.len() > MOST_TOLD {
        calls.push(format!("and {} more", failed.len() - MOST_TOLD));
    }
    let senders: BTreeSet<Who> = failed.iter().filter_map(|rank| rank.sender).collect();
    let senders: Vec<Who> = senders.into_iter().collect();
    let from = match hang.fault {
        _ if senders.is_empty() => String::new(),
        Fault::MismatchedCollective => format!("; the data came from {}", who_text(&senders)),
        _ => format!("; {} sent it", who_text(&senders)),
    };
    let whos: Vec<Who> = others.iter().filter(|rank| !rank.at_fault).map(|rank| rank.who).collect();
    let after =
        if whos.is_empty() { String::new() } else { format!("; {} ended after that", who_text(&whos)) };
    format!("{}: {}{from}; {}{after}.", title(hang), calls.join("; "), ends(&failed))
}

/// How ranks ended that the sentence is about: all alike, or those together that did.
fn ends(ranks: &[&StuckRank]) -> String {
    let mut alike: Vec<(Option<u32>, Vec<Who>)> = Vec::new();
    for rank in ranks {
        match alike.iter_mut().find(|(status, _)| *status == rank.status) {
            Some((_, who)) => who.push(rank.who),
            None => alike.push((rank.status, vec![rank.who])),
        }
    }
    let are_all_alike = alike.len() == 1;
    let told = alike.iter().map(|(status, who)| {
        let named = match who.len() {
            1 if are_all_alike => "it".to_owned(),
            _ if are_all_alike => "they".to_owned(),
            _ => who_text(who),
        };
        format!("{named} {}", how_ended(*status, who.len()))
    });
    told.collect::<Vec<_>>().join(", ")
}

/// Ranks that died in a call which the sentence is about already.
pub(crate) fn died_in(death: &Hang) -> String {
    let failed = death.ranks.iter().filter(|rank| rank.at_fault && rank.error.is_some());
    let told = failed.take(MOST_TOLD).map(|rank| {
        let error = rank.error.as_ref().map_or_else(String::new, error_text);
        format!("{} {} in it, {error}", who_text(&[rank.who]), how_ended(rank.status, 1))
    });
    told.collect::<Vec<_>>().join("; ")
}

/// What was wrong with a call, as a part of a sentence about it.
fn error_text(error: &CallError) -> String {
    match error {
        CallError::Class(name) => format!("which reported {}", visible(name)),
        CallError::Code(code) => format!("which reported error {code}"),
        CallError::OutsideOfMpi => "before MPI_Init or after MPI_Finalize".to_owned(),
        CallError::AfterFinalize => "after MPI_Finalize".to_owned(),
        CallError::Abort(code) => format!("with error code {code}"),
    }
}

/// A call that failed, and a program that went on.
pub(crate) fn say_returned(returned: &ErrorReturned, who: &[Who]) -> (String, Vec<String>) {
    let summary = format!(
        "A call failed {} and the program went on: {} in {}, {}.",
        times(returned.count),
        who_text(who),
        call_at(&returned.call),
        error_text(&returned.error)
    );
    let next = "If this error is not expected there, look at the arguments of the call; else there is nothing to do.";
    (summary, vec![next.to_owned()])
}

/// How so many ranks ended, all with this status.
fn how_ended(status: Option<u32>, ranks: usize) -> String {
    let how = status.map_or_else(|| "died".to_owned(), status_text);
    match how.strip_prefix("was ") {
        Some(rest) if ranks > 1 => format!("were {rest}"),
        _ => how,
    }
}

/// From a status of wait(2).
fn status_text(status: u32) -> String {
    let name = |signal: u32| match signal {
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        15 => "SIGTERM",
        _ => "",
    };
    match (status & 0x7f, status >> 8 & 0xff) {
        (0, code) => format!("ended with status {code}"),
        (signal, _) if name(signal).is_empty() => format!("was killed by signal {signal}"),
        (signal, _) => format!("was killed by {}", name(signal)),
    }
}

fn missing(hang: &Hang) -> String {
    let is_over =
        |party: &Party<'_>| party.state == StuckState::Ended || party.call.is_some_and(is_collective);
    let (over, waiting): (Vec<Party<'_>>, Vec<Party<'_>>) =
        parties(hang, true).into_iter().partition(is_over);
    let partners: Vec<Who> = over.iter().flat_map(|party| party.who.iter().copied()).collect();
    let partner = who_text(&partners);
    let verb = if partners.len() == 1 { "is" } else { "are" };
    let how = match over.first() {
        None => String::new(),
        Some(party) if party.state == StuckState::Ended => format!(", but {partner} ended"),
        Some(party) => format!(", but {partner} {verb} in {}", party.doing()),
    };
    format!("{}: {}{how}.", title(hang), each(&waiting))
}

/// `rank 0 in MPI_Recv(source 1, tag 0) called at main (a.c:7), rank 1 in …`
fn each(parties: &[Party<'_>]) -> String {
    let told = parties.iter().take(MOST_TOLD);
    let mut text: Vec<String> =
        told.map(|party| format!("{} in {}", who_text(&party.who), party.doing())).collect();
    if parties.len() > MOST_TOLD {
        let more: usize = parties[MOST_TOLD..].iter().map(|party| party.who.len()).sum();
        text.push(format!("and {more} more"));
    }
    text.join(", ")
}

fn doing(rank: &StuckRank) -> String {
    match &rank.call {
        Some(call) => call_at(call),
        None => own_place(rank),
    }
}

/// Whether it only asks.
pub(crate) fn polls(call: &StuckCall) -> bool {
    calls::row(&call.function).is_some_and(CallRow::polls)
}

fn call_text(call: &StuckCall) -> String {
    let function = visible(&call.function);
    if call.arguments.is_empty() {
        return function.into_owned();
    }
    format!("{function}({})", arguments_text(&call.arguments))
}

/// The innermost place that has a source line, else the innermost one.
pub(crate) fn innermost_place(rank: &StuckRank) -> Option<&Place> {
    let has_line = |place: &&Place| place.frames.first().is_some_and(|frame| frame.line.is_some());
    rank.stack.iter().find(has_line).or(rank.stack.first())
}

fn own_place(rank: &StuckRank) -> String {
    innermost_place(rank).map_or_else(|| "an unknown place".to_owned(), place_text)
}

fn next_steps(hang: &Hang, named: &str) -> Vec<String> {
    let is_error = |error: &CallError| hang.ranks.iter().any(|rank| rank.error.as_ref() == Some(error));
    let at_fault = || parties(hang, true).into_iter().filter_map(|party| party.call);
    let takes_lock =
        |call: &StuckCall| calls::row(&call.function).and_then(CallRow::lock_step) == Some(LockStep::Takes);
    match hang.fault {
        Fault::InvalidCall if is_error(&CallError::AfterFinalize) => {
            vec!["Make all MPI calls before MPI_Finalize, those of destructors and exit handlers too.".into()]
        }
        Fault::InvalidCall if is_error(&CallError::OutsideOfMpi) => {
            vec!["Make all MPI calls between MPI_Init and MPI_Finalize.".into()]
        }
        Fault::MismatchedCollective if hang.ranks.iter().any(|rank| rank.error.is_some()) => vec![
            "All ranks must give the same amount of data in this call: compare count and datatype in all of them.".into(),
        ],
        Fault::Deadlock if at_fault().any(takes_lock) => {
            vec!["Give a lock back with MPI_Win_unlock before waiting for ranks that want it.".into()]
        }
        Fault::Deadlock => vec![format!(
            "Change the order of these calls in one of {named}, or use MPI_Sendrecv or nonblocking calls."
        )],
        Fault::MissingMessage => vec![
            "Compare the partner's sends with what is waited for here: source, tag, communicator, and how often.".into(),
        ],
        Fault::MismatchedCollective => vec![
            format!("Look at the branch by which {named} came to another call than the rest."),
            "All ranks of a communicator must make the same collective calls in the same order, with the same root.".into(),
        ],
        Fault::UncompletedRequest => vec![format!(
            "Complete the call in {named} before MPI_Finalize, with MPI_Wait or one of its relatives."
        )],
        Fault::Truncated => vec![
            "Compare what is sent with the room that the receiver gives: count and datatype on both sides.".into(),
            "MPI_Probe and MPI_Get_count tell how long a message is before it is received.".into(),
        ],
        Fault::InvalidCall => vec![format!("Look at where {named} has the arguments of this call from.")],
        Fault::Crash if at_fault().any(|call| calls::lifecycle(&call.function) == Lifecycle::Abort) => {
            let it = if hang.who_at_fault().len() == 1 { "it" } else { "they" };
            vec![format!("{} gave up there: the condition before that call says what {it} met.", capitalized(named))]
        }
        Fault::Crash => vec![format!("Look at the core dump or the last output of {named}; what follows is a consequence.")],
        Fault::Outside => vec![format!("Look at what {named} waits for there: a file, a lock, another program.")],
        Fault::NotAnalysed => {
            vec!["Look at a few of the ranks, or at the stacks of all of them with a debugger: other findings still hold.".into()]
        }
        Fault::UnknownHang => {
            let compare = "Compare these calls with each other: what each rank waits for, and who should do it.";
            let library = "Look for known faults of this version of the MPI library: a call that has nothing to wait for does not return.";
            let more = "Not known is what is named above: `--returns all` from the start tells more.";
            let steps = [
                (hang.complete.len() < hang.who_waits().len(), compare),
                (!hang.complete.is_empty(), library),
                (!hang.unknown.is_empty() && !hang.results, more),
            ];
            steps.into_iter().filter(|(holds, _)| *holds).map(|(_, step)| step.to_owned()).collect()
        }
        Fault::Stopped => vec![format!("Continue {named}: kill -CONT, or in the debugger that holds it.")],
    }
}

/// All ranks with their calls and stacks.
pub(crate) fn render(out: &mut String, hang: &Hang) {
    for unknown in &hang.unknown {
        let _ = writeln!(out, "   not known: {}", visible(unknown));
    }
    if !hang.complete.is_empty() {
        let _ = writeln!(out, "   complete: all requests of {}", who_text(&hang.complete));
    }
    render_ranks(out, hang);
}

/// Rank by rank, or those together that do the same, and how far they have come.
pub(crate) fn render_ranks(out: &mut String, hang: &Hang) {
    let is_named = |rank: &&StuckRank| hang.is_listed() || rank.at_fault;
    let named: Vec<&StuckRank> =
        hang.ranks.iter().filter(is_named).filter(|_| !hang.fault.has_no_cause()).collect();
    let at_fault = hang.who_at_fault().len();
    // A few at fault are told one by one, with their stacks.
    let are_alone = !hang.is_listed() && at_fault <= named.len().min(MOST_STACKS);
    let groups: Vec<&HangGroup> = hang.groups.iter().filter(|group| !(are_alone && group.at_fault)).collect();
    groups.iter().take(MOST_GROUPS).for_each(|group| render_group(out, group, hang.fault));
    if groups.len() > MOST_GROUPS {
        let ranks: usize = groups[MOST_GROUPS..].iter().map(|group| group.ranks.len()).sum();
        let _ = writeln!(out, "   and {} elsewhere", counted(ranks, "more rank"));
    }
    render_counts(out, hang);
    let most = if hang.is_listed() { named.len() } else { MOST_STACKS };
    named.iter().take(most).for_each(|rank| render_rank(out, rank));
    if at_fault > most && !hang.is_listed() {
        let _ = writeln!(
            out,
            "   … and {} at fault; --json has stacks of some",
            counted(at_fault - most, "more rank")
        );
    }
}

fn render_group(out: &mut String, group: &HangGroup, fault: Fault) {
    let role = match (fault.has_no_cause(), group.at_fault) {
        (true, _) => "",
        (false, true) => ", at fault",
        (false, false) => ", waiting",
    };
    let party = Party::of_group(group);
    let does = match group.state {
        StuckState::InCall => party.doing(),
        StuckState::Outside => format!("does nothing at {}", party.doing()),
        StuckState::Stopped => "stopped".to_owned(),
        StuckState::Ended => "ended".to_owned(),
        StuckState::Died => "died".to_owned(),
    };
    let (who, waits_for) = (who_text(&group.ranks), waits_text(&group.waits_for, group.waits_for_left_out));
    let _ = writeln!(out, "   {who}{role}: {does}{waits_for}");
    for pending in &group.pending {
        let _ = writeln!(out, "       waits for {}", visible(pending));
    }
}

/// Ranks that have come as far in their collective calls together.
fn render_counts(out: &mut String, hang: &Hang) {
    for counts in &hang.collectives {
        let by_who =
            |all: &[WhoCount]| -> BTreeMap<Who, u64> { all.iter().map(|one| (one.who, one.count)).collect() };
        let (completed, unknown) = (by_who(&counts.completed), by_who(&counts.unknown));
        let mut by_count: BTreeMap<(u64, u64, u64), Vec<Who>> = BTreeMap::new();
        for &WhoCount { who, count } in &counts.entered {
            let of = |all: &BTreeMap<Who, u64>| all.get(&who).copied().unwrap_or(0);
            by_count.entry((count, of(&completed), of(&unknown))).or_default().push(who);
        }
        // Of many, those that are furthest behind.
        let mut told: Vec<String> =
            by_count.iter().take(MOST_COUNTS).map(|(key, ranks)| progress_text(ranks, *key)).collect();
        if by_count.len() > MOST_COUNTS {
            let more: usize = by_count.values().skip(MOST_COUNTS).map(Vec::len).sum();
            told.push(format!("{} further", counted(more, "rank")));
        }
        let differ = counts
            .differ_at
            .map_or_else(String::new, |at| format!("; call number {at} is the first that differs"));
        let _ = writeln!(out, "   {}: {}{differ}", comm_text(&counts.comm), told.join(", "));
    }
}

fn progress_text(ranks: &[Who], (entered, completed, unknown): (u64, u64, u64)) -> String {
    let unknown = match unknown {
        0 => String::new(),
        unknown => format!(" (not known of {unknown})"),
    };
    let calls = counted(entered as usize, "collective call");
    format!("{} entered {calls} and completed {completed}{unknown}", who_text(ranks))
}

fn waits_text(waits_for: &[Who], left_out: u64) -> String {
    match waits_for {
        [] => String::new(),
        who => format!("; waits for {}", who_text_and(who, left_out)),
    }
}

fn render_rank(out: &mut String, rank: &StuckRank) {
    let role = if rank.at_fault { "at fault" } else { "waits" };
    let waits_for = waits_text(&rank.waits_for, rank.waits_for_left_out);
    let (who, pid) = (who_text(&[rank.who]), rank.pid);
    let _ = writeln!(out, "   {who} (process {pid}), {role}: {}{waits_for}", state_text(rank));
    if !rank.at_fault {
        return;
    }
    for place in rank.stack.iter().take(MOST_FRAMES) {
        let _ = writeln!(out, "       {}", place_text(place));
    }
    if rank.stack.len() > MOST_FRAMES {
        let _ = writeln!(out, "       … and {} more", rank.stack.len() - MOST_FRAMES);
    }
}

/// What it does, in words.
pub(crate) fn state_text(rank: &StuckRank) -> String {
    match rank.state {
        StuckState::InCall => format!("in {}", doing(rank)),
        StuckState::Outside => format!("does nothing at {}", own_place(rank)),
        StuckState::Stopped => format!("stopped at {}", own_place(rank)),
        StuckState::Ended => "ended".to_owned(),
        StuckState::Died => {
            let how = how_ended(rank.status, 1);
            match &rank.error {
                Some(error) => format!("{how} in {}, {}", doing(rank), error_text(error)),
                None => how,
            }
        }
    }
}

/// A call and where it was made.
pub(crate) fn call_at(call: &StuckCall) -> String {
    let mut name = if call.function.is_empty() { "an MPI call".to_owned() } else { call_text(call) };
    if polls(call) {
        name.push_str(" again and again");
    }
    // Of a call whose beginning was not seen only the name is known.
    if call.place.module.is_empty() { name } else { format!("{name} called at {}", place_text(&call.place)) }
}
