//! Goes through the calls of all threads in the order in which one waits for another, and says when each would have begun
//! and ended.
//!
//! A call is worked out when all is known that it may have waited for: which messages they were, and when those would have
//! been sent. So it does not matter in which order calls are told, and only what is under way is kept.

mod dependencies;
mod found;
mod solved;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

use super::bounds::Bounds;
use super::call_step::{CallKind, CollectiveShape, TimedCall};
use super::ledger::CallCosts;
use super::transfers::{KnownTransfers, TransferKind, Transfers, size_class};
use super::waits::{ClockSlackNs, Moment, OwnWay, shift_of_end};
use crate::job::messages::{CallId, CollectiveId, MessageId};
use crate::timeline::kept_map::KeptMap;

use found::FoundDependencies;
pub use solved::{BegunCall, ReceivedMessage, SolvedCall, SolvedMoment};

/// Calls that wait at most: beyond that, the oldest goes on as if what it waits for were not known.
const MOST_WAITING: usize = 1 << 18;
/// Messages and calls that are remembered for those who wait for them.
const MOST_KEPT: usize = 1 << 18;

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
                self.end(number, step, begin, found);
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
            self.solved.push(SolvedMoment::Begins(Box::new(BegunCall::of(step, begin))));
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

    fn end(&mut self, number: usize, step: TimedCall, begin: Moment, found: FoundDependencies) {
        let before = self.threads[number].last;
        let way = self.own_way(&step, begin, before);
        let end = match step.end_ns {
            None => begin,
            Some(end_ns) => Moment { at_ns: end_ns, shift: self.shift(&way, &found) },
        };
        self.learn(&step, &way, &found);
        self.forget(&step);
        let thread = &mut self.threads[number];
        (thread.last, thread.begun, thread.gives_up) = (Some(end), None, false);
        self.waiting -= 1;
        // Without watching it would have asked less often, so that this time it begins earlier.
        let begin = if step.kind == CallKind::Polls { begin.not_after(end) } else { begin };
        let FoundDependencies { is_open, messages: received, .. } = found;
        let call = SolvedCall { step, begin, end, before, is_open, received };
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
