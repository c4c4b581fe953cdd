//! Bytes leave one end of a TCP stream before they arrive at the other.
//!
//! Both ends are seen when they have moved. One that sends has often not returned when the other has received already; so the
//! record of the receive is the earlier one. It is held until the bytes were sent, with all that comes after it, and what was
//! sent is given out before it, with its time. The sender's thread does nothing else in between: it is still in that call.
//!
//! Nothing is held for longer than a bound, and not for a stream on which nobody was seen to send. The bound is one of time, or,
//! where the sender may be on another node, of rounds in which all nodes tell what they have seen: whoever uses this says how
//! far either has gone.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::input::{Input, Loss};
use super::wire::{RawRecord, kind};

/// For how long a receive waits at most by default for its bytes to be sent: a thread that is in the midst of it may lose its
/// processor.
pub(super) const DEFAULT_MOST_WAIT_NS: u64 = 100_000_000;
/// Most inputs that are held.
const MOST_HELD: usize = 1 << 18;
/// Most streams that are known; receives of others do not wait.
const MAX_STREAMS: usize = 1 << 16;

/// What was sent on a stream.
#[derive(Clone, Copy, Debug)]
struct SentBytes {
    /// Behind the last byte.
    to: u32,
    /// Records of it that are held.
    held: u32,
    /// Nobody was seen to send when it was waited for.
    silent: bool,
}

/// One end's part of a record of a stream.
#[derive(Clone, Copy)]
pub(super) struct Moved {
    pub(super) stream: u64,
    /// Behind the last byte.
    pub(super) end: u32,
    pub(super) receive: bool,
}

impl Moved {
    /// What an input tells of a stream, if it does.
    pub(super) fn of(input: &Input) -> Option<Self> {
        let Input::Record(record) = input else { return None };
        if record.kind() != kind::STREAM {
            return None;
        }
        let &[_, _, head, _, stream, place, ..] = record.words() else { return None };
        let end = (place as u32).wrapping_add((place >> 32) as u32);
        Some(Self { stream, end, receive: head >> 16 & 1 == 1 })
    }
}

/// An input that waits.
#[derive(Debug)]
struct HeldInput {
    /// None: it was given out.
    input: Option<Input>,
    /// How late it was when it came, in time or rounds.
    since: u64,
}

/// See the [module](self). Takes inputs in order of time.
#[derive(Debug)]
pub(crate) struct CausalOrder {
    /// In the same unit as what it is told of how late it is.
    most_wait: u64,
    /// A receive that cannot be waited for is told as a loss of its process.
    tells_losses: bool,
    /// From the first receive on that waits.
    held: VecDeque<HeldInput>,
    streams: FxHashMap<u64, SentBytes>,
}

impl Default for CausalOrder {
    fn default() -> Self {
        Self {
            most_wait: DEFAULT_MOST_WAIT_NS,
            tells_losses: false,
            held: VecDeque::new(),
            streams: FxHashMap::default(),
        }
    }
}

impl CausalOrder {
    /// Where others may be the senders: after so many rounds they have told of all that they sent.
    pub(crate) fn of_nodes(rounds: u64) -> Self {
        Self { most_wait: rounds, tells_losses: true, ..Self::default() }
    }

    /// Takes the next input, when it is so late, and gives out what waits for nothing.
    #[inline(never)]
    pub(crate) fn push(&mut self, input: Input, now: u64, out: &mut impl FnMut(Input)) {
        if let Some(moved) = Moved::of(&input).filter(|moved| !moved.receive)
            && let Some(sent) = self.sent(moved)
        {
            sent.held += 1;
        }
        self.held.push_back(HeldInput { input: Some(input), since: now });
        let is_full = self.held.len() > MOST_HELD;
        self.release((!is_full).then_some(now), out);
    }

    /// Gives out what has waited for long enough, now that it is so late.
    pub(crate) fn advance(&mut self, now: u64, out: &mut impl FnMut(Input)) {
        if !self.held.is_empty() {
            self.release(Some(now), out);
        }
    }

