//! Makes a page: rows from processes, events from what was kept of them.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use super::data::{EventKind, PAGE_SCHEMA, Page, PageEvent, PageFunction, Row, RowGap, Timeline};
use super::lasts::{Last, told, untold};
use super::places::Places;
use super::sorts::sort_of;
use super::{arguments, groups, verdict};
use crate::findings::finding::{Place, StuckState};
use crate::findings::report::Report;
use crate::job::Job;
use crate::job::messages::CallId;
use crate::job::process::{Process, Who};
use crate::job::symbols::SymbolTable;
use crate::present::clocks::time_error_ns;
use crate::present::hang::{innermost_place, state_text};
use crate::present::render;
use crate::present::text::{capitalized, who_text};
use crate::tape::{node_of, pid_on_node};
use crate::timeline::{History, TimelineAnalysis, TimelineCall, TimelineGap};

/// A page about a session. `report`: with names; `names`: of the places that the timeline asks for, as far as they have any.
pub(crate) fn page(report: Report, job: &Job, calls: &TimelineAnalysis, names: &SymbolTable) -> Page {
    let (timeline, lasts) = Builder::new(job, calls, names).timeline(&report);
    Page {
        schema: PAGE_SCHEMA,
        verdict: verdict::of(&report),
        basis: render::basis(&report.thresholds, &report.statistics).lines().map(str::to_owned).collect(),
        groups: groups::of(&timeline, &lasts),
        timeline,
        report,
    }
}

/// A process that has a row.
struct Known<'a> {
    who: Who,
    /// As its node calls it.
    pid: Option<u32>,
    /// Of a job on several.
    node: Option<usize>,
    index: Option<usize>,
    history: Option<&'a History>,
    last: Option<Last>,
}

struct Builder<'a> {
    job: &'a Job,
    calls: &'a TimelineAnalysis,
    places: Places<'a>,
    functions: Vec<PageFunction>,
    function_numbers: FxHashMap<String, u32>,
    /// Events of calls that messages know.
    by_call: FxHashMap<CallId, u32>,
}

impl<'a> Builder<'a> {
    fn new(job: &'a Job, calls: &'a TimelineAnalysis, table: &'a SymbolTable) -> Self {
        let places = Places { files: &job.names, table, numbers: FxHashMap::default(), all: Vec::new() };
        Self {
            job,
            calls,
            places,
            functions: Vec::new(),
            function_numbers: FxHashMap::default(),
            by_call: FxHashMap::default(),
        }
    }

    /// The timeline, and what each of its rows came to.
    fn timeline(mut self, report: &Report) -> (Timeline, Vec<Option<Last>>) {
        let known = self.known(report);
        let row_of: FxHashMap<Who, u32> = (0..).zip(&known).map(|(row, known)| (known.who, row)).collect();
        let row_of_process: FxHashMap<usize, u32> =
            (0..).zip(&known).filter_map(|(row, known)| Some((known.index?, row))).collect();
        let (mut rows, mut events): (Vec<Row>, Vec<PageEvent>) = (Vec::new(), Vec::new());
        for known in &known {
            let first_event = events.len() as u32;
            events.extend(self.events(rows.len() as u32, known));
            self.remember_calls(known, first_event, &events[first_event as usize..]);
            let last = known.last.as_ref();
            rows.push(Row {
                who: known.who,
                name: capitalized(&who_text(&[known.who])),
                pid: known.pid,
                node: known.node.and_then(|node| self.job.start.nodes.get(node).cloned()),
                time_error_ns: known.node.and_then(|node| time_error_ns(&self.job.start, node)),
                role: last.and_then(|last| last.role),
                waits_for: last.map_or_else(Vec::new, |last| {
                    last.rank.waits_for.iter().filter_map(|who| row_of.get(who).copied()).collect()
                }),
                first_event,
                events: events.len() as u32 - first_event,
                given_up: known.history.map_or(0, |history| history.given_up),
            });
        }
        self.link_messages(&mut events);
        if !self.job.start.nodes.is_empty() {
            events.iter_mut().for_each(|event| event.tid = pid_on_node(event.tid));
        }
        let timeline = Timeline {
            begin_ns: self.job.start.time_ns,
            end_ns: self.since_begin(self.job.now_ns()),
            given_up: rows.iter().map(|row| row.given_up).sum(),
            gaps: self.gaps(&row_of_process),
            rows,
            events,
            functions: self.functions,
            places: self.places.all,
        };
        (timeline, known.into_iter().map(|known| known.last).collect())
    }

