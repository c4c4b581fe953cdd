//! A session over all nodes of a job: joins what their agents send, and looks at it as at the inputs of one node.

mod names;
pub mod node_clock;
pub mod node_link;
pub mod node_patience;
mod recruiter;
pub mod rounds;

use std::collections::{BTreeSet, HashMap};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use analyzer::input::{End, Input};
use analyzer::options::Options;
use analyzer::tape::{LiveJoin, MAX_NODES};
use anyhow::{Context, Result, bail};

use names::{AgentNames, NodeNames};
use node_clock::OwnClocks;
use node_link::{FromNode, NodeLink, PartState};
use node_patience::NodePatience;
use recruiter::{Recruited, Recruiter};
use rounds::Rounds;

use super::bus::{Bus, BusEvent, BusMessage, Inbox, token};
use super::jobs::{ClusterJob, JobPart};
use super::protocol::{self, DownMessage, JobsOfNode, NodeIdentity, SessionWishes, UserSubjects};
use crate::host::clock;
use crate::host::jobs::name_below;
use crate::host::own_settings::OwnSettings;
use crate::host::sudo::Account;
use crate::host::unique_word::unique_word;
use crate::session::{AttachSummary, Outcome, Outlets, Recorder, SessionStatus, Sink, Tape, launch};

/// How often nodes hear that the coordinator is there.
const ALIVE_PERIOD: Duration = Duration::from_secs(1);
/// How often nodes are asked what time it is.
const PING_PERIOD: Duration = Duration::from_secs(1);
const FIRST_PING_PERIOD: Duration = Duration::from_millis(20);
/// Each node answers a ping: with many of them pings are so much further apart.
const PING_PERIOD_OF_A_NODE: Duration = Duration::from_micros(500);
const SETTLING: Duration = Duration::from_secs(5);
/// How often people see new numbers.
const STATUS_PERIOD: Duration = Duration::from_millis(500);
/// How often the tape is made safe up to here.
const TAPE_PERIOD: Duration = Duration::from_secs(1);
/// How long to wait for a message before looking at the clock again.
const PATIENCE: Duration = Duration::from_millis(10);
/// How often it is looked what a job that was started is called: its ranks begin some ten milliseconds after that can be known.
const NAME_PERIOD: Duration = Duration::from_millis(1);
/// How long nodes have to attach before people are told that it begins; two thirds of what they have to come back, if that is
/// longer.
const LEAST_OPENING: Duration = Duration::from_secs(20);
/// How long nodes have to send what is left, if they are heard of meanwhile.
const ENDING: Duration = Duration::from_secs(60);
/// Messages that are taken before what came of them is looked at.
const MOST_AT_ONCE: usize = 4096;

/// What a session over several nodes is asked for.
pub struct CoordinatorSettings {
    /// The bus.
    pub bus: Arc<dyn Bus>,
    /// Who asks, as the bus knows the user.
    pub user: String,
    /// How each node watches.
    pub wishes: SessionWishes,
    /// Thresholds.
    pub analysis: Options,
    /// Ends after so long.
    pub duration: Option<Duration>,
    /// Where to record to.
    pub tape: Option<Tape>,
    /// MPI calls kept for a page; none: no page is wanted.
    pub page_calls: Option<usize>,
    /// Set from outside to end the session.
    pub stop: Arc<AtomicBool>,
}

/// Watches a running job on all of its nodes, to its end or until told to stop.
///
/// # Errors
/// No node takes part.
pub fn attach(job: &ClusterJob, settings: CoordinatorSettings, sink: &mut dyn Sink) -> Result<Outcome> {
    let begun = Instant::now();
    let mut coordinator = Coordinator::new(settings, sink)?;
    coordinator.job = Some(JobIdentity::of(job));
    coordinator.size = job.size.unwrap_or_default() as usize;
    job.parts.iter().for_each(|part| coordinator.open(part));
    coordinator.wait_until(|node| node.attached.is_some());
    coordinator.tell_attached(begun, |node| node.attached.is_some())?;
    coordinator.tell_unseen(job);
    Ok(coordinator.follow(None))
}

/// A job that is to be started.
pub struct RunOnNodes<'a> {
    /// What starts it.
    pub command: &'a [String],
    /// The same with paths that hold in every folder.
    pub as_nodes_know_it: &'a [String],
    /// Nodes that it may have ranks on.
    pub nodes: &'a [JobsOfNode],
}

