//! A job whose nodes are analyzed by agents, each its own, and whose counts come together: what is found is the same as if one
//! place had read all records.

use std::collections::BTreeMap;

use analyzer::finding::{Report, Severity};
use analyzer::input::{Input, ProcessFacts};
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;

use crate::common;
use crate::common::agents::{Transport, run_agents};
use crate::common::nodes::{joined, part, shifted};
use crate::common::random::{Step, options, planned_trace, step};
use crate::common::random_calls::{CallStep, call_step, calling_job};
use crate::common::random_streams::{StreamStep, stream_step, streaming_job};
use proptest::prelude::*;
use serde_json::Value;

const S: u64 = 1_000_000_000;
/// Ranks of a node in random jobs.
const RANKS: u32 = common::random::RANKS;

/// What agents make of all inputs of their nodes.
fn agents(tapes: &[Vec<Input>], options: &Options) -> Vec<Vec<Input>> {
    run_agents(tapes, options, Transport::default())
}

fn run(inputs: &[Input], options: &Options) -> Report {
    let mut pipeline = Pipeline::new(options.clone());
    inputs.iter().for_each(|input| pipeline.push(input));
    pipeline.report()
}

/// All that is said, but for what depends on which node told of something first: numbers of probes, and of equal files; which
/// instances of a chain are shown.
fn told(mut report: Report) -> Value {
    report.session = Default::default();
    let probes = &mut report.statistics.probes;
    probes.iter_mut().for_each(|probe| probe.probe = 0);
    probes
        .sort_by_key(|probe| (probe.place.module.clone(), probe.place.offset_bytes, probe.function.clone()));
    let mut told = serde_json::to_value(report).expect("a report is JSON");
    remove_files(&mut told);
    told
}

fn remove_files(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("file");
            if let Some(examples) = map.get_mut("examples") {
                *examples = examples.as_array().map_or(0, Vec::len).into();
            }
            // What to do next speaks of the addresses in one of these.
            if map.get("evidence").is_some_and(|evidence| evidence["kind"] == "odd_chain") {
                map.remove("next_steps");
            }
            map.values_mut().for_each(remove_files);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_files),
        _ => {}
    }
}

/// A random job on each node, with the ranks that follow those of the node before.
fn parts(jobs: &[Vec<Step>]) -> Vec<Vec<Input>> {
    let size = Some(jobs.len() as u32 * RANKS);
    let part = |(node, steps): (usize, &Vec<Step>)| {
        let mut tape: Vec<Input> =
            planned_trace(steps, false).iter().map(|input| shifted(input, S as i64)).collect();
        for input in &mut tape {
            match input {
                Input::Process(facts) => {
                    let rank = facts.rank.map(|rank| rank + node as u32 * RANKS);
                    **facts = ProcessFacts { rank, size, ..(**facts).clone() };
                }
                Input::Start(start) => {
                    (start.wall_clock_s, start.host) = (1_700_000_000, format!("node{node}"));
                }
                _ => {}
            }
        }
        with_ticks(tape)
    };
    jobs.iter().enumerate().map(part).collect()
}

/// With a tick now and then.
fn with_ticks(tape: Vec<Input>) -> Vec<Input> {
    let mut ticked = Vec::new();
    for (number, input) in tape.into_iter().enumerate() {
        let time_ns = if let Input::Record(record) = &input { Some(record.time_ns()) } else { None };
        ticked.push(input);
        ticked.extend(time_ns.filter(|_| number % 7 == 0).map(|time_ns| Input::Tick { time_ns }));
    }
    ticked
}

const CALLING: u32 = 6;

fn without_chains(mut told: Value) -> Value {
    told["thresholds"].take();
    for count in ["chains", "groups", "inconclusive_chains", "top_groups", "operations"] {
        told["statistics"][count].take();
    }
    told
}

/// What each node has of a job, by clocks that are far from zero.
fn parts_of(whole: &[Input], nodes: &[usize]) -> Vec<Vec<Input>> {
    let whole: Vec<Input> = whole.iter().map(|input| shifted(input, S as i64)).collect();
    (0..=nodes.iter().copied().max().unwrap_or(0)).map(|node| part(&whole, node, nodes, 0)).collect()
}

/// What is found of a job that calls MPI, by one place and by agents.
fn whole_and_summed(steps: &[CallStep], nodes: &[usize], with_results: bool) -> (Value, Value) {
    let options = Options::default();
    let tapes = parts_of(&calling_job(CALLING, steps, with_results), nodes);
    let thinned = agents(&tapes, &options);
    // A loss on one node says nothing of the chains of others.
    let report = |tapes: Vec<Vec<Input>>| without_chains(told(run(&joined(tapes), &options)));
    (report(tapes), report(thinned))
}

