//! Which receive gets which message (MPI 4.0, 3.5: messages do not overtake each other).
//!
//! Of the messages from one rank to another in one communicator, a receive gets the first that fits it and that no
//! receive posted before it would have got. Where a receive takes messages from anybody, that depends on chance:
//! it is decided when the receive is over and has said whose message it was; until then, receives after it that
//! could have got the same message are not decided either.

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashMap;

use super::ids::CommId;
use crate::mpi::handles::ANY_TAG;

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
    /// Those of them that take messages from anybody.
    from_anybody: usize,
    /// By source, in the order in which they were sent: with their tags.
    sends: BTreeMap<u32, VecDeque<(T, i32)>>,
    /// Sends and receives that are here.
    waiting: usize,
    /// What happens here is not known any more.
    lost: bool,
}

impl<T> Default for Lane<T> {
    fn default() -> Self {
        Self { receives: VecDeque::new(), from_anybody: 0, sends: BTreeMap::new(), waiting: 0, lost: false }
    }
}

/// All lanes. `T` names a send or a receive.
#[derive(Debug)]
pub(super) struct Matching<T> {
    lanes: FxHashMap<(CommId, u32), Lane<T>>,
    waiting: usize,
    /// Room for receives that are not decided.
    undecided: Vec<Receive<T>>,
}

impl<T> Default for Matching<T> {
    fn default() -> Self {
        Self { lanes: FxHashMap::default(), waiting: 0, undecided: Vec::new() }
    }
}

/// A send and its receive.
pub(super) type Pair<T> = (T, T);

/// Pairs that have become certain are added to what is passed as `pairs`.
impl<T: Copy + PartialEq> Matching<T> {
    /// A message is sent. `from` and `to`: ranks in the communicator.
    pub fn send(&mut self, comm: CommId, (from, to): (u32, u32), tag: i32, id: T, pairs: &mut Vec<Pair<T>>) {
        let Some(lane) = lane(&mut self.lanes, &mut self.waiting, comm, to) else { return };
        if lane.from_anybody > 0 {
            lane.sends.entry(from).or_default().push_back((id, tag));
            lane.waiting += 1;
            self.waiting += 1;
            return self.decide(comm, to, pairs);
        }
        // All receives here are waiting for messages that have not come: only this one can be new to them.
        match lane.receives.iter().position(|receive| receive.source == Some(from) && receive.takes(tag)) {
            Some(at) => {
                pairs.extend(lane.receives.remove(at).map(|receive| (id, receive.id)));
                lane.waiting -= 1;
                self.waiting -= 1;
            }
            None => {
                lane.sends.entry(from).or_default().push_back((id, tag));
                lane.waiting += 1;
                self.waiting += 1;
            }
        }
    }

    /// A receive is posted. `source`: `None` for anybody's.
    pub fn receive(
        &mut self,
        comm: CommId,
        to: u32,
        source: Option<u32>,
        tag: i32,
        id: T,
        pairs: &mut Vec<Pair<T>>,
    ) {
        let Some(lane) = lane(&mut self.lanes, &mut self.waiting, comm, to) else { return };
        let receive = Receive { id, source, tag };
        if lane.from_anybody == 0
            && let Some(send) = source.and_then(|source| lane.take_send(source, &receive))
        {
            pairs.push((send, id));
            lane.waiting -= 1;
            self.waiting -= 1;
            return;
        }
        lane.receives.push_back(receive);
        lane.from_anybody += usize::from(source.is_none());
        lane.waiting += 1;
        self.waiting += 1;
        if lane.from_anybody > 0 {
            self.decide(comm, to, pairs);
        }
    }

    /// A receive is over, and it is known whose message it got.
    pub fn resolve(
        &mut self,
        comm: CommId,
        to: u32,
        id: T,
        (source, tag): (u32, i32),
        pairs: &mut Vec<Pair<T>>,
    ) {
        let Some(lane) = self.lanes.get_mut(&(comm, to)) else { return };
        let Some(receive) = lane.receives.iter_mut().find(|receive| receive.id == id) else { return };
        lane.from_anybody -= usize::from(receive.source.is_none());
        (receive.source, receive.tag) = (Some(source), tag);
        self.decide(comm, to, pairs);
    }

