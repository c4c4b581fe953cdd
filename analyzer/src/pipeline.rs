//! The single dispatch: every input goes through [`Pipeline::push`], live or from a tape.
//!
//! A [`Loss`] must be pushed before any record that came after the gap.

use std::collections::BTreeSet;

use rustc_hash::FxHashSet;

use crate::chains::Movement;
use crate::errors::deaths::Deaths;
use crate::failures::Failures;
use crate::findings::alerts::AlertBook;
use crate::findings::finding::{Alert, Report, Verdict};
use crate::hang::progress::Watch;
use crate::invariants::frequent_chains::{Evaluation, FrequentChains};
use crate::invariants::rank_mix::{self, Comparison};
use crate::invariants::reference::Reference;
use crate::job::coverage::{Change, Coverage};
use crate::job::last_calls::{Begun, CallsSeen};
use crate::job::locks::Locks;
use crate::job::messages::{Event, LeftOver, Messages};
use crate::job::names::SiteId;
use crate::job::probes::Probes;
use crate::job::process::CallId;
use crate::job::request_origins::HandlesMade;
use crate::job::resolve;
use crate::job::state::{MapRecord, State};
use crate::mpi::calls::{self, CallRow};
use crate::options::Options;
use crate::present::report;
use crate::present::symbols::SymbolTable;
use crate::tape::input::{self, Input, Loss, Start, Threads};
use crate::tape::plan::{Plan, Probe, ProbeClass};

use crate::tape::wire::{Body, CallContext, FileId, Header, RawRecord, Record, kind};

pub use crate::calls_begun::LastCall;

/// Counts of the whole session.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub records: u64,
    pub bad_records: u64,
    pub unplanned_records: u64,
    pub late_records: u64,
    pub lost_movements: u64,
    pub lost_state: u64,
    /// Messages whose data moved unseen.
    pub unseen_messages: u64,
}

/// How far records are followed. Anything but [`Depth::Findings`] is for measuring what each part costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// Decoded; addresses resolved to places and names.
    Resolve,
    /// Operations linked to chains.
    Link,
    /// Finished chains counted by group.
    Group,
    /// Evaluated at every tick: all there is.
    Findings,
}

/// Follows a job and says what is not like the rest.
pub struct Pipeline {
    depth: Depth,
    pub(crate) options: Options,
    pub(crate) state: State,
    pub(crate) probes: Probes,
    pub(crate) totals: Totals,
    pub(crate) coverage: Coverage,
    pub(crate) start: Start,
    pub(crate) ended: Option<String>,
    pub(crate) frequent: FrequentChains,
    evaluation: Evaluation,
    comparison: Comparison,
    symbols: SymbolTable,
    evaluated: Option<Evaluated>,
    compared: Option<Compared>,
    alerts: AlertBook,
    pub(crate) standstill: Watch,
    pub(crate) deaths: Deaths,
    pub(crate) calls_seen: CallsSeen,
    pub(crate) handles_made: HandlesMade,
    pub(crate) locks: Locks,
    pub(crate) messages: Messages,
    /// Results of calls are recorded: else nothing can be told of messages.
    follows_messages: bool,
    pub(crate) left_over: Vec<LeftOver>,
    pub(crate) failures: Failures,
    /// Something was seen that findings about standstills may depend on.
    pub(crate) stirred: bool,
}

/// Whether results of calls are recorded. Those of MPI_Finalize, and of calls that make communicators, always are.
fn records_results(probe: &Probe) -> bool {
    let always = calls::row(&probe.function).is_some_and(CallRow::always_returns);
    probe.class == ProbeClass::CallResults && !always
}

fn watches_collectives(probe: &Probe) -> bool {
    let is_call = matches!(probe.class, ProbeClass::Call | ProbeClass::CallResults);
    is_call && calls::row(&probe.function).is_some_and(CallRow::is_collective)
}

/// What the last evaluation saw.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Evaluated {
    chains: u64,
    uncounted: u64,
}

/// What the last comparison saw.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Compared {
    evaluated: Evaluated,
    used: usize,
}

