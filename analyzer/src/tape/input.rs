//! Everything that is not deterministic, in the order in which the pipeline sees it.
//! A live session feeds these to the pipeline and to the tape; a tape gives them back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::answers::{RankAnswers, RankMessages, ReplayableRank};
use super::costs::{ProbeCosts, UnrecordedHits};
use super::digest::Digest;
use super::plan::{MpiKind, Plan, Probe, ProbeClass};
use super::wire::{FileId, RawRecord};

/// One step of a session.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The first one.
    Start(Box<Start>),
    /// What is known of a process: when it is first watched, and again after exec.
    Process(Box<ProcessFacts>),
    /// Probes that are attached from here on (more may follow when libraries are loaded).
    Plan(Box<Plan>),
    /// One record of a ring, in the sequencer's order.
    Record(RawRecord),
    /// The same, but it came after later records had been given out (see `sequencer`).
    LateRecord(RawRecord),
    /// Records that did not fit into a ring.
    Loss(Loss),
    /// What is watched from here on, when that changes to keep a budget.
    Coverage(Box<Coverage>),
    /// What threads were doing, looked at because their processes had been quiet.
    Threads(Box<Threads>),
    /// The clock, a few times a second.
    Tick {
        /// CLOCK_MONOTONIC.
        time_ns: u64,
    },
    /// What the clocks of a node show beside each other, every few seconds.
    Clock(ClockReading),
    /// What the agent of a node has counted, in place of the records.
    Digest(Box<Digest>),
    /// A rank whose calls' answers are recorded, so that it can be replayed.
    ReplayableRank(Box<ReplayableRank>),
    /// Some of these answers.
    Answers(Box<RankAnswers>),
    /// Some of the messages of such a rank, if they are recorded too.
    Messages(Box<RankMessages>),
    /// A part of all that a rank's calls got, so that it can run alone.
    Contents(Box<RankAnswers>),
    /// What hits of probes cost on a node. Not part of any decision: for times without them.
    ProbeCosts(Box<ProbeCosts>),
    /// Hits that left no record; the same.
    Unrecorded(UnrecordedHits),
    /// Names of code places. Not part of any decision: only for people's eyes.
    Symbols(Vec<Symbol>),
    /// The last one of a session that ended well.
    End(End),
}

impl Input {
    /// When it was, CLOCK_MONOTONIC, if it says so itself.
    pub fn time_ns(&self) -> Option<u64> {
        match self {
            Self::Record(record) => Some(record.time_ns()),
            Self::Coverage(coverage) => Some(coverage.time_ns),
            Self::Threads(threads) => Some(threads.time_ns),
            Self::Tick { time_ns } => Some(*time_ns),
            Self::Start(start) => Some(start.time_ns),
            Self::End(end) => Some(end.time_ns),
            Self::Clock(reading) => Some(reading.time_ns),
            Self::Digest(digest) => Some(digest.time_ns),
            Self::ProbeCosts(costs) => Some(costs.time_ns),
            Self::Unrecorded(hits) => Some(hits.to_ns),
            // What was lost may have been anything up to then.
            Self::Loss(loss) => Some(loss.to_ns).filter(|to_ns| *to_ns < u64::MAX),
            Self::LateRecord(_) | Self::Process(_) | Self::Plan(_) | Self::Symbols(_) => None,
            Self::ReplayableRank(_) | Self::Answers(_) | Self::Messages(_) | Self::Contents(_) => None,
        }
    }
}

/// How a session began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// Version of dmscope that recorded.
    pub dmscope_version: String,
    /// Node name.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// CLOCK_MONOTONIC at the start.
    pub time_ns: u64,
    /// Wall clock at the start, seconds since 1970.
    pub wall_clock_s: u64,
    /// What that leaves out, ns.
    #[serde(default)]
    pub wall_clock_rest_ns: u32,
    /// How far the wall clock may be off, beside those of the other nodes of a job on several; none: nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_clock_error_ns: Option<u64>,
    /// The same of each of [`Start::nodes`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_clock_errors_ns: Vec<Option<u64>>,
    /// Node names of all nodes, where this is the beginning of several sessions, one on each of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Agents have counted what happened: most records are in their digests only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sums: bool,
    /// The job watched, for people: launcher's command line.
    pub job: String,
    /// Whether the job was started under dmscope (true) or attached to (false).
    pub launched: bool,
    /// Smaller heap blocks count only if the program or a messaging library asked for them. The
    /// kernel part may have recorded more while it did not know yet whose code is where.
    #[serde(default)]
    pub alloc_min_bytes: u64,
}

