//! From what processes were found doing to who is at fault.

use std::collections::{BTreeMap, BTreeSet};

use super::found::{FoundHang, HangingRank};
use super::progress::Observation;
use super::wait_for::{CollectiveOp, Dependency, Message, Rank, RankActivity};
use crate::findings::finding::Fault;
use crate::hang::locks::HeldLock;
use crate::job::messages::{CollectiveCall, CommId, KnownRequest, Messages};
use crate::mpi::calls::{self, Arg, Awaits, CallRow, Collective, Envelope, Waiting};
use crate::tape::input::{
    CallInProgress, CommunicatorFacts, MpiFacts, PendingMessage, PendingRequest, StartedCall, ThreadFacts,
};
use crate::tape::plan::MpiKind;

/// What is known of one rank.
#[derive(Default)]
pub(crate) struct RankState<'a> {
    pub pid: u32,
    /// How it has been found for long enough, and since when.
    pub still: Option<(&'a Observation, u64)>,
    /// It ended: well or not.
    pub ended: Option<bool>,
    /// Locks that it has asked for and not given back.
    pub locks: &'a [HeldLock],
}

/// What is known of a job's ranks.
pub(crate) struct JobView<'a> {
    pub ranks: BTreeMap<Rank, RankState<'a>>,
    /// Communicators, requests and collective calls, as far as calls were recorded.
    pub messages: &'a Messages,
    /// CLOCK_MONOTONIC.
    pub now_ns: u64,
}

/// Requests that are shown with a call.
const MOST_SHOWN: usize = 4;
/// MPI_COMM_WORLD, whatever its handle.
const WORLD: u64 = 0;

/// Numbers from here on are those that calls told of.
const FOLLOWED: u64 = 1 << 32;

fn number_of(comm: CommId) -> u64 {
    if comm.0 == 0 { WORLD } else { FOLLOWED | u64::from(comm.0) }
}

pub(super) fn followed(number: u64) -> Option<CommId> {
    (number == WORLD || number >= FOLLOWED).then_some(CommId(number as u32))
}

/// Communicators of all ranks: those that are the same have the same number.
#[derive(Default)]
pub(super) struct SampledCommunicators {
    /// By what the library calls them and who is in them. 0 is MPI_COMM_WORLD. Those that calls told of as well have the
    /// number that they have there.
    numbers: BTreeMap<(u32, Vec<Rank>), u64>,
}

impl SampledCommunicators {
    pub(super) fn of(job: &JobView<'_>) -> Self {
        let mut all = Self::default();
        let calls = || {
            let call = |state: &RankState<'_>| thread(state.still?.0)?.call.clone();
            job.ranks.values().filter_map(move |state| Some((state.pid, call(state)?)))
        };
        let facts = || calls().flat_map(|(pid, call)| call.communicators.into_iter().map(move |f| (pid, f)));
        for (pid, facts) in facts().filter(|(_, facts)| facts.context_id < CommunicatorFacts::GROUP) {
            if let Some((comm, _)) = job.messages.communicator_of(pid, facts.handle) {
                all.numbers.insert((facts.context_id, facts.members), number_of(comm));
            }
        }
        for (next, (_, facts)) in (1..).zip(facts()) {
            all.numbers.entry((facts.context_id, facts.members)).or_insert(next);
        }
        all
    }

    /// Members of each, as ranks of MPI_COMM_WORLD.
    pub(super) fn members(
        &self,
        job: &JobView<'_>,
        activities: &BTreeMap<Rank, RankActivity>,
    ) -> BTreeMap<u64, Vec<Rank>> {
        let mut members: BTreeMap<u64, Vec<Rank>> =
            self.numbers.iter().map(|((_, members), &number)| (number, members.clone())).collect();
        for number in activities.values().flat_map(communicators_of) {
            if let Some(all) = followed(number).and_then(|comm| job.messages.members_of(comm)) {
                members.insert(number, all.to_vec());
            }
        }
        members.insert(WORLD, activities.keys().copied().collect());
        members
    }
}

