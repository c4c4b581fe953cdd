//! From the calls of one rank, as probes saw them, to its record for replays.

use std::collections::HashMap;

use analyzer::calls::{Arg, Does};
use analyzer::messages::{
    Call, CallId, CallResult, CompletedRequest, CompletionChoice, MessageId, MessageSource,
};
use replay::{Answer, FIRST_CALL_UNCHECKED_BY_PROBES, Mark, ReceiveEnd, Recording};

use super::call_names::numbered;

/// What a rank did, in order, as far as a record has it. Whose messages were received may become known later.
#[derive(Debug, Default)]
pub(super) struct ProbedRank {
    steps: Vec<Step>,
    /// The thread that communicates.
    tid: Option<u32>,
    /// Receives from anybody that are open, by request.
    open: HashMap<u64, ProbedReceive>,
    /// Persistent receives from anybody, by request: members of the communicator.
    prepared: HashMap<u64, MemberRanks>,
    /// Why the calls tell no more from here on.
    stopped: Option<String>,
    has_ended: bool,
}

/// Ranks of MPI_COMM_WORLD, by their numbers in a communicator; if they are known.
type MemberRanks = Option<Vec<u32>>;

/// A receive whose sender is asked for.
#[derive(Clone, Debug)]
struct ProbedReceive {
    receive: MessageId,
    members: MemberRanks,
}

#[derive(Debug)]
enum Step {
    /// So many polls answered no.
    Refused(u32),
    /// A call by its number, with arguments that are the same in every run.
    Call(u32, [i32; 3]),
    Answer(Answer),
    /// A receive or probe from anybody has got a message.
    From(Sender),
    /// A receive from anybody is open.
    Posted(u64),
    /// It is complete …
    Arrived(u64, Sender),
    /// … or it was asked whose message it has got.
    Decided(u64, Sender),
    End,
}

/// Whose message it was.
#[derive(Debug)]
enum Sender {
    Told(MessageSource),
    /// Nobody was told. It may be known which send it matched.
    Untold(ProbedReceive),
}

/// A record, and of how many messages from anybody it does not know whose they were.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ProbedRecord {
    pub bytes: Vec<u8>,
    pub unknown: u64,
}

impl ProbedRank {
    /// The next call; `result`: what it answered, `None`: its records do not tell; `members`: of the communicator that it names.
    pub fn call(&mut self, id: CallId, call: &Call, result: Option<CallResult>, members: MemberRanks) {
        if self.stopped.is_some() || self.has_ended {
            return;
        }
        if *self.tid.get_or_insert(id.tid) != id.tid {
            self.stopped =
                Some("its calls come from several threads, whose order is not recorded".to_owned());
            return;
        }
        if call.polls_before > 0 {
            self.steps.push(Step::Refused(call.polls_before));
        }
        // Of those that only send, and of collective ones, a record has nothing.
        let checked = numbered(&call.row.name).filter(|(number, _)| *number < FIRST_CALL_UNCHECKED_BY_PROBES);
        let Some((number, names)) = checked else { return };
        let known = arguments(call, names).zip(result);
        let Some((arguments, result)) = known.filter(|_| call.code.is_some()) else {
            self.stopped = Some(format!(
                "what its call {} (of {}) answered is not on the tape",
                id.number, call.row.name
            ));
            return;
        };
        self.steps.push(Step::Call(number, arguments));
        if call.row.does == Does::Finalize {
            self.has_ended = true;
            return self.steps.push(Step::End);
        }
        let part = u32::from(call.row.sends().is_some());
        self.take(ProbedReceive { receive: MessageId { call: id, part }, members }, result);
    }

