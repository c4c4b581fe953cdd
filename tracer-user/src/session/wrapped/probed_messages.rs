//! Envelopes of one rank's messages as probes saw them: what the analysis of races needs.
//!
//! ```text
//! calls, messages posted and completed → steps of a rank → journal, as the wrapper writes it
//! ```
//!
//! The wrapper writes a journal while the rank runs. Here it is written at the end of the tape, when it is known whose messages those were
//! of which no status told, and which communicators there are.

use std::collections::{BTreeMap, HashMap};

use analyzer::calls::{Arg, Does, Form, Mode};
use analyzer::messages::{Call, CallCommunicator, CompletionChoice, MessageFacts, MessageId, RequestHandles};
use replay::messages::{CollectiveOrder, MessageEnvelope, MessageJournal, Pattern};

use super::call_names::numbered;

/// Of a rank with one thread.
#[derive(Debug, Default)]
pub(super) struct ProbedMessages {
    steps: Vec<MessageStep>,
    /// What the call that is not told yet has posted, and completed.
    posted: Vec<(MessageId, MessageFacts)>,
    completed: Vec<(MessageId, ReceivedFrom)>,
    /// What open requests stand for.
    requests: HashMap<u64, OpenRequest>,
    prepared: HashMap<u64, PreparedRequest>,
    /// Files and offsets of the places that calls return to.
    places: HashMap<ReturnPlace, (String, u64)>,
}

/// A call that was told, and what is known of it beside its records.
pub(super) struct ToldCall<'a> {
    pub call: &'a Call,
    /// Number of the communicator that it names.
    pub communicator: Option<u32>,
    /// Which of several requests it took, and all that it has completed.
    pub choice: Option<CompletionChoice>,
    pub done: Vec<u64>,
    pub handles: RequestHandles,
    /// What a probe has found.
    pub envelope: Option<MessageEnvelope>,
}

/// Who sent the message that a receive got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReceivedFrom {
    /// A rank of MPI_COMM_WORLD, with this tag.
    Told(SendEnvelope),
    /// The sends tell, or nothing does.
    Untold,
    /// It was cancelled, or was a send.
    Nobody,
}

/// A send, as its receiver is to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SendEnvelope {
    /// Of MPI_COMM_WORLD.
    pub rank: u32,
    pub tag: u32,
}

/// Libraries give what is complete at once the same request: sends, and what is for MPI_PROC_NULL, which is no message. The oldest is taken
/// to complete first.
#[derive(Debug, Default)]
struct OpenRequest {
    may_share: bool,
    messages: Vec<Option<MessageId>>,
}

#[derive(Clone, Copy, Debug)]
struct PreparedRequest {
    is_synchronous: bool,
    place: ReturnPlace,
}

/// A place that a call returns to, in the space of the process, and the wrapper's number of the call.
type ReturnPlace = (u64, u32);

#[derive(Debug)]
enum MessageStep {
    /// So many calls begin.
    Calls(u64),
    Send {
        message: MessageId,
        facts: MessageFacts,
        is_synchronous: bool,
        has_request: bool,
    },
    /// A receive is over.
    Received {
        message: MessageId,
        facts: MessageFacts,
        place: ReturnPlace,
        sender: ReceivedFrom,
    },
    /// A probe has found a message, and taken it if it is a matched one.
    Probed {
        pattern: Pattern,
        place: ReturnPlace,
        takes: bool,
        found: Option<MessageEnvelope>,
    },
    Posted {
        message: MessageId,
        facts: MessageFacts,
        place: ReturnPlace,
    },
    Done {
        message: MessageId,
        sender: ReceivedFrom,
    },
    Choice {
        place: ReturnPlace,
        offered: Vec<Option<MessageId>>,
        taken: Vec<u32>,
    },
    Collective {
        order: CollectiveOrder,
        comm: u32,
        root: Option<u32>,
    },
}

/// Communicators of a job by number, each with its group, and the other one if it has two.
#[derive(Debug, Default)]
pub(super) struct ProbedCommunicators(BTreeMap<u32, [Vec<u32>; 2]>);

