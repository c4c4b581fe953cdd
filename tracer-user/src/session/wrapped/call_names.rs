//! Names of calls and of their arguments, by the numbers that the wrapper gives them.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::sync::atomic::Ordering;

use replay::shared_page::SharedPage;

/// The wrapper's own table.
const TABLE: &str = include_str!("../../../../wrapper/shim/calls.h");

/// The call that a rank is in or was in last, with its number.
fn call_of(page: &SharedPage, library: &str) -> String {
    let arguments = [0, 1, 2].map(|at: usize| page.arguments[at].load(Ordering::Relaxed));
    let call = call_text(page.call.load(Ordering::Relaxed), arguments, library);
    format!("call {}, {call}", page.calls.load(Ordering::Relaxed))
}

/// The same behind `words`; of a rank that has not called yet, that it has not.
pub(super) fn stands_at(words: &str, page: &SharedPage, library: &str) -> String {
    match page.calls.load(Ordering::Relaxed) {
        0 => "before its first call".to_owned(),
        _ => format!("{words} {}", call_of(page, library)),
    }
}

/// A call as people read it: `MPI_Recv(source=MPI_ANY_SOURCE, tag=5, count=1)`.
fn call_text(number: u32, arguments: [i32; 3], library: &str) -> String {
    let row = TABLE.lines().filter_map(row).nth(number as usize);
    let Some((name, names)) = row else { return format!("an unknown call ({number})") };
    let named = names.iter().zip(arguments).filter(|(name, _)| !name.is_empty());
    let shown: Vec<String> =
        named.map(|(name, value)| format!("{name}={}", value_text(name, value, library))).collect();
    format!("MPI_{name}({})", shown.join(", "))
}

/// The name of a call: `MPI_Recv`.
pub fn call_name(number: u32) -> String {
    let row = TABLE.lines().filter_map(row).nth(number as usize);
    row.map_or_else(|| format!("an unknown call ({number})"), |(name, _)| format!("MPI_{name}"))
}

/// The number of a call by its name (`MPI_Recv`), and the names of its arguments that are the same in every run.
pub(super) fn numbered(function: &str) -> Option<(u32, [&'static str; 3])> {
    static NUMBERS: LazyLock<HashMap<&str, (u32, [&str; 3])>> = LazyLock::new(|| {
        let rows = (0..).zip(TABLE.lines().filter_map(row));
        rows.map(|(number, (name, arguments))| (name, (number, arguments))).collect()
    });
    NUMBERS.get(function.strip_prefix("MPI_")?).copied()
}

/// `CALL(Recv, "source", "tag", "count")`.
fn row(line: &str) -> Option<(&str, [&str; 3])> {
    let mut words = line.strip_prefix("CALL(")?.strip_suffix(')')?.split(", ");
    let name = words.next()?;
    let mut argument = || Some(words.next()?.trim_matches('"'));
    Some((name, [argument()?, argument()?, argument()?]))
}

fn value_text(name: &str, value: i32, library: &str) -> String {
    let any_source = if library.starts_with("Open MPI") { -1 } else { -2 };
    match name {
        "source" if value == any_source => "MPI_ANY_SOURCE".to_owned(),
        "tag" | "recvtag" if value == -1 => "MPI_ANY_TAG".to_owned(),
        "source" | "dest" if value < 0 => "MPI_PROC_NULL".to_owned(),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use replay::FIRST_CALL_UNCHECKED_BY_PROBES;
    use replay::shared_page::PAGE_BYTES;

    use super::*;

    #[test]
    fn every_line_of_the_table_is_a_call() {
        let lines = TABLE.lines().filter(|line| line.starts_with("CALL"));
        assert!(lines.clone().count() > 60);
        assert!(lines.clone().all(|line| row(line).is_some()));
    }

    #[test]
    fn a_rank_that_has_not_called_yet_is_in_no_call() {
        let page = SharedPage::from_bytes(&[0; PAGE_BYTES]);
        assert_eq!(stands_at("at its", &page, "Open MPI"), "before its first call");
        page.calls.store(3, Ordering::Relaxed);
        page.call.store(numbered("MPI_Wait").expect("a call").0, Ordering::Relaxed);
        assert_eq!(stands_at("at its", &page, "Open MPI"), "at its call 3, MPI_Wait()");
    }

    #[test]
    fn calls_that_only_send_are_those_that_probes_do_not_check() {
        let number = |name| numbered(name).map(|(number, _)| number);
        assert_eq!(number("MPI_Win_test"), Some(FIRST_CALL_UNCHECKED_BY_PROBES - 1));
        assert_eq!(number("MPI_Send"), Some(FIRST_CALL_UNCHECKED_BY_PROBES));
    }

    #[test]
    fn a_call_is_shown_with_the_names_of_the_standard() {
        let text = |arguments, library| call_text(1, arguments, library);
        assert_eq!(text([-1, 5, 1], "Open MPI v4.1.4"), "MPI_Recv(source=MPI_ANY_SOURCE, tag=5, count=1)");
        assert_eq!(
            text([-2, -1, 1], "MPICH Version"),
            "MPI_Recv(source=MPI_ANY_SOURCE, tag=MPI_ANY_TAG, count=1)"
        );
        assert_eq!(call_text(0, [0; 3], ""), "MPI_Finalize()");
        assert_eq!(call_text(9999, [0; 3], ""), "an unknown call (9999)");
    }
}
