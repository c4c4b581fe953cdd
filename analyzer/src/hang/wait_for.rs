//! The wait-for graph: what ranks wait for, and which of them somebody may still release.
//!
//! What can release whom is one table ([`rule`]): what is waited for, by what the peers are doing.

use std::collections::{BTreeMap, BTreeSet};

/// A rank of MPI_COMM_WORLD.
pub(crate) type Rank = u32;

/// A message that a rank waits to send or receive. `None`: a wildcard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub peer: Option<Rank>,
    pub tag: Option<i32>,
    /// The same number for the same communicator.
    pub comm: u64,
}

/// A collective call, as far as it must be the same in all ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CollectiveOp {
    pub function: String,
    pub comm: u64,
    /// In the communicator.
    pub root: Option<i32>,
    pub op: Option<u64>,
    /// Who is known to have started it, wherever they are now; `None`: that is not known of anybody.
    pub arrived: Option<BTreeSet<Rank>>,
}

/// The last call of a program: all ranks meet there.
const FINALIZE: &str = "MPI_Finalize";

impl CollectiveOp {
    /// Where all ranks meet at their end. `world`: MPI_COMM_WORLD.
    pub fn finalize(world: u64) -> Self {
        Self { function: FINALIZE.to_owned(), comm: world, ..Self::default() }
    }

    pub fn is_finalize(&self) -> bool {
        self.function == FINALIZE
    }

    /// Whether they may be the same; what is not known of one is as in the other.
    pub fn fits(&self, other: &Self) -> bool {
        fn same<T: PartialEq>(a: Option<T>, b: Option<T>) -> bool {
            a.is_none() || b.is_none() || a == b
        }
        self.function == other.function
            && self.comm == other.comm
            && same(self.root, other.root)
            && same(self.op, other.op)
    }

    /// Whether a rank is known to have started it.
    pub fn has_arrived(&self, rank: Rank) -> bool {
        self.arrived.as_ref().is_some_and(|arrived| arrived.contains(&rank))
    }
}

/// What a rank waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Dependency {
    Send(Message),
    Receive(Message),
    Collective(CollectiveOp),
    /// A lock on a window, and what belongs to it: any rank of the window may have to do something for it.
    Lock {
        /// The window.
        comm: u64,
        /// Who is known to hold a lock that is in the way.
        holders: BTreeSet<Rank>,
    },
}

/// What a rank is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RankActivity {
    /// It may go on by itself, or it is not known what it does.
    Moves,
    /// It waits: for all of these, or for any of them.
    Waits { dependencies: Vec<Dependency>, any: bool },
    /// It does nothing, outside of MPI.
    Outside,
    /// A signal or a debugger stopped it.
    Stopped,
    /// It ended.
    Ended { well: bool },
}

/// What is waited for, as far as the table tells it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    Send,
    Receive,
    ReceiveFromAny,
    /// A collective call, and it is not known who has been there.
    Collective,
    /// A collective call, and it is known who has started it.
    CollectiveWithArrivals,
    Finalize,
    Lock,
}

/// What a peer is doing, seen from whoever waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    /// It does its part: it waits for just this as well, or has done so already.
    Fits,
    /// It may go on: by itself, or because somebody may release it.
    Free,
    /// It waits for something else, in vain.
    Stuck,
    Outside,
    Stopped,
    Ended,
}

/// How many of the peers must be able to do their part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantifier {
    Every,
    AnyOne,
    /// Every one fits; or one that does not is free: it may have been there and gone on, or be at work in there on what
    /// the others wait for.
    EveryFitsOrOneIsFree,
}

/// What can release who waits: who of the peers is needed, and in which states a peer can do its part.
struct ReleaseRule {
    quantifier: Quantifier,
    able: &'static [Peer],
}