/// Starts a job and watches it from its first instruction on all nodes that have an agent. `account`: whose job it is, if not
/// ours.
///
/// # Errors
/// No node takes part; the command cannot be run.
pub fn run(
    job: &RunOnNodes<'_>,
    account: Option<&Account>,
    settings: CoordinatorSettings,
    sink: &mut dyn Sink,
) -> Result<Outcome> {
    let begun = Instant::now();
    let command = job.command;
    let mut coordinator = Coordinator::new(settings, sink)?;
    for JobsOfNode { node, .. } in job.nodes {
        let number = coordinator.number_of(node);
        if coordinator.recruiter.expect(node, number, job.as_nodes_know_it) {
            coordinator.add(number, node.clone());
        }
    }
    coordinator.wait_until(|node| node.is_ready);
    coordinator.tell_attached(begun, |node| node.is_ready)?;
    let waiting =
        launch(command, account, OwnSettings::change()?).context("cannot make a process for the job")?;
    let launcher = waiting.go().with_context(|| format!("cannot run {}", command[0]))?;
    Ok(coordinator.follow(Some(launcher)))
}

/// Which job it is, on whichever node.
#[derive(PartialEq, Eq)]
struct JobIdentity {
    name: String,
    uid: Option<u32>,
}

impl JobIdentity {
    fn of(job: &ClusterJob) -> Self {
        Self { name: job.name.clone(), uid: job.ranks().next().map(|rank| rank.uid) }
    }
}

struct Coordinator<'s> {
    /// None: it is not known yet.
    job: Option<JobIdentity>,
    /// Ranks that agents have told of …
    ranks: BTreeSet<u32>,
    /// … and how many there are, as far as it is known.
    size: usize,
    bus: Arc<dyn Bus>,
    subjects: UserSubjects,
    session: String,
    recruiter: Recruiter,
    up: Inbox,
    nodes: Vec<NodeLink>,
    patience: NodePatience,
    /// The number of each node by the word that its subjects end with.
    words: HashMap<String, usize>,
    agents: AgentNames,
    join: LiveJoin,
    /// None: nodes tell each other nothing.
    rounds: Option<Rounds>,
    recorder: Recorder,
    sink: &'s mut dyn Sink,
    deadline: Option<Instant>,
    stop: Arc<AtomicBool>,
    begun: Instant,
    alive_due: Instant,
    ping_due: Instant,
    status_due: Instant,
    tape_due: Instant,
    has_end: bool,
    last_ns: u64,
    clocks: OwnClocks,
}

impl<'s> Coordinator<'s> {
    fn new(settings: CoordinatorSettings, sink: &'s mut dyn Sink) -> Result<Self> {
        let CoordinatorSettings { bus, user, wishes, analysis, duration, tape, page_calls, stop } = settings;
        let subjects = UserSubjects::of(&user);
        let session = unique_word().context("the kernel has no random bits")?;
        // Before any node is asked: nothing that they send is to be missed.
        let up = bus.subscribe(&subjects.up(&session, "*"))?;
        let agents = AgentNames::default();
        let names = NodeNames::new(Arc::clone(&bus), subjects.clone(), &session, Arc::clone(&agents))?;
        let outlets = Outlets { tape, names: Box::new(names), ..Outlets::default() };
        let now = Instant::now();
        let patience =
            NodePatience { lost_after: wishes.lost_after(), given_up_after: wishes.given_up_after() };
        let rounds = (!wishes.whole).then(|| Rounds::new(now));
        Ok(Self {
            job: None,
            rounds,
            ranks: BTreeSet::new(),
            size: 0,
            recruiter: Recruiter::new(Arc::clone(&bus), subjects.clone(), &session, wishes)?,
            bus,
            subjects,
            session,
            up,
            nodes: Vec::new(),
            patience,
            words: HashMap::new(),
            agents,
            join: LiveJoin::new(patience.of_inputs()),
            recorder: Recorder::new(analysis, outlets, page_calls),
            sink,
            deadline: duration.map(|duration| now + duration),
            stop,
            begun: now,
            alive_due: now,
            ping_due: now,
            status_due: now + STATUS_PERIOD,
            tape_due: now + TAPE_PERIOD,
            has_end: false,
            last_ns: 0,
            clocks: OwnClocks::now(),
        })
    }

    /// Every node that was asked is so far, or will not be.
    fn wait_until(&mut self, is_so_far: impl Fn(&NodeLink) -> bool) {
        let begun = Instant::now();
        let opening = LEAST_OPENING.max(self.patience.lost_after * 2 / 3);
        while begun.elapsed() < opening && !self.stop.load(Ordering::Relaxed) {
            self.step(PATIENCE);
            let is_settled = |node: &NodeLink| is_so_far(node) || !node.is_open();
            if !self.recruiter.is_waiting() && self.nodes.iter().all(is_settled) {
                return;
            }
        }
    }