    /// Bytes of a stream up to a position were sent where nobody here sees it.
    pub(crate) fn sent_elsewhere(&mut self, stream: u64, end: u32) {
        if let Some(sent) = self.sent(Moved { stream, end, receive: false }) {
            sent.silent = false;
            sent.to = end;
        }
    }

    /// Whether a record of this kind would be given out at once.
    #[inline]
    pub(crate) fn lets_pass(&self, of: u16) -> bool {
        self.held.is_empty() && of != kind::STREAM
    }

    /// Gives out all.
    pub(crate) fn finish(&mut self, out: &mut impl FnMut(Input)) {
        self.release(None, out);
    }

    /// When the first receive that waits happened.
    pub(super) fn waits_since(&self) -> Option<u64> {
        self.held.front().map(|held| held.since)
    }

    /// Inputs that wait, and those behind them.
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    fn sent(&mut self, moved: Moved) -> Option<&mut SentBytes> {
        if !self.streams.contains_key(&moved.stream) {
            if self.streams.len() >= MAX_STREAMS {
                return None;
            }
            // Nothing of it was seen: what is received first is waited for.
            let to = moved.end.wrapping_sub(1 << 31);
            self.streams.insert(moved.stream, SentBytes { to, held: 0, silent: false });
        }
        self.streams.get_mut(&moved.stream)
    }

    /// Gives out what waits for nothing when it is so late; without that, all.
    fn release(&mut self, now: Option<u64>, out: &mut impl FnMut(Input)) {
        while let Some(HeldInput { input, since }) = self.held.front() {
            if let Some(Input::Record(record)) = *input
                && record.kind() == kind::STREAM
                && !self.may_go(&record, now.map(|now| now.saturating_sub(*since)), out)
            {
                return;
            }
            if let Some(HeldInput { input: Some(input), .. }) = self.held.pop_front() {
                out(input);
            }
        }
    }

    /// Whether the first of the held records waits for nothing; what it waited for is given out if it is held as well. `waited`:
    /// for how long; none: it can wait no longer.
    fn may_go(&mut self, record: &RawRecord, waited: Option<u64>, out: &mut impl FnMut(Input)) -> bool {
        let Some(moved) = Moved::of(&Input::Record(*record)) else { return true };
        let Some(mut sent) = self.sent(moved).copied() else { return true };
        if !moved.receive {
            sent = SentBytes { to: moved.end, held: sent.held.saturating_sub(1), silent: false };
            self.streams.insert(moved.stream, sent);
            return true;
        }
        while is_behind(sent.to, moved.end) && sent.held > 0 {
            let Some((found, end)) = self.take_sent(moved.stream, record.time_ns(), out) else { break };
            sent = SentBytes { to: end, held: sent.held - 1, silent: false };
            out(found);
        }
        let is_wanted = is_behind(sent.to, moved.end) && !sent.silent;
        let waits = is_wanted && waited.is_some_and(|waited| waited < self.most_wait);
        sent.silent |= is_wanted && !waits;
        if is_wanted && waited.is_none() && self.tells_losses {
            let (pid, time_ns) = (record.pid(), record.time_ns());
            out(Input::Loss(Loss {
                pid,
                from_ns: time_ns,
                to_ns: time_ns,
                movements: 1,
                calls: 0,
                state: 0,
            }));
        }
        self.streams.insert(moved.stream, sent);
        !waits
    }

