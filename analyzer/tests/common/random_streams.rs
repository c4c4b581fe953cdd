//! Random jobs whose ranks send to each other over TCP.

use std::collections::HashMap;

use analyzer::input::Input;
use analyzer::plan::ProbeClass;
use analyzer::wire::{Body, CallContext};
use proptest::prelude::*;

use super::{HEAP_AT, Trace, segment_at};

const SITES: [&str; 3] = ["stage", "deliver", "pass"];
/// Bytes of a place in memory.
const SLOT: u64 = 16;

#[derive(Clone, Debug)]
pub enum StreamStep {
    Copy {
        rank: u32,
        thread: u32,
        site: usize,
        from: u64,
        to: u64,
        len: u64,
    },
    /// A part of a segment that the ranks of a pair share.
    Shared {
        rank: u32,
        slot: u64,
        heap: u64,
        out: bool,
    },
    /// In parts that follow one another, as if there had not been room for all.
    Send {
        from: u32,
        to: u32,
        slot: u64,
        parts: Vec<u64>,
    },
    /// At most so many bytes, of those that were sent; the record may come before that of the end of a send.
    Receive {
        from: u32,
        to: u32,
        slot: u64,
        len: u64,
    },
    Free {
        rank: u32,
        block: u64,
    },
    Alloc {
        rank: u32,
        block: u64,
        caller: u64,
    },
    Call {
        rank: u32,
    },
    Tick,
    Time(u64),
}

pub fn stream_step(ranks: u32) -> impl Strategy<Value = StreamStep> {
    let rank = move || 0..ranks;
    let slot = || 0..12u64;
    prop_oneof![
        8 => (rank(), 0..2u32, 0..SITES.len(), slot(), slot(), 1..=SLOT)
            .prop_map(|(rank, thread, site, from, to, len)| StreamStep::Copy { rank, thread, site, from, to, len }),
        2 => (rank(), 0..4u64, slot(), any::<bool>())
            .prop_map(|(rank, slot, heap, out)| StreamStep::Shared { rank, slot, heap, out }),
        10 => (rank(), rank(), slot(), prop::collection::vec(1..=SLOT, 1..3))
            .prop_map(|(from, to, slot, parts)| StreamStep::Send { from, to, slot, parts }),
        12 => (rank(), rank(), slot(), 1..3 * SLOT)
            .prop_map(|(from, to, slot, len)| StreamStep::Receive { from, to, slot, len }),
        1 => (rank(), 0..4u64).prop_map(|(rank, block)| StreamStep::Free { rank, block }),
        1 => (rank(), 0..4u64, 0..2u64).prop_map(|(rank, block, caller)| StreamStep::Alloc { rank, block, caller }),
        1 => rank().prop_map(|rank| StreamStep::Call { rank }),
        3 => Just(StreamStep::Tick),
        1 => (0..9_000_000u64).prop_map(StreamStep::Time),
    ]
}

/// What happens in a job. All that was sent is received at the end, if `whole`.
pub fn streaming_job(ranks: u32, steps: &[StreamStep], launched: bool, whole: bool) -> Vec<Input> {
    let mut t = Trace::new(ranks, launched);
    for site in SITES.into_iter().chain(["out", "in"]) {
        t.probe(site, ProbeClass::Copy);
    }
    t.probe("MPI_Test", ProbeClass::Call);
    // Streams of processes that call no MPI are not followed.
    (0..ranks).for_each(|rank| t.call(rank, "MPI_Test", "main"));
    let mut job = StreamingJob { t, sent: HashMap::new(), received: HashMap::new() };
    steps.iter().for_each(|step| job.apply(step));
    if whole {
        for (from, to) in (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to))) {
            job.receive(from, to, 0, u64::MAX);
        }
    }
    job.t.end()
}

struct StreamingJob {
    t: Trace,
    /// Bytes so far, by sender and receiver.
    sent: HashMap<(u32, u32), u64>,
    received: HashMap<(u32, u32), u64>,
}

fn slot_at(slot: u64) -> u64 {
    HEAP_AT + slot * SLOT
}

impl StreamingJob {
    fn apply(&mut self, step: &StreamStep) {
        let context = CallContext::default();
        match *step {
            StreamStep::Copy { rank, thread, site, from, to, len } => {
                let probe = self.t.probe(SITES[site], ProbeClass::Copy);
                let body = Body::Copy { dst: slot_at(to), src: slot_at(from), len_bytes: len, context };
                self.t.record_of(rank, thread, probe, body);
            }
            StreamStep::Shared { rank, slot, heap, out } => {
                // Each pair of ranks has a part of the segment of its own.
                let shared = segment_at(rank) + u64::from(rank / 2) * 0x1000 + slot * SLOT;
                let (site, src, dst) =
                    if out { ("out", slot_at(heap), shared) } else { ("in", shared, slot_at(heap)) };
                self.t.copy(rank, site, src, dst, SLOT);
            }
            StreamStep::Send { from, to, slot, ref parts } if from != to => self.send(from, to, slot, parts),
            StreamStep::Receive { from, to, slot, len } if from != to => self.receive(from, to, slot, len),
            StreamStep::Send { .. } | StreamStep::Receive { .. } => {}
            StreamStep::Free { rank, block } => {
                self.t.record(rank, 0, Body::Free { addr: HEAP_AT + block * 3 * SLOT, caller: 0 });
            }
            StreamStep::Alloc { rank, block, caller } => {
                let caller = super::PROGRAM_AT + 0x100 + caller * 16;
                let (addr, size_bytes) = (HEAP_AT + block * 3 * SLOT, 3 * SLOT);
                self.t.record(rank, 0, Body::Alloc { addr, size_bytes, old: 0, caller });
            }
            StreamStep::Call { rank } => self.t.call(rank, "MPI_Test", "main"),
            StreamStep::Tick => self.t.tick(),
            StreamStep::Time(ns) => self.t.now_ns += ns,
        }
    }

    fn moved(&mut self, rank: u32, addr: u64, stream: u64, (position, len): (u64, u64), receive: bool) {
        // The numbers of TCP go around in the midst of it.
        let position = (u32::MAX - 100).wrapping_add(position as u32);
        let context = self.t.context_of(rank);
        let body = Body::Stream { addr, stream, position, len_bytes: len as u32, receive, context };
        self.t.record(rank, 0, body);
    }

    fn send(&mut self, from: u32, to: u32, slot: u64, parts: &[u64]) {
        let mut addr = slot_at(slot);
        for &len in parts {
            let position = *self.sent.entry((from, to)).or_default();
            self.moved(from, addr, stream(from, to), (position, len), false);
            *self.sent.entry((from, to)).or_default() += len;
            addr += len;
        }
    }

    fn receive(&mut self, from: u32, to: u32, slot: u64, len: u64) {
        let sent = self.sent.get(&(from, to)).copied().unwrap_or(0);
        let position = *self.received.entry((from, to)).or_default();
        let len = len.min(sent - position);
        if len > 0 {
            self.moved(to, slot_at(slot), stream(from, to), (position, len), true);
            self.received.insert((from, to), position + len);
        }
    }
}

fn stream(from: u32, to: u32) -> u64 {
    u64::from(from) * 100 + u64::from(to) + 1
}
