//! What is known of the job: processes, memory, names, probes, calls in progress, requests, communicators, messages,
//! and what of it was not seen.
//!
//! [`Job`] takes every input once, and is the only one that does. What an input means is told as [`Event`]s; movements of
//! data, of which there are millions, are resolved by [`Job::movement`] and cost no event.

mod address_spaces;
mod apply;
pub(crate) mod collectives;
mod contents;
pub(crate) mod coverage;
pub(crate) mod event;
mod far_streams;
mod freed_blocks;
mod heap_errors;
pub(crate) mod ids;
pub(crate) mod last_calls;
pub(crate) mod lifecycle;
pub(crate) mod memory;
mod memory_room;
pub mod messages;
pub(crate) mod mismatch;
pub(crate) mod movement;
pub mod names;
pub(crate) mod places;
pub(crate) mod probes;
pub mod process;
pub(crate) mod process_totals;
pub(crate) mod request_origins;
pub(crate) mod resolve;
pub(crate) mod signature;
pub(crate) mod spaces;
pub(crate) mod streams;
pub(crate) mod sums;
pub mod symbols;
pub(crate) mod thinner;
pub(crate) mod verbs;

use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};

use coverage::WatchedTime;
use event::{Event, Gone};
use heap_errors::HeapErrors;
use ids::ThreadId;
use last_calls::{CallEntry, CallsSeen};
use memory::call_site;
use memory_room::MemoryRoom;
use messages::Messages;
use names::{Names, SiteId};
use probes::Probes;
use process::{Process, Processes, Remote};
use request_origins::RequestOrigins;
use spaces::Spaces;
use streams::Streams;
use sums::Sums;
use symbols::SymbolTable;
use verbs::{Endpoints, VerbsCounts};

use crate::mpi::handles::{Builtin, Libraries};
use crate::tape::input::{CallInProgress, CodePlace, Start, StrangerCost};
use crate::tape::wire::FileId;

pub(crate) use contents::ContentEvent;
pub(crate) use heap_errors::{BlockFault, HeapError};

/// Counts of the whole session.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub records: u64,
    pub bad_records: u64,
    pub unplanned_records: u64,
    pub late_records: u64,
    pub lost_movements: u64,
    pub lost_calls: u64,
    pub lost_state: u64,
    /// Messages whose data moved unseen.
    pub unseen_messages: u64,
    /// Work requests and completions of RDMA verbs.
    pub verbs: VerbsCounts,
}

/// An MPI call of a thread, as it was recorded when it began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastCall {
    /// The thread.
    pub tid: u32,
    /// Name as in the standard.
    pub function: String,
    /// Where it returns to, in the process's space.
    pub return_address: u64,
    /// Those in registers.
    pub arguments: [u64; 6],
}

/// The job.
pub(crate) struct Job {
    pub names: Names,
    pub processes: Processes,
    pub probes: Probes,
    pub symbols: SymbolTable,
    pub coverage: WatchedTime,
    pub totals: Totals,
    pub start: Start,
    /// Why the session ended.
    pub ended: Option<String>,
    /// What watching cost processes outside the job.
    pub strangers: Option<Box<StrangerCost>>,
    /// Programs and messaging libraries.
    pub own_files: FxHashSet<FileId>,
    pub messages: Messages,
    /// Memory that calls were given which is no block of the heap, or goes past the end of one.
    pub heap_errors: HeapErrors,
    /// Calls and messages are followed: results of calls are recorded, or somebody wants to hear of every call.
    pub follows_messages: bool,
    /// What calls answer is recorded.
    pub records_results: bool,
    /// Otherwise they are not, whatever is recorded: for measuring what it costs.
    pub may_follow_messages: bool,
    /// Otherwise nobody asks what messages do with memory.
    pub may_follow_data: bool,
    /// Otherwise collective calls are followed only where results of calls are recorded.
    pub may_follow_collectives_alone: bool,
    libraries: Libraries,
    calls_seen: CallsSeen,
    request_origins: RequestOrigins,
    spaces: Spaces,
    pub streams: Streams,
    endpoints: Endpoints,
    /// What was seen elsewhere.
    pub sums: Sums,
    memory_room: MemoryRoom,
    begin_ns: Option<u64>,
    now_ns: u64,
    /// By the last input.
    events: Vec<Event>,
    /// By the last input; whoever takes them clears them.
    pub memory_changes: Vec<Gone>,
}

