//! From what processes were found doing to who is at fault.

use std::collections::{BTreeMap, BTreeSet};

use super::localize::Cause;
use super::progress::Observation;
use super::wait_for::{CollectiveOp, Dependency, Job, Message, Rank, RankActivity};
use crate::findings::finding::Fault;
use crate::job::locks::HeldLock;
use crate::mpi::calls::{self, Awaits, CallRow, Collective, Envelope, Waiting};
use crate::tape::input::{
    CallInProgress, CommunicatorFacts, MpiFacts, MpiKind, PendingMessage, PendingRequest, StartedCall,
    ThreadFacts,
};

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

/// A cause, with what was found of the ranks.
pub(crate) struct Hang {
    pub fault: Fault,
    pub ranks: Vec<StuckRank>,
    /// Since when the last of them has not moved.
    pub since_ns: u64,
}

/// A rank that does not go on.
pub(crate) struct StuckRank {
    pub rank: Rank,
    pub pid: u32,
    pub at_fault: bool,
    pub thread: Option<ThreadFacts>,
    /// Names and values of the arguments worth showing.
    pub arguments: Vec<(&'static str, String)>,
    pub waits_for: BTreeSet<Rank>,
    pub ended: Option<bool>,
    pub stopped: bool,
}

/// Requests that are shown with a call.
const MOST_SHOWN: usize = 4;
/// MPI_COMM_WORLD, whatever its handle.
const WORLD: u64 = 0;

/// Communicators of all ranks: those that are the same have the same number.
#[derive(Default)]
struct Communicators {
    /// By what the library calls them and who is in them. 0 is MPI_COMM_WORLD.
    numbers: BTreeMap<(u32, Vec<Rank>), u64>,
}

impl Communicators {
    fn of(ranks: &BTreeMap<Rank, RankState<'_>>) -> Self {
        let mut all = Self::default();
        let calls = ranks.values().filter_map(|state| thread(state.still?.0)?.call.as_ref());
        for facts in calls.flat_map(|call| &call.communicators) {
            let next = all.numbers.len() as u64 + 1;
            all.numbers.entry((facts.context_id, facts.members.clone())).or_insert(next);
        }
        all
    }

    /// Members of each, as ranks of MPI_COMM_WORLD.
    fn members(&self, world: Vec<Rank>) -> BTreeMap<u64, Vec<Rank>> {
        let others = self.numbers.iter().map(|((_, members), &number)| (number, members.clone()));
        std::iter::once((WORLD, world)).chain(others).collect()
    }
}

/// Why ranks do not go on. Ranks that nothing is known of may always move.
pub(crate) fn hangs(ranks: &BTreeMap<Rank, RankState<'_>>) -> Vec<Hang> {
    let communicators = Communicators::of(ranks);
    let activities: BTreeMap<Rank, RankActivity> =
        ranks.keys().map(|rank| (*rank, activity(*rank, ranks, &communicators))).collect();
    let members = communicators.members(activities.keys().copied().collect());
    let job = Job { activities: &activities, members: &members };
    job.causes().iter().map(|cause| hang(cause, &job, ranks)).collect()
}

fn hang(cause: &Cause, job: &Job<'_>, ranks: &BTreeMap<Rank, RankState<'_>>) -> Hang {
    let all = cause.at_fault.iter().chain(&cause.held_up);
    let stuck: Vec<StuckRank> = all
        .filter_map(|&rank| {
            let state = ranks.get(&rank)?;
            let thread = state.still.and_then(|(seen, _)| thread(seen)).cloned();
            let arguments = thread.as_ref().and_then(|t| t.call.as_ref()).map(shown);
            Some(StuckRank {
                rank,
                pid: state.pid,
                at_fault: cause.at_fault.contains(&rank),
                arguments: arguments.unwrap_or_default(),
                thread,
                waits_for: job.waits_for(rank),
                ended: state.ended,
                stopped: matches!(state.still, Some((Observation::Stopped(_), _))),
            })
        })
        .collect();
    let since_ns =
        |rank: &StuckRank| ranks.get(&rank.rank).and_then(|state| state.still).map_or(0, |still| still.1);
    Hang { fault: cause.fault, since_ns: stuck.iter().map(since_ns).max().unwrap_or(0), ranks: stuck }
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
fn call_of<'a>(state: &RankState<'a>) -> Option<&'a CallInProgress> {
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

fn activity(
    rank: Rank,
    ranks: &BTreeMap<Rank, RankState<'_>>,
    communicators: &Communicators,
) -> RankActivity {
    let state = &ranks[&rank];
    if let Some(well) = state.ended {
        return RankActivity::Ended { well };
    }
    match state.still {
        None | Some((Observation::Moves, _)) => RankActivity::Moves,
        Some((Observation::Outside(_), _)) => RankActivity::Outside,
        Some((Observation::Stopped(_), _)) => RankActivity::Stopped,
        Some((Observation::InCall(thread), _)) => {
            let call = thread.call.as_ref();
            call.and_then(|call| waits(call, communicators, &|| holders(rank, ranks)))
                .unwrap_or(RankActivity::Moves)
        }
    }
}

/// What a call waits for; `None`: for nothing that is known here.
/// `holders`: of locks that are in the way, if it asks for one.
fn waits(
    call: &CallInProgress,
    communicators: &Communicators,
    holders: &dyn Fn() -> BTreeSet<Rank>,
) -> Option<RankActivity> {
    let mpi = call.mpi?;
    let row = calls::row(&call.function)?;
    let reader = Reader { arguments: &call.arguments, known: &call.communicators, mpi, communicators };
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
            all(vec![Dependency::Collective(reader.collective(row, collective)?)])
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
struct Reader<'a> {
    arguments: &'a [Option<u64>],
    known: &'a [CommunicatorFacts],
    mpi: MpiFacts,
    communicators: &'a Communicators,
}

impl Reader<'_> {
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

