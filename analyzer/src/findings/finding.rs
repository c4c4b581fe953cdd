//! Findings and the report: the form that text, pages and alerts are made from.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::job::messages::LeakKind;
use crate::job::names::Kind;
use crate::job::process::Who;
use crate::tape::input::Frame;
use crate::tape::wire::FileId;

/// Whether a finding would hold without the losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It may be a matter of what was lost.
    Inconclusive,
    /// It holds for what was watched; to keep a budget not everything was.
    Sampled,
    /// It holds whatever was lost.
    Violated,
}

/// How sure it is that something is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Odd; often a rare but right way of doing things.
    Notice,
    /// Broken.
    Warning,
}

/// Something that is not like the rest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The same for the same finding in every run of the same binaries.
    pub id: String,
    /// Whether it would hold without the losses.
    pub verdict: Verdict,
    /// How sure it is that something is wrong.
    pub severity: Severity,
    /// The bug in one sentence.
    pub summary: String,
    /// Who is concerned.
    #[serde(with = "crate::findings::runs")]
    pub who: Vec<Who>,
    /// Where they run, of a job on several nodes.
    #[serde(default, with = "crate::findings::runs", skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<WhoOnNode>,
    /// Why.
    pub evidence: Evidence,
    /// What to do next.
    pub next_steps: Vec<String>,
}

impl Finding {
    /// Whether nothing but a score speaks for it: rarely used paths, which are right, look like that.
    pub fn is_score_alone(&self) -> bool {
        self.severity == Severity::Notice
            && matches!(self.evidence, Evidence::OddChain(_) | Evidence::OddRank(_))
    }

    /// Whether whoever watches should be told at once.
    pub fn is_urgent(&self) -> bool {
        self.severity == Severity::Warning
            || matches!(self.evidence, Evidence::Hang(_) | Evidence::CollectiveMismatch(_))
    }
}

/// A process, and its node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhoOnNode {
    /// The process.
    pub who: Who,
    /// Name of the node.
    pub node: String,
}

/// Why a finding is one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Evidence {
    /// A chain that is almost a frequent one.
    OddChain(Box<OddChain>),
    /// A rank with another mix of chains than its peers.
    OddRank(Box<OddRank>),
    /// Ranks that do not go on.
    Hang(Box<Hang>),
    /// Ranks made different collective calls on a communicator.
    CollectiveMismatch(Box<CollectiveMismatch>),
    /// Messages that nobody received, or requests that nobody came back for.
    #[serde(rename = "left_over")]
    Leak(Box<Leak>),
    /// A call that failed, and a program that went on.
    ErrorReturned(Box<ErrorReturned>),
}

/// A chain group that is almost a frequent one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OddChain {
    /// Harmonic mean of similarity and rareness.
    pub abnormality: f64,
    /// Share of what either says that both say.
    pub similarity: f64,
    /// How much rarer the odd chain is.
    pub rareness: f64,
    /// The odd one.
    pub odd: GroupView,
    /// The frequent one.
    pub frequent: GroupView,
    /// Operations that both have: where they begin in each, and how many.
    pub common: CommonView,
    /// What was found around the instances.
    pub context: ContextView,
    /// Other frequent chains that it is almost one of: their number of chains, and how abnormal it is.
    pub others: Vec<OtherView>,
    /// Instances with addresses.
    pub examples: Vec<ExampleView>,
}

/// A further frequent chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OtherView {
    /// Its operations, in short.
    pub ops: Vec<OpView>,
    /// Chains of it.
    pub chains: u64,
    /// Abnormality of the odd chain against it.
    pub abnormality: f64,
}

/// Where the common part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommonView {
    /// First common operation of the odd chain, from 0.
    pub odd_from: u8,
    /// First common operation of the frequent chain, from 0.
    pub frequent_from: u8,
    /// How many operations.
    pub ops: u8,
    /// Their uniqueness.
    pub uniqueness: u32,
}

