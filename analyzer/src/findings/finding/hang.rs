//! Ranks that do not go on.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::chain::WhoCount;
use super::place::{Place, is_none_left_out};
use crate::job::process::Who;

/// Most ranks that one is said to wait for.
pub(crate) const MOST_WAITED_FOR: usize = 64;

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
    /// The same: ranks in calls that wait for nothing any more, all their requests are complete.
    #[serde(default, with = "crate::findings::runs", skip_serializing_if = "Vec::is_empty")]
    pub complete: Vec<Who>,
    /// The same: results of calls were recorded, so that they would not tell more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub results: bool,
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
