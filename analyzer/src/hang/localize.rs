//! Which ranks are at fault when ranks wait for each other.
//!
//! After M. Okita, F. Ino, K. Hagihara, "Debugging tool for localizing faulty processes in message
//! passing programs", AADEBUG 2003: from each rank that does not go on, follow whom it waits for, to a
//! cycle, to a rank that ended, or to one that is stuck by itself. Beyond the paper: a rank may wait
//! for all of several ranks, or for any of them, and a rank that still computes is no reason to say anything.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};

use super::dependency::{CollectiveOp, Dependency, Message, Rank, RankActivity};
use super::step_budget::TooLarge;
use super::wait_for::WaitForGraph;
use crate::findings::finding::Fault;

/// One cause, and whom it holds up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HangCause {
    pub fault: Fault,
    pub at_fault: BTreeSet<Rank>,
    /// Ranks that only wait, directly or not, for those at fault.
    pub held_up: BTreeSet<Rank>,
}

/// Whom each stuck rank waits for, both ways.
pub(crate) struct Waits {
    pub of: BTreeMap<Rank, BTreeSet<Rank>>,
    on: BTreeMap<Rank, Vec<Rank>>,
}

impl Waits {
    fn new(of: BTreeMap<Rank, BTreeSet<Rank>>) -> Self {
        let mut on: BTreeMap<Rank, Vec<Rank>> = BTreeMap::new();
        for (&rank, peers) in &of {
            peers.iter().for_each(|peer| on.entry(*peer).or_default().push(rank));
        }
        Self { of, on }
    }

    /// Ranks that wait for one.
    fn on(&self, rank: Rank) -> &[Rank] {
        self.on.get(&rank).map_or(&[], Vec::as_slice)
    }
}

