//! From the calls of one rank, as probes saw them, to its record for replays.

use std::collections::HashMap;

use analyzer::calls::{Arg, Does};
use analyzer::messages::{
    Call, CallId, CallResult, CompletedRequest, CompletionChoice, MessageFacts, MessageId, MessageSource,
};
use replay::{Answer, FIRST_CALL_UNCHECKED_BY_PROBES, Mark, ReceiveEnd, Recording};

use super::call_names::numbered;
use super::open_wildcards::{MemberRanks, OpenWildcard, OpenWildcards, PostedWildcard, ProbedReceive};
use super::probed_copies::RecentCopies;
use super::probed_posts::{Post, PostedMessage, order};
use super::probed_threads::{ProbedThreads, ThreadLevel};

/// What a rank did, in order, as far as a record has it. Whose messages were received may become known later.
#[derive(Debug, Default)]
pub(super) struct ProbedRank {
    steps: Vec<Step>,
    /// Those that have made calls.
    threads: Vec<RankCaller>,
    /// Receives from anybody that are open.
    open: OpenWildcards,
    /// What several threads posted, each with its thread.
    posts: Vec<Post>,
    post_threads: Vec<u32>,
    /// Those of them that receive and are not over.
    receiving: HashMap<MessageId, usize>,
    /// What several threads have posted by calls that are not told yet.
    posting: HashMap<CallId, Vec<PostedMessage>>,
    /// A receive or probe has asked for any tag.
    takes_any_tag: bool,
    /// A call that waited for its own message, and whose that was: it is told before the call itself.
    received_early: HashMap<CallId, Option<u32>>,
    /// Persistent receives from anybody, by request: members of the communicator.
    prepared: HashMap<u64, MemberRanks>,
    /// Why the calls tell no more from here on.
    stopped: Option<String>,
    has_ended: bool,
}

/// A call, and what is known of it beside its records.
pub(super) struct SeenCall<'a> {
    pub id: CallId,
    pub call: &'a Call,
    /// When it was seen to return.
    pub end_ns: Option<u64>,
    /// Whether its place in the order of all ranks' calls is wanted.
    pub is_ordered: bool,
    /// What it answered; `None`: its records do not tell.
    pub result: Option<CallResult>,
    /// Number and members of the communicator that it names.
    pub communicator: Option<(u32, Vec<u32>)>,
    /// The name of its thread; none if it is not known who has created it.
    pub thread: Option<u64>,
    /// What the process copied, if it has several threads.
    pub copies: Option<&'a RecentCopies>,
}

/// Of the kernel's number and of this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RankCaller {
    tid: u32,
    name: Option<u64>,
}

/// What one thread did.
#[derive(Debug)]
struct Step {
    time_ns: u64,
    /// Which of the rank's threads.
    thread: u32,
    /// It is done when this post is in its place.
    post: Option<usize>,
    what: StepKind,
}

#[derive(Debug)]
enum StepKind {
    /// So many polls answered no.
    Refused(u32),
    /// A call by its number, with arguments that are the same in every run.
    Call(u32, [i32; 3]),
    /// One of several threads posts, or takes a message.
    Turn,
    /// A call has ended that does not just answer no.
    Ended,
    Answer(Answer),
    /// A receive or probe from anybody has got a message.
    From(Sender),
    /// A receive from anybody is open, by its number …
    Posted(u64),
    /// … it is complete …
    Arrived(u64, Sender),
    /// … or it was asked whose message it has got.
    Decided(u64, Sender),
}

/// Whose message it was.
#[derive(Debug)]
enum Sender {
    Told(MessageSource),
    /// Nobody was told. It may be known which send it matched.
    Untold(ProbedReceive),
}

/// A record, and what it does not know.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ProbedRecord {
    pub bytes: Vec<u8>,
    /// Messages from anybody of which it is not known whose they were.
    pub unknown: u64,
    /// Posts of several threads whose order matters and is not known.
    pub unordered: u64,
}

/// When a call began and ended, and whose it is.
#[derive(Clone, Copy)]
struct CallTimes {
    thread: u32,
    begin_ns: u64,
    end_ns: u64,
    /// What it posts, if the process has several threads.
    post: Option<usize>,
}

