//! Counts of chains by what they are and the rank that they begin in, over time.

use std::hash::Hash;

use rustc_hash::FxHashMap;

use super::time_buckets::Buckets;
use crate::job::ids::WhoId;

/// Most pairs of a key and a rank that are kept: sixteen keys of each of 65,536 ranks. From where one had no room, ranks are not
/// compared.
const MAX_PAIRS: usize = 1 << 20;

/// Counts of one key in one rank.
pub(crate) struct RankCount<K> {
    pub key: K,
    pub who: WhoId,
    pub buckets: Buckets,
}

/// Ranks whose places are found together: neighbours do the same one after the other.
const BLOCK: usize = 16;
const NOWHERE: u32 = u32::MAX;

/// Counts of all keys in all ranks.
pub(crate) struct RankCounts<K> {
    /// Which block of `places` is a key's in some ranks.
    blocks: FxHashMap<(K, u32), u32>,
    /// Where the counts are.
    places: Vec<[u32; BLOCK]>,
    counts: Vec<RankCount<K>>,
    /// Places of those with counts that nobody has [taken](RankCounts::take).
    counted: Vec<u32>,
}

impl<K: Copy + Eq + Hash> RankCounts<K> {
    pub fn new() -> Self {
        Self { blocks: FxHashMap::default(), places: Vec::new(), counts: Vec::new(), counted: Vec::new() }
    }

    /// Counts one. `false`: there is no room for another pair.
    #[inline]
    pub fn add(&mut self, key: K, who: WhoId, bucket: usize) -> bool {
        let Some(place) = self.place_or_keep(key, who) else { return false };
        if self.counts[place as usize].buckets.add(bucket) {
            self.counted.push(place);
        }
        true
    }

    /// Counts so many. `false`: there is no room for another pair.
    pub fn add_many(&mut self, key: K, who: WhoId, bucket: usize, count: u64) -> bool {
        let Some(place) = self.place_or_keep(key, who) else { return false };
        if self.counts[place as usize].buckets.add_many(bucket, count) {
            self.counted.push(place);
        }
        true
    }

    /// Gives what was counted since this was asked for last: of each key in a rank, by bucket.
    pub fn take(&mut self, mut give: impl FnMut(K, WhoId, Vec<(usize, u64)>)) {
        for place in self.counted.drain(..) {
            let RankCount { key, who, buckets } = &mut self.counts[place as usize];
            give(*key, *who, buckets.take());
        }
    }

    #[inline]
    fn place_or_keep(&mut self, key: K, who: WhoId) -> Option<u32> {
        match self.place(key, who) {
            NOWHERE if self.counts.len() >= MAX_PAIRS => None,
            NOWHERE => Some(self.keep(key, who)),
            place => Some(place),
        }
    }

    #[inline]
    fn place(&self, key: K, who: WhoId) -> u32 {
        let block = self.blocks.get(&(key, who.0 / BLOCK as u32));
        block.map_or(NOWHERE, |&block| self.places[block as usize][who.index() % BLOCK])
    }

    fn keep(&mut self, key: K, who: WhoId) -> u32 {
        let block = *self.blocks.entry((key, who.0 / BLOCK as u32)).or_insert(self.places.len() as u32);
        if block as usize == self.places.len() {
            self.places.push([NOWHERE; BLOCK]);
        }
        let place = self.counts.len() as u32;
        self.places[block as usize][who.index() % BLOCK] = place;
        self.counts.push(RankCount { key, who, buckets: Buckets::default() });
        place
    }

    /// All of a key in a rank.
    pub fn total(&self, key: K, who: WhoId) -> u64 {
        match self.place(key, who) {
            NOWHERE => 0,
            place => self.counts[place as usize].buckets.since(0),
        }
    }

    pub fn all(&self) -> &[RankCount<K>] {
        &self.counts
    }

    /// Two buckets become one, in all. `is_odd`: the first one is the second of its pair.
    pub fn halve(&mut self, is_odd: bool) {
        self.counts.iter_mut().for_each(|count| count.buckets.halve(is_odd));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_kinds_of_chains_of_each_of_65536_ranks_have_room() {
        let mut counts = RankCounts::new();
        for who in 0..65_536 {
            for key in 0_u32..6 {
                assert!(counts.add(key, WhoId(who), 0), "rank {who}, kind {key}");
            }
        }
        assert_eq!(counts.total(5, WhoId(65_535)), 1);
    }
}