    /// What a call answered; `asked`: what it receives, if anything.
    fn take(&mut self, asked: ProbedReceive, result: CallResult) {
        let id = asked.receive.call;
        match result {
            CallResult::Nothing => {}
            CallResult::Yes => self.steps.push(Step::Answer(Answer::Yes)),
            CallResult::Received(source) => self.steps.push(Step::From(Sender::of(source, asked))),
            CallResult::Posted(request) => self.post(request, asked),
            CallResult::Prepared(request) => {
                self.prepared.insert(request, asked.members);
            }
            CallResult::Started(requests) => {
                for (part, request) in (0..).zip(requests) {
                    if let Some(members) = self.prepared.get(&request).cloned() {
                        self.post(request, ProbedReceive { receive: MessageId { call: id, part }, members });
                    }
                }
            }
            CallResult::Completed(choice, requests) => {
                self.steps.extend(answer(choice).map(Step::Answer));
                requests.into_iter().for_each(|done| self.complete(done));
            }
            CallResult::Inquired(CompletedRequest { request, source }) => {
                self.steps.push(Step::Answer(Answer::Yes));
                if let Some(asked) = self.open.get(&request).cloned() {
                    self.steps.push(Step::Decided(request, Sender::of(source, asked)));
                }
            }
            CallResult::Freed(request) => {
                self.complete(CompletedRequest { request, source: MessageSource::Untold });
                self.prepared.remove(&request);
            }
        }
    }

    fn post(&mut self, request: u64, asked: ProbedReceive) {
        self.steps.push(Step::Posted(request));
        self.open.insert(request, asked);
    }

    fn complete(&mut self, CompletedRequest { request, source }: CompletedRequest) {
        if let Some(asked) = self.open.remove(&request) {
            self.steps.push(Step::Arrived(request, Sender::of(source, asked)));
        }
    }

    /// Why its record cannot go to where the tape ends, if it cannot.
    pub fn stopped(&self) -> Option<&str> {
        self.stopped.as_deref()
    }

    /// The record. `sender`: who sent what a receive got, as a rank of MPI_COMM_WORLD.
    pub fn record(&self, sender: impl Fn(MessageId) -> Option<u32>) -> ProbedRecord {
        let mut record = ProbedRecord::default();
        let out = &mut record.bytes;
        let mut recording = Recording::by_probes(out);
        let mut unknown = 0;
        let mut source = |of: &Sender| {
            let found = of.resolve(&sender);
            unknown += u64::from(found == MessageSource::Untold);
            found
        };
        for step in &self.steps {
            match step {
                Step::Refused(polls) => recording.refused((*polls).into()),
                Step::Call(number, arguments) => recording.call(*number, *arguments),
                Step::Answer(answer) => recording.answer(answer.clone(), out),
                Step::From(of) => {
                    let from = match source(of) {
                        MessageSource::From(rank) => Some(rank),
                        _ => None,
                    };
                    recording.answer(Answer::From(from), out);
                }
                Step::Posted(request) => recording.posted(*request, out),
                Step::Arrived(request, of) => recording.arrived(*request, end(source(of)), out),
                Step::Decided(request, of) => recording.decided(*request, end(source(of)), out),
                Step::End => recording.mark(Mark::End, out),
            }
        }
        record.unknown = unknown;
        record
    }
}

impl Sender {
    fn of(source: MessageSource, asked: ProbedReceive) -> Self {
        if source == MessageSource::Untold { Self::Untold(asked) } else { Self::Told(source) }
    }

    fn resolve(&self, sender: &impl Fn(MessageId) -> Option<u32>) -> MessageSource {
        let asked = match self {
            Self::Told(source) => return *source,
            Self::Untold(asked) => asked,
        };
        let rank = sender(asked.receive).zip(asked.members.as_ref());
        let number = rank.and_then(|(rank, members)| members.iter().position(|member| *member == rank));
        let number = number.and_then(|number| u32::try_from(number).ok());
        number.map_or(MessageSource::Untold, MessageSource::From)
    }
}

fn answer(choice: CompletionChoice) -> Option<Answer> {
    match choice {
        CompletionChoice::All => None,
        CompletionChoice::Yes => Some(Answer::Yes),
        CompletionChoice::Index(index) => Some(Answer::Index(index)),
        CompletionChoice::Indices(indices) => Some(Answer::Indices(indices)),
    }
}

fn end(source: MessageSource) -> ReceiveEnd {
    match source {
        MessageSource::From(rank) => ReceiveEnd::From(rank),
        MessageSource::Cancelled => ReceiveEnd::Cancelled,
        MessageSource::Nobody | MessageSource::Untold => ReceiveEnd::Unknown,
    }
}

