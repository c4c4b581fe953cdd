//! The inputs of a made-up job, one by one.

use std::ops::Range;

use analyzer::input::{End, Input, Start};
use analyzer::wire::{Header, RawRecord, Record};

use super::calls;
use super::job::{FIRST_PID, GeneratedJob};
use super::probes;
use super::program::{self, Program};

/// Time between two ticks, as in a live session.
pub(super) const TICK_NS: u64 = 50_000_000;
/// When a job begins.
pub(super) const BEGIN_NS: u64 = 1_000_000_000;

/// Where the stream is: the next record is the `event`-th of `phase` that `ranks[rank]` writes.
#[derive(Clone, Copy, Debug, Default)]
struct StreamPosition {
    step: u64,
    phase: usize,
    burst: u32,
    rank: u32,
    event: u32,
}

/// What comes before the records, and behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamStage {
    Start,
    Facts(u32),
    /// Ranks begin with MPI.
    Begins(u32),
    Records,
    Over,
}

/// The inputs of a job, one by one.
#[derive(Clone, Debug)]
pub struct JobInputs {
    program: Program,
    ranks: Range<u32>,
    gap_of_a_rank_ns: u64,
    records_left: u64,
    stage: StreamStage,
    position: StreamPosition,
    now_ns: u64,
    next_tick_ns: u64,
    random: Random,
}

impl GeneratedJob {
    /// What the session of one node would see; nothing if there is no such node.
    pub fn node(&self, node: u32) -> JobInputs {
        let size = self.ranks_per_node();
        let begin = node.saturating_mul(size).min(self.ranks);
        JobInputs::new(*self, begin..begin.saturating_add(size).min(self.ranks))
    }

    /// All ranks in one stream, as if one session could see all nodes.
    pub fn all(&self) -> JobInputs {
        JobInputs::new(*self, 0..self.ranks)
    }
}

impl JobInputs {
    fn new(job: GeneratedJob, ranks: Range<u32>) -> Self {
        Self {
            program: Program::new(job),
            gap_of_a_rank_ns: job.gap_of_a_rank_ns,
            records_left: job.records,
            stage: StreamStage::Start,
            position: StreamPosition::default(),
            now_ns: BEGIN_NS,
            next_tick_ns: BEGIN_NS + TICK_NS,
            random: Random(0x9e37_79b9_7f4a_7c15),
            ranks,
        }
    }

    /// Records go on from this time.
    pub fn set_clock(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        self.next_tick_ns = now_ns + TICK_NS;
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
            self.stage = StreamStage::Over;
            let reason = "the made-up job is over".to_owned();
            return Input::End(End {
                time_ns: self.now_ns,
                reason,
                failed_probes: Vec::new(),
                strangers: None,
            });
        }
        self.records_left -= 1;
        Input::Record(self.record())
    }

    fn record(&mut self) -> RawRecord {
        let (rank, event) = loop {
            let at = self.position;
            self.advance();
            // Ranks do not take turns in the same order every time.
            let turn = (u64::from(at.rank) + at.step * 7 + u64::from(at.burst)) % self.len();
            let rank = self.ranks.start + turn as u32;
            if let Some(event) = self.program.event(rank, at.step, at.phase, at.event) {
                break (rank, event);
            }
        };
        // What is more than others do takes no time: the steps of all nodes stay side by side.
        let gap_ns = if probes::is_extra(event.probe) { 0 } else { self.gap_of_a_rank_ns / self.len() };
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
        let events = self.program.events(self.position.phase);
        let burst = self.program.burst_records();
        let p = &mut self.position;
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

impl Iterator for JobInputs {
    type Item = Input;

    fn next(&mut self) -> Option<Input> {
        Some(match self.stage {
            StreamStage::Start => {
                self.stage = StreamStage::Facts(self.ranks.start);
                self.start()
            }
            StreamStage::Facts(rank) if rank < self.ranks.end => {
                self.stage = StreamStage::Facts(rank + 1);
                Input::Process(Box::new(self.program.facts(rank)))
            }
            StreamStage::Facts(_) => {
                self.stage = StreamStage::Begins(self.ranks.start);
                Input::Plan(Box::new(self.program.plan()))
            }
            StreamStage::Begins(rank) if self.program.has_results() && rank < self.ranks.end => {
                self.stage = StreamStage::Begins(rank + 1);
                let (probe, pid) = (calls::INIT, FIRST_PID + rank);
                let header = Header { time_ns: self.now_ns, pid, tid: pid, probe };
                Input::Record(Record { header, body: calls::init() }.encode())
            }
            StreamStage::Begins(_) => {
                self.stage = StreamStage::Records;
                return self.next();
            }
            StreamStage::Records => self.tick_or_record(),
            StreamStage::Over => return None,
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
