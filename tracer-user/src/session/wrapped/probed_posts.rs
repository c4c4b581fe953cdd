//! In which order threads of a rank posted sends and receives, and took messages.
//!
//! A probe sees when such a call begins and ends. Where two threads are at it at the same time, either may have been first in the library. That
//! matters if both want messages of the same sender, or send to the same receiver. The copies tell which is likely: the library copies
//! messages of one sender in the order in which they came, and they are taken in the order in which receives were posted; what is sent is
//! copied, if it is not long, soon after its place among those to the same receiver is fixed. It is not certain, so that it is counted.

use std::collections::BTreeMap;

use analyzer::calls::{Arg, Does, Form};
use analyzer::messages::{Call, CallId};

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
    /// Number of the communicator.
    communicator: Option<u32>,
    pub sends: Option<SendPost>,
    pub receives: Option<ReceivePost>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SendPost {
    to: i32,
    /// Where the content is.
    pub buffer: Option<u64>,
    /// When that was copied.
    pub copied_ns: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReceivePost {
    /// Below zero: anybody.
    from: i32,
    /// Where the content goes.
    pub buffer: Option<u64>,
    /// When it had its message.
    pub copied_ns: Option<u64>,
}

impl Post {
    /// What a call posts, if it does; `communicator`: the number of the one that it names.
    pub fn of(id: CallId, call: &Call, end_ns: u64, communicator: Option<u32>) -> Option<Self> {
        let takes = matches!(call.row.does, Does::Probe | Does::ProbeMatched);
        let posts = matches!(call.row.does, Does::Send(_) | Does::Receive | Does::Exchange | Does::Start);
        if !(takes || posts) || call.row.form == Form::Persistent {
            return None;
        }
        let number = |arg| call.argument(arg).map(|word| word as i32);
        let at = |buffer: usize| call.word(buffer);
        let sends = number(Arg::Dest).map(|to| SendPost {
            to,
            buffer: call.row.sent().and_then(|content| at(content.buffer)),
            copied_ns: None,
        });
        let receives = number(Arg::Source).map(|from| ReceivePost {
            from,
            buffer: call.row.received().and_then(|content| at(content.buffer)),
            copied_ns: takes.then_some(end_ns),
        });
        let is_blocking = call.row.form == Form::Blocking;
        Some(Self { id, begin_ns: call.begin_ns, end_ns, takes, is_blocking, communicator, sends, receives })
    }

    /// Of a receive that is over: when its content came, if it is known by now, and whose it was.
    pub fn received(&mut self, from: Option<u32>, copied: impl Fn(u64, u64) -> Option<u64>) {
        let begin_ns = self.begin_ns;
        if let Some(receive) = &mut self.receives {
            receive.from = from.and_then(|from| i32::try_from(from).ok()).unwrap_or(receive.from);
            receive.copied_ns =
                receive.copied_ns.or_else(|| receive.buffer.and_then(|buffer| copied(buffer, begin_ns)));
        }
    }

    /// Of a send that is posted: when its content was copied.
    pub fn sent(&mut self, copied: impl Fn(u64, u64) -> Option<u64>) {
        let (begin_ns, end_ns) = (self.begin_ns, self.end_ns);
        if let Some(send) = &mut self.sends {
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

    pub fn waits_for_message(&self) -> bool {
        self.is_blocking && self.receives.is_some()
    }

    /// Whom it competes for messages or places with: those that have one of these in common.
    fn lanes(&self) -> impl Iterator<Item = (PostLane, Option<u64>)> {
        let of =
            |side, peer, copied_ns| (PostLane { communicator: self.communicator, side, peer }, copied_ns);
        let send = self.sends.as_ref().map(|send| of(LaneEnd::Sends, send.to, send.copied_ns));
        let receive =
            self.receives.as_ref().map(|receive| of(LaneEnd::Receives, receive.from, receive.copied_ns));
        send.into_iter().chain(receive)
    }

    fn competes(&self, other: &Self) -> bool {
        let knows =
            |post: &Self| post.communicator.is_some() && (post.sends.is_some() || post.receives.is_some());
        if !knows(self) || !knows(other) {
            return true;
        }
        let any = |lane: PostLane| lane.side == LaneEnd::Receives && lane.peer < 0;
        self.lanes().any(|(one, _)| {
            other.lanes().any(|(other, _)| {
                let same_place = one.communicator == other.communicator && one.side == other.side;
                same_place && (one.peer == other.peer || any(one) || any(other))
            })
        })
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

/// Puts posts of threads in order; `threads`: of each.
pub(super) fn order(posts: &[Post], threads: &[u32]) -> PostOrder {
    let mut placed_ns: Vec<u64> = posts.iter().map(Post::likely_ns).collect();
    let mut lanes: BTreeMap<PostLane, Vec<(u64, usize)>> = BTreeMap::new();
    for (at, post) in posts.iter().enumerate() {
        for (lane, copied_ns) in post.lanes() {
            lanes.entry(lane).or_default().extend(copied_ns.map(|copied_ns| (copied_ns, at)));
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
    PostOrder { placed_ns, unordered: unordered(posts, threads) }
}

/// How many have one of another thread behind them that may have been first, which matters.
fn unordered(posts: &[Post], threads: &[u32]) -> u64 {
    let mut in_order: Vec<usize> = (0..posts.len()).collect();
    in_order.sort_by_key(|at| posts[*at].window());
    let mut count = 0;
    for (place, &at) in in_order.iter().enumerate() {
        let (_, until_ns) = posts[at].window();
        let following = in_order[place + 1..].iter().take(MOST_COMPARED);
        let mut meanwhile = following.take_while(|later| posts[**later].window().0 < until_ns);
        let matters = |later: &usize| threads[*later] != threads[at] && posts[at].competes(&posts[*later]);
        count += u64::from(meanwhile.any(matters));
    }
    count
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// One of which nothing is known.
    pub fn unknown(id: CallId, begin_ns: u64, end_ns: u64) -> Post {
        Post {
            id,
            begin_ns,
            end_ns,
            takes: false,
            is_blocking: false,
            communicator: None,
            sends: None,
            receives: None,
        }
    }

    fn post((begin_ns, end_ns): (u64, u64)) -> Post {
        let id = CallId { rank: 0, tid: 1, number: 1 };
        Post { communicator: Some(0), ..unknown(id, begin_ns, end_ns) }
    }

    fn receive(times: (u64, u64), from: i32, copied_ns: Option<u64>) -> Post {
        Post { receives: Some(ReceivePost { from, buffer: None, copied_ns }), ..post(times) }
    }

    fn send(times: (u64, u64), to: i32, copied_ns: Option<u64>) -> Post {
        Post { sends: Some(SendPost { to, buffer: None, copied_ns }), ..post(times) }
    }

    /// Each of a thread of its own.
    fn ordered(posts: &[Post]) -> (Vec<usize>, u64) {
        let threads: Vec<u32> = (0..posts.len() as u32).collect();
        let order = order(posts, &threads);
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
        let started = Post { communicator: None, ..post((10, 100)) };
        assert_eq!(pair(started, from(1)), 1, "what is not known may matter");
        let elsewhere = Post { communicator: Some(1), ..from(1) };
        assert_eq!(pair(elsewhere, from(1)), 0);
    }

    #[test]
    fn posts_one_after_the_other_are_in_order() {
        let count = |posts: &[Post], threads: &[u32]| order(posts, threads).unordered;
        let any = |begin_ns, end_ns| receive((begin_ns, end_ns), -1, None);
        assert_eq!(count(&[any(10, 20), any(20, 30)], &[0, 1]), 0);
        assert_eq!(count(&[any(10, 50), any(20, 30)], &[0, 0]), 0, "of one thread");
        let late_ns = 10 + PLACED_WITHIN_NS;
        assert_eq!(count(&[any(10, u64::MAX), any(late_ns, u64::MAX)], &[0, 1]), 0, "it waits already");
    }

    #[test]
    fn the_end_of_a_receive_tells_whose_message_it_was_and_when_it_came() {
        let mut asked = receive((10, 50), -1, None);
        asked.receives = Some(ReceivePost { from: -1, buffer: Some(0x100), copied_ns: None });
        asked.received(Some(2), |buffer, from_ns| (buffer == 0x100 && from_ns == 10).then_some(33));
        assert_eq!(asked.receives, Some(ReceivePost { from: 2, buffer: Some(0x100), copied_ns: Some(33) }));
    }
}
