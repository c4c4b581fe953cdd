//! Findings about messages whose elements are something else where they are received.

use std::collections::BTreeMap;

use super::views::{Views, finding};
use crate::findings::finding::{
    DatatypeMismatch, Evidence, Finding, MessagesBetween, Place, Severity, StuckCall, Verdict,
};
use crate::findings::ids;
use crate::job::messages::{TypeMismatch, TypedCall};
use crate::job::process::Who;

impl Views<'_> {
    /// One for each pair of calls of the program, whichever ranks made them.
    pub(super) fn type_mismatches(&self) -> Vec<Finding> {
        let key = |end: &TypedCall| (end.function, end.place, end.element);
        let mut by_calls: BTreeMap<_, Vec<&TypeMismatch>> = BTreeMap::new();
        for found in self.p.job.messages.type_mismatches() {
            by_calls.entry((key(&found.sender), key(&found.receiver))).or_default().push(found);
        }
        by_calls.into_values().filter_map(|all| self.type_mismatch(&all)).collect()
    }

    fn type_mismatch(&self, all: &[&TypeMismatch]) -> Option<Finding> {
        let call = |end: &TypedCall| StuckCall {
            function: end.function.to_owned(),
            arguments: vec![("datatype".to_owned(), end.element.to_string())],
            place: end.place.map_or_else(Place::default, |place| self.code_place(place, 1)),
        };
        let first = all.iter().min_by_key(|found| found.first_ns)?;
        let between = |found: &&TypeMismatch| MessagesBetween {
            sender: Who::Rank(found.sender.rank),
            receiver: Who::Rank(found.receiver.rank),
            count: found.count,
        };
        let evidence = DatatypeMismatch {
            send: call(&first.sender),
            receive: call(&first.receiver),
            count: all.iter().map(|found| found.count).sum(),
            first_ns: first.first_ns,
            messages: all.iter().map(between).collect(),
        };
        let mut who: Vec<Who> =
            evidence.messages.iter().flat_map(|between| [between.sender, between.receiver]).collect();
        who.sort_unstable();
        who.dedup();
        let id = ids::datatype_mismatch(&evidence);
        let evidence = Evidence::DatatypeMismatch(Box::new(evidence));
        Some(finding(id, Verdict::Violated, Severity::Warning, who, evidence))
    }
}
