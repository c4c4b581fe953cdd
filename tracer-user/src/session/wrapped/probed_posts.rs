//! In which order threads of a rank posted sends and receives, and took messages.
//!
//! A probe sees when such a call begins and ends. Where two threads are at it at the same time, either may have been first in the library. That
//! matters if both want messages of the same sender, or send to the same receiver. The copies tell which is likely: the library copies
//! messages of one sender in the order in which they came, and they are taken in the order in which receives were posted; what is sent is
//! copied, if it is not long, soon after its place among those to the same receiver is fixed. It is not certain, so that it is counted.
//! Messages with tags of their own do not compete.

use std::collections::BTreeMap;

use analyzer::calls::{Arg, Does, Form};
use analyzer::messages::{Call, CallId, MessageFacts, MessageId};

/// A call that posts, or takes a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Post {
    pub id: CallId,
    begin_ns: u64,
    end_ns: u64,
    /// It looks for a message, and takes it at its end.
    takes: bool,
    /// It waits for the message.
    is_blocking: bool,
    /// None: not known.
    messages: Option<Vec<PostedMessage>>,
}

/// One that is sent or asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PostedMessage {
    /// Which of its call's.
    part: u32,
    lane: PostLane,
    /// Below zero: any.
    tag: i32,
    /// Where the content is, or goes.
    buffer: Option<u64>,
    /// When that was copied.
    copied_ns: Option<u64>,
}

impl PostedMessage {
    /// One that was started again.
    pub fn started(part: u32, facts: &MessageFacts) -> Self {
        let side = if facts.sends { LaneEnd::Sends } else { LaneEnd::Receives };
        let peer = facts.peer.and_then(|peer| i32::try_from(peer).ok()).unwrap_or(-1);
        let lane = PostLane { communicator: facts.comm, side, peer };
        Self { part, lane, tag: facts.tag.unwrap_or(-1), buffer: None, copied_ns: None }
    }

    fn is_received(&self) -> bool {
        self.lane.side == LaneEnd::Receives
    }

    /// Whether it matters which of two is first; `tags_matter`: receives of the job name their tags.
    fn competes(&self, other: &Self, tags_matter: bool) -> bool {
        let (one, two) = (self.lane, other.lane);
        if one.communicator.is_none() || two.communicator.is_none() {
            return true;
        }
        let any = |number: i32| self.is_received() && number < 0;
        let same_peer = one.peer == two.peer || any(one.peer) || any(two.peer);
        let same_tag = self.tag == other.tag || any(self.tag) || any(other.tag);
        let same_tag = same_tag || !self.is_received() && !tags_matter;
        one.communicator == two.communicator && one.side == two.side && same_peer && same_tag
    }
}

impl Post {
    /// What a call posts, if it does; `communicator`: the number of the one that it names; `started`: what it starts again, if that is all
    /// known.
    pub fn of(
        id: CallId,
        call: &Call,
        end_ns: u64,
        communicator: Option<u32>,
        started: Option<Vec<PostedMessage>>,
    ) -> Option<Self> {
        let takes = matches!(call.row.does, Does::Probe | Does::ProbeMatched);
        let posts = matches!(call.row.does, Does::Send(_) | Does::Receive | Does::Exchange | Does::Start);
        if !(takes || posts) || call.row.form == Form::Persistent {
            return None;
        }
        let messages = if call.row.does == Does::Start {
            started
        } else {
            let number = |arg| call.argument(arg).map(|word| word as i32);
            let message = |part, side, peer, tag, buffer: Option<usize>| {
                let lane = PostLane { communicator, side, peer: number(peer)? };
                let buffer = buffer.and_then(|buffer| call.word(buffer));
                let copied_ns = takes.then_some(end_ns);
                Some(PostedMessage { part, lane, tag: number(tag).unwrap_or(-1), buffer, copied_ns })
            };
            let (sent, received) = (call.row.sent(), call.row.received());
            let sent = sent.map(|content| content.buffer);
            let received = received.map(|content| content.buffer);
            let sends = message(0, LaneEnd::Sends, Arg::Dest, Arg::SendTag, sent);
            let part = u32::from(sends.is_some());
            let receives = message(part, LaneEnd::Receives, Arg::Source, Arg::ReceiveTag, received);
            Some(sends.into_iter().chain(receives).collect()).filter(|messages: &Vec<_>| !messages.is_empty())
        };
        let is_blocking = call.row.form == Form::Blocking;
        Some(Self { id, begin_ns: call.begin_ns, end_ns, takes, is_blocking, messages })
    }

