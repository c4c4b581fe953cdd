//! Operations of this node that are read on others: see [`super::far_state`].

use super::Chains;
use super::context_set::ContextSet;
use super::far_state::{ChainEnd, PieceKind, PiecesOver};
use super::group::{Example, Finished, FinishedOp, Work};
use super::groups::ChainGroups;
use super::ids::{NodeId, PathId};
use super::node::Marks;
use crate::chains::op_names::OpNames;

impl Chains {
    /// A piece of what is written here was told to the node that reads it; what writes it is [known](Chains::bind) later.
    pub fn tell_piece(&mut self, handle: u64, to: u32, names: &mut OpNames, groups: &mut ChainGroups) {
        self.far.tell(handle, to);
        if let Some(first) = self.far.surplus() {
            self.cut(first, names, groups);
        }
    }

    /// The operation that wrote a piece that was told; none: it is not followed.
    pub fn bind(&mut self, handle: u64, node: Option<NodeId>, names: &mut OpNames, groups: &mut ChainGroups) {
        let was_read = node.is_some_and(|node| self.traces.was_read(node));
        let Some(hold) = self.far.get_mut(handle) else {
            // It was cut before anybody knew what it was.
            if let Some(node) = node {
                self.nodes[node.index()].marks.set(Marks::END_EDGE);
            }
            return;
        };
        hold.bound = hold.bound.saturating_add(1);
        let known = hold.node;
        match (known, node) {
            (None, Some(node)) => {
                (hold.node, hold.was_unread) = (Some(node), !was_read);
                let to = hold.to;
                let early = std::mem::take(&mut hold.early);
                self.nodes[node.index()].pending += 1;
                self.traces.read(node);
                let kind = self.kind_of(node, names);
                self.far.kinds.extend(kind.map(|kind| PieceKind { to, handle, kind }));
                let root = self.nodes[node.index()].root;
                if self.nodes[root.index()].marks.has(Marks::ELSEWHERE) {
                    self.far.note_passed_on(handle);
                }
                early.into_iter().for_each(|end| self.add_end(node, handle, end, names, groups));
            }
            // It looked like one operation from outside, and is two: which goes on is not known.
            (Some(known), Some(node)) if known != node => {
                for node in [known, node] {
                    self.nodes[node.index()].marks.set(Marks::TAINTED);
                    self.traces.read(node);
                }
                self.counts.tainted_ops += 2;
            }
            _ => {}
        }
        self.let_go_if_over(handle, names, groups);
    }

    /// No operation wrote a piece that was told: chains begin behind it.
    pub fn bind_to_nothing(&mut self, handle: u64, names: &mut OpNames, groups: &mut ChainGroups) {
        self.far.get_mut(handle).into_iter().for_each(|hold| hold.is_first = true);
        self.bind(handle, None, names, groups);
    }

    /// Another node says what has become of pieces.
    pub fn take_over(&mut self, from: u32, over: &PiecesOver, names: &mut OpNames, groups: &mut ChainGroups) {
        let Some(hold) = self.far.get_mut(over.handle).filter(|hold| hold.to == from) else { return };
        hold.over = hold.over.saturating_add(over.pieces);
        hold.fate.had_child |= over.had_child;
        hold.fate.was_read |= over.was_read;
        hold.fate.end_edge |= over.end_edge;
        hold.fate.is_tainted |= over.is_tainted;
        self.let_go_if_over(over.handle, names, groups);
    }

    /// A chain has ended on another node, behind pieces that came from here.
    pub fn take_end(&mut self, from: u32, end: ChainEnd, names: &mut OpNames, groups: &mut ChainGroups) {
        let handle = end.handle;
        match self.far.get(handle).map(|hold| (hold.to, hold.node)) {
            Some((to, _)) if to != from => {}
            Some((_, Some(node))) => self.add_end(node, handle, end, names, groups),
            Some((_, None)) => {
                self.far.get_mut(handle).into_iter().for_each(|hold| hold.early.push(end.clone()))
            }
            None if self.far.was_cut(handle) => self.count_end(&end, true, names, groups),
            None => {
                self.counts.inconclusive += 1;
                self.counts.tainted_ops += 1;
            }
        }
    }

