//! Numbers of processes, files, namespaces and probes that are unique on one node, made unique among nodes.

use rustc_hash::FxHashMap;

use crate::tape::input::{CodePlace, Coverage, Input, ProcessFacts, Symbol, Threads};
use crate::tape::plan::{LeftOut, Plan, Probe};
use crate::tape::wire::{Body, CallContext, FileId, RawRecord, Record};

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

/// A file of a node, as all nodes together call it.
pub fn file_on_node(node: usize, file: FileId) -> FileId {
    match file.inode {
        0 => file,
        inode => FileId { inode: inode ^ (node as u64) << INODE_BITS, ..file },
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
    probes: FxHashMap<u32, u32>,
    /// Path and build id.
    files: FxHashMap<FileId, (String, Option<String>)>,
}

impl NodeNumbers {
    pub(super) fn new(node: usize, ahead_ns: i64) -> Self {
        let (probes, files) = (FxHashMap::default(), FxHashMap::default());
        Self { node: node as u32, ahead_ns, probes, files }
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
            Input::Tick { time_ns } => *time_ns = self.time(*time_ns),
            Input::Symbols(symbols) => symbols.iter_mut().for_each(|symbol| self.symbol(symbol)),
            Input::Start(start) => start.time_ns = self.time(start.time_ns),
            Input::End(end) => {
                end.time_ns = self.time(end.time_ns);
                end.failed_probes.iter_mut().for_each(|probe| self.probe(probe, common));
            }
        }
        input
    }

    fn pid(&self, pid: u32) -> u32 {
        self.node << PID_BITS | pid_on_node(pid)
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
    fn record(&self, raw: &RawRecord) -> RawRecord {
        let Ok(mut record) = Record::decode(raw) else { return self.unknown_record(raw) };
        let h = &mut record.header;
        (h.time_ns, h.pid, h.tid) = (self.time(h.time_ns), self.pid(h.pid), self.pid(h.tid));
        h.probe = self.probe_id(h.probe);
        match &mut record.body {
            Body::Copy { context, .. }
            | Body::Pack { context, .. }
            | Body::Cross { context, .. }
            | Body::Stream { context, .. } => self.context(context),
            Body::Map { file, .. } => *file = self.file(*file),
            Body::Fork { child } => *child = self.pid(*child),
            Body::Values { .. }
            | Body::Return { .. }
            | Body::Made { .. }
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

    fn coverage(&self, coverage: &mut Coverage) {
        coverage.time_ns = self.time(coverage.time_ns);
        coverage.off.iter_mut().for_each(|id| *id = self.probe_id(*id));
    }

    fn threads(&self, threads: &mut Threads) {
        threads.time_ns = self.time(threads.time_ns);
        for thread in &mut threads.threads {
            (thread.pid, thread.tid) = (self.pid(thread.pid), self.pid(thread.tid));
            thread.frames.iter_mut().for_each(|place| self.place(place));
            if let Some(site) = thread.call.as_mut().and_then(|call| call.site.as_mut()) {
                self.place(site);
            }
        }
    }

    fn place(&self, place: &mut CodePlace) {
        place.file = self.file(place.file);
    }

    fn symbol(&self, symbol: &mut Symbol) {
        symbol.file = self.file(symbol.file);
    }
}
