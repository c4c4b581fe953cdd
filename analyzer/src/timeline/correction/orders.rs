//! Whether a receive from whoever comes first would have got the same message without watching.
//!
//! The messages that race with the one that it got are those of other senders that fit it, that were not received before it,
//! and whose sending did not depend on it. When each would have arrived is known within bounds: what is apart is decided.
//! A message that is there before the receive is posted may be taken in another order than that of arrival, by the library's
//! own rule: then the order is the same only if it was so in the recorded run as well.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::call_step::PostedEnvelope;
use super::solver::{BegunCall, ReceivedMessage, SolvedCall, SolvedMoment};
use super::transfers::{KnownTransfers, TransferKind, Transfers};
use super::waits::{ClockSlackNs, Moment};
use crate::job::messages::{CallId, CollectiveId, MessageId};
use crate::mpi::handles::ANY_TAG;
use crate::tape::input::CodePlace;
use crate::timeline::kept_map::KeptMap;

/// Receives of a rank that are open to messages that come after theirs.
const MOST_OPEN: usize = 64;
/// Messages of other senders that are looked at for each.
const MOST_RIVALS: usize = 16;
/// Clocks of calls that are kept.
const MOST_CLOCKS: usize = 1 << 18;

/// What is certain of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderVerdict {
    /// The same message would have come first.
    Kept,
    /// It cannot be told.
    Undecided,
    /// Another one would have.
    Changed,
}

/// A message that could have been received instead.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RivalMessage {
    /// Its sender, in MPI_COMM_WORLD.
    pub rank: u32,
    /// Its send.
    pub send: MessageId,
    /// What is certain of these two.
    pub verdict: OrderVerdict,
}

/// A receive from whoever comes first, with other messages that could have come.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReceiveOrder {
    /// The receive.
    pub receive: MessageId,
    /// Its function.
    pub function: &'static str,
    /// Where it was posted.
    pub place: Option<CodePlace>,
    /// Whose message it got.
    pub got: u32,
    /// Others; the first of each sender.
    pub rivals: Vec<RivalMessage>,
}

impl ReceiveOrder {
    /// Of all of them: kept if it is certain of each, changed if it is of any.
    pub fn verdict(&self) -> OrderVerdict {
        let all = || self.rivals.iter().map(|rival| rival.verdict);
        match all().max() {
            Some(OrderVerdict::Changed) => OrderVerdict::Changed,
            Some(OrderVerdict::Undecided) => OrderVerdict::Undecided,
            _ => OrderVerdict::Kept,
        }
    }
}

/// How many calls of each rank have certainly been before.
type VectorClock = Rc<[u32]>;

/// When a message is there: by the clock, and without watching.
#[derive(Clone, Copy, Debug)]
struct ArrivalBounds {
    measured_ns: [f64; 2],
    corrected_ns: [f64; 2],
}

/// A receive that waits for messages which could have come instead.
#[derive(Debug)]
struct OpenReceive {
    order: ReceiveOrder,
    /// By the rank's own count of its calls, in which of them it was over.
    completed_at: u32,
    comm: u32,
    /// What it takes.
    tag: i32,
    posted: Moment,
    arrival: ArrivalBounds,
}

/// A posted receive.
#[derive(Clone, Copy, Debug)]
struct PostedReceive {
    begin: Moment,
    place: Option<CodePlace>,
    comm: u32,
    tag: i32,
    function: &'static str,
}

/// A sent message.
#[derive(Clone, Debug)]
struct SentMessage {
    /// Not known of what a persistent request sends.
    envelope: Option<PostedEnvelope>,
    /// What the sender had heard of.
    clock: VectorClock,
}

/// See the [module](self).
#[derive(Debug)]
pub struct OrderAnalysis {
    transfers: KnownTransfers,
    slack_ns: ClockSlackNs,
    posted: KeptMap<CallId, PostedReceive>,
    sent: KeptMap<CallId, SentMessage>,
    clocks: BTreeMap<u32, Vec<u32>>,
    /// What all members of a collective call had heard of that have entered it.
    entered: KeptMap<CollectiveId, Vec<u32>>,
    open: FxHashMap<u32, VecDeque<OpenReceive>>,
    decided: Vec<ReceiveOrder>,
}

