//! Puts together what is told of a call, and what watching it cost.

use rustc_hash::FxHashMap;

use super::call_step::{CallKind, CollectiveShape, EnteredCollective, PostedEnvelope, TimedCall};
use super::ledger::HitLedger;
use crate::job::messages::{AwaitedCall, Call, CallId, CollectiveId, MessageEvent, MessageId, Messages};
use crate::mpi::calls::{Arg, Does, Envelope, EpochStep, Form, WindowSync};
use crate::timeline::kept_map::KeptMap;

/// Calls of which something is told before they are over.
const MOST_UNDER_WAY: usize = 1 << 18;

/// What was told of a call that is not over.
#[derive(Debug, Default)]
struct CallUnderWay {
    waits_in_vain: bool,
    posted: u32,
    completed: Vec<MessageId>,
    left: Vec<CollectiveId>,
    entered: Vec<EnteredCollective>,
    /// Of a call on an epoch, if that is known.
    awaited: Option<Vec<AwaitedCall>>,
}

/// What a call or a pair of messages is for whoever goes through them.
#[derive(Debug)]
pub enum GatheredEvent {
    /// A call is over.
    Call(Box<TimedCall>),
    /// A send and the receive that got it.
    Matched(MessageId, MessageId),
}

/// See the [module](self).
#[derive(Debug)]
pub struct Gatherer {
    under_way: FxHashMap<CallId, CallUnderWay>,
    /// Collective calls by the calls that entered them last.
    begun: KeptMap<CallId, CollectiveId>,
    /// When the last call of a thread ended.
    ends_ns: FxHashMap<CallId, u64>,
}

impl Default for Gatherer {
    fn default() -> Self {
        let begun = KeptMap::new(MOST_UNDER_WAY);
        Self { under_way: FxHashMap::default(), begun, ends_ns: FxHashMap::default() }
    }
}

impl Gatherer {
    /// Takes what was told.
    pub fn event(
        &mut self,
        messages: &Messages,
        ledger: &mut HitLedger,
        event: MessageEvent,
    ) -> Option<GatheredEvent> {
        match event {
            MessageEvent::Matched { send, receive } => return Some(GatheredEvent::Matched(send, receive)),
            // Nobody is waited for.
            MessageEvent::Completed { cancelled: true, .. } => {}
            MessageEvent::Completed { message, by, facts, .. } => {
                // Nothing is said of what a lost rank received.
                let receiver = if facts.sends { facts.peer_rank } else { Some(by.rank) };
                let is_lost = receiver.is_some_and(|rank| messages.is_lost(rank));
                let call = self.under_way(by)?;
                call.waits_in_vain |= is_lost;
                call.completed.push(message);
            }
            MessageEvent::CollectiveCompleted { call, by } => {
                let begun = self.begun.remove(call)?;
                self.under_way(by)?.left.push(begun);
            }
            MessageEvent::Entered { collective, by, members, root } => {
                self.begun.insert(by, collective);
                let is_lost = messages.has_lost_member(collective);
                let call = self.under_way(by)?;
                call.waits_in_vain |= is_lost;
                call.entered.push(EnteredCollective { collective, members, root });
            }
            MessageEvent::EpochAwaited { by, awaited } => {
                let is_lost = awaited.iter().any(|awaited| messages.is_lost(awaited.call.rank));
                let call = self.under_way(by)?;
                call.waits_in_vain |= is_lost;
                call.awaited = Some(awaited);
            }
            MessageEvent::Posted { message, .. } => self.under_way(message.call)?.posted += 1,
            MessageEvent::Call { id, call, end_ns, .. } => {
                let step = self.step(messages, ledger, id, &call, end_ns);
                return Some(GatheredEvent::Call(Box::new(step)));
            }
        }
        None
    }

    fn under_way(&mut self, by: CallId) -> Option<&mut CallUnderWay> {
        let has_room = self.under_way.len() < MOST_UNDER_WAY || self.under_way.contains_key(&by);
        has_room.then(|| self.under_way.entry(by).or_default())
    }

    fn step(
        &mut self,
        messages: &Messages,
        ledger: &mut HitLedger,
        id: CallId,
        call: &Call,
        end_ns: Option<u64>,
    ) -> TimedCall {
        let CallUnderWay { waits_in_vain, posted, completed, left, entered, awaited } =
            self.under_way.remove(&id).unwrap_or_default();
        let mut costs = ledger.take((call.pid, call.tid), call.begin_ns);
        if call.pid == call.tid {
            let thread = CallId { number: 0, ..id };
            let last_ns = end_ns.unwrap_or(call.begin_ns);
            let before_ns = self.ends_ns.insert(thread, last_ns).unwrap_or(call.begin_ns);
            costs.between += ledger.unrecorded(call.pid, before_ns, call.begin_ns);
            costs.middle += ledger.unrecorded(call.pid, call.begin_ns, last_ns);
        }
        let row = call.row;
        let starts = row.does == Does::Start;
        let kind = match CallKind::of(row) {
            // On a communicator or window that is not known.
            _ if row.form == Form::Blocking && entered.is_empty() && row.collective().is_some() => {
                CallKind::WaitsForUnknown
            }
            CallKind::WaitsForUnknown if awaited.is_some() => CallKind::Waits,
            kind => kind,
        };
        TimedCall {
            id,
            pid: call.pid,
            name: &row.name,
            kind,
            shape: if starts || may_not_wait(call) {
                CollectiveShape::Some
            } else {
                CollectiveShape::of(row)
            },
            begin_ns: call.begin_ns,
            end_ns: end_ns.map(|end_ns| end_ns.max(call.begin_ns)),
            costs,
            sent_bytes: messages.sent_bytes(call),
            posts: posts(row.does),
            posted,
            is_from_anybody: messages.is_from_anybody(call),
            place: None,
            sends: envelope(messages, call, row.sends()),
            receives: envelope(messages, call, row.receives()),
            waits_in_vain,
            completed,
            left,
            entered,
            awaited: awaited.unwrap_or_default(),
            ends_what_it_enters: row.form == Form::Blocking && !starts,
        }
    }
}

/// Whether the program promises of a fence that no epoch ends with it: then it may return before others come (MPI 4.0,
/// section 12.5.1).
fn may_not_wait(call: &Call) -> bool {
    /// MPI_MODE_NOPRECEDE of Open MPI and of MPICH; neither calls another assertion of fences so.
    const NO_PRECEDE: u64 = 2 | 8192;
    call.argument(Arg::Assertion).is_some_and(|assertion| assertion & NO_PRECEDE != 0)
}

fn posts(does: Does) -> bool {
    matches!(
        does,
        Does::Send(_)
            | Does::Receive
            | Does::Exchange
            | Does::Start
            | Does::ReceiveMatched
            | Does::ProbeMatched
            | Does::Window(WindowSync::Epoch(EpochStep::Posts | EpochStep::Completes))
    )
}

fn envelope(messages: &Messages, call: &Call, named: Option<Envelope>) -> Option<PostedEnvelope> {
    let envelope = named?;
    let (comm, _) = messages.communicator_of(call.pid, call.word(envelope.comm)?)?;
    Some(PostedEnvelope { comm: comm.0, tag: call.integer(envelope.tag)? })
}
