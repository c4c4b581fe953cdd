//! One queue pair: who is at its other end, and how much has gone through it.

use super::names::{QueueEnd, endpoint_name, stream_name};
use super::sent_requests::SentRequests;
use crate::tape::wire::Header;

/// A direction of a queue pair, and how far it is.
#[derive(Clone, Copy, Debug, Default)]
struct Direction {
    /// Name of its stream; 0: none yet.
    stream: u64,
    /// Behind each message one position is left out, so that messages do not touch each other.
    position: u32,
    last_use: Option<LastUse>,
}

/// When a thread last did something.
#[derive(Clone, Copy, Debug)]
struct LastUse {
    tid: u32,
    end_ns: u64,
}

/// Where in a stream something goes or comes from; 0: in none.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamPlace {
    pub stream: u64,
    pub position: u32,
    pub receive: bool,
}

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(super) struct QueuePair {
    /// All that was posted to it was seen, in its order.
    is_ordered: bool,
    /// Its shared receive queue; 0: none.
    pub(super) shared: u32,
    ends: Option<(QueueEnd, QueueEnd)>,
    outgoing: Direction,
    incoming: Direction,
    pub(super) sends: SentRequests,
}

impl QueuePair {
    pub(super) fn new(is_ordered: bool, shared: u32) -> Self {
        Self { is_ordered, shared, ..Self::default() }
    }

    /// The other end is known from here on. `psn`: the number of the first packet that comes from it.
    pub(super) fn connect(&mut self, own: QueueEnd, peer: QueueEnd, psn: u32) {
        self.ends = Some((own, peer));
        self.incoming.stream = stream_name(peer, own, psn);
    }

    /// It may send from here on, with this number of its first packet.
    pub(super) fn begin_to_send(&mut self, psn: u32) {
        if let Some((own, peer)) = self.ends {
            self.outgoing.stream = stream_name(own, peer, psn);
        }
    }

    /// Name of the other end; 0: not connected.
    pub(super) fn peer_name(&self) -> u64 {
        self.ends.map_or(0, |(_, peer)| endpoint_name(peer))
    }

    /// Something of it may not have been seen.
    pub(super) fn lose_order(&mut self) {
        self.is_ordered = false;
    }

    /// A thread has posted to the send queue, which took so long.
    pub(super) fn note_post(&mut self, h: &Header, took_ns: u64) {
        self.is_ordered &= self.outgoing.is_used_alone(h, took_ns);
    }

    /// A thread has polled a completion of a receive, which took so long; `is_in_turn`: the next that was posted.
    pub(super) fn note_poll(&mut self, h: &Header, took_ns: u64, is_in_turn: bool) {
        self.is_ordered &= self.incoming.is_used_alone(h, took_ns) && is_in_turn;
    }

    /// Where the next bytes go.
    pub(super) fn next_out(&self) -> StreamPlace {
        self.place(&self.outgoing, false)
    }

    /// Where the next bytes come from.
    pub(super) fn next_in(&self) -> StreamPlace {
        self.place(&self.incoming, true)
    }

    fn place(&self, direction: &Direction, receive: bool) -> StreamPlace {
        let stream = if self.is_ordered { direction.stream } else { 0 };
        StreamPlace { stream, position: direction.position, receive }
    }

    /// Bytes of a message have gone; `is_whole`: they were its last.
    pub(super) fn pass_out(&mut self, bytes: u32, is_whole: bool) {
        self.outgoing.pass(bytes, is_whole);
    }

    /// A message has come.
    pub(super) fn pass_in(&mut self, bytes: u32) {
        self.incoming.pass(bytes, true);
    }
}

impl Direction {
    fn pass(&mut self, bytes: u32, is_whole: bool) {
        self.position = self.position.wrapping_add(bytes).wrapping_add(is_whole.into());
    }

    /// Whether nobody else was at it at the same moment: who came first is not known then.
    fn is_used_alone(&mut self, h: &Header, took_ns: u64) -> bool {
        let before = self.last_use.replace(LastUse { tid: h.tid, end_ns: h.time_ns });
        before.is_none_or(|before| before.tid == h.tid || before.end_ns <= h.time_ns.saturating_sub(took_ns))
    }
}
