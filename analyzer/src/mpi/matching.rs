//! Which receive gets which message (MPI 4.0, 3.5: messages do not overtake each other).
//!
//! Of the messages from one rank to another in one communicator, a receive gets the first that fits it and that no
//! receive posted before it would have got. Where a receive takes messages from anybody, that depends on chance:
//! it is decided when the receive is over and has said whose message it was; until then, receives after it that
//! could have got the same message are not decided either.

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashMap;

use super::communicators::CommId;
use super::handles::ANY_TAG;

/// Sends and receives without a partner that are kept.
const MOST: usize = 1 << 20;

/// A receive that has no message yet.
#[derive(Clone, Copy, Debug)]
struct Receive<T> {
    id: T,
    /// Rank in the communicator; `None`: anybody's.
    source: Option<u32>,
    tag: i32,
}

impl<T> Receive<T> {
    fn takes(&self, tag: i32) -> bool {
        self.tag == ANY_TAG || self.tag == tag
    }

    /// Whether some message would fit both.
    fn overlaps(&self, other: &Self) -> bool {
        let tags = self.tag == ANY_TAG || other.takes(self.tag);
        let sources = self.source.is_none() || other.source.is_none() || self.source == other.source;
        tags && sources
    }
}

/// Messages to one rank of one communicator.
#[derive(Debug)]
struct Lane<T> {
    /// In the order in which they were posted.
    receives: VecDeque<Receive<T>>,
    /// By source, in the order in which they were sent: with their tags.
    sends: BTreeMap<u32, VecDeque<(T, i32)>>,
    /// What happens here is not known any more.
    lost: bool,
}

impl<T> Default for Lane<T> {
    fn default() -> Self {
        Self { receives: VecDeque::new(), sends: BTreeMap::new(), lost: false }
    }
}

/// All lanes. `T` names a send or a receive.
#[derive(Debug)]
pub(super) struct Matching<T> {
    lanes: FxHashMap<(CommId, u32), Lane<T>>,
    waiting: usize,
}

impl<T> Default for Matching<T> {
    fn default() -> Self {
        Self { lanes: FxHashMap::default(), waiting: 0 }
    }
}

/// A send and its receive.
pub(super) type Pair<T> = (T, T);

impl<T: Copy + PartialEq> Matching<T> {
    /// A message is sent. `from` and `to`: ranks in the communicator.
    pub fn send(&mut self, comm: CommId, (from, to): (u32, u32), tag: i32, id: T) -> Vec<Pair<T>> {
        let Some(lane) = self.lane(comm, to) else { return Vec::new() };
        lane.sends.entry(from).or_default().push_back((id, tag));
        self.decide(comm, to)
    }

    /// A receive is posted. `source`: `None` for anybody's.
    pub fn receive(&mut self, comm: CommId, to: u32, source: Option<u32>, tag: i32, id: T) -> Vec<Pair<T>> {
        let Some(lane) = self.lane(comm, to) else { return Vec::new() };
        lane.receives.push_back(Receive { id, source, tag });
        self.decide(comm, to)
    }

    /// A receive is over, and it is known whose message it got.
    pub fn resolve(&mut self, comm: CommId, to: u32, id: T, (source, tag): (u32, i32)) -> Vec<Pair<T>> {
        let Some(lane) = self.lanes.get_mut(&(comm, to)) else { return Vec::new() };
        let Some(receive) = lane.receives.iter_mut().find(|receive| receive.id == id) else {
            return Vec::new();
        };
        (receive.source, receive.tag) = (Some(source), tag);
        self.decide(comm, to)
    }

    /// A receive is over. If it was never decided whose message it got, nothing that comes after it can be.
    pub fn over(&mut self, comm: CommId, to: u32, id: T) {
        if let Some(lane) = self.lanes.get_mut(&(comm, to))
            && lane.receives.iter().any(|receive| receive.id == id && receive.source.is_none())
        {
            lane.lose();
        }
    }

    /// A receive was cancelled before it got a message.
    pub fn cancel(&mut self, comm: CommId, to: u32, id: T) -> Vec<Pair<T>> {
        let Some(lane) = self.lanes.get_mut(&(comm, to)) else { return Vec::new() };
        lane.receives.retain(|receive| receive.id != id);
        self.decide(comm, to)
    }

