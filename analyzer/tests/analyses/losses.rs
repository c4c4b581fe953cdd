//! What was lost never makes something look broken.

use crate::common;
use crate::common::naive;
use crate::common::random::{options, step, trace};
use analyzer::finding::{ComparedBy, Evidence, Finding, OpView, Report, Severity, Verdict};
use analyzer::input::{Input, Loss};
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::wire::{Body, Record};
use proptest::prelude::*;

fn run(inputs: &[Input], options: &Options) -> Report {
    let mut pipeline = Pipeline::new(options.clone());
    inputs.iter().for_each(|input| pipeline.push(input));
    pipeline.report()
}

fn is_movement(input: &Input) -> bool {
    let Input::Record(raw) = input else { return false };
    let body = Record::decode(raw).expect("made by the test").body;
    matches!(body, Body::Copy { .. } | Body::Pack { .. } | Body::Cross { .. } | Body::Call { .. })
}

fn is_call(input: &Input) -> bool {
    let Input::Record(raw) = input else { return false };
    matches!(Record::decode(raw).expect("made by the test").body, Body::Call { .. })
}

/// The trace without the movements and calls from `from` to `to`, and with what is told of them.
fn with_gap(inputs: &[Input], from: usize, to: usize) -> Vec<Input> {
    let lose = |(at, input): (usize, &Input)| match input {
        Input::Record(raw) if is_movement(input) && (from..to).contains(&at) => {
            let (pid, ns) = (raw.pid(), raw.time_ns());
            let calls = u64::from(is_call(input));
            Input::Loss(Loss { pid, from_ns: ns, to_ns: ns, movements: 1 - calls, calls, state: 0 })
        }
        other => other.clone(),
    };
    inputs.iter().enumerate().map(lose).collect()
}

fn key(ops: &[OpView]) -> Vec<String> {
    let op = |o: &OpView| {
        format!(
            "{:?} {:#x} {:?} {:?} {} {}",
            o.kind,
            o.place.offset_bytes,
            o.source,
            o.destination,
            o.crosses,
            o.segments > 1
        )
    };
    ops.iter().map(op).collect()
}

/// All pairs that the whole trace shows, by way of options that show one pair after the other.
fn pairs(report: &Report) -> Vec<(Vec<String>, Vec<String>)> {
    let mut pairs = Vec::new();
    for finding in &report.findings {
        let Evidence::OddChain(chain) = &finding.evidence else { continue };
        pairs.push((key(&chain.odd.ops), key(&chain.frequent.ops)));
        pairs.extend(chain.others.iter().map(|o| (key(&chain.odd.ops), key(&o.ops))));
    }
    pairs
}

fn violated(report: &Report) -> impl Iterator<Item = &Finding> {
    report.findings.iter().filter(|f| f.verdict == Verdict::Violated)
}

proptest! {
    #[test]
    fn lost_records_make_nothing_look_violated(
        steps in proptest::collection::vec(step(), 1..200),
        from in 0.0..1.0f64,
        len in 1..40usize,
    ) {
        let options = Options { max_age_ops: 6, ..options() };
        let whole = trace(&steps, true);
        let from = (from * whole.len() as f64) as usize;
        let cut = with_gap(&whole, from, from + len);
        let (all, partial) = (pairs(&run(&whole, &options)), run(&cut, &options));
        for finding in violated(&partial) {
            match &finding.evidence {
                Evidence::OddChain(chain) => {
                    let pair = (key(&chain.odd.ops), key(&chain.frequent.ops));
                    prop_assert!(all.contains(&pair), "{finding:#?}");
                }
                Evidence::Hang(_) | Evidence::CollectiveMismatch(_) => prop_assert!(false, "nobody looked: {finding:#?}"),
                Evidence::Leak(_) | Evidence::DatatypeMismatch(_) | Evidence::BufferConflict(_) | Evidence::OverlappingBuffers(_) | Evidence::HeapMisuse(_) | Evidence::OutsideWindow(_) | Evidence::AccessConflict(_) | Evidence::PotentialDeadlock(_) => prop_assert!(false, "nobody recorded results: {finding:#?}"),
                Evidence::ErrorReturned(_) => prop_assert!(false, "no call failed: {finding:#?}"),
                Evidence::OddRank(rank) => {
                    let found = naive::outliers_in(
                        &whole,
                        &options,
                        rank.part,
                        rank.compared_by == ComparedBy::Beginnings,
                    );
                    prop_assert!(found.iter().any(|o| o.who == rank.who), "{finding:#?}");
                }
            }
        }
    }
}

#[test]
fn what_a_small_gap_cannot_explain_stays_violated() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let options = Options { max_age_ops: 6, ..options() };
    let (mut violated_still, mut inconclusive) = (0, 0);
    for _ in 0..100 {
        let steps =
            proptest::collection::vec(step(), 200..220).new_tree(&mut runner).expect("a trace").current();
        let whole = trace(&steps, true);
        let at = (0..whole.len()).find(|&i| i > 100 && is_movement(&whole[i])).expect("a movement");
        let partial = run(&with_gap(&whole, at, at + 1), &options);
        violated_still += violated(&partial).count();
        inconclusive += partial.findings.len() - violated(&partial).count();
    }
    assert!(violated_still > 10 && inconclusive > 10, "{violated_still} {inconclusive}");
}

#[test]
fn lost_state_makes_what_follows_inconclusive() {
    let mut t = common::Trace::new(2, true);
    for i in 0..300 {
        let (a, b) = (t.heap(0, "a"), t.heap(1, "b"));
        if i == 50 {
            let (pid, ns) = (common::pid(0), t.now_ns);
            t.inputs.push(Input::Loss(Loss {
                pid,
                from_ns: ns,
                to_ns: ns,
                movements: 0,
                calls: 0,
                state: 1,
            }));
        }
        t.copy(0, "out", a, common::segment_at(0), 8);
        t.copy(1, "in", common::segment_at(1), b, 8);
    }
    let report = run(&t.end(), &Options::default());
    assert!(report.statistics.chains < 55 && report.statistics.inconclusive_chains > 240);
    assert!(
        report.findings.iter().all(|f| f.verdict == Verdict::Inconclusive || f.severity == Severity::Notice)
    );
}
