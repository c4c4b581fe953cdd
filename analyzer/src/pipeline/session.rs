//! A session from inputs to findings: every input goes through [`Pipeline::push`], live or from a tape.
//!
//! A [`Loss`](crate::tape::input::Loss) must be pushed before any record that came after the gap.

use std::collections::BTreeSet;

use super::movements::DataMovement;
use super::pace::Timer;
use crate::chains::one_sided::OneSided;
use crate::chains::stream_ends::StreamEnds;
use crate::chains::sums::DigestSource;
use crate::errors::error_analysis::ErrorAnalysis;
use crate::findings::alerts::AlertBook;
use crate::findings::finding::{Alert, BufferView, Place};
use crate::findings::report::Report;
use crate::hang::hang_analysis::HangAnalysis;
use crate::invariants::chain_analysis::ChainAnalysis;
use crate::job::Job;
use crate::job::event::{CallBegan, Event};
use crate::job::ids::{CallSiteId, SpaceId};
use crate::job::last_calls::CallEntry;
use crate::job::messages::{self, Messages};
use crate::job::movement::Movement;
use crate::job::names::{BufferId, SiteId};
use crate::job::streams::{StreamBytes, StreamPiece};
use crate::job::symbols::SymbolTable;
use crate::job::verbs::RemoteBytes;
use crate::options::Options;
use crate::options::reference::Reference;
use crate::present::page::{self, Page};
use crate::present::report::{self, Sources, Views};
use crate::tape::input::{CodePlace, Input, Start};
use crate::tape::wire::{Body, CallContext, FileId, Header, RawRecord, Record, kind};
use crate::timeline::TimelineAnalysis;

pub use crate::job::LastCall;

/// How far records are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// Calls and messages; of what moves data only how much there is.
    Calls,
    /// Decoded; addresses resolved to places and names.
    Resolve,
    /// Operations linked to chains.
    Link,
    /// Finished chains counted by group.
    Group,
    /// Evaluated at every tick: all there is.
    Findings,
}

/// Evaluations are so much further apart for each process of the job …
const EVALUATION_OF_A_PROCESS_NS: u64 = 20_000;
/// … up to this.
const MOST_EVALUATION_NS: u64 = 2_000_000_000;

/// Follows a job and says what is not like the rest.
pub struct Pipeline {
    depth: Depth,
    /// Movements are linked here, and not on nodes of their own.
    pub(super) links: bool,
    pub(super) job: Job,
    pub(super) chains: ChainAnalysis,
    /// Streams between this node and others, if there are any.
    pub(super) ends: Option<Box<StreamEnds>>,
    pub(super) one_sided: OneSided,
    errors: ErrorAnalysis,
    hang: HangAnalysis,
    timeline: Option<TimelineAnalysis>,
    /// Those of messages, if somebody wants them.
    told: Option<Vec<messages::MessageEvent>>,
    /// Movements, if somebody wants them.
    told_movements: Option<Vec<DataMovement>>,
    alerts: AlertBook,
    evaluates: Timer,
}

impl Pipeline {
    /// Ready for the first input.
    pub fn new(options: Options) -> Self {
        let mut job = Job::new();
        let chains = ChainAnalysis::new(&options, &mut job);
        Self {
            depth: Depth::Findings,
            links: true,
            job,
            chains,
            ends: None,
            one_sided: OneSided::default(),
            errors: ErrorAnalysis::default(),
            hang: HangAnalysis::default(),
            timeline: None,
            told: None,
            told_movements: None,
            alerts: AlertBook::default(),
            evaluates: Timer::default(),
        }
    }

    /// Notes what calls do to each other, for [`Pipeline::take_events`], whether or not results of calls are recorded.
    pub fn with_events(options: Options) -> Self {
        let mut pipeline = Self { told: Some(Vec::new()), ..Self::new(options) };
        pipeline.job.tell_messages();
        pipeline
    }

