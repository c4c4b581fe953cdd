//! Findings about accesses to windows that nothing orders.

use std::collections::BTreeMap;

use super::views::{Views, distinct, finding};
use crate::findings::finding::{AccessConflict, Evidence, Finding, Severity, Verdict};
use crate::findings::ids;
use crate::job::messages::{self, ConflictingAccess};

impl Views<'_> {
    /// One for each pair of calls of the program, whichever ranks made them and in which order.
    pub(super) fn access_conflicts(&self) -> Vec<Finding> {
        let key = |end: &ConflictingAccess| (end.function, end.place);
        let mut by_calls: BTreeMap<_, Vec<&messages::UnorderedAccesses>> = BTreeMap::new();
        for found in self.p.job.messages.access_conflicts() {
            let mut keys = [key(&found.ends[0]), key(&found.ends[1])];
            keys.sort_unstable();
            by_calls.entry(keys).or_default().push(found);
        }
        by_calls.into_values().filter_map(|all| self.access_conflict(&all)).collect()
    }

    fn access_conflict(&self, all: &[&messages::UnorderedAccesses]) -> Option<Finding> {
        let call = |end: &ConflictingAccess| self.call_from(end.function, end.place);
        let first = all.iter().min_by_key(|found| found.first_ns)?;
        let [early, late] = &first.ends;
        let is_early = |end: &&ConflictingAccess| (end.function, end.place) == (early.function, early.place);
        let ends = || all.iter().flat_map(|found| &found.ends);
        let is_one_call = is_early(&late);
        let first_ranks = distinct(ends().filter(is_early).map(|end| end.rank));
        let second_ranks = distinct(ends().filter(|end| is_one_call || !is_early(end)).map(|end| end.rank));
        let who = distinct(ends().map(|end| end.rank));
        let evidence = AccessConflict {
            first: call(early),
            first_ranks,
            second: call(late),
            second_ranks,
            targets: distinct(all.iter().map(|found| found.target)),
            count: all.iter().map(|found| found.count).sum(),
            len_bytes: first.len_bytes,
            offset_bytes: first.offset_bytes,
            first_ns: first.first_ns,
        };
        let id = ids::access_conflict(&evidence);
        let evidence = Evidence::AccessConflict(Box::new(evidence));
        Some(finding(id, Verdict::Violated, Severity::Warning, who, evidence))
    }
}