impl Start {
    /// Wall clock at the start, ns since 1970.
    pub fn wall_clock_ns(&self) -> u64 {
        self.wall_clock_s.saturating_mul(1_000_000_000).saturating_add(self.wall_clock_rest_ns.into())
    }
}

/// Two clocks of a node at one moment. That of the records never jumps, and goes a little faster or slower than others; the
/// wall clock is what nodes have in common, and may be set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockReading {
    /// The node, among those of a job on several.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub node: u32,
    /// CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// Wall clock, ns since 1970.
    pub wall_clock_ns: u64,
    /// How far the wall clock may be off; none: nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_ns: Option<u64>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// What `/proc` says of one process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessFacts {
    /// In the initial pid namespace.
    pub pid: u32,
    /// As the process itself and its siblings see it (same as `pid` outside containers).
    pub namespace_pid: u32,
    /// Inode of its pid namespace: `namespace_pid` is unique within it.
    pub pid_namespace: u64,
    /// Rank in MPI_COMM_WORLD, from the environment.
    pub rank: Option<u32>,
    /// Size of MPI_COMM_WORLD, from the environment.
    pub size: Option<u32>,
    /// Path of the program.
    pub exe: String,
    /// Mappings, in order of address.
    pub mappings: Vec<Mapping>,
    /// CLOCK_MONOTONIC when they were read: older records are from before.
    pub time_ns: u64,
}

/// Values that MPI libraries give to what the standard only names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MpiFacts {
    /// The kind of library.
    pub kind: MpiKind,
    /// The handle of MPI_COMM_WORLD in this process.
    pub comm_world: Option<u64>,
}

/// One line of `/proc/PID/maps`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// Where `start` is in the file.
    pub offset_bytes: u64,
    /// The file; inode 0: none.
    pub file: FileId,
    /// Mapped MAP_SHARED: other processes see what is written here.
    pub shared: bool,
    /// Executable.
    pub exec: bool,
    /// Name as in `/proc/PID/maps` (path, `[heap]`, `[stack]`, empty).
    pub name: String,
}

/// Records of one process that were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// The process.
    pub pid: u32,
    /// They were lost after this, CLOCK_MONOTONIC …
    pub from_ns: u64,
    /// … and before this.
    pub to_ns: u64,
    /// Lost records of movements; [`Loss::UNKNOWN`]: nobody knows how many.
    pub movements: u64,
    /// Lost records of MPI calls and of process life, and those that may have been: what the process has called is not known from here
    /// on. [`Loss::UNKNOWN`]: nobody knows how many.
    pub calls: u64,
    /// Lost records of allocations, mappings and process life: what the process's memory
    /// looks like is not known from here on.
    pub state: u64,
}

impl Loss {
    /// More than can be counted.
    pub const UNKNOWN: u64 = u64::MAX;

    /// All records that were lost.
    pub fn records(&self) -> u64 {
        self.movements.saturating_add(self.calls).saturating_add(self.state)
    }

    /// Whether anything was lost that the state of MPI follows from. Movements, and what memory looks like, say nothing of it.
    pub fn hides_calls(&self) -> bool {
        self.calls > 0
    }
}

/// What threads were doing at a moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Threads {
    /// CLOCK_MONOTONIC before the first was looked at.
    pub time_ns: u64,
    /// All threads of the processes that were looked at.
    pub threads: Vec<ThreadFacts>,
}

/// One thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadFacts {
    /// Its process.
    pub pid: u32,
    /// Itself; the first thread has the number of the process.
    pub tid: u32,
    /// Whether it runs.
    pub state: ThreadState,
    /// Processor time since it began.
    pub ran_ns: u64,
    /// The outermost MPI call that it is in.
    pub call: Option<CallInProgress>,
    /// Where it is in the code, the innermost place first; where calls return to, but for the first.
    pub frames: Vec<CodePlace>,
    /// Why there are no more frames, unless the last one is where the thread began.
    pub cut: Option<String>,
}

/// Whether a thread runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreadState {
    /// It runs or could.
    #[default]
    Running,
    /// It sleeps in the kernel.
    Sleeping,
    /// A signal stopped it.
    Stopped,
    /// A debugger stopped it.
    Traced,
    /// It is about to be gone.
    Ending,
}

/// A place in a file's code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CodePlace {
    /// The file.
    pub file: FileId,
    /// Offset in it.
    pub offset_bytes: u64,
}

