//! From calls to messages: what each call starts and completes, and which send and receive are one message.

mod collective;
mod completion;
mod ending;
mod lookup;
mod making;
mod one_sided;
mod pending;
mod posting;
mod used_buffers;

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::job::collectives::Collectives;
use crate::job::memory::CodeMap;
use crate::job::messages::accesses::Accesses;
use crate::job::messages::active_buffers::ActiveBuffers;
use crate::job::messages::assemble::{Call, CallStep};
use crate::job::messages::communicators::{Communicators, Expected};
use crate::job::messages::data::{CallBuffer, Data};
use crate::job::messages::epochs::Epochs;
use crate::job::messages::few::Few;
use crate::job::messages::groups::MpiGroups;
use crate::job::messages::ids::CallId;
use crate::job::messages::ids::MessageId;
use crate::job::messages::ids::{CommId, WORLD};
use crate::job::messages::leaks::{LeakKind, Origin, Tally};
use crate::job::messages::made_objects::MadeObjects;
use crate::job::messages::matching::{Matching, Pair};
use crate::job::messages::message_event::{CallCommunicator, MessageEvent, MessageFacts};
use crate::job::messages::op::{Endpoint, Op, SentContent};
use crate::job::messages::overlapping::Overlapping;
use crate::job::messages::process::MpiProcesses;
use crate::job::messages::requests::Requests;
use crate::job::messages::type_matching::TypeMatching;
use crate::job::messages::unbuffered::Unbuffered;
use crate::job::signature::Signature;
use crate::mpi::calls::{Arg, CallRow, ContentArgs, Does, Form, Meeting, WindowSync};
use crate::mpi::handles::{ANY_TAG, Builtin, Libraries};
use crate::mpi::status::{self, Status};
use crate::tape::plan::MpiKind;
pub(crate) use ending::wanted_arguments;
pub(crate) use lookup::{KnownMessage, KnownRequest};
pub(crate) use pending::CollectiveCall;
use pending::Pending;

/// Messages that probes took and no receive has got.
const MOST_TAKEN: usize = 1 << 16;
/// Receives that have got a message and are not over.
const MOST_ARRIVING: usize = 1 << 16;

/// What a thread's call has begun.
#[derive(Default)]
pub(super) struct Begun {
    ops: Few<Op>,
    communicator: Option<Expected>,
    pub collective: Option<CollectiveCall>,
    signature: Option<Signature>,
}

/// A message that a matched probe took.
#[derive(Clone, Copy, Default)]
struct Taken {
    send: Option<Endpoint>,
    receive: Option<Endpoint>,
}

/// What calls of all processes do to each other.
#[derive(Default)]
pub(super) struct Follower {
    pub libraries: Libraries,
    pub processes: MpiProcesses,
    pub communicators: Communicators,
    groups: MpiGroups,
    /// Groups, datatypes and operations that were made.
    pub made: MadeObjects,
    requests: Requests<Op, Origin>,
    /// Buffers of those that are active.
    pub buffers: ActiveBuffers,
    /// To memory of windows.
    pub accesses: Accesses,
    /// That targets open for groups.
    pub epochs: Epochs,
    matching: Matching<Endpoint>,
    /// Collective calls of all ranks.
    pub collectives: Collectives,
    /// By process and handle: what collective calls began.
    collective_requests: FxHashMap<(u32, u64), Pending>,
    /// By process and handle of the message.
    probed: FxHashMap<(u32, u64), MessageId>,
    taken: FxHashMap<MessageId, Taken>,
    /// Messages that were received as something else.
    pub types: TypeMatching,
    /// Buffers of one call that overlap.
    pub overlapping: Overlapping,
    /// How far threads would have come if nothing were buffered.
    pub unbuffered: Unbuffered,
    /// Ranks of which something was missed.
    pub lost: FxHashSet<u32>,
    /// Processes that were seen to begin with MPI, by rank.
    pub begun_by: FxHashMap<u32, u32>,
    /// Ranks that ended with MPI and were followed to there, with their code.
    pub ended: FxHashMap<u32, CodeMap>,
    /// Those that have just done so, with their processes: their code is not kept yet.
    pub ending: Vec<(u32, u32)>,
    left: Tally,
    /// What was learnt; nothing is noted unless somebody wants to hear it.
    pub events: VecDeque<MessageEvent>,
    pub is_heard: bool,
    /// Times of different ranks may be of different clocks.
    pub has_several_clocks: bool,
    /// Only communicators and collective calls are followed: of other calls no results are recorded.
    pub is_partial: bool,
    /// What messages do with memory; nothing is noted unless somebody follows it.
    pub data: VecDeque<Data>,
    /// Memory that calls were given; the same holds for it.
    pub used: VecDeque<CallBuffer>,
    pub follows_data: bool,
    /// Of some message received from anybody nobody was told whose it was.
    pub asks_for_senders: bool,
    /// Messages whose content is known that were sent.
    sent: u64,
    /// What is known of them, by the receives that have got them.
    arriving: FxHashMap<MessageId, SentContent>,
    /// Processes of which something is found to be missing.
    pub to_lose: Vec<u32>,
    /// Room for pairs.
    pairs: Vec<Pair<Endpoint>>,
}

