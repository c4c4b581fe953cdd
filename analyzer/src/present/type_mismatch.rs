//! Messages whose elements are something else where they are received, in words.

use std::fmt::Write as _;

use super::hang::call_at;
use super::text::{counted, who_text};
use crate::findings::finding::{DatatypeMismatch, MessagesBetween};
use crate::job::process::Who;

/// As a heading.
pub(crate) const TITLE: &str = "Datatype mismatch";

/// Pairs of ranks told one by one.
const MOST_TOLD: usize = 8;

/// In one sentence, and what to do next.
pub(crate) fn say(found: &DatatypeMismatch) -> (String, Vec<String>) {
    let ranks = |of: fn(&MessagesBetween) -> Who| {
        let mut ranks: Vec<Who> = found.messages.iter().map(of).collect();
        ranks.sort_unstable();
        ranks.dedup();
        who_text(&ranks)
    };
    let summary = format!(
        "{TITLE}: {} from {} in {} {} received as another type by {} in {}.",
        counted(found.count as usize, "message"),
        ranks(|between| between.sender),
        call_at(&found.send),
        if found.count == 1 { "was" } else { "were" },
        ranks(|between| between.receiver),
        call_at(&found.receive),
    );
    let next = "Give both calls the same datatype: the bytes of one kind of number were taken for another, and nothing fails.";
    (summary, vec![next.to_owned()])
}

/// Pair by pair.
pub(crate) fn render(out: &mut String, found: &DatatypeMismatch) {
    for MessagesBetween { sender, receiver, count } in found.messages.iter().take(MOST_TOLD) {
        let (sender, receiver) = (who_text(&[*sender]), who_text(&[*receiver]));
        let _ = writeln!(out, "   {sender} to {receiver}: {}", counted(*count as usize, "message"));
    }
    if found.messages.len() > MOST_TOLD {
        let _ = writeln!(out, "   … and {} more", found.messages.len() - MOST_TOLD);
    }
}