impl ProbedRank {
    /// The next call of its thread.
    pub fn call(&mut self, seen: SeenCall) {
        if self.stopped.is_some() || self.has_ended {
            return;
        }
        let is_ordered = seen.is_ordered && numbered(&seen.call.row.name).is_some();
        let ended_ns = seen.end_ns.filter(|_| is_ordered);
        let caller = RankCaller { tid: seen.id.tid, name: seen.thread };
        self.take_call(seen);
        if let Some(ended_ns) = ended_ns.filter(|_| !self.has_ended) {
            let thread = self.thread(caller);
            self.step(thread, ended_ns, StepKind::Ended);
        }
    }

    fn take_call(&mut self, seen: SeenCall) {
        let SeenCall { id, call, .. } = seen;
        let end_ns = seen.end_ns.unwrap_or(call.begin_ns).max(call.begin_ns);
        let thread = self.thread(RankCaller { tid: id.tid, name: seen.thread });
        let asks = matches!(call.row.does, Does::Receive | Does::Exchange | Does::Probe | Does::ProbeMatched);
        self.takes_any_tag |= asks && call.argument(Arg::ReceiveTag).is_none_or(|tag| (tag as i32) < 0);
        let early = self.received_early.remove(&id).flatten();
        let post = seen.copies.and_then(|copies| {
            let communicator = seen.communicator.as_ref().map(|(number, _)| *number);
            let started = self.posting.remove(&id).filter(|messages| match &seen.result {
                Some(CallResult::Started(requests)) => messages.len() == requests.len(),
                _ => false,
            });
            let post = Post::of(id, call, end_ns, communicator, started);
            post.map(|post| self.take_post(thread, post, early, copies))
        });
        let times = CallTimes { thread, begin_ns: call.begin_ns, end_ns, post };
        if call.polls_before > 0 {
            self.step(thread, times.begin_ns, StepKind::Refused(call.polls_before));
        }
        if post.is_some() {
            self.steps.push(Step { time_ns: times.begin_ns, thread, post, what: StepKind::Turn });
        }
        // Of those that only send, and of collective ones, a record has nothing.
        let checked = numbered(&call.row.name).filter(|(number, _)| *number < FIRST_CALL_UNCHECKED_BY_PROBES);
        let Some((number, names)) = checked else { return };
        let known = arguments(call, names).zip(seen.result);
        let Some((arguments, result)) = known.filter(|_| call.code.is_some()) else {
            self.stopped = Some(format!(
                "what its call {} (of {}) answered is not on the tape",
                id.number, call.row.name
            ));
            return;
        };
        self.step(thread, times.begin_ns, StepKind::Call(number, arguments));
        if call.row.does == Does::Finalize {
            self.has_ended = true;
            return;
        }
        let part = u32::from(call.row.sends().is_some());
        let members = seen.communicator.map(|(_, members)| members);
        self.take(times, ProbedReceive { receive: MessageId { call: id, part }, members }, result);
    }

    /// A call that is not told yet posts a message.
    pub fn posts(&mut self, message: MessageId, facts: &MessageFacts) {
        self.posting.entry(message.call).or_default().push(PostedMessage::started(message.part, facts));
    }

    /// A receive is over, as a call says: whose message it got, by its rank in the communicator.
    pub fn received(&mut self, message: MessageId, by: CallId, from: Option<u32>, copies: &RecentCopies) {
        if self.stopped.is_some() {
            return;
        }
        match self.receiving.remove(&message) {
            Some(at) => {
                let copied = |buffer, from_ns| copies.last_into(buffer, from_ns);
                self.posts[at].received(message.part, from, copied);
            }
            None if by == message.call => {
                self.received_early.insert(by, from);
            }
            None => {}
        }
    }

