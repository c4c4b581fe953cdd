//! Accesses to memory of windows (MPI 4.0, 12.7): which of them conflict, since nothing says which comes first.
//!
//! An access is active from the call that makes it to the end of its epoch, or to a flush. Two that are active at the same time conflict if
//! they are to the same bytes of a target and one of them puts, unless both accumulate or the target is locked for one alone. So do an access
//! and a use of that memory by the target itself: in a message, or in an access to the memory of others. And which of them are not within the
//! memory that the target has in the window.

mod access;
mod found;
mod outside;
mod window;

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::found::FoundByCall;
use super::ids::{CommId, MessageId};
use super::op::Op;
use crate::mpi::calls::WindowAccess;
use crate::tape::input::CodePlace;
pub(super) use access::OneSidedAccess;
use access::{AccessKind, Accessor, ActiveAccess};
pub(crate) use found::{ConflictingAccess, UnorderedAccesses};
pub(crate) use outside::OutsideAccess;
use outside::OutsideAccesses;
pub(super) use window::AccessEnd;
use window::{FollowedWindow, MOST_ACTIVE, WindowMember};

/// Windows that are followed at once.
const MOST_WINDOWS: usize = 1 << 12;

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
    found: FoundByCall<(u32, [(u32, u64); 2]), UnorderedAccesses>,
    outside: OutsideAccesses,
    /// Something was missed: it may have ordered what is seen from then on.
    is_over: bool,
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
        member.len_bytes = memory.as_ref().map(|memory| memory.end - memory.start);
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
        let Some(target) = found.members.get(&access.target) else { return };
        let Some(range) = target.unit_bytes.and_then(|unit_bytes| access.range(unit_bytes)) else { return };
        if let Some(len_bytes) = target.len_bytes {
            self.outside.check(&access, &range, len_bytes, || rank_of(access.target));
        }
        let Some(epoch) = found.members.get(&access.own).and_then(|member| member.epoch(access.target))
        else {
            return;
        };
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
        for at in 0..self.of_process.get(&pid).map_or(0, Vec::len) {
            let (window, own) = self.of_process[&pid][at];
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
        let again = |known: &mut UnorderedAccesses| {
            known.count += 1;
            false
        };
        let key = (unordered.target, unordered.ends.each_ref().map(ConflictingAccess::key));
        self.found.note(key, again, || unordered);
    }

    /// All that was found.
    pub(crate) fn found(&self) -> impl Iterator<Item = &UnorderedAccesses> {
        self.found.all()
    }

    /// All that were outside of the memory that is in a window.
    pub(crate) fn outside(&self) -> impl Iterator<Item = &OutsideAccess> {
        self.outside.found()
    }

    /// Whether something was found since the last call.
    pub(super) fn take_new(&mut self) -> bool {
        self.found.take_new() | self.outside.take_new()
    }

    /// Whether there are calls of which it was not looked up where they were made.
    pub(super) fn wants_places(&self) -> bool {
        self.found.wants_places() || self.outside.wants_places()
    }

    /// Looks that up; `place`: where a rank's return address is in the code.
    pub(super) fn find_places(&mut self, place: impl Fn(u32, u64) -> Option<CodePlace>) {
        self.found.find_places(|found| {
            for end in &mut found.ends {
                end.place = end.place.or_else(|| place(end.rank, end.return_address));
            }
        });
        self.outside.find_places(place);
    }
}