/// The table. Nobody who is stuck, outside, stopped or at the end can release anybody.
const fn rule(awaited: Awaited) -> ReleaseRule {
    use Peer::{Fits, Free};
    let (quantifier, able): (_, &'static [Peer]) = match awaited {
        Awaited::Send | Awaited::Receive => (Quantifier::Every, &[Fits, Free]),
        // One that sends is enough.
        Awaited::ReceiveFromAny => (Quantifier::AnyOne, &[Fits, Free]),
        Awaited::Collective => (Quantifier::EveryFitsOrOneIsFree, &[Fits, Free]),
        // Who has not started it is known: each of them must still come.
        Awaited::CollectiveWithArrivals => (Quantifier::Every, &[Fits, Free]),
        // Nobody goes on after the end.
        Awaited::Finalize => (Quantifier::Every, &[Fits, Free]),
        // Of several locks, and of several windows, it is not known which one is in the way.
        Awaited::Lock => (Quantifier::AnyOne, &[Free]),
    };
    ReleaseRule { quantifier, able }
}

impl ReleaseRule {
    fn is_met(&self, peers: &[Peer]) -> bool {
        let is_able = |peer: &Peer| self.able.contains(peer);
        match self.quantifier {
            Quantifier::Every => peers.iter().all(is_able),
            // Where there is nobody else, nobody is waited for.
            Quantifier::AnyOne => peers.is_empty() || peers.iter().any(is_able),
            Quantifier::EveryFitsOrOneIsFree => {
                peers.iter().all(|peer| *peer == Peer::Fits)
                    || peers.iter().any(|peer| *peer != Peer::Fits && is_able(peer))
            }
        }
    }
}

impl Dependency {
    fn awaited(&self) -> Awaited {
        match self {
            Self::Send(_) => Awaited::Send,
            Self::Receive(Message { peer: None, .. }) => Awaited::ReceiveFromAny,
            Self::Receive(_) => Awaited::Receive,
            Self::Collective(collective) if collective.is_finalize() => Awaited::Finalize,
            Self::Collective(CollectiveOp { arrived: Some(_), .. }) => Awaited::CollectiveWithArrivals,
            Self::Collective(_) => Awaited::Collective,
            Self::Lock { .. } => Awaited::Lock,
        }
    }
}

/// The ranks of a job.
pub(crate) struct WaitForGraph<'a> {
    pub activities: &'a BTreeMap<Rank, RankActivity>,
    /// Members of a communicator, by its number, as ranks of MPI_COMM_WORLD.
    pub members: &'a BTreeMap<u64, Vec<Rank>>,
}

