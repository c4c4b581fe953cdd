//! From calls to messages: what each call starts and completes, and which send and receive are one message.

use std::collections::VecDeque;
use std::fmt;

use rustc_hash::{FxHashMap, FxHashSet};

use super::CallId;
use super::assemble::{Assembler, Call, Step};
use super::code::CodeMap;
use super::communicators::{CommId, Communicators, Expected, WORLD};
use super::handles::{ANY_TAG, Builtin, Libraries};
use super::matching::{Matching, Pair};
use super::requests::{Request, Requests};
use super::status::{self, Status};
use crate::calls::{Arg, Does, Envelope, Form, Which};
use crate::input::{CodePlace, Input, MpiFacts, ProcessFacts};
use crate::plan::Plan;
use crate::wire::{Body, FileId, Header, RawRecord, Record};

/// Inputs that wait for a process to be known.
const MOST_HELD: usize = 1 << 18;

/// One message, as one side has it: the call that started it, and which of that call's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct MessageId {
    /// The call.
    pub call: CallId,
    /// From 0: the position in MPI_Startall; 1 for what MPI_Sendrecv receives.
    pub part: u32,
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.call, self.part)
    }
}

/// What was learnt.
#[derive(Clone, Debug)]
pub enum Event {
    /// A call is over; `end_ns`: if it was seen to return.
    Call {
        /// Which.
        id: CallId,
        /// All of it.
        call: Box<Call>,
        /// CLOCK_MONOTONIC.
        end_ns: Option<u64>,
        /// Members of the communicator that it names, as ranks of MPI_COMM_WORLD by their ranks in it.
        members: Option<Vec<u32>>,
    },
    /// A send and the receive that got it.
    Matched {
        /// The send.
        send: MessageId,
        /// The receive.
        receive: MessageId,
    },
    /// The user's buffer is the user's again.
    Completed {
        /// Of this message.
        message: MessageId,
        /// As this call said.
        by: CallId,
    },
}

/// A message of one process.
#[derive(Clone, Copy, Debug)]
struct Op {
    id: MessageId,
    sends: bool,
    /// With the process's own rank in it; `None`: not known.
    place: Option<(CommId, u32)>,
    /// In the communicator; `None`: anybody.
    peer: Option<u32>,
    tag: i32,
}

/// A process of the job.
#[derive(Default)]
struct Process {
    rank: Option<u32>,
    /// When that was found out, CLOCK_MONOTONIC.
    facts_time_ns: u64,
    code: CodeMap,
    builtin: Option<Builtin>,
    /// It was seen to begin with MPI, and nothing of it was missed since.
    complete: bool,
}

/// A message that a matched probe took.
#[derive(Default)]
struct Taken {
    send: Option<MessageId>,
    receive: Option<MessageId>,
}

/// What a thread's call has begun.
#[derive(Default)]
struct Begun {
    ops: Vec<Op>,
    communicator: Option<Expected>,
}

/// Follows calls and messages of a job. Feed it all inputs, in order.
#[derive(Default)]
pub struct Messages {
    libraries: Libraries,
    functions: FxHashMap<u32, String>,
    paths: FxHashMap<FileId, String>,
    processes: FxHashMap<u32, Process>,
    assembler: Assembler,
    communicators: Communicators,
    requests: Requests<Op>,
    matching: Matching<MessageId>,
    begun: FxHashMap<(u32, u32), Begun>,
    /// By process and handle of the message.
    probed: FxHashMap<(u32, u64), MessageId>,
    taken: FxHashMap<MessageId, Taken>,
    lost: FxHashSet<u32>,
    /// Processes that call, and nobody has said yet who they are.
    awaited: FxHashSet<u32>,
    /// What came meanwhile.
    held: VecDeque<Input>,
    /// Nobody ever said who they are.
    strangers: FxHashSet<u32>,
    events: Vec<Event>,
}

impl Messages {
    /// Takes the next input.
    pub fn push(&mut self, input: &Input) {
        match input {
            Input::Process(facts) => {
                self.learn(facts);
                if self.awaited.remove(&facts.pid) {
                    self.go_on();
                }
            }
            Input::Plan(plan) => self.plan(plan),
            Input::End(_) => self.give_up_waiting(),
            _ if self.awaited.is_empty() => self.take(input),
            _ => self.hold(input.clone()),
        }
    }