impl Job {
    /// Of which nothing is known yet.
    pub fn new() -> Self {
        let mut names = Names::new();
        let probes = Probes::new(&mut names);
        Self {
            names,
            processes: Processes::new(),
            probes,
            symbols: SymbolTable::default(),
            coverage: WatchedTime::default(),
            totals: Totals::default(),
            start: Start::default(),
            ended: None,
            strangers: None,
            own_files: FxHashSet::default(),
            messages: Messages::default(),
            heap_errors: HeapErrors::default(),
            follows_messages: false,
            records_results: false,
            may_follow_messages: true,
            may_follow_data: true,
            may_follow_collectives_alone: true,
            libraries: Libraries::default(),
            calls_seen: CallsSeen::default(),
            request_origins: RequestOrigins::default(),
            spaces: Spaces::default(),
            streams: Streams::default(),
            endpoints: Endpoints::default(),
            sums: Sums::default(),
            memory_room: MemoryRoom::default(),
            begin_ns: None,
            now_ns: 0,
            events: Vec::new(),
            memory_changes: Vec::new(),
        }
    }

    /// Tells of every call and message as [`Event::Message`], whether or not results of calls are recorded.
    pub fn tell_messages(&mut self) {
        self.messages.tell_events();
        self.follow_data();
        self.follows_messages = true;
    }

    fn follow_data(&mut self) {
        if self.may_follow_data {
            self.messages.follow_data();
        }
    }

    /// The first time told, CLOCK_MONOTONIC.
    pub fn begin_ns(&self) -> Option<u64> {
        self.begin_ns
    }

    /// The latest time seen, CLOCK_MONOTONIC.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Numbers of spaces and of threads that were ever given out.
    #[inline(always)]
    pub fn space_counts(&self) -> (usize, usize) {
        self.spaces.counts()
    }

    /// When a process was last seen to do anything.
    pub fn moved_ns(&self, pid: u32) -> u64 {
        self.processes.find(pid).map_or(0, |index| self.processes.get(index).moved_ns)
    }

    /// Where a call returns to; a process that has ended has no code.
    pub fn return_place(&self, process: usize, return_address: u64) -> Option<CodePlace> {
        self.processes.get(process).memory.return_place(return_address)
    }

    /// Where a call of the messages was made.
    pub fn call_place(&self, call: &messages::Call) -> Option<CodePlace> {
        self.return_place(self.processes.find(call.pid)?, call.return_address)
    }

    /// How the library of a process calls things, if that is known.
    pub fn builtin(&self, process: usize) -> Option<Builtin> {
        let memory = &self.processes.get(process).memory;
        self.libraries.builtin(|file| memory.code_start(file))
    }

    /// A call that was recorded when it began, as samples describe one.
    pub fn call_in_progress(&self, process: usize, begun: &CallEntry) -> CallInProgress {
        CallInProgress {
            function: self.probes.get(begun.probe).map_or_else(String::new, |probe| probe.function.clone()),
            mpi: self.builtin(process).as_ref().map(Builtin::facts),
            site: self.return_place(process, begun.return_address),
            arguments: begun.arguments.iter().copied().map(Some).collect(),
            ..CallInProgress::default()
        }
    }

    /// The last call of a thread, as it began.
    pub fn last_call(&self, pid: u32, tid: u32) -> Option<&CallEntry> {
        let process = self.processes.find(pid)?;
        self.calls_seen.last(self.processes.get(process).find_thread(tid)?, tid)
    }

