//! Which receive takes which message: the rules of MPI, on announcements of messages.
//!
//! A receive takes the earliest message of its source that it matches; of all receives that match a message, the one that was
//! posted first takes it. What is left open by MPI, the source of a wildcard receive, is decided by time.

use std::collections::{HashMap, HashSet, VecDeque};

use super::bounds::RankSet;
use super::{DELAY, NEVER};

/// A message that its sender has announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The communicator, by a number that is the same on all its ranks.
    pub comm: u32,
    /// Its tag.
    pub tag: i32,
    /// Of the sender, at the send.
    pub time: u64,
}

/// Who can send to this rank in a communicator: ranks of MPI_COMM_WORLD, by their ranks in the communicator.
pub type CommGroup = Vec<u32>;

/// Whose message a receive or probe gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Rank in the communicator.
    pub source: u32,
    /// The message's.
    pub tag: i32,
    /// When it was sent.
    pub time: u64,
}

/// What a poll answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// This message is there.
    Yes(Decision),
    /// None is.
    No,
    /// It depends on what others have yet to do.
    NotYet,
}

/// What a receive or probe asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WantedMessage {
    comm: u32,
    /// Rank in MPI_COMM_WORLD. None: any.
    source: Option<u32>,
    tag: Option<i32>,
}

impl WantedMessage {
    fn takes(&self, source: u32, message: &Announcement) -> bool {
        self.comm == message.comm
            && self.source.is_none_or(|own| own == source)
            && self.tag.is_none_or(|own| own == message.tag)
    }

    /// Whether a message can be for both.
    fn overlaps(&self, other: &Self) -> bool {
        let meets = |a: Option<i64>, b: Option<i64>| a.is_none() || b.is_none() || a == b;
        self.comm == other.comm
            && meets(self.source.map(i64::from), other.source.map(i64::from))
            && meets(self.tag.map(i64::from), other.tag.map(i64::from))
    }
}

/// All receives and announced messages of one rank.
#[derive(Debug, Default)]
pub struct LogicalMatching {
    /// Not yet taken, by source.
    announced: Vec<VecDeque<Announcement>>,
    groups: HashMap<u32, CommGroup>,
    /// Posted, and without a message; in the order of posting.
    open: Vec<(u64, WantedMessage)>,
    /// Those of them that MPI has.
    given: HashSet<u64>,
    decided: HashMap<u64, Decision>,
    posted: u64,
}

/// A message that has been found: where it lies, and whose it is.
#[derive(Clone, Copy)]
struct FoundMessage {
    source: u32,
    at: usize,
    time: u64,
}

impl LogicalMatching {
    /// For a job of so many ranks.
    pub fn new(ranks: usize) -> Self {
        Self { announced: vec![VecDeque::new(); ranks], ..Self::default() }
    }

    /// A communicator is there.
    pub fn add_comm(&mut self, comm: u32, group: CommGroup) {
        self.groups.insert(comm, group);
    }

    /// It is there no more.
    pub fn remove_comm(&mut self, comm: u32) {
        self.groups.remove(&comm);
    }

    /// A rank has announced a message: those of one rank in their order.
    pub fn announce(&mut self, source: u32, message: Announcement) {
        if let Some(queue) = self.announced.get_mut(source as usize) {
            queue.push_back(message);
        }
    }

    fn wanted(&self, comm: u32, source: Option<u32>, tag: Option<i32>) -> WantedMessage {
        let group = self.groups.get(&comm);
        // Of a rank that there is not: MPI says what is wrong when it is posted.
        let source = source.map(|rank| group.and_then(|g| g.get(rank as usize)).copied().unwrap_or(u32::MAX));
        WantedMessage { comm, source, tag }
    }

    /// A receive is posted; gives its number, and whether MPI can be given it at once, as it is. `source`: rank in the
    /// communicator.
    pub fn post(&mut self, comm: u32, source: Option<u32>, tag: Option<i32>) -> (u64, bool) {
        let number = self.posted;
        self.posted += 1;
        let wanted = self.wanted(comm, source, tag);
        let can_be_given = self.can_be_given(&wanted);
        if can_be_given {
            self.given.insert(number);
        }
        self.open.push((number, wanted));
        (number, can_be_given)
    }

