//! How far each thread would have come if MPI buffered nothing: a send is complete when its receive was posted, and nobody leaves a
//! collective call before all have come to it.
//!
//! A program must not rely on more (MPI 4.0, 3.5 and 6.14). One that does hangs when a message is larger, a library other, or a
//! buffer full. Threads go through their calls here in the order in which they made them, each as soon as it may. Where
//! some of them wait in a cycle for what none of them can come to any more, that is a deadlock which buffering hides.
//!
//! Each state here is one that the job can come to, since every message is taken by the receive that has really got it, when both
//! have been posted. What could have gone another way (receives from anybody, `MPI_Waitany`, tests, probes) holds its thread
//! up until it can go as it did, and has no part in a cycle.

mod cycle_search;
mod found;
mod search;
#[cfg(test)]
mod tests;
mod thread;

use rustc_hash::{FxHashMap, FxHashSet};

use super::ids::{CallId, CollectiveId, MessageId};
use super::leaks::Origin;
use super::op::Op;
use crate::mpi::calls::{Arg, CallRow, Does, Form, Group, Making, Meeting, Mode, Which};
use crate::tape::input::CodePlace;

use cycle_search::CycleSearch;
use found::Found;
pub(crate) use found::{AwaitedSide, UnbufferedCall, UnbufferedCycle};
use thread::{Need, OrderStep, OrderStepKind, ThreadOrder};

/// Calls that wait here, of all threads: beyond, nothing more is followed.
const MOST_STEPS: usize = 1 << 18;
/// Calls behind one that waits: what it waits for may never be known, and it is taken to have come.
const MOST_STEPS_OF_ONE: usize = 1 << 12;
/// Messages that are followed.
const MOST_MESSAGES: usize = 1 << 20;
/// Collective calls that not all have come to, or that nobody has waited for.
const MOST_COLLECTIVES: usize = 1 << 16;
/// Collective calls that are over and kept to be used again.
const MOST_SPARE: usize = 1 << 6;
/// Messages of one handle that were complete at once and are not waited for yet.
const MOST_AT_ONCE: usize = 1 << 12;

/// A message, from when it is posted until it is waited for in vain no more.
#[derive(Clone, Copy, Debug)]
struct FollowedMessage {
    /// The call that posted it, or prepared that.
    origin: Origin,
    /// The other side, once that is known.
    other: Option<Reached>,
    sends: bool,
    /// A receive that could have got another message.
    is_open: bool,
    comm: u32,
    /// Number in the communicator.
    peer: Option<u32>,
    tag: i32,
    len_bytes: Option<u64>,
}

/// A call of a thread that has to be reached.
#[derive(Clone, Copy, Debug)]
struct Reached {
    thread: usize,
    number: u32,
}

/// A collective call that not all have come to.
#[derive(Debug, Default)]
struct PartialGathering {
    missing: usize,
    /// Threads that come to it later.
    late: Vec<usize>,
    waiting: Vec<usize>,
}

/// Messages of one handle that were complete when they were begun: which of them a call waits for is known when it waits for all of them.
#[derive(Debug, Default)]
struct CompleteAtOnce {
    open: Vec<MessageId>,
    gone: usize,
    /// The call that has waited for all that are gone, if it is one.
    by: Option<CallId>,
    is_unknown: bool,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Unbuffered {
    is_off: bool,
    threads: Vec<ThreadOrder>,
    by_id: FxHashMap<(u32, u32), usize>,
    messages: FxHashMap<MessageId, FollowedMessage>,
    /// Threads that wait for it to be known which message is the other side of theirs.
    awaited: FxHashMap<MessageId, usize>,
    /// By rank: receives that could have got another message.
    open_receives: FxHashMap<u32, Vec<MessageId>>,
    collectives: FxHashMap<CollectiveId, PartialGathering>,
    /// Those that are over, to be used again.
    spare: Vec<PartialGathering>,
    /// Collective calls that requests stand for, by the calls that began them.
    begun: FxHashMap<CallId, CollectiveId>,
    /// By process and handle.
    at_once: FxHashMap<(u32, u64), CompleteAtOnce>,
    /// What the call that is ending waits for.
    needs: Vec<Need>,
    /// Threads that may go on.
    ready: Vec<usize>,
    steps: usize,
    /// Calls, by rank and return address, that are known to rely on buffering: they wait for nothing any more.
    relying: FxHashSet<(u32, u64)>,
    /// Ranks that ask which messages have come: they could have done something else.
    asking: FxHashSet<u32>,
    found: Found,
    search: CycleSearch,
}

impl Unbuffered {
    /// Something of the job was missed, or is too much: nothing more is followed.
    pub fn stop(&mut self) {
        if !self.is_off {
            let found = std::mem::take(&mut self.found);
            *self = Self { is_off: true, found, ..Self::default() };
        }
    }