    /// Says which nodes take part.
    fn tell_attached(&mut self, begun: Instant, takes_part: impl Fn(&NodeLink) -> bool) -> Result<()> {
        let taking_part: Vec<&NodeLink> = self.nodes.iter().filter(|node| takes_part(node)).collect();
        if taking_part.is_empty() {
            self.tell(&DownMessage::Leave);
            self.bus.flush(ALIVE_PERIOD);
            bail!("no node of the job is watched");
        }
        let sum = |count: fn(&AttachSummary) -> usize| {
            taking_part.iter().filter_map(|node| node.attached.as_ref()).map(count).sum()
        };
        let summary = AttachSummary {
            probes: sum(|attached| attached.probes),
            fast: sum(|attached| attached.fast),
            files: sum(|attached| attached.files),
            failed: sum(|attached| attached.failed),
            took_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            notes: Vec::new(),
        };
        let hosts: Vec<&str> = taking_part.iter().map(|node| node.identity.host.as_str()).collect();
        let text = format!("{} nodes take part: {}", hosts.len(), shortened(&hosts));
        self.sink.attached(&summary);
        self.sink.notice(&text);
        Ok(())
    }

    /// Ranks that no agent sees.
    fn tell_unseen(&mut self, job: &ClusterJob) {
        let unseen = job.unseen_ranks();
        if !unseen.is_empty() {
            self.sink.notice(&format!(
                "{} of {} ranks are on nodes whose agents do not answer (rank {} is the first): what they do is not seen",
                unseen.len(),
                job.size.unwrap_or_default(),
                unseen[0]
            ));
        }
    }

