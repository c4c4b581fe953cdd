//! Live nodes in order of age.

use std::collections::VecDeque;

use super::NodeId;

/// One entry an operation, so that a node is found, and forgotten when it dies, by its number alone.
#[derive(Default)]
pub struct Ages {
    /// Number of the first entry's operation.
    first_op: u64,
    nodes: VecDeque<NodeId>,
}

impl Ages {
    /// Adds the node of the next operation.
    pub fn push(&mut self, op: u64, node: NodeId) {
        if self.nodes.is_empty() {
            self.first_op = op;
        }
        self.nodes.push_back(node);
    }

    /// The operation's node is not live any more.
    #[inline]
    pub fn forget(&mut self, op: u64) {
        let entry = op.checked_sub(self.first_op).and_then(|at| self.nodes.get_mut(at as usize));
        if let Some(entry) = entry {
            *entry = NodeId::NONE;
        }
    }

    /// Takes the oldest live node, if its operation was before `op`.
    #[inline]
    pub fn pop_before(&mut self, op: u64) -> Option<NodeId> {
        while let Some(&node) = self.nodes.front() {
            if node.is_some() && self.first_op >= op {
                return None;
            }
            self.nodes.pop_front();
            self.first_op += 1;
            if node.is_some() {
                return Some(node);
            }
        }
        None
    }
}
