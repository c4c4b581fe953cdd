//! Movements into streams of TCP and of RDMA's queue pairs, and out of them.
//!
//! A stream takes what one system call gives it in as many parts as it has room for, and gives it out in as many as have
//! arrived. So the parts of one operation may be far apart, with other work of the thread in between. What is written from one
//! buffer without a break is one operation, whatever wrote its parts: how much of it was taken at once says nothing, and whoever
//! reads it elsewhere sees no more than that.

use super::Chains;
use super::groups::ChainGroups;
use super::ids::NodeId;
use super::node::Marks;
use super::stream_ends::Written;
use super::stream_run::StreamOperation;
use crate::chains::op_names::OpNames;
use crate::job::ids::SpaceId;
use crate::job::movement::Movement;
use crate::job::names::Kind;

impl Chains {
    /// Takes a movement into a stream or out of it; `stream`: its space, none if it is not followed. Gives back the operation.
    #[inline(never)]
    pub fn stream_movement(
        &mut self,
        m: &Movement,
        stream: SpaceId,
        names: &mut OpNames,
        groups: &mut ChainGroups,
    ) -> Written {
        self.expire(names, groups);
        self.end_run(m.thread);
        let writer = self.read(&m.source);
        let written_by = self.noted(writer);
        let last = self.stream_operations.get(&(stream, m.kind)).copied();
        let (node, op, parent) = match last.filter(|last| self.goes_on(last, m, writer)) {
            Some(last) => {
                let details = &mut self.details[last.node.index()];
                details.len_bytes = details.len_bytes.saturating_add(m.len_bytes);
                self.counts.merged_copies += 1;
                self.write_more(m, last.node, names, groups);
                (last.node, last.op, last.parent)
            }
            None => self.begin_stream_operation(m, writer, names, groups),
        };
        self.note_link(node, written_by);
        if stream.is_some() {
            let next_source = m.source.addr.wrapping_add(m.len_bytes);
            let next_destination = m.destination.addr.wrapping_add(m.len_bytes);
            let operation = StreamOperation { node, op, parent, next_source, next_destination };
            self.stream_operations.insert((stream, m.kind), operation);
        }
        Written { node, op }
    }

    fn begin_stream_operation(
        &mut self,
        m: &Movement,
        writer: NodeId,
        names: &mut OpNames,
        groups: &mut ChainGroups,
    ) -> (NodeId, u64, NodeId) {
        let op = self.ops;
        let (node, parent) = self.add_node(m, writer, names);
        let marks = &mut self.nodes[node.index()].marks;
        marks.set(Marks::CLOSED);
        match m.kind {
            Kind::StreamRead | Kind::RdmaReceive if !m.source.space.is_some() => marks.set(Marks::BEGIN_EDGE),
            Kind::StreamWrite | Kind::RdmaSend if !m.destination.space.is_some() => {
                marks.set(Marks::END_EDGE)
            }
            _ => {}
        }
        let to = &m.destination;
        if to.space.is_some() && to.start < to.end {
            self.overwrite(to.space, to.start, to.end, node, names, groups);
        } else {
            self.die(node, names, groups);
        }
        (node, op, parent)
    }

    /// Whether a movement is the next part of an operation.
    fn goes_on(&self, last: &StreamOperation, m: &Movement, writer: NodeId) -> bool {
        let node = &self.nodes[last.node.index()];
        node.op == last.op
            && node.live_bytes > 0
            && node.process == m.process
            && (last.next_source, last.next_destination) == (m.source.addr, m.destination.addr)
            && (matches!(m.kind, Kind::StreamWrite | Kind::RdmaSend) || self.linked(writer) == last.parent)
    }

    /// Nobody will be seen to read what is in a range: what wrote it ends there, as far as can be seen.
    pub fn lose_sight_of(
        &mut self,
        space: SpaceId,
        start: u64,
        end: u64,
        names: &mut OpNames,
        groups: &mut ChainGroups,
    ) {
        let nodes = &mut self.nodes;
        self.spaces[space.index()].read(start, end, |node, _| nodes[node.index()].marks.set(Marks::END_EDGE));
        self.remove_range(space, start, end, names, groups);
    }
}
