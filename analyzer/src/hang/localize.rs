//! Which ranks are at fault when ranks wait for each other.
//!
//! After M. Okita, F. Ino, K. Hagihara, "Debugging tool for localizing faulty processes in message
//! passing programs", AADEBUG 2003: from each rank that does not go on, follow whom it waits for, to a
//! cycle, to a rank that ended, or to one that is stuck by itself. Beyond the paper: a rank may wait
//! for all of several ranks, or for any of them, and a rank that still computes is no reason to say anything.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::algo::kosaraju_scc;
use petgraph::graphmap::DiGraphMap;

use crate::findings::finding::Fault;

/// A rank of MPI_COMM_WORLD.
pub(crate) type Rank = u32;

/// A message that a rank waits to send or receive. `None`: a wildcard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub peer: Option<Rank>,
    pub tag: Option<i32>,
    /// The same number for the same communicator.
    pub comm: u64,
}

/// Where a collective call is, as far as it must be the same in all ranks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Gathering {
    pub function: String,
    pub comm: u64,
    /// In the communicator.
    pub root: Option<i32>,
    pub op: Option<u64>,
}

/// The last call of a program: all ranks meet there.
const FINALIZE: &str = "MPI_Finalize";

impl Gathering {
    /// Where all ranks meet at their end. `world`: MPI_COMM_WORLD.
    pub fn at_the_end(world: u64) -> Self {
        Self { function: FINALIZE.to_owned(), comm: world, root: None, op: None }
    }

    fn is_the_end(&self) -> bool {
        self.function == FINALIZE
    }

    /// Whether they may be the same; what is not known of one is as in the other.
    fn fits(&self, other: &Self) -> bool {
        fn same<T: PartialEq>(a: Option<T>, b: Option<T>) -> bool {
            a.is_none() || b.is_none() || a == b
        }
        self.function == other.function
            && self.comm == other.comm
            && same(self.root, other.root)
            && same(self.op, other.op)
    }
}

/// What a rank waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Send(Message),
    Receive(Message),
    Collective(Gathering),
    /// A lock on a window, and what belongs to it: any rank of the window may have to do something for it.
    Lock {
        /// The window.
        comm: u64,
        /// Who is known to hold a lock that is in the way.
        holders: BTreeSet<Rank>,
    },
}

/// What a rank is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// It may go on by itself, or it is not known what it does.
    Moves,
    /// It waits: for all of these, or for any of them.
    Waits { needs: Vec<Need>, any: bool },
    /// It does nothing, outside of MPI.
    Outside,
    /// A signal or a debugger stopped it.
    Stopped,
    /// It ended.
    Ended { well: bool },
}

/// One cause, and whom it holds up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    pub fault: Fault,
    pub at_fault: BTreeSet<Rank>,
    /// Ranks that only wait, directly or not, for those at fault.
    pub held_up: BTreeSet<Rank>,
}

/// The ranks of a job.
pub(crate) struct Job<'a> {
    pub doing: &'a BTreeMap<Rank, Doing>,
    /// Members of a communicator, by its number, as ranks of MPI_COMM_WORLD.
    pub members: &'a BTreeMap<u64, Vec<Rank>>,
}

