//! Communicators as the libraries of all ranks know them: the same ones have the same number.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::dependency::{Arrivals, Rank, RankActivity};
use super::step_budget::{StepBudget, TooLarge};
use super::view::{JobView, RankState, any_call_of};
use crate::job::lifecycle::MpiLife;
use crate::job::messages::{CollectiveCall, CollectiveId, CommId, Messages};
use crate::tape::input::CommunicatorFacts;

/// MPI_COMM_WORLD, whatever its handle.
pub(super) const WORLD: u64 = 0;

/// Numbers from here on are those that calls told of.
const FOLLOWED: u64 = 1 << 32;

/// The number of a communicator that calls told of.
pub(super) fn number_of(comm: CommId) -> u64 {
    if comm.0 == 0 { WORLD } else { FOLLOWED | u64::from(comm.0) }
}

/// The communicator with a number, if calls told of it.
pub(super) fn followed(number: u64) -> Option<CommId> {
    (number == WORLD || number >= FOLLOWED).then_some(CommId(number as u32))
}

/// By collective call; `None`: it is not known of all members.
type KnownArrivals = BTreeMap<CollectiveId, Option<Rc<Arrivals>>>;

/// Communicators of all ranks: those that are the same have the same number.
#[derive(Default)]
pub(super) struct SampledCommunicators {
    /// By what the library calls them, and by who is in them. 0 is MPI_COMM_WORLD. Those that calls told of as well have
    /// the number that they have there.
    numbers: BTreeMap<u32, BTreeMap<Vec<Rank>, u64>>,
    arrivals: RefCell<KnownArrivals>,
    lives: BTreeMap<Rank, MpiLife>,
}

impl SampledCommunicators {
    /// Goes through all that was found in libraries' memory once.
    pub(super) fn of(view: &JobView<'_>) -> Result<Self, TooLarge> {
        let life =
            |state: &RankState<'_>| Some(view.job.processes.get(view.job.processes.find(state.pid)?).life);
        let lives = view.ranks.iter().filter_map(|(rank, state)| Some((*rank, life(state)?))).collect();
        let mut all = Self { lives, ..Self::default() };
        let facts = || {
            let of_all = view.ranks.values().filter_map(|state| Some((state.pid, any_call_of(state)?)));
            of_all.flat_map(|(pid, call)| call.communicators.iter().map(move |facts| (pid, facts)))
        };
        for (next, (pid, facts)) in (1..).zip(facts()) {
            view.work.spend(1 + facts.members.len())?;
            let of_calls = view.job.messages.communicator_of(pid, facts.handle);
            let of_calls = of_calls.filter(|_| facts.context_id != CommunicatorFacts::GROUP);
            let numbers = all.numbers.entry(facts.context_id).or_default();
            match (of_calls, numbers.get_mut(&facts.members)) {
                (Some((comm, _)), Some(number)) => *number = number_of(comm),
                (Some((comm, _)), None) => {
                    numbers.insert(facts.members.clone(), number_of(comm));
                }
                (None, Some(_)) => {}
                (None, None) => {
                    numbers.insert(facts.members.clone(), next);
                }
            }
        }
        Ok(all)
    }

    /// The number of one that was found in a library's memory.
    pub(super) fn number(&self, facts: &CommunicatorFacts) -> Option<u64> {
        self.numbers.get(&facts.context_id)?.get(&facts.members).copied()
    }

    /// Who has started a collective call already, if that is known: the same for all who are in it.
    pub(super) fn arrivals(
        &self,
        messages: &Messages,
        call: CollectiveCall,
        work: &StepBudget,
    ) -> Option<Rc<Arrivals>> {
        let key = call.id();
        let known = self.arrivals.borrow().get(&key).cloned();
        known.unwrap_or_else(|| {
            let arrived = messages.arrivals(call).map(|started| {
                let abandoned = self.abandoned(messages, call, &started);
                Rc::new(Arrivals { started, abandoned })
            });
            let _ = work.spend(arrived.as_ref().map_or(1, |arrived| arrived.started.len()));
            self.arrivals.borrow_mut().insert(key, arrived.clone());
            arrived
        })
    }

    /// Who came to MPI_Finalize with the call's request, where all have started it: nobody else is missing.
    fn abandoned(
        &self,
        messages: &Messages,
        call: CollectiveCall,
        started: &BTreeSet<Rank>,
    ) -> BTreeSet<Rank> {
        let is_whole = messages.members_of(call.comm()).is_some_and(|members| members.len() == started.len());
        if !is_whole || !messages.sees_completions() {
            return BTreeSet::new();
        }
        let last = messages.collectives().last_requests(call.sequence, call.position);
        let is_left = |rank: &Rank, since_ns: u64| {
            self.lives.get(rank).is_some_and(|life| life.ends_without_completion_since(since_ns))
        };
        last.filter(|(rank, since_ns)| is_left(rank, *since_ns)).map(|(rank, _)| rank).collect()
    }

    /// Members of each, as ranks of MPI_COMM_WORLD.
    pub(super) fn members(
        &self,
        view: &JobView<'_>,
        activities: &BTreeMap<Rank, RankActivity>,
    ) -> BTreeMap<u64, Vec<Rank>> {
        let mut members: BTreeMap<u64, Vec<Rank>> =
            self.numbers.values().flatten().map(|(members, &number)| (number, members.clone())).collect();
        let numbers: BTreeSet<u64> = activities.values().flat_map(RankActivity::communicators).collect();
        for number in numbers {
            if let Some(all) = followed(number).and_then(|comm| view.job.messages.members_of(comm)) {
                members.insert(number, all.to_vec());
            }
        }
        members.insert(WORLD, activities.keys().copied().collect());
        members
    }
}
