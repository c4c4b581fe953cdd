//! What calls say of requests: which messages are over, and whose they were.

use std::num::NonZeroU64;

use super::Begun;
use super::{Follower, MOST_TAKEN, Taken, integers, is_told, origin};
use crate::job::messages::active_buffers::MemoryUser;
use crate::job::messages::assemble::Call;
use crate::job::messages::data::{Arrival, Asked, CallBuffer, Data};
use crate::job::messages::ids::CallId;
use crate::job::messages::ids::CommId;
use crate::job::messages::ids::MessageId;
use crate::job::messages::leaks::Origin;
use crate::job::messages::message_event::MessageEvent;
use crate::job::messages::op::{Endpoint, Op};
use crate::job::messages::requests::TrackedRequest;
use crate::mpi::calls::{Arg, Which};
use crate::mpi::status::Status;

impl Follower {
    pub(super) fn prepared(&mut self, call: &Call, begun: &Begun) {
        if let Some(handle) = self.handle(call, Arg::NewRequest, true) {
            self.made_collective(call, begun, handle);
            let request = TrackedRequest {
                tid: call.tid,
                origin: origin(call),
                message: begun.ops.first(),
                received: None,
                is_active: false,
                is_persistent: true,
                is_cancelled: false,
            };
            self.requests.add(call.pid, handle, request);
        }
    }

    pub(super) fn request(&mut self, call: &Call, id: CallId, begun: &Begun) {
        let handle = self.handle(call, Arg::NewRequest, true);
        let is_at_once =
            |handle| self.builtin(call).is_some_and(|builtin| builtin.is_complete_at_once(handle));
        if handle.is_none_or(is_at_once) {
            begun.ops.iter().for_each(|op| self.accesses.end_local(call.pid, op.id));
        }
        let Some(handle) = handle else { return };
        if self.builtin(call).is_some_and(|builtin| builtin.is_complete_at_once(handle)) {
            let (message, origin) = (begun.ops.first(), origin(call));
            self.requests.add_at_once((call.pid, handle), message, origin, Origin::is_same, Op::is_alike);
            for op in begun.ops.iter() {
                self.unbuffered.begin_at_once((call.pid, handle), op.id);
                self.complete(op, None, false, (call.pid, id));
            }
            if let Some(complete) = begun.collective {
                self.collectives.complete(complete.sequence, complete.own);
                self.unbuffered.complete_collective(id);
                self.tell(MessageEvent::CollectiveCompleted { call: id, by: id });
            }
            return;
        }
        self.made_collective(call, begun, handle);
        let request = TrackedRequest {
            tid: call.tid,
            origin: origin(call),
            message: begun.ops.first(),
            received: begun.ops.second().map(Box::new),
            is_active: true,
            is_persistent: false,
            is_cancelled: false,
        };
        // What had the handle before may have been completed without being seen.
        let Self { requests, buffers, accesses, .. } = self;
        for op in requests.known(call.pid, handle).flat_map(TrackedRequest::messages) {
            buffers.end(call.pid, op);
            accesses.end_local(call.pid, op.id);
        }
        request.messages().for_each(|op| self.buffers.begin(call.pid, op));
        self.requests.add(call.pid, handle, request);
    }

    /// A request that is complete, as its rank was told, but was not given back.
    pub(super) fn inquired(&mut self, call: &Call) {
        let handle = self.builtin(call).zip(call.argument(Arg::RequestItself));
        let Some(handle) = handle.map(|(builtin, word)| builtin.handle(word)) else { return };
        let Self { requests, buffers, accesses, .. } = self;
        for op in requests.known(call.pid, handle).flat_map(TrackedRequest::messages) {
            buffers.end(call.pid, op);
            accesses.end_local(call.pid, op.id);
        }
    }

