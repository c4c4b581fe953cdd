//! Memory that calls are given: what each of them reads or writes, and whether that is a buffer of an active request.

use std::num::NonZeroU64;

use super::{Follower, origin};
use crate::job::messages::active_buffers::{MemoryAccess, MemoryUse, MemoryUser};
use crate::job::messages::assemble::Call;
use crate::job::messages::data::CallBuffer;
use crate::job::messages::ids::CommId;
use crate::job::messages::op::{MessageContent, Op};
use crate::mpi::calls::{Arg, BufferOf, CollectiveBuffer};

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
        for buffer in call.row.collective_buffers() {
            if let Some(content) = self.collective_content(call, buffer, (comm, own)) {
                let (pid, origin, is_written) = (call.pid, origin(call), buffer.is_written);
                self.used.push_back(CallBuffer { pid, rank, origin, content, is_written });
            }
        }
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
