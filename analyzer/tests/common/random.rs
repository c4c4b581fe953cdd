//! Random jobs: three ranks with two threads, a heap of a few bytes, a segment of a few more.

use analyzer::input::Input;
use analyzer::options::Options;
use analyzer::plan::ProbeClass;
use analyzer::wire::{Body, CallContext};
use proptest::prelude::*;

use super::{HEAP_AT, SEGMENT, Trace, pid, segment_at};

pub const RANKS: u32 = 3;
const SITES: [&str; 3] = ["one", "two", "three"];

/// Everything small, so that little traces have everything.
pub fn options() -> Options {
    Options {
        uniqueness_usual: 4,
        uniqueness_short: 2,
        min_frequent: 2,
        warm_up_chains: 4,
        abnormality: 0.300_07,
        context_window: 3,
        max_age_ops: 25,
        max_chain_ops: 4,
        // No ratio of small numbers: rounding must not decide.
        outlier_factor: 1.097_31,
        outlier_floor: 0.050_03,
        min_chains_per_rank: 2,
        ..Options::default()
    }
}

#[derive(Clone, Debug)]
pub enum Step {
    Copy {
        rank: u32,
        thread: u32,
        site: usize,
        src: Spot,
        dst: Spot,
        len: u64,
    },
    Pack {
        rank: u32,
        unpack: bool,
        user: Spot,
        buffer: Spot,
        len: u64,
        segments: u64,
    },
    Cross {
        rank: u32,
        remote: u32,
        local: Spot,
        other: Spot,
        len: u64,
        write: bool,
    },
    /// A whole message: user, segment, user.
    Message {
        from: u32,
        to: u32,
        slot: u64,
        site: usize,
        staged: bool,
    },
    Alloc {
        rank: u32,
        block: u64,
        caller: u64,
    },
    Free {
        rank: u32,
        block: u64,
    },
    Call {
        rank: u32,
    },
    Unmap {
        rank: u32,
    },
    Map {
        rank: u32,
    },
    Exec {
        rank: u32,
    },
    Pause(u64),
}

#[derive(Clone, Copy, Debug)]
pub enum Spot {
    Heap(u64),
    Segment(u64),
}

impl Spot {
    fn addr(self, rank: u32) -> u64 {
        match self {
            Self::Heap(at) => HEAP_AT + at * 4,
            Self::Segment(at) => segment_at(rank) + at * 4,
        }
    }
}

fn spot() -> impl Strategy<Value = Spot> {
    prop_oneof![(0..16u64).prop_map(Spot::Heap), (0..8u64).prop_map(Spot::Segment)]
}

pub fn step() -> impl Strategy<Value = Step> {
    let rank = || 0..RANKS;
    let len = || prop_oneof![4 => Just(4u64), 2 => Just(8), 1 => 0..13u64];
    prop_oneof![
        10 => (rank(), 0..2u32, 0..3usize, spot(), spot(), len())
            .prop_map(|(rank, thread, site, src, dst, len)| Step::Copy { rank, thread, site, src, dst, len }),
        1 => (rank(), any::<bool>(), spot(), spot(), len(), 0..12u64)
            .prop_map(|(rank, unpack, user, buffer, len, segments)| Step::Pack { rank, unpack, user, buffer, len, segments }),
        2 => (rank(), rank(), spot(), spot(), len(), any::<bool>())
            .prop_map(|(rank, remote, local, other, len, write)| Step::Cross { rank, remote, local, other, len, write }),
        12 => (rank(), rank(), 0..4u64, 0..2usize, any::<bool>())
            .prop_map(|(from, to, slot, site, staged)| Step::Message { from, to, slot, site, staged }),
        2 => (rank(), 0..4u64, 0..2u64).prop_map(|(rank, block, caller)| Step::Alloc { rank, block, caller }),
        1 => (rank(), 0..4u64).prop_map(|(rank, block)| Step::Free { rank, block }),
        1 => rank().prop_map(|rank| Step::Call { rank }),
        1 => rank().prop_map(|rank| Step::Unmap { rank }),
        1 => rank().prop_map(|rank| Step::Map { rank }),
        1 => rank().prop_map(|rank| Step::Exec { rank }),
        2 => (0..9_000_000u64).prop_map(Step::Pause),
    ]
}