    /// The first record of what was sent on a stream, of those that are held, and where it ends; it is told to have happened
    /// at `time_ns`. What its thread wrote before into memory of others, which the message may tell of, is given out ahead.
    fn take_sent(&mut self, stream: u64, time_ns: u64, out: &mut impl FnMut(Input)) -> Option<(Input, u32)> {
        let end_of = |held: &HeldInput| {
            let moved =
                Moved::of(held.input.as_ref()?).filter(|moved| moved.stream == stream && !moved.receive);
            moved.map(|moved| moved.end)
        };
        let (at, end) = self.held.iter().enumerate().find_map(|(at, held)| Some((at, end_of(held)?)))?;
        let Some(Input::Record(mut record)) = self.held[at].input.take() else { return None };
        record.words_mut()[0] = time_ns;
        let thread = record.words()[1];
        if record.probe() != 0 {
            for held in self.held.iter_mut().take(at) {
                let is_it = |r: &RawRecord| r.kind() == kind::REMOTE && r.words()[1] == thread;
                if let Some(Input::Record(mut wrote)) =
                    held.input.take_if(|held| matches!(held, Input::Record(r) if is_it(r)))
                {
                    wrote.words_mut()[0] = time_ns;
                    out(Input::Record(wrote));
                }
            }
        }
        Some((Input::Record(record), end))
    }
}

