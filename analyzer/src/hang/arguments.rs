//! Arguments of a call as the library means them: messages, collective calls, requests.

use std::rc::Rc;

use super::communicators::{SampledCommunicators, WORLD, number_of};
use super::dependency::{Arrivals, CollectiveOp, Dependency, Message, Rank, RankActivity};
use super::step_budget::StepBudget;
use crate::job::messages::{CollectiveCall, KnownMessage, KnownRequest, Messages, SequenceId};
use crate::mpi::calls::{self, Arg, CallRow, Collective, Envelope, EpochStep};
use crate::tape::input::{
    CallInProgress, CommunicatorFacts, MpiFacts, PendingMessage, PendingRequest, StartedCall,
};
use crate::tape::plan::MpiKind;

/// Reads arguments as the library means them.
#[derive(Clone, Copy)]
pub(super) struct ArgumentReader<'a> {
    arguments: &'a [Option<u64>],
    known: &'a [CommunicatorFacts],
    mpi: MpiFacts,
    communicators: &'a SampledCommunicators,
    pid: u32,
    messages: Option<&'a Messages>,
    work: &'a StepBudget,
}

impl<'a> ArgumentReader<'a> {
    pub(super) fn of(
        call: &'a CallInProgress,
        pid: u32,
        messages: Option<&'a Messages>,
        communicators: &'a SampledCommunicators,
        work: &'a StepBudget,
    ) -> Option<Self> {
        let mpi = call.mpi.or_else(|| messages?.library(pid))?;
        let (arguments, known) = (&call.arguments, &call.communicators);
        Some(Self { arguments, known, mpi, communicators, pid, messages, work })
    }

    pub(super) fn word(&self, at: usize) -> Option<u64> {
        self.arguments.get(at).copied().flatten()
    }

    pub(super) fn integer(&self, at: usize) -> Option<i32> {
        self.word(at).map(|word| word as i32)
    }

    pub(super) fn any_source(&self) -> i32 {
        match self.mpi.kind {
            MpiKind::OpenMpi => -1,
            MpiKind::Mpich => -2,
        }
    }

    pub(super) fn proc_null(&self) -> i32 {
        match self.mpi.kind {
            MpiKind::OpenMpi => -2,
            MpiKind::Mpich => -1,
        }
    }

    fn handle(&self, word: u64) -> u64 {
        match self.mpi.kind {
            MpiKind::OpenMpi => word,
            MpiKind::Mpich => word & u64::from(u32::MAX),
        }
    }

    pub(super) fn is_world(&self, word: u64) -> bool {
        Some(self.handle(word)) == self.mpi.comm_world
    }

    /// The communicator of a handle: its number, and, if it is not MPI_COMM_WORLD, its members by the ranks that are named in
    /// it. Calls that made it tell who is in it, else the library's memory.
    pub(super) fn communicator(&self, handle: u64) -> Option<(u64, Option<&'a [Rank]>)> {
        let handle = self.handle(handle);
        if self.is_world(handle) {
            return Some((WORLD, None));
        }
        if let Some(messages) = self.messages
            && let Some((comm, own)) = messages.communicator_of(self.pid, handle)
            && let Some(peers) = messages.peers_of(comm, own)
        {
            return Some((number_of(comm), Some(peers)));
        }
        self.work.spend(self.known.len()).ok()?;
        let facts = self.known.iter().find(|facts| facts.handle == handle)?;
        self.work.spend(facts.members.len()).ok()?;
        self.communicators.number(facts).map(|number| (number, Some(facts.members.as_slice())))
    }

    /// What a communicator is called that calls told of.
    pub(super) fn name(&self, handle: u64) -> Option<String> {
        let (comm, _) = self.messages?.communicator_of(self.pid, self.handle(handle))?;
        Some(self.messages?.name_of(comm))
    }

    /// The same of a window.
    pub(super) fn window_text(&self, handle: u64) -> Option<String> {
        self.messages?.window_text(self.pid, self.handle(handle))
    }

    /// Whether it is known which communicator a call's argument names; `None`: it names none.
    pub(super) fn knows_communicator(&self, row: &CallRow) -> Option<bool> {
        let at = row.position(Arg::Comm)?;
        Some(self.word(at).is_some_and(|handle| self.communicator(handle).is_some()))
    }

    /// Members of a group, if it has some.
    pub(super) fn group(&self, at: usize) -> Option<&[Rank]> {
        let handle = self.word(at)?;
        let is_it = |facts: &&CommunicatorFacts| {
            facts.context_id == CommunicatorFacts::GROUP && facts.handle == handle
        };
        let found = self.known.iter().find(is_it)?;
        Some(found.members.as_slice()).filter(|members| !members.is_empty())
    }

    /// Who has not made the call yet that one waits for in an epoch of a window, if all of those were seen.
    pub(super) fn missing_in_epoch(&self, win: usize, step: EpochStep) -> Option<Vec<Rank>> {
        let missing = self.messages?.missing_in_epoch(self.pid, self.handle(self.word(win)?), step)?;
        self.work.spend(missing.len()).ok()?;
        Some(missing)
    }

    pub(super) fn sent(&self, envelope: Envelope) -> Option<Message> {
        self.send(self.integer(envelope.peer)?, self.integer(envelope.tag)?, self.word(envelope.comm)?)
    }

    pub(super) fn received(&self, envelope: Envelope) -> Option<Message> {
        self.receive(self.integer(envelope.peer)?, self.integer(envelope.tag)?, self.word(envelope.comm)?)
    }

    fn send(&self, peer: i32, tag: i32, comm: u64) -> Option<Message> {
        let (comm, members) = self.communicator(comm)?;
        Some(Message { peer: Some(world_rank(peer, members)?), tag: Some(tag), comm })
    }

