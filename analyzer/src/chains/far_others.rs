//! Operations of other nodes, whose chains go on here: see [`super::far_state`].

use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;

use super::Chains;
use super::far_state::{ChainEnd, EndOp, PiecesOver, Placeholder};
use super::group::OpInstance;
use super::groups::ChainGroups;
use super::ids::{NodeId, PathId};
use super::node::{Details, Marks, Node, instance};
use crate::chains::op_names::OpNames;
use crate::job::ids::{CallSiteId, WhoId};
use crate::job::movement::Side;

/// Index of no process here.
const ELSEWHERE: u32 = u32::MAX;

impl Chains {
    /// Another node wrote a piece into a stream.
    pub fn write_from_elsewhere(
        &mut self,
        (owner, handle): (u32, u64),
        to: &Side,
        names: &mut OpNames,
        groups: &mut ChainGroups,
    ) {
        self.expire(names, groups);
        let known = self.far.placeholder_of(owner, handle).filter(|node| self.is_live(*node));
        let node = match known {
            Some(node) => {
                self.far.add_piece(node);
                self.nodes[node.index()].live_bytes += to.end - to.start;
                let details = &mut self.details[node.index()];
                details.low = details.low.min(to.start);
                details.high = details.high.max(to.end);
                node
            }
            None if self.far.has_room() => self.add_placeholder(owner, handle, to, names),
            None => {
                let over = PiecesOver { to: owner, handle, pieces: 1, ..PiecesOver::default() };
                return self.far.over.push(PiecesOver { is_tainted: true, ..over });
            }
        };
        self.overwrite(to.space, to.start, to.end, node, names, groups);
    }

    /// It is no operation of this node: it has a number for its age alone, and no place in any thread.
    fn add_placeholder(&mut self, owner: u32, handle: u64, to: &Side, names: &OpNames) -> NodeId {
        let op = self.ops;
        self.ops += 1;
        self.counts.placeholders += 1;
        self.counts.pending_nodes += 1;
        let node = self.traces.begin_outside();
        let new = Node {
            op,
            time_ns: 0,
            live_bytes: to.end - to.start,
            parent: NodeId::NONE,
            root: node,
            pending: 1,
            segments: 1,
            process: ELSEWHERE,
            who: WhoId::NONE,
            call: CallSiteId::NONE,
            shape: names.no_shape(),
            path: PathId::NONE,
            depth: 0,
            marks: Marks::CLOSED.with(Marks::ELSEWHERE, true),
        };
        self.ages.push(node);
        self.set_node(node, new, Details::of_stream(to));
        self.far.add_placeholder(node, owner, handle);
        node
    }

    /// A piece that another node tells of has no place here: it was read before, or nobody looks.
    pub fn refuse_piece(&mut self, owner: u32, handle: u64) {
        let over = PiecesOver { to: owner, handle, pieces: 1, end_edge: true, ..PiecesOver::default() };
        self.far.over.push(over);
    }

    /// Nothing more comes of a placeholder.
    pub(super) fn end_placeholder(&mut self, node: NodeId) {
        let n = &self.nodes[node.index()];
        let (marks, is_tainted) = (n.marks, n.op < self.tainted_below);
        let was_read = self.traces.was_read(node);
        let Some(placeholder) = self.far.remove_placeholder(node) else { return };
        if marks.has(Marks::CUT) {
            return;
        }
        self.far.over.push(PiecesOver {
            to: placeholder.owner,
            handle: placeholder.handle,
            pieces: placeholder.pieces,
            had_child: marks.has(Marks::HAD_CHILD),
            was_read,
            end_edge: marks.has(Marks::END_EDGE),
            is_tainted,
        });
    }

