//! Numbers of processes, files, namespaces and probes that are unique on one node, made unique among nodes.

use std::cmp::Ordering;

use rustc_hash::FxHashMap;

use crate::tape::digest::Digest;
use crate::tape::input::{CodePlace, Coverage, Input, ProcessFacts, Symbol, Threads};
use crate::tape::plan::{LeftOut, Plan, Probe};
use crate::tape::wire::{Body, CallContext, FileId, RawRecord, Record, WorkSegment};

/// Bits of the number of a process or thread: Linux has no more.
const PID_BITS: u32 = 22;
/// Most nodes of a job.
pub const MAX_NODES: usize = 1 << (u32::BITS - PID_BITS);
/// Bits of inode numbers that file systems leave alone.
const INODE_BITS: u32 = 54;

/// The node of a process or thread, from 0.
pub fn node_of(pid: u32) -> usize {
    (pid >> PID_BITS) as usize
}

/// What a process or thread is called on its node.
pub fn pid_on_node(pid: u32) -> u32 {
    pid & ((1 << PID_BITS) - 1)
}

/// A process or thread of a node, as all nodes together call it.
pub fn pid_of_node(node: usize, pid: u32) -> u32 {
    (node as u32) << PID_BITS | pid_on_node(pid)
}

/// A file of a node, as all nodes together call it.
pub fn file_on_node(node: usize, file: FileId) -> FileId {
    match file.inode {
        0 => file,
        inode => FileId { inode: inode ^ (node as u64) << INODE_BITS, ..file },
    }
}

/// The node that a file's number tells, from 0.
pub fn node_of_file(file: FileId) -> usize {
    (file.inode >> INODE_BITS) as usize
}

/// What a file is called on its node.
pub(crate) fn file_on_own_node(file: FileId) -> FileId {
    FileId { inode: file.inode & ((1 << INODE_BITS) - 1), ..file }
}

/// A number for a node as another one sees it: what is its own has 0, which needs no change of the numbers that its kernel
/// gives.
pub(crate) fn relative_node(own: usize, node: usize) -> usize {
    match node.cmp(&own) {
        Ordering::Equal => 0,
        Ordering::Less => node + 1,
        Ordering::Greater => node,
    }
}

/// The node that another one calls so.
pub(crate) fn absolute_node(own: usize, relative: usize) -> usize {
    match relative {
        0 => own,
        relative if relative <= own => relative - 1,
        relative => relative,
    }
}

/// What a probe is, whatever its number.
type ProbeIdentity = (String, Option<String>, u64, u64, String);

/// Probes that several nodes have: the same library is probed at the same places.
#[derive(Debug, Default)]
pub(super) struct CommonProbes {
    ids: FxHashMap<ProbeIdentity, u32>,
}

impl CommonProbes {
    fn id(&mut self, identity: ProbeIdentity) -> u32 {
        let next = self.ids.len() as u32 + 1;
        *self.ids.entry(identity).or_insert(next)
    }
}

/// How the numbers and times of one node become those of all.
#[derive(Debug)]
pub(super) struct NodeNumbers {
    node: u32,
    /// To be added to its times.
    ahead_ns: i64,
    /// The latest time so far.
    latest_ns: u64,
    /// Nothing that comes is before this time by so much or less: what is added has become less by that.
    not_before: (u64, u64),
    probes: FxHashMap<u32, u32>,
    /// Path and build id.
    files: FxHashMap<FileId, (String, Option<String>)>,
}

impl NodeNumbers {
    pub(super) fn new(node: usize, ahead_ns: i64) -> Self {
        let (probes, files) = (FxHashMap::default(), FxHashMap::default());
        Self { node: node as u32, ahead_ns, latest_ns: 0, not_before: (0, 0), probes, files }
    }

    /// So much more must be added to its times.
    pub(super) fn set_clock(&mut self, by_ns: i64) {
        self.ahead_ns = self.ahead_ns.saturating_add(by_ns);
        (self.latest_ns, self.not_before) = (0, (0, 0));
    }