    /// Whether MPI itself gives the receive that was posted last the right message if it is posted now: it names its source,
    /// and no receive before it that MPI does not have could take that.
    fn can_be_given(&self, own: &WantedMessage) -> bool {
        let is_before =
            |(number, other): &(u64, WantedMessage)| !self.given.contains(number) && own.overlaps(other);
        own.source.is_some() && !self.open.iter().any(is_before)
    }

    /// The message of a receive, if it is decided.
    pub fn decision(&self, number: u64) -> Option<Decision> {
        self.decided.get(&number).copied()
    }

    /// A receive is complete, or was cancelled: it is forgotten.
    pub fn forget(&mut self, number: u64) {
        self.decided.remove(&number);
        self.given.remove(&number);
        self.open.retain(|(own, _)| *own != number);
    }

    /// A receive that has no message yet is cancelled: it is complete at this time.
    pub fn cancel(&mut self, number: u64, time: u64) {
        self.given.remove(&number);
        self.open.retain(|(own, _)| *own != number);
        self.decided.entry(number).or_insert(Decision { source: 0, tag: 0, time });
    }

    /// Whether any receive has no message yet.
    pub fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Whether a decision depends on what other ranks may still send.
    pub fn has_open_wildcards(&self) -> bool {
        self.open.iter().any(|(_, wanted)| wanted.source.is_none())
    }

    fn sources(&self, wanted: &WantedMessage) -> RankSet {
        match wanted.source {
            Some(source) => [source].into_iter().collect(),
            None => self.groups.get(&wanted.comm).into_iter().flatten().copied().collect(),
        }
    }

    /// Who may send what an open receive waits for.
    pub fn sources_of(&self, number: u64) -> RankSet {
        let open = self.open.iter().find(|(own, _)| *own == number);
        open.map(|(_, wanted)| self.sources(wanted)).unwrap_or_default()
    }

    /// The same of a probe.
    pub fn sources_of_probe(&self, comm: u32, source: Option<u32>, tag: Option<i32>) -> RankSet {
        self.sources(&self.wanted(comm, source, tag))
    }

    /// The message with the smallest time and rank of all that match.
    fn first(&self, wanted: &WantedMessage) -> Option<FoundMessage> {
        let in_queue = |source: u32| {
            let queue = self.announced.get(source as usize)?;
            let at = queue.iter().position(|message| wanted.takes(source, message))?;
            Some(FoundMessage { source, at, time: queue[at].time })
        };
        match wanted.source {
            Some(source) => in_queue(source),
            None => {
                let sources = self.groups.get(&wanted.comm)?.iter();
                sources.filter_map(|source| in_queue(*source)).min_by_key(|found| (found.time, found.source))
            }
        }
    }

    fn message(&self, found: FoundMessage) -> &Announcement {
        &self.announced[found.source as usize][found.at]
    }

    /// Whether one of these receives could take it.
    fn is_claimed(&self, found: FoundMessage, open: &[(u64, WantedMessage)]) -> bool {
        let message = self.message(found);
        open.iter().any(|(_, wanted)| wanted.takes(found.source, message))
    }

    /// Whether no other message can still come before it.
    fn is_first(&self, found: FoundMessage, wanted: &WantedMessage, bounds: &[u64]) -> bool {
        if wanted.source.is_some() {
            return true;
        }
        let own = (found.time, found.source);
        let later = |rank: u32| bounds.get(rank as usize).is_none_or(|bound| (*bound, rank) > own);
        self.sources(wanted).iter().all(|rank| rank == found.source || later(rank))
    }

    fn decision_of(&self, found: FoundMessage) -> Decision {
        let message = self.message(found);
        let group = self.groups.get(&message.comm);
        let place = group.and_then(|group| group.iter().position(|rank| *rank == found.source));
        Decision { source: place.unwrap_or(0) as u32, tag: message.tag, time: message.time }
    }