/// What was found around the instances of an odd chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContextView {
    /// Instances where the missing part was found beside them.
    pub matched: u64,
    /// Of these, just before the chain.
    pub matched_before: u64,
    /// Of these, just after it.
    pub matched_after: u64,
    /// Instances whose surroundings are known.
    pub known: u64,
    /// The missing operation that would come before the odd chain.
    pub missing_before: Option<OpView>,
    /// The missing operation that would come after it.
    pub missing_after: Option<OpView>,
}

/// A chain group, for people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupView {
    /// The same for the same group in every run of the same binaries.
    pub id: String,
    /// Chains.
    pub chains: u64,
    /// Chains in the reference.
    pub reference_chains: u64,
    /// Sum over the operations.
    pub uniqueness: u32,
    /// Its operations, in order.
    pub ops: Vec<OpView>,
    /// Chains by where they begin: of 1,024 ranks or processes at most.
    #[serde(with = "crate::findings::runs")]
    pub by_who: Vec<WhoCount>,
    /// Others that such chains begin in.
    #[serde(default, skip_serializing_if = "is_none_left_out")]
    pub by_who_left_out: u64,
}

/// Most ranks of which counts are listed, or that a group is said to wait for.
pub(crate) const MOST_COUNTED: usize = 1 << 10;
/// Most ranks that one is said to wait for.
pub(crate) const MOST_WAITED_FOR: usize = 64;

pub(crate) fn is_none_left_out(count: &u64) -> bool {
    *count == 0
}

/// A count of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhoCount {
    /// The rank.
    pub who: Who,
    /// The count.
    pub count: u64,
}

/// An operation, for people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpView {
    /// How it moves data.
    pub kind: Kind,
    /// Where in code.
    pub place: Place,
    /// From where.
    pub source: BufferView,
    /// To where.
    pub destination: BufferView,
    /// Whether the data goes from one process to another.
    pub crosses: bool,
    /// Largest number of pieces seen (counted up to the largest uniqueness of a pack).
    pub segments: u32,
    /// What it counts.
    pub uniqueness: u32,
    /// Who ran it.
    #[serde(with = "crate::findings::runs")]
    pub who: Vec<Who>,
    /// The MPI calls it ran in.
    pub calls: Vec<CallView>,
}

/// An MPI call of the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallView {
    /// MPI function; empty: outside MPI, or not known.
    pub function: String,
    /// Where the program calls it.
    pub place: Place,
    /// How often.
    pub count: u64,
}

/// A buffer, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferView {
    /// What it is.
    pub what: BufferKind,
    /// Name of the segment or path of the file, if it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Where it was allocated, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated: Option<Place>,
}

/// Sorts of buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BufferKind {
    /// A heap block with a known allocation.
    Heap,
    /// On the heap, from before the allocations were watched.
    HeapBeforeAttach,
    /// A shared segment.
    Shared,
    /// Static data.
    Static,
    /// A stack.
    Stack,
    /// An anonymous mapping.
    Anonymous,
    /// In a process that is not watched.
    NotWatched,
    /// On its way through a TCP connection.
    TcpStream,
    /// On its way between two queue pairs of RDMA.
    QueuePair,
    /// Not known.
    Unknown,
}

/// A place in code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Program, library or system call; empty: not known.
    pub module: String,
    /// Its file in this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<FileId>,
    /// Offset in it.
    pub offset_bytes: u64,
    /// Functions there, the innermost first; empty: no symbols (yet).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<Frame>,
}

/// One instance of an odd chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExampleView {
    /// Whether the missing part was found beside it.
    pub context_match: bool,
    /// Its operations.
    pub ops: Vec<ExampleOp>,
    /// Operations of the same thread shortly before it whose data nobody read, the latest first.
    pub before: Vec<ExampleOp>,
}

/// One operation of an [`ExampleView`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExampleOp {
    /// Where in code.
    pub place: Place,
    /// CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// Who.
    pub who: Who,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Address in the process that holds the source.
    pub source: u64,
    /// Address in the process that holds the destination.
    pub destination: u64,
    /// What the destination is.
    pub destination_buffer: BufferView,
    /// Bytes.
    pub len_bytes: u64,
}