impl ProbedCommunicators {
    /// A call names one.
    pub fn learn(&mut self, communicator: &CallCommunicator) {
        self.0.entry(communicator.number).or_insert_with(|| {
            let (members, peers) = (communicator.members(), communicator.peers());
            match communicator.is_inter() {
                false => [members.to_vec(), Vec::new()],
                true => {
                    let others: Vec<u32> =
                        members.iter().copied().filter(|member| !peers.contains(member)).collect();
                    [others, peers.to_vec()]
                }
            }
        });
    }

    /// Those of a rank, with its own group and the other one.
    fn of_rank(&self, rank: u32) -> impl Iterator<Item = (u32, [&[u32]; 2])> {
        self.0.iter().filter_map(move |(number, [one, other])| {
            if one.contains(&rank) {
                Some((*number, [&one[..], &other[..]]))
            } else {
                other.contains(&rank).then_some((*number, [&other[..], &one[..]]))
            }
        })
    }
}

/// In place of the number of a communicator of which nothing is known.
const UNKNOWN_COMM: u32 = u32::MAX;

impl ProbedMessages {
    /// A call that is not told yet posts a message.
    pub fn posts(&mut self, message: MessageId, facts: MessageFacts) {
        self.posted.push((message, facts));
    }

    /// A call that is not told yet says that a message is complete.
    pub fn completes(&mut self, message: MessageId, facts: &MessageFacts, cancelled: bool) {
        let tag = facts.tag.and_then(|tag| u32::try_from(tag).ok());
        let sender = match facts.peer_rank.zip(tag) {
            _ if cancelled || facts.sends => ReceivedFrom::Nobody,
            Some((rank, tag)) => ReceivedFrom::Told(SendEnvelope { rank, tag }),
            None => ReceivedFrom::Untold,
        };
        self.completed.push((message, sender));
    }

    /// A call is told. `find`: the file that it returns to, and how far into it.
    pub fn call(&mut self, told: &ToldCall, find: impl FnOnce() -> Option<(String, u64)>) {
        let call = told.call;
        let (posted, completed) = (std::mem::take(&mut self.posted), std::mem::take(&mut self.completed));
        let number = numbered(&call.row.name).map(|(number, _)| number);
        self.count(u64::from(call.polls_before) + u64::from(number.is_some()));
        let Some(number) = number else { return };
        let place = (call.return_address, number);
        let is_named = matches!(
            call.row.does,
            Does::Receive | Does::Exchange | Does::Probe | Does::ProbeMatched | Does::Complete { .. }
        );
        if is_named && !self.places.contains_key(&place) {
            self.places.insert(place, find().unwrap_or_default());
        }
        match call.row.does {
            Does::Start => self.start(told, &posted),
            Does::Send(_) | Does::Receive | Does::Exchange => self.post(told, place, &posted, &completed),
            Does::Probe | Does::ProbeMatched if call.code == Some(0) => self.probe(told, place),
            Does::Complete { .. } => {
                self.choose(told, place);
                told.done.iter().for_each(|handle| self.done(*handle, &completed));
            }
            // What they began may go on.
            Does::Free => told.handles.named.iter().for_each(|handle| _ = self.close(*handle)),
            _ => self.meet(told),
        }
    }

    fn count(&mut self, calls: u64) {
        match self.steps.last_mut() {
            Some(MessageStep::Calls(last)) => *last += calls,
            _ => self.steps.push(MessageStep::Calls(calls)),
        }
    }

    /// What a call sends and receives.
    fn post(
        &mut self,
        told: &ToldCall,
        place: ReturnPlace,
        posted: &[(MessageId, MessageFacts)],
        completed: &[(MessageId, ReceivedFrom)],
    ) {
        let row = told.call.row;
        let is_synchronous = matches!(row.does, Does::Send(Mode::Synchronous));
        if row.form == Form::Persistent {
            if let Some(handle) = told.handles.made {
                self.prepared.insert(handle, PreparedRequest { is_synchronous, place });
            }
            return;
        }
        let has_request = row.form == Form::Nonblocking;
        for &(message, facts) in posted {
            let is_alone = !matches!(row.does, Does::Exchange);
            if facts.sends {
                let has_request = has_request && is_alone;
                self.steps.push(MessageStep::Send { message, facts, is_synchronous, has_request });
            } else if has_request {
                self.steps.push(MessageStep::Posted { message, facts, place });
            } else if told.call.code == Some(0) {
                let over = completed.iter().find(|(completed, _)| *completed == message);
                let sender = over.map_or(ReceivedFrom::Untold, |(_, sender)| *sender);
                self.steps.push(MessageStep::Received { message, facts, place, sender });
            }
            if has_request
                && (is_alone || !facts.sends)
                && let Some(handle) = told.handles.made
            {
                self.opens(handle, Some(message), facts.sends);
            }
        }
        if let Some(handle) = told.handles.made.filter(|_| has_request && posted.is_empty()) {
            self.opens(handle, None, true);
        }
    }

