//! What is known of messages, for whoever asks.

use std::collections::BTreeSet;

use super::super::accesses::{OutsideAccess, UnorderedAccesses};
use super::super::active_buffers::EarlyUse;
use super::super::assemble::Call;
use super::super::follow::Follower;
use super::super::follow::{Begun, CollectiveCall, KnownRequest};
use super::super::ids::{CallId, CollectiveId, CommId, WORLD};
use super::super::leaks::Unfinished;
use super::super::message_event::ShownArgument;
use super::super::overlapping::AliasedBuffers;
use super::super::results::{CallResult, RequestHandles, envelope_of, handles_of, result_of};
use super::super::type_matching::TypeMismatch;
use super::super::unbuffered::UnbufferedCycle;
use super::Messages;
use crate::job::collectives::Collectives;
use crate::mpi::calls::{CallRow, EpochStep, Form};
use crate::mpi::handles::ANY_TAG;
use crate::tape::input::MpiFacts;
use crate::tape::plan::MpiKind;

impl Messages {
    /// Ranks of which not everything was seen: nothing is said of what they received.
    pub fn lost(&self) -> impl Iterator<Item = u32> {
        self.follower.lost.iter().copied()
    }

    /// Whether nothing is said of what a rank received.
    pub(crate) fn is_lost(&self, rank: u32) -> bool {
        self.follower.lost.contains(&rank)
    }

    /// Calls of ranks that are not known to have returned, the last of their threads; in order of time.
    pub fn open_calls(&self) -> Vec<(CallId, &Call)> {
        let ranked = |call: &Call| {
            let rank = self.follower.processes.find(call.pid)?.rank?;
            Some(CallId { rank, tid: call.tid, number: call.number })
        };
        let open = self.assembler.all_open();
        let mut calls: Vec<(CallId, &Call)> = open.filter_map(|call| Some((ranked(call)?, call))).collect();
        calls.sort_by_key(|(id, call)| (call.begin_ns, *id));
        calls
    }

    /// Whether something was missed of a rank that has a part in a collective call.
    pub(crate) fn has_lost_member(&self, collective: CollectiveId) -> bool {
        let members = || self.members_of(CommId(collective.sequence.comm)).unwrap_or_default();
        !self.follower.lost.is_empty() && members().iter().any(|rank| self.is_lost(*rank))
    }

    /// What is open at the end of ranks that have come to MPI_Finalize and of which nothing was missed: messages that both
    /// sides left behind, and requests. What is not certain is not told.
    pub fn leaks(&self) -> Vec<Unfinished> {
        let is_certain = !self.sees_no_returns && self.strangers.is_empty() && self.held.is_empty();
        if is_certain { self.follower.leaks() } else { Vec::new() }
    }

    /// Communicators and windows of which one call has made so many, none of which is freed, that the library will run out of
    /// numbers for them.
    pub fn pile_ups(&self) -> Vec<Unfinished> {
        self.follower.pile_ups()
    }

    /// Whether all calls that complete requests are watched.
    pub(crate) fn sees_completions(&self) -> bool {
        !self.hides_completions
    }

    /// Collective calls of all ranks.
    pub(crate) fn collectives(&self) -> &Collectives {
        &self.follower.collectives
    }

    /// Messages whose elements are something else where they are received.
    pub(crate) fn type_mismatches(&self) -> impl Iterator<Item = &TypeMismatch> {
        self.follower.types.found()
    }

    /// Buffers that were used before their requests were complete; none if some completions are not watched.
    pub(crate) fn buffer_conflicts(&self) -> impl Iterator<Item = &EarlyUse> {
        self.follower.buffers.found().filter(|_| !self.sees_no_returns && !self.hides_completions)
    }

    /// Accesses to memory of windows that nothing orders; none if some calls are not watched.
    pub(crate) fn access_conflicts(&self) -> impl Iterator<Item = &UnorderedAccesses> {
        self.follower.accesses.found().filter(|_| !self.sees_no_returns)
    }

