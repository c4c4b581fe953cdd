//! The end of chains: which are finished, and what is said of them.

use super::node::{Marks, instance};
use super::window::Gone;
use super::{Chains, NodeId, PathId};
use crate::groups::{ContextSet, Example, Finished, FinishedOp, Groups, Work};
use crate::names::Names;

impl Chains {
    /// A node is not live any more; chains that are complete by that are finished.
    pub(super) fn die(&mut self, node: NodeId, names: &mut Names, groups: &mut Groups) {
        self.ages.forget(self.nodes[node.index()].op);
        let mut node = node;
        while node.is_some() {
            let n = &mut self.nodes[node.index()];
            n.pending -= 1;
            if n.pending > 0 {
                return;
            }
            let (parent, is_leaf) = (n.parent, !n.marks.has(Marks::HAD_CHILD));
            self.counts.pending_nodes -= 1;
            if is_leaf && self.finishes_chains {
                self.emit(node, names, groups);
            }
            if !parent.is_some() {
                self.forget_surroundings(node);
            }
            if self.nodes[node.index()].is_forgotten() {
                self.free.push(node);
            }
            node = parent;
        }
    }

    /// Only roots know what was before them.
    fn forget_surroundings(&mut self, root: NodeId) {
        for earlier in self.surroundings.before(root) {
            let n = &mut self.nodes[earlier.index()];
            n.refs -= 1;
            if n.is_forgotten() {
                self.free.push(earlier);
            }
        }
    }

    /// An operation is none of the last of its thread any more.
    #[inline]
    pub(super) fn leave_window(&mut self, gone: &Gone) {
        let n = &mut self.nodes[gone.node.index()];
        n.marks.clear(Marks::IN_WINDOW);
        // At most as many as a window has places.
        n.refs += gone.after().len() as i8;
        if n.is_forgotten() {
            self.free.push(gone.node);
        } else if n.pending > 0 {
            self.surroundings.set_after(gone.node, gone.after());
        }
    }

    /// Hands the chain that ends in a node to the groups.
    fn emit(&mut self, leaf: NodeId, names: &mut Names, groups: &mut Groups) {
        let end = self.nodes[leaf.index()];
        let root = if end.root == leaf { end } else { self.nodes[end.root.index()] };
        if root.op < self.tainted_below {
            self.counts.inconclusive += 1;
            groups.touch(root.time_ns, root.time_ns);
            return;
        }
        let path = self.path(leaf, names, groups);
        let mut ops = std::mem::take(&mut self.scratch.ops);
        ops.clear();
        ops.extend(self.scratch.path.iter().map(|n| {
            let n = &self.nodes[n.index()];
            FinishedOp { who: n.who, call: n.call, segments: n.segments }
        }));
        let context = self.context(end.root, leaf, names);
        let work = Work { site: names.shape_parts(root.shape).site, call: root.call };
        let chain = Finished {
            path,
            work,
            ops: &ops,
            time_ns: root.time_ns,
            context,
            begin_edge: root.marks.has(Marks::BEGIN_EDGE),
            end_edge: end.marks.has(Marks::END_EDGE),
        };
        groups.add(&chain, || self.example(end.root, context, names));
        self.scratch.ops = ops;
    }

    /// What surrounds the chain from `root` to `leaf`; `None` if a loss may have changed it.
    fn context(&self, root: NodeId, leaf: NodeId, names: &Names) -> Option<ContextSet> {
        let mut set = ContextSet::EMPTY;
        for earlier in self.surroundings.before(root) {
            let n = &self.nodes[earlier.index()];
            if n.op < self.tainted_below {
                return None;
            }
            // What had a child was read.
            if !n.marks.has(Marks::READ) {
                set.add_before(names.shape_context(n.shape));
            }
        }
        if self.nodes[leaf.index()].marks.has(Marks::IN_WINDOW) {
            let thread = self.details[leaf.index()].thread;
            let after = self.threads[thread.index()].window.after(leaf);
            after.iter().for_each(|&context| set.add_after(context));
        } else {
            self.surroundings.after(leaf).for_each(|context| set.add_after(context));
        }
        Some(set)
    }

    /// The chain in `scratch.path`, for people.
    fn example(&self, root: NodeId, context: Option<ContextSet>, names: &Names) -> Example {
        let instance = |n: NodeId| instance(&self.nodes[n.index()], &self.details[n.index()], names);
        let unread = |n: &NodeId| !self.nodes[n.index()].marks.has(Marks::READ);
        Example {
            ops: self.scratch.path.iter().map(|&n| instance(n)).collect(),
            before: self.surroundings.before(root).filter(unread).map(instance).collect(),
            context,
        }
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
            settled &= n.marks.has(Marks::CLOSED);
            if settled && n.path.is_some() {
                path = n.path;
                continue;
            }
            path = groups.path(path, n.symbol(names));
            if settled {
                n.path = path;
            }
        }
        path
    }
}