    fn opens(&mut self, handle: u64, message: Option<MessageId>, may_share: bool) {
        let open = self.requests.entry(handle).or_default();
        if !(open.may_share && may_share) {
            // One that had the request was completed without our being told.
            open.messages.clear();
        }
        open.may_share = may_share;
        open.messages.push(message);
    }

    /// Requests are started again.
    fn start(&mut self, told: &ToldCall, posted: &[(MessageId, MessageFacts)]) {
        for &(message, facts) in posted {
            let handle = told.handles.named.get(message.part as usize);
            let Some((handle, prepared)) =
                handle.and_then(|handle| Some((*handle, *self.prepared.get(handle)?)))
            else {
                continue;
            };
            self.opens(handle, Some(message), facts.sends);
            let PreparedRequest { is_synchronous, place } = prepared;
            self.steps.push(if facts.sends {
                MessageStep::Send { message, facts, is_synchronous, has_request: true }
            } else {
                MessageStep::Posted { message, facts, place }
            });
        }
    }

    fn probe(&mut self, told: &ToldCall, place: ReturnPlace) {
        let call = told.call;
        let number = |arg| call.argument(arg).and_then(|word| u32::try_from(word as i32).ok());
        let pattern = Pattern {
            comm: told.communicator.unwrap_or(UNKNOWN_COMM),
            source: number(Arg::Source),
            tag: number(Arg::ReceiveTag),
        };
        let named = pattern.source.zip(pattern.tag);
        let found = told.envelope.or(named.map(|(source, tag)| MessageEnvelope { source, tag }));
        let takes = call.row.does == Does::ProbeMatched;
        self.steps.push(MessageStep::Probed { pattern, place, takes, found });
    }

    fn choose(&mut self, told: &ToldCall, place: ReturnPlace) {
        let taken = match &told.choice {
            Some(CompletionChoice::Index(Some(index))) => vec![*index],
            Some(CompletionChoice::Indices(Some(indices))) => indices.clone(),
            _ => return,
        };
        let mut times: HashMap<u64, usize> = HashMap::new();
        let mut message = |handle: &u64| {
            let time = times.entry(*handle).or_default();
            *time += 1;
            self.requests.get(handle)?.messages.get(*time - 1).copied().flatten()
        };
        let offered: Vec<_> = told.handles.named.iter().map(&mut message).collect();
        if !taken.is_empty() && !offered.is_empty() {
            self.steps.push(MessageStep::Choice { place, offered, taken });
        }
    }

    /// A request is complete.
    fn done(&mut self, handle: u64, completed: &[(MessageId, ReceivedFrom)]) {
        let Some(message) = self.close(handle) else { return };
        let told = completed.iter().find(|(completed, _)| *completed == message);
        let sender = told.map_or(ReceivedFrom::Untold, |(_, sender)| *sender);
        self.steps.push(MessageStep::Done { message, sender });
    }

    /// A request stands no more for what it did.
    fn close(&mut self, handle: u64) -> Option<MessageId> {
        let open = self.requests.get_mut(&handle)?;
        let message = (!open.messages.is_empty()).then(|| open.messages.remove(0)).flatten();
        if open.messages.is_empty() {
            self.requests.remove(&handle);
        }
        message
    }