/// Arguments of a call by the wrapper's names for them.
fn arguments(call: &Call, names: [&str; 3]) -> Option<[i32; 3]> {
    let value = |name: &str| {
        let arg = match name {
            "" => return Some(0),
            "partition" => return call.integer(1),
            "source" => Arg::Source,
            "dest" => Arg::Dest,
            "tag" | "recvtag" => Arg::ReceiveTag,
            "count" | "incount" => Arg::Count,
            _ => return Some(0),
        };
        call.argument(arg).map(|word| word as i32).or(Some(0).filter(|_| call.row.position(arg).is_none()))
    };
    Some([value(names[0])?, value(names[1])?, value(names[2])?])
}

#[cfg(test)]
mod tests {
    use replay::{AskedFor, Due, Playback};

    use super::*;

    const MEMBERS: [u32; 3] = [7, 5, 9];

    fn message(number: u32) -> MessageId {
        MessageId { call: CallId { rank: 0, tid: 1, number }, part: 0 }
    }

    fn taken(results: &[CallResult]) -> ProbedRank {
        let mut rank = ProbedRank::default();
        for (number, result) in (1..).zip(results) {
            rank.take(
                ProbedReceive { receive: message(number), members: Some(MEMBERS.to_vec()) },
                result.clone(),
            );
        }
        rank
    }

    fn playback(record: &ProbedRecord) -> Playback {
        Playback::new(record.bytes.clone(), 0).expect("a record")
    }

    fn done(request: u64, source: MessageSource) -> CompletedRequest {
        CompletedRequest { request, source }
    }

    #[test]
    fn statuses_say_whose_messages_were_received() {
        let waited =
            CallResult::Completed(CompletionChoice::Index(Some(1)), vec![done(0xb0, MessageSource::From(2))]);
        let rank = taken(&[
            CallResult::Received(MessageSource::From(1)),
            CallResult::Posted(0xa0),
            CallResult::Posted(0xb0),
            waited,
            CallResult::Completed(CompletionChoice::All, vec![done(0xa0, MessageSource::Cancelled)]),
        ]);
        let record = rank.record(|_| None);
        let mut playback = playback(&record);
        assert_eq!(playback.due(AskedFor::Source, 0), Ok(Due::Answer(Answer::From(Some(1)))));
        assert_eq!(playback.posted(), Some(ReceiveEnd::Cancelled));
        assert_eq!(playback.posted(), Some(ReceiveEnd::From(2)));
        assert_eq!(playback.due(AskedFor::Index, 2), Ok(Due::Answer(Answer::Index(Some(1)))));
        assert!(playback.is_over() && record.unknown == 0);
    }

    #[test]
    fn whose_messages_were_received_may_follow_from_the_sends_that_they_matched() {
        let waited = CallResult::Completed(CompletionChoice::All, vec![done(0xa0, MessageSource::Untold)]);
        let untold = CallResult::Received(MessageSource::Untold);
        let rank = taken(&[CallResult::Posted(0xa0), untold.clone(), waited, untold]);
        // Ranks of MPI_COMM_WORLD; one is not in the communicator.
        let senders = [(message(1), 9), (message(2), 5), (message(4), 8)];
        let sender = |receive| senders.iter().find(|(asked, _)| *asked == receive).map(|(_, rank)| *rank);
        let record = rank.record(sender);
        let mut playback = playback(&record);
        assert_eq!(playback.posted(), Some(ReceiveEnd::From(2)));
        assert_eq!(playback.due(AskedFor::Source, 0), Ok(Due::Answer(Answer::From(Some(1)))));
        assert_eq!(playback.due(AskedFor::Source, 0), Ok(Due::Answer(Answer::From(None))));
        assert_eq!(record.unknown, 1);
    }

    #[test]
    fn each_start_of_a_persistent_receive_is_one_of_its_own() {
        let started = || CallResult::Started(vec![0xc0, 0xd0]);
        let waited = |source| {
            CallResult::Completed(CompletionChoice::All, vec![done(0xd0, source), done(0xc0, source)])
        };
        let rank = taken(&[
            CallResult::Prepared(0xd0),
            started(),
            waited(MessageSource::From(0)),
            started(),
            waited(MessageSource::Untold),
            CallResult::Freed(0xd0),
            started(),
        ]);
        let second = MessageId { part: 1, ..message(4) };
        let record = rank.record(|receive| (receive == second).then_some(9));
        let mut playback = playback(&record);
        assert_eq!(playback.posted(), Some(ReceiveEnd::From(0)));
        assert_eq!(playback.posted(), Some(ReceiveEnd::From(2)));
        assert_eq!(playback.posted(), None);
    }
}