    /// The same and no more. `links`: movements are linked as far as they tell whose messages were received from anybody.
    pub fn with_events_alone(options: Options, links: bool) -> Self {
        let depth = if links { Depth::Link } else { Depth::Calls };
        let mut pipeline = Self { told: Some(Vec::new()), ..Self::with_depth(options, depth) };
        pipeline.job.may_follow_messages = true;
        pipeline.job.may_follow_data = links;
        pipeline.job.messages.find_no_faults();
        pipeline.job.tell_messages();
        pipeline
    }

    /// Notes what calls do to each other, and every movement of data, for [`Pipeline::take_movements`].
    pub fn with_movements(options: Options) -> Self {
        let mut pipeline = Self { told_movements: Some(Vec::new()), ..Self::with_events(options) };
        pipeline.chains.chains.notes_links = true;
        pipeline
    }

    /// Keeps the last `calls` MPI calls of all threads together, for [`Pipeline::page`].
    pub fn with_timeline(options: Options, calls: usize) -> Self {
        let mut pipeline = Self { timeline: Some(TimelineAnalysis::new(calls)), ..Self::new(options) };
        pipeline.job.tell_messages();
        pipeline
    }

    /// Follows records only so far.
    pub fn with_depth(options: Options, depth: Depth) -> Self {
        let links = depth >= Depth::Link;
        let mut pipeline = Self { depth, links, ..Self::new(options) };
        pipeline.chains.chains.finishes_chains = depth >= Depth::Group;
        pipeline.job.may_follow_messages = depth == Depth::Findings;
        pipeline
    }

    /// Counts chains of the ranks of a node that has this number, and evaluates nothing.
    pub(super) fn of_node(options: Options, node: u32) -> Self {
        let mut pipeline = Self { depth: Depth::Group, ..Self::new(options) };
        pipeline.job.may_follow_collectives_alone = false;
        pipeline.ends = Some(Box::new(StreamEnds::of_node(node)));
        pipeline
    }

    /// Takes the next input. Never fails: what cannot be read is counted.
    pub fn push(&mut self, input: &Input) {
        if let Input::Record(raw) = input {
            return self.push_record(raw);
        }
        self.job.apply(input);
        self.chains.clock(self.job.now_ns());
        self.take_memory_changes();
        self.dispatch();
        match input {
            Input::LateRecord(raw) => self.apply(raw),
            // Movements come as counts.
            Input::Start(start) => self.links = self.depth >= Depth::Link && !start.sums,
            Input::Digest(digest) => self.chains.take_digest(&mut self.job, digest),
            Input::Tick { .. } => self.evaluate(false),
            Input::End(_) => self.evaluate(true),
            _ => {}
        }
    }

    /// Takes a record: the same as [`Input::Record`], without a copy of it.
    #[inline(never)]
    pub fn push_record(&mut self, raw: &RawRecord) {
        self.apply(raw);
    }

    /// Most records are copies: a path of their own needs no regard to what other kinds have. That it is one is asked before
    /// it is decoded, so that all of the path is made for copies alone.
    #[inline(always)]
    fn apply(&mut self, raw: &RawRecord) {
        if raw.kind() == kind::COPY {
            self.job.totals.records += 1;
            match &Record::decode(raw) {
                Ok(record) => self.movement(record),
                Err(_) => self.job.totals.bad_records += 1,
            }
        } else {
            self.apply_other(raw);
        }
    }

    #[inline(always)]
    fn movement(&mut self, record: &Record) {
        self.chains.clock(record.header.time_ns);
        let (process, slot) = self.job.count(record);
        if self.depth == Depth::Calls {
            return;
        }
        let (Body::Copy { context, .. } | Body::Pack { context, .. } | Body::Cross { context, .. }) =
            record.body
        else {
            return;
        };
        if let Some(m) = self.job.movement(process, record, slot, context)
            && self.links
        {
            self.chains.movement(&self.job, &m);
            self.tell_movement(&m);
        }
    }

