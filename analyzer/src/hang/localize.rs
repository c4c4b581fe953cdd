//! Which ranks are at fault when ranks wait for each other.
//!
//! After M. Okita, F. Ino, K. Hagihara, "Debugging tool for localizing faulty processes in message
//! passing programs", AADEBUG 2003: from each rank that does not go on, follow whom it waits for, to a
//! cycle, to a rank that ended, or to one that is stuck by itself. Beyond the paper: a rank may wait
//! for all of several ranks, or for any of them, and a rank that still computes is no reason to say anything.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use rustc_hash::FxHashMap;

use super::dependency::{Arrivals, CollectiveOp, Dependency, Message, Rank, RankActivity};
use super::step_budget::TooLarge;
use super::wait_for::{SharedNeed, WaitForGraph};
use super::waits::{SharedWait, Waits, WhoWaits};
use crate::findings::finding::Fault;

/// One cause, and whom it holds up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HangCause {
    pub fault: Fault,
    pub at_fault: BTreeSet<Rank>,
    /// Ranks that only wait, directly or not, for those at fault.
    pub held_up: BTreeSet<Rank>,
}

impl WaitForGraph<'_> {
    /// Why ranks do not go on, and who waits for whom; nothing if all of them may.
    pub fn causes(&self) -> Result<(Vec<HangCause>, Waits), TooLarge> {
        let stuck = self.stuck()?;
        let waits = self.waits_of(&stuck)?;
        let mut causes = few(self.roots(&stuck, &waits)?);
        for cause in &mut causes {
            let (reaching, steps) = waits.reaching(&cause.at_fault);
            self.work.spend(steps)?;
            cause.held_up = reaching;
        }
        causes.sort_by_key(|cause| (cause.fault, cause.at_fault.clone()));
        Ok((causes, waits))
    }

    /// Where following the waits ends: cycles, and ranks that wait for nobody.
    fn roots(&self, stuck: &BTreeSet<Rank>, waits: &Waits) -> Result<Vec<HangCause>, TooLarge> {
        // Who waits for one that ended, or is stopped, is held up by that, whoever else it waits for.
        let is_end = |rank: &Rank| {
            stuck.contains(rank) && !matches!(self.activity(*rank), Some(RankActivity::Waits { .. }))
        };
        let ends_shared: BTreeSet<SharedWait> = waits
            .all_shared()
            .filter(|(_, ranks)| ranks.iter().any(is_end))
            .map(|(shared, _)| shared)
            .collect();
        let mut held_up: BTreeSet<Rank> = BTreeSet::new();
        for (rank, of_rank) in waits.all() {
            let is_held_up =
                of_rank.own.iter().any(is_end) || of_rank.shared.iter().any(|one| ends_shared.contains(one));
            held_up.extend(is_held_up.then_some(rank));
        }
        let mut causes = Vec::new();
        for component in components(stuck, waits) {
            let is_cycle = component.len() > 1 || component.iter().all(|rank| waits.is_own_partner(*rank));
            let waits_itself = component.first().and_then(|rank| self.activity(*rank));
            if matches!(waits_itself, Some(RankActivity::Waits { .. }))
                && is_cycle
                && component.is_disjoint(&held_up)
            {
                // A cycle that waits for another cycle besides is told all the same.
                causes.push(self.cycle(component)?);
            }
        }
        causes.extend(self.ends(stuck, waits)?);
        Ok(causes)
    }

    /// Ranks that will do nothing more and are waited for. Those that the same ones wait for are one cause: of a whole
    /// node that is stopped, or ended, say.
    fn ends(&self, stuck: &BTreeSet<Rank>, waits: &Waits) -> Result<Vec<HangCause>, TooLarge> {
        let mut ends: BTreeMap<(Fault, WhoWaits), BTreeSet<Rank>> = BTreeMap::new();
        for &rank in stuck {
            let fault = match self.activity(rank) {
                Some(RankActivity::Ended { well: true }) => Fault::MissingMessage,
                Some(RankActivity::Ended { well: false }) => Fault::Crash,
                Some(RankActivity::Outside) => Fault::Outside,
                Some(RankActivity::Stopped) => Fault::Stopped,
                Some(RankActivity::Waits { .. } | RankActivity::Moves) | None => continue,
            };
            // Somebody must wait for it: a rank that is stopped or has ended alone is no fault.
            let waiting = waits.on(rank);
            self.work.spend(1)?;
            if !waiting.is_empty() {
                ends.entry((fault, waiting)).or_default().insert(rank);
            }
        }
        let mut causes = Vec::new();
        for ((fault, waiting), mut ranks) in ends {
            if fault == Fault::MissingMessage {
                let waiting = waits.ranks_of(&waiting);
                self.work.spend(waiting.len())?;
                ranks.extend(waiting);
            }
            causes.push(HangCause::of(fault, ranks));
        }
        Ok(causes)
    }

    fn cycle(&self, ranks: BTreeSet<Rank>) -> Result<HangCause, TooLarge> {
        let locks = |rank: &Rank| {
            self.dependencies(*rank).iter().any(|dependency| matches!(dependency, Dependency::Lock { .. }))
        };
        if !ranks.iter().any(|rank| self.collective(*rank).is_some()) || ranks.iter().any(locks) {
            return Ok(HangCause::of(Fault::Deadlock, ranks));
        }
        let abandoned = self.abandoned(&ranks);
        if !abandoned.is_empty() {
            return Ok(HangCause::of(Fault::UncompletedRequest, abandoned));
        }
        // A rank that waits for a message of one in a collective call, which waits for the rest, does so in vain. Of
        // one at the end of the program before all others: that one sends nothing more.
        let at_end = |rank: &Rank| self.collective(*rank).is_some_and(|call| call.is_finalize);
        let gathers = |rank: &Rank| self.collective(*rank).is_some();
        if let Some(cause) = self.missing_message(&ranks, &at_end)? {
            return Ok(cause);
        }
        if let Some(cause) = self.missing_message(&ranks, &gathers)? {
            return Ok(cause);
        }
        let odd = self.odd_ones_of_a_collective(&ranks)?;
        Ok(HangCause::of(Fault::MismatchedCollective, odd.unwrap_or(ranks)))
    }

    /// Ranks of a cycle that left a collective call that others of it wait for.
    fn abandoned(&self, ranks: &BTreeSet<Rank>) -> BTreeSet<Rank> {
        let waited_for = ranks.iter().flat_map(|rank| self.dependencies(*rank));
        let arrivals = waited_for.filter_map(|dependency| match dependency {
            Dependency::Collective(call) => call.arrived.as_ref(),
            _ => None,
        });
        // Who has arrived is one set for all who wait in a call.
        let different: BTreeMap<usize, &Rc<Arrivals>> =
            arrivals.map(|arrived| (Rc::as_ptr(arrived) as usize, arrived)).collect();
        different.values().flat_map(|arrived| arrived.abandoned.intersection(ranks)).copied().collect()
    }

    /// Messages that ranks of a cycle wait for, of or to ranks that are `elsewhere`.
    fn missing_message(
        &self,
        ranks: &BTreeSet<Rank>,
        elsewhere: &dyn Fn(&Rank) -> bool,
    ) -> Result<Option<HangCause>, TooLarge> {
        let mut members_elsewhere = BTreeMap::new();
        let mut at_fault = BTreeSet::new();
        let mut of_comms = BTreeSet::new();
        for &rank in ranks {
            let receives = |dependency: &Dependency| matches!(dependency, Dependency::Receive(_));
            let sends = |dependency: &Dependency| matches!(dependency, Dependency::Send(_));
            // Whether a message was sent that nobody takes is not known: what is received tells more.
            let mut named = self.partners(rank, &receives, elsewhere, &mut members_elsewhere)?;
            if named.is_empty() {
                named = self.partners(rank, &sends, elsewhere, &mut members_elsewhere)?;
            }
            if !named.is_empty() {
                at_fault.insert(rank);
                if !self.has_another_partner(rank)? {
                    at_fault.extend(named.ranks);
                    of_comms.extend(named.comms);
                }
            }
        }
        at_fault.extend(of_comms.iter().flat_map(|comm| &members_elsewhere[comm]));
        Ok((!at_fault.is_empty()).then(|| HangCause::of(Fault::MissingMessage, at_fault)))
    }

    /// Ranks that a rank needs for some of its messages, of those that are `elsewhere`. `members`: these, of communicators
    /// that were asked for.
    fn partners(
        &self,
        rank: Rank,
        wanted: &dyn Fn(&Dependency) -> bool,
        elsewhere: &dyn Fn(&Rank) -> bool,
        members: &mut BTreeMap<u64, BTreeSet<Rank>>,
    ) -> Result<Partners, TooLarge> {
        let mut partners = Partners::default();
        for dependency in self.dependencies(rank).iter().filter(|dependency| wanted(dependency)) {
            self.work.spend(1)?;
            match dependency {
                Dependency::Send(Message { peer: Some(peer), .. })
                | Dependency::Receive(Message { peer: Some(peer), .. }) => {
                    partners.ranks.extend(Some(*peer).filter(elsewhere));
                }
                Dependency::Send(Message { comm, .. }) | Dependency::Receive(Message { comm, .. }) => {
                    if !members.contains_key(comm) {
                        members.insert(*comm, self.members(*comm)?.into_iter().filter(elsewhere).collect());
                    }
                    let others = members[comm].len() - usize::from(members[comm].contains(&rank));
                    partners.comms.extend((others > 0).then_some(*comm));
                }
                Dependency::Collective(_) | Dependency::Lock { .. } => {}
            }
        }
        Ok(partners)
    }

    /// Where most ranks are in one collective call: the few that are elsewhere.
    fn odd_ones_of_a_collective(&self, ranks: &BTreeSet<Rank>) -> Result<Option<BTreeSet<Rank>>, TooLarge> {
        // Ranks in the same call, in the order of the first of them: there are few different ones.
        let mut calls: Vec<(&CollectiveOp, Vec<Rank>)> = Vec::new();
        let mut known: FxHashMap<SharedNeed, usize> = FxHashMap::default();
        for rank in self.ranks() {
            let Some(call) = self.collective(rank) else { continue };
            self.work.spend(1)?;
            let at = *known.entry(SharedNeed::of_collective(call)).or_insert(calls.len());
            if at == calls.len() {
                calls.push((call, Vec::new()));
            }
            calls[at].1.push(rank);
        }
        let mut most: Option<(&CollectiveOp, BTreeSet<Rank>)> = None;
        for (call, _) in &calls {
            let mut party = BTreeSet::new();
            for (other, ranks) in &calls {
                self.work.spend(1)?;
                if call.fits(other) {
                    self.work.spend(ranks.len())?;
                    party.extend(ranks.iter().copied());
                }
            }
            party.extend(call.arrived.iter().flat_map(|arrived| arrived.started.iter().copied()));
            // Among equals the first.
            if most.as_ref().is_none_or(|(_, largest)| party.len() > largest.len()) {
                most = Some((call, party));
            }
        }
        let Some((call, party)) = most else { return Ok(None) };
        let expected = self.members(call.comm)?;
        let odd: BTreeSet<Rank> =
            expected.difference(&party).copied().filter(|rank| ranks.contains(rank)).collect();
        // As many on both sides: who is wrong cannot be told.
        let is_minority = odd.len() < party.len();
        Ok((is_minority && !odd.is_empty() && !ranks.is_disjoint(&party)).then_some(odd))
    }
}

