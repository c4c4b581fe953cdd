//! The last operations of a thread.

use super::NodeId;
use crate::names::ContextId;
use crate::options::MAX_CONTEXT_WINDOW;

/// The last operations of a thread: a ring of as many places as the context window has.
pub struct Window {
    /// The oldest is at `next`, if all places are taken.
    nodes: [NodeId; MAX_CONTEXT_WINDOW],
    /// What of those counts in a context that begin a chain; none of the others.
    roots: [ContextId; MAX_CONTEXT_WINDOW],
    next: usize,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            nodes: [NodeId::NONE; MAX_CONTEXT_WINDOW],
            roots: [ContextId::NONE; MAX_CONTEXT_WINDOW],
            next: 0,
        }
    }
}

impl Window {
    /// Whether there were fewer operations than it has places.
    #[inline]
    pub fn has_room(&self) -> bool {
        !self.nodes[self.next].is_some()
    }

    /// The latest of at most `len` first.
    #[inline]
    pub fn latest(&self, len: usize) -> impl Iterator<Item = NodeId> {
        let (newer, older) = self.nodes[..len].split_at(self.next);
        newer.iter().rev().chain(older.iter().rev()).copied().take_while(|n| n.is_some())
    }

    /// Adds an operation, and what of it counts if it begins a chain; gives back the one that has to
    /// go for it. The roots behind that one are [`Window::roots`].
    #[inline]
    pub fn push(&mut self, node: NodeId, root: ContextId, len: usize) -> Option<NodeId> {
        let gone = std::mem::replace(&mut self.nodes[self.next], node);
        self.roots[self.next] = root;
        self.next = if self.next + 1 < len { self.next + 1 } else { 0 };
        gone.is_some().then_some(gone)
    }

    /// All roots among at most `len` operations, the earliest first.
    #[inline]
    pub fn roots(&self, len: usize) -> impl Iterator<Item = ContextId> {
        let (newer, older) = self.roots[..len].split_at(self.next);
        older.iter().chain(newer).copied().filter(|root| root.is_some())
    }

    /// The roots behind an operation that is still here.
    pub fn after(&self, node: NodeId, len: usize) -> impl Iterator<Item = ContextId> {
        let at = self.nodes[..len].iter().position(|n| *n == node);
        // Counted from the oldest.
        let passed = at.map_or(len, |at| (at + len - self.next) % len + 1);
        let (newer, older) = self.roots[..len].split_at(self.next);
        older.iter().chain(newer).copied().skip(passed).filter(|root| root.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_behind_an_operation_is_known_until_it_leaves() {
        let mut window = Window::default();
        let root = |number: u32| if number.is_multiple_of(2) { ContextId(number) } else { ContextId::NONE };
        for number in 0..3 {
            assert!(window.has_room());
            assert_eq!(window.push(NodeId(number), root(number), 3), None);
        }
        assert!(!window.has_room());
        assert_eq!(window.latest(3).collect::<Vec<_>>(), [NodeId(2), NodeId(1), NodeId(0)]);
        assert_eq!(window.after(NodeId(0), 3).collect::<Vec<_>>(), [ContextId(2)]);
        assert_eq!(window.push(NodeId(3), root(3), 3), Some(NodeId(0)));
        assert_eq!(window.push(NodeId(4), root(4), 3), Some(NodeId(1)));
        assert_eq!(window.roots(3).collect::<Vec<_>>(), [ContextId(2), ContextId(4)]);
        assert_eq!(window.after(NodeId(3), 3).collect::<Vec<_>>(), [ContextId(4)]);
        assert_eq!(window.after(NodeId(4), 3).collect::<Vec<_>>(), []);
    }
}
