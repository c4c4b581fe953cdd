//! Accesses to memory of windows (MPI 4.0, 12.7): which of them conflict, since nothing says which comes first.
//!
//! An access is active from the call that makes it to the end of its epoch, or to a flush. Two that are active at the same time conflict if
//! they are to the same bytes of a target and one of them puts, unless both accumulate or the target is locked for one alone.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

use rustc_hash::FxHashMap;

use super::ids::CommId;
use super::leaks::Origin;
use super::op::Op;
use crate::mpi::calls::WindowAccess;
use crate::tape::input::CodePlace;

/// Accesses to one window that are known at once; of more, nothing is said of it any more.
const MOST_ACTIVE: usize = 1 << 16;
/// Windows that are followed at once.
const MOST_WINDOWS: usize = 1 << 12;
/// Pairs of calls that are told apart.
const MOST_FOUND: usize = 1 << 10;

/// What an access is ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Epoch {
    /// Between two fences: how many came before.
    Fences(u32),
    /// Of a lock that others may hold as well.
    SharedLock,
    /// Of a lock that nobody else has, or of an epoch that its target has opened for a group.
    Alone,
}

impl Epoch {
    /// Whether an access of another process in the other epoch may come before or after one in this.
    fn is_open_to(self, other: Self, has_several_clocks: bool) -> bool {
        match (self, other) {
            (Self::Fences(a), Self::Fences(b)) => a == b,
            // Which of them was over when the other began is a matter of time.
            (Self::SharedLock, Self::SharedLock) => !has_several_clocks,
            _ => false,
        }
    }
}

/// One access, as its call says.
#[derive(Clone, Copy, Debug)]
pub(super) struct OneSidedAccess {
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

#[derive(Clone, Debug)]
struct ActiveAccess {
    access: OneSidedAccess,
    /// Of the target's window.
    range: Range<i64>,
    epoch: Epoch,
}

/// What ends accesses of a process to a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccessEnd {
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
    fn targets(self) -> Option<u32> {
        match self {
            Self::Unlock(target) | Self::Flush(target) | Self::FlushLocal(target) => target,
            Self::Fence | Self::Complete => None,
        }
    }
}

/// A process in a window.
#[derive(Debug, Default)]
struct WindowMember {
    /// Bytes by which displacements in its memory are counted.
    unit_bytes: Option<i64>,
    fences: u32,
    /// Locks that it holds: on whom (`None`: all), and whether others may hold them.
    locks: Vec<(Option<u32>, bool)>,
    is_started: bool,
    /// What its accesses take from its own memory or put there, with their targets.
    buffers: Vec<(u32, Op)>,
}

impl WindowMember {
    fn epoch(&self, target: u32) -> Option<Epoch> {
        let lock = self.locks.iter().find(|(of, _)| of.is_none_or(|of| of == target));
        match lock {
            Some((_, true)) => Some(Epoch::SharedLock),
            Some((_, false)) => Some(Epoch::Alone),
            None if self.is_started => Some(Epoch::Alone),
            None => (self.fences > 0).then_some(Epoch::Fences(self.fences)),
        }
    }
}

/// Active accesses to the memory of one process, by kind: those of one kind are mostly not looked through for another of it.
#[derive(Debug, Default)]
struct TargetAccesses([AccessesOfKind; KINDS.len()]);

const KINDS: [WindowAccess; 3] = [WindowAccess::Put, WindowAccess::Get, WindowAccess::Accumulate];

/// By where they begin, and the number of the access.
#[derive(Debug, Default)]
struct AccessesOfKind {
    by_start: BTreeMap<(i64, u64), ActiveAccess>,
    /// None is longer, nor was.
    longest_bytes: i64,
}

impl AccessesOfKind {
    /// One that conflicts: of several the one that begins first.
    fn conflict(&self, new: &ActiveAccess, has_several_clocks: bool) -> Option<&ActiveAccess> {
        let from = new.range.start.saturating_sub(self.longest_bytes);
        let mut near = self.by_start.range((from, 0)..(new.range.end, 0)).map(|(_, active)| active);
        near.find(|active| active.conflicts(new, has_several_clocks))
    }
}

impl TargetAccesses {
    fn conflict(&self, new: &ActiveAccess, has_several_clocks: bool) -> Option<&ActiveAccess> {
        let may_conflict = |kind: &&WindowAccess| !are_allowed(**kind, new.access.kind);
        KINDS
            .iter()
            .filter(may_conflict)
            .find_map(|kind| self.0[*kind as usize].conflict(new, has_several_clocks))
    }

    fn add(&mut self, number: u64, new: ActiveAccess) {
        let of_kind = &mut self.0[new.access.kind as usize];
        of_kind.longest_bytes = of_kind.longest_bytes.max(new.range.end - new.range.start);
        of_kind.by_start.insert((new.range.start, number), new);
    }

