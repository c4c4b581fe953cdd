//! A reference for the matching of messages: what the standard allows, one step at a time, and nothing else.

use replay::messages::{CollectiveOrder, MessageEnvelope, MessageJournal, Pattern};

/// A call of a made-up program. Requests are named by which of the rank's operations they are.
#[derive(Clone, Debug)]
pub enum Op {
    Send { dest: usize, tag: u32, is_synchronous: bool },
    Isend { dest: usize, tag: u32 },
    Recv { source: Option<usize>, tag: Option<u32> },
    Irecv { source: Option<usize>, tag: Option<u32> },
    Wait(usize),
    Waitany(Vec<usize>),
    Probe { source: Option<usize>, tag: Option<u32> },
    Barrier,
}

pub type Program = Vec<Vec<Op>>;

/// What can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    Begin(usize),
    /// A receive of a rank takes a message: the rank and number of its send.
    Match {
        rank: usize,
        receive: usize,
        message: (usize, usize),
    },
    /// A call ends; with the message that a probe has found, or which of its requests it took.
    End {
        rank: usize,
        call: usize,
        found: Option<(usize, usize)>,
        taken: Option<usize>,
    },
}

#[derive(Clone, Debug)]
struct Sent {
    dest: usize,
    tag: u32,
    is_matched: bool,
    call: usize,
}

#[derive(Clone, Debug)]
struct Posted {
    source: Option<usize>,
    tag: Option<u32>,
    message: Option<(usize, usize)>,
    call: usize,
    is_complete: bool,
}

#[derive(Clone, Copy, Debug)]
enum Request {
    Send,
    Receive(usize),
}

#[derive(Clone, Debug, Default)]
struct RankState {
    /// Calls begun, and whether the last one has not ended.
    begun: usize,
    is_in_call: bool,
    sent: Vec<Sent>,
    posted: Vec<Posted>,
    /// None: complete.
    requests: Vec<Option<Request>>,
    barriers: usize,
}

#[derive(Clone, Debug)]
pub struct Machine<'a> {
    program: &'a Program,
    ranks: Vec<RankState>,
}

impl<'a> Machine<'a> {
    pub fn new(program: &'a Program) -> Self {
        Self { program, ranks: vec![RankState::default(); program.len()] }
    }

