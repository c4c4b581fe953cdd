//! One-sided operations between memory of this node and of others: RDMA writes, reads and atomic operations.
//!
//! Whose memory it is does not see them. So whoever does them tells: which memory, and where the stream to it was when they were
//! posted. A connection keeps its order; so they happened before what was sent behind them is received, and are applied then. A
//! write puts there a placeholder for what wrote it, as what is received does. A read is told as well, and who reads does not wait
//! for an answer: it names what it has read by a handle of its own, and the node of the memory finds out what wrote that.

use super::session::Pipeline;
use crate::chains::far_state::{FarAccess, FarMemory, FarPiece, is_read_by};
use crate::chains::one_sided::{FarOperation, OperationTurn, UntoldWrite};
use crate::chains::stream_ends::Written;
use crate::invariants::chain_analysis::ChainAnalysis;
use crate::job::event::Gone;
use crate::job::ids::SpaceId;
use crate::job::movement::{Movement, Side};
use crate::job::resolve;
use crate::job::verbs::RemoteBytes;
use crate::tape::wire::{CallContext, Header};

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
            OperationTurn::Due { pid } => self.do_operation(pid, &operation),
            OperationTurn::Waits => {}
            OperationTurn::Surplus(surplus) => self.refuse(&surplus),
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
