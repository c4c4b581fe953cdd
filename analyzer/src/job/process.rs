//! Processes and threads of the job.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::ids::{CallSiteId, SpaceId, ThreadId, WhoId};
use super::memory::Memory;
use super::names::{Interner, NameText, SiteId, bounded_text};
use super::process_totals::{KINDS, ProcessTotals};
use crate::job::lifecycle::MpiLife;
use crate::tape::input::ProcessFacts;

/// Most processes of a session; those beyond share one entry.
const MAX_PROCESSES: usize = 1 << 16;
/// Most threads of a process; those beyond share one.
const MAX_THREADS: usize = 1 << 14;
/// Most processes that are not watched but read or written by those that are.
const MAX_STRANGERS: usize = 1 << 12;
/// Processes that are found without hashing their pid.
const RECENT: usize = 1024;

/// Who does something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Who {
    /// A rank of MPI_COMM_WORLD.
    Rank(u32),
    /// A process whose rank is not known.
    Pid(u32),
}

/// Counts for people.
impl NameText for Who {}

#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessCounts {
    pub empty_movements: u64,
    pub calls: u64,
    pub lost_movements: u64,
    pub lost_calls: u64,
    pub lost_state: u64,
    pub late: u64,
}

impl ProcessCounts {
    /// All records that were lost.
    pub fn lost(&self) -> u64 {
        self.lost_movements.saturating_add(self.lost_calls).saturating_add(self.lost_state)
    }
}

/// Counts by process. Ranks do the same one after the other, and those of neighbours are side by side.
#[derive(Default)]
pub(crate) struct CountsByProcess(Vec<u64>);

impl CountsByProcess {
    #[inline]
    fn add(&mut self, process: usize) {
        match self.0.get_mut(process) {
            Some(count) => *count += 1,
            None => self.begin(process),
        }
    }

    #[cold]
    fn begin(&mut self, process: usize) {
        self.0.resize(process + 1, 0);
        self.0[process] = 1;
    }

    fn get(&self, process: usize) -> u64 {
        self.0.get(process).copied().unwrap_or(0)
    }
}

/// The thread asked for last; none, if there is no thread.
#[derive(Clone, Copy)]
struct LastThread {
    tid: u32,
    thread: ThreadId,
}

const NO_THREAD: LastThread = LastThread { tid: 0, thread: ThreadId::NONE };

/// An MPI call, and what it was found by; none, if there is no call.
#[derive(Clone, Copy)]
struct RecentCall {
    return_address: u64,
    probe: u32,
    call: CallSiteId,
}

/// MPI calls asked for lately, by a few bits of where they return to: one line of the cache.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct RecentCalls([RecentCall; 4]);

const NO_CALLS: RecentCalls =
    RecentCalls([RecentCall { return_address: 0, probe: 0, call: CallSiteId::NONE }; 4]);

impl RecentCalls {
    #[inline]
    fn slot(return_address: u64) -> usize {
        (return_address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62) as usize
    }
}

/// A process. What every record asks for comes first, in lines of the cache that follow one another.
#[repr(C, align(64))]
pub(crate) struct Process {
    /// When it last did something that was watched.
    pub moved_ns: u64,
    last_thread: LastThread,
    pub who: WhoId,
    pub movements: u64,
    pub bytes: u64,
    recent_calls: RecentCalls,
    pub memory: Memory,
    pub counts: ProcessCounts,
    pub pid: u32,
    pub rank: Option<u32>,
    /// Ranks of the job.
    pub size: Option<u32>,
    /// As wait(2) gives it.
    pub exit_status: Option<u32>,
    pub exe: Arc<str>,
    pub namespace: u64,
    pub namespace_pid: u32,
    /// Mapping records from before this are in the mappings already.
    pub facts_time_ns: u64,
    pub known: bool,
    pub alive: bool,
    pub life: MpiLife,
    pub threads: FxHashMap<u32, ThreadId>,
    /// Call sites by return address, as long as no code is mapped.
    pub sites: FxHashMap<u64, SiteId>,
}

impl Process {
    fn new(pid: u32, who: WhoId, space: SpaceId) -> Self {
        Self {
            pid,
            who,
            rank: None,
            size: None,
            moved_ns: 0,
            exit_status: None,
            exe: Arc::from(""),
            namespace: 0,
            namespace_pid: pid,
            memory: Memory::new(space),
            facts_time_ns: 0,
            known: false,
            alive: true,
            life: MpiLife::default(),
            threads: FxHashMap::default(),
            last_thread: NO_THREAD,
            movements: 0,
            bytes: 0,
            sites: FxHashMap::default(),
            recent_calls: NO_CALLS,
            counts: ProcessCounts::default(),
        }
    }

    /// The thread of a tid, made by `new` if there is none yet.
    #[inline(always)]
    pub fn thread(&mut self, tid: u32, new: impl FnOnce() -> ThreadId) -> ThreadId {
        let last = self.last_thread;
        if last.tid == tid && last.thread.is_some() { last.thread } else { self.other_thread(tid, new) }
    }

