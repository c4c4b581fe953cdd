//! Which operations of a thread were near each other, and how long a node is kept for that.
//!
//! A root remembers the operations before it, and an operation the roots behind it. While an
//! operation is among the last of its thread, what is behind it is known from the thread, which is at
//! hand, and not from the nodes, which no cache may hold any more; a node is told when it leaves.

use super::ids::NodeId;
use super::window::Window;
use crate::chains::op_names::ContextId;
use crate::options::MAX_CONTEXT_WINDOW;

/// What the neighbours of a node ask for: so small that a cache holds it for all nodes.
#[derive(Clone, Copy)]
struct Trace {
    /// What of it counts in a context.
    context: ContextId,
    /// Roots that remember it as one of those before them. While it is in its thread's window, of those behind it in its
    /// thread, only the ones that do not, or not any more, negative.
    refs: i8,
    /// What is the case, one bit each.
    is: u8,
    /// How many operations before it it remembers.
    before: u8,
    /// How many roots behind it.
    after: u8,
}

const _: () = assert!(size_of::<Trace>() == 8 && MAX_CONTEXT_WINDOW < i8::MAX as usize);

/// It is live, or has pending children.
const PENDING: u8 = 1;
/// It is among the last operations of its thread.
const IN_WINDOW: u8 = 2;
/// Some operation read bytes of it, whether or not it became a child.
const READ: u8 = 4;

impl Trace {
    fn is(self, what: u8) -> bool {
        self.is & what != 0
    }

    /// Nothing can ask for the node any more.
    fn is_forgotten(self) -> bool {
        self.refs == 0 && !self.is(PENDING | IN_WINDOW)
    }
}

/// Of all nodes.
pub struct Traces {
    traces: Vec<Trace>,
    /// For each node as many entries before it as a window has places, and as many behind it.
    entries: Vec<u32>,
    window: usize,
    /// Nodes that are forgotten.
    free: Vec<NodeId>,
}

impl Traces {
    pub fn new(window: usize) -> Self {
        Self { traces: Vec::new(), entries: Vec::new(), window, free: Vec::new() }
    }

    /// Operations that are remembered before and behind another one.
    pub fn window(&self) -> usize {
        self.window
    }

    /// What the next node will be; none: one more than there were.
    #[inline]
    pub fn next(&self) -> NodeId {
        self.free.last().copied().unwrap_or(NodeId::NONE)
    }

    /// A node for an operation, which is pending; one more than there were if none is free.
    #[inline(always)]
    pub fn begin(&mut self, context: ContextId) -> NodeId {
        let trace = Trace { context, refs: 0, is: PENDING | IN_WINDOW, before: 0, after: 0 };
        if let Some(node) = self.free.pop() {
            self.traces[node.index()] = trace;
            return node;
        }
        self.more(trace)
    }

    /// The same, for one that is in no thread of this node.
    pub fn begin_outside(&mut self) -> NodeId {
        let node = self.begin(ContextId(0));
        self.traces[node.index()].is = PENDING;
        node
    }

    #[cold]
    fn more(&mut self, trace: Trace) -> NodeId {
        self.traces.push(trace);
        self.entries.resize(self.entries.len() + 2 * self.window, 0);
        NodeId(self.traces.len() as u32 - 1)
    }

    /// A new node is the last of its thread. `is_root`: it begins a chain.
    #[inline(always)]
    pub fn enter(&mut self, node: NodeId, is_root: bool, window: &mut Window) {
        let mut root = ContextId::NONE;
        if is_root {
            root = self.traces[node.index()].context;
            let before = window.latest(self.window).map(|earlier| earlier.0);
            self.traces[node.index()].before = put(self.entries_mut(node).0, before);
        }
        self.push(node, root, window);
    }

    #[inline(always)]
    fn push(&mut self, node: NodeId, root: ContextId, window: &mut Window) {
        if let Some(gone) = window.push(node, root, self.window) {
            self.leave(gone, window.roots(self.window));
        }
    }

    /// The same, of a root that got its data out of another process: it remembers what that one did last, in `theirs`, and
    /// nothing of its own thread.
    pub fn enter_from(&mut self, node: NodeId, theirs: &Window, own: &mut Window) {
        /// More roots do not remember one operation.
        const MOST: i8 = 64;
        for earlier in own.latest(self.window) {
            self.traces[earlier.index()].refs -= 1;
        }
        // They are counted here: those of its own thread are when they leave the window.
        let has_room = |earlier: &NodeId| self.traces[earlier.index()].refs < MOST;
        let mut before = [0; MAX_CONTEXT_WINDOW];
        let count = put(&mut before, theirs.latest(self.window).filter(has_room).map(|earlier| earlier.0));
        for earlier in &before[..usize::from(count)] {
            self.traces[NodeId(*earlier).index()].refs += 1;
        }
        put(self.entries_mut(node).0, before[..usize::from(count)].iter().copied());
        let trace = &mut self.traces[node.index()];
        trace.before = count;
        let root = trace.context;
        self.push(node, root, own);
    }