    /// What a rank of a communicator gets is not known any more.
    pub fn lose(&mut self, comm: CommId, to: u32) {
        self.lanes.entry((comm, to)).or_default().lose();
    }

    fn lane(&mut self, comm: CommId, to: u32) -> Option<&mut Lane<T>> {
        let lane = self.lanes.entry((comm, to)).or_default();
        if self.waiting >= MOST {
            lane.lose();
        }
        if lane.lost {
            return None;
        }
        self.waiting += 1;
        Some(lane)
    }

    fn decide(&mut self, comm: CommId, to: u32) -> Vec<Pair<T>> {
        let Some(lane) = self.lanes.get_mut(&(comm, to)) else { return Vec::new() };
        let pairs = lane.decide();
        self.waiting = self.waiting.saturating_sub(2 * pairs.len());
        pairs
    }
}

impl<T: Copy> Lane<T> {
    fn lose(&mut self) {
        *self = Self { lost: true, ..Self::default() };
    }

    /// Takes out all pairs that are certain.
    fn decide(&mut self) -> Vec<Pair<T>> {
        let mut pairs = Vec::new();
        let mut undecided: Vec<Receive<T>> = Vec::new();
        let sends = &mut self.sends;
        self.receives.retain(|receive| {
            let open = receive.source.is_none() || undecided.iter().any(|earlier| earlier.overlaps(receive));
            if open {
                undecided.push(*receive);
                return true;
            }
            let queue = receive.source.and_then(|source| sends.get_mut(&source));
            let Some(queue) = queue else { return true };
            let Some(at) = queue.iter().position(|(_, tag)| receive.takes(*tag)) else { return true };
            pairs.extend(queue.remove(at).map(|(send, _)| (send, receive.id)));
            false
        });
        pairs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMM: CommId = CommId(0);

    fn lane() -> Matching<u32> {
        Matching::default()
    }

    #[test]
    fn messages_of_one_tag_are_received_in_the_order_in_which_they_were_sent() {
        let mut m = lane();
        assert_eq!(m.send(COMM, (1, 0), 5, 10), []);
        assert_eq!(m.send(COMM, (1, 0), 5, 11), []);
        assert_eq!(m.receive(COMM, 0, Some(1), 5, 20), [(10, 20)]);
        assert_eq!(m.receive(COMM, 0, Some(1), ANY_TAG, 21), [(11, 21)]);
    }

    #[test]
    fn tags_may_overtake_each_other() {
        let mut m = lane();
        assert_eq!(m.receive(COMM, 0, Some(1), 6, 20), []);
        assert_eq!(m.receive(COMM, 0, Some(1), ANY_TAG, 21), []);
        assert_eq!(m.send(COMM, (1, 0), 5, 10), [(10, 21)]);
        assert_eq!(m.send(COMM, (1, 0), 6, 11), [(11, 20)]);
    }

    #[test]
    fn what_comes_after_a_receive_from_anybody_waits_for_its_end() {
        let mut m = lane();
        m.receive(COMM, 0, None, 5, 20);
        m.receive(COMM, 0, Some(1), 5, 21);
        assert_eq!(m.receive(COMM, 0, Some(1), 9, 22), []);
        assert_eq!(m.send(COMM, (1, 0), 5, 10), []);
        // Another tag cannot have been meant by the first.
        assert_eq!(m.send(COMM, (1, 0), 9, 11), [(11, 22)]);
        assert_eq!(m.send(COMM, (2, 0), 5, 12), []);
        assert_eq!(m.resolve(COMM, 0, 20, (2, 5)), [(12, 20), (10, 21)]);
    }

    #[test]
    fn nothing_is_said_after_a_receive_from_anybody_that_never_told() {
        let mut m = lane();
        m.receive(COMM, 0, None, ANY_TAG, 20);
        m.send(COMM, (1, 0), 5, 10);
        m.over(COMM, 0, 20);
        assert_eq!(m.receive(COMM, 0, Some(1), 5, 21), []);
        assert_eq!(m.send(COMM, (1, 0), 5, 11), []);
    }

    #[test]
    fn a_cancelled_receive_is_in_nobodys_way() {
        let mut m = lane();
        m.receive(COMM, 0, None, 5, 20);
        m.receive(COMM, 0, Some(1), 5, 21);
        m.send(COMM, (1, 0), 5, 10);
        assert_eq!(m.cancel(COMM, 0, 20), [(10, 21)]);
    }
}