impl WaitForGraph<'_> {
    /// Why ranks do not go on, and who waits for whom; nothing if all of them may.
    pub fn causes(&self) -> Result<(Vec<HangCause>, Waits), TooLarge> {
        let stuck = self.stuck()?;
        let waits = Waits::new(self.waits_of(&stuck)?);
        let mut causes: Vec<HangCause> = self.roots(&stuck, &waits)?;
        for cause in &mut causes {
            cause.held_up = self.reaching(&cause.at_fault, &waits)?;
        }
        causes.sort_by_key(|cause| (cause.fault, cause.at_fault.clone()));
        Ok((causes, waits))
    }

    /// Where following the waits ends: cycles, and ranks that wait for nobody.
    fn roots(&self, stuck: &BTreeSet<Rank>, waits: &Waits) -> Result<Vec<HangCause>, TooLarge> {
        let mut causes = Vec::new();
        for component in components(stuck, &waits.of) {
            // Who waits for one that ended, or is stopped, is held up by that, whoever else it waits for.
            let waits_itself = |rank: &Rank| matches!(self.activity(*rank), Some(RankActivity::Waits { .. }));
            let is_held_up = || {
                component
                    .iter()
                    .any(|rank| waits.of[rank].iter().any(|to| stuck.contains(to) && !waits_itself(to)))
            };
            let is_cycle = component.len() > 1 || component.iter().all(|rank| waits.of[rank].contains(rank));
            let only = component.first().copied();
            let cause = match only.and_then(|rank| self.activity(rank)) {
                Some(RankActivity::Ended { well }) => ended(only.unwrap_or_default(), *well, waits),
                Some(RankActivity::Outside) => Some(HangCause::of(Fault::Outside, component)),
                Some(RankActivity::Stopped) => Some(HangCause::of(Fault::Stopped, component)),
                // A cycle that waits for another cycle besides is told all the same.
                Some(RankActivity::Waits { .. }) if is_cycle && !is_held_up() => Some(self.cycle(component)?),
                _ => None,
            };
            causes.extend(cause);
        }
        // Somebody must wait for it: a rank that is stopped or has ended alone is no fault.
        causes.retain(|cause| match cause.fault {
            Fault::Outside | Fault::Stopped => cause.at_fault.iter().any(|rank| !waits.on(*rank).is_empty()),
            _ => true,
        });
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
            Dependency::Collective(call) => call.arrived.as_deref(),
            _ => None,
        });
        arrivals.flat_map(|arrived| arrived.abandoned.intersection(ranks)).copied().collect()
    }

    /// Messages that ranks of a cycle wait for, of or to ranks that are `elsewhere`.
    fn missing_message(
        &self,
        ranks: &BTreeSet<Rank>,
        elsewhere: &dyn Fn(&Rank) -> bool,
    ) -> Result<Option<HangCause>, TooLarge> {
        let mut at_fault = BTreeSet::new();
        for &rank in ranks {
            let receives = |dependency: &Dependency| matches!(dependency, Dependency::Receive(_));
            let sends = |dependency: &Dependency| matches!(dependency, Dependency::Send(_));
            // Whether a message was sent that nobody takes is not known: what is received tells more.
            let mut named = self.partners(rank, &receives, elsewhere)?;
            if named.is_empty() {
                named = self.partners(rank, &sends, elsewhere)?;
            }
            if !named.is_empty() {
                at_fault.insert(rank);
                if !self.has_another_partner(rank)? {
                    at_fault.extend(named);
                }
            }
        }
        Ok((!at_fault.is_empty()).then(|| HangCause::of(Fault::MissingMessage, at_fault)))
    }

    /// Ranks that a rank needs for some of its messages, of those that are `elsewhere`.
    fn partners(
        &self,
        rank: Rank,
        wanted: &dyn Fn(&Dependency) -> bool,
        elsewhere: &dyn Fn(&Rank) -> bool,
    ) -> Result<BTreeSet<Rank>, TooLarge> {
        let mut partners = BTreeSet::new();
        for dependency in self.dependencies(rank).iter().filter(|dependency| wanted(dependency)) {
            self.work.spend(1)?;
            partners.extend(self.peers(rank, dependency)?.into_iter().filter(elsewhere));
        }
        Ok(partners)
    }

    /// Somebody waits for just this rank's message, but the rank named another one.
    fn has_another_partner(&self, rank: Rank) -> Result<bool, TooLarge> {
        let with_peer = |dependency: &Dependency, peer: Rank| match *dependency {
            Dependency::Send(message) => Some(Dependency::Send(Message { peer: Some(peer), ..message })),
            Dependency::Receive(message) => {
                Some(Dependency::Receive(Message { peer: Some(peer), ..message }))
            }
            Dependency::Collective(_) | Dependency::Lock { .. } => None,
        };
        for peer in self.ranks().filter(|peer| *peer != rank) {
            for dependency in self.dependencies(rank).iter().filter_map(|needed| with_peer(needed, peer)) {
                if self.fits(rank, &dependency, peer)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Where most ranks are in one collective call: the few that are elsewhere.
    fn odd_ones_of_a_collective(&self, ranks: &BTreeSet<Rank>) -> Result<Option<BTreeSet<Rank>>, TooLarge> {
        // Ranks in the same call, by the first of them: there are few different ones.
        let mut calls: BTreeMap<&CollectiveOp, Vec<Rank>> = BTreeMap::new();
        let mut firsts: Vec<&CollectiveOp> = Vec::new();
        for rank in self.ranks() {
            let Some(call) = self.collective(rank) else { continue };
            self.work.spend(1)?;
            let alike = calls.entry(call).or_default();
            if alike.is_empty() {
                firsts.push(call);
            }
            alike.push(rank);
        }
        let mut most: Option<(&CollectiveOp, BTreeSet<Rank>)> = None;
        for call in firsts {
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

    /// Ranks that reach one of `to`, but for these.
    fn reaching(&self, to: &BTreeSet<Rank>, waits: &Waits) -> Result<BTreeSet<Rank>, TooLarge> {
        let mut reached = BTreeSet::new();
        let mut next: Vec<Rank> = to.iter().copied().collect();
        while let Some(rank) = next.pop() {
            self.work.spend(1 + waits.on(rank).len())?;
            for &waiting in waits.on(rank) {
                if !to.contains(&waiting) && reached.insert(waiting) {
                    next.push(waiting);
                }
            }
        }
        Ok(reached)
    }
}

/// A rank that ended, and those that wait for it directly.
fn ended(rank: Rank, well: bool, waits: &Waits) -> Option<HangCause> {
    let mut waiting: BTreeSet<Rank> = waits.on(rank).iter().copied().collect();
    if waiting.is_empty() {
        return None;
    }
    if !well {
        return Some(HangCause::of(Fault::Crash, BTreeSet::from([rank])));
    }
    waiting.insert(rank);
    Some(HangCause::of(Fault::MissingMessage, waiting))
}

impl HangCause {
    fn of(fault: Fault, at_fault: BTreeSet<Rank>) -> Self {
        Self { fault, at_fault, held_up: BTreeSet::new() }
    }
}

/// Strongly connected components of the ranks that wait for each other.
fn components(ranks: &BTreeSet<Rank>, waits: &BTreeMap<Rank, BTreeSet<Rank>>) -> Vec<BTreeSet<Rank>> {
    let mut graph = DiGraph::<Rank, ()>::new();
    // Where each rank is among them: there may be as many waits as pairs of ranks, too many to hash each.
    let nodes: BTreeMap<Rank, NodeIndex> = ranks.iter().map(|&rank| (rank, graph.add_node(rank))).collect();
    for (rank, &node) in &nodes {
        for to in waits[rank].iter().filter_map(|to| nodes.get(to)) {
            graph.add_edge(node, *to, ());
        }
    }
    let ranks_of = |component: Vec<NodeIndex>| component.into_iter().map(|node| graph[node]).collect();
    kosaraju_scc(&graph).into_iter().map(ranks_of).collect()
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
