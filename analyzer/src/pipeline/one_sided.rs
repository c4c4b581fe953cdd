//! One-sided operations between memory of this node and of others: RDMA writes, reads and atomic operations.
//!
//! Whose memory it is does not see them. So whoever does them tells: which memory, and where the stream to it was when they were
//! posted. A connection keeps its order; so they happened before what was sent behind them is received, and are applied then. A
//! write puts there a placeholder for what wrote it, as what is received does. A read is told as well, and who reads does not wait
//! for an answer: it names what it has read by a handle of its own, and the node of the memory finds out what wrote that.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::session::Pipeline;
use crate::chains::far_state::{FarAccess, FarMemory, FarPiece, is_read_by};
use crate::chains::stream_ends::Written;
use crate::invariants::chain_analysis::ChainAnalysis;
use crate::job::event::Gone;
use crate::job::ids::SpaceId;
use crate::job::movement::{Movement, Side};
use crate::job::names::QUEUE_PAIR;
use crate::job::resolve;
use crate::job::verbs::RemoteBytes;
use crate::tape::causal_order::is_behind;
use crate::tape::wire::{CallContext, Header};

/// Operations of other nodes on one stream that wait to be applied, at most; the first gives way.
const MOST_WAITING: usize = 1 << 12;
/// The same of all streams; what comes beyond is not linked.
const MOST_WAITING_OF_ALL: usize = 1 << 16;
/// Own writes that are kept for whoever may ask; the first gives way.
const MOST_UNTOLD: usize = 1 << 14;

/// An operation of another node on memory of this one.
#[derive(Clone, Copy, Debug)]
struct FarOperation {
    piece: FarPiece,
    memory: FarMemory,
}

/// What other nodes did to memory of whoever receives from a stream.
#[derive(Debug, Default)]
struct WaitingOperations {
    operations: VecDeque<FarOperation>,
    /// Who received last, and from which position on.
    last: Option<(u32, u32)>,
}

/// Bytes of this node's own that went into memory of another one.
#[derive(Clone, Copy, Debug)]
struct UntoldWrite {
    stream: u64,
    start: u64,
    end: u64,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct OneSided {
    waiting: FxHashMap<u64, WaitingOperations>,
    /// How many they are.
    count: usize,
    /// Stands for memory of other nodes: each operation has a part of its own.
    elsewhere: Option<SpaceId>,
    next_start: u64,
    untold: VecDeque<UntoldWrite>,
}

impl OneSided {
    /// A part of what stands for memory of others.
    fn part(&mut self, moved: &RemoteBytes, new_space: impl FnOnce() -> SpaceId) -> Side {
        let space = *self.elsewhere.get_or_insert_with(new_space);
        let (start, end) = (self.next_start, self.next_start + u64::from(moved.len_bytes));
        // They do not touch each other.
        self.next_start = end + 1;
        Side { addr: moved.remote, buffer: QUEUE_PAIR, space, start, end }
    }

    /// Operations that happened before somebody received from a position on.
    fn reached(&mut self, stream: u64, pid: u32, position: u32) -> Vec<FarOperation> {
        let Some(waiting) = self.waiting.get_mut(&stream) else { return Vec::new() };
        waiting.last = Some((pid, position));
        let is_due = |operation: &FarOperation| !is_behind(position, operation.piece.position);
        if !waiting.operations.iter().any(is_due) {
            return Vec::new();
        }
        let (due, rest): (Vec<_>, Vec<_>) = waiting.operations.drain(..).partition(is_due);
        waiting.operations.extend(rest);
        self.count -= due.len();
        due
    }

    /// Takes an operation. Gives back who has the memory, if it is to be applied now; and one that cannot wait any longer.
    fn wait(&mut self, operation: FarOperation) -> (Option<u32>, Option<FarOperation>) {
        let FarPiece { stream, position, .. } = operation.piece;
        let is_full = self.count >= MOST_WAITING_OF_ALL;
        let waiting = match self.waiting.get_mut(&stream) {
            Some(waiting) => waiting,
            None if is_full => return (None, Some(operation)),
            None => self.waiting.entry(stream).or_default(),
        };
        if let Some((pid, reached)) = waiting.last
            && !is_behind(reached, position)
        {
            return (Some(pid), None);
        }
        let surplus = match is_full || waiting.operations.len() >= MOST_WAITING {
            true => waiting.operations.pop_front(),
            false => None,
        };
        if is_full && surplus.is_none() {
            return (None, Some(operation));
        }
        waiting.operations.push_back(operation);
        self.count += usize::from(surplus.is_none());
        (None, surplus)
    }

    /// What waits of a node, or of all, and will not be applied; in no order.
    fn take_waiting(&mut self, of: Option<u32>) -> Vec<FarOperation> {
        let mut taken = Vec::new();
        for waiting in self.waiting.values_mut() {
            let is_its = |operation: &FarOperation| of.is_none_or(|node| node == operation.piece.to);
            let (its, rest): (Vec<_>, Vec<_>) = waiting.operations.drain(..).partition(is_its);
            taken.extend(its);
            waiting.operations.extend(rest);
        }
        self.count -= taken.len();
        taken
    }

