//! Findings and the report: the form that text, pages and alerts are made from.

mod call;
mod chain;
mod hang;
mod place;

use serde::{Deserialize, Serialize};

use crate::job::process::Who;

pub use call::{
    AccessConflict, BufferAccess, BufferConflict, BufferUser, BufferedCall, BufferedWait, CollectiveMismatch,
    DatatypeMismatch, ErrorReturned, HeapFault, HeapMisuse, Leak, LeakingRank, MessagesBetween,
    MismatchedGroup, MismatchedRank, OutsideWindow, OverlappingBuffers, PotentialDeadlock,
};
pub use chain::{
    BufferKind, BufferView, CallView, CommonView, ComparedBy, ContextView, ExampleOp, ExampleView, GroupView,
    OddChain, OddRank, OpView, OtherView, WhoCount,
};
pub(crate) use hang::MOST_WAITED_FOR;
pub use hang::{CallError, CollectiveCounts, Fault, Hang, HangGroup, StuckCall, StuckRank, StuckState};
pub use place::Place;
pub(crate) use place::is_none_left_out;

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
    /// Messages whose elements are something else where they are received.
    DatatypeMismatch(Box<DatatypeMismatch>),
    /// A buffer that was used before its request was complete.
    BufferConflict(Box<BufferConflict>),
    /// A call that reads and writes buffers which overlap.
    OverlappingBuffers(Box<OverlappingBuffers>),
    /// An MPI call that was given memory which is no block of the heap, or goes past the end of one.
    HeapMisuse(Box<HeapMisuse>),
    /// A one-sided operation that goes past an end of its target's memory.
    OutsideWindow(Box<OutsideWindow>),
    /// Accesses to memory of a window that nothing orders.
    AccessConflict(Box<AccessConflict>),
    /// Calls that wait for each other in a cycle, unless messages are buffered.
    PotentialDeadlock(Box<PotentialDeadlock>),
    /// Messages that nobody received, or requests that nobody came back for.
    #[serde(rename = "left_over")]
    Leak(Box<Leak>),
    /// A call that failed, and a program that went on.
    ErrorReturned(Box<ErrorReturned>),
}

/// Most ranks of which counts are listed, or that a group is said to wait for.
pub(crate) const MOST_COUNTED: usize = 1 << 10;

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
