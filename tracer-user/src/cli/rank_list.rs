//! Ranks as users write them.

/// Ranks as people write them: `0,4-7`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankList(pub Vec<u32>);

/// Most ranks that a list may name.
const MAX_RANKS: u32 = 1 << 20;

/// Reads such a list.
///
/// # Errors
/// How to write one.
pub(super) fn parse_ranks(text: &str) -> Result<RankList, String> {
    let wrong = || format!("write ranks as 0,4-7, not {text:?}");
    let mut ranks = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: u32 = first.trim().parse().map_err(|_| wrong())?;
        let last: u32 = last.trim().parse().map_err(|_| wrong())?;
        if first > last || last > MAX_RANKS {
            return Err(wrong());
        }
        ranks.extend(first..=last);
    }
    ranks.sort_unstable();
    ranks.dedup();
    Ok(RankList(ranks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_lists_and_ranges() {
        assert_eq!(parse_ranks("5,1-3,2"), Ok(RankList(vec![1, 2, 3, 5])));
        for wrong in ["", "3-1", "a", "1-", "0-4294967295"] {
            assert!(parse_ranks(wrong).is_err(), "{wrong}");
        }
    }
}
