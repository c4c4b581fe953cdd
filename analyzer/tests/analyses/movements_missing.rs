//! Where movements of data alone were lost or not watched, or heap blocks, what MPI calls tell is as certain as ever.

use analyzer::finding::{Evidence, Finding, Report};
use analyzer::input::{Coverage, Input, Loss};
use analyzer::messages::LeakKind;
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::plan::ProbeClass;
use analyzer::wire::{Body, Record};
use proptest::prelude::*;

use crate::common::calls::Job;
use crate::common::pid;
use crate::common::random_calls::{CallStep, call_step, calling_job};

const RANKS: u32 = 3;

fn run(inputs: &[Input]) -> Report {
    let mut pipeline = Pipeline::new(Options::default());
    inputs.iter().for_each(|input| pipeline.push(input));
    pipeline.report()
}

/// What is found but for chains of movements.
fn of_calls(report: &Report) -> Vec<&Finding> {
    let is_of_chains =
        |finding: &&Finding| matches!(finding.evidence, Evidence::OddChain(_) | Evidence::OddRank(_));
    report.findings.iter().filter(|finding| !is_of_chains(finding)).collect()
}

fn is_copy(input: &Input) -> bool {
    let Input::Record(raw) = input else { return false };
    matches!(Record::decode(raw).expect("made by the test").body, Body::Copy { .. })
}

/// The same without the copies at these places, which are lost or late.
fn without(inputs: &[Input], places: &[(usize, bool)]) -> Vec<Input> {
    let gap = |(at, input): (usize, &Input)| match input {
        Input::Record(raw) if is_copy(input) => match places.iter().find(|(place, _)| *place == at) {
            Some((_, true)) => Input::LateRecord(*raw),
            Some((_, false)) => Input::Loss(Loss {
                pid: raw.pid(),
                from_ns: raw.time_ns(),
                to_ns: raw.time_ns() + 1,
                movements: 1,
                calls: 0,
                state: 0,
            }),
            None => input.clone(),
        },
        _ => input.clone(),
    };
    inputs.iter().enumerate().map(gap).collect()
}

proptest! {
    #[test]
    fn lost_and_late_movements_change_nothing_that_is_said_of_calls(
        steps in proptest::collection::vec(prop_oneof![
            9 => call_step(RANKS),
            3 => (0..RANKS).prop_map(|rank| CallStep::Copy { rank }),
        ], 1..120),
        with_results in any::<bool>(),
        choices in proptest::collection::vec((any::<proptest::sample::Index>(), any::<bool>()), 1..6),
    ) {
        let inputs = calling_job(RANKS, &steps, with_results);
        let copies: Vec<usize> = (0..inputs.len()).filter(|at| is_copy(&inputs[*at])).collect();
        prop_assume!(!copies.is_empty());
        let places: Vec<(usize, bool)> =
            choices.iter().map(|(index, late)| (copies[index.index(copies.len())], *late)).collect();
        let (whole, gaps) = (run(&inputs), run(&without(&inputs, &places)));
        prop_assert_eq!(of_calls(&whole), of_calls(&gaps));
    }
}

fn lose_movements(job: &mut Job) {
    (0..2).for_each(|rank| job.t.lose_movements(rank, 1000));
}

/// What memory looks like is not known any more.
fn lose_heap_blocks(job: &mut Job) {
    for rank in 0..2 {
        let (from_ns, to_ns) = (job.t.now_ns, job.t.now_ns + 1);
        let lost = Loss { pid: pid(rank), from_ns, to_ns, movements: 0, calls: 0, state: 9 };
        job.t.inputs.push(Input::Loss(lost));
    }
}

/// Two pauses, of movements alone.
fn pause_movements(job: &mut Job) {
    for paused in [true, false, true, false] {
        job.t.now_ns += 1000;
        cover(job, Coverage { paused, keeps_calls: paused, ..Coverage::default() });
    }
}

fn cover(job: &mut Job, coverage: Coverage) {
    let time_ns = job.t.now_ns;
    job.t.inputs.push(Input::Coverage(Box::new(Coverage { time_ns, ..coverage })));
}

/// A message that nobody receives, found at the end if every call was seen.
fn finds_unmatched_send(between: impl Fn(&mut Job)) -> bool {
    let mut job = Job::begun(2);
    job.send(0, 1, 10);
    between(&mut job);
    job.send(0, 1, 11);
    job.receive(1, 0);
    job.finalize();
    let report = job.report();
    report
        .findings
        .iter()
        .any(|finding| matches!(&finding.evidence, Evidence::Leak(leak) if leak.what == LeakKind::Message))
}

#[test]
fn a_message_that_nobody_receives_is_told_though_movements_are_missing() {
    assert!(finds_unmatched_send(|_| {}));
    assert!(finds_unmatched_send(lose_movements));
    assert!(finds_unmatched_send(lose_heap_blocks));
    assert!(finds_unmatched_send(pause_movements));
}

#[test]
fn where_calls_are_missing_nothing_is_said() {
    assert!(!finds_unmatched_send(|job| job.t.lose_calls(0, 1)));
    assert!(!finds_unmatched_send(|job| {
        [true, false].iter().for_each(|&paused| cover(job, Coverage { paused, ..Coverage::default() }));
    }));
    // It begins with movements alone; that calls are too many is found later.
    assert!(!finds_unmatched_send(|job| {
        for (paused, keeps_calls) in [(true, true), (true, false), (false, false)] {
            cover(job, Coverage { paused, keeps_calls, ..Coverage::default() });
        }
    }));
    assert!(!finds_unmatched_send(|job| {
        let off = vec![job.t.probe("MPI_Send", ProbeClass::CallResults)];
        cover(job, Coverage { off, ..Coverage::default() });
    }));
}

#[test]
fn how_long_calls_were_watched_is_told_apart_from_movements() {
    let mut job = Job::begun(2);
    let begin_ns = job.t.now_ns;
    for (paused, keeps_calls) in [(true, true), (true, false), (false, false)] {
        job.t.now_ns += 1_000_000;
        cover(&mut job, Coverage { paused, keeps_calls, ..Coverage::default() });
    }
    job.finalize();
    let statistics = job.report().statistics;
    let unwatched = |watched_ns| statistics.duration_ns - watched_ns;
    assert_eq!(
        (unwatched(statistics.watched_ns), unwatched(statistics.calls_watched_ns)),
        (2_000_000, 1_000_000),
        "from {begin_ns} on"
    );
    assert_eq!(statistics.pauses, 1);
}

#[test]
fn losses_are_counted_by_what_they_are_of() {
    let mut job = Job::begun(2);
    job.t.lose_movements(0, 7);
    job.t.lose_calls(1, 5);
    let statistics = job.report().statistics;
    assert_eq!((statistics.lost_movements, statistics.lost_calls, statistics.lost_state), (7, 5, 0));
    let of_rank = |rank: u32| {
        let process = statistics.processes.iter().find(|process| process.pid == pid(rank)).expect("a rank");
        (process.lost_movements, process.lost_calls)
    };
    assert_eq!((of_rank(0), of_rank(1)), ((7, 0), (0, 5)));
}