    /// Adds an end to the chain of an operation.
    fn add_end(
        &mut self,
        node: NodeId,
        handle: u64,
        end: ChainEnd,
        names: &mut OpNames,
        groups: &mut ChainGroups,
    ) {
        let n = &self.nodes[node.index()];
        let is_too_long = usize::from(n.depth) + end.ops.len() > usize::from(self.max_chain_ops);
        let root = n.root;
        if let Some(hold) = self.far.get_mut(handle) {
            hold.has_end |= !is_too_long;
            hold.has_cut_end |= is_too_long;
        }
        if is_too_long || end.ops.is_empty() {
            return self.count_end(&end, true, names, groups);
        }
        let root = &self.nodes[root.index()];
        if root.marks.has(Marks::ELSEWHERE) && !root.marks.has(Marks::CUT) {
            return self.pass_end_on(node, end, names);
        }
        self.count_with_end(node, &end, names, groups);
    }

    /// Counts a chain that begins here, from its root to an operation and on with an end.
    pub(super) fn count_with_end(
        &mut self,
        node: NodeId,
        end: &ChainEnd,
        names: &mut OpNames,
        groups: &mut ChainGroups,
    ) {
        let path = self.path(node, names, groups);
        let root_id = self.scratch.path[0];
        let n = &self.nodes[node.index()];
        let (first, root) = (&self.nodes[n.root.index()], &self.nodes[root_id.index()]);
        if first.op < self.tainted_below || end.is_tainted {
            self.counts.inconclusive += 1;
            return groups.touch(root.time_ns, root.time_ns);
        }
        let work = Work { site: names.shape_parts(root.shape).site, call: root.call };
        let begin_edge = root.marks.has(Marks::BEGIN_EDGE) || first.marks.has(Marks::CUT);
        let (time_ns, end_edge) = (root.time_ns, end.end_edge);
        let path = end.ops.iter().fold(path, |path, op| groups.path(path, op.symbol));
        self.scratch.ops.extend(finished(end));
        let mut context = self.context_before(root_id);
        if let Some(set) = &mut context {
            end.after.iter().for_each(|op| set.add_after(*op));
        }
        let ops = &self.scratch.ops;
        let chain = Finished { path, work, ops, time_ns, context: context.as_ref(), begin_edge, end_edge };
        groups.add(&chain, || self.example_with(root_id, context, end, names));
    }

    /// Counts an end as a chain of its own. `begin_edge`: what is before it is cut off, or not known.
    fn count_end(&mut self, end: &ChainEnd, begin_edge: bool, names: &OpNames, groups: &mut ChainGroups) {
        let Some(first) = end.ops.first() else { return };
        if end.is_tainted {
            self.counts.inconclusive += 1;
            return groups.touch(end.begin_ns, end.begin_ns);
        }
        let work = Work { site: names.symbol_parts(first.symbol).site, call: first.call };
        let path = end.ops.iter().fold(PathId::NONE, |path, op| groups.path(path, op.symbol));
        let ops: Vec<FinishedOp> = finished(end).collect();
        let mut set = ContextSet::EMPTY;
        end.after.iter().for_each(|op| set.add_after(*op));
        let (time_ns, end_edge) = (end.begin_ns, end.end_edge);
        let context = Some(&set);
        let chain = Finished { path, work, ops: &ops, time_ns, context, begin_edge, end_edge };
        groups.add(&chain, || {
            let ops = end.instances.clone();
            (ops.len() == end.ops.len()).then(|| Example { ops, before: Vec::new(), context: Some(set) })
        });
    }

    /// The chain began on yet another node.
    fn pass_end_on(&mut self, node: NodeId, end: ChainEnd, names: &mut OpNames) {
        let root = self.nodes[node.index()].root;
        let Some(&placeholder) = self.far.placeholder(root) else { return };
        let is_tainted = self.nodes[root.index()].op < self.tainted_below || end.is_tainted;
        let (mut ops, nodes) = self.ops_behind(root, node, names);
        ops.extend(&end.ops);
        let mut instances = Vec::new();
        if end.instances.len() == end.ops.len() {
            instances = self.instances(&nodes, names, &placeholder, &ops);
            if !instances.is_empty() {
                instances.extend(&end.instances);
            }
        }
        let (to, handle) = (placeholder.owner, placeholder.handle);
        let begin_ns = self.begin_of(&nodes);
        let begin_edge = self.begin_edge_of(&nodes).unwrap_or(end.begin_edge);
        self.far.ends.push(ChainEnd { to, handle, ops, begin_ns, begin_edge, instances, is_tainted, ..end });
    }