    pub(super) fn completion(&mut self, call: &Call, id: CallId, which: Which) {
        let requests = if which == Which::One { Arg::Request } else { Arg::Requests };
        if [requests, Arg::Statuses, Arg::Indices].into_iter().any(|arg| call.is_cut(arg)) {
            return self.to_lose.push(call.pid);
        }
        self.changed_buffers(call);
        // Which of the requests, and which of the statuses is its own.
        match which {
            Which::One => self.request_over(call, id, 0, self.status(call, Arg::Status, 0)),
            Which::All => {
                for at in 0..self.handles(call).count() {
                    self.request_over(call, id, at, self.status(call, Arg::Statuses, at));
                }
            }
            Which::Any => {
                let index = integers(call.pointed(Arg::Index, true)).next();
                if let Some(at) = index.and_then(|index| usize::try_from(index).ok()) {
                    self.request_over(call, id, at, self.status(call, Arg::Status, 0));
                }
            }
            Which::Some => {
                for (n, at) in integers(call.pointed(Arg::Indices, true)).enumerate() {
                    let Ok(at) = usize::try_from(at) else { continue };
                    self.request_over(call, id, at, self.status(call, Arg::Statuses, n));
                }
            }
        }
    }

    /// Buffers of sends that have changed, as a call shows that is about to complete some of them. Whether they are what is sent by the requests
    /// that it names is not what the kernel part knows.
    fn changed_buffers(&mut self, call: &Call) {
        for changed in call.changed_buffers() {
            let Some(handle) = self.handles(call).nth(changed.request) else { continue };
            let ops = self.requests.known(call.pid, handle).flat_map(TrackedRequest::messages);
            let is_it = |op: &&Op| {
                op.content.is_some_and(|content| {
                    op.sends
                        && content.addr == changed.addr
                        && content.since_ns <= changed.since_ns
                        && changed.byte < content.len_bytes.get()
                })
            };
            if let Some(op) = ops.filter(is_it).last() {
                let user = MemoryUser::Store(call.row.name.as_str(), call.return_address);
                self.buffers.change(call.pid, op, user, changed.byte, call.begin_ns);
            }
        }
    }

    /// One of the requests that a call names is complete.
    fn request_over(&mut self, call: &Call, by: CallId, at: usize, status: Option<Status>) {
        let bytes = call.pointed(Arg::Requests, false).or_else(|| call.pointed(Arg::Request, false));
        let Some((builtin, bytes)) = self.builtin(call).zip(bytes) else { return };
        let Some(handle) = builtin.handle_at(bytes, at) else { return };
        if builtin.is_complete_at_once(handle) {
            self.unbuffered.complete_at_once((call.pid, handle), Some(by));
            return self.requests.complete_at_once(call.pid, handle);
        }
        // Who completes a message is mostly the thread that started it: meanwhile another may have been given the
        // same handle.
        let Some(request) = self.requests.complete(call.pid, handle, call.tid) else { return };
        if request.origin.row.is_collective()
            && let Some(completed) = self.complete_request(call.pid, handle)
        {
            self.unbuffered.complete_collective(completed);
            self.tell(MessageEvent::CollectiveCompleted { call: completed, by });
        }
        let status = status.filter(|_| is_told(builtin.kind, request.origin.row));
        let is_cancelled = request.is_cancelled || status.is_some_and(|status| status.cancelled);
        for op in request.messages() {
            self.free_buffer(call.pid, op);
            if is_cancelled {
                self.unbuffered.forget(op.id);
            } else {
                self.unbuffered.complete(op.id);
            }
            self.complete(op, status.filter(|_| !op.sends), request.is_cancelled, (call.pid, by));
        }
    }