    #[inline(never)]
    fn apply_other(&mut self, raw: &RawRecord) {
        self.job.totals.records += 1;
        let Ok(record) = &Record::decode(raw) else {
            self.job.totals.bad_records += 1;
            return;
        };
        if self.job.follows_messages {
            self.job.apply_to_calls(raw, record);
            self.take_contents(record.header.time_ns);
        }
        match record.body {
            Body::Pack { .. } | Body::Cross { .. } => self.movement(record),
            Body::Stream { .. } => self.stream(record),
            Body::Remote { .. } => self.remote(record),
            _ => self.apply_event(record),
        }
        self.take_memory_changes();
        self.dispatch();
    }

    /// An RDMA operation moved data to memory of another process or from there.
    fn remote(&mut self, record: &Record) {
        let h = &record.header;
        self.chains.clock(h.time_ns);
        let (process, _) = self.job.count(record);
        let Body::Remote { addr, len_bytes, write, context, .. } = record.body else { return };
        let Some(moved) = RemoteBytes::of(&record.body) else { return };
        match self.job.remote_movement(process, h, &moved, context) {
            Some(m) => {
                if self.links {
                    self.chains.movement(&self.job, &m);
                    self.tell_movement(&m);
                }
                self.know_writer(moved.stream, moved.position, None);
            }
            None if self.move_elsewhere(process, h, &moved, context) => {}
            None => self.one_end(process, h, (addr, !write), len_bytes, context),
        }
    }

    /// The other end of a movement is not known.
    fn one_end(
        &mut self,
        process: usize,
        h: &Header,
        end: (u64, bool),
        len_bytes: u32,
        context: CallContext,
    ) {
        let piece = StreamPiece { space: SpaceId::NONE, start: 0, end: len_bytes.into(), offset_bytes: 0 };
        let m = self.job.stream_movement(process, h, end, &piece, context);
        if self.links {
            self.chains.stream_movement(&self.job, &m, piece.space);
            self.tell_movement(&m);
        }
    }

    /// Data went into a stream or out of it.
    fn stream(&mut self, record: &Record) {
        let h = &record.header;
        self.chains.clock(h.time_ns);
        let (process, _) = self.job.count(record);
        let Body::Stream { addr, stream, position, len_bytes, receive, context } = record.body else {
            return;
        };
        let moved = StreamBytes { stream, position, len_bytes, receive };
        if receive && self.ends.is_some() {
            self.reach(h.pid, stream, position);
        }
        // The kernel's own records have no probe.
        self.job.take_stream_bytes(process, moved, h.probe != 0);
        self.take_memory_changes();
        let mut by = None;
        for index in 0..self.job.streams.change.pieces.len() {
            let piece = self.job.streams.change.pieces[index];
            let m = self.job.stream_movement(process, h, (addr, receive), &piece, context);
            if self.links {
                let operation = self.chains.stream_movement(&self.job, &m, piece.space);
                by = operation.filter(|_| piece.space.is_some()).or(by);
                self.tell_movement(&m);
            }
        }
        if self.ends.is_some() && !receive {
            self.know_writer(stream, position, by);
        }
        self.job.forget_read_bytes();
    }

    #[inline(always)]
    fn take_contents(&mut self, time_ns: u64) {
        while self.job.has_contents()
            && let Some(content) = self.job.next_content()
        {
            if let Some(m) = self.chains.content(&mut self.job, &content, time_ns) {
                self.tell_movement(&m);
            }
        }
    }

    #[inline(always)]
    pub(super) fn take_memory_changes(&mut self) {
        if !self.job.memory_changes.is_empty() {
            self.chains.memory_changed(&self.job, &self.job.memory_changes);
            self.job.memory_changes.clear();
        }
    }

