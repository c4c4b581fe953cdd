//! Times as users write them.

use std::time::Duration;

/// `90s`, `10m`, `1h`, `500ms`; a number alone: seconds.
///
/// # Errors
/// How to write one.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || "write a time as 90s, 10m, 1h or 500ms".to_owned();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let seconds = match unit.trim() {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    let value: f64 = number.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(value * seconds).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit() {
        assert_eq!(parse_duration("1.5m"), Ok(Duration::from_secs(90)));
        assert!(parse_duration("soon").is_err());
    }
}