/// Ranks that do not go on, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hang {
    /// What happened.
    pub fault: Fault,
    /// Since when none of them has moved, CLOCK_MONOTONIC.
    pub since_ns: u64,
    /// Those at fault first. Of more than 64 only some: all of them are in `groups`.
    pub ranks: Vec<StuckRank>,
    /// Where there are more ranks, or the cause is not known: all of them, with those that do the same; at fault first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<HangGroup>,
    /// Where the cause is not known: what could not be found out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// Collective calls on the communicators that the ranks wait in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub collectives: Vec<CollectiveCounts>,
}

/// Ranks that do the same at the same place, on the same communicator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HangGroup {
    /// The ranks.
    #[serde(with = "crate::findings::runs")]
    pub ranks: Vec<Who>,
    /// They are (some of) the cause; else they only wait.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_fault: bool,
    /// What they do.
    #[serde(default, skip_serializing_if = "StuckState::is_in_call")]
    pub state: StuckState,
    /// The call that they are in, with the arguments that are the same for all of them.
    pub call: Option<StuckCall>,
    /// Where they are in the code, if it is not in a call, and the same place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// What their requests stand for.
    pub pending: Vec<String>,
    /// Ranks that they wait for, 1,024 at most.
    #[serde(default, with = "crate::findings::runs", skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<Who>,
    /// Others that they wait for.
    #[serde(default, skip_serializing_if = "is_none_left_out")]
    pub waits_for_left_out: u64,
}

impl Hang {
    /// All ranks at fault.
    pub fn who_at_fault(&self) -> Vec<Who> {
        self.who(true)
    }

    /// All ranks that only wait.
    pub fn who_waits(&self) -> Vec<Who> {
        self.who(false)
    }

    /// Whether all ranks are told of one by one.
    pub(crate) fn is_listed(&self) -> bool {
        self.groups.iter().map(|group| group.ranks.len()).sum::<usize>() <= self.ranks.len()
    }

    fn who(&self, at_fault: bool) -> Vec<Who> {
        if self.is_listed() {
            let ranks = self.ranks.iter().filter(|rank| rank.at_fault == at_fault);
            return ranks.map(|rank| rank.who).collect();
        }
        let groups = self.groups.iter().filter(|group| group.at_fault == at_fault);
        let mut who: Vec<Who> = groups.flat_map(|group| group.ranks.iter().copied()).collect();
        who.sort_unstable();
        who
    }

    /// Says anew who is at fault.
    pub(crate) fn set_at_fault(&mut self, wrong: &BTreeSet<Who>) {
        self.ranks.iter_mut().for_each(|rank| rank.at_fault = wrong.contains(&rank.who));
        self.ranks.sort_by_key(|rank| (!rank.at_fault, rank.who));
        let mut groups = Vec::new();
        for group in self.groups.drain(..) {
            let (at_fault, rest): (Vec<Who>, Vec<Who>) =
                group.ranks.iter().partition(|rank| wrong.contains(rank));
            let some = |ranks, at_fault| HangGroup { ranks, at_fault, ..group.clone() };
            groups.extend((!at_fault.is_empty()).then(|| some(at_fault, true)));
            groups.extend((!rest.is_empty()).then(|| some(rest, false)));
        }
        groups.sort_by(|a, b| (!a.at_fault, &a.ranks).cmp(&(!b.at_fault, &b.ranks)));
        self.groups = groups;
    }

    /// How many ranks it is about.
    pub(crate) fn size(&self) -> usize {
        self.groups.iter().map(|group| group.ranks.len()).sum::<usize>().max(self.ranks.len())
    }
}

impl StuckState {
    pub(crate) fn is_in_call(&self) -> bool {
        *self == Self::InCall
    }
}

/// How many collective calls ranks have made on a communicator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectiveCounts {
    /// The communicator.
    pub comm: String,
    /// Each member that was followed, with the one that it may be in.
    #[serde(with = "crate::findings::runs")]
    pub entered: Vec<WhoCount>,
    /// The same: those that are known to be complete.
    #[serde(default, with = "crate::findings::runs")]
    pub completed: Vec<WhoCount>,
    /// Members of which it is not known of so many whether they are complete.
    #[serde(default, with = "crate::findings::runs", skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<WhoCount>,
    /// Which one is the first that members differ in, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub differ_at: Option<u64>,
}