    /// A collective call, of which it is known who waits for whom.
    fn meet(&mut self, told: &ToldCall) {
        let order = collective_order(&told.call.row.name);
        if let Some((order, comm)) = order.zip(told.communicator) {
            let root = told.call.argument(Arg::Root).and_then(|root| u32::try_from(root as i32).ok());
            self.steps.push(MessageStep::Collective { order, comm, root });
        }
    }

    /// The journal of the rank; `sent`: whose message a receive got, if sends tell.
    pub fn journal(
        &self,
        rank: u32,
        communicators: &ProbedCommunicators,
        sent: impl Fn(MessageId) -> Option<SendEnvelope>,
    ) -> Vec<u8> {
        let mut writing = JournalWriting::new(&self.places);
        for (number, [own, other]) in communicators.of_rank(rank) {
            writing.journal.new_comm(number.into(), own, other, &mut writing.out);
            writing.peers.insert(number, if other.is_empty() { own } else { other });
        }
        self.steps.iter().for_each(|step| writing.step(step, &sent));
        writing.out
    }
}

/// A journal that is being written.
struct JournalWriting<'a> {
    journal: MessageJournal,
    out: Vec<u8>,
    places: &'a HashMap<ReturnPlace, (String, u64)>,
    /// Whom the rank names by ranks of its communicators.
    peers: HashMap<u32, &'a [u32]>,
    /// Communicators of what was posted.
    comms: HashMap<MessageId, Option<u32>>,
}

impl<'a> JournalWriting<'a> {
    fn new(places: &'a HashMap<ReturnPlace, (String, u64)>) -> Self {
        Self {
            journal: MessageJournal::default(),
            out: Vec::new(),
            places,
            peers: HashMap::new(),
            comms: HashMap::new(),
        }
    }

    fn step(&mut self, step: &MessageStep, sent: &impl Fn(MessageId) -> Option<SendEnvelope>) {
        match step {
            MessageStep::Calls(count) => self.journal.calls(*count),
            MessageStep::Send { message, facts, is_synchronous, has_request } => {
                self.send(*message, facts, *is_synchronous, *has_request);
            }
            MessageStep::Received { message, facts, place, sender } => {
                let got = self.envelope(facts.comm, *sender, *message, sent);
                let (pattern, site) = (self.pattern(facts), self.site(*place));
                self.journal.received(site, pattern, false, got, &mut self.out);
            }
            MessageStep::Probed { pattern, place, takes, found } => {
                let comm = self.journal.comm(pattern.comm.into(), &mut self.out);
                let (pattern, site) = (Pattern { comm, ..*pattern }, self.site(*place));
                self.journal.received(site, pattern, !takes, *found, &mut self.out);
            }
            MessageStep::Posted { message, facts, place } => {
                self.comms.insert(*message, facts.comm);
                let (pattern, site) = (self.pattern(facts), self.site(*place));
                self.journal.posted(site, pattern, key(*message), &mut self.out);
            }
            MessageStep::Done { message, sender } => {
                let comm = self.comms.remove(message).flatten();
                let got = self.envelope(comm, *sender, *message, sent);
                self.journal.done(key(*message), got, &mut self.out);
            }
            MessageStep::Choice { place, offered, taken } => {
                let site = self.site(*place);
                let offered: Vec<u64> = offered.iter().map(|message| message.map_or(NO_KEY, key)).collect();
                self.journal.choice(site, &offered, taken, &mut self.out);
            }
            MessageStep::Collective { order, comm, root } => {
                let comm = self.journal.comm((*comm).into(), &mut self.out);
                self.journal.collective(*order, comm, *root, &mut self.out);
            }
        }
    }

    fn send(&mut self, message: MessageId, facts: &MessageFacts, is_synchronous: bool, has_request: bool) {
        let dest = match facts.comm {
            Some(comm) => facts.peer_rank.and_then(|rank| self.rank_in(comm, rank)),
            // Of such a communicator nothing is known anyway.
            None => Some(0),
        };
        let Some(dest) = dest else { return };
        let comm = self.comm(facts.comm);
        let tag = facts.tag.and_then(|tag| u32::try_from(tag).ok()).unwrap_or(0);
        self.journal.send(comm, dest, tag, is_synchronous, has_request, &mut self.out);
        if has_request {
            self.journal.sent(key(message));
        }
    }

