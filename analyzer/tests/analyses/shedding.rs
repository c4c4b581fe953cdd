//! What was not watched, to keep a budget, never makes something look violated.

use std::collections::BTreeSet;

use crate::common::random::{options, step, trace};
use crate::common::{Trace, segment_at};
use analyzer::finding::{Evidence, Report, Severity, Verdict};
use analyzer::input::{Coverage, Input};
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::plan::ProbeClass;
use analyzer::wire::{Body, Record};
use proptest::prelude::*;

fn run(inputs: &[Input], options: &Options) -> Report {
    let mut pipeline = Pipeline::new(options.clone());
    inputs.iter().for_each(|input| pipeline.push(input));
    pipeline.report()
}

/// Time of a record that a probe of movements or calls made, and the probe.
fn shed_able(input: &Input) -> Option<(u64, u32)> {
    let Input::Record(raw) = input else { return None };
    let record = Record::decode(raw).expect("made by the test");
    let is_one =
        matches!(record.body, Body::Copy { .. } | Body::Pack { .. } | Body::Cross { .. } | Body::Call { .. });
    is_one.then_some((record.header.time_ns, record.header.probe))
}

/// What is left of a trace when watching pauses between `pauses` (places in the trace), in which some
/// records (`kept`, one in so many) come nevertheless, and the probes `off` are out from the start.
fn shed(inputs: &[Input], pauses: &[(usize, usize)], kept: usize, off: &BTreeSet<u32>) -> Vec<Input> {
    let mut out = Vec::new();
    let (mut now_ns, mut paused) = (0, false);
    for (at, input) in inputs.iter().enumerate() {
        let pause = pauses.iter().any(|(from, to)| (*from..*to).contains(&at));
        if pause != paused || at == 1 {
            paused = pause;
            let off = off.iter().copied().collect();
            out.push(Input::Coverage(Box::new(Coverage {
                time_ns: now_ns,
                paused,
                off,
                ..Coverage::default()
            })));
        }
        if let Some((time_ns, probe)) = shed_able(input) {
            now_ns = time_ns;
            if off.contains(&probe) || paused && at % kept != 0 {
                continue;
            }
        }
        out.push(input.clone());
    }
    out
}

proptest! {
    #[test]
    fn what_was_not_watched_makes_nothing_look_violated(
        steps in proptest::collection::vec(step(), 1..200),
        pauses in proptest::collection::vec((0..400usize, 1..60usize), 0..6),
        kept in 1..5usize,
        off in proptest::collection::btree_set(1..6u32, 0..3),
    ) {
        let options = Options { max_age_ops: 6, ..options() };
        let whole = trace(&steps, true);
        let pauses: Vec<_> = pauses.into_iter().map(|(from, len)| (from, from + len)).collect();
        let partial = run(&shed(&whole, &pauses, kept, &off), &options);
        prop_assert!(partial.findings.is_empty() || partial.thresholds.sampled
            || (off.is_empty() && pauses.iter().all(|(from, _)| *from >= whole.len())));
        if partial.thresholds.sampled {
            prop_assert!(partial.findings.iter().all(|f| f.verdict != Verdict::Violated));
        }
    }
}

/// A message through a bounce buffer on each side; a wrong one is sent from another place.
fn message(t: &mut Trace, number: u64, wrong: bool) {
    let (x, a) = (t.heap(0, "user send buffer"), t.heap(0, "bounce buffers"));
    let (b, y) = (t.heap(1, "receive bounce buffers"), t.heap(1, "user receive buffer"));
    let slot = 4096 * (1 + number % 8);
    t.call(0, "MPI_Send", "main: send");
    t.copy(0, "stage", x, a + slot, 64);
    t.copy(0, "write", if wrong { a + slot - 576 } else { a + slot }, segment_at(0) + slot, 64);
    t.call(1, "MPI_Recv", "main: receive");
    t.copy(1, "read", segment_at(1) + slot, b + slot, 64);
    t.copy(1, "deliver", b + slot, y, 64);
}

fn cover(t: &mut Trace, paused: bool, off: Vec<u32>) {
    t.inputs.push(Input::Coverage(Box::new(Coverage {
        time_ns: t.now_ns,
        paused,
        off,
        ..Coverage::default()
    })));
}

#[test]
fn a_fault_inside_what_was_watched_is_found_and_said_to_be_of_a_sample() {
    let mut t = Trace::new(2, true);
    for number in 0..4000 {
        match number % 400 {
            0 => cover(&mut t, false, vec![]),
            100 => cover(&mut t, true, vec![]),
            _ => {}
        }
        message(&mut t, number, number % 200 == 50);
    }
    let report = run(&t.end(), &Options::default());
    let finding = &report.findings[0];
    assert_eq!((finding.severity, finding.verdict), (Severity::Warning, Verdict::Sampled), "{finding:#?}");
    let Evidence::OddChain(chain) = &finding.evidence else { panic!("{finding:?}") };
    assert_eq!((chain.odd.chains, chain.frequent.chains), (10, 990));
    assert_eq!((report.statistics.pauses, report.findings.len()), (10, 1));
    let (watched, all) = (report.statistics.watched_ns as f64, report.statistics.duration_ns as f64);
    assert!((0.24..0.26).contains(&(watched / all)), "{watched} of {all}");
}

/// A message that is under way when watching begins again is seen from its middle on.
#[test]
fn messages_that_cross_the_edges_of_a_pause_are_no_findings() {
    let mut t = Trace::new(2, true);
    for number in 0..4000u64 {
        let (x, a) = (t.heap(0, "user send buffer"), t.heap(0, "bounce buffers"));
        let (b, y) = (t.heap(1, "receive bounce buffers"), t.heap(1, "user receive buffer"));
        let (slot, before) = (4096 * (1 + number % 8), 4096 * (1 + (number + 5) % 8));
        let paused = number % 50 >= 25;
        let copy = |t: &mut Trace, rank, site: &str, src, dst| {
            if paused {
                t.now_ns += 1000;
            } else {
                t.copy(rank, site, src, dst, 64);
            }
        };
        copy(&mut t, 0, "stage", x, a + slot);
        copy(&mut t, 0, "write", a + slot, segment_at(0) + slot);
        // Three messages are always on their way.
        copy(&mut t, 1, "read", segment_at(1) + before, b + before);
        copy(&mut t, 1, "deliver", b + before, y);
        match number % 50 {
            24 => cover(&mut t, true, vec![]),
            49 => cover(&mut t, false, vec![]),
            _ => {}
        }
    }
    let report = run(&t.end(), &Options::default());
    assert_eq!(report.statistics.pauses, 80);
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
}

/// Else a block that was given back meanwhile would lend its name to what is there now.
#[test]
fn without_allocation_probes_heap_blocks_are_not_known_any_more() {
    let mut t = Trace::new(2, true);
    let malloc = t.probe("malloc", ProbeClass::Alloc);
    for number in 0..300 {
        message(&mut t, number, false);
    }
    cover(&mut t, false, vec![malloc]);
    for number in 300..400 {
        message(&mut t, number, false);
    }
    let report = run(&t.end(), &Options::default());
    let names = |group: &analyzer::finding::GroupView| format!("{:?}", group.ops[0].source.what);
    let groups: Vec<_> = report.statistics.top_groups.iter().map(|g| (names(g), g.chains)).collect();
    assert_eq!(groups, [("Heap".to_owned(), 300), ("HeapBeforeAttach".to_owned(), 100)], "{groups:?}");
    assert_eq!(report.statistics.probes_off, [malloc]);
}