    /// The chain in `scratch.path` with its end, for people; none if not all of the end was told.
    fn example_with(
        &self,
        root: NodeId,
        context: Option<ContextSet>,
        end: &ChainEnd,
        names: &OpNames,
    ) -> Option<Example> {
        if end.instances.len() != end.ops.len() {
            return None;
        }
        let mut example = self.example(root, context, names);
        example.ops.extend(&end.instances);
        Some(example)
    }

    /// Time goes on: what is passed on again and again is not waited for.
    pub fn tick_far(&mut self, names: &mut OpNames, groups: &mut ChainGroups) {
        self.far.tick();
        while let Some(handle) = self.far.take_passed_on(false) {
            self.cut(handle, names, groups);
        }
    }

    /// What was passed on is not waited for any longer.
    pub fn cut_passed_on(&mut self, names: &mut OpNames, groups: &mut ChainGroups) {
        while let Some(handle) = self.far.take_passed_on(true) {
            self.cut(handle, names, groups);
        }
    }

    /// Another node will not read any more than it has said.
    pub fn end_reader(&mut self, reader: u32, names: &mut OpNames, groups: &mut ChainGroups) {
        for handle in self.far.held_for(Some(reader)) {
            if let Some(hold) = self.far.get_mut(handle) {
                hold.fate.end_edge = true;
                hold.over = u32::MAX;
            }
            self.let_go_if_over(handle, names, groups);
        }
    }

    /// Another node will not say any more what became of what it reads, or none will: it may have gone on with it.
    pub fn lose_readers(&mut self, reader: Option<u32>, names: &mut OpNames, groups: &mut ChainGroups) {
        for handle in self.far.held_for(reader) {
            if let Some(hold) = self.far.get_mut(handle) {
                hold.fate.is_tainted = true;
                hold.over = u32::MAX;
                self.counts.tainted_ops += 1;
            }
            self.let_go_if_over(handle, names, groups);
        }
    }

    /// Does not wait any longer for what goes on behind pieces: that is a chain of its own from there on.
    fn cut(&mut self, handle: u64, names: &mut OpNames, groups: &mut ChainGroups) {
        let Some(hold) = self.far.remove(handle) else { return };
        self.far.note_cut(handle, hold.to);
        hold.early.iter().for_each(|end| self.count_end(end, true, names, groups));
        if let Some(node) = hold.node {
            self.nodes[node.index()].marks.set(Marks::END_EDGE);
            self.finish_hold(node, &hold.fate, hold.has_end, names, groups);
        }
    }

    fn let_go_if_over(&mut self, handle: u64, names: &mut OpNames, groups: &mut ChainGroups) {
        if self.far.get(handle).is_none_or(|hold| !hold.is_over()) {
            return;
        }
        let Some(hold) = self.far.remove(handle) else { return };
        let Some(node) = hold.node else {
            return hold
                .early
                .iter()
                .for_each(|end| self.count_end(end, !hold.is_first || end.begin_edge, names, groups));
        };
        if hold.was_unread && !hold.fate.was_read && !hold.fate.is_tainted {
            self.traces.was_not_read(node);
        }
        let had_child = hold.fate.had_child && (hold.has_end || !hold.has_cut_end);
        self.finish_hold(node, &hold.fate, had_child, names, groups);
    }

    fn finish_hold(
        &mut self,
        node: NodeId,
        fate: &PiecesOver,
        had_child: bool,
        names: &mut OpNames,
        groups: &mut ChainGroups,
    ) {
        let marks = &mut self.nodes[node.index()].marks;
        *marks = marks
            .with(Marks::HAD_CHILD, had_child)
            .with(Marks::END_EDGE, fate.end_edge)
            .with(Marks::TAINTED, fate.is_tainted);
        self.release(node, names, groups);
    }
}

/// The operations of an end, as they are counted.
fn finished(end: &ChainEnd) -> impl Iterator<Item = FinishedOp> {
    end.ops.iter().map(|op| FinishedOp { who: op.who, call: op.call, segments: op.segments })
}