impl Follower {
    /// A call goes on; `time_ns`: of the record that tells it.
    pub fn step(&mut self, call: &Call, begun: &mut Begun, step: CallStep, time_ns: u64) {
        match step {
            CallStep::Begun => self.begin(call, begun),
            CallStep::Over(code) => self.over(call, begun, code, time_ns),
        }
    }

    /// A process begins with MPI.
    pub fn begin_process(&mut self, pid: u32) {
        let Some(process) = self.processes.find_mut(pid) else { return };
        process.is_complete = true;
        let Some(rank) = process.rank else { return };
        // Two that say that they are the same rank are of two jobs: whom others mean by it is not known.
        let before = self.begun_by.insert(rank, pid);
        if let Some(other) = before.filter(|other| *other != pid) {
            self.to_lose.extend([pid, other]);
            self.give_up(rank);
        }
    }

    /// Something of a process was not seen.
    pub fn lose(&mut self, pid: u32) {
        self.requests.forget(pid);
        self.buffers.lose(pid);
        let Some(process) = self.processes.find_mut(pid) else { return };
        process.is_complete = false;
        if let Some(rank) = process.rank {
            self.give_up(rank);
        }
    }

    /// A process has ended.
    pub fn end_process(&mut self, pid: u32) {
        self.requests.end(pid);
        self.buffers.end_process(pid);
        self.accesses.end_process(pid);
        self.collective_requests.retain(|key, _| key.0 != pid);
        self.processes.remove(pid);
    }

    /// What a rank does is not known from here on.
    fn give_up(&mut self, rank: u32) {
        self.unbuffered.stop();
        self.accesses.stop();
        self.epochs.stop();
        self.arriving.retain(|receive, _| receive.call.rank != rank);
        if self.lost.insert(rank) {
            for (comm, own) in self.communicators.places(rank) {
                self.matching.lose(comm, own);
            }
        }
        self.communicators.forget(rank);
        self.groups.forget(rank);
        self.made.forget(rank);
        self.collectives.lose(rank);
    }

    fn rank(&self, call: &Call) -> Option<u32> {
        self.processes.get(call.process).rank
    }

    fn builtin(&self, call: &Call) -> Option<Builtin> {
        self.processes.get(call.process).builtin
    }

    fn is_complete(&self, call: &Call) -> bool {
        self.processes.get(call.process).is_complete
    }

    /// A call, if it is known of which rank.
    pub fn id(&self, call: &Call) -> Option<CallId> {
        Some(CallId { rank: self.rank(call)?, tid: call.tid, number: call.number })
    }

    /// The communicator that a process calls so, and its number there.
    pub fn find_place(&self, pid: u32, handle: u64) -> Option<(CommId, u32)> {
        let process = self.processes.find(pid)?;
        let (rank, builtin) = process.rank.zip(process.builtin)?;
        if builtin.is_world(handle) {
            return Some((WORLD, rank));
        }
        self.communicators.find(rank, builtin.handle(handle))
    }

    /// The same, and remembers it.
    fn place(&mut self, call: &Call, handle: u64) -> Option<(CommId, u32)> {
        let process = self.processes.get(call.process);
        let (rank, builtin) = process.rank.zip(process.builtin)?;
        if builtin.is_world(handle) {
            return Some((WORLD, rank));
        }
        self.communicators.place(rank, builtin.handle(handle))
    }

