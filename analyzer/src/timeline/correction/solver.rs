//! Goes through the calls of all threads in the order in which one waits for another, and says when each would have begun
//! and ended.
//!
//! A call is worked out when all is known that it may have waited for: which messages they were, and when those would have
//! been sent. So it does not matter in which order calls are told, and only what is under way is kept.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

use super::bounds::Bounds;
use super::call_step::{CallKind, CollectiveShape, EnteredCollective, PostedEnvelope, TimedCall};
use super::kept_map::KeptMap;
use super::ledger::CallCosts;
use super::transfers::{KnownTransfers, TransferKind, TransferTimes, Transfers, size_class};
use super::waits::{ClockSlackNs, Moment, OwnWay, WaitCause, held_up_on_the_way, shift_of_end};
use crate::job::messages::{CallId, CollectiveId, MessageId};
use crate::tape::input::CodePlace;

/// Calls that wait at most: beyond that, the oldest goes on as if what it waits for were not known.
const MOST_WAITING: usize = 1 << 18;
/// Messages and calls that are remembered for those who wait for them.
const MOST_KEPT: usize = 1 << 18;

/// A call that was worked out.
#[derive(Clone, Debug)]
pub struct SolvedCall {
    /// The call.
    pub step: TimedCall,
    /// When it begins.
    pub begin: Moment,
    /// When it ends; the same if it was not seen to return.
    pub end: Moment,
    /// When the call before it ended; none: it is the first of its thread.
    pub before: Option<Moment>,
    /// What it waited for is not known.
    pub is_open: bool,
    /// Messages that it received, as they were sent.
    pub received: Vec<ReceivedMessage>,
}

/// A call has begun, and what it posts can be waited for.
#[derive(Clone, Debug)]
pub struct BegunCall {
    /// Which.
    pub id: CallId,
    /// Name as in the standard.
    pub name: &'static str,
    /// When.
    pub begin: Moment,
    /// Where it was made.
    pub place: Option<CodePlace>,
    /// It posts messages.
    pub posts: bool,
    /// Of what it sends, if that is known.
    pub sends: Option<PostedEnvelope>,
    /// Of what it receives, if that is known.
    pub receives: Option<PostedEnvelope>,
    /// It receives from whoever comes first.
    pub is_from_anybody: bool,
    /// Collective calls that it enters.
    pub entered: Vec<EnteredCollective>,
}

/// What was worked out, in an order in which nothing comes before what it depends on.
#[derive(Clone, Debug)]
pub enum SolvedMoment {
    /// When a call begins.
    Begins(Box<BegunCall>),
    /// When it ends.
    Ends(Box<SolvedCall>),
}

/// A message that a call has received.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedMessage {
    /// The receive.
    pub receive: MessageId,
    /// The send.
    pub send: MessageId,
    /// When it was sent.
    pub sent: Moment,
    /// Length class, and what is known of such transfers.
    pub class: u8,
}

/// What is remembered of a call that posts messages.
#[derive(Clone, Copy, Debug)]
struct PostedCall {
    begin_ns: u64,
    /// When it is worked out.
    begin: Option<Moment>,
    costs: CallCosts,
    class: u8,
    end_ns: Option<u64>,
    /// How often it is still asked for: by both sides of each message that it posts. 0: it is not known.
    asked: u32,
}

/// A member of a collective call.
#[derive(Clone, Copy, Debug)]
struct EnteredMember {
    rank: u32,
    begin: Moment,
    entry: Bounds,
    held_up: Bounds,
}

#[derive(Debug, Default)]
struct CollectiveGathering {
    members: u32,
    root: Option<u32>,
    /// Ranks whose calls are told, with when those began.
    told: Vec<(u32, u64)>,
    /// Those that are worked out.
    entered: Vec<EnteredMember>,
    left: u32,
    name: &'static str,
    shape: Option<CollectiveShape>,
}

/// What has to be known first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum AwaitedFact {
    Match(MessageId),
    /// That the call is told.
    Told(CallId),
    /// That its beginning is worked out.
    Begin(CallId),
    /// That all members' calls are told.
    Members(CollectiveId),
    /// That this one's beginning is worked out.
    Member(CollectiveId, u32),
}