    fn other_thread(&mut self, tid: u32, new: impl FnOnce() -> ThreadId) -> ThreadId {
        let tid = if self.threads.len() < MAX_THREADS { tid } else { 0 };
        let thread = *self.threads.entry(tid).or_insert_with(new);
        self.last_thread = LastThread { tid, thread };
        thread
    }

    /// The thread of a tid, if there is one.
    pub fn find_thread(&self, tid: u32) -> Option<ThreadId> {
        self.threads.get(&tid).copied()
    }

    /// Forgets the threads; returns them in order of tid.
    pub fn take_threads(&mut self) -> Vec<ThreadId> {
        self.last_thread = NO_THREAD;
        let mut threads: Vec<_> = self.threads.drain().collect();
        threads.sort_unstable();
        threads.into_iter().map(|(_, thread)| thread).collect()
    }

    /// The MPI call that returns to an address, if it was asked for lately; none, if not.
    #[inline]
    pub fn recent_call(&self, return_address: u64, probe: u32) -> CallSiteId {
        let recent = self.recent_calls.0[RecentCalls::slot(return_address)];
        let same = (recent.return_address, recent.probe) == (return_address, probe);
        if same { recent.call } else { CallSiteId::NONE }
    }

    /// Remembers an MPI call, as long as no code is mapped.
    pub fn remember_call(&mut self, return_address: u64, probe: u32, call: CallSiteId) {
        self.recent_calls.0[RecentCalls::slot(return_address)] = RecentCall { return_address, probe, call };
    }

    /// Forgets what depends on where code is mapped.
    pub fn forget_code(&mut self) {
        self.sites.clear();
        self.recent_calls = NO_CALLS;
    }

    /// It has moved so many bytes.
    #[inline(always)]
    pub fn count_movement(&mut self, bytes: u64) {
        self.movements += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Takes what `/proc` says, without the mappings.
    pub fn learn(&mut self, facts: &ProcessFacts, who: WhoId) {
        self.rank = facts.rank;
        self.size = facts.size;
        self.who = who;
        self.exe = Arc::from(bounded_text(&facts.exe));
        self.namespace = facts.pid_namespace;
        self.namespace_pid = facts.namespace_pid;
        self.facts_time_ns = facts.time_ns;
        self.known = true;
    }
}

/// The process at the other end of a cross-memory operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remote {
    Watched(usize),
    Stranger(SpaceId),
}

/// All processes.
pub(crate) struct Processes {
    all: Vec<Process>,
    by_pid: FxHashMap<u32, usize>,
    by_namespace: FxHashMap<(u64, u32), usize>,
    strangers: FxHashMap<(u64, u32), SpaceId>,
    /// By the last bits of their pids: processes asked for lately.
    recent: Box<[(u32, u32); RECENT]>,
    whos: Interner<Who>,
    by_kind: [CountsByProcess; KINDS],
    /// By the pipeline's number of the probe.
    by_probe: Vec<CountsByProcess>,
    /// What was counted elsewhere.
    elsewhere: Vec<ProcessTotals>,
    /// The same, by probe and process.
    hits_elsewhere: FxHashMap<(usize, usize), u64>,
}

impl Processes {
    pub fn new() -> Self {
        Self {
            all: Vec::new(),
            by_pid: FxHashMap::default(),
            by_namespace: FxHashMap::default(),
            strangers: FxHashMap::default(),
            recent: Box::new([(u32::MAX, 0); RECENT]),
            whos: Interner::new(Who::Pid(0)),
            by_kind: Default::default(),
            by_probe: Vec::new(),
            elsewhere: Vec::new(),
            hits_elsewhere: FxHashMap::default(),
        }
    }

    pub fn all(&self) -> &[Process] {
        &self.all
    }

    #[inline]
    pub fn get(&self, index: usize) -> &Process {
        &self.all[index]
    }

    pub fn get_mut(&mut self, index: usize) -> &mut Process {
        &mut self.all[index]
    }

    /// Counts a record of a kind.
    #[inline]
    pub fn count(&mut self, process: usize, kind: u16) {
        if let Some(counts) = self.by_kind.get_mut(usize::from(kind)) {
            counts.add(process);
        }
    }

    /// Counts a hit of a probe.
    #[inline]
    pub fn count_hit(&mut self, process: usize, probe: usize) {
        if probe >= self.by_probe.len() {
            self.by_probe.resize_with(probe + 1, Default::default);
        }
        self.by_probe[probe].add(process);
    }

    /// Records of a process by kind.
    pub fn records_by_kind(&self, process: usize) -> [u64; KINDS] {
        std::array::from_fn(|kind| self.by_kind[kind].get(process))
    }

    /// Hits of a probe in a process.
    pub fn hits(&self, process: usize, probe: usize) -> u64 {
        self.by_probe.get(probe).map_or(0, |hits| hits.get(process))
    }