    /// Which events of a row are calls that messages know. `events`: all of the row, in order of time.
    fn remember_calls(&mut self, known: &Known<'_>, first_event: u32, events: &[PageEvent]) {
        let (Who::Rank(rank), Some(history)) = (known.who, known.history) else { return };
        for (tid, call) in history.calls().filter(|(_, call)| call.number > 0) {
            let begin_ns = self.since_begin(call.begin_ns);
            let from = events.partition_point(|event| event.begin_ns < begin_ns);
            let at_that_time = events[from..].iter().take_while(|event| event.begin_ns == begin_ns);
            if let Some(at) =
                at_that_time.enumerate().find_map(|(at, event)| (event.tid == tid).then_some(at))
            {
                let id = CallId { rank, tid, number: call.number };
                self.by_call.insert(id, first_event + (from + at) as u32);
            }
        }
    }

    /// Leads from sends to receives and back.
    fn link_messages(&self, events: &mut [PageEvent]) {
        for (send, receive) in self.calls.matched() {
            if let (Some(&from), Some(&to)) = (self.by_call.get(send), self.by_call.get(receive)) {
                events[from as usize].sent_to.push(to);
                events[to as usize].got_from.push(from);
            }
        }
    }

    fn since_begin(&self, time_ns: u64) -> u64 {
        time_ns.saturating_sub(self.job.start.time_ns)
    }

    fn gaps(&self, row_of_process: &FxHashMap<usize, u32>) -> Vec<RowGap> {
        let relative = |gap: TimelineGap| TimelineGap {
            begin_ns: self.since_begin(gap.begin_ns),
            end_ns: self.since_begin(gap.end_ns),
            ..gap
        };
        let of_row = |(process, gap): (Option<usize>, TimelineGap)| match process {
            None => Some(RowGap { row: None, gap: relative(gap) }),
            Some(index) => Some(RowGap { row: Some(*row_of_process.get(&index)?), gap: relative(gap) }),
        };
        self.calls.gaps(self.job).into_iter().filter_map(of_row).collect()
    }

