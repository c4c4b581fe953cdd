//! What processes outside the job paid, in the report.

use std::collections::BTreeMap;

use analyzer::input::{End, Input, StrangerCost};
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::plan::ProbeClass;
use analyzer::render::{self, Style};

const S: u64 = 1_000_000_000;

/// The report of a session of ten seconds, as text, and its statistics.
fn told(hits: u64, cost_ns: u64) -> (String, String) {
    let hits = BTreeMap::from([(ProbeClass::Alloc, hits), (ProbeClass::Free, hits)]);
    let cost = StrangerCost { processes: 12, of_other_users: 9, counted_ns: 10 * S, hits, cost_ns };
    let mut pipeline = Pipeline::new(Options::default());
    pipeline.push(&Input::End(End { strangers: Some(Box::new(cost)), ..End::default() }));
    let report = pipeline.report();
    (render::report(&report, Style::default()), render::statistics(&report.statistics, Style::default()))
}

#[test]
fn what_processes_outside_the_job_paid_is_one_line_where_it_matters() {
    let (text, statistics) = told(1_000_000, S);
    let line = "Others: processes outside the job ran into probes 2000000 times (about 1000 ms of their time, 10.0% of one \
                processor); see --only-job.\n";
    assert!(text.contains(line), "{text}");
    let line = "12 other processes (9 of other users) ran into probes 2000000 times, about 1000 ms";
    assert!(statistics.contains(line), "{statistics}");
}

#[test]
fn next_to_nothing_is_told_among_the_statistics_alone() {
    let (text, statistics) = told(500, S / 1000);
    assert!(!text.contains("outside the job"), "{text}");
    assert!(statistics.contains("ran into probes 1000 times"), "{statistics}");
}