    /// Until it is known who somebody is who calls, nothing goes on: what others do may be for that rank.
    fn hold(&mut self, input: Input) {
        self.held.push_back(input);
        if self.held.len() > MOST_HELD {
            self.give_up_waiting();
        }
    }

    fn give_up_waiting(&mut self) {
        while !self.held.is_empty() {
            self.strangers.extend(std::mem::take(&mut self.awaited));
            self.go_on();
        }
    }

    fn go_on(&mut self) {
        while self.awaited.is_empty()
            && let Some(input) = self.held.pop_front()
        {
            self.take(&input);
        }
    }

    fn take(&mut self, input: &Input) {
        match input {
            Input::Record(raw) => self.raw(raw),
            Input::LateRecord(raw) => self.lose(raw.pid()),
            Input::Loss(loss) => self.lose(loss.pid),
            Input::Coverage(coverage) if coverage.paused => {
                let all: Vec<u32> = self.processes.keys().copied().collect();
                all.into_iter().for_each(|pid| self.lose_one(pid));
            }
            _ => {}
        }
    }

    /// Takes a record: the same as [`Input::Record`], without a copy of it.
    pub fn push_record(&mut self, raw: &RawRecord) {
        if self.awaited.is_empty() {
            self.raw(raw);
        } else {
            self.hold(Input::Record(*raw));
        }
    }

    /// What was learnt since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Ranks of which not everything was seen: nothing is said of what they received.
    pub fn lost(&self) -> impl Iterator<Item = u32> {
        self.lost.iter().copied()
    }

    /// Where a call returns to.
    pub fn site(&self, call: &Call) -> Option<CodePlace> {
        self.processes.get(&call.pid)?.code.place(call.return_address)
    }

    /// The path of a file, as the job sees it.
    pub fn path(&self, file: FileId) -> Option<&str> {
        self.paths.get(&file).map(String::as_str)
    }

    /// Names and values of the arguments worth showing.
    pub fn shown(&self, call: &Call) -> Vec<(&'static str, String)> {
        let Some(builtin) = self.builtin(call.pid) else { return Vec::new() };
        let value = |at: usize, name: &str| match (name, call.integer(at)) {
            (_, None) => "?".to_owned(),
            ("comm", _) => self.communicator_text(call.pid, call.word(at).unwrap_or_default()),
            ("source", Some(rank)) if rank == builtin.any_source() => "MPI_ANY_SOURCE".to_owned(),
            ("source" | "dest", Some(rank)) if rank == builtin.proc_null() => "MPI_PROC_NULL".to_owned(),
            ("tag" | "recvtag", Some(ANY_TAG)) => "MPI_ANY_TAG".to_owned(),
            (_, Some(number)) => number.to_string(),
        };
        call.row.shown().map(|(at, name)| (name, value(at, name))).collect()
    }

    fn communicator_text(&self, pid: u32, handle: u64) -> String {
        match self.place(pid, handle) {
            Some((WORLD, _)) => "MPI_COMM_WORLD".to_owned(),
            Some((comm, _)) => {
                let size = self.communicators.members(comm).map_or(0, <[u32]>::len);
                format!("number {} of {size} ranks", comm.0)
            }
            None => format!("{handle:#x}"),
        }
    }

    /// Processes that called, of which it was never known which rank they are.
    pub fn strangers(&self) -> usize {
        self.strangers.len()
    }

    fn learn(&mut self, facts: &ProcessFacts) {
        if let Some(size) = facts.size {
            self.communicators.world_has(size);
        }
        let process = self.processes.entry(facts.pid).or_default();
        process.rank = facts.rank;
        process.facts_time_ns = facts.time_ns;
        process.code = CodeMap::default();
        let code = facts.mappings.iter().filter(|mapping| mapping.exec && mapping.file.inode != 0);
        code.for_each(|m| process.code.add(m.start, m.end, m.file, m.offset_bytes));
        process.builtin = self.libraries.builtin(|file| process.code.start_of(file)).or(process.builtin);
    }

    fn plan(&mut self, plan: &Plan) {
        self.libraries.learn(plan);
        self.paths.extend(plan.files.iter().map(|file| (file.id, file.path.clone())));
        self.functions.extend(plan.probes.iter().map(|probe| (probe.id, probe.function.clone())));
    }

