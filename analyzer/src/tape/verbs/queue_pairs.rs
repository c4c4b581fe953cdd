//! All queue pairs of a machine, as records tell of them.

use rustc_hash::FxHashMap;

use super::enums::{RECEIVED, RECEIVED_WRITE, RELIABLE_CONNECTED, operation, queue_state as state};
use super::names::{RdmaAddress, endpoint_name, ends};
use super::put::{LocalBytes, put_endpoint, put_notice, put_remote, put_stream};
use super::queue_pair::QueuePair;
use super::receive_queues::{Posted, ReceiveQueues};
use super::seen::SeenFrom;
use super::sent_requests::PendingRead;
use crate::tape::wire::{Body, CallContext, Header, QueueChange, RawRecord, Record, WorkSegment, kind};

/// Most queue pairs that are known; others are in no stream.
const MAX_PAIRS: usize = 1 << 16;
/// Most requests that are kept until reads among them have completed: of one queue pair, and of all.
const MAX_SENDS: usize = 1 << 14;
const MAX_SENDS_OF_ALL: usize = 1 << 20;

/// In place of the number of a queue pair.
const NOT_KNOWN: u32 = 0;

/// Process, and the number of the queue pair.
type PairKey = (u32, u32);

/// See the [module](super). Takes records in order of time.
#[derive(Debug, Default)]
pub(crate) struct QueuePairs {
    addresses: Vec<RdmaAddress>,
    seen: SeenFrom,
    pairs: FxHashMap<PairKey, QueuePair>,
    /// Of those that are connected, by the names of their ends.
    ends: FxHashMap<u64, PairKey>,
    /// Of all pairs together.
    sends: usize,
    receives: ReceiveQueues,
}

/// Whether a record tells of queue pairs.
#[inline]
pub(crate) fn is_of_verbs(kind: u16) -> bool {
    matches!(kind, kind::WORK | kind::COMPLETION | kind::QUEUE)
}

impl QueuePairs {
    /// Probes are at all that matters from a moment on; addresses of this machine, as they are then.
    pub(crate) fn begin(&mut self, time_ns: u64, addresses: Vec<RdmaAddress>) {
        self.addresses = addresses;
        self.seen.begin(time_ns);
        self.pairs.values_mut().for_each(QueuePair::lose_order);
    }

    /// Something may not have been seen up to a moment: of one process, or of all.
    pub(crate) fn lose(&mut self, pid: Option<u32>, until_ns: u64) {
        self.seen.lose(pid, until_ns);
        let of_it = self.pairs.iter_mut().filter(|((of, _), _)| pid.is_none_or(|pid| pid == *of));
        of_it.for_each(|(_, pair)| pair.lose_order());
    }

    /// A process is gone, or another program runs in it.
    pub(crate) fn forget_process(&mut self, pid: u32) {
        self.seen.forget_process(pid);
        if !self.pairs.is_empty() {
            self.pairs.retain(|(of, _), _| *of != pid);
            self.ends.retain(|_, (of, _)| *of != pid);
            self.sends = self.pairs.values().map(|pair| pair.sends.len()).sum();
        }
        self.receives.forget_process(pid);
    }

    /// What a record moves.
    pub(crate) fn take(&mut self, raw: &RawRecord, out: &mut impl FnMut(RawRecord)) {
        let Ok(Record { header: h, body }) = Record::decode(raw) else { return };
        match body {
            Body::Queue(change) => self.change(&h, &change, out),
            Body::Work(work) if work.receive => {
                let has_room = self.receives.post(&h, &work);
                if !has_room {
                    self.lose(None, h.time_ns);
                }
            }
            Body::Work(work) => self.send(&h, &work, out),
            Body::Completion { queue: NOT_KNOWN, .. } => self.complete_unknown(&h, out),
            Body::Completion { status, queue, .. } if status != 0 => {
                if let Some(pair) = self.pairs.get_mut(&(h.pid, queue)) {
                    pair.lose_order();
                    self.sends -= pair.sends.len();
                    pair.sends.take_all();
                }
            }
            Body::Completion { operation, .. } if operation & RECEIVED != 0 => self.receive(&h, &body, out),
            Body::Completion { number, queue, context, .. } => {
                self.complete_sends(&h, queue, number, context, out)
            }
            _ => {}
        }
    }

