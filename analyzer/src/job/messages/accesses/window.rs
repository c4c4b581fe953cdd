//! One window: its members, and accesses that are active.

use std::collections::BTreeMap;
use std::ops::Range;

use rustc_hash::FxHashMap;

use super::access::{AccessKind, ActiveAccess, Epoch};
use super::found::UnorderedAccesses;
use crate::job::messages::op::Op;

/// Accesses to one window that are known at once; of more, nothing is said of it any more.
pub(super) const MOST_ACTIVE: usize = 1 << 16;

/// What ends accesses of a process to a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::job::messages) enum AccessEnd {
    /// All of them, and the next ones are in another epoch.
    Fence,
    /// Those to one target or to all, as they were locked.
    Unlock(Option<u32>),
    /// Those to one target, or to all.
    Flush(Option<u32>),
    /// The memory of the process itself may be used again, and what was put is perhaps not there yet.
    FlushLocal(Option<u32>),
    /// All of them.
    Complete,
}

impl AccessEnd {
    pub(super) fn targets(self) -> Option<u32> {
        match self {
            Self::Unlock(target) | Self::Flush(target) | Self::FlushLocal(target) => target,
            Self::Fence | Self::Complete => None,
        }
    }
}

/// A process in a window.
#[derive(Debug, Default)]
pub(super) struct WindowMember {
    /// Bytes by which displacements in its memory are counted.
    pub(super) unit_bytes: Option<i64>,
    /// How much of its memory is in the window, if it is one piece.
    pub(super) len_bytes: Option<u64>,
    /// Where its memory is, in the process's space.
    pub(super) memory: Option<Range<u64>>,
    pub(super) fences: u32,
    /// Locks that it holds: on whom (`None`: all), and whether others may hold them.
    pub(super) locks: Vec<(Option<u32>, bool)>,
    pub(super) is_started: bool,
    /// What its accesses take from its own memory or put there, with their targets.
    pub(super) buffers: Vec<(u32, Op)>,
}

impl WindowMember {
    pub(super) fn epoch(&self, target: u32) -> Option<Epoch> {
        let lock = self.locks.iter().find(|(of, _)| of.is_none_or(|of| of == target));
        match lock {
            Some((_, true)) => Some(Epoch::SharedLock),
            Some((_, false)) => Some(Epoch::ExclusiveLock),
            None if self.is_started => Some(Epoch::OfGroup),
            None => (self.fences > 0).then_some(Epoch::Fences(self.fences)),
        }
    }

    /// When it uses its own memory.
    pub(super) fn local_epoch(&self, own: u32) -> Epoch {
        let lock = self.locks.iter().find(|(of, _)| of.is_none_or(|of| of == own));
        Epoch::Local { fences: self.fences, lock: lock.map(|(_, is_shared)| *is_shared) }
    }

    /// Which bytes of its part of the window these are.
    pub(super) fn offsets(&self, used: Range<u64>) -> Option<Range<i64>> {
        let memory = self.memory.as_ref()?;
        let (start, end) = (used.start.max(memory.start), used.end.min(memory.end));
        let offset = |addr: u64| i64::try_from(addr - memory.start).ok();
        if start < end { Some(offset(start)?..offset(end)?) } else { None }
    }
}

/// Active accesses to the memory of one process, by kind: those of one kind are mostly not looked through for another of it.
#[derive(Debug, Default)]
pub(super) struct TargetAccesses(pub(super) [AccessesOfKind; AccessKind::ALL.len()]);

/// By where they begin, and the number of the access.
#[derive(Debug, Default)]
pub(super) struct AccessesOfKind {
    pub(super) by_start: BTreeMap<(i64, u64), ActiveAccess>,
    /// None is longer, nor was.
    pub(super) longest_bytes: i64,
}

impl AccessesOfKind {
    /// One that conflicts: of several the one that begins first.
    pub(super) fn conflict(&self, new: &ActiveAccess, has_several_clocks: bool) -> Option<&ActiveAccess> {
        let from = new.range.start.saturating_sub(self.longest_bytes);
        let mut near = self.by_start.range((from, 0)..(new.range.end, 0)).map(|(_, active)| active);
        near.find(|active| active.conflicts(new, has_several_clocks))
    }
}

impl TargetAccesses {
    pub(super) fn conflict(&self, new: &ActiveAccess, has_several_clocks: bool) -> Option<&ActiveAccess> {
        let may_conflict = |kind: &AccessKind| !kind.may_meet(new.kind);
        let kinds = AccessKind::ALL.into_iter().filter(may_conflict);
        kinds.map(|kind| &self.0[kind.number()]).find_map(|of_kind| of_kind.conflict(new, has_several_clocks))
    }

    pub(super) fn add(&mut self, number: u64, new: ActiveAccess) {
        let of_kind = &mut self.0[new.kind.number()];
        of_kind.longest_bytes = of_kind.longest_bytes.max(new.range.end - new.range.start);
        of_kind.by_start.insert((new.range.start, number), new);
    }

    /// Removes what is over; how many there were.
    pub(super) fn remove(&mut self, is_over: impl Fn(&ActiveAccess) -> bool) -> usize {
        let before: usize = self.0.iter().map(|of_kind| of_kind.by_start.len()).sum();
        for of_kind in &mut self.0 {
            of_kind.by_start.retain(|_, active| !is_over(active));
            if of_kind.by_start.is_empty() {
                of_kind.longest_bytes = 0;
            }
        }
        before - self.0.iter().map(|of_kind| of_kind.by_start.len()).sum::<usize>()
    }
}

#[derive(Debug, Default)]
pub(super) struct FollowedWindow {
    pub(super) members: BTreeMap<u32, WindowMember>,
    /// By target.
    pub(super) active: FxHashMap<u32, TargetAccesses>,
    /// Accesses so far.
    pub(super) made: u64,
    pub(super) count: usize,
    pub(super) is_lost: bool,
}

impl FollowedWindow {
    /// An access to a target's memory is active from now on: where it is kept, and one that it is in no order with. `None`: too many are.
    pub(super) fn begin(
        &mut self,
        target: u32,
        new: ActiveAccess,
        has_several_clocks: bool,
        rank_of: impl Fn(u32) -> u32,
    ) -> Option<((i64, u64), Option<UnorderedAccesses>)> {
        if self.count >= MOST_ACTIVE {
            self.is_lost = true;
            self.active.clear();
            return None;
        }
        let active = self.active.entry(target).or_default();
        let other = active.conflict(&new, has_several_clocks);
        let unordered = other.map(|other| UnorderedAccesses::of(other, &new, rank_of(target)));
        let place = (new.range.start, self.made);
        active.add(self.made, new);
        self.made += 1;
        self.count += 1;
        Some((place, unordered))
    }
}