    /// The last MPI call of each thread of a process, as it began.
    pub fn last_calls(&self, pid: u32) -> impl Iterator<Item = LastCall> {
        let process = self.processes.find(pid).map(|process| self.processes.get(process));
        let calls = process.into_iter().flat_map(|process| self.calls_of(process));
        calls.filter_map(move |(tid, begun)| {
            Some(LastCall {
                tid,
                function: self.probes.get(begun.probe)?.function.clone(),
                return_address: begun.return_address,
                arguments: begun.arguments,
            })
        })
    }

    /// The same, as they were recorded, with their threads.
    pub fn last_entries(&self, pid: u32) -> impl Iterator<Item = (u32, CallEntry)> {
        let process = self.processes.find(pid).map(|process| self.processes.get(process));
        process.into_iter().flat_map(|process| self.calls_of(process)).map(|(tid, begun)| (tid, *begun))
    }

    /// The last calls of the threads of a process, with their threads.
    fn calls_of<'a>(&'a self, process: &'a Process) -> impl Iterator<Item = (u32, &'a CallEntry)> {
        let last = |(&tid, &thread)| Some((tid, self.calls_seen.last(thread, tid)?));
        process.threads.iter().filter_map(last)
    }

    /// No call was lost, and none left out to keep a budget.
    pub fn has_seen_all_calls(&self) -> bool {
        self.totals.lost_calls == 0 && self.coverage.has_all_calls()
    }

    /// What the last input meant; asked once, and given back with [`Job::reuse`].
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Whether the last input meant anything to analyses.
    #[inline(always)]
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Room that events may use again.
    pub fn reuse(&mut self, mut events: Vec<Event>) {
        events.clear();
        self.events = events;
    }

    /// The process of a pid, known or not.
    #[inline]
    pub fn process(&mut self, pid: u32) -> usize {
        let spaces = &mut self.spaces;
        self.processes.find_or_add(pid, || spaces.new_space())
    }

    /// The process of a pid that somebody has told of. `earlier`: it is over, and so many had the pid before it.
    pub fn process_told(&mut self, pid: u32, earlier: Option<usize>) -> usize {
        let ended = earlier.and_then(|earlier| self.processes.find_ended(pid, earlier));
        ended.unwrap_or_else(|| self.process(pid))
    }

    /// A space for what is no memory of any process here.
    pub fn new_space(&mut self) -> ids::SpaceId {
        self.spaces.new_space()
    }

    /// The thread of a process.
    #[inline(always)]
    pub fn thread(&mut self, process: usize, tid: u32) -> ThreadId {
        let spaces = &mut self.spaces;
        self.processes.get_mut(process).thread(tid, || spaces.new_thread())
    }

    /// Whom a process means by a pid.
    pub fn remote(&mut self, caller: usize, pid: u32) -> Remote {
        let spaces = &mut self.spaces;
        self.processes.remote(caller, pid, || spaces.new_space())
    }

    /// Code site of a return address, remembered until code is mapped elsewhere.
    pub fn site_of(&mut self, process: usize, return_address: u64) -> SiteId {
        const MAX_REMEMBERED: usize = 1 << 16;
        let p = self.processes.get_mut(process);
        if let Some(&site) = p.sites.get(&return_address) {
            return site;
        }
        let site = call_site(&p.memory, return_address, &mut self.names);
        if p.sites.len() < MAX_REMEMBERED {
            p.sites.insert(return_address, site);
        }
        site
    }

    /// Whether code is the program's or a messaging library's.
    pub fn is_own(&mut self, process: usize, return_address: u64) -> bool {
        let site = self.site_of(process, return_address);
        self.is_own_site(site)
    }

    /// The same of a place that is known.
    pub fn is_own_site(&self, site: SiteId) -> bool {
        self.names.site_file(site).is_some_and(|(file, _)| self.own_files.contains(&file))
    }
}
