//! Puts together what becomes known of calls and messages piece by piece.
//!
//! What a call did to messages is known when the call is over. A message is known when its send and its receive are, and the
//! call that completed the receive is over. Which of these comes first depends on the job. Memory stays the same however long
//! that takes: what has waited for too long is given out as far as it is known.

use analyzer::messages::{CallId, MessageFacts, MessageId};
use analyzer::timeline::kept_map::KeptMap;

use super::exported::{CallParts, CompletedMessage, ExportedMessage, Reception};

/// Calls, sends and receives that wait, each.
const MOST_WAITING: usize = 1 << 18;

/// A send that no receive is known of.
#[derive(Clone, Copy, Debug)]
struct PostedSend {
    time_ns: u64,
    facts: MessageFacts,
}

/// A receive that is not over, or of which no send is known.
#[derive(Clone, Copy, Debug, Default)]
struct Receiving {
    /// Which send, once that is known, and what is known of that.
    send: Option<(MessageId, Option<PostedSend>)>,
    received: Option<Reception>,
    /// What its own side says.
    facts: Option<MessageFacts>,
}

/// See the [module](self).
#[derive(Debug)]
pub struct CallAssembly {
    calls: KeptMap<CallId, CallParts>,
    sends: KeptMap<MessageId, PostedSend>,
    receives: KeptMap<MessageId, Receiving>,
    ready: Vec<ExportedMessage>,
}

impl Default for CallAssembly {
    fn default() -> Self {
        Self::with_most(MOST_WAITING)
    }
}

impl CallAssembly {
    fn with_most(most: usize) -> Self {
        Self {
            calls: KeptMap::new(most),
            sends: KeptMap::new(most),
            receives: KeptMap::new(most),
            ready: Vec::new(),
        }
    }

    /// A message is given to the library.
    pub fn posted(&mut self, message: MessageId, facts: MessageFacts, time_ns: u64) {
        self.parts(message.call).posted.push((message, facts));
        if facts.sends {
            self.sends.entry(message, || PostedSend { time_ns, facts });
        }
    }

    /// A message is over.
    pub fn completed(&mut self, message: MessageId, by: CallId, facts: MessageFacts, cancelled: bool) {
        self.parts(by).completed.push(CompletedMessage { message, facts, cancelled });
    }

    /// What a collective call began is over.
    pub fn collective_completed(&mut self, call: CallId, by: CallId) {
        self.parts(by).collectives.push(call);
    }

    /// A receive has got a send's message.
    pub fn matched(&mut self, send: MessageId, receive: MessageId) {
        let sent = self.sends.remove(send);
        let receiving = self.receiving(receive);
        receiving.send = Some((send, sent));
        self.give_out_if_whole(receive);
    }

    /// A call is over: what it did to messages. `time_ns`: when it returned, or was made if that was not seen.
    pub fn call(&mut self, call: CallId, time_ns: u64) -> CallParts {
        let mut parts = self.calls.remove(call).unwrap_or_default();
        for completed in &mut parts.completed {
            if !completed.facts.sends && !completed.cancelled {
                self.received(completed, Reception { by: call, time_ns });
            }
        }
        parts
    }

    /// A receive is over: what its send says is known of it too.
    fn received(&mut self, completed: &mut CompletedMessage, by: Reception) {
        let receive = completed.message;
        let receiving = self.receiving(receive);
        receiving.received = Some(by);
        if let Some((send, sent)) = receiving.send {
            let facts = &mut completed.facts;
            facts.peer_rank = facts.peer_rank.or(Some(send.call.rank));
            let sent = sent.map(|sent| sent.facts);
            // A message that a probe has taken does not say which communicator it is of.
            facts.comm = facts.comm.or(sent.and_then(|sent| sent.comm));
            facts.tag = facts.tag.or(sent.and_then(|sent| sent.tag));
            facts.len_bytes = facts.len_bytes.or(sent.and_then(|sent| sent.len_bytes));
        }
        receiving.facts = Some(completed.facts);
        self.give_out_if_whole(receive);
    }

    fn parts(&mut self, call: CallId) -> &mut CallParts {
        self.calls.entry(call, CallParts::default).0
    }

    fn receiving(&mut self, receive: MessageId) -> &mut Receiving {
        let (receiving, given_up) = self.receives.entry(receive, Receiving::default);
        self.ready.extend(given_up.and_then(|(name, given_up)| message(name, given_up)));
        receiving
    }