    /// Notes a post; `early`: whose message it got, if that is known by now. Returns its number.
    fn take_post(&mut self, thread: u32, mut post: Post, early: Option<u32>, copies: &RecentCopies) -> usize {
        let at = self.posts.len();
        post.sent(|buffer, from_ns| copies.last_out_of(buffer, from_ns));
        match post.awaited_part() {
            Some(part) => post.received(part, early, |buffer, from_ns| copies.last_into(buffer, from_ns)),
            None => self.receiving.extend(post.receives().map(|message| (message, at))),
        }
        self.posts.push(post);
        self.post_threads.push(thread);
        at
    }

    fn step(&mut self, thread: u32, time_ns: u64, what: StepKind) {
        self.steps.push(Step { time_ns, thread, post: None, what });
    }

    /// Which of the rank's threads it is.
    fn thread(&mut self, thread: RankCaller) -> u32 {
        let place = self.threads.iter().rposition(|known| *known == thread);
        let place = place.unwrap_or_else(|| {
            self.threads.push(thread);
            self.threads.len() - 1
        });
        place as u32
    }

    /// What a call answered; `asked`: what it receives, if anything.
    fn take(&mut self, times: CallTimes, asked: ProbedReceive, result: CallResult) {
        let id = asked.receive.call;
        let mut ends = |what| {
            self.steps.push(Step { time_ns: times.end_ns, thread: times.thread, post: None, what });
        };
        match result {
            CallResult::Nothing => {}
            CallResult::Yes => ends(StepKind::Answer(Answer::Yes)),
            CallResult::Received(source) => ends(StepKind::From(Sender::of(source, asked))),
            CallResult::Posted(request) => self.post(times, request, asked),
            CallResult::Prepared(request) => {
                self.prepared.insert(request, asked.members);
            }
            CallResult::Started(requests) => {
                for (part, request) in (0..).zip(requests) {
                    if let Some(members) = self.prepared.get(&request).cloned() {
                        let asked = ProbedReceive { receive: MessageId { call: id, part }, members };
                        self.post(times, request, asked);
                    }
                }
            }
            CallResult::Completed(choice, requests) => {
                answer(choice).into_iter().for_each(|answer| ends(StepKind::Answer(answer)));
                requests.into_iter().for_each(|done| self.complete(times, done));
            }
            CallResult::Inquired(CompletedRequest { request, source }) => {
                ends(StepKind::Answer(Answer::Yes));
                let open = self.open.find(request, times.begin_ns);
                if let Some(OpenWildcard { number, asked, .. }) = open.cloned() {
                    let decided = StepKind::Decided(number, Sender::of(source, asked));
                    self.step(times.thread, times.end_ns, decided);
                }
            }
            CallResult::Freed(request) => {
                self.complete(times, CompletedRequest { request, source: MessageSource::Untold });
                self.prepared.remove(&request);
            }
        }
    }

    fn post(&mut self, times: CallTimes, request: u64, asked: ProbedReceive) {
        let CallTimes { thread, begin_ns, post, .. } = times;
        let PostedWildcard { number, over } =
            self.open.post(request, begin_ns, asked, self.threads.len() > 1);
        for number in over {
            self.step(thread, begin_ns, StepKind::Arrived(number, Sender::Told(MessageSource::Nobody)));
        }
        self.steps.push(Step { time_ns: begin_ns, thread, post, what: StepKind::Posted(number) });
    }

    fn complete(&mut self, times: CallTimes, CompletedRequest { request, source }: CompletedRequest) {
        if let Some(OpenWildcard { number, asked, .. }) = self.open.complete(request, times.begin_ns) {
            let arrived = StepKind::Arrived(number, Sender::of(source, asked));
            self.step(times.thread, times.end_ns, arrived);
        }
    }

    /// Why its record cannot go to where the tape ends, if it cannot.
    pub fn stopped(&self, process: &ProbedThreads) -> Option<String> {
        let others = || {
            match process.level() {
            ThreadLevel::Serialized => None,
            ThreadLevel::Multiple => {
                let stranger = self.threads.iter().find(|thread| thread.name.is_none())?;
                Some(format!("it was not seen who created its thread {}, which makes calls", stranger.tid))
            }
            ThreadLevel::One => Some(
                "its calls come from several threads, though MPI was begun for one (MPI_Init, MPI_THREAD_FUNNELED)"
                    .to_owned(),
            ),
            ThreadLevel::Unknown => Some(
                "its calls come from several threads, and it is not known whether these call one at a time"
                    .to_owned(),
            ),
        }
        };
        self.stopped.clone().or_else(|| if self.threads.len() > 1 { others() } else { None })
    }

