//! Times without watching, of jobs of which those are known.

mod clocks;
#[path = "../common/mod.rs"]
mod common;
mod pages;
mod phases;
mod simulator;
mod tapes;

use std::collections::HashMap;

use analyzer::messages::CallId;
use analyzer::timeline::correction::bounds::Bounds;
use analyzer::timeline::correction::solver::{SolvedCall, SolvedMoment, Solver};
use analyzer::timeline::correction::transfers::{TransferKind, Transfers};
use analyzer::timeline::correction::waits::Moment;
use simulator::SimulatedJob;

/// So many random jobs; `DMSCOPE_TEST_TIMES=100000` for a long run.
fn jobs() -> u64 {
    std::env::var("DMSCOPE_TEST_TIMES").ok().and_then(|number| number.parse().ok()).unwrap_or(300)
}

const STEPS: u64 = 60;

fn solved(job: &SimulatedJob, times: &[[u64; 2]], costs: bool) -> Vec<SolvedCall> {
    solved_within(job, times, costs, 0.0)
}

/// The same by clocks that may be apart by so much.
fn solved_within(job: &SimulatedJob, times: &[[u64; 2]], costs: bool, slack_ns: f64) -> Vec<SolvedCall> {
    let learnt = pass(job, times, costs, slack_ns, &Transfers::default()).learnt;
    let ends = |moment| match moment {
        SolvedMoment::Ends(call) => Some(*call),
        SolvedMoment::Begins(_) => None,
    };
    pass(job, times, costs, slack_ns, &learnt).take().into_iter().filter_map(ends).collect()
}

fn pass(job: &SimulatedJob, times: &[[u64; 2]], costs: bool, slack_ns: f64, transfers: &Transfers) -> Solver {
    let mut solver = Solver::new(transfers, slack_ns);
    for (step, matched) in job.steps(times, costs) {
        for (send, receive) in matched {
            solver.matched(send, receive);
        }
        solver.call(step);
    }
    solver.finish();
    solver
}

/// What calls of a function do at least without anybody waiting, as it is learnt from all of them.
fn least_work_ns(job: &SimulatedJob, function: &'static str) -> f64 {
    let learnt = pass(job, &job.run(true), true, 0.0, &Transfers::default()).learnt;
    learnt.times(TransferKind::Local(function)).map_or(0.0, |work| work.least_ns)
}

/// All calls, with when they would have begun and ended. Corrected times count from the first call of each rank: of the truth,
/// too, what that call's own beginning was shifted by is left out.
fn with_truth(job: &SimulatedJob) -> Vec<(SolvedCall, [f64; 2])> {
    let (truth, watched) = (job.run(false), job.run(true));
    let by_id: HashMap<CallId, usize> = job.by_id();
    let solved = solved(job, &watched, true);
    assert_eq!(solved.len(), truth.len(), "every call is worked out");
    let told = |call: SolvedCall| {
        let [begin, end] = truth[by_id[&call.step.id]];
        (call, [begin as f64, end as f64])
    };
    solved.into_iter().map(told).collect()
}

fn corrected(moment: &Moment) -> Bounds {
    Bounds::exactly(moment.at_ns as f64) + moment.shift
}

#[test]
fn where_nothing_cost_anything_nothing_changes() {
    for seed in 0..jobs() {
        let job = SimulatedJob::random(seed, STEPS, false);
        let times = job.run(false);
        for call in solved(&job, &times, false) {
            assert_eq!(call.begin.shift, Default::default(), "{seed}: {call:?}");
            assert_eq!(call.end.shift, Default::default(), "{seed}: {call:?}");
        }
    }
}

#[test]
fn where_nothing_waits_what_was_measured_is_what_is_corrected_and_what_watching_cost() {
    for seed in 0..jobs() {
        let job = SimulatedJob::random(seed, STEPS, true);
        let mut cost = Bounds::default();
        let work_ns = least_work_ns(&job, "MPI_Isend");
        for (call, [begin, end]) in with_truth(&job) {
            if let Some(before) = call.before {
                // What takes no time cost none.
                let took_ns = (call.begin.at_ns - before.at_ns) as f64;
                cost += call.step.costs.between.at_most(took_ns);
            }
            assert!((call.begin.shift.likely_ns + cost.likely_ns).abs() < 1e-3, "{seed}: {call:?}");
            // Nor is a call without its hits shorter than any of its kind.
            let took_ns = (call.end.at_ns - call.begin.at_ns) as f64;
            cost += call.step.costs.inside().at_most(took_ns - work_ns.min(took_ns));
            assert!((call.end.shift.likely_ns + cost.likely_ns).abs() < 1e-3, "{seed}: {call:?}");
            // The hit of the first call came before all times that are told: it is in none.
            let first = job.first_cost();
            for (moment, truth) in [(&call.begin, begin), (&call.end, end)] {
                let corrected = corrected(moment);
                let within = corrected.least_ns - 1.0 <= truth + first.most_ns
                    && truth + first.least_ns <= corrected.most_ns + call_rounding(&call);
                assert!(within, "{seed}: {truth} {corrected:?}");
            }
        }
    }
}

