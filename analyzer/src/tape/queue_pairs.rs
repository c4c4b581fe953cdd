//! Queue pairs of RDMA verbs: what work requests and completions move.
//!
//! A queue pair that is reliably connected delivers what is sent in its order: the n-th message that one end sends is the
//! n-th that the other receives, into the memory that its n-th receive named. So it is a stream like one of TCP, whose
//! positions both ends count. An RDMA write, read or atomic operation names the memory of the process at the other end itself.
//! Records of both are made here from what was posted and polled; what becomes of them is the same as for all others.
//!
//! Order is known of a queue pair whose whole life was seen. Whatever may have hidden a work request from us (a loss, a
//! pause, probes that came later, an error, threads that post at the same moment) ends that, until it is set up anew: what it
//! moves is then in no stream, and neither is that of transports which may lose messages or have many ends.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::receive_queues::{Posted, ReceiveQueues};
use super::wire::{Body, CallContext, Header, QueueChange, RawRecord, Record, WorkSegment, kind};

/// Most queue pairs that are known; others are in no stream.
const MAX_PAIRS: usize = 1 << 16;
/// Most requests of a queue pair that are kept until a read among them has completed.
const MAX_SENDS: usize = 1 << 14;
/// `IBV_QPT_RC`
const RELIABLE_CONNECTED: u8 = 2;
/// Of `enum ibv_send_flags`: it asks for a completion.
const SIGNALED: u8 = 2;
/// Of `enum ibv_wc_opcode`.
const RECEIVED: u32 = 1 << 7;
const RECEIVED_WRITE: u32 = RECEIVED | 1;

/// `enum ibv_qp_state`
mod state {
    pub const RESET: u8 = 0;
    pub const INIT: u8 = 1;
    pub const READY_TO_RECEIVE: u8 = 2;
    pub const READY_TO_SEND: u8 = 3;
    pub const DRAINED: u8 = 4;
}

/// `enum ibv_wr_opcode`: what a work request does.
pub(crate) mod operation {
    pub const RDMA_WRITE: u8 = 0;
    pub const RDMA_WRITE_WITH_IMMEDIATE: u8 = 1;
    pub const SEND: u8 = 2;
    pub const SEND_WITH_IMMEDIATE: u8 = 3;
    pub const RDMA_READ: u8 = 4;
    pub const COMPARE_AND_SWAP: u8 = 5;
    pub const FETCH_AND_ADD: u8 = 6;
    pub const SEND_WITH_INVALIDATE: u8 = 9;
}

/// An address of a port of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RdmaAddress {
    /// Name of the device, as much of it as is in a record.
    pub device: [u64; 2],
    /// Of the device.
    pub port: u8,
    /// Number of the GID; none: this is the port's LID.
    pub index: Option<u8>,
    /// A GID as it lies in memory, or zero and a LID.
    pub address: [u64; 2],
}

/// A read or an atomic operation that has not completed.
#[derive(Clone, Copy, Debug)]
struct PendingRead {
    work: WorkSegment,
    probe: u32,
}

/// A request whose completion is waited for, or that lies between such.
#[derive(Clone, Debug)]
struct SentRequest {
    number: u64,
    is_signaled: bool,
    reads: Vec<PendingRead>,
}

/// When a thread last did something.
#[derive(Clone, Copy, Debug)]
struct LastUse {
    tid: u32,
    end_ns: u64,
}

#[derive(Clone, Debug, Default)]
struct QueuePair {
    /// All that was posted to it was seen, in its order.
    is_ordered: bool,
    shared: u32,
    own_address: [u64; 2],
    peer_address: [u64; 2],
    peer: u32,
    /// Name of the other end; 0: not connected.
    peer_name: u64,
    /// Streams to the other end and from it; 0: none yet.
    outgoing: u64,
    incoming: u64,
    /// Their positions: behind each message one is left out, so that messages do not touch each other.
    sent: u32,
    received: u32,
    sends: VecDeque<SentRequest>,
    last_post: Option<LastUse>,
    last_poll: Option<LastUse>,
}

/// See the [module](self). Takes records in order of time.
#[derive(Debug)]
pub(crate) struct QueuePairs {
    addresses: Vec<RdmaAddress>,
    /// What is set up after this is seen from its beginning: of all processes, and of some.
    seen_from_ns: u64,
    seen_from_by_process: FxHashMap<u32, u64>,
    pairs: FxHashMap<(u32, u32), QueuePair>,
    receives: ReceiveQueues,
}