    /// Buffers of one call that overlap, where it writes one of them.
    pub(crate) fn overlapping_buffers(&self) -> impl Iterator<Item = &AliasedBuffers> {
        self.follower.overlapping.found()
    }

    /// Accesses that are not within the memory that their target has in the window.
    pub(crate) fn outside_accesses(&self) -> impl Iterator<Item = &OutsideAccess> {
        self.follower.accesses.outside()
    }

    /// Calls that wait for each other in a cycle if nothing is buffered; none if some completions are not watched.
    pub(crate) fn unbuffered_cycles(&self) -> impl Iterator<Item = &UnbufferedCycle> {
        self.follower.unbuffered.found().filter(|_| !self.sees_no_returns && !self.hides_completions)
    }

    /// Whether another mismatch was found since the last call.
    pub(crate) fn take_mismatched(&mut self) -> bool {
        let Follower { collectives, types, buffers, overlapping, accesses, unbuffered, .. } =
            &mut self.follower;
        collectives.take_mismatched()
            | types.take_new()
            | buffers.take_new()
            | overlapping.take_new()
            | accesses.take_new()
            | unbuffered.take_new()
    }

    /// The communicator that a process calls so, and its number there.
    pub(crate) fn communicator_of(&self, pid: u32, handle: u64) -> Option<(CommId, u32)> {
        self.follower.find_place(pid, handle)
    }

    /// Who has not made the call yet that a rank waits for in an epoch of a window; `None`: that is not known.
    pub(crate) fn missing_in_epoch(&self, pid: u32, window: u64, step: EpochStep) -> Option<Vec<u32>> {
        self.follower.missing_in_epoch(pid, window, step)
    }

    /// Members of a communicator, as ranks of MPI_COMM_WORLD: all of them.
    pub(crate) fn members_of(&self, comm: CommId) -> Option<&[u32]> {
        self.follower.communicators.members(comm)
    }

    /// The same, by the ranks that a member names.
    pub(crate) fn peers_of(&self, comm: CommId, own: u32) -> Option<&[u32]> {
        Some(self.follower.communicators.membership(comm)?.remote(own))
    }

    /// What a communicator is called.
    pub(crate) fn name_of(&self, comm: CommId) -> String {
        self.follower.communicator_name(comm)
    }

    /// What a request of a process stands for, if results of calls were recorded.
    pub(crate) fn request_of(&self, pid: u32, handle: u64) -> Option<KnownRequest> {
        self.follower.request_of(pid, handle)
    }

    /// The collective call that a request stands for which this kind of call made.
    pub(crate) fn collective_of(&self, pid: u32, handle: u64, row: &CallRow) -> Option<CollectiveCall> {
        self.follower.collective_of(pid, handle, row)
    }

    /// Collective calls on a communicator that threads of a process are not known to have left.
    pub(crate) fn open_collectives(&self, pid: u32, comm: CommId) -> impl Iterator<Item = &Call> {
        let is_on = move |begun: &Begun| begun.collective.is_some_and(|call| call.comm() == comm);
        let open = self
            .assembler
            .open(pid)
            .filter(move |(call, begun)| call.row.form != Form::Nonblocking && is_on(begun));
        open.map(|(call, _)| call)
    }

    /// Members that have started a collective call; `None`: that is not known of all.
    pub(crate) fn arrivals(&self, call: CollectiveCall) -> Option<BTreeSet<u32>> {
        let is_followed = |rank| self.follower.is_followed(rank);
        self.follower.collectives.arrivals(call.sequence, call.position, is_followed)
    }

    /// How many bytes a call sends, if its arguments tell.
    pub(crate) fn sent_bytes(&self, call: &Call) -> Option<u64> {
        let content = call.row.sent()?;
        let process = self.follower.processes.find(call.pid)?;
        let size_bytes = process.datatypes.size_bytes(process.builtin?.kind, call.word(content.datatype)?)?;
        u64::try_from(call.integer(content.count)?).ok()?.checked_mul(size_bytes)
    }

