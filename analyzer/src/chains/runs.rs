//! Consecutive copies that are one operation: packs and unpacks, and movements in pieces.

use super::{Chains, Movement, NodeId, ThreadId, Writer};
use crate::groups::Groups;
use crate::memory::SpaceId;
use crate::names::Names;

/// How the copies of one operation lie.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Unknown,
    Gather,
    Scatter,
}

/// Consecutive copies of a thread at one site that are one operation so far.
#[derive(Clone, Copy)]
pub struct Run {
    pub node: NodeId,
    pub next_source: u64,
    pub next_destination: u64,
    pub shape: Shape,
}

impl Chains {
    /// The thread did something that is not a copy at the same site.
    pub fn end_run(&mut self, thread: ThreadId) {
        if let Some(run) = self.threads[thread.index()].run.take() {
            self.nodes[run.node.index()].closed = true;
        }
    }

    /// Takes the movement as one more piece of the thread's last operation, if it is one.
    pub(super) fn extend_run(
        &mut self,
        m: &Movement,
        writer: Option<Writer>,
        names: &mut Names,
        groups: &mut Groups,
    ) -> bool {
        let Some(run) = self.threads[m.thread.index()].run else { return false };
        let Some(shape) = self.continued_shape(&run, m, writer) else { return false };
        let node = &mut self.nodes[run.node.index()];
        let in_line = run.next_source == m.source.addr && run.next_destination == m.destination.addr;
        if !in_line {
            node.segments = node.segments.saturating_add(1);
        }
        node.moved.len_bytes = node.moved.len_bytes.saturating_add(m.len_bytes);
        self.threads[m.thread.index()].run = Some(Run {
            next_source: m.source.addr.wrapping_add(m.len_bytes),
            next_destination: m.destination.addr.wrapping_add(m.len_bytes),
            shape,
            ..run
        });
        self.write(m, run.node, names, groups);
        true
    }

    /// What the operation is if the movement belongs to it; `None` if it does not.
    fn continued_shape(&self, run: &Run, m: &Movement, writer: Option<Writer>) -> Option<Shape> {
        let node = &self.nodes[run.node.index()];
        let first = &node.moved;
        let same_space = first.space == m.destination.at.map_or(SpaceId::NONE, |at| at.space);
        let same_work =
            (first.site, first.kind, first.remote, first.process) == (m.site, m.kind, m.remote, m.process);
        if !same_work || !same_space || node.live_bytes == 0 {
            return None;
        }
        match (run.next_source == m.source.addr, run.next_destination == m.destination.addr) {
            // Data of different operations side by side: different messages, not one in pieces.
            (true, true) if writer.map_or(NodeId::NONE, |w| self.linked(w.node)) != node.parent => None,
            (true, true) => Some(run.shape),
            (false, true) if run.shape != Shape::Scatter => Some(Shape::Gather),
            (true, false) if run.shape != Shape::Gather => Some(Shape::Scatter),
            _ => None,
        }
    }
}