    /// Of a receive that is over: when its content came, if it is known by now, and whose it was.
    pub fn received(&mut self, part: u32, from: Option<u32>, copied: impl Fn(u64, u64) -> Option<u64>) {
        let begin_ns = self.begin_ns;
        let mut receives = self.messages.iter_mut().flatten().filter(|message| message.is_received());
        if let Some(receive) = receives.find(|message| message.part == part) {
            let peer = &mut receive.lane.peer;
            *peer = from.and_then(|from| i32::try_from(from).ok()).unwrap_or(*peer);
            receive.copied_ns =
                receive.copied_ns.or_else(|| receive.buffer.and_then(|buffer| copied(buffer, begin_ns)));
        }
    }

    /// Of a send that is posted: when its content was copied.
    pub fn sent(&mut self, copied: impl Fn(u64, u64) -> Option<u64>) {
        let (begin_ns, end_ns) = (self.begin_ns, self.end_ns);
        for send in self.messages.iter_mut().flatten().filter(|message| !message.is_received()) {
            let found = send.buffer.and_then(|buffer| copied(buffer, begin_ns));
            send.copied_ns = found.filter(|time_ns| *time_ns <= end_ns);
        }
    }

    /// When it is in its place at the earliest and at the latest, unless the thread loses its processor meanwhile.
    fn window(&self) -> (u64, u64) {
        let begin_ns = if self.takes {
            self.begin_ns.max(self.end_ns.saturating_sub(PLACED_WITHIN_NS))
        } else {
            self.begin_ns
        };
        (begin_ns, self.end_ns.min(begin_ns.saturating_add(PLACED_WITHIN_NS)))
    }

    /// If nothing else is known.
    fn likely_ns(&self) -> u64 {
        if self.takes { self.end_ns } else { self.begin_ns }
    }

    /// What it asks for.
    pub fn receives(&self) -> impl Iterator<Item = MessageId> {
        let receives = self.messages.iter().flatten().filter(|message| message.is_received());
        receives.map(|message| MessageId { call: self.id, part: message.part })
    }

    /// The part of its call that it waits for.
    pub fn awaited_part(&self) -> Option<u32> {
        self.receives().next().filter(|_| self.is_blocking).map(|message| message.part)
    }

    fn competes(&self, other: &Self, tags_matter: bool) -> bool {
        let (Some(own), Some(others)) = (&self.messages, &other.messages) else { return true };
        own.iter().any(|one| others.iter().any(|other| one.competes(other, tags_matter)))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LaneEnd {
    Sends,
    Receives,
}

/// Messages from one rank to another in a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PostLane {
    communicator: Option<u32>,
    side: LaneEnd,
    peer: i32,
}

/// When each was likely in its place, and how many of them may have been in another order that matters.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PostOrder {
    pub placed_ns: Vec<u64>,
    pub unordered: u64,
}

/// A post is in its place so soon after its call began.
const PLACED_WITHIN_NS: u64 = 1_000_000;
/// So many that follow are compared with each.
const MOST_COMPARED: usize = 64;

