//! Links operations into chains and decides how long they live.
//!
//! A node is one operation and the bytes that it wrote. It is live while a byte of it is
//! left; it is pending while it is live or has pending children. A node that stops being
//! pending and never had a child is the end of a finished chain. Nothing depends on wall
//! time: age is counted in operations of the job.

mod ages;
mod finish;
mod node;
mod runs;
mod window;

use ages::Ages;
use node::{Details, Marks, Node};
use runs::Run;
use window::{Surroundings, Window};

use crate::groups::{FinishedOp, Groups};
use crate::live::{LiveMap, Loss};
use crate::memory::{Location, SpaceId};
use crate::names::{BufferId, Kind, Names, Shape, SiteId, id};
use crate::options::Options;
use crate::process::{CallId, WhoId};

id!(/// An operation of a chain that is not finished.
    NodeId);
id!(/// A thread of a watched process.
    ThreadId);
id!(/// A chain's operations so far: a node of the trie of groups.
    PathId);

/// One side of a movement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    /// In the address space of the process that holds it.
    pub addr: u64,
    pub buffer: BufferId,
    /// Where that is; `None`: only the name is known.
    pub at: Option<Location>,
}

/// A data movement, its places resolved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Movement {
    pub thread: ThreadId,
    pub process: u32,
    pub pid: u32,
    pub tid: u32,
    pub who: WhoId,
    pub time_ns: u64,
    pub site: SiteId,
    pub kind: Kind,
    pub source: Side,
    pub destination: Side,
    pub len_bytes: u64,
    /// Pieces that the record itself tells of.
    pub segments: u32,
    /// The other process of a cross-memory operation.
    pub remote: Option<u32>,
    pub call: CallId,
}

impl Movement {
    /// Space of the destination, if its bytes are known.
    fn destination_space(&self) -> SpaceId {
        self.destination.at.map_or(SpaceId::NONE, |at| at.space)
    }
}

#[derive(Default)]
struct Thread {
    run: Option<Run>,
    window: Window,
    ops: u64,
}

/// What a read finds.
#[derive(Clone, Copy)]
struct Writer {
    node: NodeId,
    bytes: u64,
    op: u64,
    process: u32,
}

/// Counts for people.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ChainCounts {
    /// Chains that a loss may have changed: in no group.
    pub inconclusive: u64,
    /// Operations that a loss may have changed.
    pub tainted_ops: u64,
    /// Nodes that are not finished.
    pub pending_nodes: u64,
    /// Copies that continued an operation.
    pub merged_copies: u64,
}

/// All chains that are not finished.
pub(crate) struct Chains {
    nodes: Vec<Node>,
    surroundings: Surroundings,
    details: Vec<Details>,
    free: Vec<NodeId>,
    spaces: Vec<LiveMap>,
    free_spaces: Vec<SpaceId>,
    threads: Vec<Thread>,
    free_threads: Vec<ThreadId>,
    ages: Ages,
    ops: u64,
    /// Chains that begin with an operation below this may miss something.
    tainted_below: u64,
    watched_from_birth: bool,
    window: usize,
    max_age_ops: u64,
    max_chain_ops: u8,
    pub counts: ChainCounts,
    /// Otherwise what is finished is forgotten.
    pub finishes_chains: bool,
    scratch: Scratch,
}

#[derive(Default)]
struct Scratch {
    lost: Vec<Loss>,
    writers: Vec<Writer>,
    path: Vec<NodeId>,
    ops: Vec<FinishedOp>,
}

impl Chains {
    pub fn new(options: &Options) -> Self {
        Self {
            nodes: Vec::new(),
            surroundings: Surroundings::new(options.window()),
            details: Vec::new(),
            free: Vec::new(),
            spaces: Vec::new(),
            free_spaces: Vec::new(),
            threads: Vec::new(),
            free_threads: Vec::new(),
            ages: Ages::default(),
            ops: 0,
            tainted_below: 0,
            watched_from_birth: false,
            window: options.window(),
            max_age_ops: options.max_age_ops,
            max_chain_ops: options.max_chain_ops.max(1),
            counts: ChainCounts::default(),
            finishes_chains: true,
            scratch: Scratch::default(),
        }
    }

    /// The job was started under watch: threads have no past that was not seen.
    pub fn watched_from_birth(&mut self) {
        self.watched_from_birth = true;
    }

    pub fn new_space(&mut self) -> SpaceId {
        if let Some(space) = self.free_spaces.pop() {
            return space;
        }
        self.spaces.push(LiveMap::default());
        SpaceId(self.spaces.len() as u32 - 1)
    }

    pub fn new_thread(&mut self) -> ThreadId {
        if let Some(thread) = self.free_threads.pop() {
            return thread;
        }
        self.threads.push(Thread::default());
        ThreadId(self.threads.len() as u32 - 1)
    }

