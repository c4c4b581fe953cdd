//! What was learnt last, under names; what is too old is forgotten.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Up to a number of entries.
#[derive(Debug)]
pub(super) struct Recent<K, V> {
    entries: HashMap<K, V>,
    /// In the order in which they came; those that were taken out are there still.
    names: VecDeque<K>,
    most: usize,
}

impl<K: Copy + Eq + Hash, V> Recent<K, V> {
    pub(super) fn new(most: usize) -> Self {
        Self { entries: HashMap::new(), names: VecDeque::new(), most }
    }

    /// The entry under a name, made if there is none.
    pub(super) fn entry(&mut self, name: K, make: impl FnOnce() -> V) -> &mut V {
        if !self.entries.contains_key(&name) {
            if self.names.len() >= self.most
                && let Some(oldest) = self.names.pop_front()
            {
                self.entries.remove(&oldest);
            }
            self.names.push_back(name);
        }
        self.entries.entry(name).or_insert_with(make)
    }

    pub(super) fn remove(&mut self, name: K) -> Option<V> {
        self.entries.remove(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_old_is_forgotten() {
        let mut recent = Recent::new(2);
        for name in [1, 2, 3] {
            *recent.entry(name, || 0) += name;
        }
        assert_eq!([1, 2, 3, 3].map(|name| recent.remove(name)), [None, Some(2), Some(3), None]);
    }
}