/// Ranks made different collective calls on a communicator, whether or not the library survived it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CollectiveMismatch {
    /// The communicator.
    pub comm: String,
    /// Which of the collective calls on it differs, from 1: the first.
    pub position: u64,
    /// As many ranks made another call: who is wrong cannot be told, and the rank with the lowest number is not named.
    pub is_tie: bool,
    /// When it was seen, CLOCK_MONOTONIC.
    pub first_ns: u64,
    /// What each rank called there; of more than 64 ranks, of some, those at fault first: all are in `groups`.
    pub ranks: Vec<MismatchedRank>,
    /// Of more ranks: all of them, with those that made the same call at the same place; at fault first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<MismatchedGroup>,
    /// The job hangs in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hang: Option<Hang>,
    /// The first rank that died did so in it: the library reported an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub death: Option<Hang>,
}

/// Ranks that made the same collective call at the same place, where ranks differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MismatchedGroup {
    /// The ranks.
    #[serde(with = "crate::findings::runs")]
    pub ranks: Vec<Who>,
    /// They are not with the most.
    pub at_fault: bool,
    /// Ranks whose calls match have the same.
    pub group: u64,
    /// Their call, with the arguments that must be the same everywhere.
    pub call: StuckCall,
}

/// A rank's collective call at the position where ranks differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MismatchedRank {
    /// The rank.
    pub who: Who,
    /// It is not with the most.
    pub at_fault: bool,
    /// Ranks whose calls match have the same.
    pub group: u64,
    /// Its call, with the arguments that must be the same everywhere.
    pub call: StuckCall,
}

impl Finding {
    /// The hang or death that it is about, if it is about one.
    pub fn hang(&self) -> Option<&Hang> {
        match &self.evidence {
            Evidence::Hang(hang) => Some(hang),
            Evidence::CollectiveMismatch(mismatch) => mismatch.hang.as_ref().or(mismatch.death.as_ref()),
            _ => None,
        }
    }

    /// Whether somebody is to be told of it when it is found. Of what a loss may have caused nobody is; that ranks do not
    /// move is certain, though why is not.
    pub(crate) fn is_told(&self) -> bool {
        let is_hang = matches!(&self.evidence, Evidence::Hang(hang) if hang.fault.has_no_cause());
        self.verdict != Verdict::Inconclusive || is_hang
    }
}

impl Fault {
    /// Nobody is at fault as far as it is known.
    pub(crate) fn has_no_cause(self) -> bool {
        matches!(self, Self::UnknownHang | Self::NotAnalysed)
    }
}

/// Why ranks do not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// A rank died, or ended without MPI_Finalize.
    Crash,
    /// Ranks of one communicator are in calls that do not go together.
    MismatchedCollective,
    /// A rank waits for a message of one that ended or is about to.
    MissingMessage,
    /// A cycle of ranks that wait for each other.
    Deadlock,
    /// A rank went to MPI_Finalize without completing a collective call that others wait for.
    UncompletedRequest,
    /// A message is longer than the buffer for it.
    Truncated,
    /// A call that MPI forbids.
    InvalidCall,
    /// Others wait for a rank that does nothing, outside of MPI.
    Outside,
    /// Others wait for a rank that a signal or a debugger stopped.
    Stopped,
    /// All ranks are inside MPI and none of them moves; why is not known.
    UnknownHang,
    /// Ranks stand still, and what they wait for is too much to be followed.
    NotAnalysed,
}