    fn comm(&mut self, number: Option<u32>) -> u32 {
        self.journal.comm(number.unwrap_or(UNKNOWN_COMM).into(), &mut self.out)
    }

    fn site(&mut self, place: ReturnPlace) -> u32 {
        let find = || self.places.get(&place).cloned().unwrap_or_default();
        self.journal.site(place.0, place.1, &mut self.out, find)
    }

    fn pattern(&mut self, facts: &MessageFacts) -> Pattern {
        let source = facts.comm.zip(facts.peer_rank).and_then(|(comm, rank)| self.rank_in(comm, rank));
        let tag = facts.tag.and_then(|tag| u32::try_from(tag).ok());
        Pattern { comm: self.comm(facts.comm), source, tag }
    }

    /// A rank of MPI_COMM_WORLD, as the rank names it.
    fn rank_in(&self, comm: u32, rank: u32) -> Option<u32> {
        let place = self.peers.get(&comm)?.iter().position(|peer| *peer == rank)?;
        u32::try_from(place).ok()
    }

    fn envelope(
        &self,
        comm: Option<u32>,
        sender: ReceivedFrom,
        message: MessageId,
        sent: &impl Fn(MessageId) -> Option<SendEnvelope>,
    ) -> Option<MessageEnvelope> {
        let SendEnvelope { rank, tag } = match sender {
            ReceivedFrom::Told(sent) => sent,
            ReceivedFrom::Untold => sent(message)?,
            ReceivedFrom::Nobody => return None,
        };
        Some(MessageEnvelope { source: self.rank_in(comm?, rank)?, tag })
    }
}

/// What a message is called in the journal.
fn key(message: MessageId) -> u64 {
    u64::from(message.call.number) << 32 | u64::from(message.part)
}

/// No message is called so: calls have numbers from 1.
const NO_KEY: u64 = 0;