    /// Whether more than one thread has called.
    pub fn has_several_threads(&self) -> bool {
        self.threads.len() > 1
    }

    /// Whether a receive or probe has asked for any tag.
    pub fn takes_any_tag(&self) -> bool {
        self.takes_any_tag
    }

    /// When its calls ended that do not just answer no, in order.
    pub fn ends_ns(&self) -> impl Iterator<Item = u64> {
        let ends = self.steps.iter().filter(|step| matches!(step.what, StepKind::Ended));
        let mut ends_ns: Vec<u64> = ends.map(|step| step.time_ns).collect();
        ends_ns.sort_unstable();
        ends_ns.into_iter()
    }

    /// The record. `positions`: of its calls that have ended, in order, if they are wanted; `sender`: who sent what a receive got, as a rank of MPI_COMM_WORLD; `tags_matter`: all receives of the job name their
    /// tags.
    pub fn record(
        &self,
        process: &ProbedThreads,
        tags_matter: bool,
        positions: Vec<u64>,
        sender: impl Fn(MessageId) -> Option<u32>,
    ) -> ProbedRecord {
        let mut record = ProbedRecord::default();
        let out = &mut record.bytes;
        let mut recording = Recording::by_probes(out);
        let mut positions = positions.into_iter();
        let mut unknown = 0;
        let mut source = |of: &Sender| {
            let found = of.resolve(&sender);
            unknown += u64::from(found == MessageSource::Untold);
            found
        };
        let mut steps: Vec<&Step> = self.steps.iter().collect();
        let rows = self.rows(process, &mut recording, out);
        // Calls of one thread are told in order.
        if self.threads.len() > 1 {
            let posts = order(&self.posts, &self.post_threads, tags_matter);
            let placed_ns = |at: usize| posts.placed_ns.get(at).copied();
            steps.sort_by_key(|step| step.post.and_then(placed_ns).unwrap_or(step.time_ns));
            record.unordered = if rows.is_empty() { 0 } else { posts.unordered };
        }
        for Step { thread, what, .. } in steps {
            let row = rows.get(*thread as usize).copied().unwrap_or(0);
            recording.speak(row);
            match what {
                StepKind::Refused(polls) => recording.refused((*polls).into()),
                StepKind::Call(number, arguments) => recording.call(*number, *arguments),
                StepKind::Turn if rows.is_empty() => {}
                StepKind::Turn => recording.turn(out),
                StepKind::Ended => {
                    if let Some(position) = positions.next() {
                        recording.position(position, out);
                    }
                }
                StepKind::Answer(answer) => recording.answer(answer.clone(), out),
                StepKind::From(of) => {
                    let from = match source(of) {
                        MessageSource::From(rank) => Some(rank),
                        _ => None,
                    };
                    recording.answer(Answer::From(from), out);
                }
                StepKind::Posted(number) => recording.posted(*number, out),
                StepKind::Arrived(number, of) => recording.arrived(*number, end(source(of)), out),
                StepKind::Decided(number, of) => _ = recording.decided(*number, end(source(of)), out),
            }
        }
        if self.has_ended {
            recording.mark(Mark::End, out);
        }
        record.unknown = unknown;
        record
    }

