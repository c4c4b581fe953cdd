//! One queue pair: who is at its other end, and how much has gone through it.

use super::direction::{Direction, StreamPlace};
use super::names::{QueueEnd, endpoint_name, stream_name};
use super::quiet::{ReceiverMoments, SenderMoments, lead};
use super::sent_requests::SentRequests;
use crate::tape::wire::{Header, WorkSegment};

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(super) struct QueuePair {
    /// It was set up when all probes were there.
    is_whole: bool,
    /// Its shared receive queue; 0: none.
    pub(super) shared: u32,
    ends: Option<(QueueEnd, QueueEnd)>,
    outgoing: Direction,
    incoming: Direction,
    sent: SenderMoments,
    taken: ReceiverMoments,
    pub(super) sends: SentRequests,
}

impl QueuePair {
    pub(super) fn new(is_ordered: bool, shared: u32) -> Self {
        let direction = Direction::new(is_ordered);
        Self { is_whole: is_ordered, shared, outgoing: direction, incoming: direction, ..Self::default() }
    }

    /// The other end is known from here on. `psn`: the number of the first packet that comes from it.
    pub(super) fn connect(&mut self, own: QueueEnd, peer: QueueEnd, psn: u32) {
        self.ends = Some((own, peer));
        self.incoming.begin(stream_name(peer, own, psn));
    }

    /// It may send from here on, with this number of its first packet.
    pub(super) fn begin_to_send(&mut self, psn: u32) {
        if let Some((own, peer)) = self.ends {
            self.outgoing.begin(stream_name(own, peer, psn));
        }
    }

    /// Names of what comes through it and of what goes; 0: none yet.
    pub(super) fn streams(&self) -> (u64, u64) {
        (self.incoming.stream(), self.outgoing.stream())
    }

    pub(super) fn is_connected(&self) -> bool {
        self.ends.is_some()
    }

    /// All that was posted to it was seen, or would have been.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Name of this end; 0: not connected.
    pub(super) fn own_name(&self) -> u64 {
        self.ends.map_or(0, |(own, _)| endpoint_name(own))
    }

    /// Name of the other end; 0: not connected.
    pub(super) fn peer_name(&self) -> u64 {
        self.ends.map_or(0, |(_, peer)| endpoint_name(peer))
    }

    /// Something of it may not have been seen.
    pub(super) fn lose_order(&mut self) {
        self.is_whole = false;
        self.lose_outgoing();
        self.lose_incoming();
    }

    fn lose_outgoing(&mut self) {
        self.outgoing.lose();
        self.sent = SenderMoments::default();
    }

    fn lose_incoming(&mut self) {
        self.incoming.lose();
        self.taken = ReceiverMoments::default();
    }

    /// A thread has posted a request to the send queue.
    pub(super) fn note_post(&mut self, h: &Header, work: &WorkSegment) {
        let took_ns = work.took_ns.into();
        if !self.outgoing.note_use(h, took_ns) {
            self.lose_outgoing();
        }
        let begin_ns = h.time_ns.saturating_sub(took_ns);
        self.sent.note_post(work.number, begin_ns, self.outgoing.position());
    }

    /// A request of the send queue has completed.
    pub(super) fn note_completion(&mut self, h: &Header, number: u64) {
        self.sent.note_completion(number, h.time_ns);
    }

    /// A thread has polled a completion of a receive, which took so long, and had found nothing so long ago; `is_in_turn`: it is
    /// of the next that was posted.
    pub(super) fn note_poll(&mut self, h: &Header, took_ns: u32, idle_ns: u32, is_in_turn: bool) {
        if !is_in_turn {
            self.lose_order();
        }
        if !self.incoming.note_use(h, took_ns.into()) {
            self.lose_incoming();
        }
        if idle_ns > 0 {
            let idle_at_ns = h.time_ns.saturating_sub(idle_ns.into());
            self.taken.note_message(idle_at_ns, self.incoming.position());
        }
    }

    /// Both ends are here: whether this one still knows where the other one is, or can know it now.
    pub(super) fn find_sender(&mut self, sender: &mut Self, time_ns: u64) {
        if self.incoming.is_known() {
            if !self.incoming.agrees_with(&sender.outgoing) {
                self.lose_incoming();
            }
        } else if let Some(lead) = lead(&sender.sent, &self.taken) {
            sender.outgoing.find(time_ns);
            self.incoming.follow(&sender.outgoing, lead);
        }
    }

    /// Where the next bytes go.
    pub(super) fn next_out(&self) -> StreamPlace {
        self.outgoing.place(false)
    }

    /// Where the next bytes come from.
    pub(super) fn next_in(&self) -> StreamPlace {
        self.incoming.place(true)
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