pub fn trace(steps: &[Step], launched: bool) -> Vec<Input> {
    let t = Trace::new(RANKS, launched);
    applied(t, steps)
}

/// The same, with all probes planned before anything happens: as on every node.
pub fn planned_trace(steps: &[Step], launched: bool) -> Vec<Input> {
    let mut t = Trace::new(RANKS, launched);
    for site in SITES.into_iter().chain(["out", "in"]) {
        t.probe(site, ProbeClass::Copy);
    }
    t.probe("pack", ProbeClass::Pack);
    t.probe("MPI_Test", ProbeClass::Call);
    applied(t, steps)
}

fn applied(mut t: Trace, steps: &[Step]) -> Vec<Input> {
    steps.iter().for_each(|step| apply(&mut t, step));
    t.end()
}

fn apply(t: &mut Trace, step: &Step) {
    let context = CallContext::default();
    match *step {
        Step::Copy { rank, thread, site, src, dst, len } => {
            let probe = t.probe(SITES[site], ProbeClass::Copy);
            let body = Body::Copy { dst: dst.addr(rank), src: src.addr(rank), len_bytes: len, context };
            t.record_of(rank, thread, probe, body);
        }
        Step::Pack { rank, unpack, user, buffer, len, segments } => {
            let probe = t.probe("pack", ProbeClass::Pack);
            let (user, buffer) = (user.addr(rank), buffer.addr(rank));
            let (src, dst) = if unpack { (buffer, user) } else { (user, buffer) };
            t.record(rank, probe, Body::Pack { dst, src, len_bytes: len, segments, unpack, context });
        }
        Step::Cross { rank, remote, local, other, len, write } => {
            let (local, other) = (local.addr(rank), other.addr(remote));
            let remote_pid = pid(remote);
            t.record(
                rank,
                0,
                Body::Cross { local, remote: other, len_bytes: len, remote_pid, segment: 0, write, context },
            );
        }
        Step::Message { from, to, slot, site, staged } => {
            let mut src = Spot::Heap(0).addr(from);
            if staged {
                t.copy(from, SITES[site], src, Spot::Heap(8).addr(from), 4);
                src = Spot::Heap(8).addr(from);
            }
            t.copy(from, "out", src, Spot::Segment(slot * 2).addr(from), 4);
            t.copy(to, "in", Spot::Segment(slot * 2).addr(to), Spot::Heap(4).addr(to), 4);
        }
        Step::Alloc { rank, block, caller } => {
            let caller = super::PROGRAM_AT + 0x100 + caller * 16;
            t.record(rank, 0, Body::Alloc { addr: HEAP_AT + block * 16, size_bytes: 16, old: 0, caller });
        }
        Step::Free { rank, block } => t.record(rank, 0, Body::Free { addr: HEAP_AT + block * 16, caller: 0 }),
        Step::Call { rank } => t.call(rank, "MPI_Test", "main"),
        Step::Unmap { rank } => {
            t.record(rank, 0, Body::Unmap { addr: segment_at(rank), len_bytes: 0x100_0000 });
        }
        Step::Map { rank } => t.record(rank, 0, map_segment(rank)),
        Step::Exec { rank } => {
            t.record(rank, 0, Body::Exec);
            t.inputs.push(Input::Process(Box::new(super::facts(rank, RANKS, t.now_ns))));
        }
        Step::Pause(ns) => t.now_ns += ns,
    }
}

fn map_segment(rank: u32) -> Body {
    Body::Map {
        addr: segment_at(rank),
        len_bytes: 0x100_0000,
        offset_bytes: 0,
        file: SEGMENT,
        shared: true,
        exec: false,
        has_file: true,
    }
}