    pub fn live_ranges(&self, space: SpaceId) -> usize {
        self.spaces[space.index()].len()
    }

    /// Operations so far.
    pub fn ops(&self) -> u64 {
        self.ops
    }

    /// Takes a movement of at least one byte.
    pub fn movement(&mut self, m: &Movement, names: &mut Names, groups: &mut Groups) {
        self.expire(names, groups);
        let writer = self.read(m);
        if self.extend_run(m, writer, names, groups) {
            self.counts.merged_copies += 1;
            return;
        }
        self.end_run(m.thread);
        let node = self.add_node(m, writer, names);
        self.enter_window(m.thread, node);
        self.write(m, node, names, groups);
        if self.nodes[node.index()].live_bytes == 0 {
            self.die(node, names, groups);
        }
        if m.kind != Kind::Pack && m.kind != Kind::Unpack {
            let parent = self.nodes[node.index()].parent;
            self.threads[m.thread.index()].run = Some(Run::new(m, node, parent));
        }
    }

    /// A thread is gone.
    pub fn end_thread(&mut self, thread: ThreadId) {
        self.forget_past(thread);
        self.free_threads.push(thread);
    }

    fn forget_past(&mut self, thread: ThreadId) {
        self.end_run(thread);
        let window = std::mem::take(&mut self.threads[thread.index()].window);
        for gone in window.into_gone() {
            self.leave_window(&gone);
        }
        self.threads[thread.index()].ops = 0;
    }

    /// Memory has new content that no operation wrote.
    pub fn remove_range(
        &mut self,
        space: SpaceId,
        start: u64,
        end: u64,
        names: &mut Names,
        groups: &mut Groups,
    ) {
        let mut lost = std::mem::take(&mut self.scratch.lost);
        self.spaces[space.index()].remove(start, end, &mut lost);
        self.settle(lost, names, groups);
    }

    /// A space is gone.
    pub fn remove_space(&mut self, space: SpaceId, names: &mut Names, groups: &mut Groups) {
        let mut lost = std::mem::take(&mut self.scratch.lost);
        self.spaces[space.index()].clear(&mut lost);
        self.settle(lost, names, groups);
        self.free_spaces.push(space);
    }

    /// Records were lost. `forever`: and what memory looks like is not known any more.
    pub fn lose(&mut self, forever: bool) {
        let newly = |n: &&Node| n.pending > 0 && n.op >= self.tainted_below;
        self.counts.tainted_ops += self.nodes.iter().filter(newly).count() as u64;
        let until = if forever { u64::MAX } else { self.ops.saturating_add(self.max_age_ops) };
        self.tainted_below = self.tainted_below.max(until);
    }

    /// Movements are not seen for a while: what is live ends here, and threads begin anew.
    pub fn pause(&mut self, names: &mut Names, groups: &mut Groups) {
        for thread in 0..self.threads.len() {
            self.forget_past(ThreadId(thread as u32));
        }
        self.finish(names, groups);
        self.watched_from_birth = false;
    }

    /// The session is over: what is live ends here.
    pub fn finish(&mut self, names: &mut Names, groups: &mut Groups) {
        while let Some(node) = self.ages.pop_before(u64::MAX) {
            self.end_by_tool(node, names, groups);
        }
    }

    /// The live operation that wrote most of the source; among equals the latest.
    fn read(&mut self, m: &Movement) -> Option<Writer> {
        let at = m.source.at?;
        let (start, end) = range(at, m.len_bytes);
        let nodes = &mut self.nodes;
        let mut note = |node: NodeId, bytes| {
            let n = &mut nodes[node.index()];
            n.marks.set(Marks::READ);
            Writer { node, bytes, op: n.op, process: n.process }
        };
        let space = &self.spaces[at.space.index()];
        if let Some(node) = space.writer_of_all(start, end) {
            return Some(note(node, end - start));
        }
        let writers = &mut self.scratch.writers;
        writers.clear();
        space.read(start, end, |node, bytes| match writers.iter_mut().find(|w| w.node == node) {
            Some(w) => w.bytes += bytes,
            None => writers.push(note(node, bytes)),
        });
        writers.iter().copied().max_by_key(|w| (w.bytes, w.op))
    }

    fn is_live(&self, node: NodeId) -> bool {
        self.nodes[node.index()].live_bytes > 0
    }

    /// The parent that a reader of this node gets: none if the chain is long enough.
    fn linked(&self, node: NodeId) -> NodeId {
        if self.nodes[node.index()].depth < self.max_chain_ops { node } else { NodeId::NONE }
    }