    /// The same, little by little: what comes next is not before what has come.
    pub(super) fn adjust_clock(&mut self, by_ns: i64) {
        self.ahead_ns = self.ahead_ns.saturating_add(by_ns);
        self.not_before = (self.latest_ns, by_ns.min(0).unsigned_abs());
    }

    /// The same input as part of a job of several nodes.
    pub(super) fn renumber(&mut self, mut input: Input, common: &mut CommonProbes) -> Input {
        match &mut input {
            Input::Record(raw) | Input::LateRecord(raw) => *raw = self.record(raw),
            Input::Process(facts) => self.process(facts),
            Input::Plan(plan) => self.plan(plan, common),
            Input::Loss(loss) => {
                loss.pid = self.pid(loss.pid);
                (loss.from_ns, loss.to_ns) = (self.time(loss.from_ns), self.time(loss.to_ns));
            }
            Input::Coverage(coverage) => self.coverage(coverage),
            Input::Threads(threads) => self.threads(threads),
            Input::Tick { time_ns } => *time_ns = self.moment(*time_ns),
            Input::Clock(reading) => {
                (reading.node, reading.time_ns) = (self.node, self.moment(reading.time_ns));
            }
            Input::Digest(digest) => self.digest(digest),
            Input::ProbeCosts(costs) => {
                (costs.node, costs.time_ns) = (self.node, self.moment(costs.time_ns));
            }
            Input::Unrecorded(hits) => {
                hits.pid = self.pid(hits.pid);
                (hits.from_ns, hits.to_ns) = (self.time(hits.from_ns), self.moment(hits.to_ns));
            }
            // Ranks are the same on all nodes.
            Input::ReplayableRank(_) | Input::Answers(_) | Input::Messages(_) | Input::Contents(_) => {}
            Input::Symbols(symbols) => symbols.iter_mut().for_each(|symbol| self.symbol(symbol)),
            Input::Start(start) => start.time_ns = self.time(start.time_ns),
            Input::End(end) => {
                end.time_ns = self.moment(end.time_ns);
                end.failed_probes.iter_mut().for_each(|probe| self.probe(probe, common));
            }
        }
        input
    }

    fn pid(&self, pid: u32) -> u32 {
        pid_of_node(self.node as usize, pid)
    }

    /// When something was that comes after all that came.
    fn moment(&mut self, time_ns: u64) -> u64 {
        let (not_before_ns, by_ns) = self.not_before;
        let time_ns = match self.time(time_ns) {
            u64::MAX => return u64::MAX,
            time_ns if not_before_ns.saturating_sub(time_ns) <= by_ns => time_ns.max(not_before_ns),
            time_ns => time_ns,
        };
        self.latest_ns = self.latest_ns.max(time_ns);
        time_ns
    }

    /// Zero and the last moment there is stand for any time.
    fn time(&self, time_ns: u64) -> u64 {
        match time_ns {
            0 | u64::MAX => time_ns,
            _ => time_ns.saturating_add_signed(self.ahead_ns),
        }
    }

    fn file(&self, file: FileId) -> FileId {
        file_on_node(self.node as usize, file)
    }

    fn probe_id(&self, id: u32) -> u32 {
        self.probes.get(&id).copied().unwrap_or(if id == 0 { 0 } else { u32::MAX })
    }

    fn context(&self, context: &mut CallContext) {
        context.probe = self.probe_id(context.probe);
    }

    /// What cannot be read stays as it is, but for its process.
    fn record(&mut self, raw: &RawRecord) -> RawRecord {
        let Ok(mut record) = Record::decode(raw) else { return self.unknown_record(raw) };
        let h = &mut record.header;
        (h.time_ns, h.pid, h.tid) = (self.moment(h.time_ns), self.pid(h.pid), self.pid(h.tid));
        h.probe = self.probe_id(h.probe);
        match &mut record.body {
            Body::Copy { context, .. }
            | Body::Pack { context, .. }
            | Body::Cross { context, .. }
            | Body::Stream { context, .. }
            | Body::Work(WorkSegment { context, .. })
            | Body::Completion { context, .. }
            | Body::Remote { context, .. } => self.context(context),
            Body::Map { file, .. } => *file = self.file(*file),
            Body::Fork { child } | Body::Thread { child, .. } => *child = self.pid(*child),
            Body::Queue(_)
            | Body::Endpoint { .. }
            | Body::Values { .. }
            | Body::Return { .. }
            | Body::Made { .. }
            | Body::HeldUp { .. }
            | Body::Call { .. }
            | Body::Done
            | Body::Alloc { .. }
            | Body::Free { .. }
            | Body::Unmap { .. }
            | Body::Exec
            | Body::Exit { .. } => {}
        }
        record.encode()
    }