#[derive(Debug, Default)]
struct SolvedThread {
    steps: VecDeque<TimedCall>,
    /// End of the last call.
    last: Option<Moment>,
    /// Beginning of the first that waits, if that is worked out.
    begun: Option<Moment>,
    /// What that waits for: the thread is told when it is known.
    waits_for: Option<AwaitedFact>,
    /// What is not known will not be.
    gives_up: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Solver {
    threads: Vec<SolvedThread>,
    numbers: FxHashMap<(u32, u32), usize>,
    /// Both ways: the other side, and whether this one receives.
    matches: KeptMap<MessageId, (MessageId, bool)>,
    posted: KeptMap<CallId, PostedCall>,
    gatherings: KeptMap<CollectiveId, CollectiveGathering>,
    /// Threads by what they wait for.
    awaited: FxHashMap<AwaitedFact, Vec<usize>>,
    ready: Vec<usize>,
    waiting: usize,
    slack_ns: ClockSlackNs,
    /// Known before.
    transfers: KnownTransfers,
    /// Learnt now.
    pub learnt: Transfers,
    /// Worked out, and not asked for yet.
    solved: Vec<SolvedMoment>,
    /// Also when calls begin.
    tells_begins: bool,
}

impl Solver {
    /// `transfers`: what an earlier pass has learnt; `slack_ns`: how far clocks of ranks may be apart.
    pub fn new(transfers: &Transfers, slack_ns: ClockSlackNs) -> Self {
        Self {
            threads: Vec::new(),
            numbers: FxHashMap::default(),
            matches: KeptMap::new(MOST_KEPT),
            posted: KeptMap::new(MOST_KEPT),
            gatherings: KeptMap::new(MOST_KEPT),
            awaited: FxHashMap::default(),
            ready: Vec::new(),
            waiting: 0,
            slack_ns,
            transfers: transfers.known(),
            learnt: Transfers::default(),
            solved: Vec::new(),
            tells_begins: false,
        }
    }

    /// Tells from here on also when calls begin.
    pub fn tell_begins(&mut self) {
        self.tells_begins = true;
    }

    /// A send and the receive that got it.
    pub fn matched(&mut self, send: MessageId, receive: MessageId) {
        for (one, other, receives) in [(send, receive, false), (receive, send, true)] {
            self.matches.insert(one, (other, receives));
            self.wake(AwaitedFact::Match(one));
        }
        self.go_on();
    }

    /// A call is over.
    pub fn call(&mut self, step: TimedCall) {
        let key = (step.id.rank, step.id.tid);
        let number = *self.numbers.entry(key).or_insert(self.threads.len());
        if number == self.threads.len() {
            self.threads.push(SolvedThread::default());
        }
        self.tell(&step);
        self.threads[number].steps.push_back(step);
        self.waiting += 1;
        // One whose first call waits is told when that can go on.
        if self.threads[number].waits_for.is_none() {
            self.ready.push(number);
        }
        self.go_on();
        while self.waiting > MOST_WAITING && self.give_up_one() {}
    }

    /// When a call began is known before it is worked out.
    fn tell(&mut self, step: &TimedCall) {
        if step.posts {
            let class = size_class(step.sent_bytes);
            let (begin_ns, costs) = (step.begin_ns, step.costs);
            let asked = step.posted.saturating_mul(2);
            let posted = PostedCall { begin_ns, begin: None, costs, class, end_ns: None, asked };
            self.posted.insert(step.id, posted);
            self.wake(AwaitedFact::Told(step.id));
        }
        for entered in &step.entered {
            if self.gatherings.get(entered.collective).is_none() {
                self.gatherings.insert(entered.collective, CollectiveGathering::default());
            }
            let Some(gathering) = self.gatherings.get_mut(entered.collective) else { continue };
            (gathering.members, gathering.root) = (entered.members, gathering.root.or(entered.root));
            (gathering.name, gathering.shape) = (step.name, Some(step.shape));
            gathering.told.push((step.id.rank, step.begin_ns));
            if gathering.told.len() >= gathering.members as usize {
                self.wake(AwaitedFact::Members(entered.collective));
            }
        }
    }

    /// Nothing more will be told.
    pub fn finish(&mut self) {
        while self.give_up_one() {}
    }

    /// What was worked out since the last time, of each thread in its order.
    pub fn take(&mut self) -> Vec<SolvedMoment> {
        std::mem::take(&mut self.solved)
    }

