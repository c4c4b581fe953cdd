//! Collective calls: each rank's, on each communicator, in order.

use super::Begun;
use super::Follower;
use super::pending::{CollectiveCall, Pending, is_persistent};
use crate::job::messages::assemble::Call;
use crate::job::messages::communicators::Communicators;
use crate::job::messages::ids::{CallId, CommId, SequenceId, WORLD};
use crate::job::messages::message_event::MessageEvent;
use crate::job::mismatch::Entry;
use crate::job::signature::Signature;
use crate::mpi::calls::{Arg, CallRow, Does, Form};

/// Requests of collective calls that are kept.
const MOST_REQUESTS: usize = 1 << 16;

impl Follower {
    /// A collective call begins.
    pub(super) fn begin_collective(&mut self, call: &Call, rank: u32, begun: &mut Begun) {
        if !call.row.is_collective() {
            return;
        }
        // Which of its calls this is, is not known.
        if !self.is_complete(call) {
            return self.collectives.lose(rank);
        }
        let Some((comm, own)) = self.place_of_collective(call, rank) else { return };
        self.use_collective_buffers(call, rank, (comm, own));
        let signature = self.signature(call, comm);
        begun.signature = Some(signature);
        begun.collective = self.enter(call, call.row, (SequenceId::of(comm.0), own), signature);
    }

    fn place_of_collective(&mut self, call: &Call, rank: u32) -> Option<(CommId, u32)> {
        let handle = match call.row.does {
            Does::Finalize => return Some((WORLD, rank)),
            Does::FreeCommunicator => self.freed(call),
            _ => call.argument(Arg::Comm).or_else(|| call.argument(Arg::Win)),
        };
        // It may be any: then the position of no call is known any more.
        let Some(handle) = handle else {
            self.collectives.lose(rank);
            return None;
        };
        self.place(call, handle)
    }

    /// `row`: the collective call that is made, or started by this one.
    fn enter(
        &mut self,
        call: &Call,
        row: &CallRow,
        (sequence, own): (SequenceId, u32),
        signature: Signature,
    ) -> Option<CollectiveCall> {
        let comm = CommId(sequence.comm);
        let by = self.id(call);
        let Self { collectives, communicators, unbuffered, .. } = self;
        let members = communicators.members(comm)?;
        let entry = Entry { signature, return_address: call.return_address, time_ns: call.begin_ns };
        let name = || name_of(communicators, comm);
        let position = collectives.enter(sequence, members, own, &entry, name)?;
        let entered = CollectiveCall { sequence, own, position };
        if let Some(by) = by {
            let is_begun = row.form == Form::Nonblocking || sequence.started.is_some();
            unbuffered.enter(row, entered.id(), by, members.len(), is_begun);
        }
        if let Some(by) = by.filter(|_| self.is_heard) {
            let root = signature.root.and_then(|root| members.get(usize::try_from(root).ok()?).copied());
            let (collective, members) = (entered.id(), members.len() as u32);
            self.events.push_back(MessageEvent::Entered { collective, by, members, root });
        }
        Some(entered)
    }

    /// What must be the same in all members.
    fn signature(&self, call: &Call, comm: CommId) -> Signature {
        let mut signature = Signature::of(call.row);
        let process = self.processes.get(call.process);
        let Some(builtin) = process.builtin else { return signature };
        let is_inter = self.communicators.membership(comm).is_some_and(|members| members.is_inter());
        // In an intercommunicator, each side has another view of it.
        if is_inter {
            return signature;
        }
        let at = |arg| call.row.position(arg);
        let buffer = at(Arg::BufferOrInPlace).and_then(|at| call.word(at));
        signature.in_place = buffer.map(|buffer| builtin.is_in_place(buffer));
        signature.root = at(Arg::Root).and_then(|at| call.integer(at));
        signature.op =
            at(Arg::Op).and_then(|at| call.word(at)).and_then(|op| process.operations.get(builtin.kind, op));
        if let Some((count, datatype)) = call.row.same_everywhere() {
            signature.count = call.integer(count);
            let size = call.word(datatype).and_then(|of| process.datatypes.size_bytes(builtin.kind, of));
            let count = signature.count.and_then(|count| u64::try_from(count).ok());
            signature.bytes = size.zip(count).map(|(size, count)| size.saturating_mul(count));
        }
        if let Some(at) = call.row.elements() {
            let has_elements = call.integer(at.count).is_some_and(|count| count > 0);
            let is_given = call.word(at.buffer).is_some_and(|buffer| !builtin.is_in_place(buffer));
            let datatype = call.word(at.datatype).filter(|_| has_elements && is_given);
            signature.group = datatype.and_then(|of| process.datatypes.group(builtin.kind, of));
        }
        signature
    }

