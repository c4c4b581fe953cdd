//! Counts of chains by what they are and the rank that they begin in, over time.

use std::hash::Hash;

use rustc_hash::FxHashMap;

use crate::buckets::Buckets;
use crate::process::WhoId;

/// Most pairs of a key and a rank that are kept.
const MAX_PAIRS: usize = 1 << 18;

/// Counts of one key in one rank.
pub(crate) struct RankCount<K> {
    pub key: K,
    pub who: WhoId,
    pub buckets: Buckets,
}

/// Counts of all keys in all ranks.
pub(crate) struct RankCounts<K> {
    places: FxHashMap<(K, WhoId), u32>,
    counts: Vec<RankCount<K>>,
    /// The pair counted last, and where it is.
    last: Option<((K, WhoId), u32)>,
}

impl<K: Copy + Eq + Hash> RankCounts<K> {
    pub fn new() -> Self {
        Self { places: FxHashMap::default(), counts: Vec::new(), last: None }
    }

    /// Counts one. `false`: there is no room for another pair.
    pub fn add(&mut self, key: K, who: WhoId, bucket: usize) -> bool {
        let pair = (key, who);
        let known =
            self.last.filter(|l| l.0 == pair).map(|l| l.1).or_else(|| self.places.get(&pair).copied());
        let place = match known {
            Some(place) => place,
            None if self.counts.len() >= MAX_PAIRS => return false,
            None => self.keep(pair),
        };
        self.last = Some((pair, place));
        self.counts[place as usize].buckets.add(bucket);
        true
    }

    fn keep(&mut self, pair: (K, WhoId)) -> u32 {
        let place = self.counts.len() as u32;
        self.places.insert(pair, place);
        self.counts.push(RankCount { key: pair.0, who: pair.1, buckets: Buckets::default() });
        place
    }

    /// All of a key in a rank.
    pub fn total(&self, key: K, who: WhoId) -> u64 {
        self.places.get(&(key, who)).map_or(0, |&place| self.counts[place as usize].buckets.since(0))
    }

    pub fn all(&self) -> &[RankCount<K>] {
        &self.counts
    }

    /// Two buckets become one, in all.
    pub fn halve(&mut self) {
        self.counts.iter_mut().for_each(|count| count.buckets.halve());
    }
}
