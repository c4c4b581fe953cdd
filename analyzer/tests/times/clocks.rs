//! Times without watching of ranks whose clocks differ and drift.

use std::collections::HashMap;

use analyzer::timeline::correction::bounds::Bounds;
use analyzer::timeline::correction::solver::SolvedCall;

use crate::simulator::{Dice, SimulatedJob};
use crate::{STEPS, call_rounding, corrected, jobs, solved_within};

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
    let (mut ends, mut within, mut likely_off, mut measured_off) = (0_u64, 0_u64, 0.0, 0.0);
    for seed in 0..jobs() {
        let (job, told) = with_truth(seed, true);
        let first = job.first_cost();
        for (call, [_, end]) in told {
            let corrected = corrected(&call.end);
            // Drift makes what is taken out longer or shorter by less than that.
            let slack = call_rounding(&call) + 1.0;
            ends += 1;
            within += u64::from(
                corrected.least_ns - slack <= end + first.most_ns
                    && end + first.least_ns <= corrected.most_ns + slack,
            );
            likely_off += (corrected.likely_ns - end - first.likely_ns).abs();
            measured_off += (call.end.at_ns as f64 - end - first.likely_ns).abs();
        }
    }
    let share = within as f64 / ends as f64;
    eprintln!(
        "clocks that differ: {ends} ends, {:.3}% within; off by {:.4} of what was measured",
        100.0 * share,
        likely_off / measured_off
    );
    assert!(share >= 0.95, "{share} of {ends}");
    assert!(likely_off < measured_off, "{likely_off} {measured_off}");
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
