//! The batch definition, written plainly: the whole trace in memory, every byte carrying the
//! number of the operation that wrote it last, everything looked up by walking.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use analyzer::input::{Input, Mapping};
use analyzer::names::{BufferName, Kind, OpName, SiteName};
use analyzer::options::Options;
use analyzer::process::Who;
use analyzer::wire::{Body, CallContext, FileId, Header, Record};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Space {
    Private(usize),
    Shared(FileId),
}

struct Process {
    space: usize,
    who: Who,
    mappings: Vec<Mapping>,
    blocks: Vec<(u64, u64, SiteName)>,
}

#[derive(Clone)]
struct Op {
    thread: (usize, u32),
    who: Who,
    pid: u32,
    time_ns: u64,
    site: SiteName,
    call: (u32, u64),
    kind: Kind,
    source: BufferName,
    destination: BufferName,
    segments: u32,
    crosses: bool,
    /// The thread of another process whose memory it read, if nobody is known to have written that: its last one, and how much that had done.
    far: Option<((usize, u32), usize)>,
    parent: Option<usize>,
    depth: usize,
    continues: bool,
    had_child: bool,
    read: bool,
    alive: bool,
    finished: bool,
    begin_edge: bool,
    end_edge: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Shape {
    Unknown,
    Gather,
    Scatter,
}

struct Run {
    op: usize,
    remote: Option<u32>,
    space: Option<Space>,
    next_source: u64,
    next_destination: u64,
    shape: Shape,
}

type ContextOp = (SiteName, Kind, BufferName);

struct Instance {
    who: Who,
    /// The MPI call that the first operation ran in.
    call: (u32, u64),
    time_ns: u64,
    before: HashSet<ContextOp>,
    after: HashSet<ContextOp>,
    begin_edge: bool,
    end_edge: bool,
}

#[derive(Default)]
struct Group {
    instances: Vec<Instance>,
    segments: Vec<u32>,
}

/// A violation, by what it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    pub odd: String,
    pub frequent: String,
    pub abnormality: String,
    pub matched: u64,
    pub known: u64,
}

/// An outlier, by what it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Outlier {
    pub who: Who,
    pub part: u64,
    pub by_work: bool,
    pub distance: String,
}

#[derive(Debug, PartialEq)]
pub struct Outcome {
    pub groups: BTreeMap<String, u64>,
    /// Every pair, not only the heaviest of each odd group.
    pub violations: Vec<Violation>,
    pub outliers: Vec<Outlier>,
}

/// Text that says all that counts of an operation.
pub fn op_text(name: &OpName) -> String {
    format!("{name:?}")
}

pub fn group_text(ops: &[OpName]) -> String {
    ops.iter().map(op_text).collect::<Vec<_>>().join("\n")
}

#[derive(Default)]
struct Batch {
    options: Options,
    launched: bool,
    begin_ns: u64,
    last_ns: u64,
    sites: HashMap<u32, SiteName>,
    paths: HashMap<FileId, String>,
    processes: HashMap<u32, Process>,
    spaces: usize,
    generations: HashMap<u32, usize>,
    ops: Vec<Op>,
    bytes: BTreeMap<(Space, u64), usize>,
    runs: HashMap<(usize, u32), Run>,
    groups: BTreeMap<Vec<OpName>, Group>,
}

/// What the batch definition says of a trace.
pub fn batch(inputs: &[Input], options: &Options) -> Outcome {
    read(inputs, options).outcome()
}

/// Ranks that are outliers in the last 1/part of the trace, whatever the rest shows.
pub fn outliers_in(inputs: &[Input], options: &Options, part: u64, by_work: bool) -> Vec<Outlier> {
    read(inputs, options).outliers_in(part, by_work)
}

fn read(inputs: &[Input], options: &Options) -> Batch {
    let mut b = Batch { options: options.clone(), ..Batch::default() };
    for input in inputs {
        match input {
            Input::Start(start) => {
                b.launched = start.launched;
                b.begin_ns = start.time_ns;
            }
            Input::Process(facts) => {
                let known = b.processes.remove(&facts.pid);
                let process = Process {
                    space: known.map_or(b.spaces, |p| p.space),
                    who: facts.rank.map_or(Who::Pid(facts.pid), Who::Rank),
                    mappings: facts.mappings.clone(),
                    blocks: Vec::new(),
                };
                b.spaces += 1;
                b.processes.insert(facts.pid, process);
            }
            Input::Plan(plan) => {
                b.paths.extend(plan.files.iter().map(|f| (f.id, f.path.clone())));
                for p in &plan.probes {
                    let site = b.site(p.file, p.site_offset_bytes);
                    b.sites.insert(p.id, site);
                }
            }
            Input::Record(raw) => b.record(&Record::decode(raw).expect("made by the test")),
            Input::Tick { time_ns } => b.last_ns = b.last_ns.max(*time_ns),
            Input::End(end) => {
                b.last_ns = b.last_ns.max(end.time_ns);
                for op in 0..b.ops.len() {
                    b.end_by_tool(op);
                }
            }
            other => panic!("not for the batch: {other:?}"),
        }
    }
    b
}

