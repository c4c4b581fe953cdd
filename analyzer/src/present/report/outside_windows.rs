//! Findings about accesses outside of windows.

use std::collections::BTreeMap;

use super::views::{Views, distinct, finding};
use crate::findings::finding::{BufferAccess, Evidence, Finding, OutsideWindow, Severity, Verdict};
use crate::findings::ids;
use crate::job::messages::OutsideAccess;
use crate::job::process::Who;

impl Views<'_> {
    /// One for each call of the program, whichever ranks made it.
    pub(super) fn outside_windows(&self) -> Vec<Finding> {
        let mut by_calls: BTreeMap<_, Vec<&OutsideAccess>> = BTreeMap::new();
        for found in self.p.job.messages.outside_accesses() {
            by_calls.entry((found.function, found.place)).or_default().push(found);
        }
        by_calls.into_values().filter_map(|all| self.outside_window(&all)).collect()
    }

    fn outside_window(&self, all: &[&OutsideAccess]) -> Option<Finding> {
        let first = all.iter().min_by_key(|found| found.first_ns)?;
        let ranks = distinct(all.iter().map(|found| found.rank));
        let evidence = OutsideWindow {
            call: self.call_from(first.function, first.place),
            access: if first.is_written { BufferAccess::Written } else { BufferAccess::Read },
            count: all.iter().map(|found| found.count).sum(),
            target: Who::Rank(first.target),
            window_bytes: first.window_bytes,
            offset_bytes: first.offset_bytes,
            len_bytes: first.len_bytes,
            first_ns: first.first_ns,
            ranks: ranks.clone(),
        };
        let id = ids::outside_window(&evidence);
        let evidence = Evidence::OutsideWindow(Box::new(evidence));
        Some(finding(id, Verdict::Violated, Severity::Warning, ranks, evidence))
    }
}
