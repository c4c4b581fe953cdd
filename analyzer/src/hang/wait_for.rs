//! The wait-for graph: what ranks wait for, and which of them somebody may still release.
//!
//! What can release whom is one table: see [`rule`].

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::dependency::{CollectiveOp, Dependency, Message, Rank, RankActivity};
use super::release::{Peer, PeerCounts, rule};
use super::step_budget::{StepBudget, TooLarge};
use super::waits::{RankWaits, SharedWait, Waits};

/// The ranks of a job.
pub(crate) struct WaitForGraph<'a> {
    activities: &'a BTreeMap<Rank, RankActivity>,
    /// Members of a communicator, by its number, as ranks of MPI_COMM_WORLD.
    members: &'a BTreeMap<u64, Vec<Rank>>,
    offers: OnceCell<AllOffers<'a>>,
    pub work: &'a StepBudget,
}

#[derive(Default)]
struct AllOffers<'a> {
    by_rank: FxHashMap<Rank, Offers<'a>>,
    /// Who waits to send something to a rank.
    senders: FxHashMap<Rank, Vec<Rank>>,
    /// Who waits to receive something from a rank, or from anybody.
    receivers: FxHashMap<Option<Rank>, Vec<Rank>>,
}

impl AllOffers<'_> {
    fn senders_to(&self, rank: Rank) -> &[Rank] {
        self.senders.get(&rank).map_or(&[], Vec::as_slice)
    }

    fn receivers_from(&self, rank: Option<Rank>) -> &[Rank] {
        self.receivers.get(&rank).map_or(&[], Vec::as_slice)
    }
}

/// What a rank waits for, so that who needs it of it finds it without going through all of it.
#[derive(Default)]
struct Offers<'a> {
    /// Messages that it sends: to whom, with which tag, on which communicator.
    sends: FxHashSet<(Option<Rank>, Option<i32>, u64)>,
    /// The same, with whatever tag.
    sends_to: FxHashSet<(Option<Rank>, u64)>,
    /// Messages that it receives: from whom, with which tag, on which communicator.
    receives: FxHashSet<(Option<Rank>, Option<i32>, u64)>,
    /// The same, with whatever tag.
    receives_from: FxHashSet<(Option<Rank>, u64)>,
    /// Collective calls, by function and communicator; those that differ only in who has arrived are one.
    collectives: FxHashMap<(&'a str, u64), Vec<&'a CollectiveOp>>,
}

impl<'a> Offers<'a> {
    fn of(dependencies: &'a [Dependency], work: &StepBudget) -> Result<Self, TooLarge> {
        let mut offers = Self::default();
        work.spend(dependencies.len())?;
        for dependency in dependencies {
            match dependency {
                Dependency::Send(Message { peer, tag, comm }) => {
                    offers.sends.insert((*peer, *tag, *comm));
                    offers.sends_to.insert((*peer, *comm));
                }
                Dependency::Receive(Message { peer, tag, comm }) => {
                    offers.receives.insert((*peer, *tag, *comm));
                    offers.receives_from.insert((*peer, *comm));
                }
                Dependency::Collective(call) => {
                    let calls = offers.collectives.entry((&call.function, call.comm)).or_default();
                    work.spend(calls.len())?;
                    if !calls.iter().any(|known| (known.root, known.op) == (call.root, call.op)) {
                        calls.push(call);
                    }
                }
                Dependency::Lock { .. } => {}
            }
        }
        Ok(offers)
    }

    /// Whether one of them is what `rank` needs of `own`, whose offers these are.
    fn fit(
        &self,
        rank: Rank,
        dependency: &Dependency,
        own: Rank,
        work: &StepBudget,
    ) -> Result<bool, TooLarge> {
        work.spend(1)?;
        Ok(match dependency {
            Dependency::Send(send) if send.peer != Some(own) => false,
            Dependency::Send(Message { tag, comm, .. }) => {
                let sources = [Some(rank), None];
                sources.iter().any(|from| {
                    self.receives.contains(&(*from, None, *comm))
                        || self.receives.contains(&(*from, *tag, *comm))
                })
            }
            Dependency::Receive(receive) if receive.peer.is_some_and(|source| source != own) => false,
            Dependency::Receive(Message { tag: None, comm, .. }) => {
                self.sends_to.contains(&(Some(rank), *comm))
            }
            Dependency::Receive(Message { tag, comm, .. }) => self.sends.contains(&(Some(rank), *tag, *comm)),
            Dependency::Collective(call) => {
                let calls = self.collectives.get(&(call.function.as_str(), call.comm));
                let calls = calls.map_or(&[][..], Vec::as_slice);
                work.spend(calls.len())?;
                calls.iter().any(|other| call.fits(other))
            }
            Dependency::Lock { .. } => false,
        })
    }
}

