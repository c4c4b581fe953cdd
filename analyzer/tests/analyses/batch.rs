//! The on-line pipeline says what the batch definition says.

use std::collections::BTreeMap;

use crate::common::naive::{self, Outcome, Outlier, Violation, batch, group_text};
use crate::common::random::{options, step, trace};
use analyzer::finding::{BufferKind, BufferView, ComparedBy, Evidence, OpView, Place, Report};
use analyzer::input::Input;
use analyzer::names::{BufferName, Kind, OpName, SiteName};
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use proptest::prelude::*;

fn outcome(inputs: &[Input], options: &Options) -> Outcome {
    let mut pipeline = Pipeline::new(options.clone());
    for (at, input) in inputs.iter().enumerate() {
        pipeline.push(input);
        if at % 50 == 0 {
            pipeline.report();
        }
    }
    let report = pipeline.report();
    let groups = pipeline.into_reference().groups;
    let names = |g: &analyzer::reference::ReferenceGroup| -> Vec<OpName> {
        g.ops.iter().map(|op| op.name.clone()).collect()
    };
    Outcome {
        groups: groups.iter().map(|g| (group_text(&names(g)), g.chains)).collect::<BTreeMap<_, _>>(),
        violations: violations(&report),
        outliers: outliers(&report),
    }
}

fn violations(report: &Report) -> Vec<Violation> {
    let mut all = Vec::new();
    for finding in &report.findings {
        let Evidence::OddChain(chain) = &finding.evidence else { continue };
        all.push(Violation {
            odd: ops_text(&chain.odd.ops),
            frequent: ops_text(&chain.frequent.ops),
            abnormality: four_digits(chain.abnormality),
            matched: chain.context.matched,
            known: chain.context.known,
        });
    }
    all.sort();
    all
}

fn outliers(report: &Report) -> Vec<Outlier> {
    let mut all: Vec<Outlier> = Vec::new();
    for finding in &report.findings {
        let Evidence::OddRank(rank) = &finding.evidence else { continue };
        all.push(Outlier {
            who: rank.who,
            part: rank.part,
            by_work: rank.compared_by == ComparedBy::Beginnings,
            distance: four_digits(rank.distance),
        });
    }
    all.sort();
    all
}

fn four_digits(value: f64) -> String {
    format!("{value:.4}")
}

fn ops_text(ops: &[OpView]) -> String {
    let name = |op: &OpView| OpName {
        site: site_name(&op.place),
        kind: op.kind,
        pack: op.segments >= 2 && is_pack(op),
        crosses: op.crosses,
        source: buffer_name(&op.source),
        destination: buffer_name(&op.destination),
    };
    group_text(&ops.iter().map(name).collect::<Vec<_>>())
}

fn is_pack(op: &OpView) -> bool {
    !matches!(op.kind, Kind::Pack | Kind::Unpack) || op.segments >= 2
}

fn site_name(place: &Place) -> SiteName {
    if place.module.starts_with("process_vm") {
        return SiteName::Kernel { call: place.module.clone() };
    }
    SiteName::File { module: place.module.clone(), build_id: None, offset_bytes: place.offset_bytes }
}

fn buffer_name(view: &BufferView) -> BufferName {
    match view.what {
        BufferKind::Heap => BufferName::Heap { site: site_name(view.allocated.as_ref().expect("its site")) },
        BufferKind::HeapBeforeAttach => BufferName::HeapBeforeAttach,
        BufferKind::Shared => BufferName::Shared { name: view.name.clone() },
        BufferKind::Static => BufferName::Static { module: view.name.clone() },
        BufferKind::Unknown => BufferName::Unknown,
        other => panic!("not in these traces: {other:?}"),
    }
}

/// The pairs of the batch that the report shows: of each odd group the heaviest one.
fn shown(all: &[Violation], shown: &[Violation]) -> Result<(), String> {
    for v in shown {
        if !all.contains(v) {
            return Err(format!("not in the batch: {v:#?}"));
        }
    }
    let odd = |vs: &[Violation]| vs.iter().map(|v| v.odd.clone()).collect::<std::collections::BTreeSet<_>>();
    if odd(all) == odd(shown) { Ok(()) } else { Err("other odd groups".into()) }
}

proptest! {
    #[test]
    fn on_line_and_batch_agree(steps in proptest::collection::vec(step(), 1..120), launched in any::<bool>()) {
        let inputs = trace(&steps, launched);
        let (online, batch) = (outcome(&inputs, &options()), batch(&inputs, &options()));
        prop_assert_eq!(&online.groups, &batch.groups);
        prop_assert_eq!(shown(&batch.violations, &online.violations), Ok(()));
        prop_assert_eq!(&online.outliers, &batch.outliers);
    }
}

proptest! {
    /// With a factor of one and few chains, ranks that are exactly at the threshold are common.
    #[test]
    fn what_is_exactly_at_the_threshold_is_decided_alike(
        steps in proptest::collection::vec(step(), 20..120),
        factor in prop_oneof![Just(1.0), Just(1.25), Just(1.5), Just(2.0)],
    ) {
        let options = Options {
            outlier_factor: factor,
            outlier_floor: 0.0,
            min_chains_per_rank: 1,
            neighbour_divisor: 2,
            ..options()
        };
        let inputs = trace(&steps, true);
        prop_assert_eq!(outcome(&inputs, &options).outliers, batch(&inputs, &options).outliers);
    }
}

#[test]
fn the_batch_is_not_empty_handed() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut violations, mut matched, mut outliers, mut long) = (0, 0, 0, 0);
    for _ in 0..60 {
        let steps =
            proptest::collection::vec(step(), 100..120).new_tree(&mut runner).expect("a trace").current();
        let found: naive::Outcome = batch(&trace(&steps, true), &options());
        violations += found.violations.len();
        matched += found.violations.iter().filter(|v| v.matched > 0).count();
        outliers += found.outliers.len();
        long += found.groups.keys().filter(|g| g.lines().count() > 2).count();
    }
    assert!(
        violations > 50 && matched > 5 && outliers > 3 && long > 50,
        "{violations} {matched} {outliers} {long}"
    );
}
