//! Accesses to memory of windows (MPI 4.0, 12.7): which of them conflict, since nothing says which comes first.
//!
//! An access is active from the call that makes it to the end of its epoch, or to a flush. Two that are active at the same time conflict if
//! they are to the same bytes of a target and one of them puts, unless both accumulate or the target is locked for one alone. So do an access
//! and a use of that memory by the target itself: in a message, or in an access to the memory of others.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

use rustc_hash::FxHashMap;

use super::ids::{CommId, MessageId};
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
    /// Of a lock that nobody else has.
    ExclusiveLock,
    /// Of an epoch that its target has opened for a group.
    OfGroup,
    /// Of a use by the target itself: the fences before it, and whether it holds a lock on its own memory, and others may as well.
    Local { fences: u32, lock: Option<bool> },
}

impl Epoch {
    /// Whether an access of another process in the other epoch may come before or after one in this.
    fn is_open_to(self, other: Self, has_several_clocks: bool) -> bool {
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
enum AccessKind {
    /// By an operation on the window.
    OneSided(WindowAccess),
    /// By the target itself, which reads it.
    Load,
    /// The same, and changes it.
    Store,
}

impl AccessKind {
    const ALL: [Self; 5] = [
        Self::OneSided(WindowAccess::Put),
        Self::OneSided(WindowAccess::Get),
        Self::OneSided(WindowAccess::Accumulate),
        Self::Load,
        Self::Store,
    ];

    fn number(self) -> usize {
        match self {
            Self::OneSided(access) => access as usize,
            Self::Load => 3,
            Self::Store => 4,
        }
    }

    /// Whether two of these kinds may be to the same bytes. Accumulations are made one after the other, whichever it is that comes
    /// first; what a process does with its own memory is in its own order.
    fn may_meet(self, other: Self) -> bool {
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

/// Who makes an access.
#[derive(Clone, Copy, Debug)]
struct Accessor {
    /// Number in the window …
    own: u32,
    /// … and in MPI_COMM_WORLD.
    rank: u32,
    origin: Origin,
    /// CLOCK_MONOTONIC.
    time_ns: u64,
}

#[derive(Clone, Debug)]
struct ActiveAccess {
    by: Accessor,
    kind: AccessKind,
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
    /// Where its memory is, in the process's space.
    memory: Option<Range<u64>>,
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
            Some((_, false)) => Some(Epoch::ExclusiveLock),
            None if self.is_started => Some(Epoch::OfGroup),
            None => (self.fences > 0).then_some(Epoch::Fences(self.fences)),
        }
    }

    /// When it uses its own memory.
    fn local_epoch(&self, own: u32) -> Epoch {
        let lock = self.locks.iter().find(|(of, _)| of.is_none_or(|of| of == own));
        Epoch::Local { fences: self.fences, lock: lock.map(|(_, is_shared)| *is_shared) }
    }

    /// Which bytes of its part of the window these are.
    fn offsets(&self, used: Range<u64>) -> Option<Range<i64>> {
        let memory = self.memory.as_ref()?;
        let (start, end) = (used.start.max(memory.start), used.end.min(memory.end));
        let offset = |addr: u64| i64::try_from(addr - memory.start).ok();
        if start < end { Some(offset(start)?..offset(end)?) } else { None }
    }
}

/// Active accesses to the memory of one process, by kind: those of one kind are mostly not looked through for another of it.
#[derive(Debug, Default)]
struct TargetAccesses([AccessesOfKind; AccessKind::ALL.len()]);

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
        let may_conflict = |kind: &AccessKind| !kind.may_meet(new.kind);
        let kinds = AccessKind::ALL.into_iter().filter(may_conflict);
        kinds.map(|kind| &self.0[kind.number()]).find_map(|of_kind| of_kind.conflict(new, has_several_clocks))
    }

