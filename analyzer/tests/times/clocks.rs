//! Times without watching of ranks whose clocks differ and drift.

use std::collections::HashMap;

use analyzer::timeline::correction::bounds::Bounds;
use analyzer::timeline::correction::solver::SolvedCall;

use crate::simulator::{Dice, SimulatedJob};
use crate::{Accuracy, STEPS, call_rounding, corrected, jobs, solved_within};

/// Clocks are apart by up to so much when a job begins …
const MOST_OFFSET_NS: u64 = 3000;
/// … and go faster or slower by so many millionths.
const MOST_DRIFT_PPM: u64 = 50;

/// A clock for each rank.
struct RankClocks(Vec<(f64, f64)>);

impl RankClocks {
    fn random(seed: u64, ranks: usize) -> Self {
        let mut dice = Dice::new(seed ^ 0xc10c);
        let mut either = |most: u64| dice.below(2 * most + 1) as f64 - most as f64;
        Self((0..ranks).map(|_| (either(MOST_OFFSET_NS), 1e-6 * either(MOST_DRIFT_PPM))).collect())
    }

    fn shown(&self, rank: usize, ns: u64) -> u64 {
        let (offset_ns, drift) = self.0[rank];
        (ns as f64 * (1.0 + drift) + offset_ns) as u64
    }

    fn times(&self, job: &SimulatedJob, times: &[[u64; 2]]) -> Vec<[u64; 2]> {
        times.iter().enumerate().map(|(at, both)| both.map(|ns| self.shown(job.rank_of(at), ns))).collect()
    }

    /// No two are farther apart at any time of the job.
    fn slack_ns(times: &[[u64; 2]]) -> f64 {
        let last_ns = times.iter().map(|[_, end]| *end).max().unwrap_or(0) as f64;
        2.0 * (MOST_OFFSET_NS as f64 + 1e-6 * MOST_DRIFT_PPM as f64 * last_ns)
    }
}

/// All calls, each with when it would have begun and ended by the clock of its own rank.
fn with_truth(seed: u64, costs: bool) -> (SimulatedJob, Vec<(SolvedCall, [f64; 2])>) {
    let job = SimulatedJob::random(seed, STEPS, false);
    let clocks = RankClocks::random(seed, job.ranks());
    let (truth, run) = (job.run(false), job.run(costs));
    let slack_ns = RankClocks::slack_ns(&run);
    let truth = clocks.times(&job, &truth);
    let by_id = job.by_id();
    let solved = solved_within(&job, &clocks.times(&job, &run), costs, slack_ns);
    let told = solved.into_iter().map(|call| {
        let [begin, end] = truth[by_id[&call.step.id]];
        (call, [begin as f64, end as f64])
    });
    let told = told.collect();
    (job, told)
}

#[test]
fn where_nothing_cost_anything_nothing_changes_by_clocks_that_differ_either() {
    for seed in 0..jobs() {
        for (call, _) in with_truth(seed, false).1 {
            assert_eq!(call.begin.shift, Bounds::default(), "{seed}: {call:?}");
            assert_eq!(call.end.shift, Bounds::default(), "{seed}: {call:?}");
        }
    }
}

#[test]
fn by_clocks_that_differ_the_truth_is_within_the_bounds_and_likely_times_are_nearer_than_measured_ones() {
    let mut accuracy = Accuracy::default();
    for seed in 0..jobs() {
        let (job, told) = with_truth(seed, true);
        for (call, [_, end]) in told {
            // Drift makes what is taken out longer or shorter by less than that.
            let slack_ns = call_rounding(&call) + 1.0;
            accuracy.add(&call, end, job.first_cost(), slack_ns);
        }
    }
    accuracy.check("clocks that differ", 1.0);
}

#[test]
fn no_clock_makes_a_call_end_before_it_begins_or_a_message_come_long_before_it_is_sent() {
    for seed in 0..jobs() {
        let (job, told) = with_truth(seed, true);
        let slack_ns = RankClocks::slack_ns(&job.run(true));
        let ends: HashMap<_, _> = told.iter().map(|(call, _)| (call.step.id, corrected(&call.end))).collect();
        for (call, _) in &told {
            let (begin, end) = (corrected(&call.begin), ends[&call.step.id]);
            assert!(end.likely_ns >= begin.likely_ns - 1e-3, "{seed}: {call:?}");
            assert!(end.least_ns <= end.likely_ns && end.likely_ns <= end.most_ns, "{seed}: {call:?}");
            for received in &call.received {
                let sent = corrected(&received.sent);
                assert!(end.likely_ns >= sent.likely_ns - slack_ns, "{seed}: {call:?}");
            }
        }
    }
}
