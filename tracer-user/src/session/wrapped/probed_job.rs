//! The job on the tape of a session, as replays need it: what probes saw of its calls.

use std::collections::{BTreeMap, HashMap, HashSet};

use analyzer::input::{Input, ProcessFacts};
use analyzer::messages::{Call, CallCommunicator, CallId, CallResult, MessageEvent, MessageId, Messages};
use analyzer::tape::{RankAnswers, RankMessages, ReplayableRank, node_of};
use analyzer::wire::{Body, RawRecord, Record};
use replay::messages::MessageEnvelope;
use replay::shared_page::SEVERAL_THREADS;
use replay::thread_name::FIRST_THREAD;

use super::probed_copies::RecentCopies;
use super::probed_journal::{ProbedCommunicators, SendEnvelope};
use super::probed_messages::{ProbedMessages, ToldCall};
use super::probed_rank::{ProbedRank, SeenCall};
use super::probed_threads::{ProbedThreads, ThreadLevel};
use super::swap::ExchangePoint;

/// What is wanted of a record beside the answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordWishes {
    /// Envelopes of messages, for races.
    pub messages: bool,
    /// The order of all ranks' calls.
    pub order: bool,
}

/// Where a call returns to: a file, and how far into it.
pub type FindPlace<'a> = &'a dyn Fn(&Call) -> Option<(String, u64)>;

/// Gathered from a tape.
#[derive(Default)]
pub struct ProbedJob {
    wishes: RecordWishes,
    /// By number of the probe.
    probes: HashMap<u32, ProbedCall>,
    /// When the session began, CLOCK_MONOTONIC.
    begin_ns: u64,
    processes: BTreeMap<u32, ProcessFacts>,
    /// Processes that were seen to begin with MPI.
    begun: HashSet<u32>,
    /// Of processes.
    threads: HashMap<u32, ProbedThreads>,
    /// Of those that have several threads.
    copies: HashMap<u32, RecentCopies>,
    /// Processes of ranks whose calls were told.
    pids: HashMap<u32, u32>,
    ranks: BTreeMap<u32, ProbedRank>,
    /// By rank: bits of what was used that no record covers.
    uncovered: BTreeMap<u32, u32>,
    /// Sends by the receives that got their messages.
    sent: HashMap<MessageId, SendEnvelope>,
    /// Tags of sends whose receives are not known, if messages are wanted.
    tags: HashMap<MessageId, u32>,
    /// Of ranks, if they are wanted.
    messages: BTreeMap<u32, ProbedMessages>,
    communicators: ProbedCommunicators,
    /// The MPI library, once it is known.
    library: Option<&'static str>,
    /// The first reason why not all was seen.
    missing: Option<String>,
}

/// What a call means for a record, beside what it answers.
#[derive(Clone, Copy)]
enum ProbedCall {
    /// The process begins with MPI, and says which threads may call.
    Begins { says_level: bool },
    /// It uses what no record covers: a bit.
    Uncovered(u32),
}

impl ProbedCall {
    fn of(function: &str) -> Option<Self> {
        Some(match function {
            "MPI_Init" => Self::Begins { says_level: false },
            "MPI_Init_thread" => Self::Begins { says_level: true },
            "MPI_Win_create" | "MPI_Win_allocate" | "MPI_Win_allocate_shared" | "MPI_Win_create_dynamic" => {
                Self::Uncovered(0)
            }
            "MPI_Comm_spawn" | "MPI_Comm_spawn_multiple" | "MPI_Comm_connect" | "MPI_Comm_accept" => {
                Self::Uncovered(1)
            }
            "MPI_File_open" => Self::Uncovered(2),
            "MPI_Session_init" => Self::Uncovered(4),
            "MPI_Isendrecv" | "MPI_Isendrecv_replace" => Self::Uncovered(5),
            _ => return None,
        })
    }
}

impl ProbedJob {
    /// One of which this is wanted.
    pub fn new(wishes: RecordWishes) -> Self {
        Self { wishes, ..Self::default() }
    }

