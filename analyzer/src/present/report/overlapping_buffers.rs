//! Findings about calls whose buffers overlap.

use std::collections::BTreeMap;

use super::views::{Views, distinct, finding};
use crate::findings::finding::{Evidence, Finding, OverlappingBuffers, Severity, Verdict};
use crate::findings::ids;
use crate::job::messages::AliasedBuffers;

impl Views<'_> {
    /// One for each call of the program, whichever ranks made it.
    pub(super) fn overlapping_buffers(&self) -> Vec<Finding> {
        let mut by_calls: BTreeMap<_, Vec<&AliasedBuffers>> = BTreeMap::new();
        for found in self.p.job.messages.overlapping_buffers() {
            by_calls.entry((found.function, found.place)).or_default().push(found);
        }
        by_calls.into_values().filter_map(|all| self.overlapping(&all)).collect()
    }

    fn overlapping(&self, all: &[&AliasedBuffers]) -> Option<Finding> {
        let is_own_part = all.iter().all(|found| found.is_own_part);
        let told = all.iter().filter(|found| found.is_own_part == is_own_part);
        let first = told.min_by_key(|found| found.first_ns)?;
        let ranks = distinct(all.iter().map(|found| found.rank));
        let evidence = OverlappingBuffers {
            call: self.call_from(first.function, first.place),
            is_own_part,
            count: all.iter().map(|found| found.count).sum(),
            read_bytes: first.read_bytes,
            overlap_bytes: first.overlap_bytes,
            first_ns: first.first_ns,
            ranks: ranks.clone(),
        };
        let severity = if is_own_part { Severity::Notice } else { Severity::Warning };
        let id = ids::overlapping_buffers(&evidence);
        let evidence = Evidence::OverlappingBuffers(Box::new(evidence));
        Some(finding(id, Verdict::Violated, severity, ranks, evidence))
    }
}
