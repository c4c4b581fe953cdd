//! The end of chains: which are finished, and what is said of them.

use super::node::Node;
use super::{Chains, NodeId, PathId};
use crate::groups::{ContextSet, Finished, Groups};
use crate::names::Names;
use crate::options::MAX_CONTEXT_WINDOW;

impl Chains {
    /// A node is not live any more; chains that are complete by that are finished.
    pub(super) fn die(&mut self, node: NodeId, names: &mut Names, groups: &mut Groups) {
        let mut node = node;
        while node.is_some() {
            let n = &mut self.nodes[node.index()];
            n.pending -= 1;
            if n.pending > 0 {
                return;
            }
            self.counts.pending_nodes -= 1;
            if !n.had_child {
                self.emit(node, names, groups);
            }
            self.forget_context(node);
            let n = &mut self.nodes[node.index()];
            let parent = n.parent;
            if n.refs == 0 {
                self.free.push(node);
            }
            node = parent;
        }
    }

    fn forget_context(&mut self, node: NodeId) {
        let before =
            std::mem::replace(&mut self.nodes[node.index()].before, [NodeId::NONE; MAX_CONTEXT_WINDOW]);
        for earlier in before.into_iter().filter(|n| n.is_some()) {
            self.unref(earlier);
        }
    }

    pub(super) fn unref(&mut self, node: NodeId) {
        let n = &mut self.nodes[node.index()];
        n.refs -= 1;
        if n.refs == 0 && n.pending == 0 {
            self.free.push(node);
        }
    }

    /// Hands the chain that ends in a node to the groups.
    fn emit(&mut self, leaf: NodeId, names: &mut Names, groups: &mut Groups) {
        let root = self.nodes[leaf.index()].root;
        let (root_op, root_time_ns) = (self.nodes[root.index()].op, self.nodes[root.index()].moved.time_ns);
        if root_op < self.tainted_below {
            self.counts.inconclusive += 1;
            groups.touch(root_time_ns, root_time_ns);
            return;
        }
        let path = self.path(leaf, names, groups);
        let mut ops = std::mem::take(&mut self.scratch.ops);
        let mut before = std::mem::take(&mut self.scratch.before);
        ops.clear();
        before.clear();
        let nodes = &self.nodes;
        ops.extend(self.scratch.path.iter().map(|n| nodes[n.index()].instance()));
        let earlier = nodes[root.index()].before.iter().filter(|n| n.is_some()).map(|n| &nodes[n.index()]);
        let known = earlier.clone().all(|n| n.op >= self.tainted_below);
        before.extend(earlier.filter(|n| !n.had_child && !n.read).map(Node::instance));
        let end = &nodes[leaf.index()];
        groups.add(&Finished {
            path,
            ops: &ops,
            context: known.then(|| ContextSet::new(&before, &end.after[..usize::from(end.after_len)])),
            before: &before,
            begin_edge: nodes[root.index()].begin_edge,
            end_edge: end.end_edge,
        });
        self.scratch.ops = ops;
        self.scratch.before = before;
    }

    /// The trie node of a chain; leaves the chain's nodes in `scratch.path`.
    fn path(&mut self, leaf: NodeId, names: &mut Names, groups: &mut Groups) -> PathId {
        let chain = &mut self.scratch.path;
        chain.clear();
        let mut node = leaf;
        while node.is_some() {
            chain.push(node);
            node = self.nodes[node.index()].parent;
        }
        chain.reverse();
        let mut path = PathId::NONE;
        let mut settled = true;
        for &node in chain.iter() {
            let n = &mut self.nodes[node.index()];
            settled &= n.closed;
            if settled && n.path.is_some() {
                path = n.path;
                continue;
            }
            n.symbol = names.symbol(&n.symbol_parts());
            path = groups.path(path, n.symbol);
            if settled {
                n.path = path;
            }
        }
        path
    }
}