    /// A message is given to the library.
    pub fn post(&mut self, op: &Op) {
        if self.is_off {
            return;
        }
        if self.messages.len() >= MOST_MESSAGES {
            return self.stop();
        }
        let rank = op.id.call.rank;
        // Of one that a matched probe has taken the probe is not followed.
        let is_open = !op.sends && (op.peer.is_none() || op.place.is_none() || self.asking.contains(&rank));
        let comm = op.place.map_or(u32::MAX, |(comm, _)| comm.0);
        let len_bytes = op.content.map(|content| content.len_bytes.get()).or(op.is_empty.then_some(0));
        let posted = FollowedMessage {
            origin: op.origin,
            other: None,
            sends: op.sends,
            is_open,
            comm,
            peer: op.peer,
            tag: op.tag,
            len_bytes,
        };
        self.messages.insert(op.id, posted);
        if is_open {
            self.note_open(rank, op.id);
        }
    }

    /// Receives that are over are forgotten when there are twice as many as were left the last time.
    fn note_open(&mut self, rank: u32, id: MessageId) {
        let open = self.open_receives.entry(rank).or_default();
        if open.len() == open.capacity() {
            open.retain(|id| self.messages.contains_key(id));
            open.reserve(open.len().max(16));
        }
        open.push(id);
    }

    /// A send and the receive that gets it.
    pub fn pair(&mut self, send: MessageId, receive: MessageId) {
        if self.is_off {
            return;
        }
        for (own, other) in [(send, receive), (receive, send)] {
            if !self.messages.contains_key(&own) {
                continue;
            }
            let reached = Reached { thread: self.thread(other.call), number: other.call.number };
            if let Some(posted) = self.messages.get_mut(&own) {
                posted.other = Some(reached);
            }
            self.ready.extend(self.awaited.remove(&own));
        }
        self.go_on();
    }

    /// The call that is ending has waited for a message of its rank.
    pub fn complete(&mut self, message: MessageId) {
        if self.messages.contains_key(&message) {
            self.needs.push(Need::Message(message));
        }
    }

    /// A message is not followed any longer: it was cancelled, or freed.
    pub fn forget(&mut self, message: MessageId) {
        self.messages.remove(&message);
    }

    /// A message was complete when its call returned, and its request has a handle that others have too.
    pub fn begin_at_once(&mut self, (pid, handle): (u32, u64), message: MessageId) {
        if self.is_off || !self.messages.contains_key(&message) {
            return;
        }
        let known = self.at_once.entry((pid, handle)).or_default();
        known.is_unknown |= known.open.len() >= MOST_AT_ONCE;
        if known.is_unknown {
            known.open.push(message);
            known.open.drain(..).for_each(|message| _ = self.messages.remove(&message));
        } else {
            known.open.push(message);
        }
    }

    /// One of those was waited for; `by`: none, if it was freed.
    pub fn complete_at_once(&mut self, key: (u32, u64), by: Option<CallId>) {
        let Some(known) = self.at_once.get_mut(&key).filter(|known| !known.open.is_empty()) else { return };
        known.by = by.filter(|_| known.gone == 0 || known.by == by);
        known.gone += 1;
        if known.gone < known.open.len() {
            return;
        }
        let is_waited_for = known.by.is_some();
        known.gone = 0;
        for message in known.open.drain(..) {
            if is_waited_for {
                self.needs.push(Need::Message(message));
            } else {
                self.messages.remove(&message);
            }
        }
    }

    /// A rank comes to a collective call. `is_begun`: a request stands for it.
    pub fn enter(
        &mut self,
        row: &CallRow,
        collective: CollectiveId,
        by: CallId,
        members: usize,
        is_begun: bool,
    ) {
        if self.is_off || !gathers(row) {
            return;
        }
        if self.collectives.len().max(self.begun.len()) >= MOST_COLLECTIVES {
            return self.stop();
        }
        let thread = self.thread(by);
        if is_begun {
            self.begun.insert(by, collective);
        }
        let new = || PartialGathering { missing: members, ..self.spare.pop().unwrap_or_default() };
        let gathering = self.collectives.entry(collective).or_insert_with(new);
        if self.threads[thread].is_stuck() {
            gathering.late.push(thread);
            self.push(thread, OrderStep { number: by.number, kind: OrderStepKind::Enter(collective) });
            // Who waits for it may wait for this thread, and this one for them.
            self.search(thread);
        } else {
            self.arrive(collective);
        }
        self.go_on();
    }