impl Job<'_> {
    /// Why ranks do not go on; nothing if all of them may.
    pub fn causes(&self) -> Vec<Cause> {
        let stuck = self.stuck();
        let waits: BTreeMap<Rank, BTreeSet<Rank>> =
            stuck.iter().map(|&rank| (rank, self.waits_for(rank))).collect();
        let mut causes: Vec<Cause> = self.roots(&stuck, &waits);
        for cause in &mut causes {
            cause.held_up = reaching(&cause.at_fault, &waits);
        }
        causes.sort_by_key(|cause| (cause.fault, cause.at_fault.clone()));
        causes
    }

    /// Ranks that no rank which may go on can ever release: what remains when all that can be released is.
    fn stuck(&self) -> BTreeSet<Rank> {
        let mut free: BTreeSet<Rank> =
            self.doing.iter().filter(|(_, doing)| **doing == Doing::Moves).map(|(rank, _)| *rank).collect();
        loop {
            let released: Vec<Rank> = self
                .doing
                .keys()
                .filter(|rank| !free.contains(rank) && self.can_be_released(**rank, &free))
                .copied()
                .collect();
            if released.is_empty() {
                break;
            }
            free.extend(released);
        }
        self.doing.keys().filter(|rank| !free.contains(rank)).copied().collect()
    }

    fn can_be_released(&self, rank: Rank, free: &BTreeSet<Rank>) -> bool {
        let Some(Doing::Waits { needs, any }) = self.doing.get(&rank) else { return false };
        // Of a rank that nothing is known of, nothing can be said.
        let is_free = |peer: &Rank| free.contains(peer) || !self.doing.contains_key(peer);
        let met = |need: &Need| {
            let mut missing = self.missing(rank, need).into_iter().peekable();
            if missing.peek().is_none() {
                return true;
            }
            match need {
                // From anybody: one that sends is enough.
                Need::Receive(Message { peer: None, .. }) => {
                    missing.any(|peer| is_free(&peer)) || self.somebody_fits(rank, need)
                }
                // Who is not here may have been here and gone on, and who is free may be here, at work on what the
                // others wait for. Nobody goes on after the end.
                Need::Collective(gathering) if !gathering.is_the_end() => missing.any(|peer| is_free(&peer)),
                // Of several locks, and of several windows, it is not known which one is in the way.
                Need::Lock { comm, .. } => {
                    self.members(*comm).iter().any(|peer| *peer != rank && is_free(peer))
                }
                _ => missing.all(|peer| is_free(&peer)),
            }
        };
        if *any { needs.iter().any(met) } else { needs.iter().all(met) }
    }

    /// Ranks that a need is about, but for itself.
    fn peers(&self, rank: Rank, need: &Need) -> BTreeSet<Rank> {
        let mut peers = match need {
            Need::Send(Message { peer: Some(peer), .. })
            | Need::Receive(Message { peer: Some(peer), .. }) => {
                return BTreeSet::from([*peer]);
            }
            Need::Send(message) | Need::Receive(message) => self.members(message.comm),
            Need::Collective(gathering) => self.members(gathering.comm),
            Need::Lock { comm, holders } if holders.is_empty() => self.members(*comm),
            Need::Lock { holders, .. } => holders.clone(),
        };
        peers.remove(&rank);
        peers
    }

    /// All of a communicator. One whose members are not known has all ranks.
    fn members(&self, comm: u64) -> BTreeSet<Rank> {
        match self.members.get(&comm) {
            Some(members) => members.iter().copied().collect(),
            None => self.doing.keys().copied().collect(),
        }
    }

    /// Peers of a need that are not where they would have to be for it.
    fn missing(&self, rank: Rank, need: &Need) -> BTreeSet<Rank> {
        self.peers(rank, need).into_iter().filter(|peer| !self.fits(rank, need, *peer)).collect()
    }

    fn somebody_fits(&self, rank: Rank, need: &Need) -> bool {
        self.peers(rank, need).into_iter().any(|peer| self.fits(rank, need, peer))
    }

    /// Whether the peer is waiting for just this: then both go on.
    fn fits(&self, rank: Rank, need: &Need, peer: Rank) -> bool {
        self.needs(peer).iter().any(|other| fit(rank, need, peer, other))
    }

    /// Ranks that a stuck rank waits for: those that are not where they would have to be.
    pub fn waits_for(&self, rank: Rank) -> BTreeSet<Rank> {
        self.needs(rank).iter().flat_map(|need| self.missing(rank, need)).collect()
    }

    /// Where following the waits ends: cycles, and ranks that wait for nobody.
    fn roots(&self, stuck: &BTreeSet<Rank>, waits: &BTreeMap<Rank, BTreeSet<Rank>>) -> Vec<Cause> {
        let mut causes = Vec::new();
        for component in components(stuck, waits) {
            // Who waits for one that ended, or is stopped, is held up by that, whoever else it waits for.
            let waits_itself = |rank: &Rank| matches!(self.doing.get(rank), Some(Doing::Waits { .. }));
            let is_held_up = component
                .iter()
                .any(|rank| waits[rank].iter().any(|to| stuck.contains(to) && !waits_itself(to)));
            let is_cycle = component.len() > 1 || component.iter().all(|rank| waits[rank].contains(rank));
            let only = component.first().copied();
            let cause = match only.and_then(|rank| self.doing.get(&rank)) {
                Some(Doing::Ended { well }) => self.ended(only.unwrap_or_default(), *well, waits),
                Some(Doing::Outside) => Some(Cause::of(Fault::Outside, component)),
                Some(Doing::Stopped) => Some(Cause::of(Fault::Stopped, component)),
                // A cycle that waits for another cycle besides is told all the same.
                Some(Doing::Waits { .. }) if is_cycle && !is_held_up => Some(self.cycle(component)),
                _ => None,
            };
            causes.extend(cause);
        }
        // Somebody must wait for it: a rank that is stopped or has ended alone is no fault.
        causes.retain(|cause| match cause.fault {
            Fault::Outside | Fault::Stopped => waits.values().any(|to| !to.is_disjoint(&cause.at_fault)),
            _ => true,
        });
        causes
    }

    /// A rank that ended, and those that wait for it directly.
    fn ended(&self, rank: Rank, well: bool, waits: &BTreeMap<Rank, BTreeSet<Rank>>) -> Option<Cause> {
        let waiting: BTreeSet<Rank> =
            waits.iter().filter(|(_, to)| to.contains(&rank)).map(|w| *w.0).collect();
        if waiting.is_empty() {
            return None;
        }
        if !well {
            return Some(Cause::of(Fault::Crash, BTreeSet::from([rank])));
        }
        let mut at_fault = waiting;
        at_fault.insert(rank);
        Some(Cause::of(Fault::MissingMessage, at_fault))
    }

    fn cycle(&self, ranks: BTreeSet<Rank>) -> Cause {
        let locks = |rank: &Rank| self.needs(*rank).iter().any(|need| matches!(need, Need::Lock { .. }));
        if !ranks.iter().any(|rank| self.gathering(*rank).is_some()) || ranks.iter().any(locks) {
            return Cause::of(Fault::Deadlock, ranks);
        }
        // A rank that waits for a message of one in a collective call, which waits for the rest, does so in vain. Of
        // one at the end of the program before all others: that one sends nothing more.
        let at_end = |rank: &Rank| self.gathering(*rank).is_some_and(Gathering::is_the_end);
        let gathers = |rank: &Rank| self.gathering(*rank).is_some();
        self.missing_message(&ranks, &at_end)
            .or_else(|| self.missing_message(&ranks, &gathers))
            .unwrap_or_else(|| {
                Cause::of(Fault::MismatchedCollective, self.odd_ones_of_a_collective(&ranks).unwrap_or(ranks))
            })
    }

    /// Messages that ranks of a cycle wait for, of or to ranks that are `elsewhere`.
    fn missing_message(&self, ranks: &BTreeSet<Rank>, elsewhere: &dyn Fn(&Rank) -> bool) -> Option<Cause> {
        let mut at_fault = BTreeSet::new();
        for &rank in ranks {
            let receives = |need: &&Need| matches!(need, Need::Receive(_));
            let sends = |need: &&Need| matches!(need, Need::Send(_));
            let partners = |needs: Vec<&Need>| -> BTreeSet<Rank> {
                needs.iter().flat_map(|need| self.peers(rank, need)).filter(elsewhere).collect()
            };
            // Whether a message was sent that nobody takes is not known: what is received tells more.
            let mut named = partners(self.needs(rank).iter().filter(receives).collect());
            if named.is_empty() {
                named = partners(self.needs(rank).iter().filter(sends).collect());
            }
            if !named.is_empty() {
                at_fault.insert(rank);
                if !self.has_another_partner(rank) {
                    at_fault.extend(named);
                }
            }
        }
        (!at_fault.is_empty()).then(|| Cause::of(Fault::MissingMessage, at_fault))
    }

    /// Somebody waits for just this rank's message, but the rank named another one.
    fn has_another_partner(&self, rank: Rank) -> bool {
        let with_peer = |need: &Need, peer: Rank| match *need {
            Need::Send(message) => Some(Need::Send(Message { peer: Some(peer), ..message })),
            Need::Receive(message) => Some(Need::Receive(Message { peer: Some(peer), ..message })),
            Need::Collective(_) | Need::Lock { .. } => None,
        };
        let waits_for_it = |peer: Rank| {
            self.needs(rank)
                .iter()
                .filter_map(|need| with_peer(need, peer))
                .any(|need| self.fits(rank, &need, peer))
        };
        self.doing.keys().any(|&peer| peer != rank && waits_for_it(peer))
    }

    /// The collective call that a rank is in.
    fn gathering(&self, rank: Rank) -> Option<&Gathering> {
        self.needs(rank).iter().find_map(|need| match need {
            Need::Collective(gathering) => Some(gathering),
            _ => None,
        })
    }

    fn needs(&self, rank: Rank) -> &[Need] {
        match self.doing.get(&rank) {
            Some(Doing::Waits { needs, .. }) => needs,
            _ => &[],
        }
    }

    /// Where most ranks are in one collective call: the few that are elsewhere.
    fn odd_ones_of_a_collective(&self, ranks: &BTreeSet<Rank>) -> Option<BTreeSet<Rank>> {
        let gathered = |rank: &Rank| Some((*rank, self.gathering(*rank)?));
        let all: Vec<(Rank, &Gathering)> = self.doing.keys().filter_map(gathered).collect();
        let party = |gathering: &Gathering| -> BTreeSet<Rank> {
            all.iter().filter(|(_, other)| gathering.fits(other)).map(|(rank, _)| *rank).collect()
        };
        let parties = all.iter().map(|(_, gathering)| (*gathering, party(gathering)));
        // Among equals the first: max_by_key would take the last.
        let (most, party) = parties.rev().max_by_key(|(_, party)| party.len())?;
        let expected = self.members(most.comm);
        let odd: BTreeSet<Rank> =
            expected.difference(&party).copied().filter(|rank| ranks.contains(rank)).collect();
        // As many on both sides: who is wrong cannot be told.
        let is_minority = odd.len() < party.len();
        (is_minority && !odd.is_empty() && !ranks.is_disjoint(&party)).then_some(odd)
    }
}