    /// A chain ends here that began on another node.
    pub(super) fn emit_from_elsewhere(
        &mut self,
        leaf: NodeId,
        names: &mut OpNames,
        groups: &mut ChainGroups,
    ) {
        let (root, marks) = (self.nodes[leaf.index()].root, self.nodes[leaf.index()].marks);
        let is_tainted = self.nodes[root.index()].op < self.tainted_below || marks.has(Marks::TAINTED);
        let mut after = Vec::new();
        self.each_after(leaf, |context| after.push(context));
        let mut end = ChainEnd {
            to: 0,
            handle: 0,
            ops: Vec::new(),
            begin_ns: 0,
            after,
            begin_edge: false,
            end_edge: marks.has(Marks::END_EDGE),
            is_tainted,
            instances: Vec::new(),
        };
        if self.nodes[root.index()].marks.has(Marks::CUT) {
            return self.count_with_end(leaf, &end, names, groups);
        }
        let Some(&placeholder) = self.far.placeholder(root) else { return };
        let (ops, nodes) = self.ops_behind(root, leaf, names);
        end.instances = self.instances(&nodes, names, &placeholder, &ops);
        (end.to, end.handle) = (placeholder.owner, placeholder.handle);
        (end.ops, end.begin_ns) = (ops, self.begin_of(&nodes));
        end.begin_edge = self.begin_edge_of(&nodes).unwrap_or(false);
        self.far.ends.push(end);
    }

    /// The operations from behind a placeholder to another one of its chain.
    pub(super) fn ops_behind(
        &mut self,
        root: NodeId,
        last: NodeId,
        names: &mut OpNames,
    ) -> (Vec<EndOp>, Vec<NodeId>) {
        let (mut ops, mut nodes) = (Vec::new(), Vec::new());
        let mut node = last;
        while node.is_some() && node != root {
            let n = &self.nodes[node.index()];
            let symbol = n.symbol(names);
            ops.push(EndOp { symbol, who: n.who, call: n.call, segments: n.segments });
            nodes.push(node);
            self.far.joined.insert(names.symbol_parts(symbol).site);
            node = n.parent;
        }
        ops.reverse();
        nodes.reverse();
        (ops, nodes)
    }

    /// Tells an operation's chain so far from others, wherever it began; none: what is before it there is not known.
    pub(super) fn kind_of(&self, last: NodeId, names: &mut OpNames) -> Option<u32> {
        let mut hasher = FxHasher::default();
        let mut node = last;
        while node.is_some() {
            let n = &self.nodes[node.index()];
            match n.marks.has(Marks::ELSEWHERE) {
                true => self.far.placeholder(node)?.kind?.hash(&mut hasher),
                false => n.symbol(names).hash(&mut hasher),
            }
            node = n.parent;
        }
        Some((hasher.finish() >> 32) as u32)
    }

    /// When the first of some operations happened.
    pub(super) fn begin_of(&self, nodes: &[NodeId]) -> u64 {
        nodes.first().map_or(0, |node| self.nodes[node.index()].time_ns)
    }

    /// Whether something may have been before the first of some operations that was not seen; none: there are none.
    pub(super) fn begin_edge_of(&self, nodes: &[NodeId]) -> Option<bool> {
        nodes.first().map(|node| self.nodes[node.index()].marks.has(Marks::BEGIN_EDGE))
    }

    /// All that is known of operations of an end, if it is one of the first of its kind.
    pub(super) fn instances(
        &mut self,
        nodes: &[NodeId],
        names: &OpNames,
        behind: &Placeholder,
        ops: &[EndOp],
    ) -> Vec<OpInstance> {
        if !self.far.is_shown(behind, ops) {
            return Vec::new();
        }
        nodes.iter().map(|n| instance(&self.nodes[n.index()], &self.details[n.index()], names)).collect()
    }

    /// What goes on with pieces of another node is a chain of its own from here on.
    pub fn cut_behind(&mut self, owner: u32, handle: u64) {
        let mut next = self.far.placeholder_of(owner, handle);
        while let Some(node) = next {
            self.nodes[node.index()].marks.set(Marks::CUT);
            next = self.far.placeholder(node).and_then(|placeholder| placeholder.earlier);
        }
    }

    /// The same of all pieces of a node.
    pub fn cut_behind_all(&mut self, owner: u32) {
        for node in self.far.placeholders_of(owner) {
            self.nodes[node.index()].marks.set(Marks::CUT);
        }
    }
}