    fn raw(&mut self, raw: &RawRecord) {
        let Ok(Record { header, body }) = Record::decode(raw) else { return };
        match body {
            Body::Map { addr, len_bytes, offset_bytes, file, exec: true, has_file: true, .. }
                if !self.is_known_at(&header) =>
            {
                let process = self.processes.entry(header.pid).or_default();
                process.code.add(addr, addr.saturating_add(len_bytes), file, offset_bytes);
            }
            Body::Exec if !self.is_known_at(&header) => {
                self.processes.insert(header.pid, Process::default());
            }
            Body::Exit { .. } => {
                self.assembler.end(header.pid);
                self.requests.forget(header.pid);
                self.processes.remove(&header.pid);
            }
            Body::Call { .. } | Body::Values { .. } | Body::Return { .. } => {
                self.call_record(raw, &header, &body);
            }
            _ => {}
        }
    }

    /// What was found out about a process later holds already.
    fn is_known_at(&self, header: &Header) -> bool {
        self.processes.get(&header.pid).is_some_and(|process| header.time_ns < process.facts_time_ns)
    }

    fn call_record(&mut self, raw: &RawRecord, header: &Header, body: &Body) {
        let Some(function) = self.functions.get(&header.probe).cloned() else { return };
        let is_known = self.processes.get(&header.pid).is_some_and(|process| process.rank.is_some());
        if !is_known && !self.strangers.contains(&header.pid) {
            self.awaited.insert(header.pid);
            // It is the next one, even if it had been held before.
            return self.held.push_front(Input::Record(*raw));
        }
        if matches!(body, Body::Call { nested: false, .. }) {
            self.meet(header.pid, matches!(function.as_str(), "MPI_Init" | "MPI_Init_thread"));
        }
        let mut steps = Vec::new();
        let who = (header.pid, header.tid, header.time_ns);
        self.assembler.record(who, body, &function, |step| steps.push(step));
        for step in steps {
            match step {
                Step::Begun(call) => self.begin(&call),
                Step::Over(call, code) => self.over(call, code.map(|code| (code, header.time_ns))),
            }
        }
    }

    /// A process calls: from now on its library is known, if it ever is.
    fn meet(&mut self, pid: u32, begins: bool) {
        let process = self.processes.entry(pid).or_default();
        process.complete |= begins;
        if process.builtin.is_none() {
            process.builtin = self.libraries.builtin(|file| process.code.start_of(file));
        }
    }

    /// Something of a process was not seen. One that is not known may stand for any: those that start share a ring.
    fn lose(&mut self, pid: u32) {
        if self.processes.get(&pid).is_some_and(|process| process.rank.is_some()) {
            self.lose_one(pid);
        } else {
            let all: Vec<u32> = self.processes.keys().copied().collect();
            all.into_iter().for_each(|pid| self.lose_one(pid));
        }
    }

    fn lose_one(&mut self, pid: u32) {
        self.assembler.forget(pid);
        self.requests.forget(pid);
        self.begun.retain(|key, _| key.0 != pid);
        let Some(process) = self.processes.get_mut(&pid) else { return };
        process.complete = false;
        let Some(rank) = process.rank else { return };
        if self.lost.insert(rank) {
            for (comm, own) in self.communicators.places(rank) {
                self.matching.lose(comm, own);
            }
            self.communicators.forget(rank);
        }
    }

    fn id(&self, call: &Call) -> Option<CallId> {
        let rank = self.processes.get(&call.pid)?.rank?;
        Some(CallId { rank, tid: call.tid, number: call.number })
    }

    /// How the library of a process calls things, if that is known.
    pub(crate) fn library(&self, pid: u32) -> Option<MpiFacts> {
        self.builtin(pid).map(|builtin| builtin.facts())
    }

    fn builtin(&self, pid: u32) -> Option<Builtin> {
        self.processes.get(&pid)?.builtin
    }

    /// The communicator of a handle, and the process's rank in it.
    fn place(&self, pid: u32, handle: u64) -> Option<(CommId, u32)> {
        let process = self.processes.get(&pid)?;
        let (rank, builtin) = process.rank.zip(process.builtin)?;
        if builtin.is_world(handle) {
            return Some((WORLD, rank));
        }
        let comm = self.communicators.of(rank, builtin.handle(handle))?;
        let own = self.communicators.members(comm)?.iter().position(|member| *member == rank)?;
        Some((comm, own as u32))
    }

