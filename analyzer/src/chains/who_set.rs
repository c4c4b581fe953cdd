//! Ranks that ran an operation.

use crate::job::ids::WhoId;

/// A set of ranks, and of processes without one. Its room grows with how many they are, not with how many there are in the job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WhoSet {
    /// In order, each with the bits of 64 numbers that follow one another.
    words: Vec<(u32, u64)>,
    /// Where the last one was found.
    last: u32,
}

impl WhoSet {
    #[inline]
    pub(crate) fn insert(&mut self, who: WhoId) {
        let (word, bit) = (who.0 / 64, 1 << (who.0 % 64));
        match self.words.get_mut(self.last as usize) {
            Some((known, bits)) if *known == word => *bits |= bit,
            _ => self.insert_far(word, bit),
        }
    }

    #[inline(never)]
    fn insert_far(&mut self, word: u32, bit: u64) {
        let at = match self.words.binary_search_by_key(&word, |(known, _)| *known) {
            Ok(at) => {
                self.words[at].1 |= bit;
                at
            }
            Err(at) => {
                self.words.insert(at, (word, bit));
                at
            }
        };
        self.last = at as u32;
    }

    /// All of them, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = WhoId> + '_ {
        self.words.iter().flat_map(|&(word, bits)| whos(word, bits))
    }

    /// Those that are not in another set.
    pub(crate) fn without<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = WhoId> + 'a {
        let others = |word: u32| {
            let at = other.words.binary_search_by_key(&word, |(known, _)| *known);
            at.map_or(0, |at| other.words[at].1)
        };
        self.words.iter().flat_map(move |&(word, bits)| whos(word, bits & !others(word)))
    }
}

fn whos(word: u32, bits: u64) -> impl Iterator<Item = WhoId> {
    (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| WhoId(word * 64 + bit))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_set_has_what_was_put_in(
            own in prop::collection::vec(0u32..1 << 17, 0..200),
            others in prop::collection::vec(0u32..300, 0..100),
        ) {
            let set = |whos: &[u32]| {
                let mut set = WhoSet::default();
                whos.iter().for_each(|who| set.insert(WhoId(*who)));
                set
            };
            let expected: BTreeSet<u32> = own.iter().copied().collect();
            let without: BTreeSet<u32> = expected.iter().copied().filter(|who| !others.contains(who)).collect();
            let (own, others) = (set(&own), set(&others));
            prop_assert_eq!(own.iter().map(|who| who.0).collect::<Vec<_>>(), expected.into_iter().collect::<Vec<_>>());
            let left: BTreeSet<u32> = own.without(&others).map(|who| who.0).collect();
            prop_assert_eq!(left, without);
        }
    }
}