/// Puts posts of threads in order; `threads`: of each; `tags_matter`: all receives of the job name their tags.
pub(super) fn order(posts: &[Post], threads: &[u32], tags_matter: bool) -> PostOrder {
    let mut placed_ns: Vec<u64> = posts.iter().map(Post::likely_ns).collect();
    let mut lanes: BTreeMap<PostLane, Vec<(u64, usize)>> = BTreeMap::new();
    for (at, post) in posts.iter().enumerate() {
        for message in post.messages.iter().flatten() {
            let lane = lanes.entry(message.lane).or_default();
            lane.extend(message.copied_ns.map(|copied_ns| (copied_ns, at)));
        }
    }
    for mut lane in lanes.into_values() {
        lane.sort_unstable();
        let mut last_ns = 0;
        for (_, at) in lane {
            let due_ns = placed_ns[at].max(last_ns + 1);
            if due_ns <= posts[at].end_ns {
                placed_ns[at] = due_ns;
                last_ns = due_ns;
            }
        }
    }
    PostOrder { placed_ns, unordered: unordered(posts, threads, tags_matter) }
}

/// How many have one of another thread behind them that may have been first, which matters.
fn unordered(posts: &[Post], threads: &[u32], tags_matter: bool) -> u64 {
    let mut in_order: Vec<usize> = (0..posts.len()).collect();
    in_order.sort_by_key(|at| posts[*at].window());
    let mut count = 0;
    for (place, &at) in in_order.iter().enumerate() {
        let (_, until_ns) = posts[at].window();
        let following = in_order[place + 1..].iter().take(MOST_COMPARED);
        let mut meanwhile = following.take_while(|later| posts[**later].window().0 < until_ns);
        let matters =
            |later: &usize| threads[*later] != threads[at] && posts[at].competes(&posts[*later], tags_matter);
        count += u64::from(meanwhile.any(matters));
    }
    count
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// One of which nothing is known.
    pub fn unknown(id: CallId, begin_ns: u64, end_ns: u64) -> Post {
        Post { id, begin_ns, end_ns, takes: false, is_blocking: false, messages: None }
    }

    fn post((begin_ns, end_ns): (u64, u64), side: LaneEnd, peer: i32, copied_ns: Option<u64>) -> Post {
        let id = CallId { rank: 0, tid: 1, number: 1 };
        let lane = PostLane { communicator: Some(0), side, peer };
        let message = PostedMessage { part: 0, lane, tag: 5, buffer: None, copied_ns };
        Post { messages: Some(vec![message]), ..unknown(id, begin_ns, end_ns) }
    }

    fn receive(times: (u64, u64), from: i32, copied_ns: Option<u64>) -> Post {
        post(times, LaneEnd::Receives, from, copied_ns)
    }

    fn send(times: (u64, u64), to: i32, copied_ns: Option<u64>) -> Post {
        post(times, LaneEnd::Sends, to, copied_ns)
    }

    fn changed(mut post: Post, change: impl Fn(&mut PostedMessage)) -> Post {
        post.messages.iter_mut().flatten().for_each(change);
        post
    }

    /// Each of a thread of its own.
    fn ordered(posts: &[Post]) -> (Vec<usize>, u64) {
        let threads: Vec<u32> = (0..posts.len() as u32).collect();
        let order = order(posts, &threads, false);
        let mut places: Vec<usize> = (0..posts.len()).collect();
        places.sort_by_key(|at| order.placed_ns[*at]);
        (places, order.unordered)
    }

    #[test]
    fn copies_tell_which_of_two_was_likely_first() {
        let receives = |first, second| [receive((10, 50), 2, first), receive((20, 50), 2, second)];
        assert_eq!(ordered(&receives(Some(40), Some(45))), (vec![0, 1], 1));
        assert_eq!(ordered(&receives(Some(45), Some(40))), (vec![1, 0], 1));
        assert_eq!(ordered(&receives(Some(45), None)), (vec![0, 1], 1));
        let sends = [send((10, 50), 2, Some(45)), send((20, 50), 2, Some(40))];
        assert_eq!(ordered(&sends), (vec![1, 0], 1));
    }

    #[test]
    fn one_that_looks_for_a_message_takes_it_at_its_end() {
        let probe = |begin_ns, end_ns| Post { takes: true, ..receive((begin_ns, end_ns), 2, None) };
        assert_eq!(ordered(&[probe(10, 3_000_000), receive((20, 50), 2, None)]), (vec![1, 0], 0));
        assert_eq!(ordered(&[probe(10, 3_000_000), probe(20, 2_500_000)]), (vec![1, 0], 1));
    }

    #[test]
    fn what_was_over_before_stays_first_whatever_was_copied() {
        let receives = [receive((10, 15), 2, Some(45)), receive((20, 50), 2, Some(40))];
        assert_eq!(ordered(&receives), (vec![0, 1], 0));
    }

    #[test]
    fn posts_at_the_same_time_matter_if_they_want_the_same_messages() {
        let pair = |one: Post, other: Post| ordered(&[one, other]).1;
        let from = |source| receive((10, 100), source, None);
        let to = |rank| send((10, 100), rank, None);
        assert_eq!([pair(from(-1), from(1)), pair(from(1), from(1)), pair(from(1), from(2))], [1, 1, 0]);
        assert_eq!([pair(to(1), to(1)), pair(to(1), to(2)), pair(to(1), from(1))], [1, 0, 0]);
        let started = Post { messages: None, ..from(2) };
        assert_eq!(pair(started, from(1)), 1, "what is not known may matter");
        let on = |communicator| changed(from(1), |message| message.lane.communicator = communicator);
        assert_eq!([pair(on(Some(1)), from(1)), pair(on(None), from(1))], [0, 1]);
    }

    #[test]
    fn messages_with_tags_of_their_own_do_not_compete_unless_somebody_takes_any() {
        let pair =
            |one: &Post, other: Post, tags_matter| unordered(&[one.clone(), other], &[0, 1], tags_matter);
        let tagged = |post, tag| changed(post, |message| message.tag = tag);
        let from = |tag| tagged(receive((10, 100), 1, None), tag);
        assert_eq!([5, 6, -1].map(|tag| pair(&from(5), from(tag), true)), [1, 0, 1]);
        let to = |tag| tagged(send((10, 100), 1, None), tag);
        assert_eq!([5, 6].map(|tag| pair(&to(5), to(tag), true)), [1, 0]);
        assert_eq!(pair(&to(5), to(6), false), 1);
    }

    #[test]
    fn what_is_started_again_competes_by_whom_it_is_for() {
        let facts = |sends, peer| MessageFacts {
            sends,
            comm: Some(0),
            peer,
            peer_rank: peer,
            tag: Some(5),
            len_bytes: None,
        };
        let started = |all: &[MessageFacts]| {
            let messages = (0..).zip(all).map(|(part, facts)| PostedMessage::started(part, facts));
            Post { messages: Some(messages.collect()), ..receive((10, 100), 1, None) }
        };
        let both = started(&[facts(true, Some(1)), facts(false, Some(2))]);
        let others = [send((10, 100), 1, None), send((10, 100), 2, None), receive((10, 100), 2, None)];
        assert_eq!(others.map(|other| ordered(&[both.clone(), other]).1), [1, 0, 1]);
        let anybody = started(&[facts(false, None)]);
        assert_eq!(ordered(&[anybody, receive((10, 100), 2, None)]).1, 1);
        assert_eq!(both.receives().map(|message| message.part).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn posts_one_after_the_other_are_in_order() {
        let count = |posts: &[Post], threads: &[u32]| order(posts, threads, true).unordered;
        let any = |begin_ns, end_ns| receive((begin_ns, end_ns), -1, None);
        assert_eq!(count(&[any(10, 20), any(20, 30)], &[0, 1]), 0);
        assert_eq!(count(&[any(10, 50), any(20, 30)], &[0, 0]), 0, "of one thread");
        let late_ns = 10 + PLACED_WITHIN_NS;
        assert_eq!(count(&[any(10, u64::MAX), any(late_ns, u64::MAX)], &[0, 1]), 0, "it waits already");
    }

    #[test]
    fn the_end_of_a_receive_tells_whose_message_it_was_and_when_it_came() {
        let mut asked = changed(receive((10, 50), -1, None), |message| message.buffer = Some(0x100));
        asked.received(0, Some(2), |buffer, from_ns| (buffer == 0x100 && from_ns == 10).then_some(33));
        let told = changed(receive((10, 50), 2, Some(33)), |message| message.buffer = Some(0x100));
        assert_eq!(asked, told);
    }
}
