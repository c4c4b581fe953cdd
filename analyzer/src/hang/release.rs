//! What can release whom: one table, by what is waited for and what the peers are doing.

use super::dependency::{CollectiveOp, Dependency, Message};

/// What is waited for, as far as the table tells it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaited {
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
pub(super) enum Peer {
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
pub(super) struct ReleaseRule {
    quantifier: Quantifier,
    able: &'static [Peer],
}

/// The table. Nobody who is stuck, outside, stopped or at the end can release anybody.
pub(super) const fn rule(awaited: Awaited) -> ReleaseRule {
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
    /// Whether peers like these can release who waits.
    pub(super) fn is_met(&self, peers: &PeerCounts) -> bool {
        let able = |state: &Peer| self.able.contains(state);
        let is_able = |states: &[Peer]| states.iter().any(|state| able(state) && peers.of(*state) > 0);
        match self.quantifier {
            Quantifier::Every => Peer::ALL.iter().all(|state| able(state) || peers.of(*state) == 0),
            // Where there is nobody else, nobody is waited for.
            Quantifier::AnyOne => peers.all() == 0 || is_able(&Peer::ALL),
            Quantifier::EveryFitsOrOneIsFree => {
                peers.of(Peer::Fits) == peers.all() || is_able(&Peer::ALL[1..])
            }
        }
    }
}

impl Peer {
    const ALL: [Self; 6] = [Self::Fits, Self::Free, Self::Stuck, Self::Outside, Self::Stopped, Self::Ended];
}

/// How many peers are in each state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PeerCounts([usize; Peer::ALL.len()]);

impl PeerCounts {
    pub(super) fn add(&mut self, peer: Peer) {
        self.0[peer as usize] += 1;
    }

    pub(super) fn remove(&mut self, peer: Peer) {
        self.0[peer as usize] -= 1;
    }

    pub(super) fn of(&self, peer: Peer) -> usize {
        self.0[peer as usize]
    }

    fn all(&self) -> usize {
        self.0.iter().sum()
    }
}

impl Dependency {
    /// The row of the table.
    pub(super) fn awaited(&self) -> Awaited {
        match self {
            Self::Send(_) => Awaited::Send,
            Self::Receive(Message { peer: None, .. }) => Awaited::ReceiveFromAny,
            Self::Receive(_) => Awaited::Receive,
            Self::Collective(collective) if collective.is_finalize => Awaited::Finalize,
            Self::Collective(CollectiveOp { arrived: Some(_), .. }) => Awaited::CollectiveWithArrivals,
            Self::Collective(_) => Awaited::Collective,
            Self::Lock { .. } => Awaited::Lock,
        }
    }
}