    /// Who has a row: ranks, whatever else called MPI, and whoever is waited for; in order.
    fn known(&mut self, report: &Report) -> Vec<Known<'a>> {
        let ranks = self.job.processes.all().iter().filter_map(|process| Some((process.rank?, process.pid)));
        let is_on_nodes = !self.job.start.nodes.is_empty();
        let own = |pid| if is_on_nodes { pid_on_node(pid) } else { pid };
        let pids: FxHashMap<Who, u32> = ranks.map(|(rank, pid)| (Who::Rank(rank), own(pid))).collect();
        let mut told = told(report, |who| pids.get(&who).copied().unwrap_or(0));
        let mut known = Vec::new();
        for (index, process) in self.job.processes.all().iter().enumerate() {
            known.extend(self.process(index, process, &mut told));
        }
        known.extend(told.into_iter().map(|((who, pid), last)| Known {
            who,
            pid: (pid != 0).then_some(pid),
            node: None,
            index: None,
            history: None,
            last: Some(last),
        }));
        self.drop_empty_doubles(&mut known);
        let have_rows: BTreeSet<Who> = known.iter().map(|known| known.who).collect();
        let lasts = known.iter().filter_map(|known| known.last.as_ref());
        let waited_for: BTreeSet<Who> = lasts.flat_map(|last| last.rank.waits_for.iter().copied()).collect();
        for &who in waited_for.difference(&have_rows) {
            known.push(Known { who, pid: None, node: None, index: None, history: None, last: None });
        }
        known.sort_by_key(|known| (known.who, known.pid));
        known
    }

    fn process(
        &mut self,
        index: usize,
        process: &Process,
        told: &mut BTreeMap<(Who, u32), Last>,
    ) -> Option<Known<'a>> {
        let history = self.calls.history_of(index);
        let has_calls = history.is_some_and(|history| history.calls().next().is_some());
        if process.rank.is_none() && !has_calls {
            return None;
        }
        let who = process.rank.map_or(Who::Pid(process.pid), Who::Rank);
        let (node, pid) = match self.job.start.nodes.is_empty() {
            true => (None, process.pid),
            false => (Some(node_of(process.pid)), pid_on_node(process.pid)),
        };
        let mut last = told.remove(&(who, pid));
        if let (Some(last), Some(look)) = (&mut last, history.and_then(History::last_look)) {
            (last.since_ns, last.tid) = (look.since_ns, look.thread.tid);
        }
        if let (Some(last), Some(end)) = (&mut last, history.and_then(|history| history.end)) {
            last.since_ns = end.time_ns;
        }
        let last = last.or_else(|| untold(process, who, history?, &mut self.places));
        Some(Known { who, pid: Some(pid), node, index: Some(index), history, last })
    }

    /// What carries a rank's environment but never called MPI is of no interest where another process is that rank.
    fn drop_empty_doubles(&self, known: &mut Vec<Known<'a>>) {
        let is_empty = |known: &Known<'_>| {
            let has_calls = known.history.is_some_and(|history| history.calls().next().is_some());
            !has_calls && known.last.as_ref().is_none_or(|last| last.role.is_none())
        };
        let mut by_who: FxHashMap<Who, (usize, usize)> = FxHashMap::default();
        for known in known.iter() {
            let counts = by_who.entry(known.who).or_default();
            if is_empty(known) { counts.1 += 1 } else { counts.0 += 1 }
        }
        known.retain(|known| {
            let counts = by_who.entry(known.who).or_default();
            if !is_empty(known) {
                return true;
            }
            counts.1 -= 1;
            counts.0 == 0 && counts.1 == 0
        });
    }

    /// Events of a row, in order of time.
    fn events(&mut self, row: u32, known: &Known<'_>) -> Vec<PageEvent> {
        let mut calls: Vec<(u32, TimelineCall)> = known
            .history
            .iter()
            .flat_map(|history| history.calls())
            .map(|(tid, call)| (tid, *call))
            .collect();
        calls.sort_by_key(|(_, call)| call.begin_ns);
        let last = known.last.as_ref().map(|last| {
            let same = known.index.and_then(|index| self.call_of(index, last, &calls));
            let entry = same.map(|at| calls.remove(at));
            self.last_event(row, last, entry)
        });
        let history = known.history;
        let mut events: Vec<PageEvent> =
            calls.iter().filter_map(|(tid, call)| Some(self.call_event(row, *tid, call, history?))).collect();
        if let Some(last) = last {
            let before =
                events.iter().rposition(|event| event.tid == last.tid && event.begin_ns <= last.begin_ns);
            let before = before.or_else(|| events.iter().rposition(|event| event.begin_ns <= last.begin_ns));
            if let Some(at) = before {
                events[at].is_before_last = true;
            }
            events.push(last);
            events.sort_by_key(|event| event.begin_ns);
        }
        events
    }

    /// The recorded call that a process was found in: the last one of its thread, if nothing was missed since.
    fn call_of(&self, index: usize, last: &Last, calls: &[(u32, TimelineCall)]) -> Option<usize> {
        let found = last
            .rank
            .call
            .as_ref()
            .filter(|_| matches!(last.rank.state, StuckState::InCall | StuckState::Stopped))?;
        let at = calls.iter().rposition(|(tid, _)| *tid == last.tid)?;
        let call = &calls[at].1;
        let missed = |&(of, gap): &(Option<usize>, TimelineGap)| {
            of.is_none_or(|of| of == index) && gap.end_ns >= call.begin_ns
        };
        let site = call.place.map(|place| (place.file, place.offset_bytes));
        let is_it = self.function_of(call) == found.function
            && call.begin_ns <= last.since_ns
            && site.is_some()
            && site == found.place.file.map(|file| (file, found.place.offset_bytes))
            && !self.calls.gaps(self.job).iter().any(missed);
        is_it.then_some(at)
    }

    fn last_event(&mut self, row: u32, last: &Last, entry: Option<(u32, TimelineCall)>) -> PageEvent {
        let rank = &last.rank;
        let kind = EventKind::from(rank.state);
        let is_death = matches!(kind, EventKind::Ended | EventKind::Died);
        let own = rank.call.as_ref().map(|call| &call.place).or_else(|| innermost_place(rank));
        PageEvent {
            tid: entry.map_or(last.tid, |(tid, _)| tid),
            began_earlier: entry.is_none() && !is_death,
            function: rank.call.as_ref().map(|call| self.function(&call.function)),
            arguments: rank.call.as_ref().map_or_else(Vec::new, |call| call.arguments.clone()),
            place: own.and_then(|place| self.places.number(place)),
            stack: rank.stack.iter().filter_map(|place| self.places.number(place)).collect(),
            reason: reason(last),
            role: last.role,
            is_last: true,
            ..self.event(row, kind, entry.map_or(last.since_ns, |(_, call)| call.begin_ns))
        }
    }

    fn call_event(&mut self, row: u32, tid: u32, call: &TimelineCall, history: &History) -> PageEvent {
        let function = self.function_of(call);
        let arguments = call.arguments.map(|arguments| arguments::shown(function, &arguments, history));
        let place = call.place.map_or_else(Place::default, |place| self.places.at(place));
        PageEvent {
            tid,
            end_ns: call.end_ns.map(|end_ns| self.since_begin(end_ns)),
            function: Some(self.function(function)),
            arguments: arguments.unwrap_or_default(),
            place: self.places.number(&place),
            ..self.event(row, EventKind::Call, call.begin_ns)
        }
    }

    /// One of which no more is known.
    fn event(&self, row: u32, kind: EventKind, begin_ns: u64) -> PageEvent {
        PageEvent {
            row,
            tid: 0,
            kind,
            begin_ns: self.since_begin(begin_ns),
            end_ns: None,
            began_earlier: false,
            function: None,
            arguments: Vec::new(),
            place: None,
            stack: Vec::new(),
            reason: String::new(),
            role: None,
            is_last: false,
            is_before_last: false,
            sent_to: Vec::new(),
            got_from: Vec::new(),
            corrected: None,
            order: None,
        }
    }

    /// Name of the function that was called.
    fn function_of(&self, call: &TimelineCall) -> &'a str {
        self.job.probes.get(call.slot).map_or("", |probe| probe.function.as_str())
    }

    fn function(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.function_numbers.get(name) {
            return number;
        }
        let number = self.functions.len() as u32;
        self.function_numbers.insert(name.to_owned(), number);
        self.functions.push(PageFunction { name: name.to_owned(), sort: sort_of(name) });
        number
    }
}

/// How it ended, and what that means. What it was in stands beside it.
fn reason(last: &Last) -> String {
    match last.rank.state {
        StuckState::Ended | StuckState::Died => {
            format!("{}. {}", capitalized(&state_text(&last.rank)), last.reason).trim().to_owned()
        }
        _ => last.reason.clone(),
    }
}