/// Times are whole nanoseconds, and so is each cost.
fn call_rounding(call: &SolvedCall) -> f64 {
    4.0 * f64::from(call.step.id.number)
}

#[test]
fn nothing_is_received_before_it_is_sent_nor_ends_before_it_begins() {
    for seed in 0..jobs() {
        for (call, _) in with_truth(&SimulatedJob::random(seed, STEPS, false)) {
            let (begin, end) = (corrected(&call.begin), corrected(&call.end));
            assert!(end.likely_ns >= begin.likely_ns - 1e-3, "{seed}: {call:?}");
            assert!(
                end.least_ns >= begin.least_ns - 1e-3 && end.least_ns <= end.likely_ns,
                "{seed}: {call:?}"
            );
            assert!(end.likely_ns <= end.most_ns, "{seed}: {call:?}");
            for received in &call.received {
                let sent = corrected(&received.sent);
                assert!(end.likely_ns >= sent.likely_ns - 1e-3, "{seed}: {call:?}");
                assert!(end.least_ns >= sent.least_ns - 1e-3, "{seed}: {call:?}");
                assert!(end.most_ns >= sent.most_ns - 1e-3, "{seed}: {call:?}");
            }
        }
    }
}

/// A rank that waits for one that computes long: what watching costs the first one delays nobody.
#[test]
fn what_is_spent_while_waiting_is_not_counted() {
    for seed in 0..jobs() {
        let job = SimulatedJob::one_waits(seed);
        for (call, [_, end]) in with_truth(&job).iter().filter(|(call, _)| call.step.name == "MPI_Recv") {
            let shift_ns = end - call.end.at_ns as f64;
            // Of the first rank's many hits at most the last one's end counts; of the other's all.
            let on_the_way = job.cost_of_sender() + job.cost_of_end();
            let shift = call.end.shift - job.first_cost();
            assert!(
                Bounds { most_ns: shift.most_ns + 2.0, ..shift }.contains(shift_ns),
                "{seed}: {shift_ns} {call:?}"
            );
            assert!(-call.end.shift.least_ns <= on_the_way.most_ns + 1.0, "{seed}: {call:?}");
        }
    }
}

/// How near corrected ends of calls are to the truth.
#[derive(Default)]
struct Accuracy {
    ends: u64,
    within: u64,
    likely_off_ns: f64,
    measured_off_ns: f64,
}

impl Accuracy {
    /// A call, and when it truly ended. `first`: times count from the first call's record on, whose own hit is not in the truth.
    fn add(&mut self, call: &SolvedCall, truth_ns: f64, first: Bounds, slack_ns: f64) {
        let corrected = corrected(&call.end);
        self.ends += 1;
        self.within += u64::from(
            corrected.least_ns - slack_ns <= truth_ns + first.most_ns
                && truth_ns + first.least_ns <= corrected.most_ns + slack_ns,
        );
        self.likely_off_ns += (corrected.likely_ns - truth_ns - first.likely_ns).abs();
        self.measured_off_ns += (call.end.at_ns as f64 - truth_ns - first.likely_ns).abs();
    }

    /// `most_off`: likely times are less off than this part of what measured ones are.
    fn check(&self, what: &str, most_off: f64) {
        let share = self.within as f64 / self.ends as f64;
        let off = self.likely_off_ns / self.measured_off_ns;
        let ends = self.ends;
        eprintln!("{what}: {ends} ends, {:.3}% within; off by {off:.4} of what was measured", 100.0 * share);
        assert!(share >= 0.95, "{share} of {ends}");
        assert!(off < most_off, "{off}");
    }
}

#[test]
fn the_truth_is_within_the_bounds_and_nearer_to_what_is_likely_than_to_what_was_measured() {
    let mut accuracy = Accuracy::default();
    for seed in 0..jobs() {
        let job = SimulatedJob::random(seed, STEPS, false);
        for (call, [_, end]) in with_truth(&job) {
            accuracy.add(&call, end, job.first_cost(), call_rounding(&call));
        }
    }
    accuracy.check("one clock", 0.1);
}
