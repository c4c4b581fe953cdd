//! The agent of a node: answers which jobs are there, and starts sessions for coordinators.
//!
//! It watches nothing by itself. Each session is a process of its own, so that one that fails takes neither the agent nor
//! another one with it.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use crossbeam_channel::{Receiver, select};

use super::bus::{Bus, BusError, BusEvent, BusMessage, Inbox, NatsBus, NatsSettings};
use super::envelope::obituary;
use super::node_session::NodeSessionOrder;
use super::protocol::{
    self, ANY_FIND, FindJobs, JobOnNode, JobsOfNode, NodeIdentity, OpenAnswer, OpenSession, PROTOCOL,
    SessionWishes, UpMessage, UserSubjects, WantedJob, any_agent, user_of, version_trouble,
};
use super::rights::{MachineAccounts, VisibleJobs};
use crate::host::sandbox::{send, start_child};
use crate::host::{NodeJob, find_jobs};

/// The word that makes this program a session.
const COMMAND: &str = "node-session";
/// Most sessions at once.
const MOST_SESSIONS: usize = 8;
/// How often it is looked whether sessions have ended.
const PERIOD: Duration = Duration::from_millis(200);
/// A list of jobs that is younger need not be made again: many may ask.
const JOBS_AGE: Duration = Duration::from_millis(300);
/// Pause before a bus that is not there is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// What an agent is told by whoever starts it.
pub struct AgentSettings {
    /// The bus.
    pub nats: NatsSettings,
    /// Users who may see everybody's jobs, beside root.
    pub operators: Vec<String>,
    /// Largest part of a job's time that any session may take; none: any.
    pub most_budget: Option<f64>,
    /// It answers on a bus that lets anybody say who they are.
    pub trusts_everybody: bool,
    /// Set to end it.
    pub stop: Arc<AtomicBool>,
}

/// Runs until told to stop. `tell`: for the log.
///
/// # Errors
/// The bus refuses us, or is not to be trusted.
pub fn run(settings: &AgentSettings, tell: &mut dyn FnMut(&str)) -> Result<()> {
    let node = super::node::identity()?;
    let Some(bus) = connect(settings, tell)? else { return Ok(()) };
    if !bus.facts().authenticates && !settings.trusts_everybody {
        bail!(
            "the server does not ask who connects, so that anybody who reaches it could watch everybody's jobs: set up users \
             (docs/nodes.md has a file for it), or give --trust-everybody where only trusted people reach the server"
        );
    }
    let find = bus.subscribe(ANY_FIND)?;
    let requests = bus.subscribe(&any_agent(&node.agent))?;
    tell(&format!("agent of {} ({}): ready", node.host, node.agent));
    let mut agent = Agent { settings, node, bus, sessions: BTreeMap::new(), jobs: None };
    agent.serve(&find, &requests, tell)
}

/// Waits for a server that is not there yet: agents may be started first.
fn connect(settings: &AgentSettings, tell: &mut dyn FnMut(&str)) -> Result<Option<Arc<dyn Bus>>> {
    let mut told = String::new();
    while !settings.stop.load(Ordering::Relaxed) {
        match NatsBus::connect(settings.nats.clone()) {
            Ok(bus) => return Ok(Some(Arc::new(bus))),
            Err(error) => {
                let why = error.to_string();
                if why != told {
                    tell(&format!("{why}; it is tried again every {} s", RETRY_PAUSE.as_secs()));
                    told = why;
                }
            }
        }
        let until = Instant::now() + RETRY_PAUSE;
        while Instant::now() < until && !settings.stop.load(Ordering::Relaxed) {
            std::thread::sleep(PERIOD);
        }
    }
    Ok(None)
}

/// A session that runs.
struct RunningPart {
    child: Child,
    /// Closed: it ends.
    socket: Option<UnixStream>,
    user: String,
    /// The launcher of its job, if that runs.
    pid: Option<u32>,
}

struct Agent<'a> {
    settings: &'a AgentSettings,
    node: NodeIdentity,
    bus: Arc<dyn Bus>,
    /// By what they are called on the bus.
    sessions: BTreeMap<String, RunningPart>,
    /// As they were found last.
    jobs: Option<(Instant, Vec<NodeJob>)>,
}