    /// Of what was done in a communicator before its members were known, a part is missing.
    fn spoil(&mut self, pid: u32, handle: u64) {
        let Some((rank, builtin)) =
            self.processes.get(&pid).and_then(|process| process.rank.zip(process.builtin))
        else {
            return;
        };
        if let Some(comm) = self.communicators.of(rank, builtin.handle(handle)) {
            self.communicators.spoil(comm);
        }
    }

    fn begin(&mut self, call: &Call) {
        let Some(id) = self.id(call) else { return self.lose(call.pid) };
        let key = (call.pid, call.tid);
        match call.row.does {
            Does::Send(_) | Does::Receive | Does::Exchange => {
                let ops = self.ops(call, id);
                if ops.iter().any(|op| op.place.is_none()) {
                    let comm = call.row.position(Arg::Comm).and_then(|at| call.word(at));
                    self.spoil(call.pid, comm.unwrap_or_default());
                }
                if call.row.form != Form::Persistent {
                    ops.iter().for_each(|op| self.post(call.pid, op));
                }
                self.begun.insert(key, Begun { ops, communicator: None });
            }
            Does::Start => self.start(call, id),
            Does::ReceiveMatched => {
                let message = self.handle(call, Arg::Message, false);
                let probe = message.and_then(|handle| self.probed.remove(&(call.pid, handle)));
                let receive = MessageId { call: id, part: 0 };
                if let Some(probe) = probe {
                    self.taken.entry(probe).or_default().receive = Some(receive);
                    self.hand_over(probe);
                }
                let op = Op { id: receive, sends: false, place: None, peer: None, tag: ANY_TAG };
                self.begun.insert(key, Begun { ops: vec![op], communicator: None });
            }
            Does::MakeCommunicator(making) => {
                let Some(comm) = call.row.position(Arg::Comm).and_then(|at| call.word(at)) else { return };
                let complete = self.processes.get(&call.pid).is_some_and(|process| process.complete);
                let Some((parent, _)) = self.place(call.pid, comm).filter(|_| complete) else {
                    return self.spoil(call.pid, comm);
                };
                let argument = |arg| call.row.position(arg).and_then(|at| call.integer(at));
                let choice = (argument(Arg::Color), argument(Arg::Key));
                let expected = self.communicators.begin(id.rank, parent, making.group, choice);
                self.begun.insert(key, Begun { ops: Vec::new(), communicator: Some(expected) });
            }
            _ => {}
        }
    }

    /// Messages that a call is about: what it sends first.
    fn ops(&self, call: &Call, id: CallId) -> Vec<Op> {
        let Some(builtin) = self.builtin(call.pid) else { return Vec::new() };
        let sides = [(call.row.sends(), true), (call.row.receives(), false)];
        let op = |(envelope, sends): (Option<Envelope>, bool)| {
            let envelope = envelope?;
            let part = u32::from(!sends && call.row.sends().is_some());
            let peer = call.integer(envelope.peer)?;
            if peer == builtin.proc_null() {
                return None;
            }
            let peer =
                if !sends && peer == builtin.any_source() { None } else { Some(u32::try_from(peer).ok()?) };
            Some(Op {
                id: MessageId { call: id, part },
                sends,
                place: self.place(call.pid, call.word(envelope.comm)?),
                peer,
                tag: call.integer(envelope.tag)?,
            })
        };
        sides.into_iter().filter_map(op).collect()
    }

    fn start(&mut self, call: &Call, id: CallId) {
        let handles = self.handles(call);
        for (part, handle) in (0..).zip(handles) {
            let Some(request) = self.requests.startable(call.pid, handle, by(call.tid)) else {
                continue;
            };
            let Some(mut op) = request.prepared else { continue };
            op.id = MessageId { call: id, part };
            request.messages = vec![op];
            self.post(call.pid, &op);
        }
    }

    /// Puts a message into the order of those of its rank.
    fn post(&mut self, pid: u32, op: &Op) {
        let complete = self.processes.get(&pid).is_some_and(|process| process.complete);
        if !complete {
            self.lost.insert(op.id.call.rank);
            return;
        }
        let Some((comm, own)) = op.place else { return };
        let pairs = match (op.sends, op.peer) {
            (true, Some(to)) => self.matching.send(comm, (own, to), op.tag, op.id),
            (true, None) => return,
            (false, source) => self.matching.receive(comm, own, source, op.tag, op.id),
        };
        self.matched(pairs);
    }