#[test]
fn a_request_that_was_completed_before_the_end_is_known_to_be() {
    let started = |rank| CallStep::Started { rank, function: 0, handle: 0, place: 0 };
    let waits = |rank| CallStep::Paired { rank, function: 2, peer: 0, place: 0 };
    let all = || (0..CALLING).map(started);
    let others = || (0..CALLING).filter(|rank| *rank != 1).map(waits);
    let end = [CallStep::Finalize { rank: 1 }, CallStep::Sampled { computing: 0, times: 5 }];
    let left: Vec<CallStep> = all().chain(others()).chain(end.clone()).collect();
    let completed: Vec<CallStep> = all().chain([waits(1)]).chain(others()).chain(end).collect();
    for (steps, faults) in [(left, 1), (completed, 0)] {
        let (whole, summed) = whole_and_summed(&steps, &[0, 0, 1, 1, 1, 2], false);
        assert_eq!(summed, whole);
        let is_it = |finding: &&Value| finding["evidence"]["fault"] == "uncompleted_request";
        let found = whole["findings"].as_array().expect("findings").iter().filter(is_it).count();
        assert_eq!(found, faults, "{whole:#}");
    }
}

#[test]
fn the_first_call_after_the_end_of_mpi_is_the_one_that_a_process_was_ended_for() {
    let sends = |place| CallStep::Paired { rank: 1, function: 0, peer: 0, place };
    let steps =
        [CallStep::Finalize { rank: 1 }, sends(2), sends(3), sends(1), CallStep::Exit { rank: 1, status: 1 }];
    let (whole, summed) = whole_and_summed(&steps, &[0, 1, 0, 0, 0, 0], false);
    assert_eq!(summed, whole);
    assert_eq!(whole["findings"][0]["evidence"]["fault"], "invalid_call", "{whole:#}");
}

