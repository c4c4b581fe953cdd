//! Links operations into chains and decides how long they live.
//!
//! A node is one operation and the bytes that it wrote. It is live while a byte of it is
//! left; it is pending while it is live or has pending children. A node that stops being
//! pending and never had a child is the end of a finished chain. Nothing depends on wall
//! time: age is counted in operations of the job.

mod ages;
pub(crate) mod context_set;
mod extents;
mod far_others;
pub(crate) mod far_own;
pub(crate) mod far_state;
mod finish;
pub(crate) mod group;
pub(crate) mod groups;
mod held;
mod ids;
mod live;
mod messages;
pub(crate) mod name_order;
mod node;
pub(crate) mod one_sided;
pub(crate) mod op_names;
mod prefetch;
pub(crate) mod rank_counts;
mod run;
mod runs;
pub(crate) mod stream_ends;
mod stream_run;
mod streams;
pub(crate) mod sums;
pub(crate) mod time_buckets;
mod traces;
mod who_set;
mod window;

use ages::Ages;
use held::MessagesInFlight;
use ids::{NodeId, PathId};
use node::{Details, Marks, Node};
use run::CoalescedCopy;
use stream_ends::Written;
use stream_run::StreamOperations;
use traces::Traces;
use window::Window;

use crate::chains::far_state::FarChains;
use crate::chains::group::FinishedOp;
use crate::chains::groups::ChainGroups;
use crate::chains::live::{LiveMap, Overwritten};
use crate::chains::op_names::OpNames;
use crate::chains::op_names::OpShape;
use crate::chains::prefetch::prefetch;
use crate::job::ids::SpaceId;
use crate::job::ids::ThreadId;
use crate::job::movement::{Movement, Side};
use crate::job::names::Kind;
use crate::options::Options;

#[derive(Default)]
#[repr(align(64))]
struct Thread {
    run: Option<CoalescedCopy>,
    window: Window,
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
    /// Operations that were linked on nodes of their own.
    pub ops_elsewhere: u64,
    /// Operations of other nodes that something stood for.
    pub placeholders: u64,
}

/// Which operation a movement is a part of, and which one wrote most of what it read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkedMovement {
    /// Numbers of operations in the job.
    pub op: u64,
    pub written_by: Option<u64>,
}

/// All chains that are not finished.
pub(crate) struct Chains {
    nodes: Vec<Node>,
    details: Vec<Details>,
    traces: Traces,
    spaces: Vec<LiveMap>,
    threads: Vec<Thread>,
    /// Of each process, the thread that moved data last.
    last_threads: Vec<ThreadId>,
    ages: Ages,
    held: MessagesInFlight,
    stream_operations: StreamOperations,
    /// What goes on on other nodes, and what came from there.
    pub far: FarChains,
    ops: u64,
    /// Chains that begin with an operation below this may miss something.
    tainted_below: u64,
    watched_from_birth: bool,
    max_age_ops: u64,
    max_chain_ops: u8,
    pub counts: ChainCounts,
    /// Otherwise what is finished is forgotten.
    pub finishes_chains: bool,
    /// Whether [`Chains::linked`] is kept: somebody wants to hear of every movement.
    pub notes_links: bool,
    /// Of the last movement.
    pub linked_last: Option<LinkedMovement>,
    scratch: Scratch,
}

#[derive(Default)]
struct Scratch {
    lost: Vec<Overwritten>,
    /// And how many of the bytes each wrote.
    writers: Vec<(NodeId, u64)>,
    path: Vec<NodeId>,
    ops: Vec<FinishedOp>,
}

impl Chains {
    pub fn new(options: &Options) -> Self {
        Self {
            nodes: Vec::new(),
            details: Vec::new(),
            traces: Traces::new(options.window()),
            spaces: Vec::new(),
            threads: Vec::new(),
            last_threads: Vec::new(),
            ages: Ages::default(),
            held: MessagesInFlight::default(),
            stream_operations: StreamOperations::default(),
            far: FarChains::default(),
            ops: 0,
            tainted_below: 0,
            watched_from_birth: false,
            max_age_ops: options.max_age_ops,
            max_chain_ops: options.max_chain_ops.max(1),
            counts: ChainCounts::default(),
            finishes_chains: true,
            notes_links: false,
            linked_last: None,
            scratch: Scratch::default(),
        }
    }

    /// The job was started under watch: threads have no past that was not seen.
    pub fn watched_from_birth(&mut self) {
        self.watched_from_birth = true;
    }