    /// Takes the next input that is no record.
    pub fn push(&mut self, input: &Input) {
        match input {
            Input::Start(start) => self.begin_ns = start.time_ns,
            Input::Process(facts) => {
                self.processes.insert(facts.pid, (**facts).clone());
            }
            Input::Plan(plan) => {
                let calls =
                    plan.probes.iter().filter_map(|probe| Some((probe.id, ProbedCall::of(&probe.function)?)));
                self.probes.extend(calls);
            }
            Input::Loss(loss) if loss.calls > 0 => {
                self.miss(loss.from_ns, &format!("records of process {} were lost", loss.pid));
            }
            Input::LateRecord(record) => self.miss(record.time_ns(), "a record came too late for its place"),
            Input::Coverage(coverage) if coverage.paused => {
                self.miss(coverage.time_ns, "the session paused, to keep its budget");
            }
            Input::Coverage(coverage) if coverage.off.iter().any(|probe| self.probes.contains_key(probe)) => {
                self.miss(coverage.time_ns, "some probes were taken out, to keep the budget");
            }
            _ => {}
        }
    }

    /// Takes the next record.
    pub fn push_record(&mut self, raw: &RawRecord) {
        let Ok(Record { header, body }) = Record::decode(raw) else { return };
        let args = match body {
            Body::Thread { child, in_call } => {
                let threads = self.threads.entry(header.pid).or_default();
                threads.created(header.pid, header.tid, child, in_call, header.time_ns);
                if threads.are_several(header.time_ns) {
                    self.copies.entry(header.pid).or_default();
                }
                return;
            }
            Body::Copy { .. } | Body::Pack { .. } | Body::Cross { .. } => {
                if let Some(copies) = self.copies.get_mut(&header.pid) {
                    copies.take(&body, header.time_ns);
                }
                return;
            }
            Body::Exec => {
                self.threads.remove(&header.pid);
                self.copies.remove(&header.pid);
                return;
            }
            Body::Call { args, .. } => args,
            _ => return,
        };
        match self.probes.get(&header.probe) {
            Some(ProbedCall::Begins { says_level }) => {
                let level = if *says_level { ThreadLevel::asked_for(args[2]) } else { ThreadLevel::One };
                self.threads.entry(header.pid).or_default().begin_mpi(header.pid, header.tid, level);
                self.begun.insert(header.pid);
            }
            Some(ProbedCall::Uncovered(bit)) => {
                if let Some(rank) = self.processes.get(&header.pid).and_then(|facts| facts.rank) {
                    *self.uncovered.entry(rank).or_default() |= 1 << bit;
                }
            }
            None => {}
        }
    }

    fn miss(&mut self, time_ns: u64, what: &str) {
        let after_s = time_ns.saturating_sub(self.begin_ns) as f64 / 1e9;
        self.missing.get_or_insert_with(|| format!("{what}, {after_s:.3} s after the session began"));
    }

