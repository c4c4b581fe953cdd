//! Rows that ended up in the same way, together: of thousands of ranks most do.

use std::collections::{BTreeMap, BTreeSet};

use super::data::{HangRole, RowGroup, Timeline};
use super::lasts::Last;
use crate::findings::finding::StuckState;
use crate::job::process::Who;
use crate::present::hang::state_text;
use crate::present::text::who_text;

/// What rows of one group have in common. Those at fault come first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct RowKey<'a> {
    /// Nothing is said of those without one: they come last.
    role: (bool, Option<HangRole>),
    doing: String,
    at: &'a str,
    waits_for: &'a [u32],
}

/// All groups of rows that came to something worth telling.
pub(super) fn of(timeline: &Timeline, lasts: &[Option<Last>]) -> Vec<RowGroup> {
    let waited_for: BTreeSet<u32> =
        timeline.rows.iter().flat_map(|row| row.waits_for.iter().copied()).collect();
    let is_waited_for = |row: u32| waited_for.contains(&row);
    let mut groups: BTreeMap<RowKey<'_>, Vec<u32>> = BTreeMap::new();
    for ((number, row), last) in (0..).zip(&timeline.rows).zip(lasts) {
        let (at, doing) = match last {
            Some(last)
                if last.role.is_none() && last.rank.state == StuckState::Ended && !is_waited_for(number) =>
            {
                continue;
            }
            Some(last) => (at(last), state_text(&last.rank)),
            None if is_waited_for(number) => ("not known", "nothing is known of it".to_owned()),
            None => continue,
        };
        let key = RowKey { role: (row.role.is_none(), row.role), doing, at, waits_for: &row.waits_for };
        groups.entry(key).or_default().push(number);
    }
    let mut groups: Vec<RowGroup> =
        groups.into_iter().map(|(key, rows)| group(timeline, key, rows)).collect();
    groups.sort_by_key(|group| (group.role.is_none(), group.role, group.rows[0]));
    groups
}

fn at(last: &Last) -> &str {
    match last.rank.state {
        StuckState::Stopped => "stopped",
        StuckState::Ended => "ended",
        StuckState::Died => "died",
        StuckState::InCall | StuckState::Outside => {
            last.rank.call.as_ref().map_or("outside of MPI", |call| &call.function)
        }
    }
}

fn group(timeline: &Timeline, key: RowKey<'_>, rows: Vec<u32>) -> RowGroup {
    let whos =
        |rows: &[u32]| -> Vec<Who> { rows.iter().map(|&row| timeline.rows[row as usize].who).collect() };
    let waits_for_text =
        if key.waits_for.is_empty() { String::new() } else { who_text(&whos(key.waits_for)) };
    RowGroup {
        who: who_text(&whos(&rows)),
        rows,
        role: key.role.1,
        at: key.at.to_owned(),
        doing: key.doing,
        waits_for: key.waits_for.to_vec(),
        waits_for_text,
    }
}