    /// There are so many spaces and threads, as far as they have numbers.
    #[inline(always)]
    pub fn make_room(&mut self, (spaces, threads): (usize, usize)) {
        if self.spaces.len() < spaces || self.threads.len() < threads {
            self.make_more_room(spaces, threads);
        }
    }

    #[cold]
    fn make_more_room(&mut self, spaces: usize, threads: usize) {
        self.spaces.resize_with(spaces.max(self.spaces.len()), LiveMap::default);
        self.threads.resize_with(threads.max(self.threads.len()), Thread::default);
    }

    /// Pieces of a space that operations wrote and nothing has overwritten.
    pub fn live_ranges(&self, space: SpaceId) -> usize {
        self.spaces.get(space.index()).map_or(0, LiveMap::len)
    }

    /// Whether an operation's node is still its own, and not over.
    pub fn is_there(&self, written: Written) -> bool {
        let node = self.nodes.get(written.node.index());
        node.is_some_and(|node| node.op == written.op && node.pending > 0)
    }

    /// Operations so far.
    pub fn ops(&self) -> u64 {
        self.ops - self.counts.placeholders
    }

    /// Takes a movement of at least one byte.
    #[inline(always)]
    pub fn movement(&mut self, m: &Movement, names: &mut OpNames, groups: &mut ChainGroups) {
        self.expire(names, groups);
        prefetch(&self.details, self.traces.next().index());
        let to = &m.destination;
        // Asked for as early as it can be: by the time it is needed it is there.
        let same = match to.space.is_some() {
            true => self.spaces[to.space.index()].same(to.start, to.end),
            false => None,
        };
        if let Some((_, old)) = same {
            prefetch(&self.nodes, old.index());
        }
        let writer = self.read(&m.source);
        prefetch(&self.nodes, writer.index());
        let written_by = self.noted(writer);
        if self.extend_run(m, writer, names, groups) {
            self.counts.merged_copies += 1;
            self.note_run(m.thread, written_by);
            return;
        }
        self.end_run(m.thread);
        let (node, parent) = self.add_node(m, writer, names);
        self.note_link(node, written_by);
        if let Some((at, old)) = same {
            self.spaces[to.space.index()].replace(at, node);
            self.lose_bytes(old, to.end - to.start, names, groups);
        } else if to.space.is_some() && to.start < to.end {
            self.overwrite(to.space, to.start, to.end, node, names, groups);
        } else {
            self.die(node, names, groups);
        }
        if m.kind != Kind::Pack && m.kind != Kind::Unpack {
            self.threads[m.thread.index()].run = Some(CoalescedCopy::new(m, node, parent));
        }
    }

    /// The operation of a node, if somebody wants to know.
    #[inline(always)]
    fn noted(&self, node: NodeId) -> Option<u64> {
        if self.notes_links { self.nodes.get(node.index()).map(|node| node.op) } else { None }
    }

    #[inline(always)]
    fn note_link(&mut self, node: NodeId, written_by: Option<u64>) {
        if self.notes_links {
            self.linked_last =
                self.nodes.get(node.index()).map(|node| LinkedMovement { op: node.op, written_by });
        }
    }

    /// The same, of a movement that goes on with the thread's operation.
    #[inline(always)]
    fn note_run(&mut self, thread: ThreadId, written_by: Option<u64>) {
        if self.notes_links
            && let Some(run) = self.threads[thread.index()].run
        {
            self.note_link(run.node, written_by);
        }
    }

    /// A thread is gone.
    pub fn end_thread(&mut self, thread: ThreadId) {
        self.forget_past(thread);
    }

    fn forget_past(&mut self, thread: ThreadId) {
        self.end_run(thread);
        let window = std::mem::take(&mut self.threads[thread.index()].window);
        self.traces.clear(&window);
    }

    /// Memory has new content that no operation wrote.
    pub fn remove_range(
        &mut self,
        space: SpaceId,
        start: u64,
        end: u64,
        names: &mut OpNames,
        groups: &mut ChainGroups,
    ) {
        let mut lost = std::mem::take(&mut self.scratch.lost);
        self.spaces[space.index()].remove(start, end, &mut lost);
        self.settle(lost, names, groups);
    }

    /// A space is gone.
    pub fn remove_space(&mut self, space: SpaceId, names: &mut OpNames, groups: &mut ChainGroups) {
        let mut lost = std::mem::take(&mut self.scratch.lost);
        self.spaces[space.index()].clear(&mut lost);
        self.settle(lost, names, groups);
    }

