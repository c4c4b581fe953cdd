//! What is known of the ranks of a job while some of them do not move.

use std::collections::BTreeMap;

use super::dependency::Rank;
use super::progress::Observation;
use super::step_budget::StepBudget;
use crate::hang::locks::HeldLock;
use crate::job::Job;
use crate::tape::input::{CallInProgress, ThreadFacts};

/// What is known of one rank.
#[derive(Default)]
pub(crate) struct RankState<'a> {
    pub pid: u32,
    /// How it has been found for long enough, and since when.
    pub still: Option<(&'a Observation, u64)>,
    /// It ended: well or not.
    pub ended: Option<bool>,
    /// Locks that it has asked for and not given back.
    pub locks: &'a [HeldLock],
}

/// What a rank does that does not go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Doing {
    #[default]
    InCall,
    /// It does nothing, outside of MPI.
    Outside,
    Stopped,
    Ended,
    Died,
}

impl Doing {
    pub(super) fn of(state: &RankState<'_>) -> Self {
        match (state.ended, state.still) {
            (Some(true), _) => Self::Ended,
            (Some(false), _) => Self::Died,
            (None, Some((Observation::Stopped(_), _))) => Self::Stopped,
            (None, Some((Observation::InCall(_), _))) => Self::InCall,
            (None, _) => Self::Outside,
        }
    }
}

/// What is known of a job's ranks.
pub(crate) struct JobView<'a> {
    pub ranks: BTreeMap<Rank, RankState<'a>>,
    /// Communicators, requests and calls, as far as they were recorded.
    pub job: &'a Job,
    /// What may still be spent on it.
    pub work: StepBudget,
}

/// The thread that tells what a rank does.
pub(super) fn thread(seen: &Observation) -> Option<&ThreadFacts> {
    match seen {
        Observation::Moves => None,
        Observation::InCall(thread) | Observation::Outside(thread) | Observation::Stopped(thread) => {
            Some(thread)
        }
    }
}

/// The call that a rank is in, whatever else is known of it.
pub(super) fn any_call_of<'a>(state: &RankState<'a>) -> Option<&'a CallInProgress> {
    thread(state.still?.0)?.call.as_ref()
}

/// The call that a rank has not moved from.
pub(super) fn call_of<'a>(state: &RankState<'a>) -> Option<&'a CallInProgress> {
    match state.still {
        Some((Observation::InCall(thread), _)) => thread.call.as_ref(),
        _ => None,
    }
}
