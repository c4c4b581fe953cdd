//! How often a node tells what: each node tells something about its part and to its neighbours, and one coordinator and one
//! bus take in what all of them tell. So with many nodes each tells it less often, and what it tells at once is more.

/// Counts of a node go out so much further apart for each node there is …
const COUNTS_OF_A_NODE_NS: u64 = 500_000;
/// … up to this: so late is a finding at most.
const MOST_COUNTS_NS: u64 = 500_000_000;
/// The same for letters. What is received waits for them.
const LETTERS_OF_A_NODE_NS: u64 = 200_000;
const MOST_LETTERS_NS: u64 = 200_000_000;

/// See the [module](self). The default: as often as there is occasion to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pace {
    /// Between two times that counts go out.
    pub counts_ns: u64,
    /// Between two times that letters go out.
    pub letters_ns: u64,
}

impl Pace {
    /// Of each of so many nodes.
    pub fn of_nodes(nodes: u32) -> Self {
        let nodes = u64::from(nodes);
        Self {
            counts_ns: (nodes * COUNTS_OF_A_NODE_NS).min(MOST_COUNTS_NS),
            letters_ns: (nodes * LETTERS_OF_A_NODE_NS).min(MOST_LETTERS_NS),
        }
    }
}

/// When something is due that comes at a pace.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timer {
    at_ns: u64,
}

impl Timer {
    /// Whether it is due; if so, the next time is a period later.
    pub fn take(&mut self, now_ns: u64, period_ns: u64) -> bool {
        // A period that has become shorter counts at once.
        let is_due = now_ns >= self.at_ns.min(now_ns.saturating_add(period_ns)) || self.at_ns == 0;
        if is_due {
            self.at_ns = now_ns.saturating_add(period_ns);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_nodes_tell_in_a_second_does_not_grow_with_their_number() {
        let a_second = |period_ns: u64, nodes: u32| u64::from(nodes) * 1_000_000_000 / period_ns;
        for nodes in [200, 500, 1000] {
            let pace = Pace::of_nodes(nodes);
            assert_eq!((a_second(pace.counts_ns, nodes), a_second(pace.letters_ns, nodes)), (2_000, 5_000));
        }
        let few = Pace::of_nodes(2);
        assert!(
            few.counts_ns < 50_000_000 && few.letters_ns < 1_000_000,
            "findings of small jobs do not wait"
        );
        assert_eq!(Pace::of_nodes(u32::MAX), Pace { counts_ns: MOST_COUNTS_NS, letters_ns: MOST_LETTERS_NS });
    }

    #[test]
    fn what_is_due_comes_a_period_after_it_came_last() {
        let mut due = Timer::default();
        let taken = [5, 6, 14, 15, 16, 40, 49, 50].map(|now_ns| due.take(now_ns, 10));
        assert_eq!(taken, [true, false, false, true, false, true, false, true]);
        assert!(due.take(51, 0), "a period that is shorter now");
        assert!(due.take(51, 0), "without a pace it is always due");
    }
}