    /// Records were lost. `forever`: and what memory looks like is not known any more.
    pub fn lose(&mut self, forever: bool) {
        let newly = |n: &&Node| n.pending > 0 && n.op >= self.tainted_below;
        self.counts.tainted_ops += self.nodes.iter().filter(newly).count() as u64;
        let until = if forever { u64::MAX } else { self.ops.saturating_add(self.max_age_ops) };
        self.tainted_below = self.tainted_below.max(until);
    }

    /// Movements are not seen for a while: what is live ends here, and threads begin anew.
    pub fn pause(&mut self, names: &mut OpNames, groups: &mut ChainGroups) {
        for thread in 0..self.threads.len() {
            self.forget_past(ThreadId(thread as u32));
        }
        self.finish(names, groups);
        self.watched_from_birth = false;
    }

    /// The session is over: what is live ends here.
    pub fn finish(&mut self, names: &mut OpNames, groups: &mut ChainGroups) {
        self.forget_messages(names, groups);
        while let Some(node) = self.ages.pop_before(u64::MAX) {
            self.end_by_tool(node, names, groups);
        }
    }

    /// The live operation that wrote most of the source; among equals the latest.
    #[inline(always)]
    fn read(&mut self, source: &Side) -> NodeId {
        if !source.space.is_some() {
            return NodeId::NONE;
        }
        let space = &self.spaces[source.space.index()];
        if space.is_outside(source.start, source.end) {
            return NodeId::NONE;
        }
        match space.whole(source.start, source.end) {
            Some(writer) => {
                self.traces.read(writer);
                writer
            }
            None => self.read_pieces(source),
        }
    }

    #[inline(never)]
    fn read_pieces(&mut self, source: &Side) -> NodeId {
        self.gather_writers(source);
        for (node, _) in &self.scratch.writers {
            self.traces.read(*node);
        }
        self.writer_of_most()
    }

    /// The live operation that wrote most of a range, as a reader would find it.
    pub fn writer_here(&mut self, side: &Side) -> Option<NodeId> {
        self.gather_writers(side);
        Some(self.writer_of_most()).filter(|writer| writer.is_some())
    }

    /// The live operations that wrote into a range, and how many of its bytes each.
    fn gather_writers(&mut self, side: &Side) {
        let writers = &mut self.scratch.writers;
        writers.clear();
        self.spaces[side.space.index()].read(side.start, side.end, |node, bytes| {
            match writers.iter_mut().find(|w| w.0 == node) {
                Some(w) => w.1 += bytes,
                None => writers.push((node, bytes)),
            }
        });
    }

    /// Of the gathered ones; among equals the latest.
    fn writer_of_most(&self) -> NodeId {
        let weight = |&&(node, bytes): &&(NodeId, u64)| (bytes, self.nodes[node.index()].op);
        self.scratch.writers.iter().max_by_key(weight).map_or(NodeId::NONE, |w| w.0)
    }

    fn is_live(&self, node: NodeId) -> bool {
        self.nodes[node.index()].live_bytes > 0
    }

    /// The parent that a reader of this node gets: none if there is none, or the chain is long enough.
    #[inline(always)]
    fn linked(&self, writer: NodeId) -> NodeId {
        let node = self.nodes.get(writer.index());
        node.filter(|n| n.depth < self.max_chain_ops).map_or(NodeId::NONE, |_| writer)
    }

    /// Adds an operation that read what `writer` wrote; gives back its node and parent.
    #[inline(always)]
    fn add_node(&mut self, m: &Movement, writer: NodeId, names: &mut OpNames) -> (NodeId, NodeId) {
        let op = self.ops;
        self.ops += 1;
        if op < self.tainted_below {
            self.counts.tainted_ops += 1;
        }
        self.counts.pending_nodes += 1;
        let shape = names.shape(&OpShape {
            site: m.site,
            kind: m.kind,
            source: m.source.buffer,
            destination: m.destination.buffer,
        });
        let node = self.traces.begin(names.shape_context(shape));
        let (mut from_other, mut cut) = (false, false);
        let (mut parent, mut root, mut depth) = (NodeId::NONE, node, 1);
        if let Some(w) = self.nodes.get_mut(writer.index()) {
            from_other = w.process != m.process;
            cut = w.depth >= self.max_chain_ops;
            if !cut {
                w.marks.set(Marks::HAD_CHILD);
                w.pending += 1;
                (parent, root, depth) = (writer, w.root, w.depth + 1);
            }
        }
        let window = &self.threads[m.thread.index()].window;
        let marks = Marks::default()
            .with(Marks::CROSSES, m.remote.map_or(from_other, |remote| remote != m.process))
            .with(Marks::CLOSED, matches!(m.kind, Kind::Pack | Kind::Unpack))
            // Only the bound on the length made a root of what goes on.
            .with(
                Marks::BEGIN_EDGE,
                cut || (!self.watched_from_birth && window.has_room(self.traces.window())),
            );
        let new = Node {
            op,
            time_ns: m.time_ns,
            live_bytes: m.destination.end - m.destination.start,
            parent,
            root,
            pending: 1,
            segments: m.segments,
            process: m.process,
            who: m.who,
            call: m.call,
            shape,
            path: PathId::NONE,
            depth,
            marks,
        };
        self.ages.push(node);
        let theirs = self.far_window(m, writer);
        let own = &mut self.threads[m.thread.index()].window;
        match theirs {
            Some(theirs) => self.traces.enter_from(node, &theirs, own),
            None => self.traces.enter(node, !writer.is_some(), own),
        }
        self.set_last_thread(m);
        self.set_node(node, new, Details::of(m));
        (node, parent)
    }