impl OrderAnalysis {
    /// With what the first pass has learnt of transfers.
    pub fn new(transfers: &Transfers, slack_ns: ClockSlackNs) -> Self {
        Self {
            transfers: transfers.known(),
            slack_ns,
            posted: KeptMap::new(MOST_CLOCKS),
            sent: KeptMap::new(MOST_CLOCKS),
            clocks: BTreeMap::new(),
            entered: KeptMap::new(MOST_CLOCKS),
            open: FxHashMap::default(),
            decided: Vec::new(),
        }
    }

    /// Takes what was worked out, in that order.
    pub fn moment(&mut self, moment: &SolvedMoment) {
        match moment {
            SolvedMoment::Begins(call) => self.begin(call),
            SolvedMoment::Ends(call) => {
                for message in &call.received {
                    self.receive(call.step.id.rank, message);
                }
                self.end_epoch(call);
                self.end_collectives(call);
            }
        }
    }

    /// Receives with what is certain of them; nothing more will come.
    pub fn finish(&mut self) -> Vec<ReceiveOrder> {
        let open: Vec<OpenReceive> = self.open.drain().flat_map(|(_, open)| open).collect();
        open.into_iter().for_each(|open| self.decide(open.order));
        let mut all = std::mem::take(&mut self.decided);
        all.sort_by_key(|order| order.receive);
        all
    }

    /// No message comes any more that it could have got: one that has no rival is of no interest.
    fn decide(&mut self, order: ReceiveOrder) {
        self.decided.extend((!order.rivals.is_empty()).then_some(order));
    }

    fn clock(&mut self, rank: u32) -> &mut Vec<u32> {
        let clock = self.clocks.entry(rank).or_default();
        if clock.len() <= rank as usize {
            clock.resize(rank as usize + 1, 0);
        }
        clock
    }

    fn hear(&mut self, rank: u32, other: &[u32]) {
        join(self.clock(rank), other);
    }

    fn begin(&mut self, call: &BegunCall) {
        let rank = call.id.rank;
        self.clock(rank)[rank as usize] += 1;
        let clock = self.clock(rank).clone();
        for entered in &call.entered {
            match self.entered.get_mut(entered.collective) {
                Some(all) => join(all, &clock),
                None => self.entered.insert(entered.collective, clock.clone()),
            }
        }
        if call.posts {
            self.sent.insert(call.id, SentMessage { envelope: call.sends, clock: clock.into() });
        }
        let Some(PostedEnvelope { comm, tag }) = call.receives.filter(|_| call.is_from_anybody) else {
            return;
        };
        let (begin, place) = (call.begin, call.place);
        self.posted.insert(call.id, PostedReceive { begin, place, comm, tag, function: call.name });
    }

    /// Whoever leaves may have heard of all who have entered: what may depend on something is no rival of it.
    fn end_collectives(&mut self, call: &SolvedCall) {
        let own = call.step.entered.iter().map(|entered| entered.collective);
        let left: Vec<CollectiveId> = call.step.left.iter().copied().chain(own).collect();
        for collective in left {
            if let Some(all) = self.entered.get(collective).cloned() {
                self.hear(call.step.id.rank, &all);
            }
        }
    }

    /// So does who needed calls of others for an epoch.
    fn end_epoch(&mut self, call: &SolvedCall) {
        for awaited in &call.step.awaited {
            if let Some(clock) = self.sent.get(awaited.call).map(|sent| sent.clock.clone()) {
                self.hear(call.step.id.rank, &clock);
            }
        }
    }

    fn arrival(&self, message: &ReceivedMessage) -> ArrivalBounds {
        let times = self.transfers.times(TransferKind::Message(message.class));
        let [least_ns, most_ns] = times.map_or([0.0, f64::INFINITY], |times| [times.least_ns, times.most_ns]);
        let sent_ns = message.sent.at_ns as f64;
        let shift = message.sent.shift;
        ArrivalBounds {
            measured_ns: [sent_ns + least_ns, sent_ns + most_ns],
            corrected_ns: [sent_ns + shift.least_ns + least_ns, sent_ns + shift.most_ns + most_ns],
        }
    }

