//! The last operations of a thread.

use super::ids::NodeId;
use crate::chains::op_names::ContextId;
use crate::options::MAX_CONTEXT_WINDOW;

/// The last operations of a thread, the latest last. They move up for each new one: they are so few that this is a copy
/// of two registers.
#[derive(Clone)]
pub struct Window {
    nodes: [NodeId; MAX_CONTEXT_WINDOW],
    /// What of those counts in a context that begin a chain; none of the others.
    roots: [ContextId; MAX_CONTEXT_WINDOW],
}

impl Default for Window {
    fn default() -> Self {
        Self { nodes: [NodeId::NONE; MAX_CONTEXT_WINDOW], roots: [ContextId::NONE; MAX_CONTEXT_WINDOW] }
    }
}

/// The last `len`.
#[inline(always)]
fn last<T>(all: &[T; MAX_CONTEXT_WINDOW], len: usize) -> &[T] {
    &all[MAX_CONTEXT_WINDOW.saturating_sub(len)..]
}

impl Window {
    /// Whether there were fewer operations than `len`.
    #[inline(always)]
    pub fn has_room(&self, len: usize) -> bool {
        last(&self.nodes, len).first().is_none_or(|oldest| !oldest.is_some())
    }

    /// The latest of at most `len` first.
    #[inline(always)]
    pub fn latest(&self, len: usize) -> impl Iterator<Item = NodeId> {
        last(&self.nodes, len).iter().rev().copied().take_while(|n| n.is_some())
    }

    /// Adds an operation, and what of it counts if it begins a chain; gives back the one that is not among the last
    /// `len` any more. The roots behind that one are [`Window::roots`].
    #[inline(always)]
    pub fn push(&mut self, node: NodeId, root: ContextId, len: usize) -> Option<NodeId> {
        let gone = last(&self.nodes, len).first().copied().filter(|gone| gone.is_some());
        self.nodes.copy_within(1.., 0);
        self.roots.copy_within(1.., 0);
        self.nodes[MAX_CONTEXT_WINDOW - 1] = node;
        self.roots[MAX_CONTEXT_WINDOW - 1] = root;
        gone
    }

    /// What there is of each of the last `len` operations, the earliest first.
    #[inline]
    pub fn roots(&self, len: usize) -> &[ContextId] {
        last(&self.roots, len)
    }

    /// The same, of those behind an operation that is still here.
    pub fn after(&self, node: NodeId, len: usize) -> &[ContextId] {
        let at = last(&self.nodes, len).iter().position(|n| *n == node);
        self.roots(at.map_or(0, |at| len - 1 - at))
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
            assert!(window.has_room(3));
            assert_eq!(window.push(NodeId(number), root(number), 3), None);
        }
        assert!(!window.has_room(3));
        assert_eq!(window.latest(3).collect::<Vec<_>>(), [NodeId(2), NodeId(1), NodeId(0)]);
        assert_eq!(window.after(NodeId(0), 3), [ContextId::NONE, ContextId(2)]);
        assert_eq!(window.push(NodeId(3), root(3), 3), Some(NodeId(0)));
        assert_eq!(window.push(NodeId(4), root(4), 3), Some(NodeId(1)));
        assert_eq!(window.roots(3), [ContextId(2), ContextId::NONE, ContextId(4)]);
        assert_eq!(window.after(NodeId(3), 3), [ContextId(4)]);
        assert_eq!(window.after(NodeId(4), 3), []);
    }
}
