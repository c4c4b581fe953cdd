//! Messages whose data moves unseen: the message itself is the operation then.
//!
//! What is sent is what is in memory when the send begins. Until the message has arrived, the operation that wrote it is
//! therefore held: its chain does not end, whatever is written over it meanwhile.

use super::Chains;
use super::groups::ChainGroups;
use super::held::Sent;
use super::ids::NodeId;
use super::node::Marks;
use crate::chains::op_names::OpNames;
use crate::job::movement::{Movement, Side};

impl Chains {
    /// A message is sent. Where numbers are left out, nothing is known of those before.
    pub fn hold(
        &mut self,
        number: u64,
        process: u32,
        source: Side,
        names: &mut OpNames,
        groups: &mut ChainGroups,
    ) {
        self.forget_messages_before(self.ops.saturating_sub(self.max_age_ops), names, groups);
        let writer = self.main_writer(&source);
        if let Some(node) = self.nodes.get_mut(writer.index()) {
            node.pending += 1;
        }
        if number != self.held.next() {
            self.forget_messages(names, groups);
            self.held.first = number;
        }
        self.held.sent.push_back(Some((self.ops, Sent { source, process, writer })));
    }

    /// A message has arrived at a place that nothing was seen to write: it is a movement of its own.
    #[inline(never)]
    pub fn arrive(&mut self, m: &Movement, sent: Sent, names: &mut OpNames, groups: &mut ChainGroups) {
        self.expire(names, groups);
        self.end_run(m.thread);
        if sent.writer.is_some() {
            self.traces.read(sent.writer);
        }
        let written_by = self.noted(sent.writer);
        let (node, _) = self.add_node(m, sent.writer, names);
        self.note_link(node, written_by);
        self.nodes[node.index()].marks.set(Marks::CLOSED);
        let to = &m.destination;
        if to.space.is_some() && to.start < to.end {
            self.overwrite(to.space, to.start, to.end, node, names, groups);
        } else {
            self.die(node, names, groups);
        }
        self.let_go(sent.writer, names, groups);
    }

    /// A message on its way, which is held no more: [`Chains::arrive`] or [`Chains::drop_sent`] must follow.
    pub fn take_sent(&mut self, number: u64) -> Option<Sent> {
        self.held.take(number)
    }

    /// Nobody asks for a message any more.
    pub fn drop_sent(&mut self, sent: Sent, names: &mut OpNames, groups: &mut ChainGroups) {
        self.let_go(sent.writer, names, groups);
    }

    /// Whether an operation has written into a range since a time, as far as its bytes are still there.
    pub fn is_written_since(&mut self, to: &Side, since_ns: u64) -> bool {
        self.last_writer(to, since_ns).is_some()
    }

    /// The process that what is in a range since a time came from: the last one but its owner that had it; and when it was moved
    /// there. What the owner sent to itself is not told from what came on a way that was not seen.
    pub fn came_from(&mut self, to: &Side, since_ns: u64, owner: u32) -> Option<(u32, u64)> {
        let mut node = self.last_writer(to, since_ns);
        while let Some(n) = self.nodes.get(node.index()) {
            if n.process != owner {
                return Some((n.process, n.time_ns));
            }
            if let Some(remote) = self.details[node.index()].remote() {
                return Some((remote, n.time_ns));
            }
            node = n.parent;
        }
        None
    }

    /// Messages that are on their way are not followed any further.
    pub(super) fn forget_messages(&mut self, names: &mut OpNames, groups: &mut ChainGroups) {
        self.forget_messages_before(u64::MAX, names, groups);
    }

    fn forget_messages_before(&mut self, op: u64, names: &mut OpNames, groups: &mut ChainGroups) {
        while let Some(gone) = self.held.pop_before(op) {
            if let Some(sent) = gone {
                self.let_go(sent.writer, names, groups);
            }
        }
    }

    #[inline(never)]
    fn let_go(&mut self, node: NodeId, names: &mut OpNames, groups: &mut ChainGroups) {
        self.release(node, names, groups);
    }

    /// The live operation that wrote most of a range; among equals the latest.
    fn main_writer(&mut self, side: &Side) -> NodeId {
        if !side.space.is_some() {
            return NodeId::NONE;
        }
        if let Some(writer) = self.spaces[side.space.index()].whole(side.start, side.end) {
            return writer;
        }
        self.gather_writers(side);
        self.writer_of_most()
    }

    fn last_writer(&mut self, to: &Side, since_ns: u64) -> NodeId {
        let mut last = NodeId::NONE;
        if !to.space.is_some() {
            return last;
        }
        let nodes = &self.nodes;
        self.spaces[to.space.index()].read(to.start, to.end, |node, _| {
            let written = &nodes[node.index()];
            let is_later = !last.is_some() || nodes[last.index()].op < written.op;
            if written.time_ns >= since_ns && is_later {
                last = node;
            }
        });
        last
    }
}