    fn receive(&mut self, rank: u32, message: &ReceivedMessage) {
        let Some(sent) = self.sent.get(message.send.call).cloned() else { return };
        let arrival = self.arrival(message);
        self.add_rival(rank, message, &sent, arrival);
        self.hear(rank, &sent.clock);
        let completed_at = self.clock(rank)[rank as usize];
        let Some(posted) = self.posted.remove(message.receive.call) else { return };
        let order = ReceiveOrder {
            receive: message.receive,
            function: posted.function,
            place: posted.place,
            got: message.send.call.rank,
            rivals: Vec::new(),
        };
        let open = self.open.entry(rank).or_default();
        let PostedReceive { begin, comm, tag, .. } = posted;
        open.push_back(OpenReceive { order, completed_at, comm, tag, posted: begin, arrival });
        if open.len() > MOST_OPEN
            && let Some(first) = open.pop_front()
        {
            self.decide(first.order);
        }
    }

    /// A message that was received later may have come instead of each that is open to it.
    fn add_rival(
        &mut self,
        rank: u32,
        message: &ReceivedMessage,
        sent: &SentMessage,
        arrival: ArrivalBounds,
    ) {
        let from = message.send.call.rank;
        let slack_ns = self.slack_ns;
        let heard = sent.clock.get(rank as usize).copied().unwrap_or(0);
        for open in self.open.entry(rank).or_default() {
            let fits = sent.envelope.is_some_and(|PostedEnvelope { comm, tag }| {
                open.comm == comm && (open.tag == ANY_TAG || open.tag == tag)
            });
            let order = &mut open.order;
            // The messages of one sender come in order: its first one is the rival.
            let is_first = order.got != from && order.rivals.iter().all(|rival| rival.rank != from);
            // Its sender had heard of a later call of this rank.
            let depends = heard > open.completed_at;
            if fits && is_first && !depends && order.rivals.len() < MOST_RIVALS {
                let verdict = verdict(open.posted, open.arrival, arrival, slack_ns);
                order.rivals.push(RivalMessage { rank: from, send: message.send, verdict });
            }
        }
    }
}

fn join(clock: &mut Vec<u32>, other: &[u32]) {
    if clock.len() < other.len() {
        clock.resize(other.len(), 0);
    }
    clock.iter_mut().zip(other).for_each(|(own, other)| *own = (*own).max(*other));
}

/// Which of two messages a receive would have got.
fn verdict(posted: Moment, got: ArrivalBounds, rival: ArrivalBounds, slack_ns: ClockSlackNs) -> OrderVerdict {
    let is_before = |one: [f64; 2], other: [f64; 2]| one[1] + slack_ns < other[0];
    let post_ns = posted.at_ns as f64;
    let measured_post = [post_ns; 2];
    let post = [post_ns + posted.shift.least_ns, post_ns + posted.shift.most_ns];
    let got_first = is_before(got.corrected_ns, rival.corrected_ns);
    let rival_first = is_before(rival.corrected_ns, got.corrected_ns);
    if got_first && is_before(post, rival.corrected_ns) {
        return OrderVerdict::Kept;
    }
    if rival_first && is_before(post, got.corrected_ns) {
        return OrderVerdict::Changed;
    }
    // Both were there already, and would have been: whatever the library's rule, it is the same.
    let are_there =
        |arrivals: [[f64; 2]; 2], post: [f64; 2]| arrivals.iter().all(|one| is_before(*one, post));
    let was_same = is_before(got.measured_ns, rival.measured_ns) && got_first;
    if was_same
        && are_there([got.measured_ns, rival.measured_ns], measured_post)
        && are_there([got.corrected_ns, rival.corrected_ns], post)
    {
        return OrderVerdict::Kept;
    }
    OrderVerdict::Undecided
}

#[cfg(test)]
mod tests {
    use super::super::bounds::Bounds;
    use super::*;

    fn arrival(measured: f64, shift: f64) -> ArrivalBounds {
        let around = |ns: f64| [ns - 50.0, ns + 50.0];
        ArrivalBounds { measured_ns: around(measured), corrected_ns: around(measured + shift) }
    }

    fn posted(at_ns: u64, shift: f64) -> Moment {
        Moment { at_ns, shift: Bounds::exactly(shift) }
    }