    /// Removes what is over; how many there were.
    fn remove(&mut self, is_over: impl Fn(&OneSidedAccess) -> bool) -> usize {
        let before: usize = self.0.iter().map(|of_kind| of_kind.by_start.len()).sum();
        for of_kind in &mut self.0 {
            of_kind.by_start.retain(|_, active| !is_over(&active.access));
            if of_kind.by_start.is_empty() {
                of_kind.longest_bytes = 0;
            }
        }
        before - self.0.iter().map(|of_kind| of_kind.by_start.len()).sum::<usize>()
    }
}

/// Whether two of these kinds may be to the same bytes. Accumulations are made one after the other, whichever it is that comes
/// first.
fn are_allowed(one: WindowAccess, other: WindowAccess) -> bool {
    use WindowAccess::{Accumulate, Get};
    matches!((one, other), (Get, Get) | (Accumulate, Accumulate))
}

#[derive(Debug, Default)]
struct FollowedWindow {
    members: BTreeMap<u32, WindowMember>,
    /// By target.
    active: FxHashMap<u32, TargetAccesses>,
    /// Accesses so far.
    made: u64,
    count: usize,
    is_lost: bool,
}

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
    fn of(first: &ActiveAccess, second: &ActiveAccess, target: u32) -> Self {
        let start = first.range.start.max(second.range.start);
        Self {
            ends: [ConflictingAccess::of(&first.access), ConflictingAccess::of(&second.access)],
            target,
            count: 1,
            len_bytes: (first.range.end.min(second.range.end) - start).cast_unsigned(),
            offset_bytes: start,
            first_ns: second.access.time_ns,
        }
    }
}

/// One of the two.
#[derive(Clone, Debug)]
pub(crate) struct ConflictingAccess {
    /// In MPI_COMM_WORLD.
    pub rank: u32,
    pub function: &'static str,
    return_address: u64,
    /// What it returns to, once that was looked up.
    pub place: Option<CodePlace>,
}

impl ConflictingAccess {
    fn of(access: &OneSidedAccess) -> Self {
        Self {
            rank: access.rank,
            function: access.origin.row.name.as_str(),
            return_address: access.origin.return_address,
            place: None,
        }
    }

    fn key(&self) -> (u32, u64) {
        (self.rank, self.return_address)
    }
}

/// Of all windows.
#[derive(Debug, Default)]
pub(crate) struct Accesses {
    windows: FxHashMap<CommId, FollowedWindow>,
    found: BTreeMap<(u32, [(u32, u64); 2]), UnorderedAccesses>,
    /// Something was missed: it may have ordered what is seen from then on.
    is_over: bool,
    wants_places: bool,
    is_new: bool,
}

impl Accesses {
    /// Something of the job was missed. Buffers of accesses are forgotten with all of their process.
    pub(super) fn stop(&mut self) {
        self.windows.clear();
        self.is_over = true;
    }

    /// A member of a new window says in what bytes displacements in its memory are counted.
    pub(super) fn made(&mut self, window: CommId, own: u32, unit_bytes: i64) {
        if let Some(member) = self.member(window, own) {
            member.unit_bytes = Some(unit_bytes);
        }
    }

    /// It is given back.
    pub(super) fn free(&mut self, window: CommId, own: u32) -> Vec<(u32, Op)> {
        let Some(found) = self.windows.get_mut(&window) else { return Vec::new() };
        let buffers = found.members.remove(&own).map_or_else(Vec::new, |member| member.buffers);
        for active in found.active.values_mut() {
            found.count -= active.remove(|access| access.own == own);
        }
        if found.members.is_empty() {
            self.windows.remove(&window);
        }
        buffers
    }

    fn member(&mut self, window: CommId, own: u32) -> Option<&mut WindowMember> {
        let is_full =
            self.is_over || self.windows.len() >= MOST_WINDOWS && !self.windows.contains_key(&window);
        (!is_full).then(|| self.windows.entry(window).or_default().members.entry(own).or_default())
    }

    /// A process has a lock on a target, or on all.
    pub(super) fn lock(&mut self, window: CommId, own: u32, target: Option<u32>, is_shared: bool) {
        if let Some(member) = self.member(window, own) {
            member.locks.push((target, is_shared));
        }
    }

    /// A process has begun an epoch for a group.
    pub(super) fn start(&mut self, window: CommId, own: u32) {
        if let Some(member) = self.member(window, own) {
            member.is_started = true;
        }
    }

    /// A process's own memory is in use from now on by an access.
    pub(super) fn use_own(&mut self, window: CommId, own: u32, target: u32, op: Op) -> bool {
        let Some(member) = self.member(window, own) else { return false };
        let has_room = member.buffers.len() < MOST_ACTIVE && member.epoch(target).is_some();
        if has_room {
            member.buffers.push((target, op));
        }
        has_room
    }