    fn begin(&mut self, call: &Call, begun: &mut Begun) {
        let Some(id) = self.id(call) else { return self.to_lose.push(call.pid) };
        self.begin_collective(call, id.rank, begun);
        match call.row.does {
            Does::Send(_) | Does::Receive | Does::Exchange => self.begin_messages(call, id, begun),
            Does::Start => self.start(call, id),
            Does::OneSided(kind) => self.begin_access(call, id, kind),
            Does::Window(WindowSync::Epoch(step)) => self.begin_epoch_step(call, id, step),
            Does::ReceiveMatched => {
                let message = self.handle(call, Arg::Message, false);
                let probe = message.and_then(|handle| self.probed.remove(&(call.pid, handle)));
                let op = Op {
                    id: MessageId { call: id, part: 0 },
                    origin: origin(call),
                    sends: false,
                    place: None,
                    peer: None,
                    tag: ANY_TAG,
                    content: self.content(call, call.row.received()),
                    is_empty: is_empty(call, call.row.received()),
                    element: self.element(call, call.row.received()),
                };
                self.unbuffered.post(&op);
                if let Some(probe) = probe {
                    self.taken.entry(probe).or_default().receive = Some(op.side());
                    self.hand_over(probe);
                }
                self.tell_with(|this| this.posted(&op, call.begin_ns));
                begun.ops = Few::one(op);
            }
            Does::MakeCommunicator(making) if making.meeting != Meeting::NewMembers => {
                begun.communicator = self.begin_communicator(call, id, making.group);
            }
            Does::Finalize => self.finalize(call, id.rank),
            _ => {}
        }
    }

    /// Tells of the pairs that have become certain.
    fn matched(&mut self) {
        let mut pairs = std::mem::take(&mut self.pairs);
        for (send, receive) in pairs.drain(..) {
            match self.taken.get_mut(&receive.id) {
                Some(taken) => {
                    taken.send = Some(send);
                    self.hand_over(receive.id);
                }
                None => self.pair(send, receive),
            }
        }
        self.pairs = pairs;
    }

    fn pair(&mut self, send: Endpoint, receive: Endpoint) {
        self.types.compare(&send, &receive);
        self.unbuffered.pair(send.id, receive.id);
        self.buffers.pair(receive.id, send.since_ns);
        self.tell(MessageEvent::Matched { send: send.id, receive: receive.id });
        if let Some(sent) = send.sent.filter(|_| self.arriving.len() < MOST_ARRIVING) {
            self.arriving.insert(receive.id, sent);
        }
    }

    pub(super) fn tell(&mut self, event: MessageEvent) {
        if self.is_heard {
            self.events.push_back(event);
        }
    }

    /// The same, of what costs something to tell.
    fn tell_with(&mut self, event: impl FnOnce(&Self) -> MessageEvent) {
        if self.is_heard {
            let event = event(self);
            self.events.push_back(event);
        }
    }

    fn posted(&self, op: &Op, time_ns: u64) -> MessageEvent {
        MessageEvent::Posted { message: op.id, facts: self.facts(op), time_ns }
    }

    fn facts(&self, op: &Op) -> MessageFacts {
        let comm = op.place.map(|(comm, _)| comm);
        let len_bytes = op.content.map(|content| content.len_bytes.get());
        MessageFacts {
            sends: op.sends,
            comm: comm.map(|comm| comm.0),
            peer: op.peer,
            peer_rank: comm.zip(op.peer).and_then(|(comm, number)| self.member(comm, number)),
            tag: Some(op.tag).filter(|tag| *tag != ANY_TAG),
            len_bytes: len_bytes.or(op.is_empty.then_some(0)),
        }
    }

    /// A member of a communicator, as a rank of MPI_COMM_WORLD.
    fn member(&self, comm: CommId, number: u32) -> Option<u32> {
        self.communicators.members(comm)?.get(number as usize).copied()
    }

    /// A message that a probe took goes to the receive that was given it.
    fn hand_over(&mut self, probe: MessageId) {
        if let Some(Taken { send: Some(send), receive: Some(receive) }) = self.taken.get(&probe).copied() {
            self.pair(send, receive);
            self.taken.remove(&probe);
        }
    }

    fn over(&mut self, call: &Call, begun: &Begun, code: Option<i32>, time_ns: u64) {
        let Some(id) = self.id(call) else { return };
        // Of one that failed it is not known.
        if code.is_none_or(|code| code == 0) {
            self.leave_collective(call, begun);
        }
        match code {
            Some(0) => {
                self.returned(call, id, begun);
                if self.asks(call) {
                    self.unbuffered.ask(id.rank);
                }
                let own = begun.collective.map(CollectiveCall::id);
                self.unbuffered.over(call.row, call.return_address, id, own);
            }
            // What a call that failed has done is not known.
            Some(_) => self.to_lose.push(call.pid),
            None => self.not_returned(call, begun),
        }
        if self.is_heard {
            let place = call.argument(Arg::Comm).and_then(|comm| self.place(call, comm));
            let communicator = place.and_then(|(comm, own)| {
                let membership = self.communicators.membership(comm)?.clone();
                Some(CallCommunicator { number: comm.0, own, membership })
            });
            let end_ns = code.map(|_| time_ns);
            let call = Box::new(call.clone());
            let collective_bytes = begun.signature.and_then(|signature| signature.bytes);
            self.events.push_back(MessageEvent::Call { id, call, end_ns, communicator, collective_bytes });
        }
    }