    /// Takes what was learnt of calls and messages.
    pub fn learn(&mut self, messages: &Messages, event: MessageEvent, find: FindPlace) {
        match event {
            MessageEvent::Call { id, call, end_ns, communicator, .. } => {
                let result = messages.result(&call);
                if self.wishes.messages {
                    self.learn_messages(messages, (id, &call), communicator.as_ref(), result.as_ref(), find);
                }
                self.library = self.library.or_else(|| messages.library_name(call.pid));
                let threads = self.threads.get(&call.pid);
                let seen = SeenCall {
                    id,
                    call: &call,
                    end_ns,
                    is_ordered: self.wishes.order,
                    result,
                    communicator: communicator.map(|known| (known.number, known.peers().to_vec())),
                    thread: match threads {
                        Some(threads) => threads.name(call.pid, id.tid),
                        None => (call.pid == id.tid).then_some(FIRST_THREAD),
                    },
                    copies: threads
                        .filter(|threads| threads.are_several(call.begin_ns))
                        .and_then(|_| self.copies.get(&call.pid)),
                };
                self.pids.insert(id.rank, call.pid);
                self.ranks.entry(id.rank).or_default().call(seen);
            }
            MessageEvent::Matched { send, receive } => {
                let tag = self.tags.remove(&send).unwrap_or(0);
                self.sent.insert(receive, SendEnvelope { rank: send.call.rank, tag });
            }
            MessageEvent::Completed { message, by, facts, cancelled } => {
                if self.wishes.messages {
                    self.messages.entry(by.rank).or_default().completes(message, &facts, cancelled);
                }
                if facts.sends {
                    return;
                }
                let copies = self.pids.get(&message.call.rank).and_then(|pid| self.copies.get(pid));
                if let Some((copies, rank)) = copies.zip(self.ranks.get_mut(&message.call.rank)) {
                    rank.received(message, by, facts.peer, copies);
                }
            }
            MessageEvent::Posted { message, facts, time_ns } => {
                if self.wishes.messages {
                    let tag = facts.tag.filter(|_| facts.sends).and_then(|tag| u32::try_from(tag).ok());
                    self.tags.extend(tag.map(|tag| (message, tag)));
                    self.messages.entry(message.call.rank).or_default().posts(message, facts);
                }
                let threads = self.pids.get(&message.call.rank).and_then(|pid| self.threads.get(pid));
                if threads.is_some_and(|threads| threads.are_several(time_ns))
                    && let Some(rank) = self.ranks.get_mut(&message.call.rank)
                {
                    rank.posts(message, &facts);
                }
            }
            MessageEvent::Entered { .. }
            | MessageEvent::EpochAwaited { .. }
            | MessageEvent::CollectiveCompleted { .. } => {}
        }
    }

    /// Takes what a call says of messages.
    fn learn_messages(
        &mut self,
        messages: &Messages,
        (id, call): (CallId, &Call),
        communicator: Option<&CallCommunicator>,
        result: Option<&CallResult>,
        find: FindPlace,
    ) {
        communicator.into_iter().for_each(|communicator| self.communicators.learn(communicator));
        let (choice, done) = match result {
            Some(CallResult::Completed(choice, done)) => (Some(choice.clone()), &done[..]),
            _ => (None, &[][..]),
        };
        let envelope = messages.received_envelope(call);
        let told = ToldCall {
            call,
            communicator: communicator.map(|communicator| communicator.number),
            choice,
            done: done.iter().map(|done| done.request).collect(),
            handles: messages.request_handles(call),
            envelope: envelope.map(|(source, tag)| MessageEnvelope { source, tag }),
        };
        self.messages.entry(id.rank).or_default().call(&told, || find(call));
    }

    /// Whether the tape is that of a session.
    pub fn is_of_session(&self) -> bool {
        !self.processes.is_empty() || !self.probes.is_empty()
    }

