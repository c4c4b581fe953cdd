//! The last MPI calls of each thread, where processes were last found, and how they ended: what a page
//! shows as a timeline.
//!
//! A consumer of inputs beside the pipeline, made only where a page is wanted. It decides nothing. When calls ended and which
//! messages they exchanged is asked of the pipeline ([`Pipeline::heard`]), as far as records of returns tell.

mod gaps;
mod history;

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::job::messages::{CallId, Event};
use crate::job::names::{Interner, SiteId};
use crate::job::state::{MapRecord, State};
use crate::options::Options;
use crate::pipeline::Pipeline;
use crate::present::symbols::SymbolTable;
use crate::tape::input::{CodePlace, Input, ThreadFacts, Threads};
use crate::tape::plan::{Plan, ProbeClass};
use crate::tape::wire::{Body, FileId, Header, RawRecord, Record, kind};

pub use gaps::Gap;
pub(crate) use history::{Call, History, Look, ProcessEnd, called, stack};

use gaps::Gaps;

/// MPI calls kept by default, of all threads together.
pub const DEFAULT_CALLS: usize = 20_000;
/// Of each thread so many are kept, however many threads there are.
const LEAST_CALLS: usize = 2;
/// Threads whose calls are kept.
const MOST_THREADS: usize = 1 << 16;
/// Frames of a stack that are named.
pub(crate) const MOST_FRAMES: usize = 12;

/// Gathers what a page shows; see the [module](self).
pub struct Collector {
    calls: usize,
    /// Processes, their memory and the names of files: kept as the pipeline keeps them.
    pub(crate) state: State,
    functions: Interner<String>,
    /// Function of each probe.
    probes: FxHashMap<u32, u32>,
    /// By index of the process.
    histories: Vec<History>,
    threads: usize,
    /// Sends, each with the receive that got it.
    matched: VecDeque<(CallId, CallId)>,
    gaps: Gaps,
    begin_ns: u64,
    end_ns: u64,
}

impl Collector {
    /// Keeps the last calls of each thread: so many in all, the same number of each thread.
    pub fn new(calls: usize) -> Self {
        Self {
            calls,
            state: State::new(&Options::default()),
            functions: Interner::new(String::new()),
            probes: FxHashMap::default(),
            histories: Vec::new(),
            threads: 0,
            matched: VecDeque::new(),
            gaps: Gaps::default(),
            begin_ns: 0,
            end_ns: 0,
        }
    }

    /// Takes the next input, which the pipeline has taken already.
    pub fn push(&mut self, input: &Input, pipeline: &mut Pipeline) {
        if let Input::Record(raw) = input {
            return self.push_record(raw, pipeline);
        }
        match input {
            Input::Start(start) => {
                self.begin_ns = start.time_ns;
                self.clock(start.time_ns);
            }
            Input::Process(facts) => {
                self.state.learn(facts);
                self.name_sites(facts.pid);
            }
            Input::Plan(plan) => self.plan(plan),
            Input::Record(raw) | Input::LateRecord(raw) => self.raw(raw),
            Input::Loss(loss) => {
                let process = self.state.process(loss.pid);
                self.gaps.lose(process, loss);
            }
            Input::Coverage(coverage) => {
                self.clock(coverage.time_ns);
                self.gaps.cover(coverage);
            }
            Input::Threads(threads) => self.look(threads),
            Input::Tick { time_ns } => self.clock(*time_ns),
            Input::Symbols(_) => {}
            Input::End(end) => self.clock(end.time_ns),
        }
        self.learn_messages(pipeline);
    }

    /// Takes a record: the same as [`Input::Record`], without a copy of it.
    pub fn push_record(&mut self, raw: &RawRecord, pipeline: &mut Pipeline) {
        if is_of_interest(raw) {
            self.raw(raw);
            self.learn_messages(pipeline);
        } else {
            self.clock(raw.time_ns());
        }
    }

    fn raw(&mut self, raw: &RawRecord) {
        self.clock(raw.time_ns());
        if let Ok(record) = Record::decode(raw) {
            self.record(&record.header, &record.body);
        }
    }

    fn clock(&mut self, time_ns: u64) {
        self.end_ns = self.end_ns.max(time_ns);
    }

    fn plan(&mut self, plan: &Plan) {
        for file in &plan.files {
            self.state.names.file(file.id, &file.path, file.build_id.as_deref(), true);
        }
        // Errors are no calls.
        for probe in plan.probes.iter().filter(|probe| probe.class != ProbeClass::Error) {
            let function = self.functions.intern(&probe.function);
            self.probes.insert(probe.id, function);
        }
    }

