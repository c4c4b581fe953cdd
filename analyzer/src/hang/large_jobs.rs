//! What the analysis of hangs costs where there are many ranks or many requests, counted in steps.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::dependency::{Arrivals, CollectiveOp, Dependency, Message, Rank, RankActivity};
use super::localize::HangCause;
use super::step_budget::{StepBudget, TooLarge};
use super::wait_for::WaitForGraph;
use crate::findings::finding::Fault;

const WORLD: u64 = 0;
/// As many as are believed to be in a job.
const MANY: u32 = 1 << 17;

fn receive(peer: Option<Rank>, tag: i32) -> Dependency {
    Dependency::Receive(Message { peer, tag: Some(tag), comm: WORLD })
}

fn send(peer: Rank, tag: i32) -> Dependency {
    Dependency::Send(Message { peer: Some(peer), tag: Some(tag), comm: WORLD })
}

fn waits(dependencies: impl IntoIterator<Item = Dependency>) -> RankActivity {
    RankActivity::Waits { dependencies: dependencies.into_iter().collect(), any: false }
}

fn collective(root: Option<i32>, arrived: Option<&Rc<Arrivals>>) -> RankActivity {
    let function = "MPI_Bcast".to_owned();
    waits([Dependency::Collective(CollectiveOp {
        function,
        comm: WORLD,
        root,
        op: None,
        arrived: arrived.cloned(),
        is_finalize: false,
    })])
}

/// Causes, and steps that it took to find them.
fn causes(activities: impl IntoIterator<Item = RankActivity>) -> (Result<Vec<HangCause>, TooLarge>, u64) {
    let activities: BTreeMap<Rank, RankActivity> = (0..).zip(activities).collect();
    let members = BTreeMap::from([(WORLD, activities.keys().copied().collect())]);
    let work = StepBudget::default();
    let found = WaitForGraph::new(&activities, &members, &work).causes().map(|(causes, _)| causes);
    (found, work.spent())
}

#[test]
fn ranks_that_gather_in_a_collective_cost_some_steps_each() {
    let gathered = || (1..MANY).map(|_| collective(Some(0), None));
    let (found, steps) = causes(gathered().chain([RankActivity::Moves]));
    assert_eq!(found, Ok(vec![]));
    assert!(steps <= 10 * u64::from(MANY), "{steps}");
    let (found, steps) = causes(gathered().chain([waits([receive(Some(0), 0)])]));
    let found = found.expect("it is no more than the ranks");
    assert_eq!(
        (found.len(), found[0].fault, found[0].held_up.len()),
        (1, Fault::MissingMessage, MANY as usize - 2)
    );
    assert!(steps <= 40 * u64::from(MANY), "{steps}");
}

#[test]
fn who_has_arrived_is_one_set_for_all() {
    let arrived = Rc::new(Arrivals { started: (0..MANY - 1).collect(), ..Arrivals::default() });
    let gathered = (1..MANY).map(|_| collective(None, Some(&arrived)));
    let (found, steps) = causes(gathered.chain([waits([receive(Some(0), 0)])]));
    assert_eq!(found.expect("it is no more than the ranks")[0].fault, Fault::MissingMessage);
    assert!(steps <= 40 * u64::from(MANY), "{steps}");
}

#[test]
fn chains_of_ranks_cost_some_steps_each_in_both_directions() {
    let up = (0..MANY).map(|rank| match rank {
        0 => RankActivity::Moves,
        _ => waits([receive(Some(rank - 1), 0)]),
    });
    let down = (0..MANY).map(|rank| match rank {
        rank if rank == MANY - 1 => RankActivity::Moves,
        _ => waits([receive(Some(rank + 1), 0)]),
    });
    for activities in [up.collect::<Vec<_>>(), down.collect()] {
        let (found, steps) = causes(activities);
        assert_eq!(found, Ok(vec![]));
        assert!(steps <= 10 * u64::from(MANY), "{steps}");
    }
}

#[test]
fn requests_of_two_ranks_are_not_compared_each_with_each() {
    const REQUESTS: i32 = 1 << 14;
    let sends = waits((0..REQUESTS).map(|tag| send(1, tag)));
    let receives = waits((0..REQUESTS).map(|tag| receive(Some(0), REQUESTS + tag)));
    let (found, steps) = causes([sends, receives]);
    let found = found.expect("it is no more than the requests");
    assert_eq!((found.len(), found[0].fault), (1, Fault::Deadlock));
    assert!(steps <= 20 * REQUESTS as u64, "{steps}");
}

#[test]
fn what_is_too_large_is_cut_off() {
    let most = StepBudget::default().most();
    let other_roots = (0..MANY as i32).map(|root| collective(Some(root), None));
    assert_eq!(causes(other_roots), (Err(TooLarge), most));
    let many_of_each = (0..2000).map(|_| waits((0..2000).map(|tag| receive(Some(tag), 0))));
    assert!(causes(many_of_each).1 <= most);
}

#[test]
fn ranks_that_all_receive_from_anybody_cost_some_steps_each() {
    let (found, steps) = causes((0..MANY).map(|_| waits([receive(None, 0)])));
    let found = found.expect("it is no more than the ranks");
    assert_eq!((found.len(), found[0].fault, found[0].at_fault.len()), (1, Fault::Deadlock, MANY as usize));
    assert!(steps <= 20 * u64::from(MANY), "{steps}");
}

#[test]
fn halves_of_a_job_that_wait_for_each_other_cost_some_steps_each() {
    let barrier = |function: &str| {
        let function = function.to_owned();
        waits([Dependency::Collective(CollectiveOp { function, comm: WORLD, ..CollectiveOp::default() })])
    };
    let halves =
        (0..MANY).map(|rank| barrier(if rank.is_multiple_of(2) { "MPI_Barrier" } else { "MPI_Bcast" }));
    let (found, steps) = causes(halves);
    let found = found.expect("it is no more than the ranks");
    assert_eq!((found.len(), found[0].fault), (1, Fault::MismatchedCollective));
    assert!(steps <= 40 * u64::from(MANY), "{steps}");
}

#[test]
fn thousands_of_pairs_that_wait_for_each_other_are_one_cause() {
    let pairs = |count: u32| causes((0..count).map(|rank| waits([receive(Some(rank ^ 1), 0)])));
    assert_eq!(pairs(8).0.expect("they are few").len(), 4);
    let (found, steps) = pairs(MANY);
    let found = found.expect("it is no more than the ranks");
    assert_eq!((found.len(), found[0].fault, found[0].at_fault.len()), (1, Fault::Deadlock, MANY as usize));
    assert!(steps <= 20 * u64::from(MANY), "{steps}");
}

#[test]
fn ranks_that_ended_while_others_wait_for_them_are_one_cause() {
    for end in [RankActivity::Ended { well: true }, RankActivity::Stopped, RankActivity::Outside] {
        let half = |rank: u32| if rank.is_multiple_of(2) { end.clone() } else { collective(Some(0), None) };
        let (found, steps) = causes((0..MANY).map(half));
        assert_eq!(found.expect("it is no more than the ranks").len(), 1, "{end:?}");
        assert!(steps <= 40 * u64::from(MANY), "{steps}");
    }
}
