//! Which operations of a thread were near each other.
//!
//! A root remembers the operations before it, and an operation the roots behind it. While an
//! operation is among the last of its thread, what is behind it is noted with the thread, which is at
//! hand, and not with the nodes, which no cache may hold any more; a node is told when it leaves.

use super::NodeId;
use crate::names::ContextId;
use crate::options::MAX_CONTEXT_WINDOW;

/// One of the last operations of a thread.
#[derive(Clone, Copy)]
struct Recent {
    node: NodeId,
    /// Roots behind it so far.
    behind: u32,
    after: [ContextId; MAX_CONTEXT_WINDOW],
}

const NOBODY: Recent = Recent { node: NodeId::NONE, behind: 0, after: [ContextId::NONE; MAX_CONTEXT_WINDOW] };

/// The last operations of a thread.
pub struct Window {
    /// The oldest is at `next`, if all places are taken.
    recent: [Recent; MAX_CONTEXT_WINDOW],
    next: usize,
}

/// An operation that is none of the last any more.
pub struct Gone {
    pub node: NodeId,
    after: [ContextId; MAX_CONTEXT_WINDOW],
    behind: u32,
}

impl Gone {
    fn of(recent: &Recent) -> Option<Self> {
        let Recent { node, behind, after } = *recent;
        node.is_some().then_some(Self { node, after, behind })
    }

    /// The roots behind it, in order.
    pub fn after(&self) -> &[ContextId] {
        &self.after[..self.behind as usize]
    }
}

impl Default for Window {
    fn default() -> Self {
        Self { recent: [NOBODY; MAX_CONTEXT_WINDOW], next: 0 }
    }
}

impl Window {
    /// The latest of at most `len` first.
    pub fn latest(&self, len: usize) -> impl Iterator<Item = NodeId> {
        let (newer, older) = self.recent[..len].split_at(self.next);
        newer.iter().rev().chain(older.iter().rev()).map(|r| r.node).take_while(|n| n.is_some())
    }

    /// Notes a root behind all that are here.
    pub fn begin_chain(&mut self, len: usize, root: ContextId) {
        for recent in self.recent[..len].iter_mut().filter(|r| r.node.is_some()) {
            if let Some(free) = recent.after.get_mut(recent.behind as usize) {
                *free = root;
                recent.behind += 1;
            }
        }
    }

    /// Adds an operation; gives back the one that has to go for it.
    pub fn push(&mut self, node: NodeId, len: usize) -> Option<Gone> {
        let place = &mut self.recent[self.next];
        let gone = Gone::of(place);
        *place = Recent { node, ..NOBODY };
        self.next = if self.next + 1 < len { self.next + 1 } else { 0 };
        gone
    }

    /// The roots behind an operation that is still here.
    pub fn after(&self, node: NodeId) -> &[ContextId] {
        let recent = self.recent.iter().find(|r| r.node == node);
        recent.map_or(&[], |r| &r.after[..r.behind as usize])
    }

    /// Everything that is here goes.
    pub fn into_gone(self) -> impl Iterator<Item = Gone> {
        self.recent.into_iter().filter_map(|recent| Gone::of(&recent))
    }
}

/// What nodes remember of their surroundings: for each as many entries before it as a window has
/// places, and as many behind it.
#[derive(Default)]
pub struct Surroundings {
    entries: Vec<u32>,
    window: usize,
}

const NOTHING: u32 = u32::MAX;

impl Surroundings {
    pub fn new(window: usize) -> Self {
        Self { entries: Vec::new(), window }
    }

    /// Makes room for one more node.
    pub fn grow(&mut self) {
        self.entries.resize(self.entries.len() + 2 * self.window, NOTHING);
    }

    fn of(&self, node: NodeId) -> &[u32] {
        &self.entries[node.index() * 2 * self.window..][..2 * self.window]
    }

    fn of_mut(&mut self, node: NodeId) -> &mut [u32] {
        &mut self.entries[node.index() * 2 * self.window..][..2 * self.window]
    }

    /// The node is another one now: it remembers nothing.
    pub fn clear(&mut self, node: NodeId) {
        self.of_mut(node).fill(NOTHING);
    }

    /// Notes what was before a root, the latest first.
    pub fn set_before(&mut self, root: NodeId, before: impl Iterator<Item = NodeId>) {
        for (entry, node) in self.of_mut(root).iter_mut().zip(before) {
            *entry = node.0;
        }
    }

    /// Notes the roots behind a node.
    pub fn set_after(&mut self, node: NodeId, after: &[ContextId]) {
        let window = self.window;
        for (entry, context) in self.of_mut(node)[window..].iter_mut().zip(after) {
            *entry = context.0;
        }
    }

    /// What was before a root.
    pub fn before(&self, root: NodeId) -> impl Iterator<Item = NodeId> {
        self.of(root)[..self.window].iter().take_while(|e| **e != NOTHING).map(|&e| NodeId(e))
    }

    /// The roots behind a node that is in no window any more.
    pub fn after(&self, node: NodeId) -> impl Iterator<Item = ContextId> {
        self.of(node)[self.window..].iter().take_while(|e| **e != NOTHING).map(|&e| ContextId(e))
    }
}