    /// The call that is ending has waited for what a collective call began.
    pub fn complete_collective(&mut self, begun_by: CallId) {
        if let Some(collective) = self.begun.remove(&begun_by) {
            self.needs.push(Need::Collective(collective));
        }
    }

    /// A rank asks which messages have come, or what is over, without completing it.
    pub fn ask(&mut self, rank: u32) {
        if !self.is_off {
            self.asking.insert(rank);
        }
    }

    /// A call is over: what it was told to have waited for holds its thread up as long as that has not come.
    pub fn over(
        &mut self,
        row: &'static CallRow,
        return_address: u64,
        id: CallId,
        own: Option<CollectiveId>,
    ) {
        if self.is_off {
            return self.needs.clear();
        }
        self.needs.extend(own.filter(|_| row.form == Form::Blocking && gathers(row)).map(Need::Collective));
        if self.needs.is_empty() {
            return;
        }
        let waits = waits(row).filter(|_| !self.relying.contains(&(id.rank, return_address)));
        let Some(is_certain) = waits else {
            return self.drop_needs();
        };
        let thread = self.thread(id);
        if !self.threads[thread].is_stuck() {
            self.drop_satisfied();
        }
        if self.needs.is_empty() {
            return;
        }
        let is_certain = is_certain && !self.asking.contains(&id.rank);
        let needs = self.needs.len();
        self.threads[thread].needs.extend(self.needs.drain(..));
        let kind = OrderStepKind::Wait { needs, origin: Origin { row, return_address }, is_certain };
        match self.push(thread, OrderStep { number: id.number, kind }) {
            1 => self.ready.push(thread),
            steps if steps > MOST_STEPS_OF_ONE => self.let_go(thread),
            _ => {}
        }
        self.go_on();
    }

    /// What was found, by the calls that rely on buffering.
    pub fn found(&self) -> impl Iterator<Item = &UnbufferedCycle> {
        self.found.all()
    }

    /// Whether something was found since the last call.
    pub fn take_new(&mut self) -> bool {
        self.found.take_new()
    }

    /// Whether there are calls of which it was not looked up where they were made.
    pub fn wants_places(&self) -> bool {
        self.found.wants_places()
    }