    /// Goes on to the end of the job, or to a limit.
    fn follow(mut self, mut launcher: Option<Child>) -> Outcome {
        let mut search = launcher.as_ref().map(|child| NameSearch::below(child.id()));
        let reason = loop {
            self.step(if search.is_some() { NAME_PERIOD } else { PATIENCE });
            if let Some(name) = search.as_mut().and_then(NameSearch::look) {
                search = None;
                self.tell(&DownMessage::Job(name));
            }
            let is_starting = launcher.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)));
            if self.stop.load(Ordering::Relaxed) {
                break "interrupted";
            }
            if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                break "duration elapsed";
            }
            let now = Instant::now();
            if is_starting {
                continue;
            }
            if launcher.is_some() && !self.nodes.iter().any(|node| node.is_open() && node.has_begun) {
                break "the job ended";
            }
            if !self.nodes.iter().any(|node| node.is_open() || node.may_come_back(now)) {
                let is_over = self.nodes.iter().all(|node| node.state == PartState::Ended);
                break if is_over { "the job ended" } else { "no node is watched any more" };
            }
        };
        self.end(reason)
    }

    fn end(mut self, reason: &str) -> Outcome {
        self.tell(&DownMessage::Stop);
        // Who has ended by now is not asked again.
        self.job = None;
        let until = Instant::now() + ENDING;
        while self.nodes.iter().any(|node| node.is_awaited(Instant::now())) && Instant::now() < until {
            self.step(PATIENCE);
        }
        for node in self.nodes.iter().filter(|node| node.is_open()) {
            let host = &node.identity.host;
            self.sink.notice(&format!("{host} has not sent the end of its part: what was left is missing"));
        }
        self.join.finish();
        self.take_joined();
        if !self.has_end {
            let end = End { time_ns: self.last_ns, reason: reason.to_owned(), ..End::default() };
            self.recorder.push(Input::End(end));
        }
        self.recorder.tell_alerts(self.sink);
        self.show_status();
        let report = self.recorder.finish(self.sink);
        self.tell(&DownMessage::Leave);
        self.bus.flush(ALIVE_PERIOD);
        // It is one of all nodes.
        let Some(report) = report else { return Outcome::Nothing };
        self.sink.report(&report);
        Outcome::of_report(&report)
    }

    /// Takes what has come, or comes within `patience`, and does what is due.
    fn step(&mut self, patience: Duration) {
        let first = self.up.next(patience).ok().flatten();
        let mut next = first;
        let mut taken = 0;
        while let Some(message) = next {
            self.take(&message);
            taken += 1;
            next = if taken < MOST_AT_ONCE { self.up.try_next() } else { None };
        }
        let is_settled = |node: &NodeLink| node.has_begun || !node.is_open();
        if !self.nodes.is_empty() && !self.recruiter.is_waiting() && self.nodes.iter().all(is_settled) {
            self.join.open();
        }
        self.take_joined();
        let now = Instant::now();
        self.recruit(now);
        self.listen_to_bus();
        self.look_for_silence(now);
        if now >= self.alive_due {
            self.alive_due = now + ALIVE_PERIOD;
            let part = self.nodes.iter().filter(|node| node.is_open() && node.has_begun).count();
            self.tell(&DownMessage::Alive { nodes: u32::try_from(part).unwrap_or(u32::MAX) });
        }
        self.go_round(now);
        if now >= self.ping_due {
            // Often at first, when times are about to be told.
            let is_settling = self.begun.elapsed() < SETTLING;
            let most_often = PING_PERIOD_OF_A_NODE * u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
            let wished = if is_settling { FIRST_PING_PERIOD } else { PING_PERIOD };
            self.ping_due = now + wished.max(most_often);
            self.tell(&DownMessage::Ping { sent_ns: clock::monotonic_ns() });
        }
        if now >= self.status_due {
            self.status_due = now + STATUS_PERIOD;
            self.show_status();
        }
        if now >= self.tape_due {
            self.tape_due = now + TAPE_PERIOD;
            self.recorder.flush(self.sink);
        }
    }

    /// Begins a round of what nodes tell each other, if it is time.
    fn go_round(&mut self, now: Instant) {
        let Some(rounds) = &mut self.rounds else { return };
        let nodes = self.nodes.iter().enumerate();
        let awaited: Vec<usize> =
            nodes.filter(|(_, node)| node.is_awaited(now)).map(|(number, _)| number).collect();
        if let Some(number) = rounds.due(now, &awaited) {
            self.tell(&DownMessage::Round(number));
        }
    }

    /// Says which nodes are not heard of, and gives up those that have not been for long.
    fn look_for_silence(&mut self, now: Instant) {
        let mut lost = Vec::new();
        for (number, node) in self.nodes.iter_mut().enumerate() {
            if node.becomes_silent(now) {
                let host = &node.identity.host;
                let text =
                    format!("nothing is heard of {host}: its part is missing until it is heard of again");
                self.sink.notice(&text);
            } else if node.becomes_lost(now) {
                let host = &node.identity.host;
                self.sink.notice(&format!("{host} is given up, as nothing was heard of it for long; it takes part again if its agent answers"));
                lost.push(number as u32);
            }
        }
        lost.into_iter().for_each(|number| self.tell(&DownMessage::Gone(number)));
    }

    fn take(&mut self, message: &BusMessage) {
        let word = message.subject.rsplit('.').next().unwrap_or_default();
        let Some(&number) = self.words.get(word) else { return };
        let was_open = self.nodes[number].is_open();
        let now = Instant::now();
        let brought = self.nodes[number].take(message, now);
        if was_open && self.nodes[number].state == PartState::Failed {
            self.tell(&DownMessage::Gone(number as u32));
        }
        if self.nodes[number].heard() == now {
            self.join.hear(number);
        }
        for brought in brought {
            match brought {
                FromNode::Confirmed(round) => {
                    self.rounds.iter_mut().for_each(|rounds| rounds.confirm(number, round));
                }
                FromNode::Input(mut input) => {
                    self.clocks.correct(&mut input, &self.nodes[number].clock);
                    self.join.push(number, input);
                }
                FromNode::Lost => self.join.lose(number),
                FromNode::Notice(text) => self.sink.notice(&text),
            }
        }
    }

    fn take_joined(&mut self) {
        self.join.advance(clock::monotonic_ns());
        while let Some(input) = self.join.take() {
            let is_tick = matches!(input, Input::Tick { .. });
            match &input {
                Input::Tick { time_ns } => self.last_ns = self.last_ns.max(*time_ns),
                Input::End(_) => self.has_end = true,
                _ => {}
            }
            self.recorder.push(input);
            if is_tick {
                self.recorder.tell_alerts(self.sink);
            }
        }
    }

    /// Opens what is not open and takes what agents answer.
    fn recruit(&mut self, now: Instant) {
        let is_missed = !self.nodes.iter().all(NodeLink::is_open);
        if self.job.is_some() && (is_missed || self.ranks.len() < self.size) {
            self.recruiter.search(now, is_missed);
        }
        for one in self.recruiter.take(now) {
            match one {
                Recruited::Found(job) => {
                    let is_ours = self.job.as_ref().is_some_and(|ours| *ours == JobIdentity::of(&job));
                    for part in job.parts.iter().filter(|_| is_ours) {
                        if !is_open(&self.nodes, &part.node) {
                            self.open(part);
                        }
                    }
                }
                Recruited::Opened(_) => {}
                Recruited::Refused(node, why) => {
                    self.sink.notice(&format!("{} takes no part: {why}", node.host));
                    let asked = self.nodes.iter_mut().find(|link| link.identity == node);
                    asked.into_iter().for_each(NodeLink::refuse);
                }
            }
        }
    }

    /// Asks a node to watch its part.
    fn open(&mut self, part: &JobPart) {
        let number = self.number_of(&part.node);
        if number >= MAX_NODES {
            let host = &part.node.host;
            return self
                .sink
                .notice(&format!("{host} takes no part: a session has at most {MAX_NODES} nodes"));
        }
        self.ranks.extend(part.job.ranks.iter().filter_map(|rank| rank.rank));
        if self.recruiter.open(part, number) {
            self.add(number, part.node.clone());
        }
    }

    /// The number that a node has, or gets next.
    fn number_of(&self, identity: &NodeIdentity) -> usize {
        let known = self.nodes.iter().position(|node| node.identity.is_same_node(identity));
        known.unwrap_or(self.nodes.len())
    }

    /// A node was asked, perhaps again.
    fn add(&mut self, number: usize, identity: NodeIdentity) {
        let link = match NodeLink::new(identity.clone(), self.patience) {
            Ok(link) => link,
            Err(error) => return self.sink.notice(&format!("{}: {error}", identity.host)),
        };
        let mut agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = self.nodes.get(number) {
            self.words.remove(&token(&known.identity.agent));
        }
        self.words.insert(token(&identity.agent), number);
        match self.nodes.get_mut(number) {
            Some(known) => {
                *known = link;
                agents[number] = identity.agent;
            }
            None => {
                self.nodes.push(link);
                agents.push(identity.agent);
            }
        }
    }

    fn listen_to_bus(&mut self) {
        let events: Vec<BusEvent> = self.bus.events().try_iter().collect();
        for event in events {
            self.sink.notice(&match event {
                BusEvent::Connected => continue,
                BusEvent::Disconnected => "the bus is gone: trying to connect again".to_owned(),
                BusEvent::TooSlow => "the bus gave up messages that were not taken in time".to_owned(),
                BusEvent::Refused(why) => format!("the bus refuses: {why}"),
            });
        }
        let dropped = self.up.take_dropped();
        if dropped > 0 {
            self.sink.notice(&format!("{dropped} messages were given up: the analysis does not keep up"));
        }
    }

    fn tell(&self, word: &DownMessage) {
        // What is not sent now is said again, or the nodes end by themselves.
        let _ = self.bus.publish(&self.subjects.down(&self.session, "all"), None, protocol::bytes(word));
    }

    fn show_status(&mut self) {
        let mut all = SessionStatus::default();
        for status in self.nodes.iter().map(|node| &node.status) {
            all.ranks.extend(&status.ranks);
            all.records += status.records;
            all.lost += status.lost;
            all.late += status.late;
            all.unreadable += status.unreadable;
            all.probes += status.probes;
            all.stranger_hits += status.stranger_hits;
            let spent = |status: &SessionStatus| status.budget.as_ref().map(|budget| budget.spent_share);
            if spent(status) > spent(&all) {
                all.budget.clone_from(&status.budget);
            }
        }
        all.ranks.sort_unstable();
        let report = if self.sink.wants_report() { self.recorder.report() } else { None };
        self.sink.status(&all, report.as_ref());
    }
}

/// Looks for the name of a job that was started, in what its launcher starts.
struct NameSearch {
    launcher: u32,
    due: Instant,
}

impl NameSearch {
    /// A launcher that has just been started.
    fn below(launcher: u32) -> Self {
        Self { launcher, due: Instant::now() }
    }

    /// The name, once there is one. A script may do much else before it starts a job: it is looked a fifth of the time at most.
    fn look(&mut self) -> Option<String> {
        let begun = Instant::now();
        if begun < self.due {
            return None;
        }
        let name = name_below(self.launcher);
        self.due = Instant::now() + begun.elapsed() * 4;
        name
    }
}

/// Whether a node takes part.
fn is_open(nodes: &[NodeLink], identity: &NodeIdentity) -> bool {
    nodes.iter().any(|node| node.identity.is_same_node(identity) && node.is_open())
}

/// Names, as far as there is room for them.
fn shortened(names: &[&str]) -> String {
    const MOST: usize = 8;
    let more = if names.len() > MOST { format!(" and {} more", names.len() - MOST) } else { String::new() };
    format!("{}{more}", names[..names.len().min(MOST)].join(", "))
}