    fn give_out_if_whole(&mut self, receive: MessageId) {
        let is_whole = |receiving: &mut Receiving| receiving.send.is_some() && receiving.received.is_some();
        if self.receives.get_mut(receive).is_some_and(is_whole)
            && let Some(whole) = self.receives.remove(receive)
        {
            self.ready.extend(message(receive, whole));
        }
    }

    /// Messages of which all is known that will be.
    pub fn take_messages(&mut self) -> impl Iterator<Item = ExportedMessage> + use<'_> {
        self.ready.drain(..)
    }

    /// There is no more to come.
    pub fn end(&mut self) {
        let Self { receives, ready, .. } = self;
        ready.extend(receives.drain().filter_map(|(receive, left)| message(receive, left)));
    }
}

/// What is known of a message; none: nobody sent it that is known.
fn message(receive: MessageId, receiving: Receiving) -> Option<ExportedMessage> {
    let (send, sent) = receiving.send?;
    let sides = [receiving.facts, sent.map(|sent| sent.facts)];
    let known = |of: fn(&MessageFacts) -> Option<u64>| sides.iter().flatten().find_map(of);
    Some(ExportedMessage {
        send,
        receive,
        sent_ns: sent.map(|sent| sent.time_ns),
        received: receiving.received,
        comm: sides.iter().flatten().find_map(|facts| facts.comm),
        tag: sides.iter().flatten().find_map(|facts| facts.tag),
        len_bytes: known(|facts| facts.len_bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(rank: u32, number: u32) -> CallId {
        CallId { rank, tid: 10 + rank, number }
    }

    fn message_of(rank: u32, number: u32) -> MessageId {
        MessageId { call: id(rank, number), part: 0 }
    }

    fn facts(sends: bool) -> MessageFacts {
        let known = sends.then_some(8);
        MessageFacts {
            sends,
            comm: Some(0),
            peer: None,
            peer_rank: None,
            tag: sends.then_some(5),
            len_bytes: known,
        }
    }

    /// Rank 0 sends in its call 1; rank 1 posts a receive in its call 1 and waits for it in its call 2.
    fn step(assembly: &mut CallAssembly, step: usize) {
        let (send, receive) = (message_of(0, 1), message_of(1, 1));
        match step {
            0 => assembly.posted(send, facts(true), 100),
            1 => assembly.matched(send, receive),
            2 => assembly.completed(receive, id(1, 2), facts(false), false),
            _ => drop(assembly.call(id(1, 2), 300)),
        }
    }

    #[test]
    fn a_message_is_given_out_once_when_both_sides_are_known_whatever_is_told_first() {
        let expected = ExportedMessage {
            send: message_of(0, 1),
            receive: message_of(1, 1),
            sent_ns: Some(100),
            received: Some(Reception { by: id(1, 2), time_ns: 300 }),
            comm: Some(0),
            tag: Some(5),
            len_bytes: Some(8),
        };
        for order in [[0, 1, 2, 3], [0, 2, 3, 1], [2, 0, 1, 3], [2, 3, 0, 1]] {
            let mut assembly = CallAssembly::default();
            let mut given: Vec<ExportedMessage> = Vec::new();
            for at in order {
                step(&mut assembly, at);
                given.extend(assembly.take_messages());
            }
            assembly.end();
            given.extend(assembly.take_messages());
            assert_eq!(given, [expected], "{order:?}");
        }
    }

    #[test]
    fn what_a_call_did_is_told_with_what_the_other_side_knows() {
        let mut assembly = CallAssembly::default();
        (0..3).for_each(|at| step(&mut assembly, at));
        let parts = assembly.call(id(1, 2), 300);
        let facts = parts.completed[0].facts;
        assert_eq!((facts.peer_rank, facts.tag, facts.len_bytes), (Some(0), Some(5), Some(8)));
        assert_eq!(assembly.call(id(0, 1), 120).posted.len(), 1);
    }

    #[test]
    fn a_matched_message_that_waits_for_too_long_is_not_forgotten() {
        let mut assembly = CallAssembly::with_most(2);
        for number in 1..=4 {
            assembly.posted(message_of(0, number), facts(true), 100);
            assembly.matched(message_of(0, number), message_of(1, number));
        }
        assert_eq!(assembly.take_messages().count(), 2);
        assembly.end();
        let rest: Vec<_> = assembly.take_messages().map(|message| message.send.call.number).collect();
        assert_eq!(rest, [3, 4]);
    }
}
