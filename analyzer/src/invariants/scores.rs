//! The published scores, as pure functions.

use crate::chains::op_names::{OpSymbol, SymbolId};
use crate::options::Options;

/// One operation of a group: what it is and how much it says.
pub(crate) type Weighted = (SymbolId, u32);

/// Uniqueness of one operation.
pub(crate) fn uniqueness(symbol: &OpSymbol, segments: u32, options: &Options) -> u32 {
    let pack = if symbol.pack { segments.min(options.pack_uniqueness_max) } else { 1 };
    let network = if symbol.crosses { options.network_uniqueness } else { 1 };
    pack.max(network)
}

/// Whether more records could still make the operation count more.
pub(crate) fn is_open_pack(symbol: &OpSymbol, segments: u32, options: &Options) -> bool {
    symbol.pack && segments < options.pack_uniqueness_max
}

/// The longest common substring of two groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Common {
    pub odd_from: u8,
    pub frequent_from: u8,
    pub len: u8,
    pub uniqueness: u32,
}

/// The common substring of greatest uniqueness; an operation of both counts what it counts in
/// the group where it counts less. Among equals, the one that ends first in `odd`, then in `frequent`.
pub(crate) fn common(odd: &[Weighted], frequent: &[Weighted]) -> Common {
    let mut best = Common::default();
    // Row of the previous operation of `odd`: length and uniqueness of what ends there.
    let mut above = [(0u8, 0u32); 257];
    for (i, &(symbol, weight)) in odd.iter().enumerate() {
        let mut diagonal = (0, 0);
        for (j, &(other, other_weight)) in frequent.iter().enumerate() {
            let here = if symbol == other {
                (diagonal.0 + 1, diagonal.1 + weight.min(other_weight))
            } else {
                (0, 0)
            };
            diagonal = std::mem::replace(&mut above[j], here);
            if here.1 > best.uniqueness {
                best = Common {
                    odd_from: (i + 1) as u8 - here.0,
                    frequent_from: (j + 1) as u8 - here.0,
                    len: here.0,
                    uniqueness: here.1,
                };
            }
        }
    }
    best
}

/// Share of what either group says that both say.
pub(crate) fn similarity(common: u32, odd: u32, frequent: u32) -> f64 {
    let either = odd.saturating_add(frequent).saturating_sub(common);
    if either == 0 { 0.0 } else { f64::from(common) / f64::from(either) }
}

/// How much rarer the odd group is; 0 if it is not.
pub(crate) fn rareness(odd: u64, frequent: u64) -> f64 {
    frequent.checked_sub(odd).filter(|&d| d > 0).map_or(0.0, |d| d as f64 / frequent as f64)
}

/// Harmonic mean of similarity and rareness.
pub(crate) fn abnormality(similarity: f64, rareness: f64) -> f64 {
    if similarity <= 0.0 || rareness <= 0.0 { 0.0 } else { 2.0 / (1.0 / similarity + 1.0 / rareness) }
}

/// Four digits, so that reports carry no noise.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ops(text: &str) -> Vec<Weighted> {
        text.bytes().map(|b| (SymbolId(u32::from(b)), if b.is_ascii_uppercase() { 2 } else { 1 })).collect()
    }

    #[test]
    fn the_common_part_is_the_one_that_says_most() {
        let want = Common { odd_from: 3, frequent_from: 0, len: 2, uniqueness: 3 };
        assert_eq!(common(&ops("xyzaB"), &ops("aBxy")), want);
    }

    #[test]
    fn the_common_part_may_wrap_round_a_repeated_operation() {
        assert_eq!(common(&ops("aab"), &ops("aaab")).len, 3);
        assert_eq!(common(&ops("abc"), &ops("xyz")), Common::default());
    }

    #[test]
    fn an_operation_of_both_counts_what_it_counts_less() {
        let odd = [(SymbolId(1), 3), (SymbolId(2), 1)];
        let frequent = [(SymbolId(1), 10), (SymbolId(2), 1)];
        assert_eq!(common(&odd, &frequent).uniqueness, 4);
    }

    #[test]
    fn figure_two_scores_eight_ninths() {
        let s = similarity(4, 4, 5);
        assert_eq!(rounded(abnormality(s, rareness(0, 100))), 0.8889);
        assert_eq!(rareness(5, 5), 0.0);
        assert_eq!(abnormality(0.0, 1.0), 0.0);
    }
}