    /// Its ranks with their records, and what people must know of them; or why it cannot be replayed.
    ///
    /// # Errors
    /// Why not.
    pub fn replayable(self, messages: &Messages) -> Result<ProbedTape, String> {
        let is_rank = |facts: &&ProcessFacts| facts.rank.is_some() && self.begun.contains(&facts.pid);
        let processes: BTreeMap<u32, &ProcessFacts> =
            self.processes.values().filter(is_rank).filter_map(|facts| Some((facts.rank?, facts))).collect();
        if let Some(rank) = self.ranks.keys().find(|rank| !processes.contains_key(rank)) {
            return Err(format!(
                "rank {rank} was not traced from MPI_Init on; a replay needs all of a job: start it with `dmscope run --replayable`"
            ));
        }
        if let Some(missing) = self.missing {
            return Err(format!(
                "{missing}; a replay needs all of a job's calls. `dmscope run --replayable` never pauses"
            ));
        }
        let no_threads = ProbedThreads::default();
        let threads_of = |pid: u32| self.threads.get(&pid).unwrap_or(&no_threads);
        let stopped = processes
            .iter()
            .find_map(|(rank, facts)| Some((rank, self.ranks.get(rank)?.stopped(threads_of(facts.pid))?)));
        if let Some((rank, why)) = stopped {
            return Err(format!(
                "rank {rank}: {why}. Results of calls are recorded with `dmscope run --replayable --record TAPE -- COMMAND`"
            ));
        }
        if messages.strangers() > 0 {
            return Err("processes made MPI calls of which it is not known which ranks they are".to_owned());
        }
        let size = processes.values().filter_map(|facts| facts.size).max();
        let size = size.or_else(|| processes.keys().max().map(|rank| rank + 1)).unwrap_or(0);
        let mut positions = self.positions();
        let mut tape = ProbedTape::default();
        let nothing = ProbedRank::default();
        let tags_matter = !self.ranks.values().any(ProbedRank::takes_any_tag);
        for (rank, facts) in processes {
            let probed = self.ranks.get(&rank).unwrap_or(&nothing);
            let record = probed.record(
                threads_of(facts.pid),
                tags_matter,
                positions.remove(&rank).unwrap_or_default(),
                |receive| Some(self.sent.get(&receive)?.rank),
            );
            let threads = u32::from(probed.has_several_threads()) << SEVERAL_THREADS;
            tape.unknown += record.unknown;
            tape.unordered += record.unordered;
            tape.ranks.push(ReplayableRank {
                rank,
                size,
                pid: facts.namespace_pid,
                library: self.library.unwrap_or_default().to_owned(),
                program: facts.exe.clone(),
                uncovered: self.uncovered.get(&rank).copied().unwrap_or(0) | threads,
                ..ReplayableRank::default()
            });
            if let Some(messages) = self.messages_of(rank) {
                tape.points.extend(self.messages.get(&rank).into_iter().flat_map(ProbedMessages::points));
                tape.messages.push(RankMessages { rank, offset_bytes: 0, bytes: messages });
            }
            tape.answers.push(RankAnswers { rank, bytes: record.bytes, ..RankAnswers::default() });
        }
        Ok(tape)
    }

    /// The journal of a rank's messages, if it is wanted, and of ranks with one thread each.
    fn messages_of(&self, rank: u32) -> Option<Vec<u8>> {
        if !self.wishes.messages || self.ranks.values().any(ProbedRank::has_several_threads) {
            return None;
        }
        let none = ProbedMessages::default();
        let messages = self.messages.get(&rank).unwrap_or(&none);
        Some(messages.journal(rank, &self.communicators, |receive| self.sent.get(&receive).copied()))
    }

    /// The positions of each rank's calls among those of all ranks, if these are wanted: by when they ended, by the clock of one node.
    fn positions(&self) -> BTreeMap<u32, Vec<u64>> {
        let nodes: HashSet<usize> = self.begun.iter().map(|pid| node_of(*pid)).collect();
        if !self.wishes.order || nodes.len() > 1 {
            return BTreeMap::new();
        }
        let ends =
            self.ranks.iter().flat_map(|(rank, probed)| probed.ends_ns().map(|end_ns| (end_ns, *rank)));
        let mut ends: Vec<(u64, u32)> = ends.collect();
        ends.sort_unstable();
        let mut positions: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for ((_, rank), position) in ends.into_iter().zip(0..) {
            positions.entry(rank).or_default().push(position);
        }
        positions
    }
}

/// What replays need, made from what probes saw.
#[derive(Debug, Default)]
pub struct ProbedTape {
    /// The ranks.
    pub ranks: Vec<ReplayableRank>,
    /// What their calls answered.
    pub answers: Vec<RankAnswers>,
    /// Their messages, if they were wanted.
    pub messages: Vec<RankMessages>,
    /// Where receives from anybody were posted, as a replay names it.
    pub points: HashMap<MessageId, ExchangePoint>,
    /// Messages received from anybody of which it is not known whose they were.
    pub unknown: u64,
    /// Posts of several threads of a rank whose order matters and is not known.
    pub unordered: u64,
}