/// Numbers of the communicators that a rank waits in.
pub(super) fn communicators_of(activity: &RankActivity) -> impl Iterator<Item = u64> {
    let dependencies = match activity {
        RankActivity::Waits { dependencies, .. } => dependencies.as_slice(),
        _ => &[],
    };
    dependencies.iter().map(|dependency| match dependency {
        Dependency::Send(message) | Dependency::Receive(message) => message.comm,
        Dependency::Collective(collective) => collective.comm,
        Dependency::Lock { comm, .. } => *comm,
    })
}

/// How a rank was found.
pub(super) fn stuck_rank(rank: Rank, view: &JobView<'_>) -> Option<HangingRank> {
    let state = view.ranks.get(&rank)?;
    let thread = state.still.and_then(|(seen, _)| thread(seen)).cloned();
    let call = thread.as_ref().and_then(|thread| thread.call.as_ref());
    let arguments = call.map(|call| shown_of(call, Some((state.pid, view.messages))));
    Some(HangingRank {
        rank,
        pid: state.pid,
        at_fault: false,
        arguments: arguments.unwrap_or_default(),
        thread,
        waits_for: BTreeSet::new(),
        ended: state.ended,
        stopped: matches!(state.still, Some((Observation::Stopped(_), _))),
    })
}

impl FoundHang {
    pub(super) fn of(fault: Fault, ranks: Vec<HangingRank>, view: &JobView<'_>) -> Self {
        let since_ns = |rank: &HangingRank| {
            view.ranks.get(&rank.rank).and_then(|state| state.still).map_or(0, |still| still.1)
        };
        let since_ns = ranks.iter().map(since_ns).max().unwrap_or(0);
        Self { fault, since_ns, ranks, groups: Vec::new(), unknown: Vec::new(), collectives: Vec::new() }
    }
}

fn thread(seen: &Observation) -> Option<&ThreadFacts> {
    match seen {
        Observation::Moves => None,
        Observation::InCall(thread) | Observation::Outside(thread) | Observation::Stopped(thread) => {
            Some(thread)
        }
    }
}

/// The call that a rank has not moved from.
pub(super) fn call_of<'a>(state: &RankState<'a>) -> Option<&'a CallInProgress> {
    match state.still {
        Some((Observation::InCall(thread), _)) => thread.call.as_ref(),
        _ => None,
    }
}

/// The lock that a rank is asking for, if its call was recorded: the last one.
fn asked<'a>(state: &RankState<'a>) -> Option<&'a HeldLock> {
    let asks = call_of(state).is_some_and(|call| call.function.starts_with("MPI_Win_lock"));
    state.locks.last().filter(|_| asks)
}

/// Who holds locks that are in the way of one that a rank asks for.
fn holders(rank: Rank, ranks: &BTreeMap<Rank, RankState<'_>>) -> BTreeSet<Rank> {
    let Some(wanted) = ranks.get(&rank).and_then(asked) else { return BTreeSet::new() };
    let is_in_the_way = |state: &RankState<'_>| {
        let held = state.locks.len() - usize::from(asked(state).is_some());
        state.locks[..held].iter().any(|lock| lock.excludes(wanted))
    };
    let others = ranks.iter().filter(|(other, state)| **other != rank && is_in_the_way(state));
    others.map(|(other, _)| *other).collect()
}

pub(super) fn activity(rank: Rank, view: &JobView<'_>, communicators: &SampledCommunicators) -> RankActivity {
    let state = &view.ranks[&rank];
    if let Some(well) = state.ended {
        return RankActivity::Ended { well };
    }
    match state.still {
        None | Some((Observation::Moves, _)) => RankActivity::Moves,
        Some((Observation::Outside(_), _)) => RankActivity::Outside,
        Some((Observation::Stopped(_), _)) => RankActivity::Stopped,
        Some((Observation::InCall(thread), _)) => {
            let call = thread.call.as_ref();
            let reader =
                call.and_then(|call| ArgumentReader::of(call, state.pid, Some(view.messages), communicators));
            call.zip(reader)
                .and_then(|(call, reader)| waits(call, &reader, &|| holders(rank, &view.ranks)))
                .unwrap_or(RankActivity::Moves)
        }
    }
}

