//! Calls as people read them.

use replay::contents::{CallContents, SENDS_OTHER_DATA};

/// The table of the C side.
const TABLE: &str = include_str!("../../contents/calls.h");

fn row(line: &str) -> Option<(&str, &str)> {
    let (name, compared) = line.strip_prefix("CALL(")?.strip_suffix("\")")?.split_once(", \"")?;
    Some((name, compared))
}

/// `MPI_Send`.
pub(super) fn call_name(number: u32) -> String {
    TABLE
        .lines()
        .filter_map(row)
        .nth(number as usize)
        .map_or_else(|| format!("an unknown call ({number})"), |(name, _)| format!("MPI_{name}"))
}

/// `MPI_Send(dest=2, tag=5, count=1, comm=0)`.
pub(super) fn call_text(call: &CallContents) -> String {
    let names = TABLE.lines().filter_map(row).nth(call.call as usize).map_or("", |(_, names)| names);
    let shown: Vec<String> =
        names.split_whitespace().zip(&call.numbers).map(|(name, value)| format!("{name}={value}")).collect();
    format!("{}({})", call_name(call.call), shown.join(", "))
}

/// What a program did, and what it does in its place.
pub(super) fn difference(recorded: &CallContents, found: &CallContents) -> String {
    let text = call_text(found);
    if (recorded.call, &recorded.numbers) == (found.call, &found.numbers)
        && let (Some(expected), Some(sum)) = (recorded.sum, found.sum)
    {
        return format!("{SENDS_OTHER_DATA}: checksum {sum:08x}, expected {expected:08x}");
    }
    format!("expected {}, found {text}", call_text(recorded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_a_call() {
        let lines = TABLE.lines().filter(|line| line.starts_with("CALL"));
        assert!(lines.clone().count() > 100);
        assert!(lines.clone().all(|line| row(line).is_some()));
    }

    #[test]
    fn a_difference_names_what_was_expected_and_found() {
        let call = |numbers: &[i64], sum| CallContents { call: 2, numbers: numbers.to_vec(), sum };
        assert_eq!(
            difference(&call(&[1, 5, 8, 0], Some(1)), &call(&[2, 5, 8, 0], Some(1))),
            "expected MPI_Send(dest=1, tag=5, count=8, comm=0), found MPI_Send(dest=2, tag=5, count=8, comm=0)"
        );
        assert_eq!(
            difference(&call(&[1, 5, 8, 0], Some(1)), &call(&[1, 5, 8, 0], Some(2))),
            "it sends other data: checksum 00000002, expected 00000001"
        );
    }
}