    /// Whether a call receives from whoever comes first.
    pub(crate) fn is_from_anybody(&self, call: &Call) -> bool {
        self.follower.is_from_anybody(call) == Some(true)
    }

    /// Names and values of the arguments worth showing.
    pub fn shown(&self, call: &Call) -> Vec<(&'static str, String)> {
        let text = |(name, value): (_, ShownArgument)| (name, value.to_string());
        self.shown_arguments(call).into_iter().map(text).collect()
    }

    /// The same.
    pub fn shown_arguments(&self, call: &Call) -> Vec<(&'static str, ShownArgument)> {
        let Some(builtin) = self.follower.processes.find(call.pid).and_then(|process| process.builtin) else {
            return Vec::new();
        };
        let handle = |at: usize| call.word(at).unwrap_or_default();
        let value = |at: usize, name: &str| match (name, call.integer(at)) {
            (_, None) => ShownArgument::Unknown,
            ("comm", _) => self.communicator_text(call.pid, handle(at)),
            ("win", _) => {
                let handle = builtin.handle(handle(at));
                ShownArgument::Text(
                    self.window_text(call.pid, handle).unwrap_or_else(|| format!("{handle:#x}")),
                )
            }
            ("source", Some(rank)) if rank == builtin.any_source() => ShownArgument::Name("MPI_ANY_SOURCE"),
            ("source" | "dest", Some(rank)) if rank == builtin.proc_null() => {
                ShownArgument::Name("MPI_PROC_NULL")
            }
            ("tag" | "recvtag", Some(ANY_TAG)) => ShownArgument::Name("MPI_ANY_TAG"),
            (_, Some(number)) => ShownArgument::Number(number),
        };
        call.row.shown().map(|(at, name)| (name, value(at, name))).collect()
    }

    /// What a window is called behind its argument's name, if calls told of it.
    pub(crate) fn window_text(&self, pid: u32, handle: u64) -> Option<String> {
        let (window, _) = self.follower.find_place(pid, handle)?;
        Some(self.follower.number_text(window))
    }

    fn communicator_text(&self, pid: u32, handle: u64) -> ShownArgument {
        match self.follower.find_place(pid, handle) {
            Some((WORLD, _)) => ShownArgument::Name("MPI_COMM_WORLD"),
            Some((comm, _)) => ShownArgument::Text(self.follower.communicator_name(comm)),
            None => ShownArgument::Text(format!("{handle:#x}")),
        }
    }

    /// What a call answered that its program does not decide; `None`: its records do not tell all of it.
    pub fn result(&self, call: &Call) -> Option<CallResult> {
        result_of(call, &self.follower.processes.find(call.pid)?.builtin?)
    }

    /// Handles of requests that a call has made, or was given.
    pub fn request_handles(&self, call: &Call) -> RequestHandles {
        let builtin = self.follower.processes.find(call.pid).and_then(|process| process.builtin);
        builtin.map_or_else(RequestHandles::default, |builtin| handles_of(call, &builtin))
    }

    /// Source, in the numbers of the communicator, and tag of the message that a call says it has got or found.
    pub fn received_envelope(&self, call: &Call) -> Option<(u32, u32)> {
        envelope_of(call, &self.follower.processes.find(call.pid)?.builtin?)
    }

    /// The MPI library of a process that has not ended, if it is known which it is.
    pub fn library_name(&self, pid: u32) -> Option<&'static str> {
        Some(match self.follower.processes.find(pid)?.builtin?.kind {
            MpiKind::OpenMpi => "Open MPI",
            MpiKind::Mpich => "MPICH",
        })
    }

    /// Processes that called, of which it was never known which rank they are.
    pub fn strangers(&self) -> usize {
        self.strangers.len()
    }

    /// How the library of a process calls things, if that is known.
    pub(crate) fn library(&self, pid: u32) -> Option<MpiFacts> {
        self.follower.processes.find(pid)?.builtin.map(|builtin| builtin.facts())
    }
}