impl Pipeline {
    /// Ready for the first input.
    pub fn new(options: Options) -> Self {
        let mut state = State::new(&options);
        let probes = Probes::new(&mut state.names);
        if let Some(reference) = &options.reference {
            reference.add_to(&mut state.groups, &mut state.names);
        }
        Self {
            depth: Depth::Findings,
            state,
            probes,
            totals: Totals::default(),
            coverage: Coverage::default(),
            start: Start::default(),
            ended: None,
            frequent: FrequentChains::default(),
            evaluation: Evaluation::default(),
            comparison: Comparison::default(),
            symbols: SymbolTable::default(),
            evaluated: None,
            compared: None,
            alerts: AlertBook::default(),
            standstill: Watch::default(),
            deaths: Deaths::default(),
            calls_seen: CallsSeen::default(),
            handles_made: HandlesMade::default(),
            locks: Locks::default(),
            messages: Messages::default(),
            follows_messages: false,
            left_over: Vec::new(),
            failures: Failures::default(),
            stirred: false,
            options,
        }
    }

    /// Notes what calls do to each other, for [`Pipeline::take_events`], whether or not results of calls are recorded.
    pub fn heard(options: Options) -> Self {
        let mut messages = Messages::heard();
        messages.follow_data();
        Self { messages, follows_messages: true, ..Self::new(options) }
    }

    /// What is known of calls and messages.
    pub fn messages(&self) -> &Messages {
        &self.messages
    }

