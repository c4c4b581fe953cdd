//! The last MPI calls of each thread, where processes were last found, and how they ended: what a page
//! shows as a timeline.
//!
//! An analysis that is made only where a page is wanted. It decides nothing.

pub mod correction;
mod gaps;
mod history;
pub mod kept_map;

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::job::Job;
use crate::job::event::{CallBegan, Event};
use crate::job::messages::{self, CallId};
use crate::job::symbols::SymbolTable;
use crate::tape::input::{CodePlace, ThreadFacts, Threads};
use crate::tape::plan::ProbeClass;
use crate::tape::wire::FileId;

pub use gaps::TimelineGap;
pub(crate) use history::{History, Look, ProcessEnd, TimelineCall, called, stack};

use gaps::Gaps;

/// MPI calls kept by default, of all threads together.
pub const DEFAULT_CALLS: usize = 20_000;
/// Of each thread so many are kept, however many threads there are.
const LEAST_CALLS: usize = 2;
/// Threads whose calls are kept.
const MOST_THREADS: usize = 1 << 16;

/// Gathers what a page shows; see the [module](self).
pub(crate) struct TimelineAnalysis {
    calls: usize,
    /// By index of the process.
    histories: Vec<History>,
    threads: usize,
    /// Sends, each with the receive that got it.
    matched: VecDeque<(CallId, CallId)>,
    gaps: Gaps,
}

impl TimelineAnalysis {
    /// Keeps the last calls of each thread: so many in all, the same number of each thread.
    pub fn new(calls: usize) -> Self {
        Self { calls, histories: Vec::new(), threads: 0, matched: VecDeque::new(), gaps: Gaps::default() }
    }

    /// What happened to the job.
    pub fn on(&mut self, job: &Job, event: &Event) {
        match event {
            Event::ProcessKnown { process } => self.find_places(job, *process),
            // Of a polling call only the answer is recorded.
            &Event::PollAnswered { process, tid, time_ns, slot } => {
                self.call(
                    job,
                    process,
                    tid,
                    slot,
                    TimelineCall { end_ns: Some(time_ns), ..TimelineCall::at(time_ns) },
                );
            }
            Event::ProcessReplaced { process, .. } => self.history(*process).forget_addresses(),
            Event::ProcessEnded(ended) => {
                let end = ProcessEnd { time_ns: ended.time_ns, status: ended.status, place: ended.place };
                self.history(ended.process).end = Some(end);
            }
            Event::Sampled(threads) => self.sample(job, threads),
            Event::Message(event) => self.message(job, event),
            Event::Gap(gap) => self.gaps.add_gap(gap),
            Event::Started
            | Event::ErrorReported(_)
            | Event::ErrorHandled { .. }
            | Event::Tick
            | Event::Ended => {}
        }
    }

    /// A call began.
    pub fn begin_call(&mut self, job: &Job, began: &CallBegan) {
        let (process, begun) = (began.process, &began.begun);
        let call = TimelineCall {
            place: job.return_place(process, begun.return_address).map(called),
            return_address: begun.return_address,
            arguments: Some(begun.arguments),
            ..TimelineCall::at(began.time_ns)
        };
        self.call(job, process, began.tid, begun.probe, call);
    }

    fn call(&mut self, job: &Job, process: usize, tid: u32, slot: usize, call: TimelineCall) {
        // Errors are no calls.
        if job.probes.get(slot).is_none_or(|probe| probe.class == ProbeClass::Error) {
            return;
        }
        let is_new = !self.history(process).threads.contains_key(&tid);
        if is_new && self.threads >= MOST_THREADS {
            self.history(process).given_up += 1;
            return;
        }
        self.threads += usize::from(is_new);
        let share = self.share();
        self.history(process).call(tid, TimelineCall { slot, ..call }, share);
    }

    /// Calls may come before it is known what their process has mapped.
    fn find_places(&mut self, job: &Job, process: usize) {
        let Some(history) = self.histories.get_mut(process) else { return };
        for call in history.threads.values_mut().flat_map(|thread| &mut thread.calls) {
            if call.place.is_none() && call.return_address != 0 {
                call.place = job.return_place(process, call.return_address).map(called);
            }
        }
    }

    /// When calls ended, and which of them belong together.
    fn message(&mut self, job: &Job, event: &messages::MessageEvent) {
        match event {
            messages::MessageEvent::Call { id, call, end_ns, .. } => {
                if let Some(process) = job.processes.find(call.pid) {
                    let library = job.messages.library(call.pid);
                    let history = self.history(process);
                    history.mpi = history.mpi.or(library);
                    history.over(call.tid, call.begin_ns, id.number, *end_ns);
                }
            }
            messages::MessageEvent::Matched { send, receive } => {
                self.matched.push_back((send.call, receive.call));
                if self.matched.len() > self.calls {
                    self.matched.pop_front();
                }
            }
            messages::MessageEvent::Posted { .. }
            | messages::MessageEvent::Completed { .. }
            | messages::MessageEvent::Entered { .. }
            | messages::MessageEvent::EpochAwaited { .. }
            | messages::MessageEvent::CollectiveCompleted { .. } => {}
        }
    }

    /// Sends, each with the receive that got it: the last ones.
    pub fn matched(&self) -> impl Iterator<Item = &(CallId, CallId)> {
        self.matched.iter()
    }

    /// Calls that are kept of each thread.
    fn share(&self) -> usize {
        (self.calls / self.threads.max(1)).max(LEAST_CALLS)
    }

    fn sample(&mut self, job: &Job, threads: &Threads) {
        let mut by_process: FxHashMap<u32, Vec<&ThreadFacts>> = FxHashMap::default();
        for thread in &threads.threads {
            by_process.entry(thread.pid).or_default().push(thread);
        }
        for (pid, threads_of_process) in by_process {
            if let Some(process) = job.processes.find(pid) {
                self.history(process).look(threads.time_ns, &threads_of_process);
            }
        }
    }

    fn history(&mut self, process: usize) -> &mut History {
        if self.histories.len() <= process {
            self.histories.resize_with(process + 1, History::default);
        }
        &mut self.histories[process]
    }

    /// Ends the gathering: all threads have the same share from here on.
    pub fn settle(&mut self) {
        let share = self.share();
        self.histories.iter_mut().for_each(|history| history.settle(share));
    }

    /// What is kept of the process with an index.
    pub fn history_of(&self, process: usize) -> Option<&History> {
        self.histories.get(process)
    }

    /// Times in which calls may have been missed.
    pub fn gaps(&self, job: &Job) -> Vec<(Option<usize>, TimelineGap)> {
        self.gaps.all(job.now_ns())
    }

    /// Code places that a page shows and that have no names yet, in order.
    pub fn wanted_symbols(&self, table: &SymbolTable) -> Vec<(FileId, u64)> {
        let pair = |place: CodePlace| (place.file, place.offset_bytes);
        let mut wanted: Vec<(FileId, u64)> = Vec::new();
        for history in &self.histories {
            wanted.extend(history.calls().filter_map(|(_, call)| call.place).map(pair));
            wanted.extend(history.looked_at().map(pair));
            wanted.extend(history.end.and_then(|end| end.place).map(pair));
        }
        wanted.retain(|&(file, offset_bytes)| table.get(file, offset_bytes).is_none());
        wanted.sort_unstable();
        wanted.dedup();
        wanted
    }
}
