//! Phases add up to the times of ranks.

use std::collections::BTreeMap;

use analyzer::timeline::correction::phases::{PhaseAnalysis, PhaseMark, PhaseTimes};
use analyzer::timeline::correction::solver::SolvedCall;

use super::simulator::SimulatedJob;
use super::{STEPS, jobs, solved};

fn phases(calls: &[SolvedCall], mark: PhaseMark, ranks: usize) -> Vec<PhaseTimes> {
    let mut analysis = PhaseAnalysis::new(mark, ranks);
    calls.iter().for_each(|call| analysis.add(call));
    analysis.finish()
}

/// By rank: first beginning, last end, and what its calls and the ways between them cost.
fn totals(calls: &[SolvedCall]) -> BTreeMap<u32, (f64, f64, f64)> {
    let mut totals = BTreeMap::new();
    for call in calls {
        let corrected = |ns: u64, shift: f64| ns as f64 + shift;
        let begin = corrected(call.begin.at_ns, call.begin.shift.likely_ns);
        let end = corrected(call.end.at_ns, call.end.shift.likely_ns);
        let between = if call.before.is_some() { call.step.costs.between.likely_ns } else { 0.0 };
        let cost = between + call.step.costs.inside().likely_ns;
        let total = totals.entry(call.step.id.rank).or_insert((begin, end, 0.0));
        (total.1, total.2) = (end, total.2 + cost);
    }
    totals
}

#[test]
fn phases_add_up_to_the_time_and_the_cost_of_each_rank() {
    let mut divided = 0;
    for seed in 0..jobs() {
        let job = SimulatedJob::random(seed, STEPS, false);
        let calls = solved(&job, &job.run(true), true);
        let totals = totals(&calls);
        let name = calls[calls.len() / 2].step.name;
        for mark in [PhaseMark::Collectives, PhaseMark::Function(name.to_owned())] {
            let phases = phases(&calls, mark.clone(), totals.len());
            for (rank, (begin, end, cost)) in &totals {
                let own = || phases.iter().flat_map(|phase| &phase.ranks).filter(|own| own.rank == *rank);
                let sum: f64 = own().map(|own| own.time.corrected.likely_ns).sum();
                assert!((sum - (end - begin)).abs() < 1.0, "seed {seed}, rank {rank}, {mark:?}: {sum}");
                let sum: f64 = own().map(|own| own.cost.likely_ns).sum();
                assert!((sum - cost).abs() < 1.0, "seed {seed}, rank {rank}, {mark:?}: {sum} cost");
            }
            divided += phases.len() - 1;
            if let PhaseMark::Function(name) = mark {
                let begun = calls.iter().filter(|call| call.step.name == name).count() as u64;
                let ranks =
                    phases.iter().filter(|phase| phase.begin.is_some()).flat_map(|phase| &phase.ranks);
                assert_eq!(ranks.map(|rank| rank.times).sum::<u64>(), begun, "seed {seed}");
            }
        }
    }
    assert!(divided > 0, "no job had more than one phase");
}