    /// What was learnt of calls and messages since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.messages.take_events()
    }

    /// Follows records only so far.
    pub fn with_depth(options: Options, depth: Depth) -> Self {
        let mut pipeline = Self { depth, ..Self::new(options) };
        pipeline.state.chains.finishes_chains = depth >= Depth::Group;
        pipeline
    }

    /// Takes the next input. Never fails: what cannot be read is counted.
    pub fn push(&mut self, input: &Input) {
        self.follow_messages(input);
        match input {
            Input::Start(start) => self.begin(start),
            Input::Process(facts) => self.state.learn(facts),
            Input::Plan(plan) => self.plan(plan),
            Input::Record(raw) => self.push_record(raw),
            Input::LateRecord(raw) => self.late(raw),
            Input::Loss(loss) => self.lose(loss),
            Input::Coverage(coverage) => self.cover(coverage),
            Input::Threads(threads) => self.look(threads),
            Input::Tick { time_ns } => {
                self.clock(*time_ns);
                self.evaluate(false);
            }
            Input::Symbols(symbols) => self.symbols.extend(symbols),
            Input::End(end) => {
                self.clock(end.time_ns);
                self.ended = Some(end.reason.clone());
                self.state.chains.finish(&mut self.state.names, &mut self.state.groups);
                self.evaluate(true);
            }
        }
    }

    /// Takes a record: the same as [`Input::Record`], without a copy of it.
    ///
    /// Most are copies: a path of their own needs no regard to what other kinds have.
    #[inline(never)]
    pub fn push_record(&mut self, raw: &RawRecord) {
        if raw.kind() == kind::COPY {
            self.decode(raw, |_, _| {});
        } else {
            self.push_other(raw);
        }
    }

    #[inline(never)]
    fn push_other(&mut self, raw: &RawRecord) {
        self.decode(raw, |pipeline, record| {
            if pipeline.follows_messages {
                pipeline.messages.record(raw, record);
                pipeline.follow_data(record.header.time_ns);
            }
        });
    }

    /// What is known of processes and probes is needed when calls come; records are followed from the first plan with
    /// results of calls.
    fn follow_messages(&mut self, input: &Input) {
        match input {
            Input::Plan(plan) => {
                let has_results = plan.probes.iter().any(records_results);
                if has_results && self.depth == Depth::Findings {
                    self.follows_messages = true;
                    self.messages.follow_partly(false);
                    self.messages.follow_data();
                } else if !self.follows_messages && plan.probes.iter().any(watches_collectives) {
                    self.follows_messages = self.depth == Depth::Findings;
                    self.messages.follow_partly(true);
                }
                self.messages.push(input);
            }
            Input::Process(_) => self.messages.push(input),
            Input::LateRecord(_) | Input::Loss(_) | Input::Coverage(_) if self.follows_messages => {
                self.messages.push(input);
            }
            Input::End(_) if self.follows_messages => {
                self.messages.push(input);
                self.left_over = self.messages.left_over();
            }
            _ => {}
        }
    }

    /// What changed since the last call; only ticks and the end change anything.
    pub fn take_alerts(&mut self) -> Vec<Alert> {
        self.alerts.take()
    }

    /// All that is to be said now. Asking changes nothing, least of all when alerts are raised.
    /// Code places have no names yet: see [`Report::symbolize`].
    pub fn report(&mut self) -> Report {
        let evaluation = self.evaluate_chains();
        let comparison = self.compare_ranks(true);
        report::report(self, &evaluation, &comparison)
    }

    /// Names of code places that came with the inputs.
    pub fn symbols(&self) -> &SymbolTable {
        &self.symbols
    }

    /// Code places of the report that have no names yet, in order.
    pub fn wanted_symbols(&mut self) -> Vec<(FileId, u64)> {
        self.report().wanted_symbols(&self.symbols)
    }

    /// Probes (by id) whose movements were part of a chain of two operations or more.
    pub fn joining_probes(&self) -> BTreeSet<u32> {
        let chains =
            self.state.groups.all().iter().filter(|group| group.count > 0 && group.symbols.len() > 1);
        let site = |&symbol| self.state.names.symbol_parts(symbol).site;
        let sites: FxHashSet<SiteId> = chains.flat_map(|group| group.symbols.iter().map(site)).collect();
        self.probes
            .all()
            .filter(|(_, probe)| sites.contains(&probe.site))
            .map(|(_, probe)| probe.id)
            .collect()
    }

    /// The chains of this run, as what other runs are to be held against.
    pub fn into_reference(self) -> Reference {
        Reference::from_groups(&self.state.groups, &self.state.names)
    }

    /// Operations and records that a loss may have changed or hidden.
    pub(crate) fn uncounted(&self) -> u64 {
        let t = &self.totals;
        let lost = t.lost_movements.saturating_add(t.lost_state).saturating_add(t.late_records);
        self.state.chains.counts.tainted_ops.saturating_add(lost)
    }

    fn begin(&mut self, start: &Start) {
        self.start = start.clone();
        if start.launched {
            self.state.chains.watched_from_birth();
        }
        self.clock(start.time_ns);
    }

    fn plan(&mut self, plan: &Plan) {
        self.failures.learn(plan);
        for file in &plan.files {
            self.state.names.file(file.id, &file.path, file.build_id.as_deref(), true);
            if file.own {
                self.state.own_files.insert(file.id);
            }
        }
        for probe in &plan.probes {
            self.probes.add(probe, &mut self.state.names);
        }
    }

    #[inline(always)]
    fn clock(&mut self, time_ns: u64) {
        self.state.groups.advance(time_ns);
    }

    fn late(&mut self, raw: &RawRecord) {
        self.totals.late_records += 1;
        let process = self.state.process(raw.pid());
        self.state.processes.get_mut(process).counts.late += 1;
        self.taint(raw.time_ns(), raw.time_ns(), false);
        self.decode(raw, |_, _| {});
    }

    fn lose(&mut self, loss: &Loss) {
        if loss.movements == 0 && loss.state == 0 {
            return;
        }
        let process = self.state.process(loss.pid);
        // Processes that start share a ring: whose records were lost is known of ranks only.
        match self.state.processes.get(process).rank {
            Some(_) => self.forget_calls(loss.pid),
            None => {
                self.forget_all_calls();
                self.failures.errors.clear();
            }
        }
        let counts = &mut self.state.processes.get_mut(process).counts;
        counts.lost_movements = counts.lost_movements.saturating_add(loss.movements);
        counts.lost_state = counts.lost_state.saturating_add(loss.state);
        let t = &mut self.totals;
        t.lost_movements = t.lost_movements.saturating_add(loss.movements);
        t.lost_state = t.lost_state.saturating_add(loss.state);
        self.taint(loss.from_ns, loss.to_ns, loss.state > 0);
    }

    /// What is under way may not be what it seems. `forever`: nor what memory looks like.
    fn taint(&mut self, from_ns: u64, to_ns: u64, forever: bool) {
        self.state.chains.lose(forever);
        self.state.groups.touch(from_ns, to_ns);
        if forever {
            self.state.groups.timeline.touch_from(from_ns);
        }
    }

    /// What is under way at a pause ends there, as at the end of a session; after it, watching begins anew.
    fn cover(&mut self, now: &input::Coverage) {
        self.clock(now.time_ns);
        let was_off = std::mem::take(&mut self.coverage.off);
        let heap_unseen = now.off.iter().any(|id| !was_off.contains(id) && self.is_heap_probe(*id));
        if heap_unseen {
            self.state.forget_heap();
        }
        if self.coverage.update(now) == Change::Pause {
            self.standstill.clear();
            self.forget_all_calls();
            self.state.chains.pause(&mut self.state.names, &mut self.state.groups);
        }
    }

    fn is_heap_probe(&self, id: u32) -> bool {
        let class = self.probes.get(self.probes.slot(id)).map(|probe| probe.class);
        matches!(class, Some(ProbeClass::Alloc | ProbeClass::Free))
    }

    /// Where threads are that had been quiet. While not everything is watched, who is quiet may still move.
    fn look(&mut self, threads: &Threads) {
        self.clock(threads.time_ns);
        if self.coverage.is_paused() {
            return;
        }
        let processes = &self.state.processes;
        let moved_ns = |pid| processes.find(pid).map_or(0, |index| processes.get(index).moved_ns);
        let mut threads = threads.clone();
        for thread in &mut threads.threads {
            let function = |slot| Some(self.probes.get(slot)?.function.clone());
            if let Some(call) = &mut thread.call {
                self.handles_made.complete(thread.pid, call, function);
            }
        }
        self.standstill.look(&threads, moved_ns);
        self.stirred = true;
    }

    /// `first`: what is to be done with a record before anything else.
    #[inline(always)]
    fn decode(&mut self, raw: &RawRecord, first: impl FnOnce(&mut Self, &Record)) {
        self.totals.records += 1;
        match Record::decode(raw) {
            Ok(record) => {
                first(self, &record);
                self.record(&record);
            }
            Err(_) => self.totals.bad_records += 1,
        }
    }

    #[inline(always)]
    fn record(&mut self, record: &Record) {
        let h = &record.header;
        self.clock(h.time_ns);
        let process = self.state.process(h.pid);
        let slot = self.probes.slot(h.probe);
        self.count(process, h, &record.body, slot);
        if h.probe != 0 && slot == 0 {
            self.totals.unplanned_records += 1;
        }
        match record.body {
            Body::Copy { context, .. } | Body::Pack { context, .. } | Body::Cross { context, .. } => {
                self.movement(process, record, slot, context);
            }
            _ => self.other(process, h, &record.body, slot),
        }
    }

    #[inline(always)]
    fn count(&mut self, process: usize, h: &Header, body: &Body, slot: usize) {
        let processes = &mut self.state.processes;
        let moved = processes.get_mut(process);
        moved.moved_ns = moved.moved_ns.max(h.time_ns);
        processes.count(process, body.kind());
        if h.probe != 0 && kind::is_hit(body.kind()) {
            processes.count_hit(process, slot);
        }
    }

    #[inline(always)]
    fn movement(&mut self, process: usize, record: &Record, slot: usize, context: CallContext) {
        let call_slot = self.probes.slot(context.probe);
        let call = self.call(process, context);
        let Some(m) = resolve::movement(&mut self.state, &self.probes, process, record, slot, call) else {
            self.state.processes.get_mut(process).counts.empty_movements += 1;
            return;
        };
        self.count_movement(process, call_slot, &m);
        if self.depth < Depth::Link {
            return;
        }
        if self.coverage.is_paused() {
            return;
        }
        self.state.chains.movement(&m, &mut self.state.names, &mut self.state.groups);
    }

    #[inline(always)]
    pub(crate) fn count_movement(&mut self, process: usize, call_slot: usize, m: &Movement) {
        let process = self.state.processes.get_mut(process);
        process.movements += 1;
        process.bytes = process.bytes.saturating_add(m.len_bytes);
        let call = self.probes.call_counts(call_slot);
        call.movements += 1;
        call.bytes = call.bytes.saturating_add(m.len_bytes);
    }

    #[inline(always)]
    fn call(&mut self, process: usize, context: CallContext) -> CallId {
        let CallContext { return_address, probe, .. } = context;
        let recent = self.state.processes.get(process).recent_call(return_address, probe);
        if recent.is_some() { recent } else { self.other_call(process, context) }
    }

    fn other_call(&mut self, process: usize, context: CallContext) -> CallId {
        if context == CallContext::default() {
            return CallId::NONE;
        }
        let (return_address, probe) = (context.return_address, context.probe);
        let site = self.state.site_of(process, return_address);
        let call = self.probes.call(probe, site);
        // Nowhere is no call, unless it has a number.
        if (return_address, probe) != (0, 0) {
            self.state.processes.get_mut(process).remember_call(return_address, probe, call);
        }
        call
    }

    /// Everything that moves no data. Whatever a thread does ends a run of copies.
    fn other(&mut self, process: usize, h: &Header, body: &Body, slot: usize) {
        let state = &mut self.state;
        let thread = state.thread(process, h.tid);
        state.chains.end_run(thread);
        match *body {
            Body::Call { nested, return_address, args } if !nested => {
                let begun = Begun { probe: slot, return_address, arguments: args };
                self.calls_seen.note(h.pid, h.tid, begun);
                self.follow_life(process, h, &begun);
                self.state.processes.get_mut(process).counts.calls += 1;
                self.probes.call_counts(slot).calls += 1;
            }
            Body::Made { handle } => self.made(h, slot, handle),
            Body::Return { argument, word, .. } => {
                self.returned(h, slot, argument, word);
                self.follow_return(process, slot);
            }
            Body::Alloc { addr, size_bytes, old, caller } => {
                let counts = size_bytes >= self.start.alloc_min_bytes || state.is_own(process, caller);
                if counts {
                    state.allocate(process, addr, size_bytes, old, caller);
                }
            }
            Body::Free { addr, .. } => state.free(process, addr),
            Body::Map { addr, len_bytes, offset_bytes, file, shared, exec, has_file } => {
                let file = has_file.then_some(file);
                state.map(
                    process,
                    h.time_ns,
                    &MapRecord { addr, len_bytes, offset_bytes, file, shared, exec },
                );
            }
            Body::Unmap { addr, len_bytes } => state.unmap(process, h.time_ns, addr, len_bytes),
            Body::Fork { child } => state.fork(process, child),
            Body::Exec => {
                state.exec(process);
                self.forget_calls(h.pid);
            }
            Body::Call { return_address, args, .. } => {
                self.report_error(process, h, slot, return_address, &args);
            }
            Body::Done => self.survive_error(h, slot),
            Body::Exit { status, at } => self.end_process(process, h.time_ns, status, at),
            _ => {}
        }
    }

    /// Raises and withdraws alerts, if what they rest on has changed. Ranks are compared when it
    /// is worth it, or at the end.
    fn evaluate(&mut self, at_end: bool) {
        if self.depth < Depth::Findings {
            return;
        }
        let now = Evaluated { chains: self.state.groups.chains, uncounted: self.uncounted() };
        let used = self.state.groups.timeline.used();
        let compare = Compared { evaluated: now, used };
        let chains_due = self.evaluated != Some(now);
        let ranks_due = self.compared != Some(compare) && (at_end || self.is_comparison_due(compare));
        if chains_due {
            self.evaluation = self.evaluate_chains();
            self.evaluated = Some(now);
        }
        if ranks_due {
            self.comparison = self.compare_ranks(false);
            self.compared = Some(compare);
        }
        let now_ns = self.state.groups.timeline.now_ns();
        self.stirred |= self.messages.take_mismatched();
        if chains_due || ranks_due || at_end || std::mem::take(&mut self.stirred) {
            let findings = report::findings(self, &self.evaluation, &self.comparison);
            self.alerts.update(findings, at_end);
            // What is open now is not for long.
            self.stirred |= self.is_origin_open() || self.messages.collectives().is_open(now_ns);
        }
    }

    fn evaluate_chains(&mut self) -> Evaluation {
        let (uncounted, limit) = (self.uncounted(), self.surest_verdict());
        let state = &mut self.state;
        let mut evaluation =
            self.frequent.evaluate(&state.groups, &mut state.names, uncounted, &self.options);
        for violation in &mut evaluation.violations {
            violation.verdict = violation.verdict.min(limit);
        }
        evaluation
    }

    /// What was not watched could change every count.
    fn surest_verdict(&self) -> Verdict {
        if self.coverage.sampled { Verdict::Sampled } else { Verdict::Violated }
    }

    fn compare_ranks(&self, average_wanted: bool) -> Comparison {
        let limit = self.surest_verdict();
        let mut comparison = rank_mix::compare(&self.state, &self.options, average_wanted);
        for outlier in &mut comparison.outliers {
            outlier.verdict = outlier.verdict.min(limit);
        }
        comparison
    }

    /// The smallest part of a run that is compared is a sixteenth: a quarter of that is fine enough.
    fn is_comparison_due(&self, now: Compared) -> bool {
        const GROWTH: u64 = 64;
        self.compared.is_none_or(|last| {
            let (old, new) = (last.evaluated.chains, now.evaluated.chains);
            now.used != last.used || new - old > (old / GROWTH).max(GROWTH)
        })
    }
}