    /// Keeps where a write is that nobody was told of. One that is not kept any longer.
    fn keep(&mut self, write: UntoldWrite) -> Option<UntoldWrite> {
        let surplus = if self.untold.len() >= MOST_UNTOLD { self.untold.pop_front() } else { None };
        self.untold.push_back(write);
        surplus
    }

    /// Writes that go with a stream are told.
    fn tell(&mut self, stream: u64) -> Vec<UntoldWrite> {
        let (told, rest): (Vec<_>, Vec<_>) = self.untold.drain(..).partition(|write| write.stream == stream);
        self.untold.extend(rest);
        told
    }
}

/// What is told of an operation as soon as it comes.
pub(super) fn far_memory(moved: &RemoteBytes) -> FarMemory {
    let access = match (moved.write, moved.atomic) {
        (true, _) => FarAccess::Write,
        (false, false) => FarAccess::Read,
        (false, true) => FarAccess::Replace,
    };
    FarMemory { access, addr: moved.remote }
}

/// Of memory of other nodes.
impl Pipeline {
    /// An operation of this node moved data to memory of another one or from there. False: that is not known.
    pub(super) fn move_elsewhere(
        &mut self,
        process: usize,
        h: &Header,
        moved: &RemoteBytes,
        context: CallContext,
    ) -> bool {
        let Some(ends) = self.ends.as_mut().filter(|_| moved.stream != 0) else { return false };
        let reader = ends.reader_of(moved.stream);
        if moved.write {
            self.write_elsewhere(process, h, moved, context, reader.is_some());
            return true;
        }
        let handle = ends.know(moved.stream, moved.position, None);
        let Some((reader, handle)) = reader.zip(handle) else { return false };
        self.read_elsewhere(process, h, moved, context, (reader, handle));
        true
    }

    fn write_elsewhere(
        &mut self,
        process: usize,
        h: &Header,
        moved: &RemoteBytes,
        context: CallContext,
        is_told: bool,
    ) {
        let part = self.one_sided.part(moved, || self.job.new_space());
        let m = self.job.movement_elsewhere(process, h, moved, part, context);
        let by = self.link_elsewhere(&m);
        self.know_writer(moved.stream, moved.position, by);
        let Side { space, start, end, .. } = part;
        if is_told {
            self.job.totals.verbs.find(moved.len_bytes.into());
            self.job.memory_changes.push(Gone::Range { space, start, end });
        } else {
            let surplus = self.one_sided.keep(UntoldWrite { stream: moved.stream, start, end });
            let unseen = surplus.map(|UntoldWrite { start, end, .. }| Gone::Unseen { space, start, end });
            self.job.memory_changes.extend(unseen);
        }
        self.take_memory_changes();
    }

    fn read_elsewhere(
        &mut self,
        process: usize,
        h: &Header,
        moved: &RemoteBytes,
        context: CallContext,
        of: (u32, u64),
    ) {
        let part = self.one_sided.part(moved, || self.job.new_space());
        let ChainAnalysis { chains, groups, ops, .. } = &mut self.chains;
        chains.make_room(self.job.space_counts());
        chains.write_from_elsewhere(of, &part, ops, groups);
        let m = self.job.movement_elsewhere(process, h, moved, part, context);
        self.link_elsewhere(&m);
        self.job.totals.verbs.find(moved.len_bytes.into());
        self.forget_memory(&part);
    }

    fn link_elsewhere(&mut self, m: &Movement) -> Option<Written> {
        if !self.links {
            return None;
        }
        let operation = self.chains.stream_movement(&self.job, m, SpaceId::NONE);
        self.tell_movement(m);
        operation
    }

    /// Who reads a stream was told of what was written before: also of what is in their memory by now.
    pub(super) fn tell_untold_writes(&mut self, stream: u64) {
        let Some(space) = self.one_sided.elsewhere else { return };
        for UntoldWrite { start, end, .. } in self.one_sided.tell(stream) {
            self.job.memory_changes.push(Gone::Range { space, start, end });
        }
    }
}

/// Of memory of this node.
impl Pipeline {
    /// Another node tells what it does to memory here.
    pub(super) fn take_operation(&mut self, piece: &FarPiece, memory: FarMemory, may_link: bool) {
        let mut piece = *piece;
        if memory.access != FarAccess::Write {
            piece.handle = piece.handle.filter(|handle| is_read_by(*handle, piece.to));
            if let Some(handle) = piece.handle {
                let ChainAnalysis { chains, groups, ops, .. } = &mut self.chains;
                chains.tell_piece(handle, piece.to, ops, groups);
            }
        }
        let operation = FarOperation { piece, memory };
        if !may_link || self.job.coverage.is_paused() {
            return self.refuse(&operation);
        }
        match self.one_sided.wait(operation) {
            (Some(pid), _) => self.do_operation(pid, &operation),
            (None, surplus) => surplus.iter().for_each(|surplus| self.refuse(surplus)),
        }
    }

