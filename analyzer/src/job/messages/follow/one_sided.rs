//! One-sided operations, and what orders them.

use std::num::NonZeroU64;
use std::ops::Range;

use super::{Follower, origin};
use crate::job::messages::accesses::{AccessEnd, OneSidedAccess};
use crate::job::messages::assemble::Call;
use crate::job::messages::data::CallBuffer;
use crate::job::messages::ids::{CallId, CommId, MessageId};
use crate::job::messages::message_event::MessageEvent;
use crate::job::messages::op::{MessageContent, Op};
use crate::mpi::calls::{Arg, Does, EpochStep, LockStep, WindowAccess, WindowSync};
use crate::mpi::handles::ANY_TAG;

impl Follower {
    /// A one-sided operation begins.
    pub(super) fn begin_access(&mut self, call: &Call, id: CallId, kind: WindowAccess) {
        if self.is_partial || !self.is_complete(call) {
            return;
        }
        let Some((window, own)) = self.window(call) else { return };
        let Some(target) = self.target(call, window, own) else { return };
        if let Some(target) = self.member(window, target) {
            self.epochs.access(window, id.rank, target);
        }
        let content = self.content(call, call.row.origin());
        let op = Op {
            id: MessageId { call: id, part: 0 },
            origin: origin(call),
            sends: kind != WindowAccess::Get,
            place: None,
            peer: None,
            tag: ANY_TAG,
            content,
            is_empty: false,
            element: None,
        };
        if content.is_some() {
            self.use_buffer(call, &op);
            if self.accesses.use_own(window, own, target, op) {
                self.buffers.begin(call.pid, &op);
                // Of an operation on the own memory it is known which end is which.
                if target != own {
                    self.use_window_memory(call.pid, &op, call.begin_ns);
                }
            }
        }
        if let Some((displacement, len_bytes)) = self.accessed(call) {
            let access = OneSidedAccess {
                own,
                rank: id.rank,
                target,
                kind,
                origin: origin(call),
                displacement,
                len_bytes,
                time_ns: call.begin_ns,
            };
            let Self { accesses, communicators, has_several_clocks, .. } = self;
            accesses.access(window, access, *has_several_clocks, |number| communicators.rank(window, number));
        }
    }

    /// Where in the target's window, and how many bytes, if they are in one piece.
    fn accessed(&self, call: &Call) -> Option<(i64, u64)> {
        let process = self.processes.get(call.process);
        // One element, of one type at both sides, where they are not told apart.
        let is_one = call.row.position(Arg::TargetCount).is_none();
        let datatype = call.argument(if is_one { Arg::Datatype } else { Arg::TargetDatatype })?;
        let size_bytes = process.datatypes.size_bytes(process.builtin?.kind, datatype)?;
        let count = if is_one { 1 } else { u64::try_from(call.argument(Arg::TargetCount)? as i32).ok()? };
        Some((call.argument(Arg::Displacement)?.cast_signed(), count.checked_mul(size_bytes)?))
    }

    fn window(&mut self, call: &Call) -> Option<(CommId, u32)> {
        let handle = call.argument(Arg::Win)?;
        self.place(call, handle)
    }

    fn target(&self, call: &Call, window: CommId, own: u32) -> Option<u32> {
        let rank = u32::try_from(call.argument(Arg::Target)? as i32).ok()?;
        self.communicators.number(window, own, rank)
    }

    /// A member has got a new window.
    pub(super) fn made_window(&mut self, call: &Call) {
        let Some(handle) = self.handle(call, Arg::NewWin, true) else { return };
        let Some((window, own)) = self.place(call, handle) else { return };
        // Displacements in a window that memory is attached to later are addresses.
        let unit_bytes = call.row.position(Arg::DisplacementUnit).map_or(Some(1), |at| call.integer(at));
        if let Some(unit_bytes) = unit_bytes {
            let memory = self.window_memory(call);
            self.give_to_window(call, memory.as_ref());
            self.accesses.made(window, (call.pid, own), unit_bytes.into(), memory);
        }
    }

    /// Memory of the caller's becomes part of a window.
    fn give_to_window(&mut self, call: &Call, memory: Option<&Range<u64>>) {
        if !self.follows_data || call.row.position(Arg::WindowMemory).is_none() {
            return;
        }
        let len_bytes = memory.and_then(|memory| NonZeroU64::new(memory.end - memory.start));
        let given = memory.zip(len_bytes).zip(self.id(call));
        if let Some(((memory, len_bytes), id)) = given {
            let content = MessageContent { addr: memory.start, len_bytes, since_ns: call.begin_ns };
            let (pid, rank, origin, is_written) = (call.pid, id.rank, origin(call), true);
            self.used.push_back(CallBuffer { pid, rank, origin, content, is_written });
        }
    }

