//! One node's part of a session: its inputs, made up as time goes on, and what is made of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use analyzer::input::{End, Input, Start};
use analyzer::options::Options;
use anyhow::Result;
use crossbeam_channel::{Sender, unbounded};
use dmscope::cluster::bus::{Bus, Inbox};
use dmscope::cluster::peers::PeerLetters;
use dmscope::cluster::protocol::{self, CodeNames, DownMessage, OpenSession, UpMessage, UserSubjects};
use dmscope::cluster::uplink::{FilesForNames, TapeFeed, Uplink, WordSink};
use dmscope::host::clock;
use dmscope::session::{
    AttachSummary, FromNodes, NodePart, Outlets, Recorder, SampleSchedule, SessionStatus, Sink,
};

use super::state::FleetState;
use crate::generate::{FIRST_PID, JobInputs, Standstill};

const TICK_NS: u64 = 50_000_000;
const STATUS_NS: u64 = 500_000_000;
/// Nodes tell what they count, and their letters, as often as they do among so many, however many there are: what they cost
/// can be compared then.
const PACE_OF_NODES: u32 = 1024;
/// How long letters of others are waited for at the end.
const LEAVING_NS: u64 = 2_000_000_000;

/// See the [module](self).
pub(super) struct SimulatedPart {
    ranks: std::ops::Range<u32>,
    inputs: JobInputs,
    /// The next of them.
    next: Option<Input>,
    has_begun: bool,
    stands: bool,
    schedule: SampleSchedule,
    recorder: Option<Recorder>,
    uplink: Uplink,
    down: [Inbox; 2],
    to_part: Sender<FromNodes>,
    nodes: Arc<AtomicU32>,
    records: u64,
    tick_due_ns: u64,
    status_due_ns: u64,
    /// It was told to end.
    ends_ns: Option<u64>,
    /// Nothing more is needed of it.
    pub(super) is_over: bool,
}

impl SimulatedPart {
    pub(super) fn open(
        state: &FleetState,
        node: u32,
        agent: &str,
        bus: &Arc<dyn Bus>,
        user: &str,
        request: &OpenSession,
    ) -> Result<Self> {
        let subjects = UserSubjects::of(user);
        let uplink = Uplink::new(Arc::clone(bus), &subjects.up(&request.session, agent));
        let down = [
            bus.subscribe(&subjects.down(&request.session, agent))?,
            bus.subscribe(&subjects.down(&request.session, "all"))?,
        ];
        let (to_part, words) = unbounded();
        let letters = PeerLetters::new(uplink.clone(), subjects, &request.session, request.number, words)?;
        let outlets = Outlets {
            tape: None,
            feed: Some(Box::new(TapeFeed::new(uplink.clone(), Arc::new(AtomicBool::new(true))))),
            names: Box::new(FilesForNames(unbounded().0)),
        };
        let nodes: Arc<AtomicU32> = Arc::default();
        let part = NodePart { number: request.number, letters: Box::new(letters), nodes: Arc::clone(&nodes) };
        let now_ns = clock::monotonic_ns();
        let job = state.job.generated;
        let size = job.ranks_per_node();
        let mut one = Self {
            ranks: node * size..(node + 1) * size,
            inputs: job.node(node),
            next: None,
            has_begun: false,
            stands: false,
            schedule: SampleSchedule::default(),
            recorder: Some(Recorder::of_part(Options::default(), outlets, part)),
            uplink,
            down,
            to_part,
            nodes,
            records: 0,
            tick_due_ns: now_ns,
            status_due_ns: now_ns,
            ends_ns: None,
            is_over: false,
        };
        one.attach(agent);
        Ok(one)
    }

    /// Tells of the node's processes and probes.
    fn attach(&mut self, agent: &str) {
        let pair = clock::pair();
        for input in self.inputs.by_ref() {
            let is_plan = matches!(input, Input::Plan(_));
            let input = match input {
                Input::Start(start) => Input::Start(Box::new(Start {
                    host: agent.to_owned(),
                    time_ns: pair.monotonic_ns,
                    wall_clock_s: pair.wall_clock_s,
                    wall_clock_rest_ns: pair.wall_clock_rest_ns,
                    launched: false,
                    alloc_min_bytes: 4096,
                    ..*start
                })),
                Input::Process(mut facts) => {
                    facts.time_ns = pair.monotonic_ns;
                    Input::Process(facts)
                }
                other => other,
            };
            push(&mut self.recorder, input);
            if is_plan {
                break;
            }
        }
        let summary = AttachSummary { probes: 13, files: 1, took_ms: 1, ..AttachSummary::default() };
        WordSink(self.uplink.clone()).attached(&summary);
    }