    fn matched(&mut self, pairs: Vec<Pair<MessageId>>) {
        for (send, receive) in pairs {
            match self.taken.get_mut(&receive) {
                Some(taken) => {
                    taken.send = Some(send);
                    self.hand_over(receive);
                }
                None => self.events.push(Event::Matched { send, receive }),
            }
        }
    }

    /// A message that a probe took goes to the receive that was given it.
    fn hand_over(&mut self, probe: MessageId) {
        if let Some(Taken { send: Some(send), receive: Some(receive) }) = self.taken.get(&probe) {
            self.events.push(Event::Matched { send: *send, receive: *receive });
            self.taken.remove(&probe);
        }
    }

    fn over(&mut self, call: Call, returned: Option<(i32, u64)>) {
        let begun = self.begun.remove(&(call.pid, call.tid)).unwrap_or_default();
        let Some(id) = self.id(&call) else { return };
        if let Some((code, _)) = returned {
            if code != 0 {
                // What a call that failed has done is not known.
                self.lose(call.pid);
            } else {
                self.returned(&call, id, begun);
            }
        }
        let comm = call.row.position(Arg::Comm).and_then(|at| call.word(at));
        let place = comm.and_then(|comm| self.place(call.pid, comm));
        let members = place.and_then(|(comm, _)| self.communicators.members(comm)).map(<[u32]>::to_vec);
        let end_ns = returned.map(|(_, time_ns)| time_ns);
        self.events.push(Event::Call { id, call: Box::new(call), end_ns, members });
    }

    fn returned(&mut self, call: &Call, id: CallId, begun: Begun) {
        match (call.row.does, call.row.form) {
            (Does::Complete { which, .. }, _) => self.completion(call, id, which),
            (Does::ProbeMatched, _) => self.probe(call, id),
            (Does::Free, _) => {
                for handle in self.handles(call) {
                    let messages = self.requests.free(call.pid, handle, by(call.tid));
                    messages.iter().for_each(|op| self.unseen(op));
                }
            }
            (Does::MakeCommunicator(_), _) => {
                let handle = self.handle(call, Arg::NewComm, true);
                if let Some((expected, handle)) = begun.communicator.zip(handle) {
                    self.communicators.made(id.rank, expected, handle);
                }
            }
            (Does::FreeCommunicator, _) => {
                if let Some(handle) = self.handle(call, Arg::Comm, false) {
                    self.communicators.free(id.rank, handle);
                }
            }
            (_, Form::Blocking) => {
                let status = self.status(call, Arg::Status, 0);
                begun.ops.iter().for_each(|op| self.complete(op, status.filter(|_| !op.sends), id));
            }
            (_, Form::Nonblocking) => self.request(call, id, begun.ops),
            (_, Form::Persistent) => {
                if let Some(handle) = self.handle(call, Arg::NewRequest, true) {
                    let prepared = begun.ops.first().copied();
                    self.requests.add(call.pid, handle, Request { messages: Vec::new(), prepared });
                }
            }
        }
    }

    fn request(&mut self, call: &Call, id: CallId, messages: Vec<Op>) {
        let Some(handle) = self.handle(call, Arg::NewRequest, true) else { return };
        if self.builtin(call.pid).is_some_and(|builtin| builtin.is_complete_at_once(handle)) {
            messages.iter().for_each(|op| self.complete(op, None, id));
            return;
        }
        self.requests.add(call.pid, handle, Request { messages, prepared: None });
    }

