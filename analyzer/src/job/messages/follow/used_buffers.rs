//! Memory that calls are given: what each of them reads or writes, and whether that is a buffer of an active request or of the same call.

use std::num::NonZeroU64;

use super::{Begun, Follower, origin};
use crate::job::messages::active_buffers::{MemoryAccess, MemoryUse, MemoryUser};
use crate::job::messages::assemble::Call;
use crate::job::messages::data::CallBuffer;
use crate::job::messages::ids::CommId;
use crate::job::messages::op::{MessageContent, Op};
use crate::job::messages::overlapping::BuffersOfCall;
use crate::mpi::calls::{Arg, BufferOf, CollectiveBuffer, ContentArgs};

impl Follower {
    /// A call is given the buffer of a message or of a one-sided operation.
    pub(super) fn use_buffer(&mut self, call: &Call, op: &Op) {
        let Some(content) = op.content else { return };
        // How much is received is known when that is over.
        if op.sends || op.is_one_sided() {
            let (rank, origin, is_written) = (op.id.call.rank, op.origin, !op.sends);
            self.used.push_back(CallBuffer { pid: call.pid, rank, origin, content, is_written });
        }
        let end = content.addr.checked_add(content.len_bytes.get());
        let Some(end) = end.filter(|_| !self.buffers.are_none()) else { return };
        let user = MemoryUser::Call(call.row.name.as_str(), call.return_address);
        let (range, access) = (content.addr..end, MemoryAccess::of(op));
        let Self { buffers, arriving, has_several_clocks, .. } = self;
        let is_sent = |receive| *has_several_clocks || arriving.contains_key(&receive);
        buffers.look(call.pid, &MemoryUse { range, access, user, time_ns: call.begin_ns }, is_sent);
    }

    /// A collective call begins.
    pub(super) fn use_collective_buffers(&mut self, call: &Call, rank: u32, (comm, own): (CommId, u32)) {
        if self.is_partial || !self.follows_data {
            return;
        }
        let mut ends = [None, None];
        for buffer in call.row.collective_buffers() {
            if let Some(content) = self.collective_content(call, buffer, (comm, own)) {
                let (pid, origin, is_written) = (call.pid, origin(call), buffer.is_written);
                self.used.push_back(CallBuffer { pid, rank, origin, content, is_written });
                ends[usize::from(is_written)] = Some((content, buffer.has_parts));
            }
        }
        let [Some((read, gives_parts)), Some((written, gets_parts))] = ends else { return };
        // Of what all give or get, the rank's own part: as long as the other buffer.
        let own_part = |whole: MessageContent, part: MessageContent| {
            let before = u64::from(own).checked_mul(part.len_bytes.get());
            before.and_then(|before| whole.addr.checked_add(before)) == Some(part.addr)
        };
        let is_own_part = match (gives_parts, gets_parts) {
            (false, true) => own_part(written, read),
            (true, false) => own_part(read, written),
            _ => false,
        };
        self.compare_buffers(call, rank, [read, written], is_own_part);
    }

    /// Messages that a call exchanges: those of one buffer are meant to.
    pub(super) fn compare_exchanged(&mut self, call: &Call, begun: &Begun) {
        let mut ops = begun.ops.iter();
        let (Some(sent), Some(received)) = (ops.next(), ops.next()) else { return };
        let position = |at: Option<ContentArgs>| at.map(|at| at.buffer);
        if position(call.row.sent()) == position(call.row.received()) {
            return;
        }
        if let Some((read, written)) = sent.content.zip(received.content) {
            self.compare_buffers(call, sent.id.call.rank, [read, written], false);
        }
    }

    fn compare_buffers(&mut self, call: &Call, rank: u32, ends: [MessageContent; 2], is_own_part: bool) {
        /// Nothing lies below: MPI_BOTTOM, MPI_IN_PLACE.
        const LEAST_ADDRESS: u64 = 4096;
        let is_memory = |content: &MessageContent| content.addr >= LEAST_ADDRESS;
        let range =
            |content: MessageContent| Some(content.addr..content.addr.checked_add(content.len_bytes.get())?);
        let [Some(read), Some(written)] = ends.map(|content| Some(content).filter(is_memory).and_then(range))
        else {
            return;
        };
        let (origin, time_ns) = (origin(call), call.begin_ns);
        self.overlapping.check(&BuffersOfCall { rank, origin, read, written, is_own_part, time_ns });
    }

    /// Where a buffer is that is this member's, if its length is known. In an intercommunicator, the root is one of the other group.
    fn collective_content(
        &self,
        call: &Call,
        buffer: &CollectiveBuffer,
        (comm, own): (CommId, u32),
    ) -> Option<MessageContent> {
        let members = self.communicators.members(comm)?;
        if self.communicators.membership(comm)?.is_inter() {
            return None;
        }
        let root = || u32::try_from(call.integer(call.row.position(Arg::Root)?)?).ok();
        let is_mine = match buffer.of {
            BufferOf::All => true,
            BufferOf::Root => root()? == own,
            BufferOf::Others => root()? != own,
        };
        let content = self.content(call, Some(buffer.content)).filter(|_| is_mine)?;
        let parts = if buffer.has_parts { members.len() as u64 } else { 1 };
        let len_bytes = content.len_bytes.get().checked_mul(parts)?;
        Some(MessageContent { len_bytes: NonZeroU64::new(len_bytes)?, ..content })
    }
}