    /// A process receives from a stream, from a position on: what was posted before has happened.
    pub(super) fn reach(&mut self, pid: u32, stream: u64, position: u32) {
        for operation in self.one_sided.reached(stream, pid, position) {
            self.do_operation(pid, &operation);
        }
    }

    /// What a node, or any, did to memory here is not known to have happened, and will not be.
    pub(super) fn refuse_waiting(&mut self, of: Option<u32>) {
        for operation in self.one_sided.take_waiting(of) {
            self.refuse(&operation);
        }
    }

    fn do_operation(&mut self, pid: u32, operation: &FarOperation) {
        let FarOperation { piece, memory } = *operation;
        let process = self.job.processes.find(pid).filter(|_| !self.job.coverage.is_paused());
        let Some(process) = process else { return self.refuse(operation) };
        let near = &mut self.job.processes.get_mut(process).memory;
        let side = resolve::own(near, memory.addr, piece.len_bytes.into());
        if !side.space.is_some() || side.start >= side.end {
            return self.refuse(operation);
        }
        let ChainAnalysis { chains, groups, ops, .. } = &mut self.chains;
        chains.make_room(self.job.space_counts());
        match (memory.access, piece.handle) {
            (FarAccess::Write, Some(handle)) => {
                return chains.write_from_elsewhere((piece.to, handle), &side, ops, groups);
            }
            (FarAccess::Write, None) => {}
            (FarAccess::Read | FarAccess::Replace, Some(handle)) => match chains.writer_here(&side) {
                Some(writer) => chains.bind(handle, Some(writer), ops, groups),
                None => chains.bind_to_nothing(handle, ops, groups),
            },
            (FarAccess::Read | FarAccess::Replace, None) => {}
        }
        if memory.access != FarAccess::Read {
            self.forget_memory(&side);
        }
    }

    fn refuse(&mut self, operation: &FarOperation) {
        let FarOperation { piece, memory } = *operation;
        let ChainAnalysis { chains, groups, ops, .. } = &mut self.chains;
        match piece.handle {
            Some(handle) if memory.access == FarAccess::Write => chains.refuse_piece(piece.to, handle),
            Some(handle) => chains.bind(handle, None, ops, groups),
            None => {}
        }
    }

    /// There is something else now that no operation wrote.
    fn forget_memory(&mut self, side: &Side) {
        let &Side { space, start, end, .. } = side;
        self.job.memory_changes.push(Gone::Range { space, start, end });
        self.take_memory_changes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(stream: u64, position: u32, addr: u64) -> FarOperation {
        let memory = FarMemory { access: FarAccess::Write, addr };
        let piece =
            FarPiece { to: 3, stream, position, len_bytes: 8, handle: Some(addr), memory: Some(memory) };
        FarOperation { piece, memory }
    }

    fn addresses(operations: &[FarOperation]) -> Vec<u64> {
        operations.iter().map(|operation| operation.memory.addr).collect()
    }

    #[test]
    fn what_was_posted_before_a_message_has_happened_when_that_is_received() {
        let mut all = OneSided::default();
        for (stream, position, addr) in [(5, 0, 1), (5, 10, 2), (7, 0, 3), (5, 11, 4)] {
            assert!(matches!(all.wait(write(stream, position, addr)), (None, None)));
        }
        assert_eq!(addresses(&all.reached(5, 40, 10)), [1, 2]);
        assert_eq!(addresses(&all.reached(5, 40, 10)), [0_u64; 0]);
        assert_eq!(addresses(&all.reached(5, 40, 20)), [4]);
        assert_eq!(all.wait(write(5, 15, 6)).0, Some(40), "it has been received already");
        assert_eq!(addresses(&all.take_waiting(Some(3))), [3]);
        assert_eq!(all.count, 0);
    }

    #[test]
    fn positions_that_go_around_are_in_order_all_the_same() {
        let mut all = OneSided::default();
        all.wait(write(5, u32::MAX - 1, 1));
        all.wait(write(5, 3, 2));
        assert_eq!(addresses(&all.reached(5, 40, u32::MAX)), [1]);
        assert_eq!(addresses(&all.reached(5, 40, 4)), [2]);
    }

    #[test]
    fn what_waits_is_bounded_of_each_stream_and_of_all() {
        let mut all = OneSided::default();
        for number in 0..=MOST_WAITING as u64 {
            let surplus = all.wait(write(5, number as u32, number)).1;
            assert_eq!(surplus.map(|first| first.memory.addr), (number == MOST_WAITING as u64).then_some(0));
        }
        for stream in 6..6 + (MOST_WAITING_OF_ALL - MOST_WAITING) as u64 {
            assert!(all.wait(write(stream, 0, stream)).1.is_none());
        }
        assert_eq!(all.count, MOST_WAITING_OF_ALL);
        assert_eq!(all.wait(write(1, 0, 77)).1.map(|refused| refused.memory.addr), Some(77));
        assert_eq!(all.wait(write(5, 9_999, 78)).1.map(|first| first.memory.addr), Some(1));
        assert_eq!((all.count, all.take_waiting(None).len()), (MOST_WAITING_OF_ALL, MOST_WAITING_OF_ALL));
    }
}
