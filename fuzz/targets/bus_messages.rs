//! What comes over the bus from nodes, agents and strangers, in any order: a coordinator takes it and neither panics nor keeps
//! more than its bounds allow, and what it has to say can be shown.
//!
//! An input is a list of steps: a byte that says what comes, a byte for whom it is from, a length (u16) and so many bytes.

#![no_main]

use std::time::{Duration, Instant};

use analyzer::options::Options;
use analyzer::pipeline::{NodePipeline, Pipeline};
use analyzer::tape::{LiveJoin, Patience};
use dmscope::cluster::bus::{BusMessage, untoken};
use dmscope::cluster::coordinator::node_link::{FromNode, NodeLink};
use dmscope::cluster::coordinator::node_patience::NodePatience;
use dmscope::cluster::coordinator::rounds::Rounds;
use dmscope::cluster::envelope::{ContentKind, Numbering, obituary};
use dmscope::cluster::jobs::{job_meant, jobs_of};
use dmscope::cluster::protocol::{
    self, CodeNames, DownMessage, FindJobs, JobsOfNode, NodeIdentity, OpenAnswer, OpenSession, UpMessage,
};
use dmscope_fuzz::limits::within_a_second;
use dmscope_fuzz::pieces;
use libfuzzer_sys::fuzz_target;

const NODES: usize = 3;
/// So that short contents come in several parts, too.
const SMALL_MESSAGE_BYTES: usize = 96;
const NS_PER_STEP: u64 = 1 << 28;

/// A coordinator's state, without what it asks the clock for.
struct Coordinator {
    links: Vec<NodeLink>,
    numbering: Vec<Numbering>,
    join: LiveJoin,
    rounds: Rounds,
    pipeline: Pipeline,
    /// The session of a node: it has letters from strangers as well.
    node: NodePipeline,
    answers: Vec<JobsOfNode>,
    now_ns: u64,
    begun: Instant,
}

impl Coordinator {
    fn new() -> Self {
        let link = |node: usize| {
            let identity = NodeIdentity { host: format!("n{node}"), ..NodeIdentity::default() };
            let (lost_after, given_up_after) = (Duration::from_secs(30), Duration::from_secs(15));
            NodeLink::new(identity, NodePatience { lost_after, given_up_after }).expect("memory")
        };
        Self {
            links: (0..NODES).map(link).collect(),
            numbering: (0..NODES).map(|_| Numbering::default()).collect(),
            join: LiveJoin::new(Patience::default()),
            rounds: Rounds::new(Instant::now()),
            pipeline: Pipeline::new(Options::default()),
            node: NodePipeline::new(Options::default(), 1),
            answers: Vec::new(),
            now_ns: 1,
            begun: Instant::now(),
        }
    }

    fn step(&mut self, kind: u8, from: u8, bytes: &[u8]) {
        let node = usize::from(from) % NODES;
        match kind % 8 {
            // Whatever a stranger publishes.
            0 => self.take(node, bytes.to_vec()),
            1 => self.content(node, ContentKind::Tape, &pieces::tape_of(bytes), from >> 4),
            2 => self.content(node, ContentKind::Word, bytes, from >> 4),
            3 => self.take(node, obituary(bytes)),
            4 => self.content(node, ContentKind::Letter, bytes, from >> 4),
            5 => drop(self.node.deliver(from.into(), bytes)),
            6 => self.requests(bytes),
            _ => self.pass_time(from, bytes),
        }
    }

    /// In parts, of which one may be lost.
    fn content(&mut self, node: usize, kind: ContentKind, bytes: &[u8], lost: u8) {
        let messages = self.numbering[node].messages(kind, bytes, SMALL_MESSAGE_BYTES);
        for (at, message) in messages.into_iter().enumerate() {
            if lost == 0 || at + 1 != usize::from(lost) {
                self.take(node, message);
            }
        }
    }

    fn take(&mut self, node: usize, payload: Vec<u8>) {
        let message = BusMessage { payload, ..BusMessage::default() };
        for brought in self.links[node].take(&message, self.begun) {
            match brought {
                FromNode::Input(input) => drop(self.join.push(node, input)),
                FromNode::Lost => self.join.lose(node),
                FromNode::Notice(text) => assert!(!text.is_empty()),
                FromNode::Confirmed(round) => self.rounds.confirm(node, round),
            }
        }
        self.take_joined();
    }

    fn take_joined(&mut self) {
        self.join.advance(self.now_ns);
        while let Some(input) = self.join.take() {
            self.pipeline.push(&input);
            self.pipeline.take_alerts();
        }
    }

    fn requests(&mut self, bytes: &[u8]) {
        let _ = std::str::from_utf8(bytes).map(untoken);
        let _ = protocol::parse::<FindJobs>(bytes);
        let _ = protocol::parse::<OpenSession>(bytes);
        let _ = protocol::parse::<OpenAnswer>(bytes);
        let _ = protocol::parse::<DownMessage>(bytes);
        let _ = protocol::parse::<UpMessage>(bytes);
        let _ = protocol::parse::<CodeNames>(bytes);
        if let Ok(answer) = protocol::parse::<JobsOfNode>(bytes) {
            self.answers.push(answer);
            let jobs = jobs_of(&self.answers);
            for job in &jobs {
                let _ = (job.unseen_ranks(), job.age_s(), job_meant(&job.name, &jobs).is_ok());
            }
        }
    }

    fn pass_time(&mut self, by: u8, bytes: &[u8]) {
        self.now_ns = self.now_ns.saturating_add(u64::from(by) * NS_PER_STEP);
        self.node.pass_time(u64::from(by) * NS_PER_STEP);
        let all: Vec<usize> = (0..NODES).collect();
        let _ = self.rounds.due(self.begun + Duration::from_nanos(self.now_ns), &all);
        self.node.begin_round(by.into(), self.now_ns);
        let _ = (self.node.take_letters(), self.node.take_inputs(), self.node.take_topics());
        let _ = self.node.take_confirmed();
        if bytes.first() == Some(&1) {
            self.node.lose_node(u32::from(by));
        }
        self.take_joined();
    }

    fn finish(mut self) {
        self.join.finish();
        self.take_joined();
        let report = self.pipeline.report();
        serde_json::to_string(&report).expect("a report is JSON");
        assert!(!analyzer::render::report(&report, analyzer::render::Style::default()).is_empty());
        self.node.finish();
    }
}

fn run(mut bytes: &[u8]) {
    let mut coordinator = Coordinator::new();
    while let [kind, from, low, high, rest @ ..] = bytes {
        let len = rest.len().min(usize::from(u16::from_le_bytes([*low, *high])));
        let (content, behind) = rest.split_at(len);
        coordinator.step(*kind, *from, content);
        bytes = behind;
    }
    coordinator.finish();
}

fuzz_target!(|bytes: &[u8]| within_a_second(|| run(bytes)));