    /// Looks that up; `place`: where a rank's return address is in the code; `arguments`: those of a call that waits for this.
    pub fn find_places(
        &mut self,
        place: impl Fn(u32, u64) -> Option<CodePlace>,
        arguments: impl Fn(AwaitedSide) -> Vec<(&'static str, String)>,
    ) {
        self.found.find_places(place, arguments);
    }

    fn thread(&mut self, call: CallId) -> usize {
        let next = self.threads.len();
        let thread = *self.by_id.entry((call.rank, call.tid)).or_insert(next);
        if thread == next {
            self.threads.push(ThreadOrder::of_rank(call.rank));
        }
        thread
    }

    /// How many steps its thread has now; 0: nothing is followed any longer.
    fn push(&mut self, thread: usize, step: OrderStep) -> usize {
        self.steps += 1;
        if self.steps > MOST_STEPS {
            self.stop();
            return 0;
        }
        self.threads[thread].steps.push_back(step);
        self.threads[thread].steps.len()
    }

    /// The call that is ending waits for nothing.
    fn drop_needs(&mut self) {
        for need in self.needs.drain(..) {
            if let Need::Message(message) = need {
                self.messages.remove(&message);
            }
        }
    }

    fn drop_satisfied(&mut self) {
        let mut needs = std::mem::take(&mut self.needs);
        needs.retain(|need| !self.satisfy(*need));
        self.needs = needs;
    }

    /// Whether something has come; a message that has is forgotten.
    fn satisfy(&mut self, need: Need) -> bool {
        let is_satisfied = self.has_come(need);
        if let Need::Message(message) = need
            && is_satisfied
        {
            self.messages.remove(&message);
        }
        is_satisfied
    }

    fn has_come(&self, need: Need) -> bool {
        match need {
            Need::Message(message) => self
                .messages
                .get(&message)
                .is_none_or(|posted| posted.other.is_some_and(|other| self.is_reached(other))),
            Need::Collective(collective) => !self.collectives.contains_key(&collective),
        }
    }

    fn is_reached(&self, call: Reached) -> bool {
        self.threads.get(call.thread).is_none_or(|thread| thread.has_reached(call.number))
    }

    fn arrive(&mut self, collective: CollectiveId) {
        let Some(gathering) = self.collectives.get_mut(&collective) else { return };
        gathering.missing = gathering.missing.saturating_sub(1);
        if gathering.missing == 0
            && let Some(mut all) = self.collectives.remove(&collective)
        {
            self.ready.append(&mut all.waiting);
            if self.spare.len() < MOST_SPARE {
                all.late.clear();
                self.spare.push(all);
            }
        }
    }

    /// Lets all threads go as far as they can.
    fn go_on(&mut self) {
        while let Some(thread) = self.ready.pop() {
            self.advance(thread);
        }
    }

    fn advance(&mut self, thread: usize) {
        let mut is_moved = false;
        while let Some(kind) = self.threads.get(thread).and_then(ThreadOrder::front) {
            if let OrderStepKind::Enter(collective) = *kind {
                self.leave_late(collective, thread);
                self.arrive(collective);
            } else if let Some(need) = self.first_missing(thread) {
                self.wait(thread, need);
                break;
            }
            self.pop(thread);
            is_moved = true;
        }
        if is_moved && let Some(moved) = self.threads.get_mut(thread) {
            moved.take_woken(&mut self.ready);
        }
        self.search(thread);
    }

    /// What the call of a thread waits for; what has come is dropped.
    fn first_missing(&mut self, thread: usize) -> Option<Need> {
        while let Some(need) = self.threads[thread].front_need() {
            if !self.satisfy(need) {
                return Some(need);
            }
            self.threads[thread].pop_need();
        }
        None
    }

    fn pop(&mut self, thread: usize) {
        self.threads[thread].steps.pop_front();
        self.steps = self.steps.saturating_sub(1);
    }

    fn leave_late(&mut self, collective: CollectiveId, thread: usize) {
        if let Some(gathering) = self.collectives.get_mut(&collective)
            && let Some(at) = gathering.late.iter().position(|late| *late == thread)
        {
            gathering.late.swap_remove(at);
        }
    }

    /// A thread is woken when what it waits for may have come.
    fn wait(&mut self, thread: usize, need: Need) {
        match need {
            Need::Message(message) => match self.messages.get(&message).and_then(|posted| posted.other) {
                Some(Reached { thread: other, number }) => self.threads[other].waiting.push((number, thread)),
                None => _ = self.awaited.insert(message, thread),
            },
            Need::Collective(collective) => {
                if let Some(gathering) = self.collectives.get_mut(&collective) {
                    gathering.waiting.push(thread);
                }
            }
        }
    }

    /// The call that a thread waits in is taken to be over.
    fn let_go(&mut self, thread: usize) {
        while let Some(need) = self.threads[thread].pop_need() {
            if let Need::Message(message) = need {
                self.messages.remove(&message);
            }
        }
        self.ready.push(thread);
    }
}

/// Whether nobody may count on leaving a call before all have come to it. Calls on windows, among neighbours, and those that give something
/// back are left alone: whom they wait for is less, or is said by an assertion.
fn gathers(row: &CallRow) -> bool {
    match row.does {
        Does::Collective => row.position(Arg::Win).is_none() && !row.is_among_neighbors(),
        Does::MakeCommunicator(Making { meeting, group }) => {
            meeting != Meeting::NewMembers && group != Group::Window
        }
        _ => false,
    }
}

/// Whether a call waits for what it completes; and whether that could not have been something else.
fn waits(row: &CallRow) -> Option<bool> {
    match row.does {
        Does::Complete { which: Which::One | Which::All, polls: false } => Some(true),
        Does::Complete { .. } => Some(false),
        _ if row.form != Form::Blocking => None,
        Does::Send(Mode::Buffered) => None,
        Does::Send(_) | Does::Receive | Does::Exchange | Does::ReceiveMatched | Does::Collective => {
            Some(true)
        }
        Does::MakeCommunicator(_) => Some(true),
        _ => None,
    }
}