    /// All counts of a process; of its own memory so many ranges are live.
    pub fn totals(&self, process: usize, live_buffers: u64) -> ProcessTotals {
        let p = &self.all[process];
        ProcessTotals {
            movements: p.movements,
            bytes: p.bytes,
            calls: p.counts.calls,
            empty_movements: p.counts.empty_movements,
            live_buffers,
            records: self.records_by_kind(process),
        }
    }

    /// All that was counted of a process elsewhere.
    pub fn elsewhere(&self, process: usize) -> ProcessTotals {
        self.elsewhere.get(process).copied().unwrap_or_default()
    }

    /// The same, to be changed.
    pub fn elsewhere_mut(&mut self, process: usize) -> &mut ProcessTotals {
        if process >= self.elsewhere.len() {
            self.elsewhere.resize(process + 1, ProcessTotals::default());
        }
        &mut self.elsewhere[process]
    }

    /// Hits of a probe in a process that were counted elsewhere.
    pub fn hits_elsewhere(&self, process: usize, probe: usize) -> u64 {
        self.hits_elsewhere.get(&(probe, process)).copied().unwrap_or(0)
    }

    /// Adds to them.
    pub fn add_hits_elsewhere(&mut self, process: usize, probe: usize, hits: u64) {
        let all = self.hits_elsewhere.entry((probe, process)).or_default();
        *all = all.wrapping_add(hits);
    }

    pub fn who(&self, id: WhoId) -> Who {
        *self.whos.get(id.0)
    }

    /// Who this is.
    pub fn who_id(&mut self, who: Who) -> WhoId {
        WhoId(self.whos.intern(&who))
    }

    pub fn find(&self, pid: u32) -> Option<usize> {
        self.by_pid.get(&pid).copied()
    }

    /// A process that is over and had a pid that so many had before it, or the last one that had it.
    pub fn find_ended(&self, pid: u32, earlier: usize) -> Option<usize> {
        let ended = self.all.iter().enumerate().filter(|(_, process)| process.pid == pid && !process.alive);
        ended.map(|(index, _)| index).take(earlier.saturating_add(1)).last()
    }

    /// The process of a pid; one without facts if it was never heard of.
    #[inline(always)]
    pub fn find_or_add(&mut self, pid: u32, space: impl FnOnce() -> SpaceId) -> usize {
        let (known, index) = self.recent[pid as usize % RECENT];
        // The highest pid of all stands for an empty slot.
        if known == pid && pid != u32::MAX { index as usize } else { self.find_far(pid, space) }
    }

    fn find_far(&mut self, pid: u32, space: impl FnOnce() -> SpaceId) -> usize {
        let index = match self.find(pid) {
            Some(index) => index,
            None => self.add(pid, space),
        };
        // There are at most MAX_PROCESSES.
        self.recent[pid as usize % RECENT] = (pid, index as u32);
        index
    }

    fn add(&mut self, pid: u32, space: impl FnOnce() -> SpaceId) -> usize {
        if self.all.len() >= MAX_PROCESSES {
            return MAX_PROCESSES - 1;
        }
        let who = WhoId(self.whos.intern(&Who::Pid(pid)));
        let index = self.all.len();
        self.all.push(Process::new(pid, who, space()));
        self.by_pid.insert(pid, index);
        index
    }

    /// Takes what `/proc` says of a process.
    pub fn learn(&mut self, index: usize, facts: &ProcessFacts) {
        let who = facts.rank.map_or(Who::Pid(facts.pid), Who::Rank);
        let who = WhoId(self.whos.intern(&who));
        self.all[index].learn(facts, who);
        self.by_namespace.insert((facts.pid_namespace, facts.namespace_pid), index);
    }

    /// The pid is free for another process from here on.
    pub fn end(&mut self, index: usize) {
        let process = &mut self.all[index];
        process.alive = false;
        let (pid, key) = (process.pid, (process.namespace, process.namespace_pid));
        if self.by_pid.get(&pid) == Some(&index) {
            self.by_pid.remove(&pid);
        }
        if self.by_namespace.get(&key) == Some(&index) {
            self.by_namespace.remove(&key);
        }
        self.recent[pid as usize % RECENT] = (u32::MAX, 0);
    }

    /// Whom a process means by a pid.
    pub fn remote(&mut self, caller: usize, pid: u32, space: impl FnOnce() -> SpaceId) -> Remote {
        let namespace = self.all[caller].namespace;
        if let Some(&index) = self.by_namespace.get(&(namespace, pid)).or_else(|| self.by_pid.get(&pid)) {
            return Remote::Watched(index);
        }
        let full = self.strangers.len() >= MAX_STRANGERS;
        let key = if full { (0, 0) } else { (namespace, pid) };
        Remote::Stranger(*self.strangers.entry(key).or_insert_with(space))
    }
}
