//! The end of chains: which are finished, and what is said of them.

use super::context_set::ContextSet;
use super::group::{Example, Finished, FinishedOp, Work};
use super::groups::ChainGroups;
use super::ids::{NodeId, PathId};
use super::node::{Marks, instance};
use super::{Chains, Scratch};
use crate::chains::op_names::{ContextId, OpNames};
use crate::job::ids::{CallSiteId, WhoId};

impl Chains {
    /// A node is not live any more; chains that are complete by that are finished.
    pub(super) fn die(&mut self, node: NodeId, names: &mut OpNames, groups: &mut ChainGroups) {
        self.ages.forget(self.nodes[node.index()].op);
        self.release(node, names, groups);
    }

    /// One thing less keeps a node, if there is one, from being finished.
    #[inline(always)]
    pub(super) fn release(&mut self, node: NodeId, names: &mut OpNames, groups: &mut ChainGroups) {
        let mut node = node;
        while node.is_some() {
            let n = &mut self.nodes[node.index()];
            n.pending -= 1;
            if n.pending > 0 {
                return;
            }
            let (parent, marks) = (n.parent, n.marks);
            self.counts.pending_nodes -= 1;
            // Most have a child, and are of this node.
            if !marks.is_passed() {
                self.end_node(node, marks, names, groups);
            }
            self.traces.end(node);
            node = parent;
        }
    }

    #[inline(always)]
    fn end_node(&mut self, node: NodeId, marks: Marks, names: &mut OpNames, groups: &mut ChainGroups) {
        if marks.has(Marks::ELSEWHERE) {
            self.end_placeholder(node);
        } else if self.finishes_chains {
            self.emit(node, names, groups);
        }
    }

    /// Hands the chain that ends in a node to the groups.
    fn emit(&mut self, leaf: NodeId, names: &mut OpNames, groups: &mut ChainGroups) {
        let end = &self.nodes[leaf.index()];
        let (root_id, marks) = (end.root, end.marks);
        let end_edge = marks.has(Marks::END_EDGE);
        let root = &self.nodes[root_id.index()];
        if root.marks.has(Marks::ELSEWHERE) {
            return self.emit_from_elsewhere(leaf, names, groups);
        }
        if root.op < self.tainted_below || marks.has(Marks::TAINTED) {
            self.counts.inconclusive += 1;
            groups.touch(root.time_ns, root.time_ns);
            return;
        }
        let work = Work { site: names.shape_parts(root.shape).site, call: root.call };
        let (time_ns, begin_edge) = (root.time_ns, root.marks.has(Marks::BEGIN_EDGE));
        let path = self.path(leaf, names, groups);
        let context = self.context(root_id, leaf);
        let ops = &self.scratch.ops;
        let chain = Finished { path, work, ops, time_ns, context: context.as_ref(), begin_edge, end_edge };
        groups.add(&chain, || Some(self.example(root_id, context, names)));
    }

    /// What surrounds the chain from `root` to `leaf`; `None` if a loss may have changed it.
    #[inline]
    fn context(&self, root: NodeId, leaf: NodeId) -> Option<ContextSet> {
        let mut set = self.context_before(root)?;
        self.each_after(leaf, |context| set.add_after(context));
        Some(set)
    }

    /// The part of it that is before `root`.
    #[inline]
    pub(super) fn context_before(&self, root: NodeId) -> Option<ContextSet> {
        let is_tainted = |node: NodeId| self.nodes[node.index()].op < self.tainted_below;
        if self.tainted_below > 0 && self.traces.before(root).any(is_tainted) {
            return None;
        }
        let mut set = ContextSet::EMPTY;
        // What had a child was read.
        self.traces.before(root).filter_map(|n| self.traces.unread(n)).for_each(|c| set.add_before(c));
        Some(set)
    }

    /// The roots behind an operation in its thread.
    #[inline]
    pub(super) fn each_after(&self, leaf: NodeId, mut f: impl FnMut(ContextId)) {
        if self.traces.is_in_window(leaf) {
            let thread = self.details[leaf.index()].thread;
            let after = self.threads[thread.index()].window.after(leaf, self.traces.window());
            after.iter().filter(|c| c.is_some()).for_each(|c| f(*c));
        } else {
            self.traces.after(leaf).for_each(f);
        }
    }

    /// The chain in `scratch.path`, for people.
    pub(super) fn example(&self, root: NodeId, context: Option<ContextSet>, names: &OpNames) -> Example {
        let instance = |n: NodeId| instance(&self.nodes[n.index()], &self.details[n.index()], names);
        let unread = |n: &NodeId| self.traces.unread(*n).is_some();
        Example {
            ops: self.scratch.path.iter().map(|&n| instance(n)).collect(),
            before: self.traces.before(root).filter(unread).map(instance).collect(),
            context,
        }
    }

    /// The trie node of a chain; leaves the chain's nodes and what is counted of them in the scratch.
    pub(super) fn path(&mut self, leaf: NodeId, names: &mut OpNames, groups: &mut ChainGroups) -> PathId {
        const NOTHING: FinishedOp = FinishedOp { who: WhoId::NONE, call: CallSiteId::NONE, segments: 0 };
        let Scratch { path: chain, ops, .. } = &mut self.scratch;
        let len = usize::from(self.nodes[leaf.index()].depth);
        chain.clear();
        chain.resize(len, leaf);
        ops.clear();
        ops.resize(len, NOTHING);
        let mut node = leaf;
        for (place, op) in chain.iter_mut().zip(ops).rev() {
            let n = &self.nodes[node.index()];
            (*place, node) = (node, n.parent);
            *op = FinishedOp { who: n.who, call: n.call, segments: n.segments };
        }
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