/// Whether one position comes before another, of numbers that go around.
pub(crate) fn is_behind(position: u32, other: u32) -> bool {
    position.wrapping_sub(other).cast_signed() < 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tape::wire::{Body, CallContext, Header, Record};

    fn moved(time_ns: u64, pid: u32, stream: u64, place: (u32, u32), receive: bool) -> RawRecord {
        let (position, len_bytes) = place;
        let context = CallContext::default();
        let body = Body::Stream { addr: 1, stream, position, len_bytes, receive, context };
        Record { header: Header { time_ns, pid, tid: pid, probe: 0 }, body }.encode()
    }

    fn sent(time_ns: u64, position: u32, len_bytes: u32) -> RawRecord {
        moved(time_ns, 1, 5, (position, len_bytes), false)
    }

    fn received(time_ns: u64, position: u32, len_bytes: u32) -> RawRecord {
        moved(time_ns, 2, 5, (position, len_bytes), true)
    }

    fn other(time_ns: u64) -> RawRecord {
        Record { header: Header { time_ns, pid: 2, tid: 2, probe: 9 }, body: Body::Done }.encode()
    }

    /// What has come out after each record: time, process, kind.
    fn order(order: &mut CausalOrder, records: &[RawRecord]) -> Vec<(u64, u32, u16)> {
        let mut out = Vec::new();
        for record in records {
            order.push(Input::Record(*record), record.time_ns(), &mut |input| {
                let Input::Record(r) = input else { panic!("not a record: {input:?}") };
                out.push((r.time_ns(), r.pid(), r.kind()));
            });
        }
        out
    }

    const STREAM: u16 = kind::STREAM;
    const DONE: u16 = kind::DONE;

    #[test]
    fn what_was_sent_comes_before_it_is_received() {
        let records = [received(10, 0, 4), other(11), received(12, 4, 4), sent(13, 0, 8), other(14)];
        let expected = [(10, 1, STREAM), (10, 2, STREAM), (11, 2, DONE), (12, 2, STREAM), (14, 2, DONE)];
        assert_eq!(order(&mut CausalOrder::default(), &records), expected);
    }

    #[test]
    fn what_a_message_tells_of_was_written_before_it_came() {
        let of =
            |pid, body| Record { header: Header { time_ns: 12, pid, tid: pid, probe: 4 }, body }.encode();
        let context = CallContext::default();
        let wrote = |pid| {
            let (write, atomic) = (true, false);
            let (addr, remote, peer, len_bytes) = (1, 2, 3, 4);
            let (stream, position) = (5, 9);
            of(pid, Body::Remote { addr, remote, peer, stream, position, len_bytes, write, atomic, context })
        };
        let body = Body::Stream { addr: 0, stream: 5, position: 9, len_bytes: 0, receive: false, context };
        let records = [received(10, 9, 0), other(11), wrote(1), wrote(2), of(1, body)];
        let remote = kind::REMOTE;
        let expected = [(10, 1, remote), (10, 1, STREAM), (10, 2, STREAM), (11, 2, DONE), (12, 2, remote)];
        assert_eq!(order(&mut CausalOrder::default(), &records), expected);
    }

    #[test]
    fn what_is_received_in_its_turn_waits_for_nothing() {
        let records = [sent(10, 0, 8), received(11, 0, 4), other(12), received(13, 4, 4)];
        let expected = [(10, 1, STREAM), (11, 2, STREAM), (12, 2, DONE), (13, 2, STREAM)];
        assert_eq!(order(&mut CausalOrder::default(), &records), expected);
    }

    #[test]
    fn several_parts_are_waited_for_until_all_are_there() {
        let records = [received(10, 0, 8), sent(11, 0, 3), other(12), sent(13, 3, 5)];
        let expected = [(10, 1, STREAM), (10, 1, STREAM), (10, 2, STREAM), (12, 2, DONE)];
        assert_eq!(order(&mut CausalOrder::default(), &records), expected);
    }

    #[test]
    fn numbers_of_tcp_that_go_around_are_in_order_all_the_same() {
        let near_end = u32::MAX - 3;
        let records = [sent(10, near_end, 4), received(11, near_end, 6), sent(12, 0, 4)];
        let expected = [(10, 1, STREAM), (11, 1, STREAM), (11, 2, STREAM)];
        assert_eq!(order(&mut CausalOrder::default(), &records), expected);
    }

    #[test]
    fn a_stream_on_which_nobody_sends_is_waited_for_once() {
        let mut causal = CausalOrder::default();
        assert_eq!(order(&mut causal, &[received(10, 0, 4), other(11)]), []);
        assert_eq!(causal.waits_since(), Some(10));
        let late = 10 + DEFAULT_MOST_WAIT_NS;
        let expected = [(10, 2, STREAM), (11, 2, DONE), (late, 2, DONE)];
        assert_eq!(order(&mut causal, &[other(late)]), expected);
        assert_eq!(order(&mut causal, &[received(late + 1, 4, 4)]), [(late + 1, 2, STREAM)]);
        order(&mut causal, &[sent(late + 2, 4, 8)]);
        assert_eq!(order(&mut causal, &[received(late + 3, 8, 8)]), [], "somebody sends, after all");
    }

    #[test]
    fn time_alone_ends_waiting_as_well() {
        let mut causal = CausalOrder::default();
        order(&mut causal, &[received(10, 0, 4), other(11)]);
        let mut given = 0;
        causal.advance(9 + DEFAULT_MOST_WAIT_NS, &mut |_| given += 1);
        assert_eq!(given, 0);
        causal.advance(10 + DEFAULT_MOST_WAIT_NS, &mut |_| given += 1);
        assert_eq!(given, 2);
        assert_eq!((causal.len(), causal.waits_since()), (0, None));
    }

    #[test]
    fn what_is_held_is_bounded() {
        let mut causal = CausalOrder::default();
        let mut given = 0;
        causal.push(Input::Record(received(10, 0, 4)), 10, &mut |_| given += 1);
        for _ in 0..MOST_HELD {
            causal.push(Input::Record(other(11)), 11, &mut |_| given += 1);
        }
        assert_eq!(given, MOST_HELD + 1);
        assert_eq!(causal.len(), 0);
    }

    #[test]
    fn what_other_nodes_sent_is_waited_for_by_rounds_and_is_a_loss_where_it_cannot_be() {
        let mut causal = CausalOrder::of_nodes(3);
        let mut given = Vec::new();
        causal.push(Input::Record(received(10, 0, 4)), 5, &mut |input| given.push(input));
        causal.push(Input::Record(other(9_000_000_000)), 7, &mut |input| given.push(input));
        assert_eq!(given, [], "time is not what counts");
        causal.advance(8, &mut |input| given.push(input));
        assert_eq!(given.len(), 2, "all have told what they sent: nobody did");
        given.clear();
        causal.sent_elsewhere(5, 4);
        causal.push(Input::Record(received(20, 4, 4)), 8, &mut |input| given.push(input));
        causal.finish(&mut |input| given.push(input));
        let loss = Loss { pid: 2, from_ns: 20, to_ns: 20, movements: 1, calls: 0, state: 0 };
        assert_eq!(given, [Input::Loss(loss), Input::Record(received(20, 4, 4))]);
    }
}
