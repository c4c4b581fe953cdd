//! RDMA writes, reads and atomic operations between nodes that have agents: chains are those of one place.

use std::collections::{BTreeMap, HashMap};

use crate::common::Trace;
use crate::common::agents::{Transport, run_agents};
use crate::common::nodes::{joined, part, shifted};
use analyzer::finding::{Evidence, Report, Severity};
use analyzer::input::Input;
use analyzer::names::Kind;
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::plan::ProbeClass;
use analyzer::wire::Body;
use proptest::prelude::*;

const S: u64 = 1_000_000_000;
const RANKS: u32 = 4;
/// Bytes of a part of a buffer.
const SLOT: u64 = 64;

/// What two ranks do together. Both use a buffer of the one's again only after it has heard of the other.
#[derive(Clone, Debug)]
enum Exchange {
    /// Stages data and writes it to the other one's memory, and tells it. `beside`: from beside the staged data.
    Put {
        from: u32,
        to: u32,
        slot: u64,
        tells_bytes: u32,
        beside: bool,
    },
    /// Tells the other one of staged data, which reads it, and tells that it has.
    Get {
        from: u32,
        to: u32,
        slot: u64,
        beside: bool,
    },
    /// Adds to a number in the other one's memory, and tells it.
    Add {
        from: u32,
        to: u32,
        slot: u64,
    },
    Tick,
}

fn exchange() -> impl Strategy<Value = Exchange> {
    let ranks = || (0..RANKS, 1..RANKS).prop_map(|(from, by)| (from, (from + by) % RANKS));
    prop_oneof![
        6 => (ranks(), 0..4u64, prop::sample::select(vec![0u32, 16])).prop_map(|((from, to), slot, tells_bytes)| {
            Exchange::Put { from, to, slot, tells_bytes, beside: false }
        }),
        6 => (ranks(), 0..4u64)
            .prop_map(|((from, to), slot)| Exchange::Get { from, to, slot, beside: false }),
        2 => (ranks(), 0..4u64).prop_map(|((from, to), slot)| Exchange::Add { from, to, slot }),
        2 => Just(Exchange::Tick),
    ]
}

struct Job {
    t: Trace,
    /// Positions of streams, by sender and receiver.
    positions: HashMap<(u32, u32), u32>,
    /// Bytes of one-sided operations.
    one_sided_bytes: u64,
}

fn end_of(own: u32, peer: u32) -> u64 {
    1000 + u64::from(own * RANKS + peer)
}

fn stream_of(from: u32, to: u32) -> u64 {
    2000 + u64::from(from * RANKS + to)
}

impl Job {
    /// All ranks are connected; whoever is may have told each other something before.
    fn new(greets: bool) -> Self {
        let mut t = Trace::new(RANKS, true);
        for rank in 0..RANKS {
            for name in ["data", "staging", "window", "fetched", "result", "notices"] {
                t.heap(rank, name);
            }
        }
        for (name, class) in [
            ("stage", ProbeClass::Copy),
            ("deliver", ProbeClass::Copy),
            ("post", ProbeClass::VerbsPost),
            ("poll", ProbeClass::VerbsPoll),
            ("modify", ProbeClass::VerbsQueue),
        ] {
            t.probe(name, class);
        }
        let mut job = Self { t, positions: HashMap::new(), one_sided_bytes: 0 };
        let pairs = || (0..RANKS).flat_map(|a| (0..RANKS).map(move |b| (a, b))).filter(|(a, b)| a != b);
        for (own, peer) in pairs() {
            let [name, incoming, outgoing] = [end_of(own, peer), stream_of(peer, own), stream_of(own, peer)];
            for outgoing in [0, outgoing] {
                let probe = job.t.probe("modify", ProbeClass::VerbsQueue);
                job.t.record(own, probe, Body::Endpoint { name, incoming, outgoing });
            }
        }
        if greets {
            pairs().for_each(|(from, to)| job.tell(from, to, 0));
            job.t.tick();
            job.t.now_ns += S;
            job.t.tick();
        }
        job
    }

    fn of(steps: &[Exchange], greets: bool) -> Self {
        let mut job = Self::new(greets);
        steps.iter().for_each(|step| job.apply(step));
        job
    }

    fn apply(&mut self, step: &Exchange) {
        match *step {
            Exchange::Put { from, to, slot, tells_bytes, beside } => {
                let (staged, window) = (self.stage(from, slot), self.at(to, "window", slot));
                self.t.call(from, "MPI_Put", "main: put");
                self.remote(from, to, staged + if beside { 0x4000 } else { 0 }, window, (true, false), SLOT);
                self.tell(from, to, tells_bytes);
                self.deliver(to, "window", slot);
            }
            Exchange::Get { from, to, slot, beside } => {
                let (staged, fetched) = (self.stage(from, slot), self.at(to, "fetched", slot));
                self.tell(from, to, 16);
                self.t.call(to, "MPI_Get", "main: get");
                self.remote(
                    to,
                    from,
                    fetched,
                    staged + if beside { 0x4000 } else { 0 },
                    (false, false),
                    SLOT,
                );
                self.deliver(to, "fetched", slot);
                self.tell(to, from, 0);
            }
            Exchange::Add { from, to, slot } => {
                let (number, sum) = (self.at(from, "fetched", slot), self.at(to, "window", slot));
                self.remote(from, to, number, sum, (false, true), 8);
                self.deliver(from, "fetched", slot);
                self.tell(from, to, 0);
                self.deliver(to, "window", slot);
            }
            Exchange::Tick => self.t.tick(),
        }
    }

