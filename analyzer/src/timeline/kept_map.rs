//! A table of a bounded size: what was put in first is forgotten first.

use std::collections::VecDeque;
use std::hash::Hash;

use rustc_hash::FxHashMap;

/// See the [module](self).
#[derive(Debug)]
pub struct KeptMap<K, V> {
    values: FxHashMap<K, V>,
    /// In the order in which they came; those that were taken out may be there still.
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
        if !self.values.contains_key(&key) {
            self.make_room(key);
        }
        self.values.insert(key, value);
    }

    /// What is there, made if there is nothing; and what is forgotten for it.
    pub fn entry(&mut self, key: K, make: impl FnOnce() -> V) -> (&mut V, Option<(K, V)>) {
        let is_new = !self.values.contains_key(&key);
        let forgotten = if is_new { self.make_room(key) } else { None };
        (self.values.entry(key).or_insert_with(make), forgotten)
    }

    fn make_room(&mut self, key: K) -> Option<(K, V)> {
        while self.order.front().is_some_and(|first| !self.values.contains_key(first)) {
            self.order.pop_front();
        }
        if self.order.len() >= 2 * self.most {
            self.order.retain(|key| self.values.contains_key(key));
        }
        let is_full = self.values.len() >= self.most;
        let first = if is_full { self.order.pop_front() } else { None };
        self.order.push_back(key);
        first.and_then(|first| Some((first, self.values.remove(&first)?)))
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

    /// Takes out all that are left, the oldest first.
    pub fn drain(&mut self) -> impl Iterator<Item = (K, V)> + use<'_, K, V> {
        let Self { values, order, .. } = self;
        order.drain(..).filter_map(|key| values.remove(&key).map(|value| (key, value)))
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

    #[test]
    fn whoever_puts_one_in_gets_what_is_forgotten_for_it() {
        let mut kept = KeptMap::new(2);
        let forgotten: Vec<_> = [1, 2, 3]
            .into_iter()
            .filter_map(|key| {
                let (value, forgotten) = kept.entry(key, || 0);
                *value += key;
                forgotten
            })
            .collect();
        assert_eq!(forgotten, [(1, 1)]);
        assert_eq!([1, 2, 2].map(|key| kept.remove(key)), [None, Some(2), None]);
        assert_eq!(kept.drain().collect::<Vec<_>>(), [(3, 3)]);
    }

    #[test]
    fn what_was_taken_out_leaves_its_place_to_others() {
        let mut kept = KeptMap::new(2);
        assert_eq!(kept.entry(0, || 0).1, None);
        for key in 1..100 {
            assert_eq!(kept.entry(key, || key).1, None, "{key}");
            assert_eq!(kept.remove(key), Some(key));
        }
        assert!(kept.order.len() <= 4);
        assert_eq!(kept.drain().collect::<Vec<_>>(), [(0, 0)]);
    }
}
