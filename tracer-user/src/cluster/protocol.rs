//! What agents and coordinators say to each other, and where.
//!
//! A request's subject has the name of the user who asks, which the bus answers for: it lets nobody publish under another
//! user's name. So an agent knows whom it answers, and a user's sessions are heard by that user alone.

use std::time::Duration;

use analyzer::input::Symbol;
use analyzer::wire::FileId;
use serde::{Deserialize, Serialize};

use super::bus::token;
use crate::host::NodeJob;
use crate::plan::attach::OnlyJob;
use crate::plan::{Engine, Returns};
use crate::session::{AttachSummary, SessionStatus};

/// Changes when one side would not understand the other any more.
pub const PROTOCOL: u32 = 6;

/// Most bytes of a request or an answer.
pub const MOST_REQUEST_BYTES: usize = 4 << 20;

/// Subjects of one user's requests and sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserSubjects {
    user: String,
}

impl UserSubjects {
    /// Of a user.
    pub fn of(user: &str) -> Self {
        Self { user: token(user) }
    }

    /// Where all agents are asked for jobs.
    pub fn find(&self) -> String {
        format!("dmscope.find.{}", self.user)
    }

    /// Where one agent is asked.
    pub fn agent(&self, node: &str) -> String {
        format!("dmscope.agent.{}.{}", self.user, token(node))
    }

    /// Where a node's part of a session goes; `*` for the node: that of all.
    pub fn up(&self, session: &str, node: &str) -> String {
        format!("dmscope.up.{}.{session}.{}", self.user, word_or_any(node))
    }

    /// Where one node hears its coordinator; `all`: where all of them do.
    pub fn down(&self, session: &str, node: &str) -> String {
        format!("dmscope.down.{}.{session}.{}", self.user, token(node))
    }

    /// Where a node hears the others: by its number, or `all`.
    pub fn peer(&self, session: &str, node: &str) -> String {
        format!("dmscope.peer.{}.{session}.{node}", self.user)
    }

    /// Where an answer to this user goes.
    pub fn inbox(&self, word: &str) -> String {
        format!("_INBOX.dmscope.{}.{word}", self.user)
    }
}

fn word_or_any(node: &str) -> String {
    if node == "*" { node.to_owned() } else { token(node) }
}

/// Where agents are asked for jobs, by whomever.
pub const ANY_FIND: &str = "dmscope.find.*";

/// Where one agent is asked, by whomever.
pub fn any_agent(node: &str) -> String {
    format!("dmscope.agent.*.{}", token(node))
}

/// The user's name as the subject of a request has it: as a word.
pub fn user_of(subject: &str) -> Option<&str> {
    let mut words = subject.split('.');
    (words.next() == Some("dmscope")).then_some(())?;
    matches!(words.next(), Some("find" | "agent")).then_some(())?;
    words.next()
}

/// A node, as its agent says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeIdentity {
    /// Its name.
    pub host: String,
    /// What the agent is called on the bus: another one each time it starts.
    pub agent: String,
    /// The boot of its kernel.
    pub boot: String,
    /// The network namespace whose processes the agent takes care of alone; none: of all.
    pub network_namespace: Option<u64>,
}

impl NodeIdentity {
    /// Whether both are agents of the same node.
    pub fn is_same_node(&self, other: &Self) -> bool {
        (&self.boot, self.network_namespace) == (&other.boot, other.network_namespace)
    }
}

/// To all agents: which jobs are there?
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindJobs {
    /// Of whoever asks.
    pub protocol: u32,
}

/// An agent's answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobsOfNode {
    /// Of the agent.
    pub protocol: u32,
    /// Of the agent's dmscope.
    pub version: String,
    /// Who answers.
    pub node: NodeIdentity,
    /// Jobs that the user may see.
    pub jobs: Vec<NodeJob>,
    /// There are so many others.
    pub hidden: usize,
}

/// To one agent: watch your part of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenSession {
    /// Of whoever asks.
    pub protocol: u32,
    /// What the session is called on the bus.
    pub session: String,
    /// The node's number among all of the session.
    pub number: u32,
    /// The job.
    pub job: WantedJob,
    /// How it is watched.
    pub wishes: SessionWishes,
}

/// The job that a session is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WantedJob {
    /// One that runs, by what the agent called it when it was asked.
    Running(JobOnNode),
    /// One that is about to be started by this command; [`DownMessage::Job`] says what it is called.
    Expected(Vec<String>),
}

/// Which of a node's jobs is meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobOnNode {
    /// Its launcher on the node, or the rank without one.
    pub pid: u32,
    /// One of its ranks, and when that started: so that it is no other job.
    pub rank_pid: u32,
    /// In clock ticks since the machine did.
    pub rank_start_ticks: u64,
}

