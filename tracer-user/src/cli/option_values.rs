//! Values of options with units: shares, sizes, times.

use std::time::Duration;

use super::duration::parse_duration;
use crate::budget::Budget;

/// Nodes that were not heard of for less than this may only be slow.
const LEAST_PATIENCE: Duration = Duration::from_secs(6);

/// What watching may cost; `None`: whatever it takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetArg(pub Option<Budget>);

/// A process id.
pub(super) fn parse_pid(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("{text} is no process id: `dmscope ps` lists jobs with their processes"))
}

/// `10%` or `0.1`.
pub(super) fn parse_share(text: &str) -> Result<f64, String> {
    match ratio(text) {
        Some(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("write a share as 10% or 0.1".into()),
    }
}

/// The same, which may be more than all.
pub(super) fn parse_ratio(text: &str) -> Result<f64, String> {
    match ratio(text) {
        Some(ratio) if ratio >= 0.0 && ratio.is_finite() => Ok(ratio),
        _ => Err("write a ratio as 150% or 1.5".into()),
    }
}

fn ratio(text: &str) -> Option<f64> {
    let (number, unit) = match text.trim().strip_suffix('%') {
        Some(percent) => (percent, 100.0),
        None => (text.trim(), 1.0),
    };
    Some(number.parse::<f64>().ok()? / unit)
}

/// A share, or `none`.
pub(super) fn parse_budget(text: &str) -> Result<BudgetArg, String> {
    if text == "none" {
        return Ok(BudgetArg(None));
    }
    match parse_share(text) {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(BudgetArg(Some(Budget { share }))),
        _ => Err("write a part of the job's time as 1% or 0.01, or none".to_owned()),
    }
}

/// A time that nodes can keep to.
pub(super) fn parse_patience(text: &str) -> Result<Duration, String> {
    let patience = parse_duration(text)?;
    let is_long_enough = patience >= LEAST_PATIENCE;
    let too_short =
        || format!("nodes say something every second; give them {} s at least", LEAST_PATIENCE.as_secs());
    is_long_enough.then_some(patience).ok_or_else(too_short)
}

/// `65536`, `64K` or `4M`.
pub(super) fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || "write a size as 65536, 64K or 4M".to_owned();
    let text = text.trim();
    let (number, unit) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1 << 10),
        Some((at, 'm' | 'M')) => (&text[..at], 1 << 20),
        Some((at, 'g' | 'G')) => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    number.parse::<u64>().ok().and_then(|n| n.checked_mul(unit)).ok_or_else(wrong)
}

/// Rings are a power of two of pages; other sizes are rounded up.
pub(super) fn parse_ring_size(text: &str) -> Result<u32, String> {
    let bytes = parse_bytes(text)?.max(4096).next_power_of_two();
    u32::try_from(bytes).ok().filter(|b| *b <= 1 << 30).ok_or_else(|| "a ring has at most 1G".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_shares_have_units() {
        assert_eq!(parse_bytes("4K"), Ok(4096));
        assert_eq!(parse_ring_size("5000"), Ok(8192));
        assert!(parse_ring_size("64G").is_err());
        assert_eq!(parse_share("5%"), Ok(0.05));
        assert!(parse_share("1.5").is_err());
        assert_eq!((parse_ratio("250%"), parse_ratio("1.5")), (Ok(2.5), Ok(1.5)));
        assert!(["-1", "inf", "x"].iter().all(|text| parse_ratio(text).is_err()));
        assert_eq!(parse_patience("6s"), Ok(LEAST_PATIENCE));
        assert!(parse_patience("5s").is_err_and(|why| why.contains("6 s at least")));
    }
}
