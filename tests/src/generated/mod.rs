//! Programs made from an operation and a fault in its use, in all ways, and what is true of each.
//!
//! A case is (operation, fault, number of ranks, rank that makes the fault). The program is `tests/jobs/generated`, which
//! does the operation right a few times and then with the fault; its *right twin* is the same program without the fault.
//! Since both are made, what is true of them is known and not looked up: [`Case::truth`].
//!
//! The pairs of operation and fault are in two halves, by a hash of their names: one that whoever works on dmscope
//! looks at, and one that is only counted, and tells how much of what was learned from the first half holds in general.

mod collectives;
mod families;
mod faults;
mod marks;
mod messages;
mod operations;
mod results;
mod run;
mod truth;
mod verdict;
mod windows;

use std::collections::BTreeMap;

pub use faults::GeneratedFault;
pub use marks::line_of_mark;
pub use operations::{Operation, operations};
pub use results::{ResultsFile, TableRow};
pub use run::{Seen, WatchMode, watch};
pub use truth::{ExpectedOutcome, Truth};
pub use verdict::{FindingClass, JudgedRun, classify};

/// How many ranks cases are made with.
pub const RANKS: std::ops::RangeInclusive<u32> = 2..=5;

/// One program with one fault.
#[derive(Clone, Debug)]
pub struct Case {
    /// What is used.
    pub operation: Operation,
    /// What is wrong.
    pub fault: GeneratedFault,
    /// With how many ranks.
    pub ranks: u32,
    /// Which of them makes the fault.
    pub bad: u32,
}

/// What pairs of operation and fault are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Half {
    /// Failures are looked at and understood.
    LookedAt,
    /// Failures are only counted.
    Unseen,
}

impl Half {
    /// Name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::LookedAt => "looked at",
            Self::Unseen => "unseen",
        }
    }
}

impl Case {
    /// A name of its own.
    pub fn name(&self) -> String {
        format!("{}/{}/{}", self.pair(), self.ranks, self.bad)
    }

    /// Operation and fault.
    pub fn pair(&self) -> String {
        format!("{}/{}", self.operation.name, self.fault.name())
    }

    /// Which half its pair is in.
    pub fn half(&self) -> Half {
        half_of(&self.pair())
    }

    /// Arguments of the program. `late_s`: how long the rank sleeps before it makes its fault, or would.
    pub fn args(&self, is_right: bool, late_s: f64, watchdog_s: u64) -> Vec<String> {
        let words = format!(
            "--operation {} --fault {} --bad-rank {} --late {late_s} --watchdog {watchdog_s}",
            self.operation.name,
            self.fault.name(),
            self.bad
        );
        let words = words.split(' ').map(str::to_owned);
        words.chain(is_right.then(|| "--right".to_owned())).collect()
    }

    /// The rank that communicates with the bad one, where only two do.
    pub fn partner(&self) -> u32 {
        (self.bad + 1) % self.ranks
    }
}

/// FNV-1a, and then mixed so that low bits depend on all: the same for all times and machines.
fn stable_hash(text: &str) -> u64 {
    let fnv = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let mixed = (fnv ^ (fnv >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 33)
}

fn half_of(pair: &str) -> Half {
    if stable_hash(pair) & 1 == 0 { Half::LookedAt } else { Half::Unseen }
}

/// All cases, each pair of operation and fault once before any of them comes twice; in the same order at all times, so
/// that the first N are a sample of all, and fewer a sample of more.
pub fn cases() -> Vec<Case> {
    let mut pairs: BTreeMap<u64, Vec<Case>> = BTreeMap::new();
    for case in enumerate() {
        pairs.entry(stable_hash(&case.pair())).or_default().push(case);
    }
    let mut turns: Vec<(usize, u64, Case)> = Vec::new();
    for (pair, mut cases) in pairs {
        cases.sort_by_key(|case| stable_hash(&case.name()));
        turns.extend(cases.into_iter().enumerate().map(|(turn, case)| (turn, pair, case)));
    }
    turns.sort_by_key(|(turn, pair, _)| (*turn, *pair));
    turns.into_iter().map(|(.., case)| case).collect()
}

fn enumerate() -> impl Iterator<Item = Case> {
    let pairs = operations().into_iter().flat_map(|operation| {
        let faults = operation.faults();
        faults.into_iter().map(move |fault| (operation.clone(), fault))
    });
    pairs.flat_map(|(operation, fault)| {
        RANKS.filter(move |ranks| *ranks >= fault.least_ranks()).flat_map(move |ranks| {
            let operation = operation.clone();
            (0..ranks).map(move |bad| Case { operation: operation.clone(), fault, ranks, bad })
        })
    })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashSet};

    use super::*;

    #[test]
    fn no_case_is_there_twice_and_no_two_pairs_have_the_same_hash() {
        let all = cases();
        let names: HashSet<_> = all.iter().map(Case::name).collect();
        assert_eq!(names.len(), all.len());
        let pairs: HashSet<_> = all.iter().map(Case::pair).collect();
        let hashes: HashSet<_> = pairs.iter().map(|pair| stable_hash(pair)).collect();
        assert_eq!(hashes.len(), pairs.len());
    }

    #[test]
    fn hashes_stay_what_they_are() {
        assert_eq!(stable_hash(""), 17_058_014_651_485_797_458);
        let halves = ["bcast/other_root", "barrier/missing_call"].map(half_of);
        assert_eq!(halves, [Half::Unseen, Half::LookedAt]);
    }

    #[test]
    fn the_halves_are_halves() {
        let pairs: BTreeSet<_> = cases().iter().map(Case::pair).collect();
        let looked_at = pairs.iter().filter(|pair| half_of(pair) == Half::LookedAt).count();
        let share = looked_at as f64 / pairs.len() as f64;
        assert!((0.42..0.58).contains(&share), "{looked_at} of {}", pairs.len());
    }

    #[test]
    fn each_pair_comes_once_before_any_comes_twice() {
        let all = cases();
        let pairs: HashSet<_> = all.iter().map(Case::pair).collect();
        let first: HashSet<_> = all[..pairs.len()].iter().map(Case::pair).collect();
        assert_eq!(first, pairs);
    }

    #[test]
    fn the_bad_rank_and_all_that_may_be_named_are_ranks_of_the_job() {
        for case in cases() {
            assert!(case.bad < case.ranks);
            let truth = case.truth();
            let mut named = truth.may_be_named.iter().chain(truth.lines.iter().map(|(rank, _)| rank));
            assert!(named.all(|rank| *rank < case.ranks), "{case:?}: {truth:?}");
            assert!(truth.may_be_named.contains(&case.bad), "{case:?}: {truth:?}");
        }
    }
}