impl Batch {
    fn site(&self, file: FileId, offset_bytes: u64) -> SiteName {
        SiteName::File { module: self.paths[&file].clone(), build_id: None, offset_bytes }
    }

    fn record(&mut self, record: &Record) {
        let h = &record.header;
        self.last_ns = self.last_ns.max(h.time_ns);
        let thread = self.thread(h);
        match record.body {
            Body::Copy { dst, src, len_bytes, context, .. } => {
                let site = self.sites[&h.probe].clone();
                let (source, destination) = (self.at(h.pid, src), self.at(h.pid, dst));
                self.movement(
                    h,
                    (site, context),
                    Kind::Copy,
                    (src, Some(source)),
                    (dst, Some(destination)),
                    len_bytes,
                    1,
                    None,
                );
            }
            Body::Pack { dst, src, len_bytes, segments, unpack, context, .. } => {
                let site = self.sites[&h.probe].clone();
                let kind = if unpack { Kind::Unpack } else { Kind::Pack };
                let source = unpack.then(|| self.at(h.pid, src));
                let destination = (!unpack).then(|| self.at(h.pid, dst));
                let n = if segments == 0 { 2 } else { segments as u32 };
                self.movement(
                    h,
                    (site, context),
                    kind,
                    (src, source),
                    (dst, destination),
                    len_bytes,
                    n,
                    None,
                );
            }
            Body::Cross { local, remote, len_bytes, remote_pid, write, context, .. } => {
                let call = if write { "process_vm_writev" } else { "process_vm_readv" };
                let site = SiteName::Kernel { call: call.into() };
                let own = (local, Some(self.at(h.pid, local)));
                let other = (remote, Some(self.at(remote_pid, remote)));
                let (kind, source, destination) =
                    if write { (Kind::CrossWrite, own, other) } else { (Kind::CrossRead, other, own) };
                self.movement(h, (site, context), kind, source, destination, len_bytes, 1, Some(remote_pid));
            }
            ref body => {
                self.runs.remove(&thread);
                self.memory(h, body);
            }
        }
        self.settle();
    }

    fn thread(&self, h: &Header) -> (usize, u32) {
        (self.generations.get(&h.pid).copied().unwrap_or(0), h.tid)
    }

    fn memory(&mut self, h: &Header, body: &Body) {
        match *body {
            Body::Alloc { addr, size_bytes, caller, .. } => {
                let site = self.site(super::PROGRAM, caller - 1 - super::PROGRAM_AT);
                let p = self.processes.get_mut(&h.pid).expect("known");
                let (space, end) = (p.space, addr + size_bytes);
                p.blocks.retain(|b| b.1 <= addr || b.0 >= end);
                p.blocks.push((addr, end, site));
                self.wipe(Space::Private(space), addr, end);
            }
            Body::Free { addr, .. } => {
                let p = self.processes.get_mut(&h.pid).expect("known");
                let Some(at) = p.blocks.iter().position(|b| b.0 == addr) else { return };
                let (start, end, _) = p.blocks.remove(at);
                let space = p.space;
                self.wipe(Space::Private(space), start, end);
            }
            Body::Unmap { addr, len_bytes } => {
                let p = self.processes.get_mut(&h.pid).expect("known");
                let space = p.space;
                p.mappings.retain(|m| m.start < addr || m.end > addr + len_bytes);
                self.wipe(Space::Private(space), addr, addr + len_bytes);
                self.end_unmapped_files();
            }
            Body::Map { addr, len_bytes, offset_bytes, file, shared, exec, has_file } => {
                let p = self.processes.get_mut(&h.pid).expect("known");
                let space = p.space;
                p.mappings.retain(|m| m.start < addr || m.end > addr + len_bytes);
                assert!(has_file && shared, "only segments are mapped");
                let name = super::SEGMENT_NAME.to_owned();
                p.mappings.push(Mapping {
                    start: addr,
                    end: addr + len_bytes,
                    offset_bytes,
                    file,
                    shared,
                    exec,
                    name,
                });
                self.wipe(Space::Private(space), addr, addr + len_bytes);
                self.end_unmapped_files();
            }
            Body::Exec => {
                *self.generations.entry(h.pid).or_default() += 1;
                let spaces = self.spaces;
                self.spaces += 1;
                let p = self.processes.get_mut(&h.pid).expect("known");
                let old = std::mem::replace(&mut p.space, spaces);
                p.mappings.clear();
                p.blocks.clear();
                self.wipe(Space::Private(old), 0, u64::MAX);
                self.end_unmapped_files();
            }
            _ => {}
        }
    }