/// What many ranks need alike, so that it need be looked for only once.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum SharedNeed {
    /// The collective call: function, communicator, root, operation, and where who has arrived is written.
    Collective(String, u64, Option<i32>, Option<u64>, usize),
    /// Anybody of a communicator who may go on.
    Anybody(u64),
}

impl SharedNeed {
    pub(super) fn of_collective(call: &CollectiveOp) -> Self {
        let arrived = call.arrived.as_ref().map_or(0, |arrived| Rc::as_ptr(arrived) as usize);
        Self::Collective(call.function.clone(), call.comm, call.root, call.op, arrived)
    }

    fn comm(&self) -> u64 {
        match self {
            Self::Collective(_, comm, ..) | Self::Anybody(comm) => *comm,
        }
    }
}

/// Members of a communicator, and in how many states they are.
struct Counted {
    members: BTreeSet<Rank>,
    counts: PeerCounts,
}

/// What one round of [`WaitForGraph::stuck`] knows.
struct Round<'f> {
    free: &'f FxHashSet<Rank>,
    counted: &'f mut FxHashMap<SharedNeed, Counted>,
}

impl<'a> WaitForGraph<'a> {
    pub fn new(
        activities: &'a BTreeMap<Rank, RankActivity>,
        members: &'a BTreeMap<u64, Vec<Rank>>,
        work: &'a StepBudget,
    ) -> Self {
        Self { activities, members, offers: OnceCell::new(), work }
    }

    pub fn activity(&self, rank: Rank) -> Option<&RankActivity> {
        self.activities.get(&rank)
    }

    pub fn ranks(&self) -> impl DoubleEndedIterator<Item = Rank> {
        self.activities.keys().copied()
    }

    /// Ranks that no rank which may go on can ever release: what remains when all that can be released is.
    pub fn stuck(&self) -> Result<BTreeSet<Rank>, TooLarge> {
        let moves = self.activities.iter().filter(|(_, activity)| **activity == RankActivity::Moves);
        let mut free: FxHashSet<Rank> = moves.map(|(rank, _)| *rank).collect();
        let mut held: Vec<Rank> = self.ranks().filter(|rank| !free.contains(rank)).collect();
        loop {
            // Who is released counts at once for those behind it, and each round goes the other way: chains of ranks that
            // wait for each other mostly go up or down. What was counted before is too little then, never too much, and
            // right in the last round, in which nobody is released.
            let before = held.len();
            let mut counted = FxHashMap::default();
            let mut left = Vec::new();
            for &rank in held.iter().rev() {
                if self.can_be_released(rank, &mut Round { free: &free, counted: &mut counted })? {
                    free.insert(rank);
                } else {
                    left.push(rank);
                }
            }
            held = left;
            if held.len() == before {
                return Ok(held.into_iter().collect());
            }
        }
    }

    fn can_be_released(&self, rank: Rank, round: &mut Round<'_>) -> Result<bool, TooLarge> {
        let Some(RankActivity::Waits { dependencies, any }) = self.activities.get(&rank) else {
            return Ok(false);
        };
        for dependency in dependencies {
            let peers = self.releasers(rank, dependency, round)?;
            if rule(dependency.awaited()).is_met(&peers) == *any {
                return Ok(*any);
            }
        }
        Ok(!*any)
    }

    /// In which states those are who may have to do something: of a lock anybody, whoever holds it.
    fn releasers(
        &self,
        rank: Rank,
        dependency: &Dependency,
        round: &mut Round<'_>,
    ) -> Result<PeerCounts, TooLarge> {
        match dependency {
            Dependency::Send(Message { peer: Some(peer), .. })
            | Dependency::Receive(Message { peer: Some(peer), .. }) => {
                let mut counts = PeerCounts::default();
                counts.add(self.peer(rank, Some(dependency), *peer, round.free)?);
                Ok(counts)
            }
            Dependency::Collective(call) => {
                let need = SharedNeed::of_collective(call);
                self.shared(rank, need, call.comm, Some(dependency), round)
            }
            Dependency::Lock { comm, .. } => {
                self.shared(rank, SharedNeed::Anybody(*comm), *comm, None, round)
            }
            Dependency::Send(Message { comm, .. }) | Dependency::Receive(Message { comm, .. }) => {
                let mut counts = self.shared(rank, SharedNeed::Anybody(*comm), *comm, None, round)?;
                if counts.of(Peer::Free) == 0 && self.has_sender(rank, dependency, *comm, round)? {
                    counts.add(Peer::Fits);
                }
                Ok(counts)
            }
        }
    }