    /// The communicator of a handle: its number, and its members if it is not MPI_COMM_WORLD.
    fn communicator(&self, handle: u64) -> Option<(u64, Option<&[Rank]>)> {
        let handle = match self.mpi.kind {
            MpiKind::OpenMpi => handle,
            MpiKind::Mpich => handle & u64::from(u32::MAX),
        };
        if Some(handle) == self.mpi.comm_world {
            return Some((WORLD, None));
        }
        let facts = self.known.iter().find(|facts| facts.handle == handle)?;
        let key = (facts.context_id, facts.members.clone());
        self.communicators.numbers.get(&key).map(|&number| (number, Some(facts.members.as_slice())))
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

    fn collective(&self, row: &CallRow, collective: Collective) -> Option<CollectiveOp> {
        let Collective { comm, root, op } = collective;
        Some(CollectiveOp {
            function: row.name.clone(),
            comm: self.communicator(self.word(comm)?)?.0,
            root: root.and_then(|at| self.integer(at)),
            op: op.and_then(|at| self.word(at)).filter(|_| self.mpi.kind == MpiKind::Mpich),
            arrived: None,
        })
    }

    /// A request that nothing is known of may be anything, so that for all of them nothing can be said. If some may
    /// be done already, it is not known which of them are waited for: then any of them may be the last one.
    fn requested(&self, requests: &[PendingRequest], all: bool) -> Option<RankActivity> {
        let pending: Vec<&PendingRequest> = requests.iter().filter(|r| r.complete != Some(true)).collect();
        if pending.is_empty() {
            return None;
        }
        let dependencies: Option<Vec<Dependency>> =
            pending.iter().map(|request| self.dependency(request)).collect();
        let all_wait = pending.len() == 1 || pending.iter().all(|request| request.complete.is_some());
        dependencies.map(|dependencies| RankActivity::Waits { dependencies, any: !(all && all_wait) })
    }

    fn dependency(&self, request: &PendingRequest) -> Option<Dependency> {
        match (&request.message, &request.started) {
            (Some(message), _) => self.message(message),
            (None, Some(started)) => self.started(started),
            (None, None) => None,
        }
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
    fn started(&self, started: &StartedCall) -> Option<Dependency> {
        let row = calls::row(&started.function)?;
        let arguments: Vec<Option<u64>> = started.arguments.iter().copied().map(Some).collect();
        let reader = Reader { arguments: &arguments, ..*self };
        match (row.sends(), row.receives()) {
            (Some(envelope), None) => reader.sent(envelope).map(Dependency::Send),
            (None, Some(envelope)) => reader.received(envelope).map(Dependency::Receive),
            (Some(_), Some(_)) => None,
            (None, None) => reader.collective(row, row.collective()?).map(Dependency::Collective),
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
    let Some((row, mpi)) = calls::row(&call.function).zip(call.mpi) else { return Vec::new() };
    let reader = Reader {
        arguments: &call.arguments,
        known: &call.communicators,
        mpi,
        communicators: &Communicators::default(),
    };
    let value = |at: usize, name: &str| match (name, reader.integer(at)) {
        ("comm", _) => match reader.word(at) {
            Some(handle) if reader.communicator(handle).is_some() => "MPI_COMM_WORLD".to_owned(),
            Some(handle) => communicator_text(call, handle),
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
    let requests = pending.filter_map(|request| Some(("request", request_text(call, request)?)));
    row.shown().map(|(at, name)| (name, value(at, name))).chain(requests).collect()
}

/// What a request stands for.
fn request_text(call: &CallInProgress, request: &PendingRequest) -> Option<String> {
    if let Some(started) = &request.started {
        let arguments = started.arguments.iter().copied().map(Some).collect();
        let (function, requests) = (started.function.clone(), Vec::new());
        let started = CallInProgress { function, arguments, requests, ..call.clone() };
        let values: Vec<String> =
            shown(&started).iter().map(|(name, value)| format!("{name} {value}")).collect();
        return Some(format!("{}({})", started.function, values.join(", ")));
    }
    let message = request.message?;
    let direction = if message.sends { "send to" } else { "receive from" };
    Some(format!("{direction} {} with tag {}", message.peer, message.tag))
}
