//! Finds the nodes of a job and opens its parts there: at first, when ranks appear on further nodes, and again where an agent
//! has come back.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::cluster::bus::{Bus, Inbox};
use crate::cluster::jobs::{ClusterJob, JobPart, jobs_of};
use crate::cluster::protocol::{
    self, FindJobs, JobsOfNode, NodeIdentity, OpenAnswer, OpenSession, PROTOCOL, SessionWishes, UserSubjects,
    WantedJob, version_trouble,
};
use crate::host::unique_word::unique_word;

/// How often agents are asked while a node that took part does not …
const SEARCH_PERIOD: Duration = Duration::from_secs(2);
/// … and, while only ranks are missing that no agent has told of, less and less often up to this: all agents answer.
const MOST_SEARCH_PERIOD: Duration = Duration::from_secs(64);
/// An agent that has not answered for so long will not, nor for half of what nodes have to come back, if that is longer.
const LEAST_OPEN_TIMEOUT: Duration = Duration::from_secs(15);

/// A part that an agent was asked for.
struct AskedPart {
    number: usize,
    node: NodeIdentity,
    at: Instant,
}

/// What has come of it.
#[derive(Debug, PartialEq)]
pub enum Recruited {
    /// Ranks of a job are on a node: that part of it.
    Found(Box<ClusterJob>),
    /// It takes part.
    Opened(NodeIdentity),
    /// It does not: why.
    Refused(NodeIdentity, String),
}

/// See the [module](self).
pub struct Recruiter {
    bus: Arc<dyn Bus>,
    subjects: UserSubjects,
    session: String,
    wishes: SessionWishes,
    reply: String,
    answers: Inbox,
    asked: Vec<AskedPart>,
    next_number: usize,
    searched: Instant,
    /// Until the next search, if nobody is missed.
    period: Duration,
    told: BTreeSet<String>,
}

impl Recruiter {
    /// For a session.
    ///
    /// # Errors
    /// No bus.
    pub fn new(
        bus: Arc<dyn Bus>,
        subjects: UserSubjects,
        session: &str,
        wishes: SessionWishes,
    ) -> Result<Self> {
        let reply = subjects.inbox(&unique_word().context("the kernel has no random bits")?);
        let answers = bus.subscribe(&format!("{reply}.*"))?;
        Ok(Self {
            bus,
            subjects,
            session: session.to_owned(),
            wishes,
            reply,
            answers,
            asked: Vec::new(),
            next_number: 0,
            searched: Instant::now(),
            period: SEARCH_PERIOD,
            told: BTreeSet::new(),
        })
    }

    /// Asks the agent of a part to watch it as the node with a number, unless it was asked already.
    pub fn open(&mut self, part: &JobPart, number: usize) -> bool {
        let job = part.on_node().map(WantedJob::Running);
        job.is_some_and(|job| self.ask(&part.node, number, job))
    }

    /// Asks an agent to wait for a job that a command is about to start.
    pub fn expect(&mut self, node: &NodeIdentity, number: usize, command: &[String]) -> bool {
        self.ask(node, number, WantedJob::Expected(command.to_vec()))
    }

    fn ask(&mut self, node: &NodeIdentity, number: usize, job: WantedJob) -> bool {
        if self.asked.iter().any(|asked| asked.node.is_same_node(node)) {
            return false;
        }
        let request = OpenSession {
            protocol: PROTOCOL,
            session: self.session.clone(),
            number: number as u32,
            job,
            wishes: self.wishes.clone(),
        };
        let number = self.next_number;
        self.next_number += 1;
        self.period = SEARCH_PERIOD;
        self.asked.push(AskedPart { number, node: node.clone(), at: Instant::now() });
        let subject = self.subjects.agent(&node.agent);
        // One that is not sent gets no answer in time.
        let _ =
            self.bus.publish(&subject, Some(&format!("{}.{number}", self.reply)), protocol::bytes(&request));
        true
    }

    /// Asks all agents, now and then, where else there are ranks of the job. `is_missed`: a node that took part does not.
    pub fn search(&mut self, now: Instant, is_missed: bool) {
        let period = if is_missed { SEARCH_PERIOD } else { self.period };
        if now.duration_since(self.searched) >= period {
            self.searched = now;
            self.period = (2 * self.period).min(MOST_SEARCH_PERIOD);
            let reply = format!("{}.find", self.reply);
            let question = protocol::bytes(&FindJobs { protocol: PROTOCOL });
            let _ = self.bus.publish(&self.subjects.find(), Some(&reply), question);
        }
    }

    /// Takes what agents have answered.
    pub fn take(&mut self, now: Instant) -> Vec<Recruited> {
        let mut recruited = Vec::new();
        while let Some(message) = self.answers.try_next() {
            // An agent may be gone for a moment only.
            if message.is_unheard {
                continue;
            }
            let word = message.subject.rsplit('.').next().unwrap_or_default();
            if word == "find" {
                Self::take_jobs(&message.payload, &mut recruited);
            } else if let Some(at) = self.asked.iter().position(|asked| asked.number.to_string() == word) {
                let node = self.asked.swap_remove(at).node;
                recruited.push(match protocol::parse::<OpenAnswer>(&message.payload) {
                    Ok(OpenAnswer::Opened) => Recruited::Opened(node),
                    Ok(OpenAnswer::Refused(why)) | Err(why) => Recruited::Refused(node, why),
                });
            }
        }
        let timeout = LEAST_OPEN_TIMEOUT.max(self.wishes.lost_after() / 2);
        let late = self.asked.extract_if(.., |asked| now.duration_since(asked.at) > timeout);
        recruited
            .extend(late.map(|asked| Recruited::Refused(asked.node, "its agent does not answer".into())));
        // The same again and again is told once.
        recruited.retain(|one| match one {
            Recruited::Found(..) | Recruited::Opened(_) => true,
            Recruited::Refused(node, why) => self.told.insert(format!("{}: {why}", node.host)),
        });
        recruited
    }

    fn take_jobs(payload: &[u8], recruited: &mut Vec<Recruited>) {
        let Ok(answer) = protocol::parse::<JobsOfNode>(payload) else { return };
        let who = format!("the agent of {}", answer.node.host);
        if let Some(trouble) = version_trouble(&who, answer.protocol, &answer.version) {
            return recruited.push(Recruited::Refused(answer.node, trouble));
        }
        recruited.extend(jobs_of(&[answer]).into_iter().map(|job| Recruited::Found(Box::new(job))));
    }

    /// Whether an agent has been asked and has not answered.
    pub fn is_waiting(&self) -> bool {
        !self.asked.is_empty()
    }
}