    /// Does what is due.
    pub(super) fn step(&mut self, now_ns: u64, state: &FleetState) {
        self.listen(now_ns);
        if self.recorder.is_none() {
            return;
        }
        if let Some(since_ns) = self.ends_ns {
            return self.leave(now_ns, since_ns);
        }
        let begins_ns = state.begins_ns.load(Ordering::Relaxed);
        let stands_ns = state.stands_ns.load(Ordering::Relaxed);
        if begins_ns > 0 && now_ns >= begins_ns && !self.stands {
            self.move_data(begins_ns, now_ns.min(stands_ns), state);
        }
        if now_ns >= stands_ns {
            self.stand(now_ns, stands_ns, &state.job.standstill);
        }
        self.tick(now_ns);
        if let Some(recorder) = &mut self.recorder {
            recorder.exchange();
        }
    }

    /// Records up to a time.
    fn move_data(&mut self, begins_ns: u64, until_ns: u64, state: &FleetState) {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.inputs.set_clock(begins_ns);
            self.next = self.inputs.next();
        }
        let mut batch = Vec::new();
        let begin_ns = super::state::thread_cpu_ns();
        while let Some(input) =
            self.next.take_if(|input| input.time_ns().is_none_or(|at_ns| at_ns <= until_ns))
        {
            batch.push(input);
            self.next = self.inputs.next();
        }
        state.generating_ns.fetch_add(super::state::thread_cpu_ns() - begin_ns, Ordering::Relaxed);
        for input in batch {
            match &input {
                Input::Record(_) => self.records += 1,
                Input::Tick { time_ns } => self.tick_due_ns = time_ns + TICK_NS,
                _ => {}
            }
            push(&mut self.recorder, input);
        }
    }

    /// The job has come to a stand: its ranks make their last calls, and are sampled.
    fn stand(&mut self, now_ns: u64, stands_ns: u64, standstill: &Standstill) {
        if !std::mem::replace(&mut self.stands, true) {
            for (rank, at_ns) in self.ranks.clone().zip(stands_ns..) {
                push(&mut self.recorder, standstill.last_call(rank, at_ns));
            }
        }
        let quiet = self.ranks.clone().map(|rank| (FIRST_PID + rank, stands_ns));
        let due = self.schedule.due(now_ns, quiet);
        if !due.is_empty() {
            let ranks = due.into_iter().map(|pid| pid - FIRST_PID);
            let threads = standstill.sample(ranks, now_ns, now_ns - stands_ns);
            self.schedule.found(&threads);
            push(&mut self.recorder, Input::Threads(Box::new(threads)));
        }
    }

    fn tick(&mut self, now_ns: u64) {
        if now_ns >= self.tick_due_ns && (!self.has_begun || self.stands) {
            self.tick_due_ns = now_ns + TICK_NS;
            push(&mut self.recorder, Input::Tick { time_ns: now_ns });
        }
        if now_ns >= self.status_due_ns {
            self.status_due_ns = now_ns + STATUS_NS;
            let ranks = self.ranks.clone().collect();
            let status =
                SessionStatus { ranks, records: self.records, probes: 13, ..SessionStatus::default() };
            WordSink(self.uplink.clone()).status(&status, None);
        }
    }

    fn listen(&mut self, now_ns: u64) {
        for inbox in &self.down {
            while let Some(message) = inbox.try_next() {
                let arrived_ns = clock::monotonic_ns();
                let Ok(word) = protocol::parse::<DownMessage>(&message.payload) else { continue };
                match word {
                    DownMessage::Alive { .. } => self.nodes.store(PACE_OF_NODES, Ordering::Relaxed),
                    DownMessage::Job(_) => {}
                    DownMessage::Gone(node) => drop(self.to_part.send(FromNodes::Gone(node))),
                    DownMessage::Round(number) => {
                        drop(self.to_part.send(FromNodes::Round { number, at_ns: arrived_ns }));
                    }
                    DownMessage::Stop => self.ends_ns = self.ends_ns.or(Some(now_ns)),
                    DownMessage::Leave => self.is_over = true,
                    DownMessage::Ping { sent_ns } => {
                        let node_ns = clock::monotonic_ns();
                        let held_ns = node_ns.saturating_sub(arrived_ns);
                        self.uplink.say(&UpMessage::Pong { sent_ns, node_ns, held_ns });
                    }
                    DownMessage::Name(places) => {
                        if let Some(reply) = &message.reply {
                            let symbols = Standstill::symbols(&places);
                            self.uplink.answer(reply, &CodeNames { symbols });
                        }
                    }
                }
            }
        }
    }

    /// Ends as a session does that is told to.
    fn leave(&mut self, now_ns: u64, since_ns: u64) {
        if now_ns == since_ns {
            let end = End { time_ns: now_ns, reason: "interrupted".to_owned(), ..End::default() };
            push(&mut self.recorder, Input::End(end));
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.exchange();
            let is_settled = recorder.is_settled();
            if is_settled || now_ns > since_ns + LEAVING_NS {
                // One that is not would wait for the others, which take turns with it.
                if is_settled {
                    recorder.finish(&mut WordSink(self.uplink.clone()));
                }
                self.uplink.say(&UpMessage::Ended { is_job_over: true });
                self.recorder = None;
            }
        }
    }
}

fn push(recorder: &mut Option<Recorder>, input: Input) {
    if let Some(recorder) = recorder {
        recorder.push(input);
    }
}
