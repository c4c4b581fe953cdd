//! What was found to be wrong, told apart by the calls that did it: so many at most, and where calls were made is looked up once.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// More are not told apart.
const MOST: usize = 1 << 10;

/// By calls.
#[derive(Debug)]
pub(super) struct FoundByCall<K, T> {
    all: BTreeMap<K, T>,
    /// Some of which it was not looked up where they were called.
    wants_places: bool,
    /// Something was found that nobody has asked for yet.
    is_new: bool,
}

impl<K, T> Default for FoundByCall<K, T> {
    fn default() -> Self {
        Self { all: BTreeMap::new(), wants_places: false, is_new: false }
    }
}

impl<K: Ord, T> FoundByCall<K, T> {
    /// It happened: `again` changes what is known of it, and says whether that is news.
    pub fn note(&mut self, key: K, again: impl FnOnce(&mut T) -> bool, first: impl FnOnce() -> T) {
        let is_full = self.all.len() >= MOST;
        match self.all.entry(key) {
            Entry::Occupied(mut known) => self.is_new |= again(known.get_mut()),
            Entry::Vacant(_) if is_full => {}
            Entry::Vacant(new) => {
                new.insert(first());
                (self.wants_places, self.is_new) = (true, true);
            }
        }
    }

    /// More is known of it, if it was found: `change` says whether that is news.
    pub fn change(&mut self, key: &K, change: impl FnOnce(&mut T) -> bool) {
        self.is_new |= self.all.get_mut(key).is_some_and(change);
    }

    /// All of it.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.all.values()
    }

    /// Whether something was found since the last call.
    pub fn take_new(&mut self) -> bool {
        std::mem::take(&mut self.is_new)
    }

    /// Whether there are calls of which it was not looked up where they were made.
    pub fn wants_places(&self) -> bool {
        self.wants_places
    }

    /// Looks that up.
    pub fn find_places(&mut self, look_up: impl FnMut(&mut T)) {
        self.wants_places = false;
        self.all.values_mut().for_each(look_up);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_first_is_news_and_wants_its_place_and_only_so_many_are_kept() {
        let mut found = FoundByCall::default();
        let again = |count: &mut u32| {
            *count += 1;
            false
        };
        found.note(7, again, || 1);
        assert_eq!((found.take_new(), found.take_new(), found.wants_places()), (true, false, true));
        found.find_places(|_| {});
        found.note(7, again, || 1);
        assert_eq!((found.take_new(), found.wants_places()), (false, false));
        found.change(&7, |_| true);
        found.change(&8, |_| true);
        assert_eq!((found.take_new(), found.all().copied().collect::<Vec<_>>()), (true, vec![2]));
        (0..2 * MOST).for_each(|key| found.note(key, again, || 1));
        assert_eq!(found.all().count(), MOST);
    }
}