    /// In which states all members of a communicator are but the rank itself.
    fn shared(
        &self,
        rank: Rank,
        need: SharedNeed,
        comm: u64,
        dependency: Option<&Dependency>,
        round: &mut Round<'_>,
    ) -> Result<PeerCounts, TooLarge> {
        self.work.spend(1)?;
        if !round.counted.contains_key(&need) {
            let (members, mut counts) = (self.members(comm)?, PeerCounts::default());
            for &peer in &members {
                counts.add(self.peer(rank, dependency, peer, round.free)?);
            }
            round.counted.insert(need.clone(), Counted { members, counts });
        }
        let Counted { members, counts } = &round.counted[&need];
        let mut counts = *counts;
        if members.contains(&rank) {
            counts.remove(self.peer(rank, dependency, rank, round.free)?);
        }
        Ok(counts)
    }

    /// Whether somebody of the communicator sends what the rank receives from anybody.
    fn has_sender(
        &self,
        rank: Rank,
        dependency: &Dependency,
        comm: u64,
        round: &Round<'_>,
    ) -> Result<bool, TooLarge> {
        let Some(Counted { members, .. }) = round.counted.get(&SharedNeed::Anybody(comm)) else {
            return Ok(false);
        };
        for &peer in self.offers()?.senders_to(rank) {
            if peer != rank && members.contains(&peer) && self.fits(rank, dependency, peer)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn peer(
        &self,
        rank: Rank,
        dependency: Option<&Dependency>,
        peer: Rank,
        free: &FxHashSet<Rank>,
    ) -> Result<Peer, TooLarge> {
        if let Some(dependency) = dependency
            && self.fits(rank, dependency, peer)?
        {
            return Ok(Peer::Fits);
        }
        Ok(match self.activities.get(&peer) {
            // Of a rank that nothing is known of, nothing can be said.
            None => Peer::Free,
            Some(_) if free.contains(&peer) => Peer::Free,
            Some(RankActivity::Outside) => Peer::Outside,
            Some(RankActivity::Stopped) => Peer::Stopped,
            Some(RankActivity::Ended { .. }) => Peer::Ended,
            Some(RankActivity::Moves | RankActivity::Waits { .. }) => Peer::Stuck,
        })
    }

    /// Ranks that a dependency is about, but for itself.
    pub fn peers(&self, rank: Rank, dependency: &Dependency) -> Result<BTreeSet<Rank>, TooLarge> {
        let mut peers = match dependency {
            Dependency::Send(Message { peer: Some(peer), .. })
            | Dependency::Receive(Message { peer: Some(peer), .. }) => {
                return Ok(BTreeSet::from([*peer]));
            }
            Dependency::Send(message) | Dependency::Receive(message) => self.members(message.comm)?,
            Dependency::Collective(collective) => self.members(collective.comm)?,
            Dependency::Lock { comm, holders } if holders.is_empty() => self.members(*comm)?,
            Dependency::Lock { holders, .. } => {
                self.work.spend(holders.len())?;
                holders.clone()
            }
        };
        peers.remove(&rank);
        Ok(peers)
    }

    /// All of a communicator. One whose members are not known has all ranks.
    pub fn members(&self, comm: u64) -> Result<BTreeSet<Rank>, TooLarge> {
        match self.members.get(&comm) {
            Some(members) => {
                self.work.spend(members.len())?;
                Ok(members.iter().copied().collect())
            }
            None => {
                self.work.spend(self.activities.len())?;
                Ok(self.ranks().collect())
            }
        }
    }

    /// Those that are not where they would have to be for a dependency.
    fn missing(
        &self,
        rank: Rank,
        dependency: &Dependency,
        peers: BTreeSet<Rank>,
    ) -> Result<BTreeSet<Rank>, TooLarge> {
        let mut missing = BTreeSet::new();
        for peer in peers {
            if !self.fits(rank, dependency, peer)? {
                missing.insert(peer);
            }
        }
        Ok(missing)
    }

    /// Whether the peer is waiting for just this, or has started it: then both go on.
    pub fn fits(&self, rank: Rank, dependency: &Dependency, peer: Rank) -> Result<bool, TooLarge> {
        let has_arrived = matches!(dependency, Dependency::Collective(call) if call.has_arrived(peer));
        if has_arrived {
            self.work.spend(1)?;
            return Ok(true);
        }
        match self.offers()?.by_rank.get(&peer) {
            Some(offers) => offers.fit(rank, dependency, peer, self.work),
            None => Ok(false),
        }
    }

    fn offers(&self) -> Result<&AllOffers<'a>, TooLarge> {
        if let Some(offers) = self.offers.get() {
            return Ok(offers);
        }
        let mut all = AllOffers::default();
        for (rank, activity) in self.activities {
            if let RankActivity::Waits { dependencies, .. } = activity {
                let offers = Offers::of(dependencies, self.work)?;
                for to in offers.sends_to.iter().filter_map(|(to, _)| *to) {
                    all.senders.entry(to).or_default().push(*rank);
                }
                for from in offers.receives_from.iter().map(|(from, _)| *from) {
                    all.receivers.entry(from).or_default().push(*rank);
                }
                all.by_rank.insert(*rank, offers);
            }
        }
        Ok(self.offers.get_or_init(|| all))
    }

    /// Whom each of some ranks waits for: those that are not where they would have to be.
    pub fn waits_of(&self, ranks: &BTreeSet<Rank>) -> Result<Waits, TooLarge> {
        let mut waits = Waits::default();
        let mut known: FxHashMap<SharedNeed, SharedWait> = FxHashMap::default();
        for &rank in ranks {
            self.work.spend(1)?;
            let mut of_rank = RankWaits::default();
            for dependency in self.dependencies(rank) {
                let Some(need) = self.shared_wait(rank, dependency)? else {
                    of_rank.own.extend(self.missing(rank, dependency, self.peers(rank, dependency)?)?);
                    continue;
                };
                let shared = match known.get(&need) {
                    Some(shared) => *shared,
                    None => {
                        let members = self.members(need.comm())?;
                        let missing = match dependency {
                            Dependency::Collective(_) => self.missing(rank, dependency, members)?,
                            _ => members,
                        };
                        *known.entry(need).or_insert(waits.share(missing))
                    }
                };
                if !of_rank.shared.contains(&shared) {
                    of_rank.shared.push(shared);
                }
            }
            waits.insert(rank, of_rank);
        }
        Ok(waits)
    }

    /// What a rank waits for as others may do; `None`: for just these ranks.
    fn shared_wait(&self, rank: Rank, dependency: &Dependency) -> Result<Option<SharedNeed>, TooLarge> {
        Ok(match dependency {
            Dependency::Collective(call) => Some(SharedNeed::of_collective(call)),
            Dependency::Lock { comm, holders } if holders.is_empty() => Some(SharedNeed::Anybody(*comm)),
            Dependency::Send(Message { peer: None, comm, .. }) => Some(SharedNeed::Anybody(*comm)),
            // Who sends just this is not waited for.
            Dependency::Receive(Message { peer: None, comm, .. }) => {
                let has_sender = self.any_fits(rank, dependency, self.offers()?.senders_to(rank))?;
                (!has_sender).then_some(SharedNeed::Anybody(*comm))
            }
            Dependency::Send(_) | Dependency::Receive(_) | Dependency::Lock { .. } => None,
        })
    }

    fn any_fits(&self, rank: Rank, dependency: &Dependency, peers: &[Rank]) -> Result<bool, TooLarge> {
        for &peer in peers.iter().filter(|peer| **peer != rank) {
            if self.fits(rank, dependency, peer)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether somebody other than whom a rank named waits for just its message.
    pub fn has_another_partner(&self, rank: Rank) -> Result<bool, TooLarge> {
        let offers = self.offers()?;
        for dependency in self.dependencies(rank) {
            let peers = match dependency {
                Dependency::Send(_) => [offers.receivers_from(Some(rank)), offers.receivers_from(None)],
                Dependency::Receive(_) => [offers.senders_to(rank), &[]],
                Dependency::Collective(_) | Dependency::Lock { .. } => continue,
            };
            for &peer in peers.into_iter().flatten().filter(|peer| **peer != rank) {
                let with_peer = match *dependency {
                    Dependency::Send(message) => Dependency::Send(Message { peer: Some(peer), ..message }),
                    Dependency::Receive(message) => {
                        Dependency::Receive(Message { peer: Some(peer), ..message })
                    }
                    Dependency::Collective(_) | Dependency::Lock { .. } => continue,
                };
                if self.fits(rank, &with_peer, peer)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The collective call that a rank is in, or waits for.
    pub fn collective(&self, rank: Rank) -> Option<&'a CollectiveOp> {
        self.dependencies(rank).iter().find_map(|dependency| match dependency {
            Dependency::Collective(collective) => Some(collective),
            _ => None,
        })
    }

    pub fn dependencies(&self, rank: Rank) -> &'a [Dependency] {
        match self.activities.get(&rank) {
            Some(RankActivity::Waits { dependencies, .. }) => dependencies,
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hang::dependency::Arrivals;

    const WORLD: u64 = 0;

    fn receive(peer: Option<Rank>) -> Dependency {
        Dependency::Receive(Message { peer, tag: Some(0), comm: WORLD })
    }

    fn send(peer: Rank) -> Dependency {
        Dependency::Send(Message { peer: Some(peer), tag: Some(0), comm: WORLD })
    }

    fn barrier(arrived: Option<&[Rank]>) -> Dependency {
        let arrived = arrived.map(|ranks| {
            let started = ranks.iter().copied().collect();
            Rc::new(Arrivals { started, ..Arrivals::default() })
        });
        let function = "MPI_Barrier".to_owned();
        Dependency::Collective(CollectiveOp { function, comm: WORLD, arrived, ..CollectiveOp::default() })
    }

    fn waits(dependency: Dependency) -> RankActivity {
        RankActivity::Waits { dependencies: vec![dependency], any: false }
    }

    /// Whether rank 0 is released, with this dependency and peers that do this.
    fn is_released(dependency: Dependency, peers: &[RankActivity]) -> bool {
        let all = std::iter::once(waits(dependency)).chain(peers.iter().cloned());
        let activities: BTreeMap<Rank, RankActivity> = (0..).zip(all).collect();
        let members = BTreeMap::from([(WORLD, activities.keys().copied().collect())]);
        let work = StepBudget::default();
        let stuck = WaitForGraph::new(&activities, &members, &work).stuck().expect("it is small");
        !stuck.contains(&0)
    }

    #[test]
    fn the_table_says_what_a_peer_can_release() {
        let end = || Dependency::Collective(CollectiveOp::finalize(WORLD));
        let lock = || Dependency::Lock { comm: WORLD, holders: BTreeSet::from([1]) };
        // What is waited for; what a peer does that fits; whether one releases it alone that fits, moves, waits for
        // something else, is outside, is stopped, has ended.
        let table: [(&str, Dependency, Option<Dependency>, [bool; 6]); 7] = [
            ("send", send(1), Some(receive(Some(0))), [true, true, false, false, false, false]),
            ("receive", receive(Some(1)), Some(send(0)), [true, true, false, false, false, false]),
            ("receive from any", receive(None), Some(send(0)), [true, true, false, false, false, false]),
            ("collective", barrier(None), Some(barrier(None)), [true, true, false, false, false, false]),
            ("arrivals", barrier(Some(&[0])), Some(barrier(None)), [true, true, false, false, false, false]),
            ("finalize", end(), Some(end()), [true, true, false, false, false, false]),
            ("lock", lock(), None, [false, true, false, false, false, false]),
        ];
        for (name, dependency, fitting, expected) in table {
            let elsewhere = waits(Dependency::Receive(Message { peer: Some(1), tag: Some(9), comm: 7 }));
            let states = [
                fitting.map_or(elsewhere.clone(), waits),
                RankActivity::Moves,
                elsewhere,
                RankActivity::Outside,
                RankActivity::Stopped,
                RankActivity::Ended { well: true },
            ];
            let found = states.map(|state| is_released(dependency.clone(), &[state]));
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn the_table_says_how_many_peers_it_takes() {
        let stuck = || waits(receive(Some(2)));
        let moves = || RankActivity::Moves;
        // What is waited for, with one peer that is free and one that is stuck.
        let table = [
            ("receive from any", receive(None), true),
            // The free one may be at work in it; if it is known that the other has not come, that does not help.
            ("collective", barrier(None), true),
            ("arrivals", barrier(Some(&[0, 1])), false),
            ("finalize", Dependency::Collective(CollectiveOp::finalize(WORLD)), false),
            ("lock", Dependency::Lock { comm: WORLD, holders: BTreeSet::from([2]) }, true),
        ];
        for (name, dependency, expected) in table {
            assert_eq!(is_released(dependency, &[moves(), stuck()]), expected, "{name}");
        }
    }

    #[test]
    fn who_has_started_a_collective_holds_nobody_up_whatever_it_does_now() {
        let stuck = || waits(receive(Some(1)));
        assert!(is_released(barrier(Some(&[0, 1])), &[stuck()]));
        assert!(is_released(barrier(Some(&[0, 1])), &[RankActivity::Ended { well: true }]));
        assert!(!is_released(barrier(Some(&[0])), &[stuck()]));
    }
}
