//! Whom each rank waits for. What many ranks wait for alike is written down once: of thousands in one collective call each
//! waits for the same ones.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::{FxHashMap, FxHashSet};

use super::dependency::Rank;

/// Ranks that many wait for alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SharedWait(usize);

/// Whom one rank waits for.
#[derive(Clone, Debug, Default)]
pub(super) struct RankWaits {
    /// For itself.
    pub own: BTreeSet<Rank>,
    /// As others do; the rank itself, if it is among them, does not count.
    pub shared: Vec<SharedWait>,
}

/// Whom each stuck rank waits for, both ways.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    of: BTreeMap<Rank, RankWaits>,
    shared: Vec<BTreeSet<Rank>>,
    /// Who waits for a rank for itself.
    own_on: FxHashMap<Rank, Vec<Rank>>,
    /// What of the shared a rank is in.
    shared_on: FxHashMap<Rank, Vec<SharedWait>>,
    /// Who waits for what is shared.
    waiting: Vec<Vec<Rank>>,
}

/// Who waits for a rank: the same for two ranks if the same ranks wait for them in the same way.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WhoWaits {
    own: Vec<Rank>,
    shared: Vec<SharedWait>,
}

impl WhoWaits {
    pub fn is_empty(&self) -> bool {
        self.own.is_empty() && self.shared.is_empty()
    }
}

impl Waits {
    /// Ranks that some will wait for.
    pub(super) fn share(&mut self, ranks: BTreeSet<Rank>) -> SharedWait {
        let shared = SharedWait(self.shared.len());
        for rank in &ranks {
            self.shared_on.entry(*rank).or_default().push(shared);
        }
        self.shared.push(ranks);
        self.waiting.push(Vec::new());
        shared
    }

    /// Says whom a rank waits for.
    pub(super) fn insert(&mut self, rank: Rank, waits: RankWaits) {
        waits.own.iter().for_each(|peer| self.own_on.entry(*peer).or_default().push(rank));
        waits.shared.iter().for_each(|shared| self.waiting[shared.0].push(rank));
        self.of.insert(rank, waits);
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (Rank, &RankWaits)> {
        self.of.iter().map(|(rank, waits)| (*rank, waits))
    }

    pub(super) fn all_shared(&self) -> impl Iterator<Item = (SharedWait, &BTreeSet<Rank>)> {
        self.shared.iter().enumerate().map(|(at, ranks)| (SharedWait(at), ranks))
    }

    /// All that some ranks wait for: what is shared is gone through once.
    pub fn of_all(&self, ranks: impl IntoIterator<Item = Rank>) -> BTreeSet<Rank> {
        let mut all = BTreeSet::new();
        let mut shared: BTreeMap<SharedWait, (Rank, usize)> = BTreeMap::new();
        for rank in ranks {
            let Some(waits) = self.of.get(&rank) else { continue };
            all.extend(waits.own.iter().copied());
            waits.shared.iter().for_each(|one| shared.entry(*one).or_insert((rank, 0)).1 += 1);
        }
        for (one, (rank, count)) in shared {
            // Nobody waits for itself in what is shared: one that is alone in it waits for the others.
            let is_other = |peer: &&Rank| count > 1 || **peer != rank;
            all.extend(self.shared[one.0].iter().filter(is_other).copied());
        }
        all
    }

    /// Whether a rank waits for itself.
    pub(super) fn is_own_partner(&self, rank: Rank) -> bool {
        self.of.get(&rank).is_some_and(|waits| waits.own.contains(&rank))
    }

    /// Who waits for a rank.
    pub(super) fn on(&self, rank: Rank) -> WhoWaits {
        let own = self.own_on.get(&rank).cloned().unwrap_or_default();
        let others = |one: &&SharedWait| self.waiting[one.0].iter().any(|waiting| *waiting != rank);
        let shared = self.shared_on.get(&rank).into_iter().flatten().filter(others).copied().collect();
        WhoWaits { own, shared }
    }

    /// The ranks among those that wait.
    pub(super) fn ranks_of(&self, waiting: &WhoWaits) -> BTreeSet<Rank> {
        let shared = waiting.shared.iter().flat_map(|one| &self.waiting[one.0]);
        waiting.own.iter().chain(shared).copied().collect()
    }

    /// Ranks that reach one of `to`, but for these, and how many steps it took to find them.
    pub(super) fn reaching(&self, to: &BTreeSet<Rank>) -> (BTreeSet<Rank>, usize) {
        let (mut reached, mut steps) = (BTreeSet::new(), 0);
        let mut gone_through: FxHashSet<SharedWait> = FxHashSet::default();
        let mut next: Vec<Rank> = to.iter().copied().collect();
        while let Some(rank) = next.pop() {
            let own = self.own_on.get(&rank).map_or(&[][..], Vec::as_slice);
            let mut lists = vec![own];
            for one in self.shared_on.get(&rank).into_iter().flatten() {
                if gone_through.insert(*one) {
                    lists.push(&self.waiting[one.0]);
                }
            }
            for &waiting in lists.into_iter().flatten() {
                steps += 1;
                if !to.contains(&waiting) && reached.insert(waiting) {
                    next.push(waiting);
                }
            }
            steps += 1;
        }
        (reached, steps)
    }
}