    fn at(&mut self, rank: u32, name: &str, slot: u64) -> u64 {
        self.t.heap(rank, name) + slot * 256
    }

    fn stage(&mut self, rank: u32, slot: u64) -> u64 {
        let (data, staged) = (self.at(rank, "data", slot), self.at(rank, "staging", slot));
        self.t.copy(rank, "stage", data, staged, SLOT);
        staged
    }

    fn deliver(&mut self, rank: u32, from: &str, slot: u64) {
        let (from, result) = (self.at(rank, from, slot), self.at(rank, "result", slot));
        self.t.copy(rank, "deliver", from, result, SLOT);
    }

    fn remote(&mut self, own: u32, peer: u32, addr: u64, remote: u64, how: (bool, bool), len_bytes: u64) {
        let (write, atomic) = how;
        self.one_sided_bytes += len_bytes;
        let body = Body::Remote {
            addr,
            remote,
            peer: end_of(peer, own),
            stream: stream_of(own, peer),
            position: *self.positions.entry((own, peer)).or_default(),
            len_bytes: len_bytes as u32,
            write,
            atomic,
            context: self.t.context_of(own),
        };
        let (name, class) =
            if write { ("post", ProbeClass::VerbsPost) } else { ("poll", ProbeClass::VerbsPoll) };
        let probe = self.t.probe(name, class);
        self.t.record(own, probe, body);
    }

    /// A message, and that it is received.
    fn tell(&mut self, from: u32, to: u32, len_bytes: u32) {
        let position = self.positions.entry((from, to)).or_default();
        let at = std::mem::replace(position, *position + len_bytes + 1);
        for (rank, name, class, receive) in
            [(from, "post", ProbeClass::VerbsPost, false), (to, "poll", ProbeClass::VerbsPoll, true)]
        {
            let addr = if len_bytes > 0 { self.at(rank, "notices", 0) } else { 0 };
            let context = self.t.context_of(rank);
            let probe = self.t.probe(name, class);
            let stream = stream_of(from, to);
            self.t.record(
                rank,
                probe,
                Body::Stream { addr, stream, position: at, len_bytes, receive, context },
            );
        }
    }
}

fn run(inputs: &[Input]) -> Report {
    let mut pipeline = Pipeline::new(options());
    inputs.iter().for_each(|input| pipeline.push(input));
    pipeline.report()
}

fn options() -> Options {
    Options { max_age_ops: 1 << 20, max_chain_ops: 255, ..Options::default() }
}

fn parts_of(whole: &[Input], nodes: &[usize]) -> Vec<Vec<Input>> {
    let whole: Vec<Input> = whole.iter().map(|input| shifted(input, S as i64)).collect();
    (0..=nodes.iter().copied().max().unwrap_or(0)).map(|node| part(&whole, node, nodes, 0)).collect()
}

/// How each chain goes on, by places: an agent does not know how buffers of others are called.
type Chains = BTreeMap<Vec<(Kind, String, bool)>, u64>;

fn chains(report: &Report) -> Chains {
    let mut chains = Chains::new();
    for group in &report.statistics.top_groups {
        let place = |place: &analyzer::finding::Place| format!("{:?}+{}", place.module, place.offset_bytes);
        let ops = group.ops.iter().map(|op| (op.kind, place(&op.place), op.crosses)).collect();
        *chains.entry(ops).or_default() += group.chains;
    }
    chains
}

fn kinds(chains: &Chains, of: &[Kind]) -> u64 {
    let is_it = |ops: &Vec<(Kind, String, bool)>| ops.iter().map(|op| op.0).eq(of.iter().copied());
    chains.iter().filter(|(ops, _)| is_it(ops)).map(|(_, count)| count).sum()
}

const NODES: [usize; RANKS as usize] = [0, 0, 1, 2];
const PUT: [Kind; 3] = [Kind::Copy, Kind::RdmaWrite, Kind::Copy];
const GET: [Kind; 3] = [Kind::Copy, Kind::RdmaRead, Kind::Copy];

