//! What was learnt last, under names; what is too old is given up.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use rustc_hash::FxBuildHasher;

/// Up to a number of entries.
#[derive(Debug)]
pub(super) struct Recent<K, V> {
    entries: HashMap<K, V, FxBuildHasher>,
    /// In the order in which they came; those that were taken out are there still.
    names: VecDeque<K>,
    most: usize,
}

impl<K: Copy + Eq + Hash, V> Recent<K, V> {
    pub(super) fn new(most: usize) -> Self {
        Self { entries: HashMap::default(), names: VecDeque::new(), most }
    }

    /// The entry under a name, made if there is none; and what is given up for it.
    pub(super) fn entry(&mut self, name: K, make: impl FnOnce() -> V) -> (&mut V, Option<(K, V)>) {
        let mut given_up = None;
        if !self.entries.contains_key(&name) {
            if self.entries.len() >= self.most {
                let oldest = self.pop_oldest();
                given_up = oldest.and_then(|name| Some((name, self.entries.remove(&name)?)));
            }
            if self.names.len() >= 2 * self.most {
                self.names.retain(|name| self.entries.contains_key(name));
            }
            self.names.push_back(name);
        }
        (self.entries.entry(name).or_insert_with(make), given_up)
    }

    /// The oldest that is still there; its name and those of what was taken out before it are forgotten.
    fn pop_oldest(&mut self) -> Option<K> {
        while let Some(name) = self.names.pop_front() {
            if self.entries.contains_key(&name) {
                return Some(name);
            }
        }
        None
    }

    pub(super) fn get_mut(&mut self, name: K) -> Option<&mut V> {
        self.entries.get_mut(&name)
    }

    pub(super) fn remove(&mut self, name: K) -> Option<V> {
        self.entries.remove(&name)
    }

    /// All that are left, the oldest first.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (K, V)> + use<'_, K, V> {
        let Self { entries, names, .. } = self;
        names.drain(..).filter_map(|name| entries.remove(&name).map(|value| (name, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_old_is_given_up() {
        let mut recent = Recent::new(2);
        let given_up: Vec<_> = [1, 2, 3]
            .into_iter()
            .filter_map(|name| {
                let (value, given_up) = recent.entry(name, || 0);
                *value += name;
                given_up
            })
            .collect();
        assert_eq!(given_up, [(1, 1)]);
        assert_eq!([1, 2, 2].map(|name| recent.remove(name)), [None, Some(2), None]);
        assert_eq!(recent.drain().collect::<Vec<_>>(), [(3, 3)]);
    }

    #[test]
    fn what_was_taken_out_leaves_its_place_to_others() {
        let mut recent = Recent::new(2);
        assert_eq!(recent.entry(0, || 0).1, None);
        for name in 1..100 {
            assert_eq!(recent.entry(name, || name).1, None, "{name}");
            assert_eq!(recent.remove(name), Some(name));
        }
        assert!(recent.names.len() <= 5);
        assert_eq!(recent.drain().collect::<Vec<_>>(), [(0, 0)]);
    }
}
