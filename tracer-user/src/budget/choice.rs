//! Which probes go first.

use std::collections::BTreeSet;

use analyzer::plan::ProbeClass;

use super::{can_pause, is_of_heap};

/// What is left in while paused may use up so much of the budget.
const LEFT_IN: f64 = 0.25;
/// MPI calls are watched in pauses too if they use up no more than so much of it: without one of them nothing is known of messages
/// any more, while chains begin anew with each burst.
const CALLS_AT_MOST: f64 = 0.5;
/// Probes of allocations may, all together.
const HEAP_AT_MOST: f64 = 0.5;
/// A copy that never joins a chain is worth so much of the budget.
const LONER_AT_MOST: f64 = 0.02;

/// How a probe was used while it was attached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProbeUse {
    /// Its id.
    pub probe: u32,
    /// Its class.
    pub class: ProbeClass,
    /// Part of the time that it took from the process that hit it most.
    pub cost_share: f64,
    /// It was hit often, and what it saw was never part of a chain of two steps: a header or control copy.
    pub never_joins: bool,
}

/// What is to be detached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// In pauses, and attached again after them.
    pub pausing: BTreeSet<u32>,
    /// For good, or until the job is quiet.
    pub off: BTreeSet<u32>,
}

/// Chooses the probes that are worth least for what is being checked, given that the budget (a share of time) does
/// not allow for all: copies that join no chain first, for good; the allocator if that alone is too much; and the
/// most expensive of what is left, in pauses. What is cheap stays, and so do MPI calls if the budget allows for these alone.
/// `calls_share`: part of the time that MPI calls take.
pub fn choose(uses: &[ProbeUse], calls_share: f64, budget_share: f64) -> Choice {
    let mut choice = Choice::default();
    let is_heap = |u: &&ProbeUse| is_of_heap(u.class);
    let heap: f64 = uses.iter().filter(is_heap).map(|u| u.cost_share).sum();
    if heap > HEAP_AT_MOST * budget_share {
        choice.off.extend(uses.iter().filter(is_heap).map(|u| u.probe));
    }
    let is_loner = |u: &&ProbeUse| {
        u.class == ProbeClass::Copy && u.never_joins && u.cost_share > LONER_AT_MOST * budget_share
    };
    choice.off.extend(uses.iter().filter(is_loner).map(|u| u.probe));
    let keeps_calls = calls_share <= CALLS_AT_MOST * budget_share;
    let may_go = |u: &&ProbeUse| {
        can_pause(u.class) && !choice.off.contains(&u.probe) && !(keeps_calls && u.class.watches_calls())
    };
    let mut rest: Vec<&ProbeUse> = uses.iter().filter(may_go).collect();
    rest.sort_by(|a, b| b.cost_share.total_cmp(&a.cost_share).then(a.probe.cmp(&b.probe)));
    let mut left: f64 = rest.iter().map(|u| u.cost_share).sum();
    for probe in rest {
        if left <= LEFT_IN * budget_share {
            break;
        }
        left -= probe.cost_share;
        choice.pausing.insert(probe.probe);
    }
    choice
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(probe: u32, class: ProbeClass, cost_share: f64) -> ProbeUse {
        ProbeUse { probe, class, cost_share, never_joins: false }
    }

    #[test]
    fn the_dearest_pause_and_the_cheap_stay() {
        let uses = [
            used(1, ProbeClass::Copy, 0.3),
            used(2, ProbeClass::Call, 0.2),
            used(3, ProbeClass::Copy, 0.001),
            used(4, ProbeClass::Call, 0.0),
        ];
        let choice = choose(&uses, 1.0, 0.01);
        assert_eq!((choice.pausing, choice.off), (BTreeSet::from([1, 2]), BTreeSet::new()));
    }

    #[test]
    fn calls_stay_if_the_budget_allows_for_them_alone() {
        let uses = [
            used(1, ProbeClass::Copy, 0.3),
            used(2, ProbeClass::Call, 0.02),
            used(3, ProbeClass::CallResults, 0.001),
        ];
        assert_eq!(choose(&uses, 0.005, 0.01).pausing, BTreeSet::from([1]));
        assert_eq!(choose(&uses, 0.006, 0.01).pausing, BTreeSet::from([1, 2]));
    }

    #[test]
    fn copies_that_join_no_chain_go_for_good_unless_they_cost_nothing() {
        let loner =
            |probe, cost_share| ProbeUse { never_joins: true, ..used(probe, ProbeClass::Copy, cost_share) };
        let choice = choose(&[loner(1, 0.2), loner(2, 0.0001), used(3, ProbeClass::Copy, 0.2)], 1.0, 0.01);
        assert_eq!((choice.pausing, choice.off), (BTreeSet::from([3]), BTreeSet::from([1])));
    }

    #[test]
    fn the_allocator_goes_only_if_it_is_too_much_by_itself() {
        let uses = |alloc| [used(1, ProbeClass::Alloc, alloc), used(2, ProbeClass::Free, 0.001)];
        assert_eq!(choose(&uses(0.1), 1.0, 0.01).off, BTreeSet::from([1, 2]));
        assert_eq!(choose(&uses(0.002), 1.0, 0.01), Choice::default());
    }

    #[test]
    fn errors_are_watched_whatever_else_is_not() {
        let uses = [
            used(1, ProbeClass::Alloc, 0.5),
            used(2, ProbeClass::Copy, 0.5),
            used(3, ProbeClass::Error, 0.0),
            used(4, ProbeClass::Error, 0.5),
        ];
        let Choice { pausing, off } = choose(&uses, 1.0, 0.01);
        assert_eq!((pausing, off), (BTreeSet::from([2]), BTreeSet::from([1])));
    }

    #[test]
    fn many_probes_that_are_hit_a_little_count_as_one_that_is_hit_much() {
        let uses: Vec<_> = (1..=100).map(|id| used(id, ProbeClass::Copy, 0.001)).collect();
        let left: f64 = uses.len() as f64 * 0.001 - choose(&uses, 1.0, 0.01).pausing.len() as f64 * 0.001;
        assert!(left <= 0.0025 + 1e-9, "{left}");
    }
}