    /// Where the caller's part of a new window is.
    fn window_memory(&self, call: &Call) -> Option<Range<u64>> {
        let start = match call.argument(Arg::WindowMemory) {
            Some(start) => start,
            None => {
                let (words, _) = call.pointed(Arg::NewMemory, true)?.as_chunks::<8>();
                u64::from_le_bytes(*words.first()?)
            }
        };
        Some(start..start.checked_add(call.argument(Arg::WindowBytes)?)?)
    }

    /// A process begins to use memory of its own, which may be in a window.
    pub(super) fn use_window_memory(&mut self, pid: u32, op: &Op, time_ns: u64) {
        if self.accesses.has_memory_of(pid) {
            self.accesses.begin_local(pid, op, time_ns, self.has_several_clocks);
        }
    }

    /// The memory that a message or an access used is free.
    pub(super) fn free_buffer(&mut self, pid: u32, op: &Op) {
        self.buffers.end(pid, op);
        self.accesses.end_local(pid, op.id);
    }

    /// A member has given a window back.
    pub(super) fn freed_window(&mut self, call: &Call, window: CommId, own: u32) {
        self.epochs.free(window);
        for (_, op) in self.accesses.free(window, (call.pid, own)) {
            self.free_buffer(call.pid, &op);
        }
    }

    /// A call opens or ends one side of an epoch.
    pub(super) fn begin_epoch_step(&mut self, call: &Call, id: CallId, step: EpochStep) {
        if self.is_partial || !self.is_complete(call) {
            return;
        }
        let Some((window, _)) = self.window(call) else { return };
        let group = self.group(call, id.rank, 0).cloned();
        self.epochs.begin(window, step, group.as_ref(), id);
    }

    /// It has returned.
    pub(super) fn end_epoch_step(&mut self, call: &Call, id: CallId) {
        let Does::Window(WindowSync::Epoch(step)) = call.row.does else { return };
        let Some((window, _)) = self.window(call) else { return };
        if let Some(awaited) = self.epochs.end(window, step, id.rank) {
            self.tell(MessageEvent::EpochAwaited { by: id, awaited });
        }
    }

    /// See [`Epochs::missing`](super::super::epochs::Epochs::missing).
    pub fn missing_in_epoch(&self, pid: u32, handle: u64, step: EpochStep) -> Option<Vec<u32>> {
        let (window, _) = self.find_place(pid, handle)?;
        self.epochs.missing(window, step, self.processes.find(pid)?.rank?)
    }

    /// A call on a window has returned.
    pub(super) fn end_accesses(&mut self, call: &Call) {
        let does = call.row.does;
        if !matches!(does, Does::Window(_) | Does::Collective) || call.row.position(Arg::Win).is_none() {
            return;
        }
        let Some((window, own)) = self.window(call) else { return };
        let target = match call.row.position(Arg::Target) {
            None => None,
            // Who is meant is not known: what is over neither.
            Some(_) => match self.target(call, window, own) {
                Some(target) => Some(target),
                None => return self.accesses.stop(),
            },
        };
        let end = match does {
            Does::Collective => AccessEnd::Fence,
            Does::Window(WindowSync::Lock(LockStep::Takes)) => {
                let kind = call.argument(Arg::LockType).map(|kind| kind as u32);
                let is_shared =
                    kind.is_none_or(|kind| self.builtin(call).is_some_and(|of| of.is_shared_lock(kind)));
                return self.accesses.lock(window, own, target, is_shared);
            }
            Does::Window(WindowSync::Lock(LockStep::GivesBack)) => AccessEnd::Unlock(target),
            Does::Window(WindowSync::Lock(LockStep::FlushesLocally)) => AccessEnd::FlushLocal(target),
            Does::Window(WindowSync::Lock(LockStep::Flushes)) => AccessEnd::Flush(target),
            Does::Window(WindowSync::Epoch(EpochStep::Starts)) => return self.accesses.start(window, own),
            Does::Window(WindowSync::Epoch(EpochStep::Completes)) => AccessEnd::Complete,
            _ => return,
        };
        for op in self.accesses.end(window, own, end) {
            self.free_buffer(call.pid, &op);
        }
    }
}