/// What is told late, where it matters, is not told as if it had happened then.
#[test]
fn calls_that_are_told_again_are_not_counted_again_and_end_no_error() {
    let barrier = CallStep::Collective { function: 0, left_out: 0, odd: 0, place: 0 };
    let sampled = |times| CallStep::Sampled { computing: 0, times };
    let loss = CallStep::Loss { rank: 4, state: 0 };
    let pause = CallStep::Pause { probe_off: false };
    let send = CallStep::Paired { rank: 1, function: 0, peer: 0, place: 0 };
    let error = CallStep::Error { rank: 1, code: 0, in_its_call: true };
    let finalize = CallStep::Finalize { rank: 1 };
    let wait = CallStep::Paired { rank: 1, function: 2, peer: 0, place: 0 };
    let ibarrier = CallStep::Started { rank: 1, function: 0, handle: 0, place: 0 };
    for steps in [
        vec![barrier.clone(), loss, sampled(1), barrier.clone()],
        vec![pause.clone(), send.clone(), error.clone(), pause],
        vec![CallStep::Abort { rank: 1 }, send.clone()],
        vec![send.clone(), error.clone(), send.clone()],
        vec![send, error, sampled(4), CallStep::Exit { rank: 1, status: 1 }],
        vec![wait, ibarrier, finalize, sampled(5)],
    ] {
        let (whole, summed) = whole_and_summed(&steps, &[0, 0, 0, 1, 0, 0], false);
        assert_eq!(summed, whole, "{steps:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn what_calls_samples_errors_and_ends_tell_is_the_same(
        steps in prop::collection::vec(call_step(CALLING), 1..80),
        nodes in prop::collection::vec(0usize..3, CALLING as usize),
        with_results in any::<bool>(),
    ) {
        let (whole, summed) = whole_and_summed(&steps, &nodes, with_results);
        prop_assert_eq!(summed, whole);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn counts_of_nodes_that_exchange_nothing_are_those_of_one_place(
        jobs in prop::collection::vec(prop::collection::vec(step(), 1..120), 1..4),
    ) {
        let options = Options { max_age_ops: 1 << 20, ..options() };
        let tapes = parts(&jobs);
        let thinned = agents(&tapes, &options);
        let whole = told(run(&joined(tapes), &options));
        let summed = told(run(&joined(thinned), &options));
        prop_assert_eq!(summed, whole);
    }
}

/// So many cases; `DMSCOPE_TEST_SPLITS` asks for more.
fn cases(usual: u32) -> ProptestConfig {
    let wanted = std::env::var("DMSCOPE_TEST_SPLITS").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig::with_cases(wanted.unwrap_or(usual))
}

/// Pairs of ranks, which share memory and are on one node.
const PAIRS: usize = 3;

proptest! {
    #![proptest_config(cases(192))]

    /// Whatever goes over TCP between them, and whenever their letters come.
    #[test]
    fn chains_that_go_through_nodes_are_those_of_one_place(
        steps in prop::collection::vec(stream_step(2 * PAIRS as u32), 1..150),
        nodes in prop::collection::vec(0usize..3, PAIRS),
        launched in any::<bool>(),
        whole in any::<bool>(),
        every in 1usize..20,
        delays in prop::collection::vec(0usize..40, 1..6),
    ) {
        let options = Options { max_age_ops: 1 << 20, max_chain_ops: 255, ..options() };
        let nodes: Vec<usize> = nodes.into_iter().flat_map(|node| [node, node]).collect();
        let tapes = parts_of(&streaming_job(2 * PAIRS as u32, &steps, launched, whole), &nodes);
        let thinned = run_agents(&tapes, &options, Transport { every, delays, lost: Vec::new() });
        let (summed, whole) = (run(&joined(thinned), &options), run(&joined(tapes), &options));
        no_surer(&summed, &whole);
        prop_assert_eq!(without_contexts(told(summed)), without_contexts(told(whole)));
    }
}

/// The same job, in which a step takes so long, with ticks of all nodes.
fn slowly(inputs: &[Input], step_ns: u64) -> Vec<Input> {
    const TICK_NS: u64 = 50_000_000;
    let (mut slow, mut now_ns, mut ticked_ns) = (Vec::new(), 0, 0);
    for input in inputs.iter().filter(|input| !matches!(input, Input::Tick { .. })) {
        if matches!(input, Input::Record(_)) {
            now_ns += step_ns;
        }
        while ticked_ns + TICK_NS <= now_ns {
            ticked_ns += TICK_NS;
            slow.push(Input::Tick { time_ns: ticked_ns });
        }
        let by_ns = input.time_ns().map_or(0, |time_ns| now_ns.wrapping_sub(time_ns));
        slow.push(shifted(input, by_ns.cast_signed()));
    }
    slow
}

/// Ranks of the first node send to those of the second, so that no chain is passed on and cut.
fn one_way(step: StreamStep) -> StreamStep {
    let here = |rank: u32| rank % 2;
    let there = |rank: u32| 2 + rank % 2;
    match step {
        StreamStep::Send { from, to, slot, parts } => {
            StreamStep::Send { from: here(from), to: there(to), slot, parts }
        }
        StreamStep::Receive { from, to, slot, len } => {
            StreamStep::Receive { from: here(from), to: there(to), slot, len }
        }
        other => other,
    }
}

proptest! {
    #![proptest_config(cases(48))]

    /// Letters that come long after what they tell of: nothing counts as seen at one end alone, and all that is found is found.
    #[test]
    fn however_late_letters_come_what_is_found_is_the_same(
        steps in prop::collection::vec(stream_step(4).prop_map(one_way), 1..60),
        step_ns in 10_000_000u64..400_000_000,
        every in 1usize..20,
        delays in prop::collection::vec(0usize..400, 1..6),
    ) {
        let options = Options { max_age_ops: 1 << 20, max_chain_ops: 255, ..options() };
        let job = slowly(&streaming_job(4, &steps, true, true), step_ns);
        let tapes = parts_of(&job, &[0, 0, 1, 1]);
        let thinned = run_agents(&tapes, &options, Transport { every, delays, lost: Vec::new() });
        let (summed, whole) = (run(&joined(thinned), &options), run(&joined(tapes), &options));
        prop_assert_eq!(summed.statistics.tcp.map_or(0, |tcp| tcp.unseen_bytes), 0);
        prop_assert_eq!(without_contexts(told(summed)), without_contexts(told(whole)));
    }
}

/// What chains lack may have been read by the time when their ends are told: they may say less, and never more.
fn no_surer(summed: &Report, whole: &Report) {
    let severities = |report: &Report| -> BTreeMap<String, Severity> {
        report.findings.iter().map(|finding| (odd_of(&finding.id), finding.severity)).collect()
    };
    let whole = severities(whole);
    for (odd, severity) in severities(summed) {
        assert!(whole.get(&odd).is_some_and(|known| severity <= *known), "{odd}");
    }
}

/// Of the name of a finding, what is odd and not what it is held against.
fn odd_of(id: &str) -> String {
    id.split('-').take(2).collect::<Vec<_>>().join("-")
}

/// Of findings of chains, what does not depend on what surrounds these; how severe they are does, and so their order.
fn without_contexts(mut told: Value) -> Value {
    let findings = told["findings"].as_array_mut().expect("findings");
    for finding in findings.iter_mut() {
        if finding["evidence"]["kind"] == "odd_chain" {
            *finding = serde_json::json!([odd_of(finding["id"].as_str().expect("text")), finding["verdict"]]);
        }
    }
    findings.sort_by_key(Value::to_string);
    told
}