    /// A thread begins anew.
    pub fn clear(&mut self, window: &Window) {
        for node in window.latest(self.window) {
            self.leave(node, window.after(node, self.window));
        }
    }

    /// An operation is none of the last of its thread any more.
    #[inline(always)]
    fn leave(&mut self, node: NodeId, after: &[ContextId]) {
        let is_pending = self.traces[node.index()].is(PENDING);
        let count = if is_pending { put_roots(self.entries_mut(node).1, after) } else { count_roots(after) };
        let trace = &mut self.traces[node.index()];
        trace.is &= !IN_WINDOW;
        trace.after = count;
        // At most as many as a window has places.
        trace.refs += count as i8;
        if trace.is_forgotten() {
            self.free.push(node);
        }
    }

    /// Some operation read bytes of it.
    #[inline(always)]
    pub fn read(&mut self, node: NodeId) {
        self.traces[node.index()].is |= READ;
    }

    /// Whether some operation read bytes of it.
    pub fn was_read(&self, node: NodeId) -> bool {
        self.traces[node.index()].is(READ)
    }

    /// Nobody has read bytes of it, after all.
    pub fn was_not_read(&mut self, node: NodeId) {
        self.traces[node.index()].is &= !READ;
    }

    /// It is not pending any more.
    #[inline]
    pub fn end(&mut self, node: NodeId) {
        let trace = &mut self.traces[node.index()];
        trace.is &= !PENDING;
        let before = usize::from(trace.before);
        if trace.is_forgotten() {
            self.free.push(node);
        }
        for &earlier in &self.entries[node.index() * 2 * self.window..][..before] {
            let earlier = NodeId(earlier);
            let trace = &mut self.traces[earlier.index()];
            trace.refs -= 1;
            if trace.is_forgotten() {
                self.free.push(earlier);
            }
        }
    }

    /// What was before a pending root, the latest first.
    #[inline]
    pub fn before(&self, root: NodeId) -> impl Iterator<Item = NodeId> {
        let count = usize::from(self.traces[root.index()].before);
        self.entries[root.index() * 2 * self.window..][..count].iter().map(|&node| NodeId(node))
    }

    /// What of an operation counts in the context of others: nothing if it was read.
    #[inline]
    pub fn unread(&self, node: NodeId) -> Option<ContextId> {
        let trace = self.traces[node.index()];
        (!trace.is(READ)).then_some(trace.context)
    }

    /// Whether the roots behind a node are to be asked of its thread's window.
    #[inline]
    pub fn is_in_window(&self, node: NodeId) -> bool {
        self.traces[node.index()].is(IN_WINDOW)
    }

    /// The roots behind a pending node that is in no window any more.
    #[inline]
    pub fn after(&self, node: NodeId) -> impl Iterator<Item = ContextId> {
        let count = usize::from(self.traces[node.index()].after);
        let at = node.index() * 2 * self.window + self.window;
        self.entries[at..][..count].iter().map(|&root| ContextId(root))
    }

    /// What a node remembers: before it, behind it.
    #[inline(always)]
    fn entries_mut(&mut self, node: NodeId) -> (&mut [u32], &mut [u32]) {
        self.entries[node.index() * 2 * self.window..][..2 * self.window].split_at_mut(self.window)
    }
}

/// Puts as many as there are and have room; gives back how many that is.
#[inline(always)]
fn put(entries: &mut [u32], new: impl Iterator<Item = u32>) -> u8 {
    let mut count = 0;
    for (entry, new) in entries.iter_mut().zip(new) {
        *entry = new;
        count += 1;
    }
    count
}

/// Puts the roots among them; gives back how many there are. Which are is not worth guessing.
#[inline(always)]
fn put_roots(entries: &mut [u32], after: &[ContextId]) -> u8 {
    let mut count = 0;
    for root in after {
        let Some(entry) = entries.get_mut(usize::from(count)) else { break };
        *entry = root.0;
        count += u8::from(root.is_some());
    }
    count
}

#[inline(always)]
fn count_roots(after: &[ContextId]) -> u8 {
    after.iter().map(|root| u8::from(root.is_some())).sum()
}