/// A rank that does not go on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StuckRank {
    /// The rank.
    pub who: Who,
    /// Its process.
    pub pid: u32,
    /// It is (one of) the cause; else it only waits.
    pub at_fault: bool,
    /// What it does.
    pub state: StuckState,
    /// How it died: as wait(2) gives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u32>,
    /// The MPI call that it is in, or was in.
    pub call: Option<StuckCall>,
    /// What was wrong with the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<CallError>,
    /// Whose message, or data, was too long, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<Who>,
    /// Ranks that it waits for: those that are not where they would have to be; 64 at most.
    #[serde(with = "crate::findings::runs")]
    pub waits_for: Vec<Who>,
    /// Others that it waits for.
    #[serde(default, skip_serializing_if = "is_none_left_out")]
    pub waits_for_left_out: u64,
    /// Where it is in the code, the innermost place first.
    pub stack: Vec<Place>,
}

/// What a rank does that does not go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StuckState {
    /// It is in an MPI call.
    #[default]
    InCall,
    /// It does nothing, outside of MPI.
    Outside,
    /// A signal or a debugger stopped it.
    Stopped,
    /// It ended well.
    Ended,
    /// It died.
    Died,
}

/// An MPI call that does not return, or that failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StuckCall {
    /// Name as in the standard.
    pub function: String,
    /// The arguments that tell what it waits for: name and value, `?` where it is not known.
    pub arguments: Vec<(String, String)>,
    /// Where it was called.
    pub place: Place,
}

/// What one call of the program left open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leak {
    /// Messages or requests.
    pub what: LeakKind,
    /// The call that sent or began it.
    pub function: String,
    /// Where it was called.
    pub place: Place,
    /// How many, of all ranks.
    pub count: u64,
    /// Who left how many.
    pub ranks: Vec<LeakingRank>,
}

/// What one rank left open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeakingRank {
    /// The rank.
    pub who: Who,
    /// How many.
    pub count: u64,
    /// Arguments of the call that were the same for all of them: name and value.
    pub arguments: Vec<(String, String)>,
    /// Ranks that they were sent to, if they were sent.
    #[serde(with = "crate::findings::runs")]
    pub peers: Vec<Who>,
}

/// What was wrong with a call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallError {
    /// An error of this class, by its name in the standard.
    Class(String),
    /// A code of the program's own.
    Code(i32),
    /// It was made before MPI_Init or after MPI_Finalize.
    OutsideOfMpi,
    /// It was made after MPI_Finalize.
    AfterFinalize,
    /// It was MPI_Abort, with this code.
    Abort(i32),
}

/// A call that failed, and a program that went on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorReturned {
    /// The call, with the arguments of the first time.
    pub call: StuckCall,
    /// What was wrong with it.
    pub error: CallError,
    /// How often it failed so.
    pub count: u64,
    /// When it did for the first time, CLOCK_MONOTONIC.
    pub first_ns: u64,
}

/// What of chains is compared between ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparedBy {
    /// Where they begin, and for which MPI call.
    Beginnings,
    /// All their operations and buffers.
    WholeChains,
}

/// A rank with another mix of chains than its peers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OddRank {
    /// The rank.
    pub who: Who,
    /// Distance to its k-th nearest neighbour, 0 to 2.
    pub distance: f64,
    /// k.
    pub nearest: u64,
    /// Average over the ranks compared.
    pub average: f64,
    /// Over the last 1/part of the run.
    pub part: u64,
    /// That is from here …
    pub from_ns: u64,
    /// … to here, CLOCK_MONOTONIC.
    pub to_ns: u64,
    /// Chains of the rank there.
    pub chains: u64,
    /// What of the chains was compared.
    pub compared_by: ComparedBy,
    /// What it differs by most; of chains that begin alike, the most frequent one.
    pub group: GroupView,
    /// Share of such chains in the rank's chains.
    pub share: f64,
    /// Average share among the peers.
    pub peers_share: f64,
    /// Peers that have such chains at all.
    pub peers_running: u64,
    /// The peers.
    #[serde(with = "crate::findings::runs")]
    pub peers: Vec<Who>,
}

/// What changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Alert {
    /// Something new, or something that has become a warning.
    Raised(Box<Finding>),
    /// Something that does not hold any more.
    Withdrawn {
        /// Of the finding.
        id: String,
        /// Why not.
        reason: String,
    },
}
