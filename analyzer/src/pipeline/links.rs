//! Which letters have come from other nodes, and which have not.
//!
//! Letters of one agent to another are numbered. Where one is missing, what it said is not known, and what it was to be told
//! will not be answered: both agents give up what is under way between them, and each learns of what the other one missed from
//! its next letter.

use std::collections::BTreeMap;

use crate::chains::sums::letter::LetterHead;

/// Numbers of letters between this node and another one.
#[derive(Clone, Copy, Debug, Default)]
struct LetterCounts {
    /// Of the other one's agent.
    session: u64,
    /// Number of its next letter.
    next_in: u64,
    /// Number of the next letter to it.
    next_out: u64,
    /// Letters of it that have not come.
    missed: u64,
    /// Letters to it that have not come there.
    missed_there: u64,
}

/// What a letter means for what is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LetterArrival {
    /// It is not for this session, or came before.
    Ignored,
    /// It is the next one.
    Next,
    /// Letters are missing, here or there.
    Gap,
    /// Another agent has taken the place of the one that was there.
    Another,
}

/// What has come from all other nodes.
#[derive(Debug, Default)]
pub(super) struct LetterLinks {
    by_node: BTreeMap<u32, LetterCounts>,
}

impl LetterLinks {
    /// A letter has come. `session`: of this agent.
    pub(super) fn arrive(&mut self, from: u32, head: &LetterHead, session: u64) -> LetterArrival {
        let is_question = head.for_session == 0;
        if !is_question && head.for_session != session {
            return LetterArrival::Ignored;
        }
        let known = self.by_node.get(&from).copied();
        let is_another = known.is_some_and(|link| link.session != head.session);
        let link = self.by_node.entry(from).or_default();
        if known.is_none() || is_another {
            *link = LetterCounts { session: head.session, ..LetterCounts::default() };
        }
        if is_question {
            return if is_another { LetterArrival::Another } else { LetterArrival::Next };
        }
        if head.number < link.next_in {
            return LetterArrival::Ignored;
        }
        let missing = head.number - link.next_in;
        link.next_in = head.number.saturating_add(1);
        link.missed = link.missed.saturating_add(missing);
        let missed_there = std::mem::replace(&mut link.missed_there, head.missed);
        match (is_another, missing > 0 || head.missed > missed_there) {
            (true, _) => LetterArrival::Another,
            (false, true) => LetterArrival::Gap,
            (false, false) => LetterArrival::Next,
        }
    }

    /// The head of the next letter to a node; none: nothing was ever heard of it.
    pub(super) fn next(&mut self, to: u32, session: u64, wall_ns: u64) -> Option<LetterHead> {
        let link = self.by_node.get_mut(&to)?;
        let (number, is_last) = (link.next_out, false);
        link.next_out += 1;
        let (for_session, missed) = (link.session, link.missed);
        Some(LetterHead { session, for_session, number, missed, wall_ns, is_last })
    }

    /// Nothing is known of a node any more.
    pub(super) fn forget(&mut self, node: u32) {
        self.by_node.remove(&node);
    }

    /// Nodes that were heard of.
    pub(super) fn nodes(&self) -> impl Iterator<Item = u32> {
        self.by_node.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(session: u64, for_session: u64, number: u64, missed: u64) -> LetterHead {
        LetterHead { session, for_session, number, missed, ..LetterHead::default() }
    }

    #[test]
    fn a_missing_letter_is_noticed_by_the_next_one_on_both_sides() {
        let (mut a, mut b) = (LetterLinks::default(), LetterLinks::default());
        a.arrive(1, &head(20, 0, 0, 0), 10);
        b.arrive(0, &head(10, 0, 0, 0), 20);
        let first = a.next(1, 10, 0).expect("it was heard of");
        let second = a.next(1, 10, 0).expect("it was heard of");
        let third = a.next(1, 10, 0).expect("it was heard of");
        assert_eq!(b.arrive(0, &first, 20), LetterArrival::Next);
        assert_eq!(b.arrive(0, &third, 20), LetterArrival::Gap);
        assert_eq!(b.arrive(0, &second, 20), LetterArrival::Ignored, "it was given up");
        let answer = b.next(0, 20, 0).expect("it was heard of");
        assert_eq!(a.arrive(1, &answer, 10), LetterArrival::Gap);
        let next = b.next(0, 20, 0).expect("it was heard of");
        assert_eq!(a.arrive(1, &next, 10), LetterArrival::Next, "it is known");
    }

    #[test]
    fn letters_of_and_for_an_agent_that_is_no_more_are_told_apart() {
        let mut links = LetterLinks::default();
        assert_eq!(links.arrive(1, &head(20, 10, 0, 0), 10), LetterArrival::Next);
        assert_eq!(links.arrive(1, &head(20, 9, 1, 0), 10), LetterArrival::Ignored);
        assert_eq!(links.arrive(1, &head(21, 0, 0, 0), 10), LetterArrival::Another);
        assert_eq!(links.next(1, 10, 0).map(|head| (head.for_session, head.number)), Some((21, 0)));
        assert_eq!(links.next(7, 10, 0), None);
    }
}
