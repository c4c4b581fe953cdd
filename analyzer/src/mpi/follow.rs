//! From calls to messages: what each call starts and completes, and which send and receive are one message.

use rustc_hash::{FxHashMap, FxHashSet};

use super::CallId;
use super::assemble::{Call, Step};
use super::code::CodeMap;
use super::communicators::{Choice, CommId, Communicators, Expected, Members, Selection, WORLD};
use super::few::Few;
use super::groups::{self, Groups};
use super::handles::{ANY_TAG, Builtin, Libraries};
use super::left_over::{LeftOver, LeftWhat, Origin, Tally};
use super::matching::{Matching, Pair};
use super::messages::{Event, MessageId};
use super::process::Processes;
use super::requests::{Request, Requests};
use super::status::{self, Status};
use crate::calls::{Arg, Does, Envelope, Form, Group, Grouping, Making, Meeting, Which};

/// Messages that probes took and no receive has got.
const MOST_TAKEN: usize = 1 << 16;

/// A message of one process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Op {
    id: MessageId,
    origin: Origin,
    sends: bool,
    /// With the process's own rank in it; `None`: not known.
    place: Option<(CommId, u32)>,
    /// In the communicator; `None`: anybody.
    peer: Option<u32>,
    tag: i32,
}

/// A send or a receive, as it waits for its other side.
#[derive(Clone, Copy, Debug)]
struct Side {
    id: MessageId,
    origin: Origin,
}

impl PartialEq for Side {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Op {
    /// Whether both go the same way.
    fn is_alike(&self, other: &Self) -> bool {
        (self.sends, self.peer, self.tag, self.place) == (other.sends, other.peer, other.tag, other.place)
    }