    /// The row of each thread in the record, where those call at the same time: the first is that of the thread which began MPI. Empty: there
    /// is one for all.
    fn rows(&self, process: &ProbedThreads, recording: &mut Recording, out: &mut Vec<u8>) -> Vec<usize> {
        if self.threads.len() < 2 || process.level() != ThreadLevel::Multiple {
            return Vec::new();
        }
        let mut known = HashMap::from([(process.first(), 0)]);
        let mut row = |thread: &RankCaller| {
            let name = thread.name.unwrap_or(0);
            *known.entry(name).or_insert_with(|| recording.add_thread(name, out))
        };
        self.threads.iter().map(&mut row).collect()
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
    use replay::thread_name::{FIRST_THREAD, child_name};
    use replay::{AskedFor, Due, Playback, TurnDue};

    use super::super::probed_posts::tests::unknown;
    use super::*;

    const MEMBERS: [u32; 3] = [7, 5, 9];

    fn message(number: u32) -> MessageId {
        MessageId { call: CallId { rank: 0, tid: 1, number }, part: 0 }
    }

    fn asked(number: u32) -> ProbedReceive {
        ProbedReceive { receive: message(number), members: Some(MEMBERS.to_vec()) }
    }

    /// One call after the other, of one thread.
    fn taken(results: &[CallResult]) -> ProbedRank {
        let mut rank = ProbedRank::default();
        let thread = rank.thread(RankCaller { tid: 1, name: Some(FIRST_THREAD) });
        for (number, result) in (1..).zip(results) {
            let begin_ns = 10 * u64::from(number);
            let times = CallTimes { thread, begin_ns, end_ns: begin_ns + 5, post: None };
            rank.take(times, asked(number), result.clone());
        }
        rank
    }

    fn record(rank: &ProbedRank, sender: impl Fn(MessageId) -> Option<u32>) -> ProbedRecord {
        rank.record(&ProbedThreads::default(), false, Vec::new(), sender)
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
        let record = record(&rank, |_| None);
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
        let record = record(&rank, sender);
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
        let record = record(&rank, |receive| (receive == second).then_some(9));
        let mut playback = playback(&record);
        assert_eq!(playback.posted(), Some(ReceiveEnd::From(0)));
        assert_eq!(playback.posted(), Some(ReceiveEnd::From(2)));
        assert_eq!(playback.posted(), None);
    }

    #[test]
    fn calls_have_the_positions_in_which_they_ended() {
        let mut rank = ProbedRank::default();
        let thread = rank.thread(RankCaller { tid: 1, name: Some(FIRST_THREAD) });
        rank.step(thread, 20, StepKind::Ended);
        rank.step(thread, 40, StepKind::Answer(Answer::Yes));
        rank.step(thread, 40, StepKind::Ended);
        assert_eq!(rank.ends_ns().collect::<Vec<_>>(), [20, 40]);
        let record = rank.record(&ProbedThreads::default(), false, vec![3, 9], |_| None);
        let mut playback = playback(&record);
        assert_eq!(playback.position(), Ok(Some(3)));
        assert_eq!(playback.due(AskedFor::Poll, 0), Ok(Due::Answer(Answer::Yes)));
        assert_eq!(playback.position(), Ok(Some(9)));
        let without = rank.record(&ProbedThreads::default(), false, Vec::new(), |_| None);
        assert_eq!(replay::total_order::positions_of(&without.bytes), Ok(Vec::new()));
    }

    const PID: u32 = 1;
    const OTHER: u32 = 2;

    /// A process whose first thread has begun MPI and created another one.
    fn two_threads(level: u64) -> ProbedThreads {
        let mut threads = ProbedThreads::default();
        threads.begin_mpi(PID, PID, ThreadLevel::asked_for(level));
        threads.created(PID, PID, OTHER, false, 1);
        threads
    }

    /// What threads did, by their numbers: when, and with what result.
    fn taken_by(process: &ProbedThreads, calls: &[(u32, (u64, u64), CallResult)]) -> ProbedRank {
        let mut rank = ProbedRank::default();
        for (number, (tid, (begin_ns, end_ns), result)) in (1..).zip(calls) {
            let thread = rank.thread(RankCaller { tid: *tid, name: process.name(PID, *tid) });
            let (begin_ns, end_ns) = (*begin_ns, *end_ns);
            let post = matches!(result, CallResult::Posted(_)).then(|| {
                let post = unknown(message(number).call, begin_ns, end_ns);
                rank.take_post(thread, post, None, &RecentCopies::default())
            });
            if post.is_some() {
                rank.steps.push(Step { time_ns: begin_ns, thread, post, what: StepKind::Turn });
            }
            let times = CallTimes { thread, begin_ns, end_ns, post };
            rank.take(times, asked(number), result.clone());
        }
        rank
    }

    fn waited(request: u64, source: u32) -> CallResult {
        CallResult::Completed(CompletionChoice::All, vec![done(request, MessageSource::From(source))])
    }

    #[test]
    fn threads_post_in_the_order_in_which_their_calls_began() {
        let process = two_threads(3);
        // The calls are told when they return.
        let rank = taken_by(
            &process,
            &[
                (OTHER, (20, 30), CallResult::Posted(0xb0)),
                (PID, (10, 40), CallResult::Posted(0xa0)),
                (PID, (50, 60), waited(0xa0, 1)),
                (OTHER, (50, 70), waited(0xb0, 2)),
            ],
        );
        let record = record_of(&rank, &process);
        let mut playback = playback(&record);
        let other = playback.thread(child_name(FIRST_THREAD, 1));
        playback.speak(other);
        assert_eq!(playback.turn(), TurnDue::Later, "the first thread is first");
        playback.speak(0);
        assert_eq!((playback.turn(), playback.posted()), (TurnDue::Now, Some(ReceiveEnd::From(1))));
        playback.turn_taken();
        playback.speak(other);
        assert_eq!((playback.turn(), playback.posted()), (TurnDue::Now, Some(ReceiveEnd::From(2))));
        playback.turn_taken();
        assert!(playback.is_over() && record.unordered == 1, "they were at it at the same time");
    }

    #[test]
    fn a_request_that_another_thread_gets_before_its_completion_is_told_is_another_one() {
        let process = two_threads(3);
        let rank = taken_by(
            &process,
            &[
                (PID, (10, 15), CallResult::Posted(0xa0)),
                (OTHER, (30, 35), CallResult::Posted(0xa0)),
                (PID, (20, 40), waited(0xa0, 1)),
                (OTHER, (50, 60), waited(0xa0, 2)),
                (PID, (70, 75), CallResult::Posted(0xa0)),
                (OTHER, (90, 95), CallResult::Posted(0xa0)),
                (OTHER, (100, 105), waited(0xa0, 0)),
                // It is told when the thread goes on.
                (PID, (80, 92), waited(0xa0, 2)),
            ],
        );
        let mut playback = playback(&record_of(&rank, &process));
        let posted: Vec<_> = (0..4).map(|_| playback.posted()).collect();
        assert_eq!(posted, [1, 2, 2, 0].map(|rank| Some(ReceiveEnd::From(rank))));
    }

    #[test]
    fn threads_that_call_one_at_a_time_are_one_sequence() {
        let process = two_threads(2);
        let received = |rank| CallResult::Received(MessageSource::From(rank));
        let rank = taken_by(&process, &[(OTHER, (30, 40), received(2)), (PID, (10, 20), received(1))]);
        let mut playback = playback(&record_of(&rank, &process));
        assert_eq!(playback.due(AskedFor::Source, 0), Ok(Due::Answer(Answer::From(Some(1)))));
        assert_eq!(playback.due(AskedFor::Source, 0), Ok(Due::Answer(Answer::From(Some(2)))));
    }

    #[test]
    fn several_threads_need_a_level_and_creators() {
        let calls = [(PID, (10, 20), CallResult::Yes), (OTHER, (30, 40), CallResult::Yes)];
        for (level, is_refused) in [(1, true), (2, false), (3, false), (9, true)] {
            let process = two_threads(level);
            assert_eq!(taken_by(&process, &calls).stopped(&process).is_some(), is_refused, "level {level}");
        }
        let mut process = ProbedThreads::default();
        process.begin_mpi(PID, PID, ThreadLevel::Multiple);
        let why = taken_by(&process, &calls).stopped(&process);
        assert!(why.is_some_and(|why| why.contains("who created its thread 2")));
        assert_eq!(taken_by(&process, &calls[..1]).stopped(&process), None);
    }

    fn record_of(rank: &ProbedRank, process: &ProbedThreads) -> ProbedRecord {
        rank.record(process, false, Vec::new(), |_| None)
    }
}