    fn end_unmapped_files(&mut self) {
        let mapped = |file: FileId| {
            self.processes.values().any(|p| p.mappings.iter().any(|m| m.shared && m.file == file))
        };
        self.bytes.retain(|(space, _), _| !matches!(space, Space::Shared(file) if !mapped(*file)));
    }

    fn wipe(&mut self, space: Space, start: u64, end: u64) {
        self.bytes.retain(|(s, at), _| *s != space || *at < start || *at >= end);
    }

    fn at(&self, pid: u32, addr: u64) -> (Space, u64) {
        let p = &self.processes[&pid];
        let segment = p.mappings.iter().find(|m| m.shared && m.start <= addr && addr < m.end);
        segment.map_or((Space::Private(p.space), addr), |m| {
            (Space::Shared(m.file), addr - m.start + m.offset_bytes)
        })
    }

    fn buffer(&self, pid: u32, addr: u64) -> BufferName {
        let p = &self.processes[&pid];
        if let Some((_, _, site)) = p.blocks.iter().find(|b| b.0 <= addr && addr < b.1) {
            return BufferName::Heap { site: site.clone() };
        }
        let Some(m) = p.mappings.iter().find(|m| m.start <= addr && addr < m.end) else {
            return BufferName::Unknown;
        };
        match (m.shared, m.name.as_str()) {
            (true, name) => BufferName::Shared { name: name.replace("0.1", "*.*") },
            (false, "[heap]") => BufferName::HeapBeforeAttach,
            (false, path) => BufferName::Static { module: path.to_owned() },
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn movement(
        &mut self,
        h: &Header,
        (site, context): (SiteName, CallContext),
        kind: Kind,
        source: (u64, Option<(Space, u64)>),
        destination: (u64, Option<(Space, u64)>),
        len: u64,
        segments: u32,
        remote: Option<u32>,
    ) {
        if len == 0 {
            return;
        }
        for op in 0..self.ops.len() {
            if op as u64 + self.options.max_age_ops < self.ops.len() as u64 {
                self.end_by_tool(op);
            }
        }
        let mut written: HashMap<usize, u64> = HashMap::new();
        if let Some((space, start)) = source.1 {
            for at in start..start + len {
                if let Some(&op) = self.bytes.get(&(space, at)) {
                    *written.entry(op).or_default() += 1;
                    self.ops[op].read = true;
                }
            }
        }
        let writer = written.into_iter().map(|(op, n)| (n, op)).max().map(|w| w.1);
        let linked = writer.filter(|&w| self.ops[w].depth < usize::from(self.options.max_chain_ops));
        let thread = self.thread(h);
        let copies = !matches!(kind, Kind::Pack | Kind::Unpack);
        if copies && let Some(op) = self.extend(h, &site, kind, (source.0, destination), linked, len, remote)
        {
            return self.write(op, destination.1, len);
        }
        self.runs.remove(&thread);
        let remote_buffer = |cross: Kind| if kind == cross { remote.unwrap_or(h.pid) } else { h.pid };
        let op = Op {
            thread,
            who: self.processes[&h.pid].who,
            pid: h.pid,
            time_ns: h.time_ns,
            source: self.buffer(remote_buffer(Kind::CrossRead), source.0),
            destination: self.buffer(remote_buffer(Kind::CrossWrite), destination.0),
            site,
            call: (context.probe, context.return_address),
            kind,
            segments,
            crosses: remote.map_or(writer.is_some_and(|w| self.ops[w].pid != h.pid), |r| r != h.pid),
            far: if kind == Kind::CrossRead && writer.is_none() { self.far(h.pid, remote) } else { None },
            parent: linked,
            depth: linked.map_or(1, |p| self.ops[p].depth + 1),
            continues: writer.is_some() && linked.is_none(),
            had_child: false,
            read: false,
            alive: true,
            finished: false,
            begin_edge: !self.launched && self.thread_ops(thread).len() < self.options.context_window,
            end_edge: false,
        };
        if let Some(p) = linked {
            self.ops[p].had_child = true;
        }
        let id = self.ops.len();
        self.ops.push(op);
        self.write(id, destination.1, len);
        if copies {
            let run = Run {
                op: id,
                remote,
                space: destination.1.map(|d| d.0),
                next_source: source.0 + len,
                next_destination: destination.0 + len,
                shape: Shape::Unknown,
            };
            self.runs.insert(thread, run);
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn extend(
        &mut self,
        h: &Header,
        site: &SiteName,
        kind: Kind,
        (source, destination): (u64, (u64, Option<(Space, u64)>)),
        linked: Option<usize>,
        len: u64,
        remote: Option<u32>,
    ) -> Option<usize> {
        let thread = self.thread(h);
        let run = self.runs.get_mut(&thread)?;
        let op = &mut self.ops[run.op];
        let alive = self.bytes.values().any(|&b| b == run.op);
        if !alive
            || (&op.site, op.kind) != (site, kind)
            || run.remote != remote
            || run.space != destination.1.map(|d| d.0)
        {
            return None;
        }
        let in_line = (run.next_source == source, run.next_destination == destination.0);
        run.shape = match in_line {
            (true, true) if op.parent == linked => run.shape,
            (false, true) if run.shape != Shape::Scatter => Shape::Gather,
            (true, false) if run.shape != Shape::Gather => Shape::Scatter,
            _ => return None,
        };
        if in_line != (true, true) {
            op.segments += 1;
        }
        run.next_source = source + len;
        run.next_destination = destination.0 + len;
        Some(run.op)
    }

    fn write(&mut self, op: usize, destination: Option<(Space, u64)>, len: u64) {
        if let Some((space, start)) = destination {
            self.bytes.extend((start..start + len).map(|at| ((space, at), op)));
        }
    }

    fn end_by_tool(&mut self, op: usize) {
        if self.bytes.values().any(|&b| b == op) {
            self.bytes.retain(|_, b| *b != op);
            self.ops[op].end_edge = true;
            self.settle();
        }
    }

    /// Operations without a byte die; chains that nothing can extend any more are finished.
    fn settle(&mut self) {
        let alive: HashSet<usize> = self.bytes.values().copied().collect();
        for op in 0..self.ops.len() {
            self.ops[op].alive = alive.contains(&op);
        }
        for op in 0..self.ops.len() {
            let o = &self.ops[op];
            if !o.alive && !o.finished && !o.had_child {
                self.ops[op].finished = true;
                self.finish(op);
            }
        }
    }

    fn thread_ops(&self, thread: (usize, u32)) -> Vec<usize> {
        (0..self.ops.len()).filter(|&o| self.ops[o].thread == thread).collect()
    }

    fn far(&self, pid: u32, remote: Option<u32>) -> Option<((usize, u32), usize)> {
        let remote = remote.filter(|remote| *remote != pid)?;
        let last = self.ops.iter().rfind(|op| op.pid == remote)?;
        Some((last.thread, self.thread_ops(last.thread).len()))
    }

    fn finish(&mut self, leaf: usize) {
        let mut chain = vec![leaf];
        while let Some(parent) = self.ops[chain[chain.len() - 1]].parent {
            chain.push(parent);
        }
        chain.reverse();
        let (root, w) = (chain[0], self.options.context_window);
        let context = |o: &Op| (o.site.clone(), o.kind, o.source.clone());
        let of_own = || {
            let ops = self.thread_ops(self.ops[root].thread);
            let at = ops.iter().position(|&o| o == root).expect("its thread has it");
            (ops, at)
        };
        let (of_root, at) =
            self.ops[root].far.map_or_else(of_own, |(thread, at)| (self.thread_ops(thread), at));
        let before = of_root[at.saturating_sub(w)..at].iter().map(|&o| &self.ops[o]);
        let before = before.filter(|o| !o.had_child && !o.read && !self.ops[root].continues).map(context);
        let of_leaf = self.thread_ops(self.ops[leaf].thread);
        let at = of_leaf.iter().position(|&o| o == leaf).expect("its thread has it") + 1;
        let after = of_leaf[at..(at + w).min(of_leaf.len())].iter().map(|&o| &self.ops[o]);
        let after = after.filter(|o| o.parent.is_none() && !o.continues).map(context);
        let instance = Instance {
            who: self.ops[root].who,
            call: self.ops[root].call,
            time_ns: self.ops[root].time_ns,
            before: before.collect(),
            after: after.collect(),
            begin_edge: self.ops[root].begin_edge || self.ops[root].continues,
            end_edge: self.ops[leaf].end_edge,
        };
        let ops = chain.iter().map(|&o| &self.ops[o]);
        let names: Vec<OpName> = ops
            .clone()
            .map(|o| OpName {
                site: o.site.clone(),
                kind: o.kind,
                pack: o.segments >= 2,
                crosses: o.crosses,
                source: o.source.clone(),
                destination: o.destination.clone(),
            })
            .collect();
        let segments: Vec<u32> = ops.map(|o| o.segments.min(self.options.pack_uniqueness_max)).collect();
        let group = self.groups.entry(names).or_default();
        group.instances.push(instance);
        group.segments.resize(segments.len(), 1);
        group.segments.iter_mut().zip(segments).for_each(|(m, n)| *m = (*m).max(n));
    }

    fn outcome(&self) -> Outcome {
        Outcome {
            groups: self.groups.iter().map(|(ops, g)| (group_text(ops), g.instances.len() as u64)).collect(),
            violations: self.violations(),
            outliers: self.outliers(),
        }
    }

    fn weights(&self, ops: &[OpName], group: &Group) -> Vec<u32> {
        let weight = |(op, n): (&OpName, &u32)| {
            let pack = if op.pack { *n } else { 1 };
            pack.max(if op.crosses { self.options.network_uniqueness } else { 1 })
        };
        ops.iter().zip(&group.segments).map(weight).collect()
    }

    fn violations(&self) -> Vec<Violation> {
        let o = &self.options;
        let groups: Vec<(&Vec<OpName>, &Group, Vec<u32>)> =
            self.groups.iter().map(|(ops, g)| (ops, g, self.weights(ops, g))).collect();
        let reaching = |least: u32| -> u64 {
            let reaches = groups.iter().filter(|g| g.2.iter().sum::<u32>() >= least);
            reaches.map(|g| g.1.instances.len() as u64).sum()
        };
        let usual = reaching(o.uniqueness_usual) as f64 >= o.uniqueness_usual_share * reaching(0) as f64;
        let least = if usual { o.uniqueness_usual } else { o.uniqueness_short };
        let all = reaching(least);
        let mut violations = Vec::new();
        if all < o.warm_up_chains {
            return violations;
        }
        for (p, pg, pw) in &groups {
            let fp = pg.instances.len() as u64;
            let up: u32 = pw.iter().sum();
            if up < least || fp < o.min_frequent || fp as f64 <= o.frequent_share * all as f64 {
                continue;
            }
            for (c, cg, cw) in &groups {
                let fc = cg.instances.len() as u64;
                let uc: u32 = cw.iter().sum();
                let (i, j, n, u) = common(c, cw, p, pw);
                if c == p || n == 0 || fc >= fp {
                    continue;
                }
                let similarity = f64::from(u) / f64::from(uc + up - u);
                let rareness = (fp - fc) as f64 / fp as f64;
                let abnormality = 2.0 / (1.0 / similarity + 1.0 / rareness);
                let cut = |x: &&Instance| {
                    n == c.len() && ((j > 0 && x.begin_edge) || (j + n < p.len() && x.end_edge))
                };
                let all_cut = cg.instances.iter().filter(cut).count() == cg.instances.len();
                if abnormality <= o.abnormality || all_cut {
                    continue;
                }
                let context = |op: &OpName| (op.site.clone(), op.kind, op.source.clone());
                // A process that gets data from another one has not done what that one did.
                let pushes = |op: &OpName| matches!(op.kind, Kind::CrossWrite | Kind::RdmaWrite);
                let by_one = |at: usize| !pushes(&p[at]) && (pushes(&p[at + 1]) || !p[at + 1].crosses);
                // It reads what that one has copied, which is looked for there.
                let is_staged = |at: usize| {
                    matches!(p[at].kind, Kind::Copy | Kind::Pack)
                        && !p[at].crosses
                        && p[at + 1].kind == Kind::CrossRead
                        && p[at + 1].crosses
                };
                let matches = |x: &&Instance| {
                    (i == 0
                        && j > 0
                        && (by_one(j - 1) || is_staged(j - 1))
                        && x.before.contains(&context(&p[j - 1])))
                        || (i + n == c.len()
                            && j + n < p.len()
                            && by_one(j + n - 1)
                            && x.after.contains(&context(&p[j + n])))
                };
                violations.push(Violation {
                    odd: group_text(c),
                    frequent: group_text(p),
                    // Rounded as reports are, where both halves are as near.
                    abnormality: format!("{:.4}", (abnormality * 1e4).round() / 1e4),
                    matched: cg.instances.iter().filter(matches).count() as u64,
                    known: fc,
                });
            }
        }
        violations.sort();
        violations
    }

    /// By what chains begin with, else by whole chains.
    fn outliers(&self) -> Vec<Outlier> {
        let kinds =
            [true, false].into_iter().flat_map(|by_work| [1, 2, 4, 8, 16].map(|part| (part, by_work)));
        let mut found = kinds.map(|(part, by_work)| self.outliers_in(part, by_work));
        found.find(|found| !found.is_empty()).unwrap_or_default()
    }

    fn outliers_in(&self, part: u64, by_work: bool) -> Vec<Outlier> {
        let mut width = 1u64 << 20;
        // Buckets begin at multiples of their width.
        while self.last_ns / width - self.begin_ns / width >= 64 {
            width *= 2;
        }
        let bucket = |ns: u64| (ns / width).saturating_sub(self.begin_ns / width);
        let used = bucket(self.last_ns) + 1;
        if used / part == 0 {
            return Vec::new();
        }
        let counts = |x: &Instance| bucket(x.time_ns) >= used - used / part;
        if by_work {
            self.outliers_among(part, true, counts, |ops, x| (ops[0].site.clone(), x.call))
        } else {
            self.outliers_among(part, false, counts, |ops, _| ops.to_vec())
        }
    }

    fn outliers_among<K: Ord>(
        &self,
        part: u64,
        by_work: bool,
        counts: impl Fn(&Instance) -> bool,
        column: impl Fn(&[OpName], &Instance) -> K,
    ) -> Vec<Outlier> {
        let o = &self.options;
        let mut traces: BTreeMap<Who, BTreeMap<K, u128>> = BTreeMap::new();
        for (ops, group) in &self.groups {
            for x in group.instances.iter().filter(|x| counts(x)) {
                *traces.entry(x.who).or_default().entry(column(ops, x)).or_default() += 1;
            }
        }
        traces.retain(|_, t| t.values().sum::<u128>() >= u128::from(o.min_chains_per_rank));
        let n = traces.len();
        let k = (n / o.neighbour_divisor).max(1);
        if n < 2 {
            return Vec::new();
        }
        let columns: BTreeSet<&K> = traces.values().flat_map(BTreeMap::keys).collect();
        let count = |who: Who, column: &K| traces[&who].get(column).copied().unwrap_or(0);
        let total = |who: Who| traces[&who].values().sum::<u128>();
        // In whole numbers: what is exactly on an edge must not depend on the order of the groups.
        let distance = |a: Who, b: Who| -> f64 {
            let apart = |&column: &&K| (count(a, column) * total(b)).abs_diff(count(b, column) * total(a));
            columns.iter().map(apart).sum::<u128>() as f64 / (total(a) * total(b)) as f64
        };
        let kth = |a: Who| {
            let mut all: Vec<f64> = traces.keys().filter(|b| **b != a).map(|&b| distance(a, b)).collect();
            all.sort_by(f64::total_cmp);
            all[k - 1]
        };
        let kths: Vec<(Who, f64)> = traces.keys().map(|&w| (w, kth(w))).collect();
        let average = kths.iter().map(|d| d.1).sum::<f64>() / n as f64;
        let far = kths.into_iter().filter(|d| d.1 > o.outlier_factor * average && d.1 >= o.outlier_floor);
        far.map(|(who, d)| Outlier { who, part, by_work, distance: format!("{d:.4}") }).collect()
    }
}

/// Begin in `c`, begin in `p`, length and uniqueness of the common part that says most; among
/// equals the one that ends first in `c`, then in `p`.
fn common(c: &[OpName], cw: &[u32], p: &[OpName], pw: &[u32]) -> (usize, usize, usize, u32) {
    let mut best = (0, 0, 0, 0);
    for end_c in 1..=c.len() {
        for end_p in 1..=p.len() {
            for n in 1..=end_c.min(end_p) {
                let (i, j) = (end_c - n, end_p - n);
                if c[i..end_c] != p[j..end_p] {
                    break;
                }
                let u: u32 = (0..n).map(|x| cw[i + x].min(pw[j + x])).sum();
                if u > best.3 {
                    best = (i, j, n, u);
                }
            }
        }
    }
    best
}