    fn add_node(&mut self, m: &Movement, writer: Option<Writer>, names: &mut Names) -> NodeId {
        let op = self.ops;
        self.ops += 1;
        if op < self.tainted_below {
            self.counts.tainted_ops += 1;
        }
        let parent = writer.map_or(NodeId::NONE, |w| self.linked(w.node));
        let from_other = writer.is_some_and(|w| w.process != m.process);
        let crosses = m.remote.map_or(from_other, |remote| remote != m.process);
        let young = self.threads[m.thread.index()].ops < self.window as u64;
        let marks = Marks::default()
            .with(Marks::IN_WINDOW, true)
            .with(Marks::CROSSES, crosses)
            .with(Marks::CLOSED, matches!(m.kind, Kind::Pack | Kind::Unpack))
            // Only the bound on the length made a root of what goes on.
            .with(Marks::BEGIN_EDGE, young && !self.watched_from_birth)
            .with(Marks::BEGIN_EDGE, writer.is_some() && !parent.is_some());
        let shape =
            Shape { site: m.site, kind: m.kind, source: m.source.buffer, destination: m.destination.buffer };
        let new = Node {
            op,
            time_ns: m.time_ns,
            live_bytes: 0,
            parent,
            root: NodeId::NONE,
            pending: 1,
            segments: m.segments,
            process: m.process,
            who: m.who,
            call: m.call,
            shape: names.shape(&shape),
            path: PathId::NONE,
            refs: 0,
            depth: 1,
            marks,
        };
        let node = self.allocate(new, Details::of(m));
        self.ages.push(op, node);
        self.counts.pending_nodes += 1;
        if parent.is_some() {
            self.link(parent, node);
        } else {
            self.nodes[node.index()].root = node;
        }
        if writer.is_none() {
            self.begin_chain(node, m.thread, names);
        }
        node
    }

    fn link(&mut self, parent: NodeId, node: NodeId) {
        let p = &mut self.nodes[parent.index()];
        p.marks.set(Marks::HAD_CHILD);
        p.pending += 1;
        let (root, depth) = (p.root, p.depth + 1);
        let n = &mut self.nodes[node.index()];
        n.root = root;
        n.depth = depth;
    }

    /// A root remembers what its thread did before, and those remember the root.
    fn begin_chain(&mut self, node: NodeId, thread: ThreadId, names: &Names) {
        let context = names.shape_context(self.nodes[node.index()].shape);
        let window = &mut self.threads[thread.index()].window;
        self.surroundings.set_before(node, window.latest(self.window));
        window.begin_chain(self.window, context);
    }

    fn enter_window(&mut self, thread: ThreadId, node: NodeId) {
        let t = &mut self.threads[thread.index()];
        t.ops += 1;
        if let Some(gone) = t.window.push(node, self.window) {
            self.leave_window(&gone);
        }
    }

    fn write(&mut self, m: &Movement, node: NodeId, names: &mut Names, groups: &mut Groups) {
        let Some(at) = m.destination.at else { return };
        let (start, end) = range(at, m.len_bytes);
        if start == end {
            return;
        }
        let mut lost = std::mem::take(&mut self.scratch.lost);
        self.spaces[at.space.index()].write(start, end, node, &mut lost);
        self.nodes[node.index()].live_bytes += end - start;
        let details = &mut self.details[node.index()];
        details.low = details.low.min(start);
        details.high = details.high.max(end);
        self.settle(lost, names, groups);
    }

    /// Nodes that lost their last byte die.
    fn settle(&mut self, mut lost: Vec<Loss>, names: &mut Names, groups: &mut Groups) {
        for &(node, bytes) in &lost {
            let n = &mut self.nodes[node.index()];
            n.live_bytes -= bytes;
            if n.live_bytes == 0 {
                self.die(node, names, groups);
            }
        }
        lost.clear();
        self.scratch.lost = lost;
    }

    fn expire(&mut self, names: &mut Names, groups: &mut Groups) {
        let too_old = self.ops.saturating_sub(self.max_age_ops);
        while let Some(node) = self.ages.pop_before(too_old) {
            self.end_by_tool(node, names, groups);
        }
    }

    /// Ends a live node that nothing in the job ended.
    fn end_by_tool(&mut self, node: NodeId, names: &mut Names, groups: &mut Groups) {
        let n = &mut self.nodes[node.index()];
        n.live_bytes = 0;
        n.marks.set(Marks::END_EDGE);
        let Details { low, high, space, .. } = self.details[node.index()];
        if space.is_some() {
            self.spaces[space.index()].remove_node(low, high, node);
        }
        self.die(node, names, groups);
    }

    fn allocate(&mut self, new: Node, details: Details) -> NodeId {
        if let Some(node) = self.free.pop() {
            self.nodes[node.index()] = new;
            self.surroundings.clear(node);
            self.details[node.index()] = details;
            return node;
        }
        self.nodes.push(new);
        self.surroundings.grow();
        self.details.push(details);
        NodeId(self.nodes.len() as u32 - 1)
    }
}

/// The bytes of a side, as far as its space goes.
fn range(at: Location, len_bytes: u64) -> (u64, u64) {
    let len = len_bytes.min(at.limit_bytes);
    (at.offset, at.offset.saturating_add(len))
}