/// An MPI call that has not returned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallInProgress {
    /// Name as in the standard.
    pub function: String,
    /// How the library calls things, if that is known.
    pub mpi: Option<MpiFacts>,
    /// Where it returns to.
    pub site: Option<CodePlace>,
    /// Address where its return address lies: another one, another call.
    pub return_slot: u64,
    /// Its arguments, as far as they could be recovered; of integers only the lower 32 bits count. Where the window that
    /// MPI_Win_free gives back is passed by its address, the handle that lies there.
    pub arguments: Vec<Option<u64>>,
    /// What it waits for, where the arguments do not say it themselves: for each request.
    #[serde(default)]
    pub requests: Vec<PendingRequest>,
    /// Communicators, at least those that are named, as far as the library's memory tells.
    #[serde(default)]
    pub communicators: Vec<CommunicatorFacts>,
}

/// A communicator, a window, or a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommunicatorFacts {
    /// Its handle in this process.
    pub handle: u64,
    /// What the library tells its messages apart by: the same in all its members; communicators
    /// without a common member may share it. [`CommunicatorFacts::WINDOW`]: a window, it is not known which;
    /// [`CommunicatorFacts::GROUP`]: a group.
    pub context_id: u32,
    /// Its members, by their ranks in it, as ranks of MPI_COMM_WORLD.
    pub members: Vec<u32>,
}

impl CommunicatorFacts {
    /// No communicator's `context_id`.
    pub const WINDOW: u32 = u32::MAX;
    /// The same: of a group.
    pub const GROUP: u32 = u32::MAX - 1;
}

/// A request that a call waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingRequest {
    /// Its handle.
    pub handle: u64,
    /// Whether it is done, if the library's memory tells it.
    #[serde(default)]
    pub complete: Option<bool>,
    /// The message, if the library's memory tells it.
    pub message: Option<PendingMessage>,
    /// What started it, if that was recorded.
    #[serde(default)]
    pub started: Option<StartedCall>,
}

/// A call that started something which is not over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartedCall {
    /// Name as in the standard.
    pub function: String,
    /// Its first arguments.
    pub arguments: Vec<u64>,
}

/// A message that a request stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingMessage {
    /// Sent, not received.
    pub sends: bool,
    /// Rank of the peer in the communicator, as the library has it.
    pub peer: i32,
    /// Its tag.
    pub tag: i32,
    /// Handle of the communicator.
    pub comm: u64,
}

/// How much is watched, from a time on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// CLOCK_MONOTONIC. At a pause: before the first probe is taken out; else when all are in place.
    pub time_ns: u64,
    /// Movements are not watched: what is recorded of them is a part only, and tells nothing.
    pub paused: bool,
    /// In a pause MPI calls are watched as ever. Older tapes do not tell: of theirs a part only was watched.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_calls: bool,
    /// Probes (by id) that are out until told otherwise, pause or not.
    pub off: Vec<u32>,
}

impl Coverage {
    /// Whether MPI calls may be missed. `is_call`: whether a probe, by its id, watches them.
    pub fn hides_calls(&self, is_call: impl Fn(u32) -> bool) -> bool {
        self.paused && !self.keeps_calls || self.off.iter().any(|id| is_call(*id))
    }
}

/// The name of a place in code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Symbol {
    /// The file that holds the code.
    pub file: FileId,
    /// Offset in that file.
    pub offset_bytes: u64,
    /// Function, demangled; innermost inlined function first.
    pub frames: Vec<Frame>,
}

/// One function of a [`Symbol`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// Function name.
    pub function: String,
    /// Source file, if there is debug information.
    pub source: Option<String>,
    /// Line in it.
    pub line: Option<u32>,
}

/// How a session ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// For people: job ended, interrupted, duration over, …
    pub reason: String,
    /// What was tried and did not attach.
    pub failed_probes: Vec<Probe>,
    /// What watching cost processes outside the job; `None`: nobody counted.
    #[serde(default)]
    pub strangers: Option<Box<StrangerCost>>,
}

/// What processes that are not watched paid for probes in files that they share with the job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StrangerCost {
    /// How many of them ran code of one probed file when its probes were attached; of the file that most of them ran.
    pub processes: u64,
    /// Those of them that are other users' than the job's.
    pub of_other_users: u64,
    /// For how long hits were counted.
    pub counted_ns: u64,
    /// Probes that they ran into, by class; classes without a hit are left out.
    pub hits: BTreeMap<ProbeClass, u64>,
    /// About how much of their time that took.
    pub cost_ns: u64,
}

impl StrangerCost {
    /// All hits.
    pub fn all_hits(&self) -> u64 {
        self.hits.values().fold(0, |all: u64, hits| all.saturating_add(*hits))
    }

    /// What it cost, as a part of one processor's time.
    pub fn share(&self) -> f64 {
        self.cost_ns as f64 / self.counted_ns.max(1) as f64
    }
}
