//! Messages whose data moves unseen: the message itself is the operation then.
//!
//! What is sent is what is in memory when the send begins. Until the message has arrived, the operation that wrote it is
//! therefore held: its chain does not end, whatever is written over it meanwhile.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::node::Marks;
use super::{Chains, Movement, NodeId, Side};
use crate::groups::Groups;
use crate::mpi::MessageId;
use crate::names::Names;

/// Messages on their way that are held.
const MOST_HELD: usize = 1 << 16;

/// The content of a message, as it was when it was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub source: Side,
    /// Index of the sender.
    pub process: u32,
    writer: NodeId,
}

/// Messages on their way, and how many operations there had been when they were sent.
#[derive(Default)]
pub(super) struct Held {
    sent: FxHashMap<MessageId, Sent>,
    order: VecDeque<(u64, MessageId)>,
}

impl Chains {
    /// A message is sent.
    pub fn hold(
        &mut self,
        message: MessageId,
        process: u32,
        source: Side,
        names: &mut Names,
        groups: &mut Groups,
    ) {
        self.forget_old_messages(names, groups);
        let writer = self.main_writer(&source);
        if let Some(node) = self.nodes.get_mut(writer.index()) {
            node.pending += 1;
        }
        if let Some(before) = self.held.sent.insert(message, Sent { source, process, writer }) {
            self.let_go(before.writer, names, groups);
        }
        self.held.order.push_back((self.ops, message));
    }

    /// A message has arrived at a place that nothing was seen to write: it is a movement of its own.
    #[inline(never)]
    pub fn arrive(&mut self, m: &Movement, sent: Sent, names: &mut Names, groups: &mut Groups) {
        self.expire(names, groups);
        self.end_run(m.thread);
        if sent.writer.is_some() {
            self.traces.read(sent.writer);
        }
        let (node, _) = self.add_node(m, sent.writer, names);
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
    pub fn take_sent(&mut self, message: MessageId) -> Option<Sent> {
        self.held.sent.remove(&message)
    }

    /// Nobody asks for a message any more.
    pub fn drop_sent(&mut self, sent: Sent, names: &mut Names, groups: &mut Groups) {
        self.let_go(sent.writer, names, groups);
    }

    /// Whether an operation has written into a range since a time, as far as its bytes are still there.
    pub fn is_written_since(&mut self, to: &Side, since_ns: u64) -> bool {
        self.last_writer(to, since_ns).is_some()
    }

    /// The process that what is in a range since a time came from: the last one but its owner that had it. What the owner
    /// sent to itself is not told from what came on a way that was not seen.
    pub fn came_from(&mut self, to: &Side, since_ns: u64, owner: u32) -> Option<u32> {
        let mut node = self.last_writer(to, since_ns);
        while let Some(n) = self.nodes.get(node.index()) {
            if n.process != owner {
                return Some(n.process);
            }
            if let Some(remote) = self.details[node.index()].remote() {
                return Some(remote);
            }
            node = n.parent;
        }
        None
    }

    /// Messages that are on their way are not followed any further.
    pub(super) fn forget_messages(&mut self, names: &mut Names, groups: &mut Groups) {
        while let Some((_, message)) = self.held.order.pop_front() {
            self.forget_message(message, names, groups);
        }
    }

    fn forget_old_messages(&mut self, names: &mut Names, groups: &mut Groups) {
        let too_old = self.ops.saturating_sub(self.max_age_ops);
        while let Some(&(op, message)) = self.held.order.front()
            && (op < too_old || self.held.order.len() >= MOST_HELD || !self.held.sent.contains_key(&message))
        {
            self.held.order.pop_front();
            self.forget_message(message, names, groups);
        }
    }

    #[inline(never)]
    fn let_go(&mut self, node: NodeId, names: &mut Names, groups: &mut Groups) {
        self.release(node, names, groups);
    }

    fn forget_message(&mut self, message: MessageId, names: &mut Names, groups: &mut Groups) {
        if let Some(sent) = self.held.sent.remove(&message) {
            self.let_go(sent.writer, names, groups);
        }
    }

    /// The live operation that wrote most of a range; among equals the latest.
    fn main_writer(&mut self, side: &Side) -> NodeId {
        if !side.space.is_some() {
            return NodeId::NONE;
        }
        let writers = &mut self.scratch.writers;
        writers.clear();
        self.spaces[side.space.index()].read(side.start, side.end, |node, bytes| {
            match writers.iter_mut().find(|writer| writer.0 == node) {
                Some(writer) => writer.1 += bytes,
                None => writers.push((node, bytes)),
            }
        });
        let weight = |&(node, bytes): &(NodeId, u64)| (bytes, self.nodes[node.index()].op);
        writers.iter().copied().max_by_key(weight).map_or(NodeId::NONE, |writer| writer.0)
    }

    fn last_writer(&mut self, to: &Side, since_ns: u64) -> NodeId {
        let mut last = NodeId::NONE;
        if !to.space.is_some() {
            return last;
        }
        let nodes = &self.nodes;
        self.spaces[to.space.index()].read(to.start, to.end, |node, _| {
            let written = nodes[node.index()];
            let is_later = !last.is_some() || nodes[last.index()].op < written.op;
            if written.time_ns >= since_ns && is_later {
                last = node;
            }
        });
        last
    }
}
