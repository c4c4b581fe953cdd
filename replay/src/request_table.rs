//! What is known of requests: few are looked through, which is faster than to hash them; many are hashed.

use rustc_hash::FxHashMap;

/// More are hashed.
const MOST_LOOKED_THROUGH: usize = 16;

/// By request. All are in one of the two.
#[derive(Debug)]
pub(crate) struct RequestTable<T> {
    few: Vec<(u64, T)>,
    many: FxHashMap<u64, T>,
}

impl<T> Default for RequestTable<T> {
    fn default() -> Self {
        Self { few: Vec::with_capacity(MOST_LOOKED_THROUGH), many: FxHashMap::default() }
    }
}

impl<T> RequestTable<T> {
    pub(crate) fn len(&self) -> usize {
        self.few.len() + self.many.len()
    }

    #[inline]
    fn position(&self, request: u64) -> Option<usize> {
        self.few.iter().position(|(known, _)| *known == request)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, request: u64) -> Option<&mut T> {
        if self.many.is_empty() {
            return self.position(request).map(|at| &mut self.few[at].1);
        }
        self.many.get_mut(&request)
    }

    pub(crate) fn contains(&self, request: u64) -> bool {
        self.position(request).is_some() || self.many.contains_key(&request)
    }

    /// What was known of it before.
    #[inline]
    pub(crate) fn insert(&mut self, request: u64, known: T) -> Option<T> {
        if let Some(before) = self.get_mut(request) {
            return Some(std::mem::replace(before, known));
        }
        if self.many.is_empty() && self.few.len() < MOST_LOOKED_THROUGH {
            self.few.push((request, known));
        } else {
            self.many.extend(self.few.drain(..));
            self.many.insert(request, known);
        }
        None
    }

    #[inline]
    pub(crate) fn remove(&mut self, request: u64) -> Option<T> {
        if self.many.is_empty() {
            return self.position(request).map(|at| self.few.swap_remove(at).1);
        }
        self.many.remove(&request)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_knows_what_a_map_knows(steps in proptest::collection::vec((0_u8..4, 0_u64..40, any::<u8>()), 0..300)) {
            let (mut table, mut map) = (RequestTable::default(), BTreeMap::new());
            for (step, request, known) in steps {
                match step {
                    // Mostly added, so that there are many.
                    0 | 1 => prop_assert_eq!(table.insert(request, known), map.insert(request, known)),
                    2 => prop_assert_eq!(table.remove(request), map.remove(&request)),
                    _ => prop_assert_eq!(table.get_mut(request), map.get_mut(&request)),
                }
                prop_assert_eq!(table.len(), map.len());
                prop_assert_eq!(table.contains(request), map.contains_key(&request));
            }
        }
    }
}