    fn op(&self, rank: usize) -> &'a Op {
        &self.program[rank][self.ranks[rank].begun - 1]
    }

    fn admits(source: Option<usize>, tag: Option<u32>, from: usize, sent: &Sent, rank: usize) -> bool {
        sent.dest == rank && source.is_none_or(|s| s == from) && tag.is_none_or(|t| t == sent.tag)
    }

    /// Messages that somebody of this rank who asks so could take: the first of each sender, unless a receive among the
    /// first `before` of the rank is open that takes it.
    fn available(
        &self,
        rank: usize,
        source: Option<usize>,
        tag: Option<u32>,
        before: usize,
    ) -> Vec<(usize, usize)> {
        let first = |from: usize| {
            let sent = &self.ranks[from].sent;
            let at = sent.iter().position(|s| !s.is_matched && Self::admits(source, tag, from, s, rank))?;
            let is_anothers = self.ranks[rank].posted[..before]
                .iter()
                .any(|p| p.message.is_none() && Self::admits(p.source, p.tag, from, &sent[at], rank));
            (!is_anothers).then_some((from, at))
        };
        (0..self.ranks.len()).filter_map(first).collect()
    }

    /// All that can happen next.
    pub fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for (rank, state) in self.ranks.iter().enumerate() {
            if state.is_in_call {
                self.ends(rank, &mut steps);
            } else if state.begun < self.program[rank].len() {
                steps.push(Step::Begin(rank));
            }
            for (receive, posted) in state.posted.iter().enumerate().filter(|(_, p)| p.message.is_none()) {
                for message in self.available(rank, posted.source, posted.tag, receive) {
                    steps.push(Step::Match { rank, receive, message });
                }
            }
        }
        steps
    }

    fn ends(&self, rank: usize, steps: &mut Vec<Step>) {
        let state = &self.ranks[rank];
        let call = state.begun - 1;
        let mut end = |found, taken| steps.push(Step::End { rank, call, found, taken });
        let is_complete = |request: usize| match state.requests[request] {
            Some(Request::Receive(at)) => state.posted[at].message.is_some(),
            Some(Request::Send) | None => true,
        };
        match self.op(rank) {
            Op::Send { is_synchronous: true, .. } => {
                if state.sent.last().is_some_and(|sent| sent.is_matched) {
                    end(None, None);
                }
            }
            Op::Recv { .. } => {
                if state.posted.last().is_some_and(|posted| posted.message.is_some()) {
                    end(None, None);
                }
            }
            Op::Wait(request) => {
                if is_complete(*request) {
                    end(None, None);
                }
            }
            Op::Waitany(requests) => {
                let active: Vec<usize> =
                    (0..requests.len()).filter(|at| state.requests[requests[*at]].is_some()).collect();
                if active.is_empty() {
                    end(None, None);
                }
                active.iter().filter(|at| is_complete(requests[**at])).for_each(|at| end(None, Some(*at)));
            }
            Op::Probe { source, tag } => {
                let messages = self.available(rank, *source, *tag, state.posted.len());
                messages.into_iter().for_each(|message| end(Some(message), None));
            }
            Op::Barrier => {
                if self.ranks.iter().all(|other| other.barriers >= state.barriers) {
                    end(None, None);
                }
            }
            _ => end(None, None),
        }
    }

    pub fn take(&mut self, step: Step) {
        match step {
            Step::Begin(rank) => self.begin(rank),
            Step::Match { rank, receive, message: (from, at) } => {
                self.ranks[from].sent[at].is_matched = true;
                self.ranks[rank].posted[receive].message = Some((from, at));
            }
            Step::End { rank, taken, .. } => {
                let op = self.op(rank);
                let state = &mut self.ranks[rank];
                state.is_in_call = false;
                let done = match op {
                    Op::Wait(request) => Some(*request),
                    Op::Waitany(requests) => taken.map(|at| requests[at]),
                    _ => None,
                };
                if let Some(Request::Receive(at)) = done.and_then(|done| state.requests[done].take()) {
                    state.posted[at].is_complete = true;
                }
                if matches!(op, Op::Recv { .. }) {
                    state.posted.last_mut().expect("it is posted").is_complete = true;
                }
            }
        }
    }

    fn begin(&mut self, rank: usize) {
        let state = &mut self.ranks[rank];
        let call = state.begun;
        state.begun += 1;
        state.is_in_call = true;
        match self.program[rank][call] {
            Op::Send { dest, tag, .. } => state.sent.push(Sent { dest, tag, is_matched: false, call }),
            Op::Isend { dest, tag } => {
                state.sent.push(Sent { dest, tag, is_matched: false, call });
                state.requests.push(Some(Request::Send));
            }
            Op::Recv { source, tag } | Op::Irecv { source, tag } => {
                if matches!(self.program[rank][call], Op::Irecv { .. }) {
                    state.requests.push(Some(Request::Receive(state.posted.len())));
                }
                state.posted.push(Posted { source, tag, message: None, call, is_complete: false });
            }
            Op::Barrier => state.barriers += 1,
            Op::Wait(_) | Op::Waitany(_) | Op::Probe { .. } => {}
        }
    }

    /// The call in which a message was sent, and its tag.
    pub fn sent(&self, message: (usize, usize)) -> (usize, u32) {
        let sent = &self.ranks[message.0].sent[message.1];
        (sent.call, sent.tag)
    }

    /// The call in which a receive was posted, and whether it is from anybody.
    pub fn posted(&self, rank: usize, receive: usize) -> (usize, bool) {
        let posted = &self.ranks[rank].posted[receive];
        (posted.call, posted.source.is_none())
    }

    /// Whether a rank is in a call.
    pub fn is_in(&self, rank: usize, call: usize) -> bool {
        self.ranks[rank].is_in_call && self.ranks[rank].begun == call + 1
    }

    /// The receive behind a request.
    pub fn receive_of(&self, rank: usize, request: usize) -> Option<usize> {
        match self.ranks[rank].requests[request] {
            Some(Request::Receive(at)) => Some(at),
            _ => None,
        }
    }

    /// Writes down what each rank knows of a run.
    pub fn journals(program: &Program, run: &[Step]) -> Vec<Vec<u8>> {
        let mut machine = Machine::new(program);
        let size = program.len() as u32;
        let everybody: Vec<u32> = (0..size).collect();
        let mut journals: Vec<(MessageJournal, Vec<u8>)> = Vec::new();
        for _ in 0..size {
            let (mut journal, mut out) = (MessageJournal::default(), Vec::new());
            journal.new_comm(0, &everybody, &[], &mut out);
            journals.push((journal, out));
        }
        for step in run {
            match *step {
                Step::Begin(rank) => {
                    machine.take(*step);
                    let (journal, out) = &mut journals[rank];
                    journal.call();
                    let requests = machine.ranks[rank].requests.len() as u64;
                    match *machine.op(rank) {
                        Op::Send { dest, tag, is_synchronous } => {
                            journal.send(0, dest as u32, tag, is_synchronous, false, out);
                        }
                        Op::Isend { dest, tag } => {
                            journal.send(0, dest as u32, tag, false, true, out);
                            journal.sent(requests - 1);
                        }
                        Op::Irecv { source, tag } => {
                            let pattern = Pattern { comm: 0, source: source.map(|s| s as u32), tag };
                            journal.posted(0, pattern, requests - 1, out);
                        }
                        Op::Barrier => journal.collective(CollectiveOrder::All, 0, None, out),
                        _ => {}
                    }
                }
                Step::Match { .. } => machine.take(*step),
                Step::End { rank, found, taken, .. } => {
                    let before = machine.clone();
                    machine.take(*step);
                    let (journal, out) = &mut journals[rank];
                    let envelope = |(from, at): (usize, usize)| MessageEnvelope {
                        source: from as u32,
                        tag: before.ranks[from].sent[at].tag,
                    };
                    let message = |receive: usize| before.ranks[rank].posted[receive].message.map(envelope);
                    match before.op(rank) {
                        Op::Recv { source, tag } => {
                            let pattern = Pattern { comm: 0, source: source.map(|s| s as u32), tag: *tag };
                            let got = message(before.ranks[rank].posted.len() - 1);
                            journal.received(0, pattern, false, got, out);
                        }
                        Op::Probe { source, tag } => {
                            let pattern = Pattern { comm: 0, source: source.map(|s| s as u32), tag: *tag };
                            journal.received(0, pattern, true, found.map(envelope), out);
                        }
                        Op::Wait(request) => {
                            let got = before.receive_of(rank, *request).and_then(message);
                            journal.done(*request as u64, got, out);
                        }
                        Op::Waitany(requests) => {
                            let handles: Vec<u64> = requests.iter().map(|r| *r as u64).collect();
                            let taken: Vec<u32> = taken.iter().map(|at| *at as u32).collect();
                            journal.choice(0, &handles, &taken, out);
                            for at in taken {
                                let request = requests[at as usize];
                                let got = before.receive_of(rank, request).and_then(message);
                                journal.done(request as u64, got, out);
                            }
                        }
                        _ => {}
                    }
                }
            }
        }
        // What is known of receives that nobody has waited for.
        for (rank, (journal, out)) in journals.iter_mut().enumerate() {
            for request in 0..machine.ranks[rank].requests.len() {
                let Some(at) = machine.receive_of(rank, request) else { continue };
                if let Some((from, nth)) = machine.ranks[rank].posted[at].message {
                    let tag = machine.ranks[from].sent[nth].tag;
                    journal.decided(request as u64, Some(MessageEnvelope { source: from as u32, tag }), out);
                }
            }
        }
        journals.into_iter().map(|(_, out)| out).collect()
    }
}