impl Cause {
    fn of(fault: Fault, at_fault: BTreeSet<Rank>) -> Self {
        Self { fault, at_fault, held_up: BTreeSet::new() }
    }
}

/// Whether what two ranks wait for is the same message, or the same collective call.
fn fit(rank: Rank, need: &Need, peer: Rank, other: &Need) -> bool {
    let same_message = |send: &Message, from: Rank, receive: &Message, to: Rank| {
        send.comm == receive.comm
            && send.peer == Some(to)
            && receive.peer.is_none_or(|source| source == from)
            && (receive.tag.is_none() || receive.tag == send.tag)
    };
    match (need, other) {
        (Need::Send(send), Need::Receive(receive)) => same_message(send, rank, receive, peer),
        (Need::Receive(receive), Need::Send(send)) => same_message(send, peer, receive, rank),
        (Need::Collective(a), Need::Collective(b)) => a.fits(b),
        _ => false,
    }
}

/// Ranks that reach one of `to`, but for these.
fn reaching(to: &BTreeSet<Rank>, waits: &BTreeMap<Rank, BTreeSet<Rank>>) -> BTreeSet<Rank> {
    let mut reached = to.clone();
    loop {
        let more: Vec<Rank> = waits
            .iter()
            .filter(|(rank, peers)| !reached.contains(rank) && !peers.is_disjoint(&reached))
            .map(|(rank, _)| *rank)
            .collect();
        if more.is_empty() {
            return reached.difference(to).copied().collect();
        }
        reached.extend(more);
    }
}