impl WaitForGraph<'_> {
    /// Ranks that no rank which may go on can ever release: what remains when all that can be released is.
    pub fn stuck(&self) -> BTreeSet<Rank> {
        let moves = self.activities.iter().filter(|(_, activity)| **activity == RankActivity::Moves);
        let mut free: BTreeSet<Rank> = moves.map(|(rank, _)| *rank).collect();
        loop {
            let released: Vec<Rank> = self
                .activities
                .keys()
                .filter(|rank| !free.contains(rank) && self.can_be_released(**rank, &free))
                .copied()
                .collect();
            if released.is_empty() {
                break;
            }
            free.extend(released);
        }
        self.activities.keys().filter(|rank| !free.contains(rank)).copied().collect()
    }

    fn can_be_released(&self, rank: Rank, free: &BTreeSet<Rank>) -> bool {
        let Some(RankActivity::Waits { dependencies, any }) = self.activities.get(&rank) else {
            return false;
        };
        let is_met = |dependency: &Dependency| {
            let peers: Vec<Peer> = self
                .releasers(rank, dependency)
                .into_iter()
                .map(|peer| self.peer(rank, dependency, peer, free))
                .collect();
            rule(dependency.awaited()).is_met(&peers)
        };
        if *any { dependencies.iter().any(is_met) } else { dependencies.iter().all(is_met) }
    }

    /// Who may have to do something: of a lock anybody, whoever holds it.
    fn releasers(&self, rank: Rank, dependency: &Dependency) -> BTreeSet<Rank> {
        match dependency {
            Dependency::Lock { comm, .. } => {
                let mut all = self.members(*comm);
                all.remove(&rank);
                all
            }
            _ => self.peers(rank, dependency),
        }
    }

    fn peer(&self, rank: Rank, dependency: &Dependency, peer: Rank, free: &BTreeSet<Rank>) -> Peer {
        if self.fits(rank, dependency, peer) {
            return Peer::Fits;
        }
        match self.activities.get(&peer) {
            // Of a rank that nothing is known of, nothing can be said.
            None => Peer::Free,
            Some(_) if free.contains(&peer) => Peer::Free,
            Some(RankActivity::Outside) => Peer::Outside,
            Some(RankActivity::Stopped) => Peer::Stopped,
            Some(RankActivity::Ended { .. }) => Peer::Ended,
            Some(RankActivity::Moves | RankActivity::Waits { .. }) => Peer::Stuck,
        }
    }

    /// Ranks that a dependency is about, but for itself.
    pub fn peers(&self, rank: Rank, dependency: &Dependency) -> BTreeSet<Rank> {
        let mut peers = match dependency {
            Dependency::Send(Message { peer: Some(peer), .. })
            | Dependency::Receive(Message { peer: Some(peer), .. }) => {
                return BTreeSet::from([*peer]);
            }
            Dependency::Send(message) | Dependency::Receive(message) => self.members(message.comm),
            Dependency::Collective(collective) => self.members(collective.comm),
            Dependency::Lock { comm, holders } if holders.is_empty() => self.members(*comm),
            Dependency::Lock { holders, .. } => holders.clone(),
        };
        peers.remove(&rank);
        peers
    }

    /// All of a communicator. One whose members are not known has all ranks.
    pub fn members(&self, comm: u64) -> BTreeSet<Rank> {
        match self.members.get(&comm) {
            Some(members) => members.iter().copied().collect(),
            None => self.activities.keys().copied().collect(),
        }
    }

    /// Peers of a dependency that are not where they would have to be for it.
    fn missing(&self, rank: Rank, dependency: &Dependency) -> BTreeSet<Rank> {
        self.peers(rank, dependency).into_iter().filter(|peer| !self.fits(rank, dependency, *peer)).collect()
    }

    /// Whether the peer is waiting for just this, or has started it: then both go on.
    pub fn fits(&self, rank: Rank, dependency: &Dependency, peer: Rank) -> bool {
        let has_arrived = matches!(dependency, Dependency::Collective(call) if call.has_arrived(peer));
        has_arrived || self.dependencies(peer).iter().any(|other| fit(rank, dependency, peer, other))
    }

    /// Ranks that a stuck rank waits for: those that are not where they would have to be.
    pub fn waits_for(&self, rank: Rank) -> BTreeSet<Rank> {
        self.dependencies(rank).iter().flat_map(|dependency| self.missing(rank, dependency)).collect()
    }

    /// The collective call that a rank is in, or waits for.
    pub fn collective(&self, rank: Rank) -> Option<&CollectiveOp> {
        self.dependencies(rank).iter().find_map(|dependency| match dependency {
            Dependency::Collective(collective) => Some(collective),
            _ => None,
        })
    }

    pub fn dependencies(&self, rank: Rank) -> &[Dependency] {
        match self.activities.get(&rank) {
            Some(RankActivity::Waits { dependencies, .. }) => dependencies,
            _ => &[],
        }
    }
}

/// Whether what two ranks wait for is the same message, or the same collective call.
fn fit(rank: Rank, dependency: &Dependency, peer: Rank, other: &Dependency) -> bool {
    let same_message = |send: &Message, from: Rank, receive: &Message, to: Rank| {
        send.comm == receive.comm
            && send.peer == Some(to)
            && receive.peer.is_none_or(|source| source == from)
            && (receive.tag.is_none() || receive.tag == send.tag)
    };
    match (dependency, other) {
        (Dependency::Send(send), Dependency::Receive(receive)) => same_message(send, rank, receive, peer),
        (Dependency::Receive(receive), Dependency::Send(send)) => same_message(send, peer, receive, rank),
        (Dependency::Collective(a), Dependency::Collective(b)) => a.fits(b),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORLD: u64 = 0;

    fn receive(peer: Option<Rank>) -> Dependency {
        Dependency::Receive(Message { peer, tag: Some(0), comm: WORLD })
    }

    fn send(peer: Rank) -> Dependency {
        Dependency::Send(Message { peer: Some(peer), tag: Some(0), comm: WORLD })
    }

    fn barrier(arrived: Option<&[Rank]>) -> Dependency {
        let arrived = arrived.map(|ranks| ranks.iter().copied().collect());
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
        !WaitForGraph { activities: &activities, members: &members }.stuck().contains(&0)
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