impl Default for QueuePairs {
    fn default() -> Self {
        Self {
            addresses: Vec::new(),
            seen_from_ns: u64::MAX,
            seen_from_by_process: FxHashMap::default(),
            pairs: FxHashMap::default(),
            receives: ReceiveQueues::default(),
        }
    }
}

/// Whether a record tells of queue pairs.
#[inline]
pub(super) fn is_of_verbs(kind: u16) -> bool {
    matches!(kind, kind::WORK | kind::COMPLETION | kind::QUEUE)
}

impl QueuePairs {
    /// Probes are at all that matters from a moment on; addresses of this machine, as they are then.
    pub(super) fn begin(&mut self, time_ns: u64, addresses: Vec<RdmaAddress>) {
        self.addresses = addresses;
        self.seen_from_ns = time_ns;
        self.pairs.values_mut().for_each(|pair| pair.is_ordered = false);
    }

    /// Something may not have been seen up to a moment: of one process, or of all.
    pub(super) fn lose(&mut self, pid: Option<u32>, until_ns: u64) {
        match pid {
            Some(pid) => {
                let from_ns = self.seen_from_by_process.entry(pid).or_default();
                *from_ns = until_ns.max(*from_ns);
            }
            None if self.seen_from_ns < u64::MAX => self.seen_from_ns = self.seen_from_ns.max(until_ns),
            None => {}
        }
        let of_it = self.pairs.iter_mut().filter(|((of, _), _)| pid.is_none_or(|pid| pid == *of));
        of_it.for_each(|(_, pair)| pair.is_ordered = false);
    }

    /// A process is gone, or another program runs in it.
    pub(super) fn forget_process(&mut self, pid: u32) {
        self.seen_from_by_process.remove(&pid);
        if !self.pairs.is_empty() {
            self.pairs.retain(|(of, _), _| *of != pid);
        }
        self.receives.forget_process(pid);
    }

    /// What a record moves.
    pub(super) fn take(&mut self, raw: &RawRecord, out: &mut impl FnMut(RawRecord)) {
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
            Body::Completion { status, queue, .. } if status != 0 => {
                if let Some(pair) = self.pairs.get_mut(&(h.pid, queue)) {
                    pair.is_ordered = false;
                    pair.sends.clear();
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
                if self.pairs.len() < MAX_PAIRS {
                    let is_ordered = self.is_seen(h) && change.transport == RELIABLE_CONNECTED;
                    self.pairs
                        .insert(key, QueuePair { is_ordered, shared: change.shared, ..QueuePair::default() });
                }
            }
            state::READY_TO_RECEIVE => self.connect(h, change, out),
            state::READY_TO_SEND => {
                if let Some(pair) = self.pairs.get_mut(&key).filter(|pair| pair.peer_name != 0) {
                    let (own, peer) = ((pair.own_address, change.queue), (pair.peer_address, pair.peer));
                    pair.outgoing = stream_name(own, peer, change.psn);
                }
            }
            state::DRAINED => {}
            _ => {
                if let Some(pair) = self.pairs.get_mut(&key) {
                    pair.is_ordered = false;
                }
            }
        }
    }

    fn forget_pair(&mut self, key: (u32, u32)) {
        self.pairs.remove(&key);
        self.receives.forget_queue(key.0, key.1);
    }

    /// Whether what is set up now is seen from its beginning.
    fn is_seen(&self, h: &Header) -> bool {
        let of_process = self.seen_from_by_process.get(&h.pid).copied().unwrap_or(0);
        h.time_ns > self.seen_from_ns.max(of_process)
    }

    /// The other end is known from here on.
    fn connect(&mut self, h: &Header, change: &QueueChange, out: &mut impl FnMut(RawRecord)) {
        let peer_address = if change.is_global { change.address } else { [0, u64::from(change.lid)] };
        // Unless it is known, both ends are taken to be of one device; if they are not, nothing fits together.
        let own_address = self.address_of(change).unwrap_or(peer_address);
        if !self.pairs.contains_key(&(h.pid, change.queue)) && self.pairs.len() >= MAX_PAIRS {
            return;
        }
        // One that was set up unseen is connected all the same.
        let pair = self.pairs.entry((h.pid, change.queue)).or_default();
        let (own, peer) = ((own_address, change.queue), (peer_address, change.peer));
        (pair.own_address, pair.peer_address, pair.peer) = (own_address, peer_address, change.peer);
        pair.incoming = stream_name(peer, own, change.psn);
        pair.peer_name = endpoint_name(peer);
        out(Record { header: *h, body: Body::Endpoint { name: endpoint_name(own) } }.encode());
    }