/// Whom a rank needs: ranks, and the members of communicators.
#[derive(Default)]
struct Partners {
    ranks: BTreeSet<Rank>,
    comms: BTreeSet<u64>,
}

impl Partners {
    fn is_empty(&self) -> bool {
        self.ranks.is_empty() && self.comms.is_empty()
    }
}

impl HangCause {
    fn of(fault: Fault, at_fault: BTreeSet<Rank>) -> Self {
        Self { fault, at_fault, held_up: BTreeSet::new() }
    }
}

/// Causes that are told one by one. Where there are more of one fault, as where each rank of thousands waits for its neighbour
/// and that one for it, they are one.
const MOST_CAUSES: usize = 64;

fn few(causes: Vec<HangCause>) -> Vec<HangCause> {
    let mut by_fault: BTreeMap<Fault, Vec<HangCause>> = BTreeMap::new();
    for cause in causes {
        by_fault.entry(cause.fault).or_default().push(cause);
    }
    let some = |(fault, causes): (Fault, Vec<HangCause>)| match causes.len() {
        0..=MOST_CAUSES => causes,
        _ => vec![HangCause::of(fault, causes.into_iter().flat_map(|cause| cause.at_fault).collect())],
    };
    by_fault.into_iter().flat_map(some).collect()
}