    fn side(&self) -> Side {
        Side { id: self.id, origin: self.origin }
    }
}

/// What a thread's call has begun.
#[derive(Default)]
pub(super) struct Begun {
    ops: Few<Op>,
    communicator: Option<Expected>,
}

/// A message that a matched probe took.
#[derive(Clone, Copy, Default)]
struct Taken {
    send: Option<MessageId>,
    receive: Option<MessageId>,
}

/// What calls of all processes do to each other.
#[derive(Default)]
pub(super) struct Follower {
    pub libraries: Libraries,
    pub processes: Processes,
    pub communicators: Communicators,
    groups: Groups,
    requests: Requests<Op, Origin>,
    matching: Matching<Side>,
    /// By process and handle of the message.
    probed: FxHashMap<(u32, u64), MessageId>,
    taken: FxHashMap<MessageId, Taken>,
    /// Ranks of which something was missed.
    pub lost: FxHashSet<u32>,
    /// Processes that were seen to begin with MPI, by rank.
    begun_by: FxHashMap<u32, u32>,
    /// Ranks that ended with MPI and were followed to there, with their code.
    ended: FxHashMap<u32, CodeMap>,
    left: Tally,
    /// What was learnt; nothing is noted unless somebody wants to hear it.
    pub events: Vec<Event>,
    pub is_heard: bool,
    /// Processes of which something is found to be missing.
    pub to_lose: Vec<u32>,
    /// Room for pairs.
    pairs: Vec<Pair<Side>>,
}

impl Follower {
    /// A call goes on; `time_ns`: of the record that tells it.
    pub fn step(&mut self, call: &Call, begun: &mut Begun, step: Step, time_ns: u64) {
        match step {
            Step::Begun => self.begin(call, begun),
            Step::Over(code) => self.over(call, begun, code, time_ns),
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
        let Some(process) = self.processes.find_mut(pid) else { return };
        process.is_complete = false;
        if let Some(rank) = process.rank {
            self.give_up(rank);
        }
    }

    /// A process has ended.
    pub fn end_process(&mut self, pid: u32) {
        self.requests.end(pid);
        self.processes.remove(pid);
    }

    /// What a rank does is not known from here on.
    fn give_up(&mut self, rank: u32) {
        if self.lost.insert(rank) {
            for (comm, own) in self.communicators.places(rank) {
                self.matching.lose(comm, own);
            }
        }
        self.communicators.forget(rank);
        self.groups.forget(rank);
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

    /// The communicator that a process calls so, and its rank there.
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

    /// Of what was done in a communicator before its members were known, a part is missing.
    fn spoil(&mut self, call: &Call, handle: u64) {
        if let Some((rank, builtin)) = self.rank(call).zip(self.builtin(call)) {
            self.communicators.spoil(rank, builtin.handle(handle));
        }
    }

    fn begin(&mut self, call: &Call, begun: &mut Begun) {
        self.processes.get_mut(call.process).meet(&self.libraries);
        let Some(id) = self.id(call) else { return self.to_lose.push(call.pid) };
        match call.row.does {
            Does::Send(_) | Does::Receive | Does::Exchange => self.begin_messages(call, id, begun),
            Does::Start => self.start(call, id),
            Does::ReceiveMatched => {
                let message = self.handle(call, Arg::Message, false);
                let probe = message.and_then(|handle| self.probed.remove(&(call.pid, handle)));
                let receive = MessageId { call: id, part: 0 };
                if let Some(probe) = probe {
                    self.taken.entry(probe).or_default().receive = Some(receive);
                    self.hand_over(probe);
                }
                let op = Op {
                    id: receive,
                    origin: origin(call),
                    sends: false,
                    place: None,
                    peer: None,
                    tag: ANY_TAG,
                };
                begun.ops = Few::one(op);
            }
            Does::MakeCommunicator(making) if making.meeting != Meeting::NewMembers => {
                begun.communicator = self.begin_communicator(call, id);
            }
            Does::Finalize => self.finalize(call, id.rank),
            _ => {}
        }
    }

    /// Messages that a call is about: what it sends first.
    fn begin_messages(&mut self, call: &Call, id: CallId, begun: &mut Begun) {
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
        for op in begun.ops.iter() {
            if op.place.is_none() {
                self.spoil(call, call.argument(Arg::Comm).unwrap_or_default());
            }
            if call.row.form != Form::Persistent {
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
        let peer = if is_anybody { None } else { Some(u32::try_from(peer).ok()?) };
        let place = self.place(call, call.word(envelope.comm)?);
        Some(Op { id, origin: origin(call), sends, place, peer, tag: call.integer(envelope.tag)? })
    }

    fn start(&mut self, call: &Call, id: CallId) {
        for (part, handle) in (0..).zip(self.handles(call)) {
            let Some(request) = self.requests.startable(call.pid, handle, call.tid) else { continue };
            request.is_active = true;
            request.tid = call.tid;
            let Some(mut op) = request.prepared else { continue };
            op.id = MessageId { call: id, part };
            request.messages = Few::one(op);
            self.post(call, &op);
        }
    }

    fn begin_communicator(&mut self, call: &Call, id: CallId) -> Option<Expected> {
        let handle = call.argument(Arg::Comm)?;
        let place = self.place(call, handle).filter(|_| self.is_complete(call));
        let Some((parent, _)) = place else {
            self.spoil(call, handle);
            return None;
        };
        let integer = |arg| call.argument(arg).map(|word| word as i32);
        let choice = integer(Arg::Color).zip(integer(Arg::Key)).map(|(color, key)| Choice { color, key });
        self.communicators.begin(id.rank, parent, choice)
    }

    /// Puts a message into the order of those of its rank.
    fn post(&mut self, call: &Call, op: &Op) {
        if !self.is_complete(call) {
            return self.give_up(op.id.call.rank);
        }
        let Some((comm, own)) = op.place else { return };
        match (op.sends, op.peer) {
            (true, Some(to)) if !self.is_lost(comm, to) => {
                self.matching.send(comm, (own, to), op.tag, op.side(), &mut self.pairs);
            }
            (true, _) => {}
            (false, source) => {
                self.matching.receive(comm, own, source, op.tag, op.side(), &mut self.pairs);
            }
        }
        self.matched();
    }

    fn is_lost(&self, comm: CommId, rank: u32) -> bool {
        if self.lost.is_empty() {
            return false;
        }
        let member = self.communicators.members(comm).and_then(|members| members.get(rank as usize));
        member.is_none_or(|rank| self.lost.contains(rank))
    }

    /// Tells of the pairs that have become certain.
    fn matched(&mut self) {
        let mut pairs = std::mem::take(&mut self.pairs);
        for (send, receive) in pairs.drain(..) {
            match self.taken.get_mut(&receive.id) {
                Some(taken) => {
                    taken.send = Some(send.id);
                    self.hand_over(receive.id);
                }
                None => self.tell(Event::Matched { send: send.id, receive: receive.id }),
            }
        }
        self.pairs = pairs;
    }

    fn tell(&mut self, event: Event) {
        if self.is_heard {
            self.events.push(event);
        }
    }

    /// A message that a probe took goes to the receive that was given it.
    fn hand_over(&mut self, probe: MessageId) {
        if let Some(Taken { send: Some(send), receive: Some(receive) }) = self.taken.get(&probe).copied() {
            self.tell(Event::Matched { send, receive });
            self.taken.remove(&probe);
        }
    }

    fn over(&mut self, call: &Call, begun: &Begun, code: Option<i32>, time_ns: u64) {
        let Some(id) = self.id(call) else { return };
        match code {
            Some(0) => self.returned(call, id, begun),
            // What a call that failed has done is not known.
            Some(_) => self.to_lose.push(call.pid),
            None => self.not_returned(call),
        }
        if self.is_heard {
            let place = call.argument(Arg::Comm).and_then(|comm| self.place(call, comm));
            let members = place.and_then(|(comm, _)| self.communicators.members(comm)).map(<[u32]>::to_vec);
            let end_ns = code.map(|_| time_ns);
            self.events.push(Event::Call { id, call: Box::new(call.clone()), end_ns, members });
        }
    }

    /// A thread made another call, and the end of this one was not seen.
    fn not_returned(&mut self, call: &Call) {
        if matches!(call.row.does, Does::Complete { .. } | Does::Start | Does::Free | Does::Cancel) {
            self.requests.forget(call.pid);
        }
    }

    fn returned(&mut self, call: &Call, id: CallId, begun: &Begun) {
        match (call.row.does, call.row.form) {
            (Does::Complete { which, .. }, _) => self.completion(call, id, which),
            (Does::ProbeMatched, _) => self.probe(call, id),
            (Does::Free, _) => self.free(call),
            (Does::Cancel, _) => self.cancel(call),
            (Does::MakeCommunicator(making), _) => self.communicator(call, id.rank, making, begun),
            (Does::FreeCommunicator, _) => self.free_communicator(call, id.rank),
            (Does::MakeGroup(how), _) => self.make_group(call, id.rank, how),
            (Does::FreeGroup, _) => {
                if let Some(handle) = self.handle(call, Arg::OldGroup, false) {
                    self.groups.free(id.rank, handle);
                }
            }
            (Does::Partitioned, _) | (_, Form::Persistent) => self.prepared(call, begun),
            (_, Form::Blocking) => {
                let status = self.status(call, Arg::Status, 0);
                begun.ops.iter().for_each(|op| self.complete(op, status.filter(|_| !op.sends), false, id));
            }
            (_, Form::Nonblocking) => self.request(call, id, begun),
        }
    }

    fn prepared(&mut self, call: &Call, begun: &Begun) {
        if let Some(handle) = self.handle(call, Arg::NewRequest, true) {
            let request = Request {
                tid: call.tid,
                origin: origin(call),
                is_active: false,
                messages: Few::default(),
                is_persistent: true,
                prepared: begun.ops.first(),
                is_cancelled: false,
            };
            self.requests.add(call.pid, handle, request);
        }
    }

    fn request(&mut self, call: &Call, id: CallId, begun: &Begun) {
        let Some(handle) = self.handle(call, Arg::NewRequest, true) else { return };
        if self.builtin(call).is_some_and(|builtin| builtin.is_complete_at_once(handle)) {
            let (message, origin) = (begun.ops.first(), origin(call));
            self.requests.add_at_once((call.pid, handle), message, origin, Origin::is_same, Op::is_alike);
            begun.ops.iter().for_each(|op| self.complete(op, None, false, id));
            return;
        }
        let request = Request {
            tid: call.tid,
            origin: origin(call),
            is_active: true,
            messages: begun.ops,
            is_persistent: false,
            prepared: None,
            is_cancelled: false,
        };
        self.requests.add(call.pid, handle, request);
    }

    fn completion(&mut self, call: &Call, id: CallId, which: Which) {
        let requests = if which == Which::One { Arg::Request } else { Arg::Requests };
        if [requests, Arg::Statuses, Arg::Indices].into_iter().any(|arg| call.is_cut(arg)) {
            return self.to_lose.push(call.pid);
        }
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

    /// One of the requests that a call names is complete.
    fn request_over(&mut self, call: &Call, by: CallId, at: usize, status: Option<Status>) {
        let bytes = call.pointed(Arg::Requests, false).or_else(|| call.pointed(Arg::Request, false));
        let Some((builtin, bytes)) = self.builtin(call).zip(bytes) else { return };
        let Some(handle) = builtin.handle_at(bytes, at) else { return };
        if builtin.is_complete_at_once(handle) {
            return self.requests.complete_at_once(call.pid, handle);
        }
        // Who completes a message is mostly the thread that started it: meanwhile another may have been given the
        // same handle.
        let Some(request) = self.requests.complete(call.pid, handle, call.tid) else { return };
        for op in request.messages.iter() {
            self.complete(op, status.filter(|_| !op.sends), request.is_cancelled, by);
        }
    }

    /// A message's buffer is free; of one received from anybody the status says whose it was.
    fn complete(&mut self, op: &Op, status: Option<Status>, is_cancelled: bool, by: CallId) {
        self.tell(Event::Completed { message: op.id, by });
        let Some((comm, own)) = op.place.filter(|_| !op.sends) else { return };
        match status {
            Some(status) if status.cancelled => self.matching.cancel(comm, own, op.side(), &mut self.pairs),
            // Whether it was, nobody was told.
            None if is_cancelled => self.matching.lose(comm, own),
            Some(status) if op.peer.is_none() => {
                if let Ok(source) = u32::try_from(status.source) {
                    let found = (source, status.tag);
                    self.matching.resolve(comm, own, op.side(), found, &mut self.pairs);
                }
            }
            _ => {}
        }
        self.matched();
        self.matching.over(comm, own, op.side());
    }

    fn free(&mut self, call: &Call) {
        let Some(handle) = self.handle(call, Arg::Request, false) else { return };
        self.requests.complete_at_once(call.pid, handle);
        let Some(request) = self.requests.free(call.pid, handle, call.tid) else { return };
        // Nothing more will be heard of it.
        for op in request.messages.iter() {
            match op.place.filter(|_| !op.sends) {
                Some((comm, own)) if request.is_cancelled => self.matching.lose(comm, own),
                Some((comm, own)) => self.matching.over(comm, own, op.side()),
                None => {}
            }
        }
    }

    /// Whether a send that is given up was received nevertheless, only its sender is told.
    fn cancel(&mut self, call: &Call) {
        let Some(handle) = self.handle(call, Arg::Request, false) else { return };
        let Some(request) = self.requests.cancel(call.pid, handle, call.tid) else { return };
        for op in request.messages.iter().filter(|op| op.sends) {
            if let Some(((comm, _), to)) = op.place.zip(op.peer) {
                self.matching.lose(comm, to);
            }
        }
    }

    /// A matched probe takes a message as a receive would that is posted when it returns.
    fn probe(&mut self, call: &Call, id: CallId) {
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
        let Ok(source) = u32::try_from(source) else { return self.matching.lose(comm, own) };
        if self.taken.len() >= MOST_TAKEN {
            return self.matching.lose(comm, own);
        }
        let probe = MessageId { call: id, part: 0 };
        self.probed.insert((call.pid, handle), probe);
        self.taken.insert(probe, Taken::default());
        if self.is_complete(call) {
            let side = Side { id: probe, origin: origin(call) };
            self.matching.receive(comm, own, Some(source), tag, side, &mut self.pairs);
            self.matched();
        }
    }

    fn communicator(&mut self, call: &Call, rank: u32, making: Making, begun: &Begun) {
        let handle = self.handle(call, Arg::NewComm, true);
        let selection = self.selection(call, rank, making.group);
        if making.meeting == Meeting::NewMembers {
            let Some(handle) = handle else { return };
            let parent = call.argument(Arg::Comm).and_then(|comm| self.place(call, comm));
            let tag = call.argument(Arg::MakingTag);
            let known = parent.zip(tag).filter(|_| self.is_complete(call));
            match (known, selection) {
                (Some(((parent, _), tag)), Selection::These(members)) if members.contains(&rank) => {
                    self.communicators.made_alone(rank, parent, tag as i32, &members, handle);
                }
                _ => self.communicators.made_unknown(rank, handle),
            }
            return;
        }
        match begun.communicator {
            Some(expected) => self.communicators.made(rank, expected, &selection, handle),
            None => handle.iter().for_each(|handle| self.communicators.made_unknown(rank, *handle)),
        }
    }

    /// Who is in a new communicator.
    fn selection(&self, call: &Call, rank: u32, group: Group) -> Selection {
        let integer = |arg| call.argument(arg).map(|word| word as i32);
        // Ranks that may be numbered anew are in an order that only the library knows.
        if call.row.position(Arg::Reorder).is_some() && integer(Arg::Reorder) != Some(0) {
            return Selection::Unknown;
        }
        match group {
            Group::Same => Selection::All,
            Group::ByColor => Selection::SameColor,
            Group::Given => self
                .group(call, rank, 0)
                .map_or(Selection::Unknown, |members| Selection::These(members.clone())),
            Group::Grid => points(call).map_or(Selection::Unknown, Selection::First),
            Group::Nodes => {
                let nodes = integer(Arg::Number).and_then(|nodes| usize::try_from(nodes).ok());
                nodes.map_or(Selection::Unknown, Selection::First)
            }
            Group::Unknown => Selection::Unknown,
        }
    }

    fn free_communicator(&mut self, call: &Call, rank: u32) {
        let Some(handle) = self.handle(call, Arg::Comm, false) else { return };
        let Some(comm) = self.communicators.free(rank, handle) else { return };
        let size = self.communicators.members(comm).map_or(0, <[u32]>::len);
        if self.matching.remove(comm, size as u32) {
            self.communicators.remove(comm);
        }
    }

    /// The n-th group that a call is given.
    fn group(&self, call: &Call, rank: u32, n: usize) -> Option<&Members> {
        let positions = call.row.args.iter().enumerate().filter(|(_, arg)| **arg == Arg::Group);
        let (at, _) = positions.clone().nth(n)?;
        self.groups.members(rank, self.builtin(call)?.handle(call.word(at)?))
    }

    fn make_group(&mut self, call: &Call, rank: u32, how: Grouping) {
        let Some(handle) = self.handle(call, Arg::NewGroup, true) else { return };
        let members = self.new_group(call, rank, how);
        self.groups.made(rank, handle, members);
    }

    fn new_group(&mut self, call: &Call, rank: u32, how: Grouping) -> Option<Members> {
        if how == Grouping::OfCommunicator {
            let (comm, _) = self.place(call, call.argument(Arg::Comm)?)?;
            return self.communicators.members_of(comm).cloned();
        }
        let list = match how {
            Grouping::Included | Grouping::Excluded => Some(listed(call, Arg::Ranks, 1)?),
            Grouping::RangesIncluded | Grouping::RangesExcluded => Some(listed(call, Arg::Ranges, 3)?),
            _ => None,
        };
        let first = self.group(call, rank, 0)?;
        let second = if list.is_none() { &self.group(call, rank, 1)?[..] } else { &[] };
        groups::combined(how, first, second, &list.unwrap_or_default())
    }

    /// A rank ends with MPI: whatever it has begun and not come back for will stay so.
    fn finalize(&mut self, call: &Call, rank: u32) {
        if !self.is_complete(call) || self.lost.contains(&rank) || self.ended.contains_key(&rank) {
            return;
        }
        self.ended.insert(rank, self.processes.get(call.process).code.clone());
        let Some(open) = self.requests.open(call.pid) else { return };
        let mut left: Vec<(Origin, Option<Op>, u64)> =
            open.map(|request| (request.origin, request.messages.first(), 1)).collect();
        let at_once = self.requests.open_at_once(call.pid);
        left.extend(at_once.filter_map(|known| Some((known.origin?, known.message, known.open))));
        left.sort_by_key(|(_, op, _)| op.map(|op| op.id));
        for (origin, op, count) in left {
            let mut arguments = op.map_or_else(Vec::new, |op| envelope(op.sends, op.peer, op.tag));
            let comm = op.and_then(|op| op.place).map(|(comm, _)| self.communicator_name(comm));
            arguments.extend(comm.map(|comm| ("comm", comm)));
            self.left.add((LeftWhat::Request, rank), origin, count, None, arguments);
        }
    }

    /// What is left over of ranks that were followed from their beginning to their end with MPI.
    pub fn left_over(&self) -> Vec<LeftOver> {
        let is_certain = |rank: &u32| self.ended.contains_key(rank) && !self.lost.contains(rank);
        let mut sends: Vec<(u32, u32, CommId, i32, Side)> = Vec::new();
        for (comm, from, to, tag, send) in self.matching.never_received() {
            let Some(members) = self.communicators.members(comm) else { continue };
            let Some((from, to)) = members.get(from as usize).zip(members.get(to as usize)) else { continue };
            if [from, to].into_iter().all(is_certain) && self.communicators.is_known_to_all(comm) {
                sends.push((*from, *to, comm, tag, send));
            }
        }
        sends.sort_by_key(|(.., send)| send.id);
        let mut tally = self.left.clone();
        for (from, to, comm, tag, send) in sends {
            let own = self.communicators.members(comm).and_then(|m| m.iter().position(|rank| *rank == to));
            let mut arguments = envelope(true, own.map(|own| own as u32), tag);
            arguments.push(("comm", self.communicator_name(comm)));
            tally.add((LeftWhat::Message, from), send.origin, 1, Some(to), arguments);
        }
        let mut all = tally.all(|rank, address| self.ended.get(&rank)?.place(address));
        all.retain(|left| is_certain(&left.rank));
        all
    }

    /// What a communicator is called.
    pub fn communicator_name(&self, comm: CommId) -> String {
        if comm == WORLD {
            return "MPI_COMM_WORLD".to_owned();
        }
        let size = self.communicators.members(comm).map_or(0, <[u32]>::len);
        format!("number {} of {size} ranks", comm.0)
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

/// Arguments of a call that name a message.
fn envelope(sends: bool, peer: Option<u32>, tag: i32) -> Vec<(&'static str, String)> {
    let peer = peer.map_or_else(|| "MPI_ANY_SOURCE".to_owned(), |peer| peer.to_string());
    let tag = if tag == ANY_TAG { "MPI_ANY_TAG".to_owned() } else { tag.to_string() };
    vec![(if sends { "dest" } else { "source" }, peer), ("tag", tag)]
}

/// Points of the grid that a call makes.
fn points(call: &Call) -> Option<usize> {
    let dimensions = listed(call, Arg::Dimensions, 1)?;
    let sizes = dimensions.iter().map(|size| usize::try_from(*size).ok());
    let points = sizes.into_iter().try_fold(1usize, |all, size| all.checked_mul(size?));
    points.filter(|_| !dimensions.is_empty())
}

/// The list that a call is given, if all of it came; `each`: integers of one element.
fn listed(call: &Call, arg: Arg, each: usize) -> Option<Vec<i32>> {
    let count = call.argument(Arg::Number)? as i32;
    if count == 0 {
        return Some(Vec::new());
    }
    let list: Vec<i32> = integers(call.pointed(arg, false)).collect();
    (usize::try_from(count).ok()?.checked_mul(each)? == list.len()).then_some(list)
}

fn integers(bytes: Option<&[u8]>) -> impl Iterator<Item = i32> {
    let (chunks, _) = bytes.unwrap_or_default().as_chunks::<4>();
    chunks.iter().map(|chunk| i32::from_le_bytes(*chunk))
}