    /// A thread made another call, and the end of this one was not seen.
    fn not_returned(&mut self, call: &Call, begun: &Begun) {
        for op in begun.ops.iter() {
            self.accesses.end_local(call.pid, op.id);
        }
        if matches!(call.row.does, Does::Complete { .. } | Does::Start | Does::Free | Does::Cancel) {
            self.requests.forget(call.pid);
            self.buffers.forget(call.pid);
            self.accesses.forget_local(call.pid);
        }
        if call.row.position(Arg::Win).is_some() {
            self.buffers.forget(call.pid);
            self.accesses.stop();
            self.epochs.stop();
        }
    }

    fn returned(&mut self, call: &Call, id: CallId, begun: &Begun) {
        self.end_accesses(call);
        self.end_epoch_step(call, id);
        match (call.row.does, call.row.form) {
            (Does::Complete { which, .. }, _) => self.completion(call, id, which),
            (Does::ProbeMatched, _) => self.probe(call, id),
            (Does::Inquire, _) => self.inquired(call),
            (Does::Free, _) => self.free(call),
            (Does::Cancel, _) => self.cancel(call),
            (Does::MakeCommunicator(making), _) => self.communicator(call, id.rank, making, begun),
            (Does::FreeCommunicator, _) => self.free_communicator(call, id.rank),
            (Does::MakeGroup(how), _) => self.make_group(call, id.rank, how),
            (Does::FreeGroup, _) => {
                if let Some(handle) = self.handle(call, Arg::OldGroup, false) {
                    self.groups.free(id.rank, handle);
                    self.made.remove(id.rank, LeakKind::Group, handle);
                }
            }
            (Does::MakeDescription(class), _) => self.make_description(call, id.rank, class),
            (Does::FreeDescription(class), _) => self.free_description(call, id.rank, class),
            (Does::Partitioned, _) | (_, Form::Persistent) => self.prepared(call, begun),
            (_, Form::Blocking) => {
                let status = self.status(call, Arg::Status, 0);
                for op in begun.ops.iter() {
                    self.unbuffered.complete(op.id);
                    self.accesses.end_local(call.pid, op.id);
                    self.complete(op, status.filter(|_| !op.sends), false, (call.pid, id));
                }
            }
            (_, Form::Nonblocking) => self.request(call, id, begun),
        }
    }

    fn handle(&self, call: &Call, arg: Arg, at_return: bool) -> Option<u64> {
        self.builtin(call)?.handles(call.pointed(arg, at_return)?).next()
    }

    /// Handles of the requests that a call names, as they were at its entry.
    fn handles<'c>(&self, call: &'c Call) -> impl Iterator<Item = u64> + use<'c> {
        let bytes = call.pointed(Arg::Requests, false).or_else(|| call.pointed(Arg::Request, false));
        self.builtin(call).zip(bytes).into_iter().flat_map(|(builtin, bytes)| builtin.handles(bytes))
    }

    fn status(&self, call: &Call, arg: Arg, index: usize) -> Option<Status> {
        status::read(call.pointed(arg, true)?, index, self.builtin(call)?.kind)
    }
}

fn origin(call: &Call) -> Origin {
    Origin { row: call.row, return_address: call.return_address }
}

/// Whether the status of a request says what it has received. MPICH 4.0 leaves zeros for `MPI_Isendrecv`, or what the request was before.
fn is_told(kind: MpiKind, begun_by: &CallRow) -> bool {
    kind != MpiKind::Mpich || begun_by.does != Does::Exchange || begun_by.form == Form::Blocking
}

/// Whether a call says that a message has no content.
fn is_empty(call: &Call, at: Option<ContentArgs>) -> bool {
    at.and_then(|at| call.integer(at.count)) == Some(0)
}

fn integers(bytes: Option<&[u8]>) -> impl Iterator<Item = i32> {
    let (chunks, _) = bytes.unwrap_or_default().as_chunks::<4>();
    chunks.iter().map(|chunk| i32::from_le_bytes(*chunk))
}