    /// What the process did last whose memory an operation read, if nobody is known to have written what it read.
    #[inline(always)]
    fn far_window(&self, m: &Movement, writer: NodeId) -> Option<Window> {
        if m.kind != Kind::CrossRead || writer.is_some() {
            return None;
        }
        let theirs = m.remote.filter(|remote| *remote != m.process)?;
        let thread = self.last_threads.get(theirs as usize).filter(|thread| thread.is_some())?;
        self.threads.get(thread.index()).map(|thread| thread.window.clone())
    }

    #[inline(always)]
    fn set_last_thread(&mut self, m: &Movement) {
        match self.last_threads.get_mut(m.process as usize) {
            Some(last) => *last = m.thread,
            None => self.begin_last_threads(m),
        }
    }

    #[cold]
    fn begin_last_threads(&mut self, m: &Movement) {
        self.last_threads.resize(m.process as usize + 1, ThreadId::NONE);
        self.last_threads[m.process as usize] = m.thread;
    }

    /// A live node writes more.
    fn write_more(&mut self, m: &Movement, node: NodeId, names: &mut OpNames, groups: &mut ChainGroups) {
        let to = &m.destination;
        if !to.space.is_some() || to.start >= to.end {
            return;
        }
        self.nodes[node.index()].live_bytes += to.end - to.start;
        let details = &mut self.details[node.index()];
        details.low = details.low.min(to.start);
        details.high = details.high.max(to.end);
        self.overwrite(to.space, to.start, to.end, node, names, groups);
    }

    /// What others wrote there before is lost to them.
    fn overwrite(
        &mut self,
        space: SpaceId,
        start: u64,
        end: u64,
        node: NodeId,
        names: &mut OpNames,
        groups: &mut ChainGroups,
    ) {
        let space = &mut self.spaces[space.index()];
        let mut lost = std::mem::take(&mut self.scratch.lost);
        space.write(start, end, node, &mut lost);
        self.settle(lost, names, groups);
    }

    #[inline(always)]
    fn lose_bytes(&mut self, node: NodeId, bytes: u64, names: &mut OpNames, groups: &mut ChainGroups) {
        let n = &mut self.nodes[node.index()];
        n.live_bytes -= bytes;
        if n.live_bytes == 0 {
            self.die(node, names, groups);
        }
    }

    /// Nodes that lost their last byte die.
    fn settle(&mut self, mut lost: Vec<Overwritten>, names: &mut OpNames, groups: &mut ChainGroups) {
        for &(node, bytes) in &lost {
            self.lose_bytes(node, bytes, names, groups);
        }
        lost.clear();
        self.scratch.lost = lost;
    }

    #[inline(always)]
    fn expire(&mut self, names: &mut OpNames, groups: &mut ChainGroups) {
        let too_old = self.ops.saturating_sub(self.max_age_ops);
        while let Some(node) = self.ages.pop_before(too_old) {
            self.end_by_tool(node, names, groups);
        }
    }

    /// Ends a live node that nothing in the job ended.
    fn end_by_tool(&mut self, node: NodeId, names: &mut OpNames, groups: &mut ChainGroups) {
        let n = &mut self.nodes[node.index()];
        n.live_bytes = 0;
        n.marks.set(Marks::END_EDGE);
        let Details { low, high, space, .. } = self.details[node.index()];
        if space.is_some() {
            self.spaces[space.index()].remove_node(low, high, node);
        }
        self.die(node, names, groups);
    }

    #[inline(always)]
    fn set_node(&mut self, node: NodeId, new: Node, details: Details) {
        if node.index() == self.nodes.len() {
            self.nodes.push(new);
            self.details.push(details);
            return;
        }
        self.nodes[node.index()] = new;
        self.details[node.index()] = details;
    }
}