    fn change(&mut self, h: &Header, change: &QueueChange, out: &mut impl FnMut(RawRecord)) {
        let key = (h.pid, change.queue);
        match change.state {
            state::RESET => self.forget_pair(key),
            state::INIT => {
                self.forget_pair(key);
                let is_ordered = self.seen.has(h) && change.transport == RELIABLE_CONNECTED;
                if self.pairs.len() < MAX_PAIRS {
                    self.pairs.insert(key, QueuePair::new(is_ordered, change.shared));
                }
            }
            state::READY_TO_RECEIVE => self.connect(h, change, out),
            state::FOUND_CONNECTED => self.find(h, change, out),
            state::READY_TO_SEND => {
                if let Some(pair) = self.pairs.get_mut(&key).filter(|pair| pair.is_connected()) {
                    pair.begin_to_send(change.psn);
                    put_endpoint(h, pair, out);
                }
            }
            state::DRAINED | state::IN_USE => {}
            _ => {
                if let Some(pair) = self.pairs.get_mut(&key) {
                    pair.lose_order();
                }
            }
        }
    }

    fn forget_pair(&mut self, key: PairKey) {
        if let Some(gone) = self.pairs.remove(&key) {
            self.sends -= gone.sends.len();
            if self.ends.get(&gone.own_name()) == Some(&key) {
                self.ends.remove(&gone.own_name());
            }
        }
        self.receives.forget_queue(key.0, key.1);
    }

    /// The other end is known from here on.
    fn connect(&mut self, h: &Header, change: &QueueChange, out: &mut impl FnMut(RawRecord)) {
        let key = (h.pid, change.queue);
        if !self.pairs.contains_key(&key) && self.pairs.len() >= MAX_PAIRS {
            return;
        }
        let (own, peer) = ends(change, &self.addresses);
        // One that was set up unseen is connected all the same.
        let pair = self.pairs.entry(key).or_default();
        pair.connect(own, peer, change.psn);
        self.ends.insert(endpoint_name(own), key);
        put_endpoint(h, pair, out);
    }

    /// It was connected unseen, and is asked for later: what happened since then counts.
    fn find(&mut self, h: &Header, change: &QueueChange, out: &mut impl FnMut(RawRecord)) {
        let key = (h.pid, change.queue);
        if self.pairs.get(&key).is_some_and(QueuePair::is_connected) {
            return;
        }
        self.connect(h, change, out);
        if let Some(pair) = self.pairs.get_mut(&key) {
            pair.shared = change.shared;
            pair.begin_to_send(change.psn);
            put_endpoint(h, pair, out);
        }
    }

    fn send(&mut self, h: &Header, work: &WorkSegment, out: &mut impl FnMut(RawRecord)) {
        let is_read = matches!(
            work.operation,
            operation::RDMA_READ | operation::COMPARE_AND_SWAP | operation::FETCH_AND_ADD
        );
        let key = (h.pid, work.queue);
        if is_read && self.pairs.len() < MAX_PAIRS {
            // When it has completed must be known of any.
            self.pairs.entry(key).or_default();
        }
        let Some(pair) = self.pairs.get_mut(&key) else {
            return post(&mut QueuePair::default(), h, work, out);
        };
        post(pair, h, work, out);
        let kept = pair.sends.len();
        let posted = pair.next_out();
        pair.sends.note(work, is_read.then_some(PendingRead { work: *work, posted, probe: h.probe }));
        self.sends = self.sends - kept + pair.sends.len();
        if pair.sends.len() > MAX_SENDS || self.sends > MAX_SENDS_OF_ALL {
            self.give_up_sends(key, h, out);
        }
    }

    /// There is no room for what a queue pair has under way: what it reads goes where nobody knows from where.
    fn give_up_sends(&mut self, key: PairKey, h: &Header, out: &mut impl FnMut(RawRecord)) {
        let Some(pair) = self.pairs.get_mut(&key) else { return };
        self.sends -= pair.sends.len();
        for PendingRead { work, posted, probe } in pair.sends.take_all() {
            put_remote(&Header { probe, ..*h }, &work, (0, posted), work.context, out);
        }
    }

    /// A completion of which it is not known what it is of: any queue pair of the process may have moved something.
    fn complete_unknown(&mut self, h: &Header, out: &mut impl FnMut(RawRecord)) {
        self.lose(Some(h.pid), h.time_ns);
        let reading = self.pairs.iter().filter(|((pid, _), pair)| *pid == h.pid && pair.sends.len() > 0);
        let reading: Vec<PairKey> = reading.map(|(key, _)| *key).collect();
        reading.into_iter().for_each(|key| self.give_up_sends(key, h, out));
    }