impl Agent<'_> {
    fn serve(&mut self, find: &Inbox, requests: &Inbox, tell: &mut dyn FnMut(&str)) -> Result<()> {
        let events: Receiver<BusEvent> = self.bus.events();
        while !self.settings.stop.load(Ordering::Relaxed) {
            select! {
                recv(find.receiver()) -> message => match message {
                    Ok(message) => self.answer_find(&find.took(message)),
                    Err(_) => bail!(BusError::Closed),
                },
                recv(requests.receiver()) -> message => match message {
                    Ok(message) => self.answer_open(&requests.took(message), tell),
                    Err(_) => bail!(BusError::Closed),
                },
                recv(events) -> event => match event {
                    Ok(BusEvent::Connected) => tell("connected to the bus"),
                    Ok(BusEvent::Disconnected) => tell("the bus is gone: trying to connect again"),
                    Ok(BusEvent::TooSlow) => tell("the bus gave up messages that were not taken in time"),
                    Ok(BusEvent::Refused(why)) => tell(&format!("the bus refuses: {why}")),
                    Err(_) => bail!(BusError::Closed),
                },
                default(PERIOD) => {}
            }
            self.bury_the_dead(tell);
        }
        self.end_sessions();
        Ok(())
    }

    fn answer(&self, message: &BusMessage, answer: &impl serde::Serialize) {
        if let Some(reply) = &message.reply {
            // Who gets none asks again.
            let _ = self.bus.publish(reply, None, protocol::bytes(answer));
        }
    }

    fn answer_find(&mut self, message: &BusMessage) {
        let Some(user) = user_of(&message.subject).and_then(named) else { return };
        if protocol::parse::<FindJobs>(&message.payload).is_err() {
            return;
        }
        let visible = self.visible(&user);
        let jobs = self.jobs();
        let all = jobs.len();
        let jobs: Vec<NodeJob> = jobs.iter().filter(|job| visible.include(uids(job))).cloned().collect();
        let answer = JobsOfNode {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            node: self.node.clone(),
            hidden: all - jobs.len(),
            jobs,
        };
        self.answer(message, &answer);
    }

    fn visible(&self, user: &str) -> VisibleJobs {
        VisibleJobs::of(user, &self.settings.operators, &MachineAccounts)
    }

    fn jobs(&mut self) -> &[NodeJob] {
        let is_fresh = |(at, _): &(Instant, Vec<NodeJob>)| at.elapsed() < JOBS_AGE;
        if !self.jobs.as_ref().is_some_and(is_fresh) {
            self.jobs = Some((Instant::now(), find_jobs()));
        }
        self.jobs.as_ref().map_or(&[], |(_, jobs)| jobs)
    }

    fn answer_open(&mut self, message: &BusMessage, tell: &mut dyn FnMut(&str)) {
        let Some(user) = user_of(&message.subject).and_then(named) else { return };
        let answer = match self.open(&user, &message.payload) {
            Ok(what) => {
                tell(&format!("{user} watches {what}"));
                OpenAnswer::Opened
            }
            Err(why) => {
                tell(&format!("refused to {user}: {why}"));
                OpenAnswer::Refused(why)
            }
        };
        self.answer(message, &answer);
    }

    /// Starts a session; says what it watches, or why there is none.
    fn open(&mut self, user: &str, request: &[u8]) -> Result<String, String> {
        let request: OpenSession = protocol::parse(request)?;
        if let Some(trouble) = version_trouble("the coordinator", request.protocol, "unknown") {
            return Err(trouble);
        }
        if !is_session_name(&request.session) {
            return Err("this is no name of a session".into());
        }
        let (pid, what) = match &request.job {
            WantedJob::Running(meant) => self.running(user, meant)?,
            WantedJob::Expected(_) if self.visible(user) == VisibleJobs::None => {
                return Err(format!("there is no user {user} on {}", self.node.host));
            }
            WantedJob::Expected(command) => (None, format!("for {}", command.join(" "))),
        };
        let host = self.node.host.clone();
        if self.sessions.len() >= MOST_SESSIONS {
            return Err(format!("{MOST_SESSIONS} sessions run on {host} already"));
        }
        let wishes = self.allowed(request.wishes)?;
        let order = NodeSessionOrder {
            nats: self.settings.nats.clone(),
            user: user.to_owned(),
            node: self.node.clone(),
            session: request.session.clone(),
            number: request.number,
            job: request.job,
            only_user: match self.visible(user) {
                VisibleJobs::OfUser(uid) => Some(uid),
                VisibleJobs::All | VisibleJobs::None => None,
            },
            wishes,
        };
        let session = start(&order, pid).map_err(|error| format!("no session on {host}: {error}"))?;
        self.sessions.insert(request.session, session);
        Ok(what)
    }

    /// A job that runs, if the user may see it and nobody watches it: its process, and what it is.
    fn running(&mut self, user: &str, meant: &JobOnNode) -> Result<(Option<u32>, String), String> {
        // As they are now: what is cached may have ended.
        self.jobs = None;
        let visible = self.visible(user);
        let host = self.node.host.clone();
        let job = self.jobs().iter().find(|job| is_meant(job, meant) && visible.include(uids(job))).cloned();
        // Whether there is one that may not be seen is not told.
        let Some(job) = job else { return Err(format!("no such job of {user} on {host}")) };
        let what = job.ranks.first().map_or("", |rank| rank.command.as_str());
        if let Some(other) = self.sessions.values().find(|session| session.pid == Some(job.pid)) {
            return Err(format!(
                "{what} on {host} is watched already, in a session of {}: end that first, each would pay for the other",
                other.user
            ));
        }
        Ok((Some(job.pid), format!("{} ranks of {what} (process {})", job.ranks.len(), job.pid)))
    }

    /// What a session may be asked for here.
    fn allowed(&self, wishes: SessionWishes) -> Result<SessionWishes, String> {
        const MOST_LIBRARIES: usize = 64;
        const MOST_RING_BYTES: u32 = 64 << 20;
        let is_window = (1..=analyzer::options::MAX_CONTEXT_WINDOW).contains(&wishes.counting.context_window);
        if wishes.libraries.len() > MOST_LIBRARIES || wishes.ring_bytes > MOST_RING_BYTES || !is_window {
            return Err(format!(
                "at most {MOST_LIBRARIES} libraries and ring buffers of {} MiB can be asked for",
                MOST_RING_BYTES >> 20
            ));
        }
        match (self.settings.most_budget, wishes.budget) {
            (Some(most), wished) if wished.is_none_or(|wished| wished > most) => Err(format!(
                "the agent of {} allows a budget of {}% at most: give --budget {}%",
                self.node.host,
                most * 100.0,
                most * 100.0
            )),
            _ => Ok(wishes),
        }
    }

    /// Sessions that have ended; one that could not say so itself is spoken for.
    fn bury_the_dead(&mut self, tell: &mut dyn FnMut(&str)) {
        let ended = self.sessions.extract_if(.., |_, session| !matches!(session.child.try_wait(), Ok(None)));
        for (name, mut session) in ended {
            let status = session.child.wait();
            tell(&format!("a session of {} has ended", session.user));
            if !status.as_ref().is_ok_and(|status| status.success()) {
                let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
                let word = UpMessage::Failed(format!("the session ended by itself ({how})"));
                let subject = UserSubjects::of(&session.user).up(&name, &self.node.agent);
                let _ = self.bus.publish(&subject, None, obituary(&protocol::bytes(&word)));
            }
        }
    }

    /// Tells them, and waits for them.
    fn end_sessions(&mut self) {
        const PATIENCE: Duration = Duration::from_secs(10);
        for session in self.sessions.values_mut() {
            session.socket = None;
        }
        let until = Instant::now() + PATIENCE;
        while !self.sessions.is_empty() && Instant::now() < until {
            self.bury_the_dead(&mut |_| {});
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn start(order: &NodeSessionOrder, pid: Option<u32>) -> std::io::Result<RunningPart> {
    let (child, mut socket) = start_child(Path::new("/proc/self/exe"), COMMAND)?;
    let mut session = RunningPart { child, socket: None, user: order.user.clone(), pid };
    if let Err(error) = send(&mut socket, order) {
        let _ = session.child.kill();
        let _ = session.child.wait();
        return Err(error);
    }
    session.socket = Some(socket);
    Ok(session)
}

fn uids(job: &NodeJob) -> impl Iterator<Item = u32> {
    job.ranks.iter().map(|rank| rank.uid)
}

fn is_meant(job: &NodeJob, meant: &JobOnNode) -> bool {
    let is_rank = |rank: &crate::host::RankProcess| {
        (rank.pid, rank.start_ticks) == (meant.rank_pid, meant.rank_start_ticks)
    };
    job.pid == meant.pid && job.ranks.iter().any(is_rank)
}

/// Names of sessions become words of subjects.
fn is_session_name(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A user's name, from the word that stands for it.
fn named(word: &str) -> Option<String> {
    let text = super::bus::untoken(word)?;
    // Of a local account.
    (!text.is_empty() && text.len() <= 64 && !text.contains(char::is_control)).then_some(text)
}