    /// The message that waits and that a receive would take from a rank.
    pub fn first_sent(&self, comm: CommId, to: u32, from: u32, tag: i32) -> Option<T> {
        let sends = self.lanes.get(&(comm, to)).and_then(|lane| lane.sends.get(&from))?;
        sends.iter().find(|(_, sent)| tag == ANY_TAG || *sent == tag).map(|(send, _)| *send)
    }

    /// The only rank of which messages wait that a receive would take.
    pub fn only_sender(&self, comm: CommId, to: u32, tag: i32) -> Option<u32> {
        let lane = self.lanes.get(&(comm, to)).filter(|lane| !lane.lost)?;
        let fits = |sends: &VecDeque<(T, i32)>| sends.iter().any(|(_, sent)| tag == ANY_TAG || *sent == tag);
        let mut senders = lane.sends.iter().filter(|(_, sends)| fits(sends)).map(|(from, _)| *from);
        senders.next().filter(|_| senders.next().is_none())
    }

    /// A receive is over. If it was never decided whose message it got, nothing that comes after it can be.
    pub fn over(&mut self, comm: CommId, to: u32, id: T) {
        let Some(lane) = self.lanes.get(&(comm, to)) else { return };
        if lane.from_anybody > 0
            && lane.receives.iter().any(|receive| receive.id == id && receive.source.is_none())
        {
            self.lose(comm, to);
        }
    }

    /// A receive was cancelled before it got a message.
    pub fn cancel(&mut self, comm: CommId, to: u32, id: T, pairs: &mut Vec<Pair<T>>) {
        let Some(lane) = self.lanes.get_mut(&(comm, to)) else { return };
        if let Some(at) = lane.receives.iter().position(|receive| receive.id == id)
            && let Some(receive) = lane.receives.remove(at)
        {
            lane.from_anybody -= usize::from(receive.source.is_none());
            lane.waiting -= 1;
            self.waiting -= 1;
            self.decide(comm, to, pairs);
        }
    }

    /// What a rank of a communicator gets is not known any more.
    pub fn lose(&mut self, comm: CommId, to: u32) {
        let lane = self.lanes.entry((comm, to)).or_default();
        self.waiting -= lane.lose();
    }

    /// Gives up what is known of a communicator if nothing is waiting in it; says whether that was so.
    pub fn remove(&mut self, comm: CommId, size: u32) -> bool {
        let is_empty = |to| self.lanes.get(&(comm, to)).is_none_or(|lane| lane.waiting == 0);
        if !(0..size).all(is_empty) {
            return false;
        }
        (0..size).for_each(|to| _ = self.lanes.remove(&(comm, to)));
        true
    }

    /// Sends that no receive has got and none that is still waiting can get: communicator, source, destination, tag.
    pub fn never_received(&self) -> impl Iterator<Item = (CommId, u32, u32, i32, T)> {
        self.lanes.iter().flat_map(|(&(comm, to), lane)| {
            lane.never_received().map(move |(from, tag, id)| (comm, from, to, tag, id))
        })
    }

    fn decide(&mut self, comm: CommId, to: u32, pairs: &mut Vec<Pair<T>>) {
        let Some(lane) = self.lanes.get_mut(&(comm, to)) else { return };
        let before = pairs.len();
        lane.decide(&mut self.undecided, pairs);
        let decided = 2 * (pairs.len() - before);
        lane.waiting -= decided;
        self.waiting -= decided;
    }
}

/// The lane, unless it is lost. Where too many wait, it is given up.
fn lane<'a, T>(
    lanes: &'a mut FxHashMap<(CommId, u32), Lane<T>>,
    waiting: &mut usize,
    comm: CommId,
    to: u32,
) -> Option<&'a mut Lane<T>> {
    let lane = lanes.entry((comm, to)).or_default();
    if *waiting >= MOST {
        *waiting -= lane.lose();
    }
    (!lane.lost).then_some(lane)
}

impl<T> Lane<T> {
    /// Says how many were waiting here.
    fn lose(&mut self) -> usize {
        std::mem::replace(self, Self { lost: true, ..Self::default() }).waiting
    }
}