    /// A message's buffer is free; of one received from anybody the status says whose it was.
    pub(super) fn complete(
        &mut self,
        op: &Op,
        status: Option<Status>,
        is_cancelled: bool,
        (pid, by): (u32, CallId),
    ) {
        let thread = (pid, by.tid);
        self.tell_with(|this| this.completed(op, status, by));
        if op.sends {
            return;
        }
        let Some((comm, own)) = op.place else { return self.arrived(op, status, thread) };
        match status {
            Some(status) if status.cancelled => self.matching.cancel(comm, own, op.side(), &mut self.pairs),
            // Whether it was, nobody was told.
            None if is_cancelled => self.matching.lose(comm, own),
            Some(status) if op.peer.is_none() => {
                let rank = u32::try_from(status.source).ok();
                if let Some(source) = rank.and_then(|rank| self.communicators.number(comm, own, rank)) {
                    let found = (source, status.tag);
                    self.matching.resolve(comm, own, op.side(), found, &mut self.pairs);
                }
            }
            None if op.peer.is_none()
                && let Some(source) = self.only_sender((comm, own), op.tag) =>
            {
                self.matching.resolve(comm, own, op.side(), (source, op.tag), &mut self.pairs);
            }
            None if op.peer.is_none() => {
                self.asks_for_senders = true;
                if let Some(content) = op.content {
                    let asked = Asked { pid, tid: by.tid, content, op: *op, place: (comm, own) };
                    return self.data.push_back(Data::FromAnybody(asked));
                }
            }
            _ => {}
        }
        self.end_receive(op, (comm, own), status, thread);
    }

    /// The only one of a communicator who can have sent what a receive from anybody has got: nobody else has sent anything yet that
    /// fits and has no other receive. All sends that began before are known if all ranks are followed, by one clock.
    fn only_sender(&self, (comm, own): (CommId, u32), tag: i32) -> Option<u32> {
        if self.has_several_clocks || !self.lost.is_empty() {
            return None;
        }
        self.matching.only_sender(comm, own, tag)
    }

    /// What is known of a message now that it is over.
    fn completed(&self, op: &Op, status: Option<Status>, by: CallId) -> MessageEvent {
        let mut facts = self.facts(op);
        if let Some((status, (comm, own))) = status.zip(op.place).filter(|(status, _)| !status.cancelled) {
            let source = u32::try_from(status.source).ok();
            let number = source.and_then(|source| self.communicators.number(comm, own, source));
            facts.peer = number.or(facts.peer);
            facts.peer_rank = facts.peer.and_then(|number| self.member(comm, number));
            facts.tag = Some(status.tag);
        }
        if let Some(status) = status {
            facts.len_bytes = Some(status.bytes);
        } else if !op.sends {
            // As much as there was room for, or less.
            facts.len_bytes = facts.len_bytes.filter(|bytes| *bytes == 0);
        }
        let cancelled = status.is_some_and(|status| status.cancelled);
        MessageEvent::Completed { message: op.id, by, facts, cancelled }
    }

    fn end_receive(
        &mut self,
        op: &Op,
        (comm, own): (CommId, u32),
        status: Option<Status>,
        thread: (u32, u32),
    ) {
        self.matched();
        self.arrived(op, status, thread);
        self.matching.over(comm, own, op.side());
    }

    /// What a receive got is in its memory, as this process's thread was told.
    fn arrived(&mut self, op: &Op, status: Option<Status>, (pid, tid): (u32, u32)) {
        let sent = self.arriving.remove(&op.id);
        let Some(mut content) = op.content else { return };
        let bytes = match status {
            Some(status) => NonZeroU64::new(status.bytes).filter(|_| !status.cancelled),
            None => sent.map(|sent| sent.len_bytes),
        };
        let Some(bytes) = bytes else { return };
        content.len_bytes = content.len_bytes.min(bytes);
        let (rank, origin, is_written) = (op.id.call.rank, op.origin, true);
        self.used.push_back(CallBuffer { pid, rank, origin, content, is_written });
        let Some(sent) = sent else { return };
        let return_address = op.origin.return_address;
        self.data.push_back(Data::Received(Arrival {
            number: sent.number.get(),
            pid,
            tid,
            content,
            return_address,
        }));
    }