/// What a session is asked for on each node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionWishes {
    /// Largest part of the job's time that watching may take; none: whatever it takes.
    pub budget: Option<f64>,
    /// What is recorded of calls when they return.
    pub returns: Returns,
    /// Libraries whose copies are watched as well.
    pub libraries: Vec<String>,
    /// Neither copies nor heap blocks are watched.
    pub calls_only: bool,
    /// Who records copies and calls.
    pub engine: Engine,
    /// Whether other processes are kept free of probes.
    pub only_job: OnlyJob,
    /// Size of a ring.
    pub ring_bytes: u32,
    /// Smaller heap blocks are not followed.
    pub alloc_min_bytes: u64,
    /// Operations of other threads that are compared on each side of a chain, and what else decides on what is counted.
    pub counting: CountingWishes,
    /// All that is recorded is sent, and nothing counted on the node: a page shows single calls.
    pub whole: bool,
    /// For how long a node that is not heard of may still come back.
    pub patience_ms: u64,
}

impl SessionWishes {
    /// The coordinator gives up a node that was not heard of for so long: by then it has no session any more.
    pub fn lost_after(&self) -> Duration {
        Duration::from_millis(self.patience_ms)
    }

    /// A node's session ends where the coordinator was not heard of for so long.
    pub fn ends_after(&self) -> Duration {
        self.lost_after() * 2 / 3
    }

    /// The coordinator does not wait any longer for a node that was given up, if it is the last one.
    pub fn given_up_after(&self) -> Duration {
        self.lost_after() / 2
    }
}

/// Thresholds that nodes count by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountingWishes {
    /// Operations of the same thread that are compared on each side of a chain.
    pub context_window: usize,
    /// Operations after which a written buffer is forgotten.
    pub max_age_ops: u64,
    /// Most that a pack or unpack weighs.
    pub pack_uniqueness_max: u32,
}

/// An agent's answer to [`OpenSession`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OpenAnswer {
    /// The session begins.
    Opened,
    /// It does not: why.
    Refused(String),
}

/// A coordinator's word to the nodes of its session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DownMessage {
    /// It is still there.
    Alive {
        /// So many nodes take part: with many each tells less often what it counts.
        nodes: u32,
    },
    /// Detach and send what is left; names are still answered.
    Stop,
    /// Nothing more is needed: end.
    Leave,
    /// The job that was expected has this name.
    Job(String),
    /// The node with this number has no session any more.
    Gone(u32),
    /// A round begins: all nodes have [confirmed](UpMessage::Confirmed) the one before it. Told again each second until it
    /// is over.
    Round(u64),
    /// What are these code places (file and offset in it) called? Answered with [`CodeNames`], where the message says.
    Name(Vec<(FileId, u64)>),
    /// What time is it?
    Ping {
        /// The coordinator's clock, CLOCK_MONOTONIC.
        sent_ns: u64,
    },
}

/// A node's word to the coordinator, beside its inputs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpMessage {
    /// On which CPUs the analysis runs there.
    Placed(Vec<u32>),
    /// Everything is ready for a job that is expected.
    Ready,
    /// The probes are attached.
    Attached(AttachSummary),
    /// Something that people should know.
    Notice(String),
    /// How it goes.
    Status(SessionStatus),
    /// The answer to a ping.
    Pong {
        /// Of the ping.
        sent_ns: u64,
        /// The node's clock, CLOCK_MONOTONIC.
        node_ns: u64,
        /// For how long the ping waited at the node.
        held_ns: u64,
    },
    /// All that had happened when this round was heard of was told in letters.
    Confirmed {
        /// Its number.
        round: u64,
    },
    /// There is no session (any more): why.
    Failed(String),
    /// The session is over, and all of it was sent; names are answered until [`DownMessage::Leave`].
    Ended {
        /// Its ranks have ended, or it was asked to end.
        is_job_over: bool,
    },
}

/// The answer to [`DownMessage::Name`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CodeNames {
    /// Those that there are.
    pub symbols: Vec<Symbol>,
}

/// Reads a request or an answer.
///
/// # Errors
/// It is none of this version: what is wrong with it.
pub fn parse<'a, T: Deserialize<'a>>(payload: &'a [u8]) -> Result<T, String> {
    if payload.len() > MOST_REQUEST_BYTES {
        return Err(format!("a message of {} bytes is too long", payload.len()));
    }
    serde_json::from_slice(payload).map_err(|error| format!("a message that is not understood: {error}"))
}

/// Writes a request or an answer.
pub fn bytes(message: &impl Serialize) -> Vec<u8> {
    // Maps have strings as keys, and numbers are finite: there is nothing that JSON cannot say.
    serde_json::to_vec(message).unwrap_or_default()
}

/// What is wrong with the other side's version, if anything.
pub fn version_trouble(who: &str, theirs: u32, version: &str) -> Option<String> {
    (theirs != PROTOCOL).then(|| {
        format!(
            "{who} speaks version {theirs} of the protocol (dmscope {version}), and this dmscope ({}) version {PROTOCOL}: \
             use the same dmscope on all nodes",
            env!("CARGO_PKG_VERSION")
        )
    })
}
