//! One access, and which others it conflicts with.

use std::ops::Range;

use crate::job::messages::leaks::Origin;
use crate::mpi::calls::WindowAccess;

/// What an access is ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Epoch {
    /// Between two fences: how many came before.
    Fences(u32),
    /// Of a lock that others may hold as well.
    SharedLock,
    /// Of a lock that nobody else has.
    ExclusiveLock,
    /// Of an epoch that its target has opened for a group.
    OfGroup,
    /// Of a use by the target itself: the fences before it, and whether it holds a lock on its own memory, and others may as well.
    Local { fences: u32, lock: Option<bool> },
}

impl Epoch {
    /// Whether an access of another process in the other epoch may come before or after one in this.
    pub(super) fn is_open_to(self, other: Self, has_several_clocks: bool) -> bool {
        match (self, other) {
            (Self::Fences(a), Self::Fences(b)) => a == b,
            // Which of them was over when the other began is a matter of time.
            (Self::SharedLock, Self::SharedLock) => !has_several_clocks,
            (Self::Local { fences, lock }, other) | (other, Self::Local { fences, lock }) => match other {
                Self::Fences(number) => number == fences,
                Self::SharedLock => lock != Some(false) && !has_several_clocks,
                Self::ExclusiveLock => lock.is_none() && !has_several_clocks,
                Self::OfGroup | Self::Local { .. } => false,
            },
            _ => false,
        }
    }
}

/// What is done with memory of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccessKind {
    /// By an operation on the window.
    OneSided(WindowAccess),
    /// By the target itself, which reads it.
    Load,
    /// The same, and changes it.
    Store,
}

impl AccessKind {
    pub(super) const ALL: [Self; 5] = [
        Self::OneSided(WindowAccess::Put),
        Self::OneSided(WindowAccess::Get),
        Self::OneSided(WindowAccess::Accumulate),
        Self::Load,
        Self::Store,
    ];

    pub(super) fn number(self) -> usize {
        match self {
            Self::OneSided(access) => access as usize,
            Self::Load => 3,
            Self::Store => 4,
        }
    }

    /// Whether two of these kinds may be to the same bytes. Accumulations are made one after the other, whichever it is that comes
    /// first; what a process does with its own memory is in its own order.
    pub(super) fn may_meet(self, other: Self) -> bool {
        use WindowAccess::{Accumulate, Get};
        match (self, other) {
            (Self::OneSided(one), Self::OneSided(other)) => {
                matches!((one, other), (Get, Get) | (Accumulate, Accumulate))
            }
            (Self::Load, Self::OneSided(access)) | (Self::OneSided(access), Self::Load) => access == Get,
            (Self::Store, Self::OneSided(_)) | (Self::OneSided(_), Self::Store) => false,
            (Self::Load | Self::Store, Self::Load | Self::Store) => true,
        }
    }
}

/// One access, as its call says.
#[derive(Clone, Copy, Debug)]
pub(in crate::job::messages) struct OneSidedAccess {
    /// Number of who makes it, in the window …
    pub own: u32,
    /// … and in MPI_COMM_WORLD.
    pub rank: u32,
    /// Number of whose memory it is.
    pub target: u32,
    pub kind: WindowAccess,
    pub origin: Origin,
    /// In elements of the target's unit.
    pub displacement: i64,
    pub len_bytes: u64,
    /// CLOCK_MONOTONIC.
    pub time_ns: u64,
}

/// Who makes an access.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accessor {
    /// Number in the window …
    pub(super) own: u32,
    /// … and in MPI_COMM_WORLD.
    pub(super) rank: u32,
    pub(super) origin: Origin,
    /// CLOCK_MONOTONIC.
    pub(super) time_ns: u64,
}

#[derive(Clone, Debug)]
pub(super) struct ActiveAccess {
    pub(super) by: Accessor,
    pub(super) kind: AccessKind,
    /// Of the target's window.
    pub(super) range: Range<i64>,
    pub(super) epoch: Epoch,
}

impl OneSidedAccess {
    /// The bytes of the target's window that it is to.
    pub(super) fn range(&self, unit_bytes: i64) -> Option<Range<i64>> {
        let start = self.displacement.checked_mul(unit_bytes)?;
        let end = start.checked_add(i64::try_from(self.len_bytes).ok()?)?;
        (end > start).then_some(start..end)
    }
}

impl ActiveAccess {
    /// Of kinds that may conflict.
    pub(super) fn conflicts(&self, new: &Self, has_several_clocks: bool) -> bool {
        let is_same = self.range.start < new.range.end && new.range.start < self.range.end;
        // A process's own accesses are over when it waited for them, whatever keeps others away.
        let is_open = self.by.own == new.by.own || self.epoch.is_open_to(new.epoch, has_several_clocks);
        is_same && is_open
    }
}