impl<T: Copy> Lane<T> {
    /// The first message of a source that a receive takes.
    fn take_send(&mut self, source: u32, receive: &Receive<T>) -> Option<T> {
        let queue = self.sends.get_mut(&source)?;
        let at = queue.iter().position(|(_, tag)| receive.takes(*tag))?;
        queue.remove(at).map(|(send, _)| send)
    }

    /// Takes out all pairs that are certain.
    fn decide(&mut self, undecided: &mut Vec<Receive<T>>, pairs: &mut Vec<Pair<T>>) {
        undecided.clear();
        let mut at = 0;
        while let Some(&receive) = self.receives.get(at) {
            let is_open =
                receive.source.is_none() || undecided.iter().any(|earlier| earlier.overlaps(&receive));
            if is_open {
                undecided.push(receive);
            }
            let source = receive.source.filter(|_| !is_open);
            match source.and_then(|source| self.take_send(source, &receive)) {
                Some(send) => {
                    self.receives.remove(at);
                    pairs.push((send, receive.id));
                }
                None => at += 1,
            }
        }
    }

    fn never_received(&self) -> impl Iterator<Item = (u32, i32, T)> {
        let sends =
            self.sends.iter().flat_map(|(from, queue)| queue.iter().map(|(id, tag)| (*from, *tag, *id)));
        sends.filter(|(from, tag, _)| {
            let takes = |receive: &Receive<T>| {
                receive.takes(*tag) && receive.source.is_none_or(|source| source == *from)
            };
            !self.receives.iter().any(takes)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMM: CommId = CommId(0);

    /// Gives back the pairs that each step decides.
    #[derive(Default)]
    struct Rank(Matching<u32>);

    impl Rank {
        fn send(&mut self, from: u32, tag: i32, id: u32) -> Vec<Pair<u32>> {
            let mut pairs = Vec::new();
            self.0.send(COMM, (from, 0), tag, id, &mut pairs);
            pairs
        }

        fn receive(&mut self, source: Option<u32>, tag: i32, id: u32) -> Vec<Pair<u32>> {
            let mut pairs = Vec::new();
            self.0.receive(COMM, 0, source, tag, id, &mut pairs);
            pairs
        }

        fn left(&self) -> Vec<u32> {
            self.0.never_received().map(|(.., id)| id).collect()
        }
    }

    #[test]
    fn messages_of_one_tag_are_received_in_the_order_in_which_they_were_sent() {
        let mut m = Rank::default();
        assert_eq!(m.send(1, 5, 10), []);
        assert_eq!(m.send(1, 5, 11), []);
        assert_eq!(m.receive(Some(1), 5, 20), [(10, 20)]);
        assert_eq!(m.receive(Some(1), ANY_TAG, 21), [(11, 21)]);
    }

    #[test]
    fn tags_may_overtake_each_other() {
        let mut m = Rank::default();
        assert_eq!(m.receive(Some(1), 6, 20), []);
        assert_eq!(m.receive(Some(1), ANY_TAG, 21), []);
        assert_eq!(m.send(1, 5, 10), [(10, 21)]);
        assert_eq!(m.send(1, 6, 11), [(11, 20)]);
    }

    #[test]
    fn a_message_is_known_to_be_of_the_only_rank_that_has_sent_one_that_fits() {
        let mut m = Rank::default();
        m.receive(None, 5, 20);
        assert_eq!(m.0.only_sender(COMM, 0, 5), None);
        m.send(1, 6, 10);
        m.send(2, 5, 11);
        m.send(2, 5, 12);
        assert_eq!(m.0.only_sender(COMM, 0, 5), Some(2));
        assert_eq!(m.0.only_sender(COMM, 0, ANY_TAG), None);
        m.send(3, 5, 13);
        assert_eq!(m.0.only_sender(COMM, 0, 5), None);
        m.0.lose(COMM, 0);
        assert_eq!(m.0.only_sender(COMM, 0, 6), None);
    }

    #[test]
    fn what_comes_after_a_receive_from_anybody_waits_for_its_end() {
        let mut m = Rank::default();
        m.receive(None, 5, 20);
        m.receive(Some(1), 5, 21);
        assert_eq!(m.receive(Some(1), 9, 22), []);
        assert_eq!(m.send(1, 5, 10), []);
        // Another tag cannot have been meant by the first.
        assert_eq!(m.send(1, 9, 11), [(11, 22)]);
        assert_eq!(m.send(2, 5, 12), []);
        let mut pairs = Vec::new();
        m.0.resolve(COMM, 0, 20, (2, 5), &mut pairs);
        assert_eq!(pairs, [(12, 20), (10, 21)]);
        // From here on it is as before.
        assert_eq!(m.receive(Some(1), 5, 23), []);
        assert_eq!(m.send(1, 5, 13), [(13, 23)]);
        assert_eq!(m.0.waiting, 0);
    }

    #[test]
    fn nothing_is_said_after_a_receive_from_anybody_that_never_told() {
        let mut m = Rank::default();
        m.receive(None, ANY_TAG, 20);
        m.send(1, 5, 10);
        m.0.over(COMM, 0, 20);
        assert_eq!(m.receive(Some(1), 5, 21), []);
        assert_eq!(m.send(1, 5, 11), []);
        assert_eq!(m.left(), [0; 0]);
    }

    #[test]
    fn a_cancelled_receive_is_in_nobodys_way() {
        let mut m = Rank::default();
        m.receive(None, 5, 20);
        m.receive(Some(1), 5, 21);
        m.send(1, 5, 10);
        let mut pairs = Vec::new();
        m.0.cancel(COMM, 0, 20, &mut pairs);
        assert_eq!(pairs, [(10, 21)]);
    }

    #[test]
    fn what_is_lost_waits_no_more() {
        let mut m = Rank::default();
        m.send(1, 5, 10);
        m.send(2, 5, 11);
        m.receive(Some(3), 5, 20);
        m.0.send(COMM, (0, 1), 5, 12, &mut Vec::new());
        assert_eq!(m.0.waiting, 4);
        m.0.lose(COMM, 0);
        assert_eq!(m.0.waiting, 1);
        m.0.lose(COMM, 0);
        assert_eq!(m.0.waiting, 1);
        m.receive(None, 5, 21);
        m.0.lose(COMM, 1);
        assert_eq!(m.0.waiting, 0);
    }

    #[test]
    fn a_send_is_unmatched_if_no_receive_can_have_got_it() {
        let mut m = Rank::default();
        m.send(1, 5, 10);
        m.send(1, 6, 11);
        assert_eq!(m.left(), [10, 11]);
        m.receive(Some(1), 6, 20);
        m.receive(Some(2), 5, 21);
        assert_eq!(m.left(), [10]);
        m.receive(None, 9, 22);
        assert_eq!(m.left(), [10]);
        m.receive(None, 5, 23);
        assert_eq!(m.left(), [0; 0]);
    }

    #[test]
    fn a_communicator_is_given_up_when_nothing_waits_in_it() {
        let mut m = Rank::default();
        m.send(1, 5, 10);
        assert!(!m.0.remove(COMM, 2));
        m.receive(Some(1), 5, 20);
        assert!(m.0.remove(COMM, 2));
        assert!(m.0.lanes.is_empty());
    }

    /// The fast ways decide what looking at everything decides.
    #[test]
    fn it_does_not_matter_how_a_pair_is_found() {
        let mut seed = 7u64;
        let mut roll = |sides: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % sides
        };
        let mut pairs = 0;
        for _ in 0..300 {
            let (mut fast, mut slow) = (Rank::default(), Lane::default());
            let (mut found, mut expected) = (Vec::new(), Vec::new());
            for id in 0..40 {
                let tag = roll(3) as i32;
                if roll(2) == 0 {
                    let from = roll(2) as u32;
                    found.extend(fast.send(from, tag, id));
                    slow.sends.entry(from).or_default().push_back((id, tag));
                } else {
                    let source = if roll(12) == 0 { None } else { Some(roll(2) as u32) };
                    let tag = if roll(4) == 0 { ANY_TAG } else { tag };
                    found.extend(fast.receive(source, tag, id));
                    slow.receives.push_back(Receive { id, source, tag });
                }
                slow.decide(&mut Vec::new(), &mut expected);
            }
            assert_eq!(found, expected);
            pairs += found.len();
        }
        assert!(pairs > 1000, "{pairs}");
    }
}
