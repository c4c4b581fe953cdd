//! Findings about accesses outside of windows.

use std::collections::BTreeMap;

use super::views::{Views, finding};
use crate::findings::finding::{
    BufferAccess, Evidence, Finding, OutsideWindow, Place, Severity, StuckCall, Verdict,
};
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
        let mut ranks: Vec<Who> = all.iter().map(|found| Who::Rank(found.rank)).collect();
        ranks.sort_unstable();
        ranks.dedup();
        let evidence = OutsideWindow {
            call: StuckCall {
                function: first.function.to_owned(),
                arguments: Vec::new(),
                place: first.place.map_or_else(Place::default, |place| self.code_place(place, 1)),
            },
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