    fn add(&mut self, number: u64, new: ActiveAccess) {
        let of_kind = &mut self.0[new.kind.number()];
        of_kind.longest_bytes = of_kind.longest_bytes.max(new.range.end - new.range.start);
        of_kind.by_start.insert((new.range.start, number), new);
    }

    /// Removes what is over; how many there were.
    fn remove(&mut self, is_over: impl Fn(&ActiveAccess) -> bool) -> usize {
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
struct FollowedWindow {
    members: BTreeMap<u32, WindowMember>,
    /// By target.
    active: FxHashMap<u32, TargetAccesses>,
    /// Accesses so far.
    made: u64,
    count: usize,
    is_lost: bool,
}

impl FollowedWindow {
    /// An access to a target's memory is active from now on: where it is kept, and one that it is in no order with. `None`: too many are.
    fn begin(
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
    return_address: u64,
    /// What it returns to, once that was looked up.
    pub place: Option<CodePlace>,
}

impl ConflictingAccess {
    fn of(by: &Accessor) -> Self {
        Self {
            rank: by.rank,
            function: by.origin.row.name.as_str(),
            return_address: by.origin.return_address,
            place: None,
        }
    }

    fn key(&self) -> (u32, u64) {
        (self.rank, self.return_address)
    }
}

/// A use of memory in a window by its own process.
#[derive(Debug)]
struct LocalUse {
    message: MessageId,
    window: CommId,
    own: u32,
    kind: AccessKind,
    place: (i64, u64),
}

/// Of all windows.
#[derive(Debug, Default)]
pub(crate) struct Accesses {
    windows: FxHashMap<CommId, FollowedWindow>,
    /// Windows that have memory of a process, and its number there, by pid.
    of_process: FxHashMap<u32, Vec<(CommId, u32)>>,
    /// What processes do themselves with such memory, by pid.
    local_uses: FxHashMap<u32, Vec<LocalUse>>,
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
        self.of_process.clear();
        self.local_uses.clear();
        self.is_over = true;
    }

    /// A member of a new window says in what bytes displacements in its memory are counted, and where that is, if it is one piece.
    pub(super) fn made(
        &mut self,
        window: CommId,
        (pid, own): (u32, u32),
        unit_bytes: i64,
        memory: Option<Range<u64>>,
    ) {
        let Some(member) = self.member(window, own) else { return };
        member.unit_bytes = Some(unit_bytes);
        member.memory = memory.filter(|memory| !memory.is_empty());
        if member.memory.is_some() {
            self.of_process.entry(pid).or_default().push((window, own));
        }
    }

    /// It is given back.
    pub(super) fn free(&mut self, window: CommId, (pid, own): (u32, u32)) -> Vec<(u32, Op)> {
        if let Some(windows) = self.of_process.get_mut(&pid) {
            windows.retain(|(of, _)| *of != window);
        }
        if let Some(uses) = self.local_uses.get_mut(&pid) {
            uses.retain(|of| of.window != window);
        }
        let Some(found) = self.windows.get_mut(&window) else { return Vec::new() };
        let buffers = found.members.remove(&own).map_or_else(Vec::new, |member| member.buffers);
        for active in found.active.values_mut() {
            found.count -= active.remove(|access| access.by.own == own);
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

    /// Accesses of a process are over: those whose buffers are free now.
    pub(super) fn end(&mut self, window: CommId, own: u32, end: AccessEnd) -> Vec<Op> {
        let Some(member) = self.member(window, own) else { return Vec::new() };
        let of = end.targets();
        let is_meant = |target: u32| of.is_none_or(|of| of == target);
        let over = member.buffers.extract_if(.., |(target, _)| is_meant(*target));
        let freed = over.map(|(_, op)| op).collect();
        match end {
            AccessEnd::Fence => member.fences += 1,
            AccessEnd::Unlock(target) => member.locks.retain(|(of, _)| *of != target),
            AccessEnd::Complete => member.is_started = false,
            AccessEnd::Flush(_) | AccessEnd::FlushLocal(_) => {}
        }
        // What was got has been read.
        let is_over = |access: &ActiveAccess| match access.kind {
            AccessKind::OneSided(kind) => {
                access.by.own == own
                    && (kind == WindowAccess::Get || !matches!(end, AccessEnd::FlushLocal(_)))
            }
            AccessKind::Load | AccessKind::Store => false,
        };
        let Some(window) = self.windows.get_mut(&window) else { return freed };
        let FollowedWindow { active, count, .. } = window;
        for (_, active) in active.iter_mut().filter(|(target, _)| is_meant(**target)) {
            *count -= active.remove(is_over);
        }
        freed
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
        let OneSidedAccess { own, rank, target, kind, origin, time_ns, .. } = access;
        let by = Accessor { own, rank, origin, time_ns };
        let new = ActiveAccess { by, kind: AccessKind::OneSided(kind), range, epoch };
        if let Some((_, Some(unordered))) = found.begin(target, new, has_several_clocks, rank_of) {
            self.note(unordered);
        }
    }

    /// Whether memory of a process is in a window.
    #[inline]
    pub(super) fn has_memory_of(&self, pid: u32) -> bool {
        self.of_process.get(&pid).is_some_and(|windows| !windows.is_empty())
    }

    /// A process begins to use memory of its own that may be in windows.
    pub(super) fn begin_local(&mut self, pid: u32, op: &Op, time_ns: u64, has_several_clocks: bool) {
        let Some(content) = op.content else { return };
        let Some(end) = content.addr.checked_add(content.len_bytes.get()) else { return };
        let kind = if op.sends { AccessKind::Load } else { AccessKind::Store };
        for (window, own) in self.of_process.get(&pid).cloned().unwrap_or_default() {
            let Some(found) = self.windows.get_mut(&window).filter(|found| !found.is_lost) else { continue };
            let Some(member) = found.members.get(&own) else { continue };
            let Some(range) = member.offsets(content.addr..end) else { continue };
            let rank = op.id.call.rank;
            let by = Accessor { own, rank, origin: op.origin, time_ns };
            let new = ActiveAccess { by, kind, range, epoch: member.local_epoch(own) };
            let Some((place, unordered)) = found.begin(own, new, has_several_clocks, |_| rank) else {
                continue;
            };
            self.local_uses.entry(pid).or_default().push(LocalUse {
                message: op.id,
                window,
                own,
                kind,
                place,
            });
            if let Some(unordered) = unordered {
                self.note(unordered);
            }
        }
    }

    /// It is over.
    #[inline]
    pub(super) fn end_local(&mut self, pid: u32, message: MessageId) {
        if self.local_uses.is_empty() {
            return;
        }
        self.end_locals(pid, |of| of.message == message);
    }

    /// Which of them are over is not known.
    pub(super) fn forget_local(&mut self, pid: u32) {
        self.end_locals(pid, |_| true);
    }

    /// The pid is free for another process.
    pub(super) fn end_process(&mut self, pid: u32) {
        self.forget_local(pid);
        self.of_process.remove(&pid);
    }

    fn end_locals(&mut self, pid: u32, is_over: impl Fn(&LocalUse) -> bool) {
        let Some(uses) = self.local_uses.get_mut(&pid) else { return };
        for of in uses.extract_if(.., |of| is_over(of)) {
            let found = self.windows.get_mut(&of.window);
            if let Some(found) = found.filter(|found| !found.is_lost)
                && let Some(active) = found.active.get_mut(&of.own)
                && active.0[of.kind.number()].by_start.remove(&of.place).is_some()
            {
                found.count -= 1;
            }
        }
        if uses.is_empty() {
            self.local_uses.remove(&pid);
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
        let is_open = self.by.own == new.by.own || self.epoch.is_open_to(new.epoch, has_several_clocks);
        is_same && is_open
    }
}