    fn unknown_record(&self, raw: &RawRecord) -> RawRecord {
        let mut raw = *raw;
        let words = raw.words_mut();
        words[0] = self.time(words[0]);
        words[1] = u64::from(self.pid(words[1] as u32)) | u64::from(self.pid((words[1] >> 32) as u32)) << 32;
        raw
    }

    fn process(&self, facts: &mut ProcessFacts) {
        facts.pid = self.pid(facts.pid);
        facts.pid_namespace ^= u64::from(self.node) << INODE_BITS;
        facts.time_ns = self.time(facts.time_ns);
        facts.mappings.iter_mut().for_each(|mapping| mapping.file = self.file(mapping.file));
    }

    fn plan(&mut self, plan: &mut Plan, common: &mut CommonProbes) {
        for file in &mut plan.files {
            self.files.insert(file.id, (file.path.clone(), file.build_id.clone()));
            file.id = self.file(file.id);
        }
        plan.probes.iter_mut().for_each(|probe| self.probe(probe, common));
        for LeftOut { file, .. } in &mut plan.left_out {
            *file = self.file(*file);
        }
    }

    fn probe(&mut self, probe: &mut Probe, common: &mut CommonProbes) {
        let (path, build_id) = self.files.get(&probe.file).cloned().unwrap_or_default();
        let what = format!("{:?} {} {}", probe.class, probe.function, probe.argument);
        let id = common.id((path, build_id, probe.offset_bytes, probe.site_offset_bytes, what));
        self.probes.insert(probe.id, id);
        probe.id = id;
        probe.file = self.file(probe.file);
    }

    fn coverage(&mut self, coverage: &mut Coverage) {
        coverage.time_ns = self.moment(coverage.time_ns);
        coverage.off.iter_mut().for_each(|id| *id = self.probe_id(*id));
    }

    fn threads(&mut self, threads: &mut Threads) {
        threads.time_ns = self.moment(threads.time_ns);
        for thread in &mut threads.threads {
            (thread.pid, thread.tid) = (self.pid(thread.pid), self.pid(thread.tid));
            thread.frames.iter_mut().for_each(|place| self.place(place));
            if let Some(site) = thread.call.as_mut().and_then(|call| call.site.as_mut()) {
                self.place(site);
            }
        }
    }

    /// What it says of other nodes it says relative to its own.
    fn digest(&mut self, digest: &mut Digest) {
        digest.node = self.node;
        digest.time_ns = self.moment(digest.time_ns);
        let node = |relative: usize| absolute_node(self.node as usize, relative);
        for pid in &mut digest.pids {
            *pid = pid_of_node(node(node_of(*pid)), *pid);
        }
        for file in &mut digest.files {
            *file = file_on_node(node(node_of_file(*file)), file_on_own_node(*file));
        }
        digest.probes.iter_mut().for_each(|probe| *probe = self.probe_id(*probe));
    }

    fn place(&self, place: &mut CodePlace) {
        place.file = self.file(place.file);
    }

    fn symbol(&self, symbol: &mut Symbol) {
        symbol.file = self.file(symbol.file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_found_again_from_how_another_one_calls_it() {
        for own in [0, 1, 5, MAX_NODES - 1] {
            let mut relatives: Vec<usize> = (0..MAX_NODES).map(|node| relative_node(own, node)).collect();
            assert!((0..MAX_NODES).all(|node| absolute_node(own, relatives[node]) == node));
            relatives.sort_unstable();
            assert!(relatives.into_iter().eq(0..MAX_NODES));
        }
    }
}