/// What waits, or is waited for.
#[derive(Clone, Copy)]
enum WaitNode {
    Rank(Rank),
    /// What many ranks wait for alike.
    Shared,
}

/// Strongly connected components of the ranks that wait for each other.
fn components(ranks: &BTreeSet<Rank>, waits: &Waits) -> Vec<BTreeSet<Rank>> {
    let mut graph = DiGraph::<WaitNode, ()>::new();
    let nodes: FxHashMap<Rank, NodeIndex> =
        ranks.iter().map(|&rank| (rank, graph.add_node(WaitNode::Rank(rank)))).collect();
    // As many waits as pairs of ranks would be too many: what is shared leads on to those that all of them wait for.
    let mut shared: FxHashMap<SharedWait, NodeIndex> = FxHashMap::default();
    for (one, to) in waits.all_shared() {
        let from = graph.add_node(WaitNode::Shared);
        for to in to.iter().filter_map(|to| nodes.get(to)) {
            graph.add_edge(from, *to, ());
        }
        shared.insert(one, from);
    }
    for (rank, of_rank) in waits.all() {
        let Some(&from) = nodes.get(&rank) else { continue };
        let own = of_rank.own.iter().filter_map(|to| nodes.get(to));
        for to in own.chain(of_rank.shared.iter().filter_map(|one| shared.get(one))) {
            graph.add_edge(from, *to, ());
        }
    }
    let rank_of = |node: NodeIndex| match graph[node] {
        WaitNode::Rank(rank) => Some(rank),
        WaitNode::Shared => None,
    };
    let components =
        kosaraju_scc(&graph).into_iter().map(|nodes| nodes.into_iter().filter_map(rank_of).collect());
    components.filter(|ranks: &BTreeSet<Rank>| !ranks.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::super::dependency::Arrivals;
    use super::*;
    use crate::hang::step_budget::StepBudget;

    const WORLD: u64 = 0;

    fn receive(peer: Rank) -> Dependency {
        Dependency::Receive(Message { peer: Some(peer), tag: Some(0), comm: WORLD })
    }

    fn send(peer: Rank) -> Dependency {
        Dependency::Send(Message { peer: Some(peer), tag: Some(0), comm: WORLD })
    }

    fn collective(function: &str) -> Dependency {
        Dependency::Collective(CollectiveOp {
            function: function.into(),
            comm: WORLD,
            ..CollectiveOp::default()
        })
    }

    fn waits(dependency: Dependency) -> RankActivity {
        RankActivity::Waits { dependencies: vec![dependency], any: false }
    }

    fn causes(activities: Vec<RankActivity>) -> Vec<(Fault, Vec<Rank>, Vec<Rank>)> {
        let activities: BTreeMap<Rank, RankActivity> = (0..).zip(activities).collect();
        let members = BTreeMap::from([(WORLD, activities.keys().copied().collect())]);
        let list = |set: BTreeSet<Rank>| set.into_iter().collect::<Vec<_>>();
        let work = StepBudget::default();
        let (found, _) = WaitForGraph::new(&activities, &members, &work).causes().expect("it is small");
        found.into_iter().map(|c| (c.fault, list(c.at_fault), list(c.held_up))).collect()
    }

    #[test]
    fn two_that_receive_from_each_other_are_a_deadlock_and_others_only_wait() {
        let found =
            causes(vec![waits(receive(1)), waits(receive(0)), waits(receive(1)), RankActivity::Moves]);
        assert_eq!(found, [(Fault::Deadlock, vec![0, 1], vec![2])]);
    }

    #[test]
    fn whoever_waits_for_a_rank_that_computes_is_no_fault() {
        assert_eq!(
            causes(vec![
                RankActivity::Moves,
                waits(receive(0)),
                waits(receive(1)),
                waits(collective("MPI_Barrier"))
            ]),
            []
        );
    }

    #[test]
    fn who_came_to_the_end_without_completing_what_others_wait_for_is_named() {
        let begun = |abandoned: &[Rank]| {
            let arrived =
                Arrivals { started: (0..3).collect(), abandoned: abandoned.iter().copied().collect() };
            waits(Dependency::Collective(CollectiveOp {
                function: "MPI_Ibarrier".into(),
                comm: WORLD,
                arrived: Some(Rc::new(arrived)),
                ..CollectiveOp::default()
            }))
        };
        let end = || waits(Dependency::Collective(CollectiveOp::finalize(WORLD)));
        let found = causes(vec![begun(&[1]), end(), begun(&[1])]);
        assert_eq!(found, [(Fault::UncompletedRequest, vec![1], vec![0, 2])]);
        assert_eq!(causes(vec![begun(&[]), end(), begun(&[])]), [], "all have started it: it goes on");
    }

    #[test]
    fn a_message_that_is_about_to_arrive_is_no_fault() {
        assert_eq!(causes(vec![waits(send(1)), waits(receive(0))]), []);
    }

    #[test]
    fn another_tag_or_communicator_is_another_message() {
        let tag = |tag, comm| Dependency::Receive(Message { peer: Some(0), tag: Some(tag), comm });
        for dependency in [tag(1, WORLD), tag(0, 7)] {
            let found = causes(vec![waits(send(1)), waits(dependency)]);
            assert_eq!(found, [(Fault::Deadlock, vec![0, 1], vec![])]);
        }
        let any = Dependency::Receive(Message { peer: None, tag: None, comm: WORLD });
        assert_eq!(causes(vec![waits(send(1)), waits(any)]), []);
    }

    #[test]
    fn a_message_from_a_rank_that_ended_is_missing() {
        let found = causes(vec![RankActivity::Ended { well: true }, waits(receive(0)), waits(receive(1))]);
        assert_eq!(found, [(Fault::MissingMessage, vec![0, 1], vec![2])]);
        let found = causes(vec![
            waits(Dependency::Collective(CollectiveOp::finalize(WORLD))),
            waits(receive(0)),
            waits(Dependency::Collective(CollectiveOp::finalize(WORLD))),
        ]);
        assert_eq!(found, [(Fault::MissingMessage, vec![0, 1], vec![2])]);
    }

    #[test]
    fn a_rank_that_died_is_the_one_at_fault() {
        let found = causes(vec![
            RankActivity::Ended { well: false },
            waits(collective("MPI_Barrier")),
            waits(receive(1)),
        ]);
        assert_eq!(found, [(Fault::Crash, vec![0], vec![1, 2])]);
    }

    #[test]
    fn the_one_in_another_collective_is_named() {
        let barrier = || waits(collective("MPI_Barrier"));
        let found = causes(vec![barrier(), barrier(), waits(collective("MPI_Bcast")), barrier()]);
        assert_eq!(found, [(Fault::MismatchedCollective, vec![2], vec![0, 1, 3])]);
        let found = causes(vec![barrier(), barrier(), waits(receive(1)), barrier()]);
        assert_eq!(found, [(Fault::MissingMessage, vec![1, 2], vec![0, 3])]);
    }

    #[test]
    fn one_of_two_that_met_different_calls_is_a_matter_of_the_message() {
        let found = causes(vec![waits(collective("MPI_Barrier")), waits(receive(0))]);
        assert_eq!(found, [(Fault::MissingMessage, vec![0, 1], vec![])]);
        let found = causes(vec![waits(collective("MPI_Barrier")), waits(collective("MPI_Bcast"))]);
        assert_eq!(found, [(Fault::MismatchedCollective, vec![0, 1], vec![])]);
    }

    #[test]
    fn a_rank_that_named_the_wrong_partner_is_named_alone() {
        let end = || waits(Dependency::Collective(CollectiveOp::finalize(WORLD)));
        let found = causes(vec![waits(send(1)), waits(receive(2)), end()]);
        assert_eq!(found, [(Fault::MissingMessage, vec![1], vec![0, 2])]);
        let found = causes(vec![waits(send(2)), waits(receive(0)), end()]);
        assert_eq!(found, [(Fault::MissingMessage, vec![0], vec![1, 2])]);
    }

    #[test]
    fn who_skipped_what_all_others_are_in_is_named() {
        let barrier = || waits(collective("MPI_Barrier"));
        let end = waits(Dependency::Collective(CollectiveOp::finalize(WORLD)));
        let found = causes(vec![barrier(), end, barrier()]);
        assert_eq!(found, [(Fault::MismatchedCollective, vec![1], vec![0, 2])]);
    }

    #[test]
    fn who_left_a_rooted_collective_already_holds_nobody_up_while_another_computes() {
        // Rank 1 is through with the reduction and waits for the root, which waits for rank 2.
        let reduce = || waits(collective("MPI_Reduce"));
        assert_eq!(causes(vec![reduce(), waits(receive(0)), RankActivity::Moves]), []);
        let found = causes(vec![reduce(), waits(receive(0)), reduce()]);
        assert_eq!(found, [(Fault::MissingMessage, vec![0, 1], vec![2])]);
    }

    #[test]
    fn who_left_any_collective_already_holds_nobody_up_while_another_may_be_at_work_in_it() {
        // Rank 1 is through and waits for rank 0, which waits for what rank 2, slow or stopped in there, has to send.
        assert_eq!(
            causes(vec![waits(collective("MPI_Barrier")), waits(receive(0)), RankActivity::Moves]),
            []
        );
        // Nobody goes on after the end.
        let end = waits(Dependency::Collective(CollectiveOp::finalize(WORLD)));
        let found = causes(vec![end, waits(receive(0)), RankActivity::Moves]);
        assert_eq!(found, [(Fault::MissingMessage, vec![0, 1], vec![])]);
    }

    #[test]
    fn a_rank_that_nothing_is_known_of_may_always_move() {
        assert_eq!(causes(vec![waits(receive(9)), waits(receive(0))]), []);
        let either = RankActivity::Waits { dependencies: vec![receive(9), receive(1)], any: true };
        assert_eq!(causes(vec![either, waits(receive(0))]), []);
    }

    #[test]
    fn from_anybody_is_no_deadlock_while_somebody_may_send() {
        let any = || waits(Dependency::Receive(Message { peer: None, tag: None, comm: WORLD }));
        assert_eq!(causes(vec![any(), waits(receive(0)), RankActivity::Moves]), []);
        assert_eq!(causes(vec![any(), any(), any()]), [(Fault::Deadlock, vec![0, 1, 2], vec![])]);
    }

    #[test]
    fn all_of_several_requests_are_needed_or_any() {
        let both = |any| RankActivity::Waits { dependencies: vec![receive(1), receive(2)], any };
        assert_eq!(causes(vec![both(true), waits(receive(0)), RankActivity::Moves]), []);
        let found = causes(vec![both(false), waits(receive(0)), RankActivity::Moves]);
        assert_eq!(found, [(Fault::Deadlock, vec![0, 1], vec![])]);
    }

    #[test]
    fn who_waits_for_a_lock_waits_for_its_holder_or_for_any_rank_of_the_window() {
        let lock = |holders: &[Rank]| {
            waits(Dependency::Lock { comm: WORLD, holders: holders.iter().copied().collect() })
        };
        let barrier = || waits(collective("MPI_Barrier"));
        let found = causes(vec![barrier(), lock(&[0]), barrier()]);
        assert_eq!(found, [(Fault::Deadlock, vec![0, 1], vec![2])]);
        let found = causes(vec![barrier(), lock(&[]), barrier()]);
        assert_eq!(found, [(Fault::Deadlock, vec![0, 1, 2], vec![])]);
        assert_eq!(causes(vec![barrier(), lock(&[]), RankActivity::Moves]), []);
        assert_eq!(causes(vec![RankActivity::Moves, lock(&[0]), barrier()]), []);
        // All hold a lock; it is the data that rank 2 does not move on, as long as it computes.
        assert_eq!(causes(vec![barrier(), lock(&[0]), RankActivity::Moves]), []);
        assert_eq!(causes(vec![lock(&[1]), lock(&[0])]), [(Fault::Deadlock, vec![0, 1], vec![])]);
    }

    #[test]
    fn one_that_is_stopped_or_does_nothing_holds_the_others_up() {
        assert_eq!(
            causes(vec![RankActivity::Stopped, waits(receive(0))]),
            [(Fault::Stopped, vec![0], vec![1])]
        );
        assert_eq!(
            causes(vec![RankActivity::Outside, waits(receive(0))]),
            [(Fault::Outside, vec![0], vec![1])]
        );
        assert_eq!(causes(vec![RankActivity::Stopped, RankActivity::Moves]), []);
    }
}
