//! From what time on each rank may still send: from its clock, and from what it waits for.

use super::NEVER;

/// More ranks are refused: sets of them are bits of a number.
pub const MAX_RANKS: usize = 128;

/// Ranks of MPI_COMM_WORLD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankSet(pub u128);

impl RankSet {
    /// One more.
    pub fn insert(&mut self, rank: u32) {
        self.0 |= 1_u128.checked_shl(rank).unwrap_or(0);
    }

    /// Whether it is one of them.
    pub fn contains(self, rank: u32) -> bool {
        self.0.checked_shr(rank).unwrap_or(0) & 1 == 1
    }

    /// All of them, in order.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let rank = (rest != 0).then(|| rest.trailing_zeros())?;
            rest &= rest - 1;
            Some(rank)
        })
    }
}

impl FromIterator<u32> for RankSet {
    fn from_iter<T: IntoIterator<Item = u32>>(ranks: T) -> Self {
        let mut set = Self::default();
        ranks.into_iter().for_each(|rank| set.insert(rank));
        set
    }
}

/// What must come before a rank can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// Nothing that is known.
    Nothing,
    /// A message of one of these; `known`: the smallest time of those that are announced to it already.
    AnyOf {
        /// Who may send it.
        ranks: RankSet,
        /// [`NEVER`]: none is.
        known: u64,
    },
    /// All of these: a collective call.
    AllOf(RankSet),
}

/// A rank, as others see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankBound {
    /// What it sends from now on has this time at least.
    pub floor: u64,
    /// What it waits for.
    pub waits_for: WaitsFor,
}

/// For each rank the smallest time that its next message can have. [`NEVER`]: it sends none before somebody breaks a rule.
pub fn lower_bounds(ranks: &[RankBound]) -> Vec<u64> {
    let first = |rank: &RankBound| match rank.waits_for {
        WaitsFor::Nothing => rank.floor,
        _ => NEVER,
    };
    let mut bounds: Vec<u64> = ranks.iter().map(first).collect();
    // Each turn at least one bound becomes final, as with shortest paths.
    for _ in 0..ranks.len() {
        let mut is_same = true;
        for (at, rank) in ranks.iter().enumerate() {
            let of = |other: u32| bounds.get(other as usize).copied().unwrap_or(NEVER);
            let comes = match rank.waits_for {
                WaitsFor::Nothing => continue,
                WaitsFor::AnyOf { ranks, known } => ranks.iter().map(of).fold(known, u64::min),
                WaitsFor::AllOf(ranks) => ranks.iter().map(of).max().unwrap_or(0),
            };
            let bound = comes.saturating_add(1).max(rank.floor);
            is_same &= bounds[at] == bound;
            bounds[at] = bound;
        }
        if is_same {
            break;
        }
    }
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(floor: u64) -> RankBound {
        RankBound { floor, waits_for: WaitsFor::Nothing }
    }

    fn any_of(floor: u64, ranks: &[u32], known: u64) -> RankBound {
        let ranks = ranks.iter().copied().collect();
        RankBound { floor, waits_for: WaitsFor::AnyOf { ranks, known } }
    }

    fn all_of(floor: u64, ranks: &[u32]) -> RankBound {
        RankBound { floor, waits_for: WaitsFor::AllOf(ranks.iter().copied().collect()) }
    }

    #[test]
    fn who_waits_for_a_message_sends_later_than_that() {
        assert_eq!(lower_bounds(&[runs(5), any_of(3, &[0], NEVER)]), [5, 6]);
        assert_eq!(lower_bounds(&[runs(5), any_of(30, &[0], NEVER)]), [5, 30]);
        assert_eq!(lower_bounds(&[runs(50), any_of(3, &[0], 7)]), [50, 8]);
        assert_eq!(lower_bounds(&[any_of(1, &[1], NEVER), any_of(1, &[2], NEVER), runs(9)]), [11, 10, 9]);
    }

    #[test]
    fn who_waits_for_all_is_bound_by_the_last_of_them() {
        assert_eq!(lower_bounds(&[all_of(1, &[1, 2]), runs(4), runs(9)]), [10, 4, 9]);
    }

    #[test]
    fn a_circle_of_waits_never_sends() {
        let circle = [any_of(1, &[1], NEVER), any_of(1, &[0], NEVER), runs(2)];
        assert_eq!(lower_bounds(&circle), [NEVER, NEVER, 2]);
        assert_eq!(lower_bounds(&[all_of(1, &[1]), any_of(1, &[0], NEVER)]), [NEVER, NEVER]);
    }

    #[test]
    fn a_set_has_what_was_put_in() {
        let set: RankSet = [0, 5, 127].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 5, 127]);
        assert!(set.contains(127) && !set.contains(1) && !set.contains(128));
    }
}