#[test]
fn what_is_written_into_memory_of_another_node_or_read_from_it_is_followed_step_by_step() {
    let steps: Vec<Exchange> = (0..60)
        .flat_map(|step| {
            let (from, to, slot) = (step as u32 % 2, 2 + step as u32 / 2 % 2, step % 4);
            [
                Exchange::Put { from, to, slot, tells_bytes: 0, beside: false },
                Exchange::Get { from: to, to: from, slot, beside: false },
                Exchange::Tick,
            ]
        })
        .collect();
    let job = Job::of(&steps, true);
    let bytes = job.one_sided_bytes;
    let thinned = run_agents(&parts_of(&job.t.end(), &NODES), &options(), Transport::default());
    let report = run(&joined(thinned));
    let found = chains(&report);
    assert_eq!((kinds(&found, &PUT), kinds(&found, &GET)), (60, 60), "{found:#?}");
    let rdma = report.statistics.rdma.expect("there was some");
    // Messages of reads have 16 bytes.
    assert_eq!((rdma.linked_bytes, rdma.unlinked_bytes), (bytes + 60 * 16, 0));
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
}

#[test]
fn data_from_the_wrong_place_is_found_on_another_node() {
    for gets in [false, true] {
        let steps: Vec<Exchange> = (0..400)
            .flat_map(|step| {
                let (from, to, slot, beside) =
                    (step as u32 % 2, 2 + step as u32 / 2 % 2, step % 4, step % 100 == 50);
                let put = Exchange::Put { from, to, slot, tells_bytes: 0, beside };
                let get = Exchange::Get { from, to, slot, beside };
                [if gets { get } else { put }, Exchange::Tick]
            })
            .collect();
        let tapes = parts_of(&Job::of(&steps, true).t.end(), &NODES);
        let report = run(&joined(run_agents(&tapes, &options(), Transport::default())));
        let odd: Vec<_> = report
            .findings
            .iter()
            .filter_map(|finding| match &finding.evidence {
                Evidence::OddChain(chain) => {
                    Some((chain.odd.chains, chain.frequent.chains, finding.severity))
                }
                _ => None,
            })
            .collect();
        let severity = if gets { Severity::Notice } else { Severity::Warning };
        assert_eq!(odd, [(4, 396, severity)], "{:#?}", report.findings);
    }
}

/// Whose memory it was is known once something was received behind it.
#[test]
fn what_was_done_before_anything_was_heard_of_the_other_node_counts_as_linked_in_the_end() {
    let steps = [
        Exchange::Add { from: 0, to: 2, slot: 1 },
        Exchange::Put { from: 0, to: 3, slot: 1, tells_bytes: 0, beside: false },
        Exchange::Tick,
    ];
    let job = Job::of(&steps, false);
    let bytes = job.one_sided_bytes;
    let delayed = Transport { delays: vec![4], ..Transport::default() };
    let thinned = run_agents(&parts_of(&job.t.end(), &NODES), &options(), delayed);
    let rdma = run(&joined(thinned)).statistics.rdma.expect("there was some");
    assert_eq!((rdma.linked_bytes, rdma.unlinked_bytes), (bytes, 0));
}

#[test]
fn what_is_not_told_of_by_a_message_is_not_taken_to_have_happened() {
    let mut job = Job::new(true);
    for _ in 0..10 {
        let staged = job.stage(0, 1);
        let window = job.at(2, "window", 1);
        job.remote(0, 2, staged, window, (true, false), SLOT);
        job.t.tick();
    }
    job.deliver(2, "window", 1);
    let thinned = run_agents(&parts_of(&job.t.end(), &NODES), &options(), Transport::default());
    let report = run(&joined(thinned));
    assert_eq!(kinds(&chains(&report), &[Kind::Copy, Kind::RdmaWrite]), 10);
    assert_eq!(kinds(&chains(&report), &[Kind::Copy]), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        std::env::var("DMSCOPE_TEST_SPLITS").ok().and_then(|cases| cases.parse().ok()).unwrap_or(96)
    ))]

    /// Whatever ranks do to each other's memory, and whenever letters come.
    #[test]
    fn chains_through_memory_of_other_nodes_are_those_of_one_place(
        steps in prop::collection::vec(exchange(), 1..80),
        nodes in prop::collection::vec(0usize..3, RANKS as usize),
        every in 1usize..20,
        delays in prop::collection::vec(0usize..40, 1..6),
    ) {
        let tapes = parts_of(&Job::of(&steps, true).t.end(), &nodes);
        let thinned = run_agents(&tapes, &options(), Transport { every, delays, lost: Vec::new() });
        let (summed, whole) = (run(&joined(thinned)), run(&joined(tapes)));
        // Reports name so many groups.
        let is_told_whole = |report: &Report| report.statistics.top_groups.len() < 20;
        prop_assert_eq!(summed.statistics.chains, whole.statistics.chains);
        if is_told_whole(&summed) && is_told_whole(&whole) {
            prop_assert_eq!(chains(&summed), chains(&whole));
        }
        let bytes = |report: &Report| report.statistics.rdma.map(|rdma| (rdma.linked_bytes, rdma.unlinked_bytes));
        prop_assert_eq!(bytes(&summed), bytes(&whole));
    }
}
