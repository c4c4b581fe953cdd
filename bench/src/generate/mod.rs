//! Made-up jobs of any size, as the inputs that a session would give: deterministic, and made
//! one by one, so that a job of any length takes no memory.
//!
//! A job runs on nodes of equally many ranks. Within a node a message goes through a segment that
//! the ranks share, so its chain goes on in the receiver; between nodes the chain ends where the
//! data is handed to the network, and another begins where it is taken from there.

mod calls;
mod event;
mod inputs;
mod job;
mod memory;
mod probes;
mod program;
mod standstill;

pub use inputs::JobInputs;
pub use job::{FIRST_PID, GeneratedJob, InjectedFault, MessagePattern};
pub use standstill::Standstill;

#[cfg(test)]
mod tests {
    use analyzer::finding::{Evidence, Report, Severity};
    use analyzer::options::Options;
    use analyzer::pipeline::Pipeline;
    use analyzer::process::Who;

    use super::inputs::{BEGIN_NS, TICK_NS};
    use super::job::FIRST_PID;
    use super::*;
    use analyzer::input::Input;

    fn report(inputs: JobInputs) -> Report {
        let mut pipeline = Pipeline::new(Options::default());
        inputs.for_each(|input| pipeline.push(&input));
        pipeline.report()
    }

    #[test]
    fn healthy_jobs_have_no_finding() {
        for pattern in [MessagePattern::Halo, MessagePattern::Ring] {
            for nodes in [1, 4] {
                let job = GeneratedJob { pattern, nodes, ..GeneratedJob::halo(16, 50_000) };
                let report = report(job.node(nodes - 1));
                assert_eq!(report.findings, [], "{pattern:?} on {nodes} nodes");
                assert_eq!(report.statistics.records, 50_000);
                assert!(report.thresholds.warm, "{pattern:?} on {nodes} nodes");
            }
        }
    }

    #[test]
    fn a_rank_that_repeats_itself_is_named() {
        let job =
            GeneratedJob { fault: InjectedFault::Repeats { rank: 5 }, ..GeneratedJob::halo(16, 200_000) };
        let report = report(job.node(0));
        let ranks = report.findings.iter().filter(|f| matches!(f.evidence, Evidence::OddRank(_)));
        let who: Vec<_> = ranks.map(|f| (f.severity, f.who.clone())).collect();
        assert_eq!(who, [(Severity::Warning, vec![Who::Rank(5)])]);
    }

    #[test]
    fn broken_chains_are_found() {
        let job =
            GeneratedJob { fault: InjectedFault::Broken { one_in: 500 }, ..GeneratedJob::halo(16, 200_000) };
        let report = report(job.node(0));
        let first = report.findings.first().expect("a finding");
        assert_eq!(first.severity, Severity::Warning);
        assert!(matches!(first.evidence, Evidence::OddChain(_)), "{first:#?}");
    }

    #[test]
    fn chains_cross_ranks_of_a_node_and_end_at_its_border() {
        let whole = report(GeneratedJob::halo(16, 100_000).node(0));
        let longest = |r: &Report| r.statistics.top_groups.iter().map(|g| g.ops.len()).max();
        let crossing = |r: &Report| {
            let crosses = |g: &&analyzer::finding::GroupView| g.ops.iter().any(|op| op.crosses);
            r.statistics.top_groups.iter().filter(crosses).map(|g| g.chains).sum::<u64>()
        };
        let alone = report(GeneratedJob { nodes: 16, ..GeneratedJob::halo(16, 100_000) }.node(3));
        assert_eq!((longest(&whole), longest(&alone)), (Some(3), Some(2)));
        assert!(crossing(&whole) > 10_000 && crossing(&alone) == 0);
    }

    #[test]
    fn of_ranks_that_wait_for_requests_every_message_is_followed() {
        use analyzer::messages::MessageEvent;
        use analyzer::options::Options;
        use analyzer::pipeline::Pipeline;
        let job = GeneratedJob { results: true, ..GeneratedJob::halo(16, 100_000) };
        let mut pipeline = Pipeline::with_events(Options::default());
        let (mut matched, mut completed) = (0, 0);
        for input in job.node(0) {
            pipeline.push(&input);
            for event in pipeline.take_events() {
                match event {
                    MessageEvent::Matched { .. } => matched += 1,
                    MessageEvent::Completed { .. } => completed += 1,
                    _ => {}
                }
            }
        }
        // In a step a rank has at most 45 records: it sends four messages and receives four.
        let steps = 100_000 / 16 / 45;
        assert!(
            matched >= 4 * 16 * (steps - 1) && completed >= 8 * 16 * (steps - 1),
            "{matched}, {completed}"
        );
        let messages = pipeline.messages();
        assert_eq!((messages.lost().count(), messages.strangers()), (0, 0));
        assert_eq!(report(job.node(0)).findings, []);
    }

    #[test]
    fn all_nodes_together_are_the_nodes_side_by_side() {
        let job = GeneratedJob { nodes: 4, ..GeneratedJob::halo(16, 100_000) };
        let of_rank = |inputs: JobInputs, pid: u32| -> Vec<Vec<u64>> {
            let words = inputs.filter_map(|input| match input {
                Input::Record(record) if record.pid() == pid => Some(record.words()[1..].to_vec()),
                _ => None,
            });
            words.take(1_000).collect()
        };
        let alone = of_rank(job.node(2), FIRST_PID + 9);
        assert_eq!(alone.len(), 1_000);
        assert_eq!(of_rank(job.all(), FIRST_PID + 9), alone);
    }

    #[test]
    fn times_only_go_forward_and_there_are_ticks() {
        let mut last_ns = 0;
        let mut ticks = 0;
        for input in GeneratedJob::halo(64, 100_000).node(0) {
            let time_ns = match input {
                Input::Record(record) => record.time_ns(),
                Input::Tick { time_ns } => {
                    ticks += 1;
                    time_ns
                }
                _ => continue,
            };
            assert!(time_ns >= last_ns);
            last_ns = time_ns;
        }
        assert_eq!(ticks, (last_ns - BEGIN_NS) / TICK_NS);
        assert!(ticks > 0);
    }
}