    /// Both libraries call any tag −1.
    fn receive(&self, peer: i32, tag: i32, comm: u64) -> Option<Message> {
        const ANY_TAG: i32 = -1;
        let (comm, members) = self.communicator(comm)?;
        let peer = if peer == self.any_source() { None } else { Some(world_rank(peer, members)?) };
        Some(Message { peer, tag: (tag != ANY_TAG).then_some(tag), comm })
    }

    pub(super) fn collective(
        &self,
        row: &CallRow,
        collective: Collective,
        call: Option<CollectiveCall>,
    ) -> Option<CollectiveOp> {
        let Collective { comm, root, op } = collective;
        let number = match call {
            Some(call) => number_of(call.comm()),
            None => self.communicator(self.word(comm)?)?.0,
        };
        Some(CollectiveOp {
            function: row.name.clone(),
            comm: number,
            root: root.and_then(|at| self.integer(at)),
            op: op.and_then(|at| self.word(at)).filter(|_| self.mpi.kind == MpiKind::Mpich),
            arrived: self.arrivals(call),
            is_finalize: false,
        })
    }

    /// Who has started a call already, if that is known.
    fn arrivals(&self, call: Option<CollectiveCall>) -> Option<Rc<Arrivals>> {
        self.communicators.arrivals(self.messages?, call?, self.work)
    }

    /// Which of the rank's collective calls on its communicator the one is that it is in.
    pub(super) fn position_of_last(&self, row: &CallRow, collective: Collective) -> Option<CollectiveCall> {
        let messages = self.messages?;
        let (comm, own) = messages.communicator_of(self.pid, self.word(collective.comm)?)?;
        let position = messages.collectives().last_position(comm.0, own as usize, row)?;
        Some(CollectiveCall { sequence: SequenceId::of(comm.0), own, position })
    }

    /// Of those that are certainly not done, each is waited for by who waits for all; what is not known besides does not
    /// matter then. Else a request that nothing is known of may be anything, so that nothing can be said; and if some may be
    /// done already, any of them may be the last one.
    pub(super) fn requested(&self, requests: &[PendingRequest], all: bool) -> Option<RankActivity> {
        let pending: Vec<&PendingRequest> = requests.iter().filter(|r| r.complete != Some(true)).collect();
        let is_certain = |request: &&&PendingRequest| pending.len() == 1 || request.complete == Some(false);
        let certain: Vec<Dependency> = pending
            .iter()
            .filter(is_certain)
            .filter_map(|request| self.dependency(request))
            .flatten()
            .collect();
        if all && !certain.is_empty() {
            return Some(RankActivity::Waits { dependencies: certain, any: false });
        }
        let dependencies: Option<Vec<Vec<Dependency>>> =
            pending.iter().map(|request| self.dependency(request)).collect();
        let dependencies = dependencies?.concat();
        (!dependencies.is_empty()).then_some(RankActivity::Waits { dependencies, any: true })
    }

    /// What a request stands for: mostly one thing.
    pub(super) fn dependency(&self, request: &PendingRequest) -> Option<Vec<Dependency>> {
        if let Some(message) = &request.message {
            return Some(vec![self.message(message)?]);
        }
        let known = self.messages.and_then(|messages| messages.request_of(self.pid, request.handle));
        if let Some(known) = known {
            return self.followed(known);
        }
        let started = request.started.as_ref()?;
        Some(vec![self.started(started, request.handle)?])
    }

    fn followed(&self, request: KnownRequest) -> Option<Vec<Dependency>> {
        Some(match request {
            KnownRequest::Messages { first, second, .. } => {
                let dependency = |message: KnownMessage| {
                    let of = Message { peer: message.peer, tag: message.tag, comm: number_of(message.comm) };
                    if message.sends { Dependency::Send(of) } else { Dependency::Receive(of) }
                };
                std::iter::once(first).chain(second).map(dependency).collect()
            }
            KnownRequest::Collective { by, call: Some(call) } => {
                let (function, comm) = (by.name.clone(), number_of(call.comm()));
                let arrived = self.arrivals(Some(call));
                vec![Dependency::Collective(CollectiveOp {
                    function,
                    comm,
                    arrived,
                    ..CollectiveOp::default()
                })]
            }
            KnownRequest::Collective { call: None, .. } => return None,
        })
    }

    fn message(&self, message: &PendingMessage) -> Option<Dependency> {
        let PendingMessage { sends, peer, tag, comm } = *message;
        if sends {
            self.send(peer, tag, comm).map(Dependency::Send)
        } else {
            self.receive(peer, tag, comm).map(Dependency::Receive)
        }
    }

    /// What a request stands for, by the call that made it.
    fn started(&self, started: &StartedCall, handle: u64) -> Option<Dependency> {
        let row = calls::row(&started.function)?;
        let arguments: Vec<Option<u64>> = started.arguments.iter().copied().map(Some).collect();
        let reader = ArgumentReader { arguments: &arguments, ..*self };
        match (row.sends(), row.receives()) {
            (Some(envelope), None) => reader.sent(envelope).map(Dependency::Send),
            (None, Some(envelope)) => reader.received(envelope).map(Dependency::Receive),
            (Some(_), Some(_)) => None,
            (None, None) => {
                let call = self.messages.and_then(|messages| messages.collective_of(self.pid, handle, row));
                reader.collective(row, row.collective()?, call).map(Dependency::Collective)
            }
        }
    }
}

/// A rank of MPI_COMM_WORLD from one of a communicator.
fn world_rank(rank: i32, members: Option<&[Rank]>) -> Option<Rank> {
    match members {
        None => Rank::try_from(rank).ok(),
        Some(members) => members.get(usize::try_from(rank).ok()?).copied(),
    }
}
