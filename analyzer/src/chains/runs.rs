//! Consecutive copies that are one operation: packs and unpacks, and movements in pieces.

use super::Chains;
use super::groups::ChainGroups;
use super::ids::NodeId;
use super::node::Marks;
use super::run::{CoalescedCopy, Layout};
use crate::chains::op_names::OpNames;
use crate::job::ids::ThreadId;
use crate::job::movement::Movement;

impl Chains {
    /// The thread did something that is not a copy at the same site.
    #[inline(always)]
    pub fn end_run(&mut self, thread: ThreadId) {
        if let Some(run) = self.threads[thread.index()].run.take() {
            self.nodes[run.node.index()].marks.set(Marks::CLOSED);
        }
    }

    /// Takes the movement as one more piece of the thread's last operation, if it is one.
    #[inline(always)]
    pub(super) fn extend_run(
        &mut self,
        m: &Movement,
        writer: NodeId,
        names: &mut OpNames,
        groups: &mut ChainGroups,
    ) -> bool {
        match &self.threads[m.thread.index()].run {
            Some(run) if run.is_same_work(m) => self.extend(*run, m, writer, names, groups),
            _ => false,
        }
    }

    fn extend(
        &mut self,
        run: CoalescedCopy,
        m: &Movement,
        writer: NodeId,
        names: &mut OpNames,
        groups: &mut ChainGroups,
    ) -> bool {
        let Some(layout) = self.continued_layout(&run, m, writer) else { return false };
        let in_line = run.next_source == m.source.addr && run.next_destination == m.destination.addr;
        if !in_line {
            let node = &mut self.nodes[run.node.index()];
            node.segments = node.segments.saturating_add(1);
        }
        let details = &mut self.details[run.node.index()];
        details.len_bytes = details.len_bytes.saturating_add(m.len_bytes);
        self.threads[m.thread.index()].run = Some(CoalescedCopy {
            next_source: m.source.addr.wrapping_add(m.len_bytes),
            next_destination: m.destination.addr.wrapping_add(m.len_bytes),
            layout,
            ..run
        });
        self.write_more(m, run.node, names, groups);
        true
    }

    /// How the pieces lie if the movement is one of them; `None` if it is not.
    fn continued_layout(&self, run: &CoalescedCopy, m: &Movement, writer: NodeId) -> Option<Layout> {
        if !self.is_live(run.node) {
            return None;
        }
        match (run.next_source == m.source.addr, run.next_destination == m.destination.addr) {
            // Data of different operations side by side: different messages, not one in pieces.
            (true, true) if self.linked(writer) != run.parent => None,
            (true, true) => Some(run.layout),
            (false, true) if run.layout != Layout::Scatter => Some(Layout::Gather),
            (true, false) if run.layout != Layout::Gather => Some(Layout::Scatter),
            _ => None,
        }
    }
}
