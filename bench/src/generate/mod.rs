//! Made-up jobs of any size, as the inputs that a session would give: deterministic, and made
//! one by one, so that a job of any length takes no memory.
//!
//! A job runs on nodes of equally many ranks. Within a node a message goes through a segment that
//! the ranks share, so its chain goes on in the receiver; between nodes the chain ends where the
//! data is handed to the network, and another begins where it is taken from there.

mod calls;
mod memory;
mod program;

use std::ops::Range;

use analyzer::input::{End, Input, Start};
use analyzer::wire::{Header, RawRecord, Record};

use program::Program;

/// Time between two ticks, as in a live session.
const TICK_NS: u64 = 50_000_000;
/// A rank writes a record about so often.
const GAP_OF_A_RANK_NS: u64 = 50_000;
const BEGIN_NS: u64 = 1_000_000_000;
const FIRST_PID: u32 = 1_000;

/// How the ranks of a job talk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// On a torus of two dimensions every rank exchanges its edges with its four neighbours; the
    /// edges are gathered into a staging buffer first.
    Halo,
    /// Every rank sends to the next one, straight from the user's buffer.
    Ring,
}

/// What is wrong with a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// This rank posts the same request again and again.
    Repeats {
        /// Which.
        rank: u32,
    },
    /// What is sent is read from a wrong place.
    Broken {
        /// In one of so many messages, on average.
        one_in: u64,
    },
}

/// A job that is made up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// What it does.
    pub model: Model,
    /// Ranks on all nodes.
    pub ranks: u32,
    /// Nodes; every node has the same number of ranks (the last one may have fewer).
    pub nodes: u32,
    /// What is wrong with it.
    pub fault: Fault,
    /// So many records of a rank come in a row before another rank's: 1 where every rank has a core.
    pub burst_records: u32,
    /// Results of calls are recorded as well, and ranks send, receive and wait with requests.
    pub results: bool,
    /// Records of the stream; it ends behind them.
    pub records: u64,
}

impl Job {
    /// A healthy halo exchange on one node, a core for each rank.
    pub fn halo(ranks: u32, records: u64) -> Self {
        Self {
            model: Model::Halo,
            ranks,
            nodes: 1,
            fault: Fault::None,
            burst_records: 1,
            results: false,
            records,
        }
    }

    /// What the session of one node would see; nothing if there is no such node.
    pub fn node(&self, node: u32) -> Inputs {
        let size = self.ranks_per_node();
        let begin = node.saturating_mul(size).min(self.ranks);
        Inputs::new(*self, begin..begin.saturating_add(size).min(self.ranks))
    }

    /// All ranks in one stream, as if one session could see all nodes.
    pub fn all(&self) -> Inputs {
        Inputs::new(*self, 0..self.ranks)
    }

    fn ranks_per_node(&self) -> u32 {
        self.ranks.div_ceil(self.nodes.max(1)).max(1)
    }

    /// The node that a rank is on.
    fn node_of(&self, rank: u32) -> u32 {
        rank / self.ranks_per_node()
    }
}

/// Where the stream is: the next record is the `event`-th of `phase` that `ranks[rank]` writes.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    step: u64,
    phase: usize,
    burst: u32,
    rank: u32,
    event: u32,
}

/// What comes before the records, and behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Start,
    Facts(u32),
    /// Ranks begin with MPI.
    Begins(u32),
    Records,
    Over,
}

/// The inputs of a job, one by one.
#[derive(Clone, Debug)]
pub struct Inputs {
    program: Program,
    ranks: Range<u32>,
    records_left: u64,
    stage: Stage,
    place: Place,
    now_ns: u64,
    next_tick_ns: u64,
    random: Random,
}

impl Inputs {
    fn new(job: Job, ranks: Range<u32>) -> Self {
        Self {
            program: Program::new(job),
            records_left: job.records,
            stage: Stage::Start,
            place: Place::default(),
            now_ns: BEGIN_NS,
            next_tick_ns: BEGIN_NS + TICK_NS,
            random: Random(0x9e37_79b9_7f4a_7c15),
            ranks,
        }
    }

    fn start(&self) -> Input {
        Input::Start(Box::new(Start {
            dmscope_version: env!("CARGO_PKG_VERSION").to_owned(),
            host: "made-up".to_owned(),
            time_ns: BEGIN_NS,
            job: "made-up job".to_owned(),
            launched: true,
            ..Start::default()
        }))
    }

    fn tick_or_record(&mut self) -> Input {
        if self.now_ns >= self.next_tick_ns {
            self.next_tick_ns += TICK_NS;
            return Input::Tick { time_ns: self.now_ns };
        }
        if self.records_left == 0 || self.ranks.is_empty() {
            self.stage = Stage::Over;
            let reason = "the made-up job is over".to_owned();
            return Input::End(End { time_ns: self.now_ns, reason, failed_probes: Vec::new() });
        }
        self.records_left -= 1;
        Input::Record(self.record())
    }

    fn record(&mut self) -> RawRecord {
        let (rank, event) = loop {
            let place = self.place;
            self.advance();
            // Ranks do not take turns in the same order every time.
            let turn = (u64::from(place.rank) + place.step * 7 + u64::from(place.burst)) % self.len();
            let rank = self.ranks.start + turn as u32;
            if let Some(event) = self.program.event(rank, place.step, place.phase, place.event) {
                break (rank, event);
            }
        };
        let gap_ns = GAP_OF_A_RANK_NS / self.len();
        self.now_ns += 1 + self.random.below(2 * gap_ns.max(1));
        let pid = FIRST_PID + rank;
        let header = Header { time_ns: self.now_ns, pid, tid: pid, probe: event.probe };
        Record { header, body: event.body }.encode()
    }