    #[test]
    fn what_is_apart_without_watching_is_decided() {
        let receive = posted(100, 0.0);
        let got = arrival(1000.0, 0.0);
        assert_eq!(verdict(receive, got, arrival(2000.0, 0.0), 0.0), OrderVerdict::Kept);
        assert_eq!(verdict(receive, got, arrival(2000.0, -1050.0), 0.0), OrderVerdict::Undecided);
        assert_eq!(verdict(receive, got, arrival(2000.0, -1500.0), 0.0), OrderVerdict::Changed);
        // Clocks that are not the same decide nothing that is not farther apart.
        assert_eq!(verdict(receive, got, arrival(2000.0, 0.0), 2000.0), OrderVerdict::Undecided);
    }

    #[test]
    fn of_what_was_there_before_the_receive_only_the_same_order_is_certain() {
        let receive = posted(5000, 0.0);
        let got = arrival(1000.0, 0.0);
        assert_eq!(verdict(receive, got, arrival(2000.0, 0.0), 0.0), OrderVerdict::Kept);
        assert_eq!(verdict(receive, got, arrival(2000.0, -1500.0), 0.0), OrderVerdict::Undecided);
        // One that would have been there before the receive, while the other would not.
        let late = arrival(9000.0, 0.0);
        assert_eq!(verdict(receive, late, arrival(9500.0, -8000.0), 0.0), OrderVerdict::Changed);
    }

    /// What rank `rank` posts in its call `number`, in MPI_COMM_WORLD by these tags.
    fn begins(rank: u32, number: u32, sends: Option<i32>, receives: Option<i32>) -> SolvedMoment {
        let posted = |tag: Option<i32>| tag.map(|tag| PostedEnvelope { comm: 0, tag });
        SolvedMoment::Begins(Box::new(BegunCall {
            id: call(rank, number),
            name: "MPI_Sendrecv",
            begin: moment(number),
            place: None,
            posts: true,
            sends: posted(sends),
            receives: posted(receives),
            is_from_anybody: rank == 0,
            entered: Vec::new(),
        }))
    }

    fn call(rank: u32, number: u32) -> CallId {
        CallId { rank, tid: rank, number }
    }

    fn moment(number: u32) -> Moment {
        posted(1000 * u64::from(number), 0.0)
    }

    /// Rank `receive.0` has got in its call `receive.1` what rank `send.0` sent in its call `send.1`.
    fn got(orders: &mut OrderAnalysis, receive: (u32, u32), send: (u32, u32)) {
        let id = |(rank, number)| MessageId { call: call(rank, number), part: 0 };
        let sent = moment(send.1);
        let message = ReceivedMessage { receive: id(receive), send: id(send), sent, class: 0 };
        orders.receive(receive.0, &message);
    }

    fn rivals(orders: &mut OrderAnalysis) -> Vec<(u32, Vec<u32>)> {
        let of = |order: ReceiveOrder| {
            (order.receive.call.number, order.rivals.iter().map(|rival| rival.rank).collect())
        };
        orders.finish().into_iter().map(of).collect()
    }

    #[test]
    fn what_could_have_come_is_known_by_the_tag_that_it_was_sent_with() {
        for (tag, expected) in [(5, vec![(1, vec![2])]), (9, Vec::new())] {
            let mut orders = OrderAnalysis::new(&Transfers::default(), 0.0);
            orders.moment(&begins(0, 1, None, Some(tag)));
            orders.moment(&begins(0, 2, None, Some(ANY_TAG)));
            orders.moment(&begins(1, 1, Some(tag), None));
            // It sends with tag 5 and receives with tag 9.
            orders.moment(&begins(2, 1, Some(5), Some(9)));
            got(&mut orders, (0, 1), (1, 1));
            got(&mut orders, (0, 2), (2, 1));
            assert_eq!(rivals(&mut orders), expected, "tag {tag}");
        }
    }

    #[test]
    fn what_depends_on_a_receive_by_way_of_a_persistent_request_is_no_rival_of_it() {
        let mut orders = OrderAnalysis::new(&Transfers::default(), 0.0);
        orders.moment(&begins(0, 1, None, Some(ANY_TAG)));
        orders.moment(&begins(1, 1, Some(1), None));
        got(&mut orders, (0, 1), (1, 1));
        // MPI_Start: with which tag is not known.
        orders.moment(&begins(0, 2, None, None));
        got(&mut orders, (2, 1), (0, 2));
        orders.moment(&begins(2, 2, Some(1), None));
        orders.moment(&begins(0, 3, None, Some(ANY_TAG)));
        got(&mut orders, (0, 3), (2, 2));
        assert_eq!(rivals(&mut orders), []);
    }
}