    fn completion(&mut self, call: &Call, id: CallId, which: Which) {
        let requests = if which == Which::One { Arg::Request } else { Arg::Requests };
        if call.is_cut(requests) || call.is_cut(Arg::Statuses) || call.is_cut(Arg::Indices) {
            return self.lose(call.pid);
        }
        let handles = self.handles(call);
        // Which of the requests, and which of the statuses is its own.
        let done: Vec<(usize, Option<Status>)> = match which {
            Which::One => vec![(0, self.status(call, Arg::Status, 0))],
            Which::All => (0..handles.len()).map(|at| (at, self.status(call, Arg::Statuses, at))).collect(),
            Which::Any => {
                let index = integers(call.pointed(Arg::Index, true)).next();
                let index = index.and_then(|index| usize::try_from(index).ok());
                index.map(|at| (at, self.status(call, Arg::Status, 0))).into_iter().collect()
            }
            Which::Some => integers(call.pointed(Arg::Indices, true))
                .enumerate()
                .filter_map(|(n, at)| Some((usize::try_from(at).ok()?, self.status(call, Arg::Statuses, n))))
                .collect(),
        };
        for (at, status) in done {
            let Some(&handle) = handles.get(at) else { continue };
            for op in self.requests.complete(call.pid, handle, by(call.tid)) {
                self.complete(&op, status.filter(|_| !op.sends), id);
            }
        }
    }

    /// A message's buffer is free; of one received from anybody the status says whose it was.
    fn complete(&mut self, op: &Op, status: Option<Status>, by: CallId) {
        self.events.push(Event::Completed { message: op.id, by });
        let Some((comm, own)) = op.place.filter(|_| !op.sends) else { return };
        let pairs = match status {
            Some(status) if status.cancelled => self.matching.cancel(comm, own, op.id),
            Some(status) if op.peer.is_none() => match u32::try_from(status.source) {
                Ok(source) => self.matching.resolve(comm, own, op.id, (source, status.tag)),
                Err(_) => Vec::new(),
            },
            _ => Vec::new(),
        };
        self.matched(pairs);
        self.unseen(op);
    }

    /// Nothing more will be heard of a message.
    fn unseen(&mut self, op: &Op) {
        if let Some((comm, own)) = op.place.filter(|_| !op.sends) {
            self.matching.over(comm, own, op.id);
        }
    }

    /// A matched probe takes a message as a receive would that is posted when it returns.
    fn probe(&mut self, call: &Call, id: CallId) {
        let Some(envelope) = call.row.receives() else { return };
        let known = call.integer(envelope.peer).zip(call.integer(envelope.tag)).zip(call.word(envelope.comm));
        let Some(((peer, tag), comm)) = known else { return };
        let Some((builtin, handle)) = self.builtin(call.pid).zip(self.handle(call, Arg::NewMessage, true))
        else {
            return;
        };
        let Some((comm, own)) = self.place(call.pid, comm).filter(|_| peer != builtin.proc_null()) else {
            return;
        };
        let status = self.status(call, Arg::Status, 0);
        let source = status.map_or(peer, |status| status.source);
        let tag = status.map_or(tag, |status| status.tag);
        let Ok(source) = u32::try_from(source) else { return self.matching.lose(comm, own) };
        let probe = MessageId { call: id, part: 0 };
        self.probed.insert((call.pid, handle), probe);
        self.taken.insert(probe, Taken::default());
        if self.processes.get(&call.pid).is_some_and(|process| process.complete) {
            let pairs = self.matching.receive(comm, own, Some(source), tag, probe);
            self.matched(pairs);
        }
    }

    fn handle(&self, call: &Call, arg: Arg, at_return: bool) -> Option<u64> {
        self.builtin(call.pid)?.handles(call.pointed(arg, at_return)?).next()
    }

    /// Handles of the requests that a call names, as they were at its entry.
    fn handles(&self, call: &Call) -> Vec<u64> {
        let bytes = call.pointed(Arg::Requests, false).or_else(|| call.pointed(Arg::Request, false));
        let all = self.builtin(call.pid).zip(bytes).map(|(builtin, bytes)| builtin.handles(bytes).collect());
        all.unwrap_or_default()
    }

    fn status(&self, call: &Call, arg: Arg, index: usize) -> Option<Status> {
        status::read(call.pointed(arg, true)?, index, self.builtin(call.pid)?.kind)
    }
}

/// Who completes a message is mostly the thread that started it: meanwhile another may have been given the same
/// handle.
fn by(tid: u32) -> impl Fn(&Op) -> bool {
    move |op| op.id.call.tid == tid
}

fn integers(bytes: Option<&[u8]>) -> impl Iterator<Item = i32> {
    let (chunks, _) = bytes.unwrap_or_default().as_chunks::<4>();
    chunks.iter().map(|chunk| i32::from_le_bytes(*chunk))
}