    /// The oldest call that waits goes on without what it waits for.
    fn give_up_one(&mut self) -> bool {
        let head = |(number, thread): (usize, &SolvedThread)| {
            Some((thread.steps.front()?.end_ns.unwrap_or(0), number))
        };
        let Some((_, number)) = self.threads.iter().enumerate().filter_map(head).min() else { return false };
        self.threads[number].gives_up = true;
        self.stop_waiting(number);
        self.ready.push(number);
        self.go_on();
        true
    }

    fn wake(&mut self, awaited: AwaitedFact) {
        for number in self.awaited.remove(&awaited).unwrap_or_default() {
            self.threads[number].waits_for = None;
            self.ready.push(number);
        }
    }

    fn wait(&mut self, number: usize, awaited: AwaitedFact) {
        self.threads[number].waits_for = Some(awaited);
        self.awaited.entry(awaited).or_default().push(number);
    }

    fn stop_waiting(&mut self, number: usize) {
        let Some(awaited) = self.threads[number].waits_for.take() else { return };
        if let Entry::Occupied(mut threads) = self.awaited.entry(awaited) {
            threads.get_mut().retain(|thread| *thread != number);
            if threads.get().is_empty() {
                threads.remove();
            }
        }
    }

    fn go_on(&mut self) {
        while let Some(number) = self.ready.pop() {
            while self.advance(number) {}
        }
    }

    /// Works out the next call of a thread, if that is possible.
    fn advance(&mut self, number: usize) -> bool {
        let Some(step) = self.threads[number].steps.pop_front() else { return false };
        let begin = match self.threads[number].begun {
            Some(begin) => begin,
            None => self.begin(number, &step),
        };
        match self.dependencies(&step, self.threads[number].gives_up || step.waits_in_vain) {
            Err(awaited) => {
                self.wait(number, awaited);
                self.threads[number].steps.push_front(step);
                false
            }
            Ok(found) => {
                self.end(number, step, begin, &found);
                true
            }
        }
    }

    /// What a call would have begun at is known when the one before it is worked out.
    fn begin(&mut self, number: usize, step: &TimedCall) -> Moment {
        let thread = &mut self.threads[number];
        let before = thread.last.map_or(Bounds::default(), |last| {
            let took_ns = step.begin_ns.saturating_sub(last.at_ns) as f64;
            last.shift - step.costs.between.at_most(took_ns)
        });
        let begin = Moment { at_ns: step.begin_ns, shift: before };
        thread.begun = Some(begin);
        if self.tells_begins {
            self.solved.push(SolvedMoment::Begins(Box::new(begun(step, begin))));
        }
        if let Some(posted) = self.posted.get_mut(step.id) {
            posted.begin = Some(begin);
            self.wake(AwaitedFact::Begin(step.id));
        }
        for entered in &step.entered {
            let Some(gathering) = self.gatherings.get_mut(entered.collective) else { continue };
            let rank = step.id.rank;
            let CallCosts { entry, held_up, .. } = step.costs;
            gathering.entered.push(EnteredMember { rank, begin, entry, held_up });
            self.wake(AwaitedFact::Member(entered.collective, rank));
        }
        begin
    }

    /// All that a call may have waited for.
    fn dependencies(&self, step: &TimedCall, gives_up: bool) -> Result<FoundDependencies, AwaitedFact> {
        let mut found = FoundDependencies::default();
        if step.end_ns.is_none() {
            return Ok(found);
        }
        let share = 1.0 / step.completed.len().max(1) as f64;
        for message in &step.completed {
            match self.of_message(step, *message, share, &mut found) {
                Err(awaited) if !gives_up => return Err(awaited),
                Err(_) => found.is_open = true,
                Ok(()) => {}
            }
        }
        let own = step.entered.iter().map(|entered| entered.collective);
        for collective in step.left.iter().copied().chain(own.filter(|_| step.ends_what_it_enters)) {
            match self.of_collective(step, collective, &mut found) {
                Err(awaited) if !gives_up => return Err(awaited),
                Err(_) => found.is_open = true,
                Ok(()) => {}
            }
        }
        found.is_open |= step.kind == CallKind::WaitsForUnknown;
        Ok(found)
    }