    /// A record that moves no data.
    fn apply_event(&mut self, record: &Record) {
        let h = &record.header;
        self.chains.clock(h.time_ns);
        let (process, slot) = self.job.count(record);
        let thread = self.job.thread(process, h.tid);
        self.chains.other_record(&self.job, thread);
        if let Body::Call { nested: false, return_address, args: arguments } = record.body {
            let begun = CallEntry { probe: slot, return_address, arguments };
            let began = self.job.begin_call(process, thread, h, begun);
            // What was learnt before it comes before it.
            self.dispatch();
            self.tell_call(&began);
        } else {
            self.job.apply_record(process, h, &record.body, slot);
        }
    }

    #[inline(always)]
    fn tell_call(&mut self, began: &CallBegan) {
        if self.depth == Depth::Calls {
            return;
        }
        self.errors.begin_call(&self.job, began);
        self.hang.begin_call(&self.job, began);
        if let Some(timeline) = &mut self.timeline {
            timeline.begin_call(&self.job, began);
        }
    }

    fn tell(&mut self, event: &Event) {
        if self.depth == Depth::Calls {
            return;
        }
        self.chains.on(&self.job, event);
        self.errors.on(&self.job, event);
        self.hang.on(&self.job, event);
        if let Some(timeline) = &mut self.timeline {
            timeline.on(&self.job, event);
        }
    }

    /// Tells analyses what the last input meant.
    #[inline]
    fn dispatch(&mut self) {
        if self.job.has_events() {
            self.dispatch_all();
        }
    }

    #[inline(never)]
    fn dispatch_all(&mut self) {
        let mut events = self.job.take_events();
        for event in &events {
            self.tell(event);
        }
        if let Some(told) = &mut self.told {
            told.extend(events.drain(..).filter_map(|event| match event {
                Event::Message(event) => Some(event),
                _ => None,
            }));
        }
        self.job.reuse(events);
    }

    /// Raises and withdraws alerts, if what they rest on has changed.
    fn evaluate(&mut self, at_end: bool) {
        if self.depth < Depth::Findings {
            return;
        }
        // An evaluation goes through all ranks: with many of them not every tick is worth one.
        let period_ns = self.job.processes.all().len() as u64 * EVALUATION_OF_A_PROCESS_NS;
        if !self.evaluates.take(self.job.now_ns(), period_ns.min(MOST_EVALUATION_NS)) && !at_end {
            return;
        }
        let due = [
            self.chains.evaluate(&self.job, at_end),
            self.errors.take_changed(&self.job),
            self.hang.take_changed(&self.job),
            self.job.messages.take_mismatched(),
            self.job.heap_errors.take_new(),
            at_end,
        ];
        if due.contains(&true) {
            let (findings, hangs) = report::evaluated(&self.sources());
            self.alerts.update(findings, at_end);
            self.hang.remember(hangs);
        }
    }