    /// Accesses of a process are over: whose buffers are free now is handed on.
    pub(super) fn end(&mut self, window: CommId, own: u32, end: AccessEnd, mut freed: impl FnMut(&Op)) {
        let Some(member) = self.member(window, own) else { return };
        let of = end.targets();
        let is_meant = |target: u32| of.is_none_or(|of| of == target);
        member.buffers.retain(|(target, op)| {
            let is_over = is_meant(*target);
            if is_over {
                freed(op);
            }
            !is_over
        });
        match end {
            AccessEnd::Fence => member.fences += 1,
            AccessEnd::Unlock(target) => member.locks.retain(|(of, _)| *of != target),
            AccessEnd::Complete => member.is_started = false,
            AccessEnd::Flush(_) | AccessEnd::FlushLocal(_) => {}
        }
        // What was got has been read.
        let is_over = |access: &OneSidedAccess| {
            access.own == own
                && (access.kind == WindowAccess::Get || !matches!(end, AccessEnd::FlushLocal(_)))
        };
        let Some(window) = self.windows.get_mut(&window) else { return };
        let FollowedWindow { active, count, .. } = window;
        for (_, active) in active.iter_mut().filter(|(target, _)| is_meant(**target)) {
            *count -= active.remove(is_over);
        }
    }

    /// A process makes an access; `rank_of`: of the target, in MPI_COMM_WORLD.
    pub(super) fn access(
        &mut self,
        window: CommId,
        access: OneSidedAccess,
        has_several_clocks: bool,
        rank_of: impl Fn(u32) -> u32,
    ) {
        let Some(found) = self.windows.get_mut(&window).filter(|found| !found.is_lost) else { return };
        let unit_bytes = found.members.get(&access.target).and_then(|member| member.unit_bytes);
        let epoch = found.members.get(&access.own).and_then(|member| member.epoch(access.target));
        let Some((unit_bytes, epoch)) = unit_bytes.zip(epoch) else { return };
        let Some(range) = range(&access, unit_bytes) else { return };
        if found.count >= MOST_ACTIVE {
            found.is_lost = true;
            found.active.clear();
            return;
        }
        let active = found.active.entry(access.target).or_default();
        let new = ActiveAccess { access, range, epoch };
        let other = active.conflict(&new, has_several_clocks);
        let unordered = other.map(|other| UnorderedAccesses::of(other, &new, rank_of(access.target)));
        active.add(found.made, new);
        found.made += 1;
        found.count += 1;
        if let Some(unordered) = unordered {
            self.note(unordered);
        }
    }

    fn note(&mut self, unordered: UnorderedAccesses) {
        let is_full = self.found.len() >= MOST_FOUND;
        match self.found.entry((unordered.target, unordered.ends.each_ref().map(ConflictingAccess::key))) {
            Entry::Occupied(mut known) => known.get_mut().count += 1,
            Entry::Vacant(_) if is_full => {}
            Entry::Vacant(free) => {
                free.insert(unordered);
                (self.wants_places, self.is_new) = (true, true);
            }
        }
    }

    /// All that was found.
    pub(crate) fn found(&self) -> impl Iterator<Item = &UnorderedAccesses> {
        self.found.values()
    }

    /// Whether something was found since the last call.
    pub(super) fn take_new(&mut self) -> bool {
        std::mem::take(&mut self.is_new)
    }

    /// Whether there are calls of which it was not looked up where they were made.
    pub(super) fn wants_places(&self) -> bool {
        self.wants_places
    }

    /// Looks that up; `place`: where a rank's return address is in the code.
    pub(super) fn find_places(&mut self, place: impl Fn(u32, u64) -> Option<CodePlace>) {
        self.wants_places = false;
        for end in self.found.values_mut().flat_map(|found| found.ends.iter_mut()) {
            end.place = end.place.or_else(|| place(end.rank, end.return_address));
        }
    }
}

/// The bytes of the target's window that an access is to.
fn range(access: &OneSidedAccess, unit_bytes: i64) -> Option<Range<i64>> {
    let start = access.displacement.checked_mul(unit_bytes)?;
    let end = start.checked_add(i64::try_from(access.len_bytes).ok()?)?;
    (end > start).then_some(start..end)
}

impl ActiveAccess {
    /// Of kinds that may conflict.
    fn conflicts(&self, new: &Self, has_several_clocks: bool) -> bool {
        let is_same = self.range.start < new.range.end && new.range.start < self.range.end;
        // A process's own accesses are over when it waited for them, whatever keeps others away.
        let is_open =
            self.access.own == new.access.own || self.epoch.is_open_to(new.epoch, has_several_clocks);
        is_same && is_open
    }
}