    fn of_message(
        &self,
        step: &TimedCall,
        message: MessageId,
        share: f64,
        found: &mut FoundDependencies,
    ) -> Result<(), AwaitedFact> {
        let &(other, receives) = self.matches.get(message).ok_or(AwaitedFact::Match(message))?;
        let posted = self.posted.get(other.call).ok_or(AwaitedFact::Told(other.call))?;
        let middle = Bounds { least_ns: 0.0, ..step.costs.middle.times(share) };
        let rest = middle + step.costs.exit;
        if !receives {
            return self.of_send(step, message, *posted, other.call, rest, found);
        }
        let from = posted.begin.ok_or(AwaitedFact::Begin(other.call))?;
        let sender = Bounds { least_ns: 0.0, ..posted.costs.middle };
        let kind = TransferKind::Message(posted.class);
        let (class, transfer) = (posted.class, self.transfers.times(kind));
        found.messages.push(ReceivedMessage { receive: message, send: other, sent: from, class });
        found.sender_ended_ns = found.sender_ended_ns.max(posted.end_ns.unwrap_or(u64::MAX));
        let cost = posted.costs.entry + sender + rest;
        let held_up = posted.costs.held_up + step.costs.held_up;
        let cost = found.hold_up(from, step, held_up, cost, transfer);
        found.add(WaitCause { from, cost, is_certain: true, transfer }, kind);
        Ok(())
    }

    /// A send may have waited for a receive that began after it.
    fn of_send(
        &self,
        step: &TimedCall,
        message: MessageId,
        receive: PostedCall,
        receive_call: CallId,
        rest: Bounds,
        found: &mut FoundDependencies,
    ) -> Result<(), AwaitedFact> {
        let own = self.posted.get(message.call).ok_or(AwaitedFact::Told(message.call))?;
        let end_ns = step.end_ns.unwrap_or(step.begin_ns);
        if receive.begin_ns >= end_ns {
            found.eager = Some(own.class);
            return Ok(());
        }
        let is_certain = step.kind == CallKind::WaitsForReceive;
        if receive.begin_ns <= own.begin_ns || (!is_certain && self.transfers.is_eager(own.class)) {
            return Ok(());
        }
        let from = receive.begin.ok_or(AwaitedFact::Begin(receive_call))?;
        let kind = TransferKind::Release(own.class);
        let transfer = self.transfers.times(kind);
        let cost = receive.costs.entry + rest;
        let held_up = receive.costs.held_up + step.costs.held_up;
        let cost = found.hold_up(from, step, held_up, cost, transfer);
        found.add(WaitCause { from, cost, is_certain, transfer }, kind);
        Ok(())
    }

    fn of_collective(
        &self,
        step: &TimedCall,
        collective: CollectiveId,
        found: &mut FoundDependencies,
    ) -> Result<(), AwaitedFact> {
        let awaited = AwaitedFact::Members(collective);
        let gathering = self.gatherings.get(collective).ok_or(awaited)?;
        if gathering.told.len() < gathering.members as usize {
            return Err(awaited);
        }
        let end_ns = step.end_ns.unwrap_or(step.begin_ns);
        let is_there = |rank: u32| gathering.entered.iter().any(|member| member.rank == rank);
        if gathering.entered.len() < gathering.told.len() {
            let mut earlier = gathering.told.iter().filter(|(_, begin_ns)| *begin_ns < end_ns);
            if let Some((rank, _)) = earlier.find(|(rank, _)| !is_there(*rank)) {
                return Err(AwaitedFact::Member(collective, *rank));
            }
        }
        let kind = TransferKind::Collective(gathering.name, size_class(Some(u64::from(gathering.members))));
        let transfer = self.transfers.times(kind);
        let shape = gathering.shape.unwrap_or(CollectiveShape::Some);
        let rank = step.id.rank;
        let others = gathering.entered.iter().filter(|member| member.rank != rank);
        for member in others.filter(|member| member.begin.at_ns < end_ns) {
            let is_certain = match shape {
                CollectiveShape::AllToAll => true,
                CollectiveShape::FromRoot => gathering.root == Some(member.rank),
                CollectiveShape::ToRoot => gathering.root == Some(rank),
                CollectiveShape::Some => false,
            };
            let middle = Bounds { least_ns: 0.0, ..step.costs.middle };
            let cost = member.entry + middle + step.costs.exit;
            let held_up = member.held_up + step.costs.held_up;
            let cost = found.hold_up(member.begin, step, held_up, cost, transfer);
            found.add(WaitCause { from: member.begin, cost, is_certain, transfer }, kind);
        }
        Ok(())
    }