    fn sources(&self) -> Sources<'_> {
        Sources {
            job: &self.job,
            chains: &self.chains,
            errors: &self.errors,
            hang: &self.hang,
            evaluation: &self.chains.evaluation,
            comparison: &self.chains.comparison,
        }
    }

    /// What changed since the last call; only ticks and the end change anything.
    pub fn take_alerts(&mut self) -> Vec<Alert> {
        self.alerts.take()
    }

    /// What was learnt of calls and messages since the last call; nothing unless made by [`Pipeline::with_events`].
    pub fn take_events(&mut self) -> Vec<messages::MessageEvent> {
        self.told.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Notes a movement if somebody wants to hear of it.
    #[inline(always)]
    pub(super) fn tell_movement(&mut self, m: &Movement) {
        if let Some(movements) = &mut self.told_movements {
            let linked = self.chains.chains.linked_last.take();
            movements.push(DataMovement::of(m, linked, &self.job.processes));
        }
    }

    /// Movements since the last call; nothing unless made by [`Pipeline::with_movements`].
    pub fn take_movements(&mut self) -> impl Iterator<Item = DataMovement> + use<'_> {
        self.told_movements.iter_mut().flat_map(|movements| movements.drain(..))
    }

    /// The place in code that a movement calls so; names are not filled in.
    pub fn site_place(&self, site: u32) -> Place {
        Views { p: &self.sources() }.place(SiteId(site))
    }

    /// The MPI call that a movement calls so, and the place that it returns to; none: it was in no call.
    pub fn call_of_site(&self, call: u32) -> Option<(String, Place)> {
        let call = CallSiteId(call);
        if !call.is_some() {
            return None;
        }
        let (function, site) = self.job.probes.call_parts(call);
        (!function.is_empty()).then(|| (function, Views { p: &self.sources() }.place(site)))
    }

    /// The buffer that a movement calls so.
    pub fn buffer_view(&self, buffer: u32) -> BufferView {
        Views { p: &self.sources() }.buffer(BufferId(buffer))
    }

    /// All that is to be said now. Asking changes nothing, least of all when alerts are raised.
    /// Code places have no names yet: see [`Report::symbolize`].
    pub fn report(&mut self) -> Report {
        let evaluation = self.chains.evaluated_now(&self.job);
        let comparison = self.chains.compared_now(&self.job, true);
        report::report(&Sources { evaluation: &evaluation, comparison: &comparison, ..self.sources() })
    }

    /// What a page shows of a report, with names that came with the inputs; nothing unless made by
    /// [`Pipeline::with_timeline`].
    pub fn page(&mut self, report: Report) -> Option<Page> {
        self.settled_page(report, None)
    }

    /// The same with other names.
    pub fn page_with(&mut self, report: Report, names: &SymbolTable) -> Option<Page> {
        self.settled_page(report, Some(names))
    }

    fn settled_page(&mut self, report: Report, names: Option<&SymbolTable>) -> Option<Page> {
        let timeline = self.timeline.as_mut()?;
        timeline.settle();
        Some(page::page(report, &self.job, timeline, names.unwrap_or(&self.job.symbols)))
    }

    /// What is counted.
    pub(super) fn digest_source(&mut self) -> DigestSource<'_> {
        let ChainAnalysis { chains, groups, ops, .. } = &mut self.chains;
        DigestSource { job: &self.job, chains, groups, ops }
    }

    /// How the session began, as far as it is known.
    pub(super) fn start(&self) -> &Start {
        &self.job.start
    }

    /// What is known of calls and messages.
    pub fn messages(&self) -> &Messages {
        &self.job.messages
    }

    /// Where a call was made: the place that it returns to.
    pub fn call_place(&self, call: &messages::Call) -> Option<CodePlace> {
        self.job.call_place(call)
    }

    /// The path of a file, as the job sees it.
    pub fn path(&self, file: FileId) -> String {
        self.job.names.path(file)
    }

    /// The last MPI call of each thread of a process, as it began: for whoever samples what the thread is doing.
    pub fn last_calls(&self, pid: u32) -> impl Iterator<Item = LastCall> {
        self.job.last_calls(pid)
    }

    /// Names of code places that came with the inputs.
    pub fn symbols(&self) -> &SymbolTable {
        &self.job.symbols
    }

    /// Code places of the report that have no names yet, in order.
    pub fn wanted_symbols(&mut self) -> Vec<(FileId, u64)> {
        self.report().wanted_symbols(&self.job.symbols)
    }

    /// Code places of the page that are not among `names`, in order.
    pub fn wanted_by_timeline(&self, names: &SymbolTable) -> Vec<(FileId, u64)> {
        self.timeline.as_ref().map_or_else(Vec::new, |timeline| timeline.wanted_symbols(names))
    }

    /// Probes (by id) whose movements were part of a chain of two operations or more.
    pub fn joining_probes(&self) -> BTreeSet<u32> {
        self.chains.joining_probes(&self.job)
    }

    /// The chains of this run, as what other runs are to be held against.
    pub fn into_reference(self) -> Reference {
        self.chains.reference(&self.job)
    }
}
