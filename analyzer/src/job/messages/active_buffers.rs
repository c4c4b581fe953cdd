//! Buffers of active requests (MPI 4.0, 3.7.2): until the request is complete, what is sent must not be changed, and where something is
//! received must be neither read nor changed.
//!
//! Known are requests whose beginning was seen, whose content is in one piece, and whose completion cannot have been missed.

use std::collections::BTreeMap;
use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};

use super::found::FoundByCall;
use super::ids::MessageId;
use super::leaks::Origin;
use super::op::Op;
use crate::job::names::SiteId;
use crate::tape::input::CodePlace;

/// Buffers of one process that are known at once.
const MOST: usize = 1 << 14;
/// More are kept in order.
const MOST_LOOKED_THROUGH: usize = 16;
/// Receives whose message was not sent yet when their buffers were used.
const MOST_UNSENT: usize = 1 << 12;

/// What is done with memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MemoryAccess {
    Reads,
    Writes,
    /// It is where a message is received.
    Receives,
    /// It is given back to the allocator.
    Frees,
}

impl MemoryAccess {
    /// Of what an MPI call does with its buffer.
    pub(super) fn of(op: &Op) -> Self {
        if op.sends { Self::Reads } else { Self::Receives }
    }

    /// Whether it may not be done with the buffer of an active send or receive.
    fn conflicts(self, receives: bool) -> bool {
        receives || self != Self::Reads
    }
}

