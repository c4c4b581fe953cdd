//! Envelopes of one rank's messages as probes saw them: what the analysis of races needs.
//!
//! ```text
//! calls, messages posted and completed → steps of a rank → journal, as the wrapper writes it
//! ```
//!
//! The wrapper writes a journal while the rank runs. Here it is written at the end of the tape, when it is known whose messages those were
//! of which no status told, and which communicators there are.

use std::collections::{HashMap, VecDeque};

use analyzer::calls::{Arg, Does, Form, Mode};
use analyzer::messages::{Call, CompletionChoice, MessageFacts, MessageId, RequestHandles};
use replay::messages::{CollectiveOrder, MessageEnvelope, Pattern};

use super::call_names::numbered;
use super::probed_journal::{
    MessageStep, ProbedCommunicators, ReceivedFrom, ReturnPlace, ReturnPlaces, SendEnvelope, UNKNOWN_COMM,
    journal,
};
use super::swap::ExchangePoint;

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
    /// Calls of the wrapper's table and polls, so far.
    calls: u64,
    /// Where receives from anybody were posted.
    points: HashMap<MessageId, ExchangePoint>,
    /// Files and offsets of the places that calls return to.
    places: ReturnPlaces,
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

/// Libraries give what is complete at once the same request: sends, and what is for MPI_PROC_NULL, which is no message. The oldest is taken
/// to complete first.
#[derive(Debug, Default)]
struct OpenRequest {
    may_share: bool,
    messages: VecDeque<Option<MessageId>>,
}

#[derive(Clone, Copy, Debug)]
struct PreparedRequest {
    is_synchronous: bool,
    place: ReturnPlace,
}

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
        self.calls += u64::from(call.polls_before) + u64::from(number.is_some());
        self.count(u64::from(call.polls_before) + u64::from(number.is_some()));
        let Some(number) = number else { return };
        self.note_points(&posted);
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
                let completed = completed.into_iter().collect();
                told.done.iter().for_each(|handle| self.done(*handle, &completed));
            }
            // What they began may go on.
            Does::Free => told.handles.named.iter().for_each(|handle| _ = self.close(*handle)),
            _ => self.meet(told),
        }
    }

    /// Notes where receives from anybody are posted.
    fn note_points(&mut self, posted: &[(MessageId, MessageFacts)]) {
        let receives = posted.iter().filter(|(_, facts)| !facts.sends);
        for ((message, _), nth) in receives.zip(1..).filter(|((_, facts), _)| facts.peer.is_none()) {
            let point = ExchangePoint { rank: message.call.rank, call: self.calls, nth };
            self.points.insert(*message, point);
        }
    }

    /// Where receives from anybody were posted, as a replay names it.
    pub fn points(&self) -> &HashMap<MessageId, ExchangePoint> {
        &self.points
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
        open.messages.push_back(message);
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
    fn done(&mut self, handle: u64, completed: &HashMap<MessageId, ReceivedFrom>) {
        let Some(message) = self.close(handle) else { return };
        let sender = completed.get(&message).copied().unwrap_or(ReceivedFrom::Untold);
        self.steps.push(MessageStep::Done { message, sender });
    }

    /// A request stands no more for what it did.
    fn close(&mut self, handle: u64) -> Option<MessageId> {
        let open = self.requests.get_mut(&handle)?;
        let message = open.messages.pop_front().flatten();
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
        journal(&self.steps, &self.places, (rank, communicators), sent)
    }
}

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
    use super::super::call_names::call_name;
    use super::*;

    #[test]
    fn all_collective_calls_that_a_wrapper_sees_have_an_order() {
        let number = |name| numbered(name).map(|(number, _)| number).expect("it is in the table");
        let wrapped = (number("MPI_Barrier")..=number("MPI_Intercomm_merge")).map(call_name);
        let without: Vec<String> = wrapped.filter(|name| collective_order(name).is_none()).collect();
        assert_eq!(without, ["MPI_Comm_create_group", "MPI_Comm_free", "MPI_Intercomm_create"]);
        assert_eq!(collective_order("MPI_Ibarrier"), None, "nobody waits in it");
    }
}