    fn end(&mut self, number: usize, step: TimedCall, begin: Moment, found: &FoundDependencies) {
        let before = self.threads[number].last;
        let way = self.own_way(&step, begin, before);
        let end = match step.end_ns {
            None => begin,
            Some(end_ns) => Moment { at_ns: end_ns, shift: self.shift(&way, found) },
        };
        self.learn(&step, &way, found);
        self.forget(&step);
        let thread = &mut self.threads[number];
        (thread.last, thread.begun, thread.gives_up) = (Some(end), None, false);
        self.waiting -= 1;
        let received = found.messages.clone();
        // Without watching it would have asked less often, so that this time it begins earlier.
        let begin = if step.kind == CallKind::Polls { begin.not_after(end) } else { begin };
        let call = SolvedCall { step, begin, end, before, is_open: found.is_open, received };
        self.solved.push(SolvedMoment::Ends(Box::new(call)));
    }

    fn own_way(&self, step: &TimedCall, begin: Moment, before: Option<Moment>) -> OwnWay {
        let end_ns = step.end_ns.unwrap_or(step.begin_ns);
        match (step.kind, before) {
            (CallKind::Polls, Some(before)) => OwnWay {
                begin: before,
                end_ns,
                cost: step.costs.between + step.costs.inside(),
                work: None,
                polls: true,
            },
            _ => OwnWay {
                begin,
                end_ns,
                cost: step.costs.inside(),
                work: self.transfers.times(TransferKind::Local(step.name)),
                polls: false,
            },
        }
    }

    fn shift(&self, way: &OwnWay, found: &FoundDependencies) -> Bounds {
        let shift = shift_of_end(way, &found.dependencies, self.slack_ns);
        if !found.is_open {
            return shift;
        }
        // Whom it waited for is not known: it may have been anybody, and still it does not end before it begins.
        let took_ns = way.end_ns.saturating_sub(way.begin.at_ns) as f64;
        let anybody = self.threads.iter().filter_map(|thread| thread.last);
        let wide = anybody.fold(shift, |wide, last| wide.or(last.shift));
        let least_ns = wide.least_ns.max(way.begin.shift.least_ns - took_ns);
        Bounds::of(least_ns, shift.likely_ns, wide.most_ns)
    }

    /// What this call tells of how long things take.
    fn learn(&mut self, step: &TimedCall, way: &OwnWay, found: &FoundDependencies) {
        if let Some(class) = found.eager {
            self.learnt.see_eager(class);
        }
        let is_held_up = found.is_held_up || step.costs.held_up.most_ns > 0.0;
        let tells = !way.polls && !found.is_open && !is_held_up;
        let Some(end_ns) = step.end_ns.filter(|_| tells) else { return };
        let last = found.with_kinds().max_by_key(|(dependency, _)| dependency.from.at_ns);
        match last {
            Some((last, kind)) if last.from.at_ns > step.begin_ns => {
                let took_ns = end_ns.saturating_sub(last.from.at_ns) as f64;
                self.learnt.add(*kind, (took_ns - last.cost.likely_ns).max(0.0));
            }
            // Everything was sent, and the senders went on, before this began.
            Some(_) if found.sender_ended_ns > step.begin_ns => {}
            _ => {
                let took_ns = end_ns.saturating_sub(step.begin_ns) as f64;
                self.learnt.add(TransferKind::Local(step.name), (took_ns - way.cost.likely_ns).max(0.0));
            }
        }
    }

    /// One side of a message that a call has posted is worked out: with the last one, nobody asks for that call any more.
    fn asked_for(&mut self, call: CallId) {
        if let Some(posted) = self.posted.get_mut(call).filter(|posted| posted.asked > 0) {
            posted.asked -= 1;
            if posted.asked == 0 {
                self.posted.remove(call);
            }
        }
    }

