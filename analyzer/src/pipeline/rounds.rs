//! How a node knows, without any clock of others, that these have told it all that it may wait for.
//!
//! A round has a number, which all nodes are told. A node *confirms* it when it has told, in letters, all that had happened there
//! by the time that it heard of it. The next round begins when all nodes have confirmed. So what one node receives in a round
//! was sent before all confirm the next but one: by then its sender has told of it, if it knew to whom; listens for questions;
//! and in two rounds more has answered. A bus may deliver what goes different ways in another order than it was sent, by less than a
//! round.

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct RoundsOfNode {
    /// The last one that was heard of, and when.
    last: Option<(u64, u64)>,
    is_confirmed: bool,
    /// RoundsOfNode that began after this node had confirmed the one before.
    passed: u64,
    /// All that happened here before this time was told.
    told_ns: u64,
}

impl RoundsOfNode {
    /// A round began, or one is told of again, since its confirmation may have been lost. Whether it is one more that has
    /// passed.
    pub(super) fn begin(&mut self, number: u64, now_ns: u64) -> bool {
        let before = self.last.map(|(number, _)| number);
        if before.is_some_and(|before| number < before) {
            return false;
        }
        let follows = before.and_then(|before| before.checked_add(1)) == Some(number) && self.is_confirmed;
        self.passed += u64::from(follows);
        if before != Some(number) {
            self.last = Some((number, now_ns));
        }
        self.is_confirmed = false;
        follows
    }

    /// All that happened before a time is in letters that were taken, or are about to be.
    pub(super) fn tell(&mut self, until_ns: u64) {
        self.told_ns = self.told_ns.max(until_ns);
    }

    /// The round that is to be confirmed, when all letters are out.
    pub(super) fn due(&self) -> Option<u64> {
        let (number, begun_ns) = self.last.filter(|_| !self.is_confirmed)?;
        (self.told_ns > begun_ns).then_some(number)
    }

    /// The one that is due is confirmed.
    pub(super) fn confirm(&mut self) {
        self.is_confirmed = true;
    }

    /// How many rounds have passed.
    pub(super) fn passed(&self) -> u64 {
        self.passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_confirmed_when_all_from_before_it_was_told() {
        let mut rounds = RoundsOfNode::default();
        rounds.tell(5);
        assert!(!rounds.begin(41, 10), "what was before the first is not known");
        assert_eq!(rounds.due(), None);
        rounds.tell(10);
        assert_eq!(rounds.due(), None, "more may have happened at that very time");
        rounds.tell(11);
        assert_eq!(rounds.due(), Some(41));
        rounds.confirm();
        assert_eq!((rounds.due(), rounds.passed()), (None, 0));
        assert!(rounds.begin(42, 12));
        assert_eq!(rounds.passed(), 1);
    }

    #[test]
    fn a_round_that_is_told_of_again_is_confirmed_again_and_counts_once() {
        let mut rounds = RoundsOfNode::default();
        rounds.tell(100);
        for (number, passed) in [(1, false), (1, false), (2, true), (2, false), (3, true)] {
            assert_eq!(rounds.begin(number, 10), passed);
            assert_eq!(rounds.due(), Some(number));
            rounds.confirm();
        }
        assert!(!rounds.begin(1, 10) && rounds.due().is_none(), "it is long over");
        assert_eq!(rounds.passed(), 2);
    }

    #[test]
    fn rounds_that_went_on_without_this_node_say_nothing() {
        let mut rounds = RoundsOfNode::default();
        rounds.tell(100);
        rounds.begin(1, 10);
        assert!(!rounds.begin(2, 10), "it had not confirmed the first");
        rounds.confirm();
        assert!(!rounds.begin(9, 10), "it heard of none in between");
        rounds.confirm();
        assert!(rounds.begin(10, 10));
    }
}