/// What a call waits for; `None`: for nothing that is known here.
/// `holders`: of locks that are in the way, if it asks for one.
fn waits(
    call: &CallInProgress,
    reader: &ArgumentReader<'_>,
    holders: &dyn Fn() -> BTreeSet<Rank>,
) -> Option<RankActivity> {
    let row = calls::row(&call.function)?;
    let all = |dependencies| Some(RankActivity::Waits { dependencies, any: false });
    // Who only asks would have gone on by now: see `watch`.
    match row.awaits()? {
        Waiting::Send(envelope) => all(vec![Dependency::Send(reader.sent(envelope)?)]),
        Waiting::Receive(envelope) => all(vec![Dependency::Receive(reader.received(envelope)?)]),
        Waiting::Exchange { send, receive } => {
            let sent = reader.sent(send).map(Dependency::Send);
            let received = reader.received(receive).map(Dependency::Receive);
            // One side with nobody is no side.
            let nobody = |envelope: Envelope| reader.integer(envelope.peer) == Some(reader.proc_null());
            let sides: Vec<Dependency> = sent.into_iter().chain(received).collect();
            let known = sides.len() + usize::from(nobody(send)) + usize::from(nobody(receive));
            // One of the two may be over: which is not known, so either side may release it.
            if sides.is_empty() || known < 2 {
                None
            } else {
                Some(RankActivity::Waits { dependencies: sides, any: true })
            }
        }
        Waiting::Requests { all, .. } => reader.requested(&call.requests, all),
        Waiting::Collective(collective) => {
            let now = reader.position_of_last(row, collective);
            all(vec![Dependency::Collective(reader.collective(row, collective, now)?)])
        }
        Waiting::Finalize => all(vec![Dependency::Collective(CollectiveOp::finalize(WORLD))]),
        Waiting::Window { win, group, awaits } => {
            let (comm, _) = reader.communicator(reader.word(win)?)?;
            let epoch_of = |peer| Dependency::Receive(Message { peer, tag: None, comm });
            match (awaits, group.and_then(|at| reader.group(at))) {
                (Awaits::Lock, _) => all(vec![Dependency::Lock { comm, holders: holders() }]),
                (Awaits::Epoch, None) => all(vec![epoch_of(None)]),
                // All of them are to open theirs; who has done so already is not known.
                (Awaits::Epoch, Some(group)) => {
                    let dependencies = group.iter().map(|rank| epoch_of(Some(*rank))).collect();
                    Some(RankActivity::Waits { dependencies, any: true })
                }
            }
        }
    }
}

/// Reads arguments as the library means them.
#[derive(Clone, Copy)]
pub(super) struct ArgumentReader<'a> {
    arguments: &'a [Option<u64>],
    known: &'a [CommunicatorFacts],
    mpi: MpiFacts,
    communicators: &'a SampledCommunicators,
    pid: u32,
    messages: Option<&'a Messages>,
}

impl<'a> ArgumentReader<'a> {
    fn of(
        call: &'a CallInProgress,
        pid: u32,
        messages: Option<&'a Messages>,
        communicators: &'a SampledCommunicators,
    ) -> Option<Self> {
        let mpi = call.mpi.or_else(|| messages?.library(pid))?;
        let (arguments, known) = (&call.arguments, &call.communicators);
        Some(Self { arguments, known, mpi, communicators, pid, messages })
    }

    fn word(&self, at: usize) -> Option<u64> {
        self.arguments.get(at).copied().flatten()
    }

    fn integer(&self, at: usize) -> Option<i32> {
        self.word(at).map(|word| word as i32)
    }

    fn any_source(&self) -> i32 {
        match self.mpi.kind {
            MpiKind::OpenMpi => -1,
            MpiKind::Mpich => -2,
        }
    }

