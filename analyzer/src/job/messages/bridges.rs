//! How the two sides of an intercommunicator find each other: by their leaders, who know of each other.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};

use super::ids::CommId;

/// Leaders that wait for the other side.
const MOST: usize = 1 << 14;

/// What two leaders agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Bridge {
    /// The communicator that both are in.
    pub peer: CommId,
    /// Both, as ranks of MPI_COMM_WORLD: first the one whose call it is.
    pub leaders: (u32, u32),
    pub tag: i32,
}

/// Leaders whose other side has not come yet. `T`: what is known of their own.
#[derive(Debug)]
pub(super) struct Bridges<T> {
    /// As the leader says it that waits: in the order of its calls.
    waiting: FxHashMap<Bridge, VecDeque<T>>,
    count: usize,
    /// Ranks that may have called as leaders without being seen: which of their calls belong to which is not known any
    /// more.
    uncertain: FxHashSet<u32>,
    /// Some leaders are not kept: nobody is certain.
    is_full: bool,
}

impl<T> Default for Bridges<T> {
    fn default() -> Self {
        Self { waiting: FxHashMap::default(), count: 0, uncertain: FxHashSet::default(), is_full: false }
    }
}

impl<T> Bridges<T> {
    /// A leader calls. The other side, if its leader has called already.
    pub fn meet(&mut self, bridge: Bridge, own: T) -> Option<T> {
        let (here, there) = bridge.leaders;
        if self.is_full || here == there || self.uncertain.contains(&here) {
            return None;
        }
        let other = Bridge { leaders: (there, here), ..bridge };
        if let Some(queue) = self.waiting.get_mut(&other) {
            let found = queue.pop_front();
            if queue.is_empty() {
                self.waiting.remove(&other);
            }
            self.count -= 1;
            return found;
        }
        if self.count >= MOST {
            *self = Self { is_full: true, ..Self::default() };
            return None;
        }
        self.waiting.entry(bridge).or_default().push_back(own);
        self.count += 1;
        None
    }

    /// A rank may have called as a leader, and it is not known of what.
    pub fn distrust(&mut self, rank: u32) {
        self.uncertain.insert(rank);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bridge(here: u32, there: u32, tag: i32) -> Bridge {
        Bridge { peer: CommId(0), leaders: (here, there), tag }
    }

    #[test]
    fn leaders_meet_who_name_each_other_with_the_same_tag() {
        let mut all = Bridges::default();
        assert_eq!(all.meet(bridge(0, 1, 5), 'a'), None);
        assert_eq!(all.meet(bridge(0, 1, 5), 'b'), None);
        assert_eq!(all.meet(bridge(0, 2, 5), 'c'), None);
        assert_eq!(all.meet(bridge(1, 0, 6), 'd'), None);
        assert_eq!(all.meet(bridge(1, 0, 5), 'e'), Some('a'));
        assert_eq!(all.meet(bridge(1, 0, 5), 'f'), Some('b'));
        assert_eq!(all.meet(bridge(1, 0, 5), 'g'), None);
        assert_eq!(all.count, 3);
    }

    #[test]
    fn who_leads_both_sides_meets_nobody() {
        let mut all = Bridges::default();
        assert_eq!(all.meet(bridge(3, 3, 0), 0), None);
        assert_eq!(all.meet(bridge(3, 3, 0), 1), None);
        assert_eq!(all.count, 0);
    }

    #[test]
    fn who_may_have_led_what_is_not_known_meets_nobody_with_its_later_calls() {
        let mut all = Bridges::default();
        assert_eq!(all.meet(bridge(0, 1, 5), 'a'), None);
        all.distrust(0);
        assert_eq!(all.meet(bridge(0, 1, 5), 'b'), None);
        assert_eq!(all.meet(bridge(1, 0, 5), 'c'), Some('a'));
        assert_eq!(all.meet(bridge(1, 0, 5), 'd'), None);
        assert_eq!(all.meet(bridge(0, 1, 5), 'e'), None);
    }

    #[test]
    fn where_too_many_wait_nobody_meets_any_more() {
        let mut all = Bridges::default();
        for tag in 0..=MOST as i32 {
            assert_eq!(all.meet(bridge(0, 1, tag), ()), None);
        }
        assert_eq!((all.waiting.len(), all.meet(bridge(1, 0, 0), ())), (0, None));
    }
}