/// Who waits for whom in a collective call.
fn collective_order(function: &str) -> Option<CollectiveOrder> {
    Some(match function.strip_prefix("MPI_")? {
        "Barrier"
        | "Allgather"
        | "Allgatherv"
        | "Alltoall"
        | "Alltoallv"
        | "Alltoallw"
        | "Allreduce"
        | "Reduce_scatter"
        | "Reduce_scatter_block"
        | "Comm_dup"
        | "Comm_split"
        | "Comm_split_type"
        | "Comm_create"
        | "Cart_create"
        | "Graph_create"
        | "Dist_graph_create_adjacent"
        | "Intercomm_merge" => CollectiveOrder::All,
        "Bcast" | "Scatter" | "Scatterv" => CollectiveOrder::FromRoot,
        "Gather" | "Gatherv" | "Reduce" => CollectiveOrder::ToRoot,
        "Scan" | "Exscan" => CollectiveOrder::Prefix,
        "Neighbor_allgather"
        | "Neighbor_allgatherv"
        | "Neighbor_alltoall"
        | "Neighbor_alltoallv"
        | "Neighbor_alltoallw" => CollectiveOrder::Unknown,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use analyzer::messages::CallId;
    use replay::races::{Alternative, RaceKind, Races};

    use super::*;

    const PLACE: ReturnPlace = (0x100, 1);

    fn message(rank: u32, number: u32) -> MessageId {
        MessageId { call: CallId { rank, tid: 1, number }, part: 0 }
    }

    fn facts(sends: bool, peer_rank: Option<u32>) -> MessageFacts {
        MessageFacts { sends, comm: Some(0), peer: peer_rank, peer_rank, tag: Some(7), len_bytes: None }
    }

    fn world() -> ProbedCommunicators {
        ProbedCommunicators(BTreeMap::from([(0, [vec![0, 1, 2], Vec::new()])]))
    }

    fn sends(rank: u32) -> ProbedMessages {
        let send = MessageStep::Send {
            message: message(rank, 1),
            facts: facts(true, Some(0)),
            is_synchronous: false,
            has_request: false,
        };
        ProbedMessages { steps: vec![MessageStep::Calls(1), send], ..ProbedMessages::default() }
    }

    /// What can go otherwise if rank 0 does this, and the others send one message each; messages of receives 3 and 4 are those of ranks 2
    /// and 1, and no status told.
    fn races(steps: Vec<MessageStep>) -> Races {
        let places = HashMap::from([(PLACE, ("/app".to_owned(), 0x10))]);
        let receiver = ProbedMessages { steps, places, ..ProbedMessages::default() };
        let sent = |receive: MessageId| {
            let rank = if receive.call.number == 3 { 2 } else { 1 };
            Some(SendEnvelope { rank, tag: 7 })
        };
        let ranks = [receiver, sends(1), sends(2)];
        let journals: Vec<Vec<u8>> =
            (0..).zip(&ranks).map(|(rank, messages)| messages.journal(rank, &world(), sent)).collect();
        let journals: Vec<&[u8]> = journals.iter().map(Vec::as_slice).collect();
        Races::find(&journals).expect("a run")
    }

    #[test]
    fn a_receive_from_anybody_could_have_got_what_another_rank_had_sent() {
        let received = |number, sender| MessageStep::Received {
            message: message(0, number),
            facts: facts(false, None),
            place: PLACE,
            sender,
        };
        let first = ReceivedFrom::Told(SendEnvelope { rank: 2, tag: 7 });
        let races = races(vec![
            MessageStep::Calls(5),
            received(3, first),
            MessageStep::Calls(1),
            received(4, ReceivedFrom::Untold),
        ]);
        assert_eq!((races.found.len(), races.unsent), (1, 0));
        let race = &races.found[0];
        assert_eq!((race.rank, race.call, race.kind), (0, 5, RaceKind::Receive));
        assert_eq!(race.taken, [Alternative::Message { source: 2, tag: 7, call: 1 }]);
        assert_eq!(race.others, [Alternative::Message { source: 1, tag: 7, call: 1 }]);
        assert_eq!(race.site.as_ref().map(|site| (&*site.module, site.call)), Some(("/app", 1)));
    }

    #[test]
    fn posted_receives_and_the_choice_of_a_request_are_told_by_their_numbers() {
        let posted = |number| MessageStep::Posted {
            message: message(0, number),
            facts: facts(false, None),
            place: PLACE,
        };
        let done = |number| MessageStep::Done { message: message(0, number), sender: ReceivedFrom::Untold };
        let races = races(vec![
            MessageStep::Calls(1),
            posted(3),
            MessageStep::Calls(1),
            posted(4),
            MessageStep::Calls(1),
            MessageStep::Choice {
                place: PLACE,
                offered: vec![None, Some(message(0, 3)), Some(message(0, 4))],
                taken: vec![1],
            },
            done(3),
            MessageStep::Calls(1),
            done(4),
        ]);
        let found: Vec<_> = races.found.iter().map(|race| (race.kind, race.call)).collect();
        assert_eq!(found, [(RaceKind::Posted, 1), (RaceKind::Choice, 3)]);
        assert_eq!(races.found[1].taken, [Alternative::Request { index: 1 }]);
        assert_eq!(races.found[1].others, [Alternative::Request { index: 2 }]);
    }

    #[test]
    fn a_rank_has_the_communicators_of_which_it_is_a_member_with_its_own_group_first() {
        let inter = [vec![0, 3], vec![1, 2]];
        let communicators = ProbedCommunicators(BTreeMap::from([(4, inter.clone()), (0, [vec![1], vec![]])]));
        let of = |rank| communicators.of_rank(rank).map(|(number, _)| number).collect::<Vec<_>>();
        assert_eq!([of(1), of(3), of(9)], [vec![0, 4], vec![4], vec![]]);
        let (_, groups) = communicators.of_rank(1).nth(1).expect("two");
        assert_eq!(groups, [&inter[1][..], &inter[0]]);
    }

    #[test]
    fn all_collective_calls_that_a_wrapper_sees_have_an_order() {
        let wrapped = ["MPI_Barrier", "MPI_Scan", "MPI_Bcast", "MPI_Reduce", "MPI_Intercomm_merge"];
        assert!(wrapped.iter().all(|name| collective_order(name).is_some() && numbered(name).is_some()));
        assert_eq!(collective_order("MPI_Ibarrier"), None, "nobody waits in it");
    }
}