    fn address_of(&self, change: &QueueChange) -> Option<[u64; 2]> {
        let index = change.is_global.then_some(change.index);
        let device = up_to_nul(change.device);
        let is_it =
            |known: &&RdmaAddress| (known.device, known.port, known.index) == (device, change.port, index);
        self.addresses.iter().find(is_it).map(|known| known.address)
    }

    fn send(&mut self, h: &Header, work: &WorkSegment, out: &mut impl FnMut(RawRecord)) {
        let pair = self.pairs.get_mut(&(h.pid, work.queue));
        let mut none = QueuePair::default();
        let pair = pair.unwrap_or(&mut none);
        if work.segment == 0 {
            pair.is_ordered &= is_alone(&mut pair.last_post, h, work.took_ns.into());
        }
        let is_last = work.segment + 1 >= work.segments;
        let (stream, position) = (pair.stream_out(), pair.sent);
        let WorkSegment { addr, len_bytes, context, .. } = *work;
        let mut reads = Vec::new();
        match work.operation {
            operation::SEND | operation::SEND_WITH_IMMEDIATE | operation::SEND_WITH_INVALIDATE => {
                put_stream(h, (addr, len_bytes), (stream, position, false), context, out);
                pair.sent = pair.sent.wrapping_add(len_bytes).wrapping_add(is_last.into());
            }
            operation::RDMA_WRITE | operation::RDMA_WRITE_WITH_IMMEDIATE => {
                put_remote(h, work, pair.peer_name, context, out);
                let tells = work.operation == operation::RDMA_WRITE_WITH_IMMEDIATE && is_last;
                if tells {
                    put_stream(h, (0, 0), (stream, position, false), context, out);
                }
                pair.sent = pair.sent.wrapping_add(tells.into());
            }
            operation::RDMA_READ | operation::COMPARE_AND_SWAP | operation::FETCH_AND_ADD => {
                reads.push(PendingRead { work: *work, probe: h.probe });
            }
            _ => {}
        }
        pair.note_send(work, reads);
    }

    /// Data has arrived.
    fn receive(&mut self, h: &Header, body: &Body, out: &mut impl FnMut(RawRecord)) {
        let &Body::Completion { number, queue, len_bytes, operation, took_ns, context, .. } = body else {
            return;
        };
        let pair = self.pairs.get_mut(&(h.pid, queue));
        let mut none = QueuePair::default();
        let pair = pair.unwrap_or(&mut none);
        pair.is_ordered &= is_alone(&mut pair.last_poll, h, took_ns);
        let taken = self.receives.take(h, (queue, pair.shared), number);
        pair.is_ordered &= taken.is_in_order;
        let (stream, position) = (pair.stream_in(), pair.received);
        if operation == RECEIVED_WRITE {
            pair.received = pair.received.wrapping_add(1);
            return put_stream(h, (0, 0), (stream, position, true), context, out);
        }
        pair.received = pair.received.wrapping_add(len_bytes).wrapping_add(1);
        if len_bytes == 0 {
            return put_stream(h, (0, 0), (stream, position, true), context, out);
        }
        let unknown = Posted { number, segments: vec![(0, len_bytes)] };
        let (mut position, mut left_bytes) = (position, len_bytes);
        for (addr, room_bytes) in taken.posted.unwrap_or(unknown).segments {
            let part_bytes = room_bytes.min(left_bytes);
            if part_bytes > 0 {
                put_stream(h, (addr, part_bytes), (stream, position, true), context, out);
            }
            position = position.wrapping_add(part_bytes);
            left_bytes -= part_bytes;
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
        let position = |is_it: &dyn Fn(&SentRequest) -> bool| pair.sends.iter().position(is_it);
        // A queue pair may ask for all completions without saying so in each request.
        let signaled = position(&|sent| sent.is_signaled && sent.number == number);
        let Some(last) = signaled.or_else(|| position(&|sent| sent.number == number)) else { return };
        for read in pair.sends.drain(..=last).flat_map(|sent| sent.reads) {
            let header = Header { probe: read.probe, ..*h };
            put_remote(&header, &read.work, pair.peer_name, context, out);
        }
    }
}

impl QueuePair {
    fn stream_out(&self) -> u64 {
        if self.is_ordered { self.outgoing } else { 0 }
    }