    /// A handle stands for what a collective call began.
    pub fn made_collective(&mut self, call: &Call, begun: &Begun, handle: u64) {
        let Some((collective, signature)) = begun.collective.zip(begun.signature) else { return };
        let key = (call.pid, handle);
        // A library gives a handle out again only when what it stood for is complete.
        if self.collective_requests.get(&key).is_some_and(|before| before.call != collective) {
            self.complete_request(call.pid, handle);
        }
        if self.collective_requests.len() < MOST_REQUESTS || self.collective_requests.contains_key(&key) {
            // One that is only prepared has nothing to be waited for.
            let is_complete = call.row.form == Form::Persistent;
            let id = self.id(call).unwrap_or_default();
            let made_at = collective.position;
            let pending = Pending { id, row: call.row, call: collective, made_at, signature, is_complete };
            self.collective_requests.insert(key, pending);
        }
    }

    /// A collective call that is over when its thread goes on is so now.
    pub(super) fn leave_collective(&mut self, call: &Call, begun: &Begun) {
        if let Some(left) = begun.collective.filter(|_| call.row.form != Form::Nonblocking) {
            self.collectives.complete(left.sequence, left.own);
        }
    }

    /// What a request stands for is complete, if it is a collective call: the call that began it.
    pub(super) fn complete_request(&mut self, pid: u32, handle: u64) -> Option<CallId> {
        let pending = self.collective_requests.get_mut(&(pid, handle));
        let pending = pending.filter(|pending| !pending.is_complete)?;
        pending.is_complete = true;
        self.collectives.complete(pending.call.sequence, pending.call.own);
        Some(pending.id)
    }

    /// A persistent collective call is started: that is a call of its own.
    pub(super) fn start_collective(&mut self, call: &Call, rank: u32, row: &'static CallRow, handle: u64) {
        let known = self.collective_requests.get(&(call.pid, handle)).copied();
        let Some(pending) = known.filter(|pending| std::ptr::eq(pending.row, row)) else {
            return self.collectives.lose(rank);
        };
        let comm = pending.call.comm();
        let own = self.communicators.members(comm).and_then(|all| all.iter().position(|one| *one == rank));
        let Some(own) = own else { return };
        let sequence = pending.started();
        let signature = Signature { starts: true, ..pending.signature };
        let key = (call.pid, handle);
        // It can be started only when the last start is complete.
        self.complete_request(call.pid, handle);
        let id = self.id(call).unwrap_or_default();
        if let Some(call) = self.enter(call, row, (sequence, own as u32), signature) {
            self.collective_requests.insert(key, Pending { id, call, is_complete: false, ..pending });
        }
    }

    /// A request is given back that may stand for a persistent collective call.
    pub(super) fn free_collective(&mut self, pid: u32, handle: u64) {
        if let Some(pending) = self.collective_requests.get(&(pid, handle)).filter(|of| is_persistent(of.row))
        {
            self.collectives.free(pending.started());
        }
    }

    /// The collective call that a request of a process stands for, if one of this kind made it.
    pub fn collective_of(&self, pid: u32, handle: u64, row: &CallRow) -> Option<CollectiveCall> {
        let pending = self.collective_requests.get(&(pid, handle))?;
        std::ptr::eq(pending.row, row).then_some(pending.call)
    }

    /// Whether all that a rank did since it began with MPI was seen.
    pub fn is_followed(&self, rank: u32) -> bool {
        self.begun_by.contains_key(&rank) && !self.lost.contains(&rank)
    }
}

/// What a communicator or window is called.
pub(super) fn name_of(communicators: &Communicators, comm: CommId) -> String {
    if comm == WORLD {
        return "MPI_COMM_WORLD".to_owned();
    }
    let kind = if communicators.is_window(comm) { "window " } else { "" };
    format!("{kind}{}", number_text(communicators, comm))
}

/// The same behind a word that says what it is.
pub(super) fn number_text(communicators: &Communicators, comm: CommId) -> String {
    match communicators.members(comm) {
        Some(members) => format!("number {} of {} ranks", comm.0, members.len()),
        // All members have given it back: who they were is forgotten.
        None => format!("number {} (freed since)", comm.0),
    }
}