    /// Decides what can be decided: `bounds` are those of [`lower_bounds`](super::lower_bounds), and all that was announced
    /// with smaller times is known. With `forced` the first wildcard receive that has a message takes the smallest one there is,
    /// and it is cleared. Gives the numbers of decided receives, in the order in which MPI must get them.
    pub fn settle(&mut self, bounds: &[u64], forced: &mut bool) -> Vec<u64> {
        let mut settled = Vec::new();
        let mut at = 0;
        while at < self.open.len() {
            let (number, wanted) = self.open[at];
            let found = self.first(&wanted).filter(|found| !self.is_claimed(*found, &self.open[..at]));
            let is_forced = *forced && wanted.source.is_none();
            let Some(found) = found.filter(|found| is_forced || self.is_first(*found, &wanted, bounds))
            else {
                at += 1;
                continue;
            };
            *forced &= !is_forced;
            self.given.remove(&number);
            self.decided.insert(number, self.decision_of(found));
            self.announced[found.source as usize].remove(found.at);
            self.open.remove(at);
            settled.push(number);
            // Others may have waited for this one.
            at = 0;
        }
        settled
    }

    /// Whether `forced` would decide something.
    pub fn can_be_forced(&self) -> bool {
        (0..self.open.len()).any(|at| {
            let wanted = &self.open[at].1;
            let found = self.first(wanted);
            wanted.source.is_none() && found.is_some_and(|found| !self.is_claimed(found, &self.open[..at]))
        })
    }

    /// The smallest time of the messages that are there for an open receive.
    pub fn known(&self, number: u64) -> u64 {
        let open = self.open.iter().find(|(own, _)| *own == number);
        open.and_then(|(_, wanted)| self.first(wanted)).map_or(NEVER, |found| found.time)
    }

    /// The same of a probe.
    pub fn known_to_probe(&self, comm: u32, source: Option<u32>, tag: Option<i32>) -> u64 {
        self.first(&self.wanted(comm, source, tag)).map_or(NEVER, |found| found.time)
    }

    /// No message that comes to an open receive has a smaller time.
    pub fn earliest(&self, number: u64, bounds: &[u64]) -> u64 {
        let open = self.open.iter().find(|(own, _)| *own == number);
        open.map_or(NEVER, |(_, wanted)| self.earliest_of(wanted, bounds))
    }

    fn earliest_of(&self, wanted: &WantedMessage, bounds: &[u64]) -> u64 {
        let known = self.first(wanted).map_or(NEVER, |found| found.time);
        let bound = |rank: u32| bounds.get(rank as usize).copied().unwrap_or(NEVER);
        self.sources(wanted).iter().map(bound).fold(known, u64::min)
    }

    /// What a blocking probe finds, if that is certain. `forced`: the smallest there is.
    pub fn probe(
        &self,
        comm: u32,
        source: Option<u32>,
        tag: Option<i32>,
        bounds: &[u64],
        forced: bool,
    ) -> Option<Decision> {
        let wanted = self.wanted(comm, source, tag);
        let found = self.first(&wanted).filter(|found| !self.is_claimed(*found, &self.open))?;
        (forced || self.is_first(found, &wanted, bounds)).then(|| self.decision_of(found))
    }

    /// What a poll for a message answers at a time.
    pub fn poll(
        &self,
        comm: u32,
        source: Option<u32>,
        tag: Option<i32>,
        now: u64,
        bounds: &[u64],
        forced: bool,
    ) -> Poll {
        let is_visible = |time: u64| time.saturating_add(DELAY) <= now;
        match self.probe(comm, source, tag, bounds, forced) {
            Some(decision) if is_visible(decision.time) => return Poll::Yes(decision),
            Some(_) => return Poll::No,
            None => {}
        }
        let wanted = self.wanted(comm, source, tag);
        if forced || !is_visible(self.earliest_of(&wanted, bounds)) { Poll::No } else { Poll::NotYet }
    }

    /// The message that a probe found is taken from all others.
    pub fn take(&mut self, comm: u32, decision: &Decision) {
        let wanted = self.wanted(comm, Some(decision.source), Some(decision.tag));
        if let Some(found) = self.first(&wanted) {
            self.announced[found.source as usize].remove(found.at);
        }
    }
}