/// Strongly connected components of the ranks that wait for each other.
fn components(ranks: &BTreeSet<Rank>, waits: &BTreeMap<Rank, BTreeSet<Rank>>) -> Vec<BTreeSet<Rank>> {
    let mut graph = DiGraphMap::<Rank, ()>::new();
    for &rank in ranks {
        graph.add_node(rank);
        for &to in waits[&rank].intersection(ranks) {
            graph.add_edge(rank, to, ());
        }
    }
    kosaraju_scc(&graph).into_iter().map(|component| component.into_iter().collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORLD: u64 = 0;

    fn receive(peer: Rank) -> Need {
        Need::Receive(Message { peer: Some(peer), tag: Some(0), comm: WORLD })
    }

    fn send(peer: Rank) -> Need {
        Need::Send(Message { peer: Some(peer), tag: Some(0), comm: WORLD })
    }

    fn gathering(function: &str) -> Need {
        Need::Collective(Gathering { function: function.into(), comm: WORLD, root: None, op: None })
    }

    fn waits(need: Need) -> Doing {
        Doing::Waits { needs: vec![need], any: false }
    }

    fn causes(doing: Vec<Doing>) -> Vec<(Fault, Vec<Rank>, Vec<Rank>)> {
        let doing: BTreeMap<Rank, Doing> = (0..).zip(doing).collect();
        let members = BTreeMap::from([(WORLD, doing.keys().copied().collect())]);
        let list = |set: BTreeSet<Rank>| set.into_iter().collect::<Vec<_>>();
        let found = Job { doing: &doing, members: &members }.causes();
        found.into_iter().map(|c| (c.fault, list(c.at_fault), list(c.held_up))).collect()
    }

    #[test]
    fn two_that_receive_from_each_other_are_a_deadlock_and_others_only_wait() {
        let found = causes(vec![waits(receive(1)), waits(receive(0)), waits(receive(1)), Doing::Moves]);
        assert_eq!(found, [(Fault::Deadlock, vec![0, 1], vec![2])]);
    }

    #[test]
    fn whoever_waits_for_a_rank_that_computes_is_no_fault() {
        assert_eq!(
            causes(vec![Doing::Moves, waits(receive(0)), waits(receive(1)), waits(gathering("MPI_Barrier"))]),
            []
        );
    }

    #[test]
    fn a_message_that_is_about_to_arrive_is_no_fault() {
        assert_eq!(causes(vec![waits(send(1)), waits(receive(0))]), []);
    }

    #[test]
    fn another_tag_or_communicator_is_another_message() {
        let tag = |tag, comm| Need::Receive(Message { peer: Some(0), tag: Some(tag), comm });
        for need in [tag(1, WORLD), tag(0, 7)] {
            let found = causes(vec![waits(send(1)), waits(need)]);
            assert_eq!(found, [(Fault::Deadlock, vec![0, 1], vec![])]);
        }
        let any = Need::Receive(Message { peer: None, tag: None, comm: WORLD });
        assert_eq!(causes(vec![waits(send(1)), waits(any)]), []);
    }

    #[test]
    fn a_message_from_a_rank_that_ended_is_missing() {
        let found = causes(vec![Doing::Ended { well: true }, waits(receive(0)), waits(receive(1))]);
        assert_eq!(found, [(Fault::MissingMessage, vec![0, 1], vec![2])]);
        let found = causes(vec![
            waits(Need::Collective(Gathering::at_the_end(WORLD))),
            waits(receive(0)),
            waits(Need::Collective(Gathering::at_the_end(WORLD))),
        ]);
        assert_eq!(found, [(Fault::MissingMessage, vec![0, 1], vec![2])]);
    }

    #[test]
    fn a_rank_that_died_is_the_one_at_fault() {
        let found =
            causes(vec![Doing::Ended { well: false }, waits(gathering("MPI_Barrier")), waits(receive(1))]);
        assert_eq!(found, [(Fault::Crash, vec![0], vec![1, 2])]);
    }

    #[test]
    fn the_one_in_another_collective_is_named() {
        let barrier = || waits(gathering("MPI_Barrier"));
        let found = causes(vec![barrier(), barrier(), waits(gathering("MPI_Bcast")), barrier()]);
        assert_eq!(found, [(Fault::MismatchedCollective, vec![2], vec![0, 1, 3])]);
        let found = causes(vec![barrier(), barrier(), waits(receive(1)), barrier()]);
        assert_eq!(found, [(Fault::MissingMessage, vec![1, 2], vec![0, 3])]);
    }

    #[test]
    fn one_of_two_that_met_different_calls_is_a_matter_of_the_message() {
        let found = causes(vec![waits(gathering("MPI_Barrier")), waits(receive(0))]);
        assert_eq!(found, [(Fault::MissingMessage, vec![0, 1], vec![])]);
        let found = causes(vec![waits(gathering("MPI_Barrier")), waits(gathering("MPI_Bcast"))]);
        assert_eq!(found, [(Fault::MismatchedCollective, vec![0, 1], vec![])]);
    }

    #[test]
    fn a_rank_that_named_the_wrong_partner_is_named_alone() {
        let end = || waits(Need::Collective(Gathering::at_the_end(WORLD)));
        let found = causes(vec![waits(send(1)), waits(receive(2)), end()]);
        assert_eq!(found, [(Fault::MissingMessage, vec![1], vec![0, 2])]);
        let found = causes(vec![waits(send(2)), waits(receive(0)), end()]);
        assert_eq!(found, [(Fault::MissingMessage, vec![0], vec![1, 2])]);
    }

    #[test]
    fn who_skipped_what_all_others_are_in_is_named() {
        let barrier = || waits(gathering("MPI_Barrier"));
        let end = waits(Need::Collective(Gathering::at_the_end(WORLD)));
        let found = causes(vec![barrier(), end, barrier()]);
        assert_eq!(found, [(Fault::MismatchedCollective, vec![1], vec![0, 2])]);
    }

    #[test]
    fn who_left_a_rooted_collective_already_holds_nobody_up_while_another_computes() {
        // Rank 1 is through with the reduction and waits for the root, which waits for rank 2.
        let reduce = || waits(gathering("MPI_Reduce"));
        assert_eq!(causes(vec![reduce(), waits(receive(0)), Doing::Moves]), []);
        let found = causes(vec![reduce(), waits(receive(0)), reduce()]);
        assert_eq!(found, [(Fault::MissingMessage, vec![0, 1], vec![2])]);
    }

    #[test]
    fn who_left_any_collective_already_holds_nobody_up_while_another_may_be_at_work_in_it() {
        // Rank 1 is through and waits for rank 0, which waits for what rank 2, slow or stopped in there, has to send.
        assert_eq!(causes(vec![waits(gathering("MPI_Barrier")), waits(receive(0)), Doing::Moves]), []);
        // Nobody goes on after the end.
        let end = waits(Need::Collective(Gathering::at_the_end(WORLD)));
        let found = causes(vec![end, waits(receive(0)), Doing::Moves]);
        assert_eq!(found, [(Fault::MissingMessage, vec![0, 1], vec![])]);
    }

    #[test]
    fn a_rank_that_nothing_is_known_of_may_always_move() {
        assert_eq!(causes(vec![waits(receive(9)), waits(receive(0))]), []);
        let either = Doing::Waits { needs: vec![receive(9), receive(1)], any: true };
        assert_eq!(causes(vec![either, waits(receive(0))]), []);
    }

    #[test]
    fn from_anybody_is_no_deadlock_while_somebody_may_send() {
        let any = || waits(Need::Receive(Message { peer: None, tag: None, comm: WORLD }));
        assert_eq!(causes(vec![any(), waits(receive(0)), Doing::Moves]), []);
        assert_eq!(causes(vec![any(), any(), any()]), [(Fault::Deadlock, vec![0, 1, 2], vec![])]);
    }

    #[test]
    fn all_of_several_requests_are_needed_or_any() {
        let both = |any| Doing::Waits { needs: vec![receive(1), receive(2)], any };
        assert_eq!(causes(vec![both(true), waits(receive(0)), Doing::Moves]), []);
        let found = causes(vec![both(false), waits(receive(0)), Doing::Moves]);
        assert_eq!(found, [(Fault::Deadlock, vec![0, 1], vec![])]);
    }

    #[test]
    fn who_waits_for_a_lock_waits_for_its_holder_or_for_any_rank_of_the_window() {
        let lock =
            |holders: &[Rank]| waits(Need::Lock { comm: WORLD, holders: holders.iter().copied().collect() });
        let barrier = || waits(gathering("MPI_Barrier"));
        let found = causes(vec![barrier(), lock(&[0]), barrier()]);
        assert_eq!(found, [(Fault::Deadlock, vec![0, 1], vec![2])]);
        let found = causes(vec![barrier(), lock(&[]), barrier()]);
        assert_eq!(found, [(Fault::Deadlock, vec![0, 1, 2], vec![])]);
        assert_eq!(causes(vec![barrier(), lock(&[]), Doing::Moves]), []);
        assert_eq!(causes(vec![Doing::Moves, lock(&[0]), barrier()]), []);
        // All hold a lock; it is the data that rank 2 does not move on, as long as it computes.
        assert_eq!(causes(vec![barrier(), lock(&[0]), Doing::Moves]), []);
        assert_eq!(causes(vec![lock(&[1]), lock(&[0])]), [(Fault::Deadlock, vec![0, 1], vec![])]);
    }

    #[test]
    fn one_that_is_stopped_or_does_nothing_holds_the_others_up() {
        assert_eq!(causes(vec![Doing::Stopped, waits(receive(0))]), [(Fault::Stopped, vec![0], vec![1])]);
        assert_eq!(causes(vec![Doing::Outside, waits(receive(0))]), [(Fault::Outside, vec![0], vec![1])]);
        assert_eq!(causes(vec![Doing::Stopped, Doing::Moves]), []);
    }
}
