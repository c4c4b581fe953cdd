//! A job on several nodes: what is found is the same as if it had run on one.

mod common;

use std::convert::Infallible;

use analyzer::finding::{Finding, Report, Severity};
use analyzer::input::{Input, Start};
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::plan::ProbeClass;
use analyzer::render::{self, Style};
use analyzer::statistics::TcpStatistics;
use analyzer::tape::{Join, node_of, pid_on_node};
use analyzer::wire::{Body, RawRecord};
use common::{Trace, pid};
use proptest::prelude::*;

const S: u64 = 1_000_000_000;
const RANKS: u32 = 6;

fn run(inputs: impl IntoIterator<Item = Input>) -> Report {
    let mut pipeline = Pipeline::new(Options::default());
    inputs.into_iter().for_each(|input| pipeline.push(&input));
    pipeline.report()
}

/// Every rank sends its right neighbour a message over TCP, from a staging buffer. `misplaced`: from beside it. The receive is
/// seen before the send has returned, now and then.
fn ring(steps: u64, misplaced: impl Fn(u64, u32) -> bool) -> Vec<Input> {
    let mut t = Trace::new(RANKS, true);
    for rank in 0..RANKS {
        for name in ["data", "staging", "received", "result"] {
            t.heap(rank, name);
        }
    }
    for site in ["stage", "deliver"] {
        t.probe(site, ProbeClass::Copy);
    }
    for step in 0..steps {
        for rank in 0..RANKS {
            message(&mut t, step, rank, misplaced(step, rank));
        }
        t.tick();
    }
    t.end()
}

fn message(t: &mut Trace, step: u64, from: u32, misplaced: bool) {
    const BYTES: u64 = 64;
    let to = (from + 1) % RANKS;
    let slot = step % 8 * 4096;
    let (data, staged) = (t.heap(from, "data"), t.heap(from, "staging") + slot);
    let (received, result) = (t.heap(to, "received") + slot, t.heap(to, "result"));
    t.call(from, "MPI_Send", "main: send");
    t.copy(from, "stage", data, staged, BYTES);
    t.call(to, "MPI_Recv", "main: receive");
    let (sender, receiver) = (t.context_of(from), t.context_of(to));
    let sent_from = if misplaced { staged + 1024 } else { staged };
    let stream = 100 + u64::from(from);
    let (position, len_bytes) = ((step * BYTES) as u32, BYTES as u32);
    let write =
        Body::Stream { addr: sent_from, stream, position, len_bytes, receive: false, context: sender };
    let read = Body::Stream { addr: received, stream, position, len_bytes, receive: true, context: receiver };
    t.record(from, 0, write);
    t.record(to, 0, read);
    t.copy(to, "deliver", received, result, BYTES);
}

fn shifted(input: &Input, by_ns: i64) -> Input {
    let time = |time_ns: u64| time_ns.wrapping_add_signed(by_ns);
    let mut input = input.clone();
    match &mut input {
        Input::Record(raw) => {
            let mut words = raw.words().to_vec();
            words[0] = time(words[0]);
            *raw = RawRecord::from_words(&words).expect("as many words");
        }
        Input::Process(facts) => facts.time_ns = time(facts.time_ns),
        Input::Tick { time_ns } => *time_ns = time(*time_ns),
        Input::End(end) => end.time_ns = time(end.time_ns),
        Input::Loss(loss) => (loss.from_ns, loss.to_ns) = (time(loss.from_ns), time(loss.to_ns)),
        Input::Start(start) => start.time_ns = time(start.time_ns),
        Input::Plan(_) => {}
        other => panic!("not in these jobs: {other:?}"),
    }
    input
}

/// What the session of one node has of a job: its processes, by the clock of the node.
fn part(inputs: &[Input], node: usize, nodes: &[usize], clock_ns: i64) -> Vec<Input> {
    let is_here = |of: u32| nodes[(of - pid(0)) as usize] == node;
    let here = inputs.iter().filter(|input| match input {
        Input::Record(record) => is_here(record.pid()),
        Input::Process(facts) => is_here(facts.pid),
        Input::Loss(loss) => is_here(loss.pid),
        _ => true,
    });
    let mut part: Vec<Input> = here.map(|input| shifted(input, clock_ns)).collect();
    let Some(Input::Start(start)) = part.first_mut() else { panic!("no start") };
    // All nodes have the same time of day.
    (start.wall_clock_s, start.host) = (1_700_000_000, format!("node{node}"));
    part
}

fn start_of(tape: &[Input]) -> Start {
    let Some(Input::Start(start)) = tape.first() else { panic!("no start") };
    (**start).clone()
}

fn joined(tapes: Vec<Vec<Input>>) -> Vec<Input> {
    let starts: Vec<Start> = tapes.iter().map(|tape| start_of(tape)).collect();
    let join = Join::new(&starts).expect("a few nodes");
    let mut tapes: Vec<_> = tapes.into_iter().map(Vec::into_iter).collect();
    let mut all = Vec::new();
    let take = |input: &Input| {
        all.push(input.clone());
        Ok(())
    };
    join.run::<Infallible>(|node| Ok(tapes[node].next()), take).expect("it cannot fail");
    all
}

