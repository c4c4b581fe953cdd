//! A table of a bounded size: what was put in first is forgotten first.

use std::collections::VecDeque;
use std::hash::Hash;

use rustc_hash::FxHashMap;

/// See the [module](self).
#[derive(Debug)]
pub struct KeptMap<K, V> {
    values: FxHashMap<K, V>,
    order: VecDeque<K>,
    most: usize,
}

impl<K: Copy + Eq + Hash, V> KeptMap<K, V> {
    /// Keeps so many at most.
    pub fn new(most: usize) -> Self {
        Self { values: FxHashMap::default(), order: VecDeque::new(), most }
    }

    /// Puts one in.
    pub fn insert(&mut self, key: K, value: V) {
        if self.values.insert(key, value).is_none() {
            self.order.push_back(key);
        }
        // What was taken out is still in the order.
        while self.order.front().is_some_and(|first| !self.values.contains_key(first)) {
            self.order.pop_front();
        }
        if self.order.len() > 2 * self.most {
            self.order.retain(|key| self.values.contains_key(key));
        }
        while self.values.len() > self.most {
            let Some(first) = self.order.pop_front() else { return };
            self.values.remove(&first);
        }
    }

    /// What is there.
    pub fn get(&self, key: K) -> Option<&V> {
        self.values.get(&key)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, key: K) -> Option<&mut V> {
        self.values.get_mut(&key)
    }

    /// Takes it out.
    pub fn remove(&mut self, key: K) -> Option<V> {
        self.values.remove(&key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_forgotten_first() {
        let mut kept = KeptMap::new(2);
        (0..3).for_each(|key| kept.insert(key, key));
        assert_eq!((kept.get(0), kept.get(1), kept.get(2)), (None, Some(&1), Some(&2)));
        (10..100).for_each(|key| {
            kept.insert(key, key);
            kept.remove(key);
        });
        assert!(kept.order.len() <= 4);
    }

    #[test]
    fn what_was_taken_out_in_order_takes_no_room() {
        let mut kept = KeptMap::new(1000);
        for key in 0..100 {
            kept.insert(key, key);
            assert_eq!(kept.remove(key), Some(key));
        }
        assert_eq!(kept.order.len(), 1);
    }
}
