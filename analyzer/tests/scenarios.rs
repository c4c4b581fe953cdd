//! Jobs with a bug, and jobs without one.

mod common;

use analyzer::finding::{Evidence, Finding, Report, Severity, Verdict};
use analyzer::input::Input;
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::process::Who;
use common::{Trace, segment_at};

fn run(inputs: &[Input]) -> Report {
    run_with(inputs, Options::default())
}

fn run_with(inputs: &[Input], options: Options) -> Report {
    let mut pipeline = Pipeline::new(options);
    inputs.iter().for_each(|input| pipeline.push(input));
    pipeline.report()
}

fn warnings(report: &Report) -> Vec<&Finding> {
    report.findings.iter().filter(|f| f.severity == Severity::Warning).collect()
}

/// Rank 0 sends to rank 1 by a bounce buffer on each side. `misplaced`: what is sent begins 24 times
/// 24 bytes below the data, for want of a parenthesis.
fn send(t: &mut Trace, step: u64, misplaced: bool) {
    let (x, a) = (t.heap(0, "user send buffer"), t.heap(0, "bounce buffers"));
    let (b, y) = (t.heap(1, "receive bounce buffers"), t.heap(1, "user receive buffer"));
    let slot = 4096 * (1 + step % 8);
    let sent = if misplaced { a + slot - 24 * 24 } else { a + slot };
    t.call(0, "MPI_Send", "main: send");
    t.copy(0, "stage", x, a + slot, 64);
    t.copy(0, "write", sent, segment_at(0) + slot, 64);
    t.call(1, "MPI_Recv", "main: receive");
    t.copy(1, "read", segment_at(1) + slot, b + slot, 64);
    t.copy(1, "deliver", b + slot, y, 64);
}

fn figure_two(bugs: u64) -> Vec<Input> {
    let mut t = Trace::new(2, true);
    for step in 0..400 {
        send(&mut t, step, bugs > 0 && step % 100 == 50 && step / 100 < bugs);
    }
    t.end()
}

#[test]
fn the_broken_chain_of_figure_two_is_the_first_warning() {
    let report = run(&figure_two(3));
    assert_eq!(warnings(&report).len(), 1, "{:#?}", report.findings);
    let finding = &report.findings[0];
    assert_eq!((finding.severity, finding.verdict), (Severity::Warning, Verdict::Violated));
    let Evidence::OddChain(chain) = &finding.evidence else { panic!("not a chain: {finding:?}") };
    assert_eq!((chain.odd.chains, chain.frequent.chains), (3, 397));
    assert_eq!((chain.odd.ops.len(), chain.frequent.ops.len()), (3, 4));
    assert_eq!(chain.abnormality, 0.8859);
    assert_eq!((chain.context.matched, chain.context.known), (3, 3));
    assert_eq!(finding.who, [Who::Rank(0), Who::Rank(1)]);
}

#[test]
fn the_same_job_without_the_bug_has_no_finding() {
    let report = run(&figure_two(0));
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    assert!(report.thresholds.warm);
}