    fn len(&self) -> u64 {
        u64::from(self.ranks.end - self.ranks.start)
    }

    /// Event by event within a burst, then rank by rank, burst by burst, phase by phase, step by step.
    fn advance(&mut self) {
        let events = self.program.events(self.place.phase);
        let burst = self.program.burst_records();
        let p = &mut self.place;
        p.event += 1;
        if !p.event.is_multiple_of(burst) && p.event < events {
            return;
        }
        p.event = p.burst * burst;
        p.rank += 1;
        if u64::from(p.rank) < u64::from(self.ranks.end - self.ranks.start) {
            return;
        }
        p.rank = 0;
        p.burst += 1;
        p.event = p.burst * burst;
        if p.event < events {
            return;
        }
        (p.burst, p.event) = (0, 0);
        p.phase += 1;
        if p.phase == program::PHASES {
            p.phase = 0;
            p.step += 1;
        }
    }
}

impl Iterator for Inputs {
    type Item = Input;

    fn next(&mut self) -> Option<Input> {
        Some(match self.stage {
            Stage::Start => {
                self.stage = Stage::Facts(self.ranks.start);
                self.start()
            }
            Stage::Facts(rank) if rank < self.ranks.end => {
                self.stage = Stage::Facts(rank + 1);
                Input::Process(Box::new(self.program.facts(rank)))
            }
            Stage::Facts(_) => {
                self.stage = Stage::Begins(self.ranks.start);
                Input::Plan(Box::new(self.program.plan()))
            }
            Stage::Begins(rank) if self.program.has_results() && rank < self.ranks.end => {
                self.stage = Stage::Begins(rank + 1);
                let (probe, pid) = (calls::INIT, FIRST_PID + rank);
                let header = Header { time_ns: self.now_ns, pid, tid: pid, probe };
                Input::Record(Record { header, body: calls::init() }.encode())
            }
            Stage::Begins(_) => {
                self.stage = Stage::Records;
                return self.next();
            }
            Stage::Records => self.tick_or_record(),
            Stage::Over => return None,
        })
    }
}

/// Small, fast and the same everywhere (xorshift64*).
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % limit
    }
}

#[cfg(test)]
mod tests {
    use analyzer::finding::{Evidence, Report, Severity};
    use analyzer::options::Options;
    use analyzer::pipeline::Pipeline;
    use analyzer::process::Who;

    use super::*;

    fn report(inputs: Inputs) -> Report {
        let mut pipeline = Pipeline::new(Options::default());
        inputs.for_each(|input| pipeline.push(&input));
        pipeline.report()
    }

    #[test]
    fn healthy_jobs_have_no_finding() {
        for model in [Model::Halo, Model::Ring] {
            for nodes in [1, 4] {
                let job = Job { model, nodes, ..Job::halo(16, 50_000) };
                let report = report(job.node(nodes - 1));
                assert_eq!(report.findings, [], "{model:?} on {nodes} nodes");
                assert_eq!(report.statistics.records, 50_000);
                assert!(report.thresholds.warm, "{model:?} on {nodes} nodes");
            }
        }
    }

    #[test]
    fn a_rank_that_repeats_itself_is_named() {
        let job = Job { fault: Fault::Repeats { rank: 5 }, ..Job::halo(16, 200_000) };
        let report = report(job.node(0));
        let ranks = report.findings.iter().filter(|f| matches!(f.evidence, Evidence::OddRank(_)));
        let who: Vec<_> = ranks.map(|f| (f.severity, f.who.clone())).collect();
        assert_eq!(who, [(Severity::Warning, vec![Who::Rank(5)])]);
    }

    #[test]
    fn broken_chains_are_found() {
        let job = Job { fault: Fault::Broken { one_in: 500 }, ..Job::halo(16, 200_000) };
        let report = report(job.node(0));
        let first = report.findings.first().expect("a finding");
        assert_eq!(first.severity, Severity::Warning);
        assert!(matches!(first.evidence, Evidence::OddChain(_)), "{first:#?}");
    }

    #[test]
    fn chains_cross_ranks_of_a_node_and_end_at_its_border() {
        let whole = report(Job::halo(16, 100_000).node(0));
        let longest = |r: &Report| r.statistics.top_groups.iter().map(|g| g.ops.len()).max();
        let crossing = |r: &Report| {
            let crosses = |g: &&analyzer::finding::GroupView| g.ops.iter().any(|op| op.crosses);
            r.statistics.top_groups.iter().filter(crosses).map(|g| g.chains).sum::<u64>()
        };
        let alone = report(Job { nodes: 16, ..Job::halo(16, 100_000) }.node(3));
        assert_eq!((longest(&whole), longest(&alone)), (Some(3), Some(2)));
        assert!(crossing(&whole) > 10_000 && crossing(&alone) == 0);
    }

    #[test]
    fn of_ranks_that_wait_for_requests_every_message_is_followed() {
        use analyzer::messages::Event;
        use analyzer::options::Options;
        use analyzer::pipeline::Pipeline;
        let job = Job { results: true, ..Job::halo(16, 100_000) };
        let mut pipeline = Pipeline::with_events(Options::default());
        let (mut matched, mut completed) = (0, 0);
        for input in job.node(0) {
            pipeline.push(&input);
            for event in pipeline.take_events() {
                match event {
                    Event::Matched { .. } => matched += 1,
                    Event::Completed { .. } => completed += 1,
                    Event::Call { .. } => {}
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
        let job = Job { nodes: 4, ..Job::halo(16, 100_000) };
        let of_rank = |inputs: Inputs, pid: u32| -> Vec<Vec<u64>> {
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
        for input in Job::halo(64, 100_000).node(0) {
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