    fn record(&mut self, h: &Header, body: &Body) {
        let process = self.state.process(h.pid);
        match *body {
            Body::Call { nested: false, return_address, args } => {
                let site = self.state.site_of(process, return_address);
                self.call(
                    process,
                    h,
                    Call { site, return_address, arguments: Some(args), ..Call::at(h.time_ns) },
                );
            }
            // Of a polling call only the answer is recorded.
            Body::Done => self.call(process, h, Call { end_ns: Some(h.time_ns), ..Call::at(h.time_ns) }),
            Body::Map { addr, len_bytes, offset_bytes, file, shared, exec, has_file } => {
                let file = has_file.then_some(file);
                let map = MapRecord { addr, len_bytes, offset_bytes, file, shared, exec };
                self.state.map(process, h.time_ns, &map);
            }
            Body::Unmap { addr, len_bytes } => self.state.unmap(process, h.time_ns, addr, len_bytes),
            Body::Fork { child } => self.state.fork(process, child),
            Body::Exec => {
                self.state.exec(process);
                self.history(process).forget_addresses();
            }
            Body::Exit { status, at } => {
                let place = self.state.processes.get(process).memory.code_at(at);
                let place = place.map(|(file, offset_bytes)| CodePlace { file, offset_bytes });
                self.history(process).end = Some(ProcessEnd { time_ns: h.time_ns, status, place });
                self.state.exit(process, Some(status));
            }
            _ => {}
        }
    }

    fn call(&mut self, process: usize, h: &Header, call: Call) {
        let Some(&function) = self.probes.get(&h.probe) else { return };
        let is_new = !self.history(process).threads.contains_key(&h.tid);
        if is_new && self.threads >= MOST_THREADS {
            self.history(process).given_up += 1;
            return;
        }
        self.threads += usize::from(is_new);
        let share = self.share();
        self.history(process).call(h.tid, Call { function, ..call }, share);
    }

    /// Calls may come before it is known what their process has mapped.
    fn name_sites(&mut self, pid: u32) {
        let process = self.state.process(pid);
        let Some(history) = self.histories.get_mut(process) else { return };
        for call in history.threads.values_mut().flat_map(|thread| &mut thread.calls) {
            if call.site == SiteId(0) && call.return_address != 0 {
                call.site = self.state.site_of(process, call.return_address);
            }
        }
    }

    /// When calls ended, and which of them belong together.
    fn learn_messages(&mut self, pipeline: &mut Pipeline) {
        for event in pipeline.take_events() {
            match event {
                Event::Call { id, call, end_ns, .. } => {
                    if let Some(process) = self.state.processes.find(call.pid) {
                        let library = pipeline.messages().library(call.pid);
                        let history = self.history(process);
                        history.mpi = history.mpi.or(library);
                        history.over(call.tid, call.begin_ns, id.number, end_ns);
                    }
                }
                Event::Matched { send, receive } => {
                    self.matched.push_back((send.call, receive.call));
                    if self.matched.len() > self.calls {
                        self.matched.pop_front();
                    }
                }
                Event::Completed { .. } => {}
            }
        }
    }

    /// Sends, each with the receive that got it: the last ones.
    pub(crate) fn matched(&self) -> impl Iterator<Item = &(CallId, CallId)> {
        self.matched.iter()
    }

    /// Calls that are kept of each thread.
    fn share(&self) -> usize {
        (self.calls / self.threads.max(1)).max(LEAST_CALLS)
    }

    fn look(&mut self, threads: &Threads) {
        self.clock(threads.time_ns);
        let mut by_process: FxHashMap<u32, Vec<&ThreadFacts>> = FxHashMap::default();
        for thread in &threads.threads {
            by_process.entry(thread.pid).or_default().push(thread);
        }
        for (pid, threads_of_process) in by_process {
            let process = self.state.process(pid);
            self.history(process).look(threads.time_ns, &threads_of_process);
        }
    }

    fn history(&mut self, process: usize) -> &mut History {
        if self.histories.len() <= process {
            self.histories.resize_with(process + 1, History::default);
        }
        &mut self.histories[process]
    }

    /// Ends the gathering: all threads have the same share from here on.
    pub(crate) fn settle(&mut self) {
        let share = self.share();
        self.histories.iter_mut().for_each(|history| history.settle(share));
    }

    /// What is kept of the process with an index.
    pub(crate) fn history_of(&self, process: usize) -> Option<&History> {
        self.histories.get(process)
    }

    pub(crate) fn function(&self, number: u32) -> &str {
        self.functions.get(number)
    }

    pub(crate) fn begin_ns(&self) -> u64 {
        self.begin_ns
    }

    pub(crate) fn end_ns(&self) -> u64 {
        self.end_ns
    }

    /// Times in which calls may have been missed.
    pub(crate) fn gaps(&self) -> Vec<(Option<usize>, Gap)> {
        self.gaps.all(self.end_ns)
    }

    /// Code places that a page shows and that have no names yet, in order.
    pub fn wanted_symbols(&self, table: &SymbolTable) -> Vec<(FileId, u64)> {
        let mut wanted: Vec<(FileId, u64)> = Vec::new();
        for history in &self.histories {
            let sites = history.calls().filter_map(|(_, call)| self.state.names.site_file(call.site));
            wanted.extend(sites);
            wanted.extend(history.looked_at().map(|place| (place.file, place.offset_bytes)));
            wanted
                .extend(history.end.and_then(|end| end.place).map(|place| (place.file, place.offset_bytes)));
        }
        wanted.retain(|&(file, offset_bytes)| table.get(file, offset_bytes).is_none());
        wanted.sort_unstable();
        wanted.dedup();
        wanted
    }
}

/// Most records are of copies and heap blocks, which no event comes from.
fn is_of_interest(raw: &RawRecord) -> bool {
    !matches!(raw.words()[2] as u16, kind::COPY | kind::PACK | kind::CROSS | kind::ALLOC | kind::FREE)
}
