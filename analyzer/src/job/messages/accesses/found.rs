//! What was found.

use super::access::{Accessor, ActiveAccess};
use crate::tape::input::CodePlace;

/// Two accesses that nothing orders.
#[derive(Clone, Debug)]
pub(crate) struct UnorderedAccesses {
    /// What was made first, and what came while that was active.
    pub ends: [ConflictingAccess; 2],
    /// Whose memory it is, in MPI_COMM_WORLD.
    pub target: u32,
    /// How often.
    pub count: u64,
    /// Of the first time: bytes that both are to, and where they begin in the target's window.
    pub len_bytes: u64,
    pub offset_bytes: i64,
    /// When it was for the first time, CLOCK_MONOTONIC.
    pub first_ns: u64,
}

impl UnorderedAccesses {
    pub(super) fn of(first: &ActiveAccess, second: &ActiveAccess, target: u32) -> Self {
        let start = first.range.start.max(second.range.start);
        Self {
            ends: [ConflictingAccess::of(&first.by), ConflictingAccess::of(&second.by)],
            target,
            count: 1,
            len_bytes: (first.range.end.min(second.range.end) - start).cast_unsigned(),
            offset_bytes: start,
            first_ns: second.by.time_ns,
        }
    }
}

/// One of the two.
#[derive(Clone, Debug)]
pub(crate) struct ConflictingAccess {
    /// In MPI_COMM_WORLD.
    pub rank: u32,
    pub function: &'static str,
    pub(super) return_address: u64,
    /// What it returns to, once that was looked up.
    pub place: Option<CodePlace>,
}

impl ConflictingAccess {
    pub(super) fn of(by: &Accessor) -> Self {
        Self {
            rank: by.rank,
            function: by.origin.row.name.as_str(),
            return_address: by.origin.return_address,
            place: None,
        }
    }

    pub(super) fn key(&self) -> (u32, u64) {
        (self.rank, self.return_address)
    }
}
