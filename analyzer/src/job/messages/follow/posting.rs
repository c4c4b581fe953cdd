//! Messages that calls begin: what they are, when they are posted, and which requests they start again.

use std::num::NonZeroU64;

use super::pending;
use super::{Begun, Follower, is_empty, is_told, origin};
use crate::job::messages::assemble::Call;
use crate::job::messages::data::Data;
use crate::job::messages::ids::{CallId, CommId, MessageId};
use crate::job::messages::op::{Endpoint, MessageContent, Op, SentContent};
use crate::mpi::calls::{self, Arg, Envelope, Form};
use crate::mpi::datatypes::Element;
use crate::mpi::handles::Builtin;

impl Follower {
    /// Messages that a call is about: what it sends first.
    pub(super) fn begin_messages(&mut self, call: &Call, id: CallId, begun: &mut Begun) {
        if self.is_partial {
            return;
        }
        let Some(builtin) = self.builtin(call) else { return };
        let sends = call.row.sends();
        for (envelope, is_send) in [(sends, true), (call.row.receives(), false)] {
            let Some(envelope) = envelope else { continue };
            let part = u32::from(!is_send && sends.is_some());
            let id = MessageId { call: id, part };
            if let Some(op) = self.op(call, builtin, id, envelope, is_send) {
                begun.ops.push(op);
            }
        }
        self.compare_exchanged(call, begun);
        for op in begun.ops.iter() {
            if call.row.form != Form::Persistent {
                self.use_buffer(call, op);
                self.use_window_memory(call.pid, op, call.begin_ns);
                self.tell_with(|this| this.posted(op, call.begin_ns));
                self.post(call, op);
            }
        }
    }

    fn op(
        &mut self,
        call: &Call,
        builtin: Builtin,
        id: MessageId,
        envelope: Envelope,
        sends: bool,
    ) -> Option<Op> {
        let peer = call.integer(envelope.peer)?;
        if peer == builtin.proc_null() {
            return None;
        }
        let is_anybody = !sends && peer == builtin.any_source();
        let rank = if is_anybody { None } else { Some(u32::try_from(peer).ok()?) };
        let place = self.place(call, call.word(envelope.comm)?);
        let named = place.zip(rank);
        let number = named.and_then(|((comm, own), rank)| self.communicators.number(comm, own, rank));
        // Nobody is called so there.
        let place = place.filter(|_| number.is_some() == rank.is_some());
        let peer = number.or(rank);
        let at = if sends { call.row.sent() } else { call.row.received() };
        let (content, is_empty, element) =
            (self.content(call, at), is_empty(call, at), self.element(call, at));
        let tag = call.integer(envelope.tag)?;
        Some(Op { id, origin: origin(call), sends, place, peer, tag, content, is_empty, element })
    }

    /// What the elements of a message are, if it has any.
    pub(super) fn element(&self, call: &Call, at: Option<calls::ContentArgs>) -> Option<Element> {
        let at = at.filter(|at| call.integer(at.count).is_some_and(|count| count > 0))?;
        let process = self.processes.get(call.process);
        process.datatypes.element(process.builtin?.kind, call.word(at.datatype)?)
    }

    /// Where the content of a message is, if it is in one piece.
    pub(super) fn content(&self, call: &Call, at: Option<calls::ContentArgs>) -> Option<MessageContent> {
        let at = at.filter(|_| self.follows_data)?;
        let process = self.processes.get(call.process);
        let size_bytes = process.datatypes.size_bytes(process.builtin?.kind, call.word(at.datatype)?)?;
        let len_bytes = u64::try_from(call.integer(at.count)?).ok()?.checked_mul(size_bytes)?;
        let addr = call.word(at.buffer)?;
        Some(MessageContent { addr, len_bytes: NonZeroU64::new(len_bytes)?, since_ns: call.begin_ns })
    }

    /// Requests that a call starts again.
    pub(super) fn start(&mut self, call: &Call, id: CallId) {
        self.lose_unseen_starts(call, id.rank);
        for (part, handle) in (0..).zip(self.handles(call)) {
            let request = self.requests.startable(call.pid, handle, call.tid);
            let Some(request) = request.filter(|request| request.is_persistent) else {
                // It may stand for a collective call, on any communicator.
                self.collectives.lose(id.rank);
                continue;
            };
            request.is_active = true;
            request.tid = call.tid;
            let row = request.origin.row;
            let Some(op) = &mut request.message else {
                if pending::is_persistent(row) {
                    self.start_collective(call, id.rank, row, handle);
                }
                continue;
            };
            // Of one that is started again its completion was not seen.
            self.buffers.end(call.pid, op);
            self.accesses.end_local(call.pid, op.id);
            op.id = MessageId { call: id, part };
            op.content = op.content.map(|content| MessageContent { since_ns: call.begin_ns, ..content });
            let op = *op;
            self.use_buffer(call, &op);
            self.use_window_memory(call.pid, &op, call.begin_ns);
            self.buffers.begin(call.pid, &op);
            self.tell_with(|this| this.posted(&op, call.begin_ns));
            self.post(call, &op);
        }
    }

    /// A collective call may be started by a handle that was not read: on which communicator is not known then.
    fn lose_unseen_starts(&mut self, call: &Call, rank: u32) {
        let started = match call.row.position(Arg::Count) {
            Some(at) => call.integer(at).and_then(|count| usize::try_from(count).ok()),
            None => Some(1),
        };
        if started != Some(self.handles(call).count()) {
            self.collectives.lose(rank);
        }
    }

    /// Puts a message into the order of those of its rank.
    pub(super) fn post(&mut self, call: &Call, op: &Op) {
        if !self.is_complete(call) {
            return self.give_up(op.id.call.rank);
        }
        let Some((comm, own)) = op.place else { return };
        self.unbuffered.post(op);
        match (op.sends, op.peer) {
            (true, Some(to)) if !self.is_lost(comm, to) => {
                let sent = self.sent(call, op);
                let side = Endpoint { sent, since_ns: call.begin_ns, ..op.side() };
                self.matching.send(comm, (own, to), op.tag, side, &mut self.pairs);
            }
            (true, _) => {}
            // Whose message it will be nobody is told.
            (false, None)
                if self.builtin(call).is_some_and(|builtin| !is_told(builtin.kind, op.origin.row)) =>
            {
                self.matching.lose(comm, own);
            }
            (false, source) => {
                self.matching.receive(comm, own, source, op.tag, op.side(), &mut self.pairs);
            }
        }
        self.matched();
    }

    /// What is known of a message whose content is.
    fn sent(&mut self, call: &Call, op: &Op) -> Option<SentContent> {
        let content = op.content?;
        self.sent += 1;
        self.data.push_back(Data::Sent { number: self.sent, pid: call.pid, content });
        Some(SentContent { number: NonZeroU64::new(self.sent)?, len_bytes: content.len_bytes })
    }

    fn is_lost(&self, comm: CommId, rank: u32) -> bool {
        if self.lost.is_empty() {
            return false;
        }
        let member = self.communicators.members(comm).and_then(|members| members.get(rank as usize));
        member.is_none_or(|rank| self.lost.contains(rank))
    }
}
