//! What a rank does, from how it was found: it moves, waits for something, or does nothing.

use std::collections::BTreeSet;

use super::arguments::ArgumentReader;
use super::communicators::{SampledCommunicators, WORLD, number_of};
use super::dependency::{CollectiveOp, Dependency, Message, Rank, RankActivity};
use super::progress::Observation;
use super::view::{JobView, RankState, call_of};
use crate::hang::locks::HeldLock;
use crate::job::messages::CommId;
use crate::mpi::calls::{self, CallRow, Envelope, LockStep, Waiting, WindowSync};
use crate::tape::input::CallInProgress;

/// The lock that a rank is asking for, if its call was recorded: the last one.
fn asked<'a>(state: &RankState<'a>) -> Option<&'a HeldLock> {
    let row = call_of(state).and_then(|call| calls::row(&call.function));
    let asks = row.and_then(CallRow::lock_step) == Some(LockStep::Takes);
    state.locks.last().filter(|_| asks)
}

/// Who holds locks that are in the way of one that a rank asks for.
fn holders(rank: Rank, view: &JobView<'_>) -> BTreeSet<Rank> {
    let Some(wanted) = view.ranks.get(&rank).and_then(asked) else { return BTreeSet::new() };
    let Ok(ranks) = view.work.spend(view.ranks.len()).map(|()| &view.ranks) else { return BTreeSet::new() };
    let is_in_the_way = |state: &RankState<'_>| {
        let held = state.locks.len() - usize::from(asked(state).is_some());
        let _ = view.work.spend(held);
        state.locks[..held].iter().any(|lock| lock.excludes(wanted))
    };
    let others = ranks.iter().filter(|(other, state)| **other != rank && is_in_the_way(state));
    others.map(|(other, _)| *other).collect()
}

/// What a rank does.
pub(super) fn activity(rank: Rank, view: &JobView<'_>, communicators: &SampledCommunicators) -> RankActivity {
    let state = &view.ranks[&rank];
    if let Some(well) = state.ended {
        return RankActivity::Ended { well };
    }
    match state.still {
        None | Some((Observation::Moves, _)) => RankActivity::Moves,
        Some((Observation::Outside(_), _)) => RankActivity::Outside,
        Some((Observation::Stopped(_), _)) => RankActivity::Stopped,
        Some((Observation::InCall(thread), _)) => {
            let call = thread.call.as_ref();
            let reader = call.and_then(|call| {
                ArgumentReader::of(call, state.pid, Some(&view.job.messages), communicators, &view.work)
            });
            call.zip(reader)
                .and_then(|(call, reader)| waits(call, &reader, &|| holders(rank, view)))
                .unwrap_or(RankActivity::Moves)
        }
    }
}

/// What a call waits for; `None`: for nothing that is known here.
/// `holders`: of locks that are in the way, if it asks for one.
fn waits(
    call: &CallInProgress,
    reader: &ArgumentReader<'_>,
    holders: &dyn Fn() -> BTreeSet<Rank>,
) -> Option<RankActivity> {
    let row = calls::row(&call.function)?;
    let all = |dependencies| Some(RankActivity::Waits { dependencies, any: false });
    // Who only asks would have gone on by now: see `progress`.
    match row.awaits()? {
        Waiting::Send(envelope) => all(vec![Dependency::Send(reader.sent(envelope)?)]),
        Waiting::Receive(envelope) => all(vec![Dependency::Receive(reader.received(envelope)?)]),
        Waiting::Exchange { send, receive } => {
            let sent = reader.sent(send).map(Dependency::Send);
            let received = reader.received(receive).map(Dependency::Receive);
            // One side with nobody is no side.
            let nobody = |envelope: Envelope| reader.integer(envelope.peer) == Some(reader.proc_null());
            let sides: Vec<Dependency> = sent.into_iter().chain(received).collect();
            let known = sides.len() + usize::from(nobody(send)) + usize::from(nobody(receive));
            // One of the two may be over: which is not known, so either side may release it.
            if sides.is_empty() || known < 2 {
                None
            } else {
                Some(RankActivity::Waits { dependencies: sides, any: true })
            }
        }
        Waiting::Requests { all, .. } => reader.requested(&call.requests, all),
        Waiting::Collective(collective) => {
            let now = reader.position_of_last(row, collective);
            all(vec![Dependency::Collective(reader.collective(row, collective, now)?)])
        }
        Waiting::Finalize => all(vec![Dependency::Collective(CollectiveOp::finalize(WORLD))]),
        Waiting::Window { win, group, sync } => {
            let (comm, _) = reader.communicator(reader.word(win)?)?;
            let epoch_of = |peer| Dependency::Receive(Message { peer, tag: None, comm });
            let step = match sync {
                WindowSync::Lock(_) => return all(vec![Dependency::Lock { comm, holders: holders() }]),
                WindowSync::Epoch(step) => step,
            };
            let missing = reader.missing_in_epoch(win, step).unwrap_or_default();
            if !missing.is_empty() {
                return all(missing.into_iter().map(|rank| epoch_of(Some(rank))).collect());
            }
            match group.and_then(|at| reader.group(at)) {
                None => all(vec![epoch_of(None)]),
                // All of them are to open theirs; who has done so already is not known.
                Some(group) => {
                    let dependencies = group.iter().map(|rank| epoch_of(Some(*rank))).collect();
                    Some(RankActivity::Waits { dependencies, any: true })
                }
            }
        }
    }
}

/// How many collective calls on a communicator a rank certainly waits for.
pub(super) fn collective_waits(activity: &RankActivity, comm: CommId) -> u64 {
    let RankActivity::Waits { dependencies, any: false } = activity else { return 0 };
    let is_on = |dependency: &&Dependency| matches!(dependency, Dependency::Collective(call) if call.comm == number_of(comm));
    dependencies.iter().filter(is_on).count() as u64
}

/// Whether it is known which communicator a call names; `None`: it names none.
pub(super) fn knows_communicator(
    call: &CallInProgress,
    pid: u32,
    view: &JobView<'_>,
    communicators: &SampledCommunicators,
) -> Option<bool> {
    let row = calls::row(&call.function)?;
    let reader = ArgumentReader::of(call, pid, Some(&view.job.messages), communicators, &view.work);
    reader.map_or(Some(false), |reader| reader.knows_communicator(row))
}
