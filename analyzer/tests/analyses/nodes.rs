//! A job on several nodes: what is found is the same as if it had run on one.

use crate::common::nodes::{RANKS, WALL_CLOCK_S, at_that_time, joined, part, ring, shifted};
use crate::common::{Trace, pid};
use analyzer::finding::{Finding, Report, Severity};
use analyzer::input::{ClockReading, Input, Start, Threads};
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::plan::ProbeClass;
use analyzer::render::{self, Style};
use analyzer::statistics::TcpStatistics;
use analyzer::tape::{node_of, pid_on_node};
use analyzer::wire::{Body, CallContext};
use proptest::prelude::*;

const S: u64 = 1_000_000_000;

fn run(inputs: impl IntoIterator<Item = Input>) -> Report {
    let mut pipeline = Pipeline::new(Options::default());
    inputs.into_iter().for_each(|input| pipeline.push(&input));
    pipeline.report()
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

/// Two ranks, each with a thread that sends and one that receives. `late`: what was sent is told after the answer to it was
/// received, by another thread.
fn questions_and_answers(late: bool) -> Vec<Input> {
    const BYTES: u32 = 64;
    let mut t = Trace::new(2, true);
    for rank in 0..2 {
        for name in ["data", "staging", "received", "result"] {
            t.heap(rank, name);
        }
        t.call(rank, "MPI_Init_thread", "main: begin");
    }
    let stage = t.probe("stage", ProbeClass::Copy);
    let deliver = t.probe("deliver", ProbeClass::Copy);
    let context = CallContext::default();
    for step in 0..300_u32 {
        let position = step * BYTES;
        let mut blocks = |rank: u32| {
            ["data", "staging", "received", "result"]
                .map(|name| t.heap(rank, name) + u64::from(step % 8) * 4096)
        };
        let ([data, staging, received, result], [.., far_received, far_result]) = (blocks(0), blocks(1));
        let far_data = blocks(1)[0];
        let len_bytes = u64::from(BYTES);
        let stream = |addr, stream, receive| Body::Stream {
            addr,
            stream,
            position,
            len_bytes: BYTES,
            receive,
            context,
        };
        t.record_of(0, 1, stage, Body::Copy { dst: staging, src: data, len_bytes, context });
        let sent = |t: &mut Trace| t.record_of(0, 1, 0, stream(staging, 1, false));
        if !late {
            sent(&mut t);
        }
        t.record_of(1, 0, 0, stream(far_received, 1, true));
        t.record_of(1, 0, deliver, Body::Copy { dst: far_result, src: far_received, len_bytes, context });
        t.record_of(1, 0, 0, stream(far_data, 2, false));
        t.record_of(0, 2, 0, stream(received, 2, true));
        t.record_of(0, 2, deliver, Body::Copy { dst: result, src: received, len_bytes, context });
        if late {
            sent(&mut t);
        }
        t.tick();
    }
    t.end()
}

#[test]
fn nodes_that_wait_for_each_other_go_on_and_nothing_that_was_sent_is_unseen() {
    let expected = run(questions_and_answers(false)).statistics;
    let tapes = (0..2).map(|node| part(&questions_and_answers(true), node, &[0, 1], 0)).collect();
    let found = run(joined(tapes)).statistics;
    let tcp = found.tcp.expect("it goes over TCP");
    assert_eq!((tcp.unseen_bytes, tcp.missed_bytes), (0, 0), "{tcp:?}");
    assert_eq!(
        (found.operations, found.chains, found.groups),
        (expected.operations, expected.chains, expected.groups)
    );
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

/// A session of a node that reads its clocks every ten seconds and looks at threads in between. `shown`: what its clock shows at
/// a true time.
fn clocked(shown: impl Fn(u64) -> u64, steps: u64) -> Vec<Input> {
    let wall_ns = |true_ns: u64| WALL_CLOCK_S * S + true_ns;
    let start = Start { time_ns: shown(S), wall_clock_s: WALL_CLOCK_S + 1, ..Start::default() };
    let mut inputs = vec![Input::Start(Box::new(start))];
    for at in (1..steps).map(|step| step * 10 * S) {
        let (time_ns, wall_clock_ns) = (shown(at), wall_ns(at));
        let error_ns = Some(1_000_000);
        inputs.push(Input::Clock(ClockReading { node: 0, time_ns, wall_clock_ns, error_ns }));
        let threads = Threads { time_ns: shown(at + 5 * S), threads: Vec::new() };
        inputs.push(Input::Threads(Box::new(threads)));
    }
    inputs
}

/// Times of looks at threads, in pairs of what both nodes have seen at one moment.
fn times_of_looks(inputs: &[Input]) -> Vec<u64> {
    let look = |input: &Input| if let Input::Threads(threads) = input { Some(threads.time_ns) } else { None };
    inputs.iter().filter_map(look).collect()
}

#[test]
fn clocks_that_go_apart_are_held_together_and_how_far_they_may_be_off_is_known() {
    let fast = |ns: u64| ns + ns / 10_000 * 3;
    let slow = |ns: u64| 7_000 * S + ns - ns / 10_000 * 2;
    let own = |ns: u64| ns;
    type Shown<'a> = &'a dyn Fn(u64) -> u64;
    for (first, second) in [(&own as Shown, &fast as Shown), (&own, &slow), (&fast, &own), (&slow, &fast)] {
        let all = joined(vec![clocked(first, 100), clocked(second, 100)]);
        let looks = times_of_looks(&all);
        assert_eq!(looks.len(), 2 * 99);
        assert!(looks.is_sorted());
        for pair in looks.chunks(2) {
            // What may happen until the next reading.
            assert!(pair[1] - pair[0] < 8_000_000, "{pair:?}");
        }
        let session = run(all).session;
        assert_eq!(session.node_clock_errors_ns, [Some(1_000_000); 2]);
    }
}

#[test]
fn a_wall_clock_that_is_set_moves_nothing() {
    let mut set = clocked(|ns| ns, 50);
    for input in &mut set[40..] {
        if let Input::Clock(reading) = input {
            reading.wall_clock_ns += 3600 * S;
        }
    }
    let looks = times_of_looks(&joined(vec![clocked(|ns| ns, 50), set]));
    assert!(looks.chunks(2).all(|pair| pair[0] == pair[1]), "{looks:?}");
}

#[test]
fn a_page_of_several_nodes_has_a_row_for_each_rank_with_its_node_and_how_far_its_times_may_be_off() {
    let whole = ring(20, |_, _| false);
    let mut tapes: Vec<_> = (0..2).map(|node| part(&whole, node, &[0, 0, 0, 1, 1, 1], 0)).collect();
    let reading =
        |error_ns| Input::Clock(ClockReading { error_ns: Some(error_ns), ..ClockReading::default() });
    tapes[0].insert(1, reading(2000));
    tapes[1].insert(1, reading(500));
    let mut pipeline = Pipeline::with_timeline(Options::default(), 100);
    joined(tapes).iter().for_each(|input| pipeline.push(input));
    let report = pipeline.report();
    let page = pipeline.page(report).expect("a timeline was kept");
    let rows: Vec<_> =
        page.timeline.rows.iter().map(|r| (r.node.as_deref(), r.pid, r.time_error_ns)).collect();
    let row = |rank: u32| match rank {
        0..3 => (Some("node0"), Some(pid(rank)), Some(0)),
        _ => (Some("node1"), Some(pid(rank)), Some(2500)),
    };
    assert_eq!(rows, (0..RANKS).map(row).collect::<Vec<_>>());
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
            let loss = analyzer::input::Loss { pid: pid(rank), from_ns, to_ns, movements: 3, calls: 1, state: 0 };
            whole.insert(at, Input::Loss(loss));
        }
        // Far enough from zero for every clock.
        let whole = at_that_time(whole.iter().map(|input| shifted(input, 1000 * S as i64)).collect());
        let clock = |node: usize| if node == 0 { 0 } else { clocks[node - 1] };
        let tapes = (0..3).map(|node| part(&whole, node, &nodes, clock(node))).collect();
        prop_assert_eq!(told(&run(joined(tapes))), told(&run(whole)));
    }

    /// Wall clocks may be wrong: what was sent is taken before it is received all the same, with all that its sender did before.
    #[test]
    fn what_is_found_does_not_depend_on_wrong_clocks(
        nodes in prop::collection::vec(0usize..3, RANKS as usize),
        errors in prop::collection::vec(-900i64..900, 2),
        faults in prop::collection::btree_set((0u64..100, 0u32..RANKS), 0..6),
    ) {
        let whole = ring(100, |step, rank| faults.contains(&(step, rank)));
        let whole = at_that_time(whole.iter().map(|input| shifted(input, 1000 * S as i64)).collect());
        let wrong = |node: usize| {
            let mut tape = part(&whole, node, &nodes, 0);
            let error_ns = if node == 0 { 0 } else { errors[node - 1] * 1_000_000 };
            for input in &mut tape {
                if let Input::Start(start) = input {
                    let wall_ns = start.wall_clock_ns().saturating_add_signed(error_ns);
                    (start.wall_clock_s, start.wall_clock_rest_ns) = (wall_ns / S, (wall_ns % S) as u32);
                }
            }
            tape
        };
        let told = |report: &Report| {
            // In which part of the run something was does depend on clocks.
            let of_chains = report.findings.iter().filter(|f| !f.id.starts_with("rank-"));
            let findings = of_chains.map(|f| (f.id.clone(), f.severity, f.summary.clone()));
            let s = &report.statistics;
            (findings.collect::<Vec<_>>(), s.operations, s.chains, s.tcp)
        };
        let joined = run(joined((0..3).map(wrong).collect()));
        prop_assert_eq!(told(&joined), told(&run(whole)));
    }
}
