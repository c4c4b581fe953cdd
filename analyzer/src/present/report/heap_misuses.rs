//! Findings about memory of the heap that calls were given.

use std::collections::BTreeMap;

use super::views::{Views, distinct, finding};
use crate::findings::finding::{BufferAccess, Evidence, Finding, HeapFault, HeapMisuse, Severity, Verdict};
use crate::findings::ids;
use crate::job::{BlockFault, HeapError};
use crate::tape::input::CodePlace;

impl Views<'_> {
    /// One for each call of the program and each place where such blocks are allocated, whichever ranks it was.
    pub(super) fn heap_misuses(&self) -> Vec<Finding> {
        let mut by_calls: BTreeMap<_, Vec<&HeapError>> = BTreeMap::new();
        for found in self.p.job.heap_errors.found() {
            let key = (found.function, found.place, found.is_written, fault(found), found.used.block);
            by_calls.entry(key).or_default().push(found);
        }
        by_calls.into_values().filter_map(|all| self.heap_misuse(&all)).collect()
    }

    fn heap_misuse(&self, all: &[&HeapError]) -> Option<Finding> {
        let first = all.iter().min_by_key(|found| found.first_ns)?;
        let place = |place: CodePlace| self.code_place(place, 1);
        let ranks = distinct(all.iter().map(|found| found.rank));
        let evidence = HeapMisuse {
            call: self.call_from(first.function, first.place),
            fault: fault(first),
            access: if first.is_written { BufferAccess::Written } else { BufferAccess::Read },
            allocated: self.buffer(first.used.block).allocated.unwrap_or_default(),
            freed: first.freed.map(place),
            count: all.iter().map(|found| found.count).sum(),
            block_bytes: first.used.block_bytes,
            offset_bytes: first.used.offset_bytes,
            len_bytes: first.len_bytes,
            beyond_bytes: match first.used.fault {
                BlockFault::PastEnd { beyond_bytes } => beyond_bytes,
                BlockFault::Freed { .. } => 0,
            },
            first_ns: first.first_ns,
            ranks: ranks.clone(),
        };
        let id = ids::heap_misuse(&evidence);
        let evidence = Evidence::HeapMisuse(Box::new(evidence));
        Some(finding(id, Verdict::Violated, Severity::Warning, ranks, evidence))
    }
}

fn fault(found: &HeapError) -> HeapFault {
    match found.used.fault {
        BlockFault::PastEnd { .. } => HeapFault::BufferOverflow,
        BlockFault::Freed { .. } => HeapFault::UseAfterFree,
    }
}