/// All that is said, but for nodes.
#[derive(Debug, PartialEq)]
struct Told {
    findings: Vec<(String, Severity, String)>,
    records: u64,
    operations: u64,
    chains: u64,
    tcp: Option<TcpStatistics>,
}

fn told(report: &Report) -> Told {
    let findings = report.findings.iter().map(|f| {
        let without_nodes = Finding { nodes: Vec::new(), ..f.clone() };
        (f.id.clone(), f.severity, render::finding(&without_nodes, Style::default()))
    });
    let s = &report.statistics;
    let (records, operations, chains) = (s.records, s.operations, s.chains);
    Told { findings: findings.collect(), records, operations, chains, tcp: s.tcp }
}

#[test]
fn a_fault_across_nodes_is_found_with_its_chain() {
    let whole = ring(120, |step, rank| step % 40 == 7 && rank == 2);
    let nodes = [0, 0, 0, 1, 1, 1];
    let tapes = (0..2).map(|node| part(&whole, node, &nodes, 0)).collect();
    let report = run(joined(tapes));
    let warning = report.findings.iter().find(|f| f.severity == Severity::Warning).expect("a warning");
    assert_eq!(report.statistics.processes.len(), RANKS as usize);
    let text = render::finding(warning, Style::default());
    assert!(text.contains("receive over TCP"), "{text}");
    assert!(text.contains("rank 2 on node0; rank 3 on node1"), "{text}");
}

#[test]
fn numbers_of_nodes_do_not_meet() {
    let whole = ring(2, |_, _| false);
    let tapes = (0..2).map(|node| part(&whole, node, &[0, 1, 0, 1, 0, 1], 0)).collect();
    let all = joined(tapes);
    let pids: Vec<u32> =
        all.iter().filter_map(|i| if let Input::Process(p) = i { Some(p.pid) } else { None }).collect();
    let mut places: Vec<_> = pids.iter().map(|&of| (node_of(of), pid_on_node(of))).collect();
    places.sort_unstable();
    let expected = [(0, pid(0)), (0, pid(2)), (0, pid(4)), (1, pid(1)), (1, pid(3)), (1, pid(5))];
    assert_eq!(places, expected);
    let Some(Input::Start(start)) = all.first() else { panic!("no start") };
    assert_eq!(start.nodes, ["node0", "node1"]);
    let ends = all.iter().filter(|input| matches!(input, Input::End(_))).count();
    assert_eq!((ends, matches!(all.last(), Some(Input::End(_)))), (1, true));
}

#[test]
fn nodes_that_end_early_or_have_no_end_do_not_keep_the_others_waiting() {
    let whole = ring(20, |_, _| false);
    let mut tapes: Vec<_> = (0..3).map(|node| part(&whole, node, &[0, 0, 1, 1, 2, 2], 0)).collect();
    tapes[1].truncate(30);
    let all = joined(tapes);
    let ticks = all.iter().filter(|input| matches!(input, Input::Tick { .. })).count();
    assert_eq!(ticks, 20, "one clock is enough");
    let last =
        all.iter().filter_map(|i| if let Input::Record(r) = i { Some(r.time_ns()) } else { None }).max();
    let last_of_whole =
        whole.iter().filter_map(|i| if let Input::Record(r) = i { Some(r.time_ns()) } else { None }).max();
    assert_eq!(last, last_of_whole);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// However the ranks lie on nodes, whatever the clocks of these show, and even if some were lost.
    #[test]
    fn what_is_found_is_the_same_on_one_node_and_on_several(
        nodes in prop::collection::vec(0usize..3, RANKS as usize),
        clocks in prop::collection::vec(-500 * S as i64..500 * S as i64, 2),
        faults in prop::collection::btree_set((0u64..100, 0u32..RANKS), 0..6),
        lost in prop::option::of((0usize..2000, 0u32..RANKS)),
    ) {
        let mut whole = ring(100, |step, rank| faults.contains(&(step, rank)));
        if let Some((at, rank)) = lost {
            let at = (at + 40).min(whole.len() - 1);
            let time_ns = whole[..at].iter().rev().find_map(|i| {
                if let Input::Record(r) = i { Some(r.time_ns()) } else { None }
            });
            let (from_ns, to_ns) = (time_ns.unwrap_or(1), time_ns.unwrap_or(1) + 1);
            let loss = analyzer::input::Loss { pid: pid(rank), from_ns, to_ns, movements: 3, state: 0 };
            whole.insert(at, Input::Loss(loss));
        }
        // Far enough from zero for every clock.
        let whole: Vec<Input> = whole.iter().map(|input| shifted(input, 1000 * S as i64)).collect();
        let clock = |node: usize| if node == 0 { 0 } else { clocks[node - 1] };
        let tapes = (0..3).map(|node| part(&whole, node, &nodes, clock(node))).collect();
        prop_assert_eq!(told(&run(joined(tapes))), told(&run(whole)));
    }
}