    fn stream_in(&self) -> u64 {
        if self.is_ordered { self.incoming } else { 0 }
    }

    /// Requests matter from the first read on that has not completed.
    fn note_send(&mut self, work: &WorkSegment, mut reads: Vec<PendingRead>) {
        if work.segment > 0 && !reads.is_empty() {
            if let Some(last) = self.sends.back_mut().filter(|last| last.number == work.number) {
                last.reads.append(&mut reads);
            }
            return;
        }
        if work.segment > 0 || (reads.is_empty() && self.sends.is_empty()) {
            return;
        }
        if self.sends.len() >= MAX_SENDS {
            self.sends.pop_front();
        }
        let is_signaled = work.send_flags & SIGNALED != 0;
        self.sends.push_back(SentRequest { number: work.number, is_signaled, reads });
    }
}

/// A name without what lies behind its end.
fn up_to_nul(words: [u64; 2]) -> [u64; 2] {
    let mut is_over = false;
    words.map(|word| {
        let bytes = word.to_ne_bytes().map(|byte| {
            is_over |= byte == 0;
            if is_over { 0 } else { byte }
        });
        u64::from_ne_bytes(bytes)
    })
}

/// Whether nobody else was at it at the same moment: who came first is not known then.
fn is_alone(last: &mut Option<LastUse>, h: &Header, took_ns: u64) -> bool {
    let now = LastUse { tid: h.tid, end_ns: h.time_ns };
    let before = last.replace(now);
    before.is_none_or(|before| before.tid == h.tid || before.end_ns <= h.time_ns.saturating_sub(took_ns))
}

/// A message without data is told as well if it is in a stream: it comes after it was sent, and after all that was written
/// before it.
fn put_stream(
    h: &Header,
    (addr, len_bytes): (u64, u32),
    (stream, position, receive): (u64, u32, bool),
    context: CallContext,
    out: &mut impl FnMut(RawRecord),
) {
    if len_bytes > 0 || stream != 0 {
        let body = Body::Stream { addr, stream, position, len_bytes, receive, context };
        out(Record { header: *h, body }.encode());
    }
}

/// Bytes that go to memory of the other end or come from there; nobody knows where, unless it is known who that is.
fn put_remote(
    h: &Header,
    work: &WorkSegment,
    peer: u64,
    context: CallContext,
    out: &mut impl FnMut(RawRecord),
) {
    let &WorkSegment { addr, remote, len_bytes, operation, .. } = work;
    let write = matches!(operation, operation::RDMA_WRITE | operation::RDMA_WRITE_WITH_IMMEDIATE);
    let atomic = matches!(operation, operation::COMPARE_AND_SWAP | operation::FETCH_AND_ADD);
    if peer == 0 {
        return put_stream(h, (addr, len_bytes), (0, 0, !write), context, out);
    }
    if len_bytes > 0 {
        let body = Body::Remote { addr, remote, peer, len_bytes, write, atomic, context };
        out(Record { header: *h, body }.encode());
    }
}

/// One end: its address, and the number of its queue pair.
type QueueEnd = ([u64; 2], u32);

fn stream_name(from: QueueEnd, to: QueueEnd, psn: u32) -> u64 {
    mixed(mixed(mixed(0, endpoint_name(from)), endpoint_name(to)), u64::from(psn)).max(1)
}

fn endpoint_name((address, queue): QueueEnd) -> u64 {
    mixed(mixed(mixed(0, address[0]), address[1]), u64::from(queue)).max(1)
}

fn mixed(hash: u64, word: u64) -> u64 {
    let hash = (hash ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: [u64; 2] = [0, 1];
    const AWAY: [u64; 2] = [0, 2];
    /// Process and queue pair of either end.
    const A: (u32, u32) = (10, 17);
    const B: (u32, u32) = (20, 18);
    const SEND: u8 = operation::SEND;

    /// What one record makes: from memory or into it, address, stream, position and length.
    #[derive(Debug, PartialEq, Eq, Clone, Copy)]
    struct Moved {
        receive: bool,
        addr: u64,
        stream: u64,
        position: u32,
        len_bytes: u32,
    }

    struct Scene {
        pairs: QueuePairs,
        time_ns: u64,
        made: Vec<Body>,
    }

    impl Scene {
        fn new() -> Self {
            let mut pairs = QueuePairs::default();
            let address =
                |device, address| RdmaAddress { device: [device, 0], port: 1, index: Some(3), address };
            pairs.begin(5, vec![address(1, HOME), address(2, AWAY)]);
            Self { pairs, time_ns: 10, made: Vec::new() }
        }

        /// Both ends are connected under our eyes.
        fn connected() -> Self {
            let mut scene = Self::new();
            scene.connect(0);
            scene
        }

        fn connect(&mut self, shared: u32) {
            for (own, peer, device, address) in [(A, B, 1, AWAY), (B, A, 2, HOME)] {
                for state in [state::INIT, state::READY_TO_RECEIVE, state::READY_TO_SEND] {
                    let change = QueueChange {
                        address,
                        queue: own.1,
                        peer: peer.1,
                        state,
                        transport: RELIABLE_CONNECTED,
                        port: 1,
                        index: 3,
                        is_global: true,
                        shared,
                        device: [device, 0],
                        ..QueueChange::default()
                    };
                    self.take(own.0, 1, Body::Queue(change));
                }
            }
        }

        fn take(&mut self, pid: u32, tid: u32, body: Body) {
            self.time_ns += 10;
            let header = Header { time_ns: self.time_ns, pid, tid, probe: 4 };
            let made = &mut self.made;
            let mut out = |raw: RawRecord| made.push(Record::decode(&raw).expect("made here").body);
            self.pairs.take(&Record { header, body }.encode(), &mut out);
        }

        fn post(&mut self, end: (u32, u32), work: WorkSegment) {
            self.take(end.0, 1, Body::Work(WorkSegment { queue: end.1, ..work }));
        }

        fn send(&mut self, end: (u32, u32), addr: u64, len_bytes: u32) {
            self.post(
                end,
                WorkSegment { addr, len_bytes, operation: SEND, segments: 1, ..WorkSegment::default() },
            );
        }

        fn post_receive(&mut self, end: (u32, u32), number: u64, addr: u64) {
            let work = WorkSegment {
                addr,
                number,
                len_bytes: 100,
                segments: 1,
                receive: true,
                ..WorkSegment::default()
            };
            self.post(end, work);
        }

        fn poll(&mut self, end: (u32, u32), number: u64, len_bytes: u32, operation: u32) {
            self.poll_by(1, 0, end, number, len_bytes, operation);
        }

        fn poll_by(
            &mut self,
            tid: u32,
            took_ns: u64,
            end: (u32, u32),
            number: u64,
            len_bytes: u32,
            operation: u32,
        ) {
            let context = CallContext::default();
            let queue = end.1;
            self.take(
                end.0,
                tid,
                Body::Completion { number, queue, len_bytes, operation, status: 0, took_ns, context },
            );
        }

        /// What moved into streams and out of them since it was last asked.
        fn moved(&mut self) -> Vec<Moved> {
            let moved = self.made.drain(..).filter_map(|body| match body {
                Body::Stream { addr, stream, position, len_bytes, receive, .. } if len_bytes > 0 => {
                    Some(Moved { receive, addr, stream, position, len_bytes })
                }
                _ => None,
            });
            moved.collect()
        }
    }

    #[test]
    fn the_nth_message_that_is_sent_is_the_nth_that_is_received() {
        let mut scene = Scene::connected();
        scene.post_receive(B, 1, 500);
        scene.post_receive(B, 2, 600);
        scene.send(A, 100, 8);
        scene.send(A, 200, 0);
        scene.send(A, 300, 4);
        scene.poll(B, 1, 8, RECEIVED);
        scene.post_receive(B, 3, 700);
        scene.poll(B, 2, 0, RECEIVED);
        scene.poll(B, 3, 4, RECEIVED);
        let moved = scene.moved();
        let stream = moved[0].stream;
        let at = |receive, addr, position, len_bytes| Moved { receive, addr, stream, position, len_bytes };
        assert_ne!(stream, 0);
        assert_eq!(
            moved,
            [at(false, 100, 0, 8), at(false, 300, 10, 4), at(true, 500, 0, 8), at(true, 700, 10, 4)]
        );
    }

    #[test]
    fn each_direction_has_a_stream_of_its_own_and_segments_are_filled_in_turn() {
        let mut scene = Scene::connected();
        for (segment, addr) in [(0, 500), (1, 600)] {
            let work = WorkSegment {
                addr,
                len_bytes: 6,
                number: 1,
                segment,
                segments: 2,
                receive: true,
                ..WorkSegment::default()
            };
            scene.post(A, work);
        }
        for (segment, addr) in [(0, 100), (1, 200)] {
            let work = WorkSegment {
                addr,
                len_bytes: 5,
                operation: SEND,
                segment,
                segments: 2,
                ..WorkSegment::default()
            };
            scene.post(B, work);
        }
        scene.poll(A, 1, 10, RECEIVED);
        scene.send(A, 1, 1);
        let moved = scene.moved();
        let places: Vec<_> = moved.iter().map(|m| (m.addr, m.position, m.len_bytes)).collect();
        assert_eq!(places, [(100, 0, 5), (200, 5, 5), (500, 0, 6), (600, 6, 4), (1, 0, 1)]);
        assert!(moved[..4].iter().all(|m| m.stream == moved[0].stream));
        assert_ne!(moved[4].stream, moved[0].stream);
    }

    #[test]
    fn receives_of_a_shared_queue_are_told_by_their_numbers() {
        let mut scene = Scene::new();
        scene.connect(77);
        for (number, addr) in [(1, 500), (2, 600)] {
            let work = WorkSegment {
                queue: 77,
                number,
                addr,
                len_bytes: 10,
                segments: 1,
                receive: true,
                shared: true,
                ..WorkSegment::default()
            };
            scene.take(B.0, 1, Body::Work(work));
        }
        scene.send(A, 100, 8);
        scene.poll(B, 2, 8, RECEIVED);
        let moved = scene.moved();
        assert_eq!((moved[1].addr, moved[1].stream), (600, moved[0].stream));
    }

    #[test]
    fn whatever_may_have_hidden_a_request_takes_the_order_until_it_is_set_up_anew() {
        let spoil: [fn(&mut Scene); 6] = [
            |scene| scene.pairs.lose(Some(A.0), scene.time_ns),
            |scene| scene.pairs.lose(None, scene.time_ns),
            |scene| scene.pairs.begin(scene.time_ns, Vec::new()),
            |scene| {
                let context = CallContext::default();
                scene.take(
                    A.0,
                    1,
                    Body::Completion {
                        number: 1,
                        queue: A.1,
                        len_bytes: 0,
                        operation: 0,
                        status: 5,
                        took_ns: 0,
                        context,
                    },
                );
            },
            // Two threads post at the same moment.
            |scene| {
                scene.send(A, 1, 1);
                let work = WorkSegment {
                    queue: A.1,
                    operation: SEND,
                    segments: 1,
                    took_ns: 11,
                    len_bytes: 1,
                    ..WorkSegment::default()
                };
                scene.take(A.0, 2, Body::Work(work));
            },
            // A receive was taken out of turn.
            |scene| {
                scene.post_receive(A, 1, 5);
                scene.post_receive(A, 2, 6);
                scene.poll(A, 2, 1, RECEIVED);
            },
        ];
        for (case, spoil) in spoil.into_iter().enumerate() {
            let mut scene = Scene::connected();
            spoil(&mut scene);
            scene.moved();
            scene.send(A, 100, 8);
            assert_eq!(scene.moved()[0].stream, 0, "case {case}");
            scene.connect(0);
            scene.send(A, 100, 8);
            assert_ne!(scene.moved()[0].stream, 0, "case {case}");
        }
    }

    #[test]
    fn what_was_set_up_before_probes_were_there_is_in_no_stream_but_its_ends_are_known() {
        let mut scene = Scene::new();
        scene.pairs.begin(1000, Vec::new());
        scene.connect(0);
        scene.send(A, 100, 8);
        assert_eq!(scene.moved()[0].stream, 0);
        let work = WorkSegment { addr: 1, remote: 2, len_bytes: 3, segments: 1, ..WorkSegment::default() };
        scene.post(A, work);
        assert!(matches!(
            scene.made[..],
            [Body::Remote { addr: 1, remote: 2, len_bytes: 3, write: true, .. }]
        ));
    }

    #[test]
    fn an_operation_names_the_process_that_has_the_other_end() {
        let mut scene = Scene::connected();
        let ends: Vec<Body> = scene.made.drain(..).collect();
        let [Body::Endpoint { name: a }, Body::Endpoint { name: b }] = ends[..] else { panic!("{ends:?}") };
        let write = WorkSegment { addr: 1, remote: 2, len_bytes: 3, segments: 1, ..WorkSegment::default() };
        scene.post(A, write);
        scene.post(B, write);
        let peers: Vec<u64> = scene
            .made
            .iter()
            .map(|body| if let Body::Remote { peer, .. } = body { *peer } else { 0 })
            .collect();
        assert_eq!(peers, [b, a]);
    }

    #[test]
    fn a_read_has_happened_when_it_or_what_follows_it_has_completed() {
        let mut scene = Scene::connected();
        scene.made.clear();
        let read = WorkSegment {
            addr: 1,
            number: 7,
            remote: 2,
            len_bytes: 3,
            operation: operation::RDMA_READ,
            segments: 1,
            ..WorkSegment::default()
        };
        scene.post(A, read);
        let atomic = WorkSegment { number: 8, operation: operation::FETCH_AND_ADD, len_bytes: 8, ..read };
        scene.post(A, atomic);
        let last = WorkSegment { number: 9, operation: SEND, send_flags: SIGNALED, len_bytes: 0, ..read };
        scene.post(A, last);
        scene.made.retain(|body| !matches!(body, Body::Stream { .. }));
        assert_eq!(scene.made, []);
        scene.poll(A, 9, 0, 0);
        let read =
            |body: &Body| matches!(body, Body::Remote { write: false, atomic: false, len_bytes: 3, .. });
        let atomic =
            |body: &Body| matches!(body, Body::Remote { write: false, atomic: true, len_bytes: 8, .. });
        assert!(read(&scene.made[0]) && atomic(&scene.made[1]) && scene.made.len() == 2, "{:?}", scene.made);
    }

    #[test]
    fn a_write_that_tells_the_other_end_takes_a_receive_and_moves_nothing_into_it() {
        let mut scene = Scene::connected();
        scene.post_receive(B, 1, 500);
        scene.post_receive(B, 2, 600);
        let write = WorkSegment {
            addr: 1,
            remote: 2,
            len_bytes: 3,
            operation: operation::RDMA_WRITE_WITH_IMMEDIATE,
            segments: 1,
            ..WorkSegment::default()
        };
        scene.post(A, write);
        scene.send(A, 100, 8);
        scene.poll(B, 1, 3, RECEIVED_WRITE);
        scene.poll(B, 2, 8, RECEIVED);
        let moved = scene.moved();
        assert_eq!(moved.len(), 2);
        assert_eq!(
            (moved[1].addr, moved[1].stream, moved[1].position),
            (600, moved[0].stream, moved[0].position)
        );
    }

    #[test]
    fn a_receive_may_complete_before_it_is_told_that_it_was_posted() {
        let mut scene = Scene::connected();
        scene.poll(B, 1, 8, RECEIVED);
        let work = WorkSegment {
            addr: 500,
            number: 1,
            len_bytes: 10,
            segments: 1,
            took_ns: 15,
            receive: true,
            ..WorkSegment::default()
        };
        scene.post(B, work);
        scene.post_receive(B, 1, 600);
        scene.poll(B, 1, 4, RECEIVED);
        let moved = scene.moved();
        let places: Vec<_> = moved.iter().map(|m| (m.addr, m.position)).collect();
        assert_eq!(places, [(0, 0), (600, 9)], "where the first one went is not known");
    }

    #[test]
    fn names_of_devices_end_at_their_first_zero() {
        let name = u64::from_ne_bytes(*b"rxe0\0abc");
        assert_eq!(up_to_nul([name, u64::MAX]), [u64::from_ne_bytes(*b"rxe0\0\0\0\0"), 0]);
    }
}