    fn proc_null(&self) -> i32 {
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

    fn is_world(&self, word: u64) -> bool {
        Some(self.handle(word)) == self.mpi.comm_world
    }

    /// The communicator of a handle: its number, and, if it is not MPI_COMM_WORLD, its members by the ranks that are named in
    /// it. Calls that made it tell who is in it, else the library's memory.
    fn communicator(&self, handle: u64) -> Option<(u64, Option<&'a [Rank]>)> {
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
        let facts = self.known.iter().find(|facts| facts.handle == handle)?;
        let key = (facts.context_id, facts.members.clone());
        self.communicators.numbers.get(&key).map(|&number| (number, Some(facts.members.as_slice())))
    }

    /// What a communicator is called that calls told of.
    fn name(&self, handle: u64) -> Option<String> {
        let (comm, _) = self.messages?.communicator_of(self.pid, self.handle(handle))?;
        Some(self.messages?.name_of(comm))
    }

    /// Whether it is known which communicator a call's argument names; `None`: it names none.
    pub(super) fn knows_communicator(&self, row: &CallRow) -> Option<bool> {
        let at = row.position(Arg::Comm)?;
        Some(self.word(at).is_some_and(|handle| self.communicator(handle).is_some()))
    }

    /// Members of a group, if it has some.
    fn group(&self, at: usize) -> Option<&[Rank]> {
        let handle = self.word(at)?;
        let is_it = |facts: &&CommunicatorFacts| {
            facts.context_id == CommunicatorFacts::GROUP && facts.handle == handle
        };
        let found = self.known.iter().find(is_it)?;
        Some(found.members.as_slice()).filter(|members| !members.is_empty())
    }

    fn sent(&self, envelope: Envelope) -> Option<Message> {
        self.send(self.integer(envelope.peer)?, self.integer(envelope.tag)?, self.word(envelope.comm)?)
    }

    fn received(&self, envelope: Envelope) -> Option<Message> {
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

    fn collective(
        &self,
        row: &CallRow,
        collective: Collective,
        call: Option<CollectiveCall>,
    ) -> Option<CollectiveOp> {
        let Collective { comm, root, op } = collective;
        let number = match call {
            Some(call) => number_of(call.comm),
            None => self.communicator(self.word(comm)?)?.0,
        };
        Some(CollectiveOp {
            function: row.name.clone(),
            comm: number,
            root: root.and_then(|at| self.integer(at)),
            op: op.and_then(|at| self.word(at)).filter(|_| self.mpi.kind == MpiKind::Mpich),
            arrived: self.arrivals(call),
        })
    }

    /// Who has started a call already, if that is known.
    fn arrivals(&self, call: Option<CollectiveCall>) -> Option<BTreeSet<Rank>> {
        self.messages?.arrivals(call?)
    }

    /// Which of the rank's collective calls on its communicator the one is that it is in.
    fn position_of_last(&self, row: &CallRow, collective: Collective) -> Option<CollectiveCall> {
        let messages = self.messages?;
        let (comm, own) = messages.communicator_of(self.pid, self.word(collective.comm)?)?;
        let rank = *messages.members_of(comm)?.get(own as usize)?;
        let position = messages.collectives().last_position(comm.0, rank, row)?;
        Some(CollectiveCall { comm, position })
    }

    /// Of those that are certainly not done, each is waited for by who waits for all; what is not known besides does not
    /// matter then. Else a request that nothing is known of may be anything, so that nothing can be said; and if some may be
    /// done already, any of them may be the last one.
    fn requested(&self, requests: &[PendingRequest], all: bool) -> Option<RankActivity> {
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
                let dependency = |message: crate::job::messages::KnownMessage| {
                    let of = Message { peer: message.peer, tag: message.tag, comm: number_of(message.comm) };
                    if message.sends { Dependency::Send(of) } else { Dependency::Receive(of) }
                };
                std::iter::once(first).chain(second).map(dependency).collect()
            }
            KnownRequest::Collective { by, call: Some(call) } => {
                let (function, comm) = (by.name.clone(), number_of(call.comm));
                let arrived = self.arrivals(Some(call));
                vec![Dependency::Collective(CollectiveOp { function, comm, arrived, root: None, op: None })]
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

/// A communicator or a window by who is in it.
fn communicator_text(call: &CallInProgress, handle: u64) -> String {
    match call.communicators.iter().find(|facts| facts.handle == handle) {
        Some(facts) => format!("one of {} ranks", facts.members.len()),
        None => format!("{handle:#x}"),
    }
}

/// The arguments of a call as people write them.
pub(crate) fn shown(call: &CallInProgress) -> Vec<(&'static str, String)> {
    shown_of(call, None)
}

/// The same; `process`: whose call it is, with what is known of its communicators and requests.
pub(super) fn shown_of(
    call: &CallInProgress,
    process: Option<(u32, &Messages)>,
) -> Vec<(&'static str, String)> {
    let none = SampledCommunicators::default();
    let (pid, messages) = process.unzip();
    let reader = ArgumentReader::of(call, pid.unwrap_or_default(), messages, &none);
    let Some((row, reader)) = calls::row(&call.function).zip(reader) else { return Vec::new() };
    let value = |at: usize, name: &str| match (name, reader.integer(at)) {
        ("comm", _) => match reader.word(at) {
            Some(handle) if reader.is_world(handle) => "MPI_COMM_WORLD".to_owned(),
            Some(handle) => reader.name(handle).unwrap_or_else(|| communicator_text(call, handle)),
            None => "?".to_owned(),
        },
        ("win", _) => reader.word(at).map_or("?".to_owned(), |handle| communicator_text(call, handle)),
        (_, None) => "?".to_owned(),
        ("source", Some(rank)) if rank == reader.any_source() => "MPI_ANY_SOURCE".to_owned(),
        ("source" | "dest", Some(rank)) if rank == reader.proc_null() => "MPI_PROC_NULL".to_owned(),
        ("tag" | "recvtag", Some(-1)) => "MPI_ANY_TAG".to_owned(),
        (_, Some(number)) => number.to_string(),
    };
    let pending = call.requests.iter().filter(|request| request.complete != Some(true)).take(MOST_SHOWN);
    let requests = pending.filter_map(|request| Some(("request", request_text(call, request, process)?)));
    row.shown().map(|(at, name)| (name, value(at, name))).chain(requests).collect()
}

/// What a request stands for.
pub(super) fn request_text(
    call: &CallInProgress,
    request: &PendingRequest,
    process: Option<(u32, &Messages)>,
) -> Option<String> {
    if let Some(started) = &request.started {
        let arguments = started.arguments.iter().copied().map(Some).collect();
        let (function, requests) = (started.function.clone(), Vec::new());
        let started = CallInProgress { function, arguments, requests, ..call.clone() };
        let values: Vec<String> =
            shown_of(&started, process).iter().map(|(name, value)| format!("{name} {value}")).collect();
        return Some(format!("{}({})", started.function, values.join(", ")));
    }
    if let Some(message) = request.message {
        let direction = if message.sends { "send to" } else { "receive from" };
        return Some(format!("{direction} {} with tag {}", message.peer, message.tag));
    }
    let (pid, messages) = process?;
    Some(match messages.request_of(pid, request.handle)? {
        KnownRequest::Messages { by, first, .. } => {
            let peer = first.peer.map_or_else(|| "MPI_ANY_SOURCE".to_owned(), |peer| format!("rank {peer}"));
            let tag = first.tag.map_or_else(|| "MPI_ANY_TAG".to_owned(), |tag| tag.to_string());
            let name = if first.sends { "dest" } else { "source" };
            format!("{}({name} {peer}, tag {tag}, comm {})", by.name, messages.name_of(first.comm))
        }
        KnownRequest::Collective { by, call: Some(call) } => {
            format!("{}(comm {})", by.name, messages.name_of(call.comm))
        }
        KnownRequest::Collective { by, call: None } => by.name.clone(),
    })
}

/// What the requests stand for that a call waits for, of those that it is known of.
pub(super) fn request_texts(call: &CallInProgress, pid: u32, view: &JobView<'_>) -> Vec<String> {
    let pending = call.requests.iter().filter(|request| request.complete != Some(true));
    pending.filter_map(|request| request_text(call, request, Some((pid, view.messages)))).collect()
}

/// Whether it is known which communicator a call names; `None`: it names none.
pub(super) fn knows_communicator(call: &CallInProgress, pid: u32, view: &JobView<'_>) -> Option<bool> {
    let communicators = SampledCommunicators::of(view);
    let row = calls::row(&call.function)?;
    let reader = ArgumentReader::of(call, pid, Some(view.messages), &communicators);
    reader.map_or(Some(false), |reader| reader.knows_communicator(row))
}