    /// Data has arrived.
    fn receive(&mut self, h: &Header, body: &Body, out: &mut impl FnMut(RawRecord)) {
        let &Body::Completion { number, queue, len_bytes, operation, took_ns, idle_ns, context, .. } = body
        else {
            return;
        };
        let key = (h.pid, queue);
        let mut none = QueuePair::default();
        let shared = self.pairs.get(&key).map_or(0, |pair| pair.shared);
        let mut taken = self.receives.take(h, (queue, shared), number);
        if let Some(pair) = self.pairs.get_mut(&key) {
            pair.note_poll(h, took_ns, idle_ns, taken.is_in_order);
        }
        self.find_sender(key, h.time_ns);
        let pair = self.pairs.get_mut(&key).unwrap_or(&mut none);
        if taken.is_ambiguous && !pair.is_whole() {
            taken.posted = None;
        }
        let mut place = pair.next_in();
        let moved_bytes = if operation == RECEIVED_WRITE { 0 } else { len_bytes };
        pair.pass_in(moved_bytes);
        if moved_bytes == 0 {
            return put_notice(h, place, context, out);
        }
        let unknown = Posted { number, segments: vec![(0, len_bytes)] };
        let mut left_bytes = len_bytes;
        for (addr, room_bytes) in taken.posted.unwrap_or(unknown).segments {
            let len_bytes = room_bytes.min(left_bytes);
            if len_bytes > 0 {
                put_stream(h, LocalBytes { addr, len_bytes }, place, context, out);
            }
            place.position = place.position.wrapping_add(len_bytes);
            left_bytes -= len_bytes;
        }
    }

    /// Where the other end is of this node too, it tells where it is.
    fn find_sender(&mut self, key: PairKey, time_ns: u64) {
        let Some(pair) = self.pairs.get(&key).filter(|pair| pair.is_connected()) else { return };
        let Some(peer) = self.ends.get(&pair.peer_name()).copied().filter(|peer| *peer != key) else {
            return;
        };
        let own_name = pair.own_name();
        if let [Some(pair), Some(sender)] = self.pairs.get_disjoint_mut([&key, &peer])
            && sender.peer_name() == own_name
        {
            pair.find_sender(sender, time_ns);
        }
    }

    /// A request has completed, and with it all that were posted before it.
    fn complete_sends(
        &mut self,
        h: &Header,
        queue: u32,
        number: u64,
        context: CallContext,
        out: &mut impl FnMut(RawRecord),
    ) {
        let Some(pair) = self.pairs.get_mut(&(h.pid, queue)) else { return };
        pair.note_completion(h, number);
        let kept = pair.sends.len();
        let reads = pair.sends.complete(number);
        self.sends = self.sends - kept + pair.sends.len();
        for PendingRead { work, posted, probe } in reads {
            put_remote(&Header { probe, ..*h }, &work, (pair.peer_name(), posted), context, out);
        }
    }
}

#[cfg(test)]
impl QueuePairs {
    /// Requests and segments of them that are kept.
    pub(super) fn kept(&self) -> usize {
        self.sends + self.receives.kept()
    }

    /// What is counted is what there is.
    pub(super) fn check(&self) {
        let sends = self.pairs.values().map(|pair| pair.sends.counted());
        assert_eq!(self.sends, sends.sum::<usize>());
        self.receives.check();
        assert!(
            self.sends <= MAX_SENDS_OF_ALL && self.pairs.values().all(|pair| pair.sends.len() <= MAX_SENDS)
        );
    }
}

/// What is posted to a send queue; reads move nothing yet.
fn post(pair: &mut QueuePair, h: &Header, work: &WorkSegment, out: &mut impl FnMut(RawRecord)) {
    if work.segment == 0 {
        pair.note_post(h, work);
    }
    let is_last = u16::from(work.segment) + 1 >= work.segments.into();
    let WorkSegment { addr, len_bytes, context, .. } = *work;
    match work.operation {
        operation::SEND | operation::SEND_WITH_IMMEDIATE | operation::SEND_WITH_INVALIDATE => {
            put_stream(h, LocalBytes { addr, len_bytes }, pair.next_out(), context, out);
            pair.pass_out(len_bytes, is_last);
        }
        operation::RDMA_WRITE | operation::RDMA_WRITE_WITH_IMMEDIATE => {
            put_remote(h, work, (pair.peer_name(), pair.next_out()), context, out);
            if work.operation == operation::RDMA_WRITE_WITH_IMMEDIATE && is_last {
                put_notice(h, pair.next_out(), context, out);
                pair.pass_out(0, true);
            }
        }
        _ => {}
    }
}
