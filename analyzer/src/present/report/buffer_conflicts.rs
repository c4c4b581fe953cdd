//! Findings about buffers that were used before their requests were complete.

use std::collections::BTreeMap;

use super::views::{Views, distinct, finding};
use crate::findings::finding::{
    BufferAccess, BufferConflict, BufferUser, Evidence, Finding, Severity, Verdict,
};
use crate::findings::ids;
use crate::job::messages;

/// Several receives of so little into one buffer are mostly tokens, whose content nobody looks at.
const MOST_OF_A_TOKEN_BYTES: u64 = 8;

impl Views<'_> {
    /// One for each pair of calls of the program, whichever ranks made them.
    pub(super) fn buffer_conflicts(&self) -> Vec<Finding> {
        let mut by_calls: BTreeMap<_, Vec<&messages::EarlyUse>> = BTreeMap::new();
        for found in self.p.job.messages.buffer_conflicts() {
            let user = match found.user {
                messages::MemoryUser::Call(function, _) => (Some((function, found.user_place)), None, false),
                messages::MemoryUser::Store(function, _) => (Some((function, found.user_place)), None, true),
                messages::MemoryUser::Copy(site) => (None, Some(site), false),
                messages::MemoryUser::Free(site) => (None, Some(site), true),
            };
            by_calls.entry((found.function, found.place, user, found.access)).or_default().push(found);
        }
        by_calls.into_values().filter_map(|all| self.buffer_conflict(&all)).collect()
    }

    fn buffer_conflict(&self, all: &[&messages::EarlyUse]) -> Option<Finding> {
        let first = all.iter().min_by_key(|found| found.first_ns)?;
        let ranks = distinct(all.iter().map(|found| found.rank));
        let evidence = BufferConflict {
            request: self.call_from(first.function, first.place),
            receives: first.receives,
            user: match first.user {
                messages::MemoryUser::Call(function, _) => {
                    BufferUser::Call(self.call_from(function, first.user_place))
                }
                messages::MemoryUser::Copy(site) => BufferUser::Copy { place: self.place(site) },
                messages::MemoryUser::Free(site) => BufferUser::Free { place: self.place(site) },
                messages::MemoryUser::Store(function, _) => BufferUser::Store {
                    seen_by: self.call_from(function, first.user_place),
                    first_byte: first.first_byte,
                },
            },
            access: match first.access {
                messages::MemoryAccess::Reads => BufferAccess::Read,
                messages::MemoryAccess::Writes => BufferAccess::Written,
                messages::MemoryAccess::Receives => BufferAccess::Received,
                messages::MemoryAccess::Frees => BufferAccess::Freed,
            },
            count: all.iter().map(|found| found.count).sum(),
            buffer_bytes: first.buffer_bytes,
            used_bytes: first.used_bytes,
            first_ns: first.first_ns,
            ranks: ranks.clone(),
        };
        let is_wrong = all.iter().any(|found| !may_be_meant(found));
        let severity = if is_wrong { Severity::Warning } else { Severity::Notice };
        let id = ids::buffer_conflict(&evidence);
        let evidence = Evidence::BufferConflict(Box::new(evidence));
        Some(finding(id, Verdict::Violated, severity, ranks, evidence))
    }
}

/// Messages that nobody wants to read may all go to one place, and a receive may have more room than its message needs. What is sent out of the buffer
/// of a receive may be what its message is the answer to.
fn may_be_meant(found: &messages::EarlyUse) -> bool {
    if !found.is_race {
        return true;
    }
    found.receives
        && found.access == messages::MemoryAccess::Receives
        && (found.used_bytes <= MOST_OF_A_TOKEN_BYTES || !found.is_same)
}