    /// Of whom a message was that was received from anybody, if that is known now: a rank of MPI_COMM_WORLD, and when it moved the
    /// data.
    pub fn answer(&mut self, asked: &Asked, sender: Option<(u32, u64)>) {
        let (comm, own) = asked.place;
        let numbered = sender.and_then(|(sender, moved_ns)| {
            let source = self.communicators.members(comm)?.iter().position(|rank| *rank == sender)?;
            Some((u32::try_from(source).ok()?, moved_ns))
        });
        // One who has sent nothing that fits did not send this; and what it moved before it began to send was another message, whose place
        // in memory this one has. What has been answered since may leave only one who can have sent it.
        let has_sent = |(source, moved_ns): &(u32, u64)| {
            let first = self.matching.first_sent(comm, own, *source, asked.op.tag);
            first.is_some_and(|send| send.since_ns <= *moved_ns)
        };
        let source = numbered.filter(has_sent).map(|(source, _)| source);
        if let Some(source) = source.or_else(|| self.only_sender((comm, own), asked.op.tag)) {
            let found = (source, asked.op.tag);
            self.matching.resolve(comm, own, asked.op.side(), found, &mut self.pairs);
        }
        self.end_receive(&asked.op, asked.place, None, (asked.pid, asked.tid));
    }

    pub(super) fn free(&mut self, call: &Call) {
        let Some(handle) = self.handle(call, Arg::Request, false) else { return };
        self.unbuffered.complete_at_once((call.pid, handle), None);
        self.requests.complete_at_once(call.pid, handle);
        let Some(request) = self.requests.free(call.pid, handle, call.tid) else { return };
        self.free_collective(call.pid, handle);
        for op in request.messages() {
            self.free_buffer(call.pid, op);
            self.unbuffered.forget(op.id);
        }
        // Nothing more will be heard of it.
        for op in request.messages().filter(|_| request.is_active) {
            match op.place.filter(|_| !op.sends) {
                Some((comm, own)) if request.is_cancelled => self.matching.lose(comm, own),
                Some((comm, own)) => self.matching.over(comm, own, op.side()),
                None => {}
            }
        }
    }

    /// Whether a send that is given up was received nevertheless, only its sender is told.
    pub(super) fn cancel(&mut self, call: &Call) {
        let Some(handle) = self.handle(call, Arg::Request, false) else { return };
        let Some(request) = self.requests.cancel(call.pid, handle, call.tid) else { return };
        for op in request.messages().filter(|op| op.sends) {
            if let Some(((comm, _), to)) = op.place.zip(op.peer) {
                self.matching.lose(comm, to);
            }
        }
    }

    /// A matched probe takes a message as a receive would that is posted when it returns.
    pub(super) fn probe(&mut self, call: &Call, id: CallId) {
        let Some(envelope) = call.row.receives() else { return };
        let known = call.integer(envelope.peer).zip(call.integer(envelope.tag)).zip(call.word(envelope.comm));
        let Some(((peer, tag), comm)) = known else { return };
        let Some((builtin, handle)) = self.builtin(call).zip(self.handle(call, Arg::NewMessage, true)) else {
            return;
        };
        let Some((comm, own)) = self.place(call, comm).filter(|_| peer != builtin.proc_null()) else {
            return;
        };
        let status = self.status(call, Arg::Status, 0);
        let source = status.map_or(peer, |status| status.source);
        let tag = status.map_or(tag, |status| status.tag);
        let rank = u32::try_from(source).ok();
        let Some(source) = rank.and_then(|rank| self.communicators.number(comm, own, rank)) else {
            return self.matching.lose(comm, own);
        };
        if self.taken.len() >= MOST_TAKEN {
            return self.matching.lose(comm, own);
        }
        let probe = MessageId { call: id, part: 0 };
        self.probed.insert((call.pid, handle), probe);
        self.taken.insert(probe, Taken::default());
        if self.is_complete(call) {
            let side = Endpoint {
                id: probe,
                origin: origin(call),
                sent: None,
                since_ns: call.begin_ns,
                element: None,
            };
            self.matching.receive(comm, own, Some(source), tag, side, &mut self.pairs);
            self.matched();
        }
    }
}