/// Who uses a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MemoryUser {
    /// An MPI call, by its name and where it returns to in the process's space.
    Call(&'static str, u64),
    /// A copy of the program's.
    Copy(SiteId),
    /// A call of the allocator.
    Free(SiteId),
    /// Nobody knows which code, as this call showed, by its name and where it returns to in the process's space.
    Store(&'static str, u64),
}

/// A buffer was used before the request that it belongs to was complete.
#[derive(Clone, Debug)]
pub(crate) struct EarlyUse {
    /// In MPI_COMM_WORLD.
    pub rank: u32,
    /// The call that began the request.
    pub function: &'static str,
    return_address: u64,
    /// What it returns to, once that was looked up.
    pub place: Option<CodePlace>,
    /// It receives.
    pub receives: bool,
    pub user: MemoryUser,
    /// Of a call: what it returns to, once that was looked up.
    pub user_place: Option<CodePlace>,
    pub access: MemoryAccess,
    /// How often.
    pub count: u64,
    /// Of the first time: length of the buffer, and how much of it was used, as far as is known.
    pub buffer_bytes: u64,
    pub used_bytes: u64,
    /// Of the first time: the first byte of the buffer that was used.
    pub first_byte: u64,
    /// Both begin at the same byte.
    pub is_same: bool,
    /// The message may have come before the use, or after, as far as is known; not if a send read the buffer, and each time its message was
    /// sent later: that may be because of that send.
    pub is_race: bool,
    /// When it was for the first time, CLOCK_MONOTONIC.
    pub first_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct ActiveBuffer {
    start: u64,
    end: u64,
    message: MessageId,
    receives: bool,
    /// It is of a message, whose other side may be waited for.
    is_message: bool,
    origin: Origin,
}

impl ActiveBuffer {
    fn of(op: &Op) -> Option<Self> {
        let content = op.content?;
        let end = content.addr.checked_add(content.len_bytes.get())?;
        let is_message = !op.is_one_sided();
        Some(Self {
            start: content.addr,
            end,
            message: op.id,
            receives: !op.sends,
            is_message,
            origin: op.origin,
        })
    }

    /// Where it stands among many.
    fn place(&self) -> (u64, MessageId) {
        (self.start, self.message)
    }

    fn conflicts(&self, range: &Range<u64>, access: MemoryAccess) -> bool {
        self.start < range.end && range.start < self.end && access.conflicts(self.receives)
    }
}

/// Of one process. All are in one of the two: few are looked through, many stand by where they begin.
#[derive(Debug, Default)]
struct ProcessBuffers {
    few: Vec<ActiveBuffer>,
    many: BTreeMap<(u64, MessageId), ActiveBuffer>,
    /// None of many is longer, nor was.
    longest_bytes: u64,
}

impl ProcessBuffers {
    fn len(&self) -> usize {
        self.few.len() + self.many.len()
    }

    fn add(&mut self, buffer: ActiveBuffer) {
        if self.many.is_empty() && self.few.len() < MOST_LOOKED_THROUGH {
            return self.few.push(buffer);
        }
        for buffer in self.few.drain(..).chain([buffer]) {
            self.longest_bytes = self.longest_bytes.max(buffer.end - buffer.start);
            self.many.insert(buffer.place(), buffer);
        }
    }

    /// Whether it was there.
    fn remove(&mut self, place: (u64, MessageId)) -> bool {
        if !self.many.is_empty() {
            return self.many.remove(&place).is_some();
        }
        let at = self.few.iter().position(|buffer| buffer.place() == place);
        at.map(|at| self.few.swap_remove(at)).is_some()
    }

    fn has(&self, place: (u64, MessageId)) -> bool {
        self.many.contains_key(&place) || self.few.iter().any(|buffer| buffer.place() == place)
    }

    /// One that a use of this range must not be of: of several the one that begins first.
    fn conflict(&self, range: &Range<u64>, access: MemoryAccess) -> Option<ActiveBuffer> {
        let is_it = |buffer: &&ActiveBuffer| buffer.conflicts(range, access);
        let of_few = self.few.iter().filter(is_it).min_by_key(|buffer| buffer.place());
        let of_many = || {
            let first = (range.start.saturating_sub(self.longest_bytes), MessageId::default());
            let mut near = self.many.range(first..(range.end, MessageId::default()));
            near.find_map(|(_, buffer)| Some(buffer).filter(is_it))
        };
        of_few.or_else(of_many).copied()
    }
}

type ConflictKey = (u32, &'static str, u64, MemoryUser, MemoryAccess);

/// Of all processes.
#[derive(Debug, Default)]
pub(crate) struct ActiveBuffers {
    /// By pid.
    processes: FxHashMap<u32, ProcessBuffers>,
    /// How many there are of all.
    active: usize,
    /// Processes of which something was missed. Nothing is told of them any more: a loss is known before records that are older than it, so
    /// that a request of these may have been completed in it.
    lost: FxHashSet<u32>,
    found: FoundByCall<ConflictKey, EarlyUse>,
    /// Receives whose buffers were sent before their message was, as far as is known, with when that was.
    unsent: FxHashMap<MessageId, (ConflictKey, u64)>,
}

/// Someone uses memory of a process.
#[derive(Clone, Debug)]
pub(crate) struct MemoryUse {
    pub range: Range<u64>,
    pub access: MemoryAccess,
    pub user: MemoryUser,
    pub time_ns: u64,
}

impl ActiveBuffers {
    /// Whether there are none.
    #[inline(always)]
    pub(super) fn are_none(&self) -> bool {
        self.active == 0
    }

    /// A request is active from now on that is this message.
    pub(super) fn begin(&mut self, pid: u32, op: &Op) {
        let Some(buffer) = ActiveBuffer::of(op).filter(|_| !self.lost.contains(&pid)) else { return };
        let buffers = self.processes.entry(pid).or_default();
        let before = buffers.len();
        if before < MOST {
            buffers.add(buffer);
        }
        self.active += buffers.len() - before;
    }

    /// It is no more, or nothing is known of it any more.
    pub(super) fn end(&mut self, pid: u32, op: &Op) {
        let Some(content) = op.content.filter(|_| self.active > 0) else { return };
        if let Some(buffers) = self.processes.get_mut(&pid)
            && buffers.remove((content.addr, op.id))
        {
            self.active -= 1;
        }
    }

    /// Something of this process was missed.
    pub(super) fn lose(&mut self, pid: u32) {
        self.forget(pid);
        self.lost.insert(pid);
    }

    /// The pid is free for another process.
    pub(super) fn end_process(&mut self, pid: u32) {
        self.forget(pid);
        self.lost.remove(&pid);
    }

    /// Which requests of this process are active is not known.
    pub(super) fn forget(&mut self, pid: u32) {
        self.active -= self.processes.remove(&pid).map_or(0, |buffers| buffers.len());
    }

    /// Memory of a process is used: is it an active request's? `is_sent`: whether it is known that the message of a receive is
    /// under way.
    pub(super) fn look(&mut self, pid: u32, used: &MemoryUse, is_sent: impl Fn(MessageId) -> bool) {
        let buffers = self.processes.get(&pid);
        let Some(buffer) = buffers.and_then(|all| all.conflict(&used.range, used.access)) else { return };
        let is_read_by_a_send = buffer.receives
            && buffer.is_message
            && used.access == MemoryAccess::Reads
            && matches!(used.user, MemoryUser::Call(..));
        let may_be_unsent = is_read_by_a_send && !is_sent(buffer.message);
        let rank = buffer.message.call.rank;
        let Origin { row, return_address } = buffer.origin;
        let function = row.name.as_str();
        let key = (rank, function, return_address, used.user, used.access);
        if may_be_unsent && self.unsent.len() < MOST_UNSENT {
            self.unsent.insert(buffer.message, (key, used.time_ns));
        }
        let again = |known: &mut EarlyUse| {
            known.count += 1;
            let is_news = !known.is_race && !may_be_unsent;
            known.is_race |= !may_be_unsent;
            is_news
        };
        self.found.note(key, again, || {
            let first_used = used.range.start.max(buffer.start);
            let used_bytes = used.range.end.min(buffer.end) - first_used;
            EarlyUse {
                rank,
                function,
                return_address,
                place: None,
                receives: buffer.receives,
                user: used.user,
                user_place: None,
                access: used.access,
                count: 1,
                buffer_bytes: buffer.end - buffer.start,
                used_bytes,
                first_byte: first_used - buffer.start,
                is_same: buffer.start == used.range.start,
                is_race: !may_be_unsent,
                first_ns: used.time_ns,
            }
        });
    }

    /// What an active request sends has changed, from this byte of the buffer on. If it was seen how, that is known already.
    pub(super) fn change(&mut self, pid: u32, op: &Op, user: MemoryUser, byte: u64, time_ns: u64) {
        let Some(buffer) = ActiveBuffer::of(op) else { return };
        if !self.processes.get(&pid).is_some_and(|buffers| buffers.has(buffer.place())) {
            return;
        }
        let (rank, function) = (op.id.call.rank, op.origin.row.name.as_str());
        let is_seen = |found: &EarlyUse| {
            (found.rank, found.function, found.return_address) == (rank, function, op.origin.return_address)
                && found.access != MemoryAccess::Reads
                && !matches!(found.user, MemoryUser::Store(..))
        };
        if self.found.all().any(is_seen) {
            return;
        }
        let range = buffer.start + byte..buffer.start + byte + 1;
        self.look(pid, &MemoryUse { range, access: MemoryAccess::Writes, user, time_ns }, |_| true);
    }

    /// It is known which message a receive gets, and when that was sent.
    #[inline]
    pub(super) fn pair(&mut self, receive: MessageId, sent_ns: u64) {
        if self.unsent.is_empty() {
            return;
        }
        if let Some((key, used_ns)) = self.unsent.remove(&receive)
            && sent_ns <= used_ns
        {
            self.found.change(&key, |found| !std::mem::replace(&mut found.is_race, true));
        }
    }

    /// All that was found.
    pub(crate) fn found(&self) -> impl Iterator<Item = &EarlyUse> {
        self.found.all()
    }

    /// Whether something was found since the last call.
    pub(super) fn take_new(&mut self) -> bool {
        self.found.take_new()
    }

    /// Whether there are calls of which it was not looked up where they were made.
    pub(super) fn wants_places(&self) -> bool {
        self.found.wants_places()
    }

    /// Looks that up; `place`: where a rank's return address is in the code.
    pub(super) fn find_places(&mut self, place: impl Fn(u32, u64) -> Option<CodePlace>) {
        self.found.find_places(|found| {
            found.place = found.place.or_else(|| place(found.rank, found.return_address));
            if let MemoryUser::Call(_, return_address) | MemoryUser::Store(_, return_address) = found.user {
                found.user_place = found.user_place.or_else(|| place(found.rank, return_address));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;
    use crate::job::messages::ids::CallId;
    use crate::job::messages::op::MessageContent;
    use crate::mpi::calls::row;

    const PID: u32 = 7;

    fn op(number: u32, sends: bool, addr: u64, len_bytes: u64) -> Op {
        let call = CallId { rank: 3, tid: PID, number };
        let origin = Origin {
            row: row(if sends { "MPI_Isend" } else { "MPI_Irecv" }).expect("a call"),
            return_address: 0x10,
        };
        let len_bytes = NonZeroU64::new(len_bytes).expect("some");
        Op {
            id: MessageId { call, part: 0 },
            origin,
            sends,
            place: None,
            peer: None,
            tag: 0,
            content: Some(MessageContent { addr, len_bytes, since_ns: 0 }),
            is_empty: false,
            element: None,
        }
    }

    fn used(range: Range<u64>, access: MemoryAccess) -> MemoryUse {
        MemoryUse { range, access, user: MemoryUser::Call("MPI_Send", 0x20), time_ns: 5 }
    }

    /// How often something was wrong.
    fn conflicts(active: &ActiveBuffers) -> u64 {
        active.found().map(|found| found.count).sum()
    }

    #[test]
    fn what_is_sent_may_be_read_and_not_written_and_what_is_received_neither() {
        for (sends, access, is_wrong) in [
            (true, MemoryAccess::Reads, false),
            (true, MemoryAccess::Writes, true),
            (true, MemoryAccess::Receives, true),
            (false, MemoryAccess::Reads, true),
            (false, MemoryAccess::Writes, true),
            (false, MemoryAccess::Receives, true),
        ] {
            let mut active = ActiveBuffers::default();
            active.begin(PID, &op(1, sends, 100, 10));
            active.look(PID, &used(105..106, access), |_| false);
            assert_eq!(conflicts(&active), u64::from(is_wrong), "{sends} {access:?}");
        }
    }

    #[test]
    fn only_bytes_of_the_buffer_count_and_only_while_the_request_is_active() {
        let mut active = ActiveBuffers::default();
        let receive = op(1, false, 100, 10);
        active.begin(PID, &receive);
        for range in [90..100, 110..120, 0..1] {
            active.look(PID, &used(range, MemoryAccess::Writes), |_| false);
        }
        active.look(PID + 1, &used(100..110, MemoryAccess::Writes), |_| false);
        assert_eq!(conflicts(&active), 0);
        active.look(PID, &used(99..101, MemoryAccess::Writes), |_| false);
        active.look(PID, &used(109..200, MemoryAccess::Writes), |_| false);
        active.look(PID, &used(0..1000, MemoryAccess::Writes), |_| false);
        assert_eq!(conflicts(&active), 3);
        active.end(PID, &receive);
        assert!(active.are_none());
        active.look(PID, &used(100..110, MemoryAccess::Writes), |_| false);
        assert_eq!(conflicts(&active), 3);
    }

    #[test]
    fn a_long_buffer_is_found_behind_short_ones() {
        let mut active = ActiveBuffers::default();
        active.begin(PID, &op(1, false, 0, 1000));
        (2..100).for_each(|number| active.begin(PID, &op(number, true, u64::from(number), 1)));
        (2..90).for_each(|number| active.end(PID, &op(number, true, u64::from(number), 1)));
        active.look(PID, &used(500..501, MemoryAccess::Reads), |_| false);
        let found: Vec<_> =
            active.found().map(|f| (f.rank, f.function, f.buffer_bytes, f.used_bytes)).collect();
        assert_eq!(found, [(3, "MPI_Irecv", 1000, 1)]);
    }

    #[test]
    fn a_send_out_of_a_receives_buffer_is_a_race_unless_each_message_is_sent_later() {
        let mut active = ActiveBuffers::default();
        let is_race = |active: &ActiveBuffers| active.found().map(|found| found.is_race).collect::<Vec<_>>();
        let use_and_pair = |active: &mut ActiveBuffers, number: u32, is_sent: bool, sent_ns: u64| {
            let receive = op(number, false, 100, 10);
            active.begin(PID, &receive);
            active.look(PID, &used(100..110, MemoryAccess::Reads), |_| is_sent);
            active.end(PID, &receive);
            active.pair(receive.id, sent_ns);
        };
        use_and_pair(&mut active, 1, false, 6);
        assert_eq!((is_race(&active), active.take_new(), active.unsent.len()), (vec![false], true, 0));
        use_and_pair(&mut active, 2, false, 6);
        assert_eq!((is_race(&active), active.take_new()), (vec![false], false));
        use_and_pair(&mut active, 3, false, 5);
        assert_eq!((is_race(&active), active.take_new()), (vec![true], true));
        let mut known = ActiveBuffers::default();
        use_and_pair(&mut known, 1, true, 6);
        assert_eq!(is_race(&known), [true]);
        let mut copied = ActiveBuffers::default();
        copied.begin(PID, &op(1, false, 100, 10));
        let by_copy = MemoryUse { user: MemoryUser::Copy(SiteId(0)), ..used(100..110, MemoryAccess::Reads) };
        copied.look(PID, &by_copy, |_| false);
        assert_eq!(is_race(&copied), [true]);
    }

    #[test]
    fn what_is_not_known_any_more_is_in_no_conflict() {
        let mut active = ActiveBuffers::default();
        active.begin(PID, &op(1, false, 100, 10));
        active.forget(PID);
        active.look(PID, &used(100..110, MemoryAccess::Reads), |_| false);
        assert_eq!(conflicts(&active), 0);
        active.lose(PID);
        active.begin(PID, &op(2, false, 100, 10));
        active.look(PID, &used(100..110, MemoryAccess::Reads), |_| false);
        assert!(active.are_none() && conflicts(&active) == 0, "{active:?}");
        active.end_process(PID);
        active.begin(PID, &op(3, false, 100, 10));
        assert!(!active.are_none());
    }
}