    fn forget(&mut self, step: &TimedCall) {
        if let Some(posted) = self.posted.get_mut(step.id) {
            posted.end_ns = step.end_ns;
        }
        for message in &step.completed {
            self.asked_for(message.call);
            if let Some((other, _)) = self.matches.remove(*message) {
                self.asked_for(other.call);
            }
        }
        let own = step.entered.iter().map(|entered| entered.collective).filter(|_| step.ends_what_it_enters);
        for collective in step.left.iter().copied().chain(own) {
            let Some(gathering) = self.gatherings.get_mut(collective) else { continue };
            gathering.left += 1;
            if gathering.left >= gathering.members {
                self.gatherings.remove(collective);
            }
        }
    }
}

fn begun(step: &TimedCall, begin: Moment) -> BegunCall {
    BegunCall {
        id: step.id,
        name: step.name,
        begin,
        place: step.place,
        sends: step.sends.filter(|_| step.posts),
        receives: step.receives.filter(|_| step.posts),
        posts: step.posts,
        is_from_anybody: step.is_from_anybody,
        entered: step.entered.clone(),
    }
}

/// What a call may have waited for.
#[derive(Debug, Default)]
struct FoundDependencies {
    dependencies: Vec<WaitCause>,
    kinds: Vec<TransferKind>,
    messages: Vec<ReceivedMessage>,
    /// Some of it is not known.
    is_open: bool,
    /// dmscope ran in the place of one of both: how long it took says nothing.
    is_held_up: bool,
    /// A send of this class ended before its receive began.
    eager: Option<u8>,
    /// When the last of the calls ended that sent what is received.
    sender_ended_ns: u64,
}

impl FoundDependencies {
    /// All that watching cost from there to the end of a call: `cost`, what hits did; `held_up`: what dmscope held up in both.
    fn hold_up(
        &mut self,
        from: Moment,
        step: &TimedCall,
        held_up: Bounds,
        cost: Bounds,
        transfer: Option<TransferTimes>,
    ) -> Bounds {
        self.is_held_up |= held_up.most_ns > 0.0;
        let end_ns = step.end_ns.unwrap_or(step.begin_ns);
        let took_ns = end_ns.wrapping_sub(from.at_ns).cast_signed() as f64;
        cost + held_up_on_the_way(held_up, took_ns, cost, transfer)
    }

    fn add(&mut self, dependency: WaitCause, kind: TransferKind) {
        self.dependencies.push(dependency);
        self.kinds.push(kind);
    }

    fn with_kinds(&self) -> impl Iterator<Item = (&WaitCause, &TransferKind)> {
        self.dependencies.iter().zip(&self.kinds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A send of rank 0, or a receive of rank 1.
    fn call(rank: u32, number: u32) -> TimedCall {
        let id = CallId { rank, tid: 100 + rank, number };
        let begin_ns = 1000 * u64::from(number) + u64::from(rank);
        TimedCall {
            id,
            pid: id.tid,
            name: if rank == 0 { "MPI_Send" } else { "MPI_Recv" },
            kind: CallKind::Waits,
            shape: CollectiveShape::Some,
            begin_ns,
            end_ns: Some(begin_ns + 100),
            costs: CallCosts::default(),
            sent_bytes: (rank == 0).then_some(8),
            posts: true,
            posted: 1,
            is_from_anybody: false,
            place: None,
            sends: None,
            receives: None,
            completed: vec![MessageId { call: id, part: 0 }],
            left: Vec::new(),
            waits_in_vain: false,
            entered: Vec::new(),
            ends_what_it_enters: true,
        }
    }

    fn registrations(solver: &Solver) -> usize {
        solver.awaited.values().map(Vec::len).sum()
    }

    fn ended(solver: &mut Solver) -> usize {
        solver.take().iter().filter(|moment| matches!(moment, SolvedMoment::Ends(_))).count()
    }

    #[test]
    fn a_thread_that_waits_is_registered_once_however_far_it_is_ahead() {
        const CALLS: u32 = 1000;
        let mut solver = Solver::new(&Transfers::default(), 0.0);
        (1..=CALLS).for_each(|number| solver.call(call(0, number)));
        assert_eq!((registrations(&solver), ended(&mut solver)), (1, 0));
        for number in 1..=CALLS {
            let [send, receive] = [0, 1].map(|rank| MessageId { call: call(rank, number).id, part: 0 });
            solver.matched(send, receive);
            solver.call(call(1, number));
            assert!(registrations(&solver) <= 1);
        }
        assert_eq!(ended(&mut solver), 2 * CALLS as usize);
    }

    #[test]
    fn a_call_that_waits_in_vain_goes_on_at_once_and_nobody_waits_any_more_for_what_was_given_up() {
        let mut solver = Solver::new(&Transfers::default(), 0.0);
        solver.call(TimedCall { waits_in_vain: true, ..call(0, 1) });
        let moments = solver.take();
        assert!(matches!(&moments[..], [SolvedMoment::Ends(end)] if end.is_open), "{moments:?}");
        solver.call(call(0, 2));
        assert_eq!((registrations(&solver), ended(&mut solver)), (1, 0));
        solver.finish();
        assert_eq!((registrations(&solver), ended(&mut solver)), (0, 1));
    }
}
