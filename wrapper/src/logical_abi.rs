//! What the shim calls in deterministic runs: see `logical.h`.

use std::ffi::{c_char, c_int, c_uint};
use std::sync::atomic::Ordering;

use replay::logical::RankSet;

use crate::c_abi::with;
use crate::logical::{CallEnvelope, LogicalQuestion, LogicalRank, LogicalRequest};
use crate::mode::{WishedAction, wish};
use crate::rank_parts::RankWork;
use crate::refusal::refuse;

/// Of a number: none.
const NONE: c_int = -1;

fn logical<T>(otherwise: T, act: impl FnOnce(&mut LogicalRank) -> T) -> T {
    let mut act = Some(act);
    let done = with(None, |rank| match &mut rank.work {
        RankWork::Logical(rank) => act.take().map(|act| act(rank)),
        _ => None,
    });
    done.unwrap_or(otherwise)
}

fn envelope(comm: c_uint, source: c_int, tag: c_int) -> CallEnvelope {
    CallEnvelope { comm, source: u32::try_from(source).ok(), tag: (tag >= 0).then_some(tag) }
}

/// # Safety
/// There are so many.
unsafe fn list<T: Copy>(count: c_int, first: *const T) -> Vec<T> {
    match usize::try_from(count) {
        // SAFETY: the caller's promise.
        Ok(count) if count > 0 => unsafe { std::slice::from_raw_parts(first, count) }.to_vec(),
        _ => Vec::new(),
    }
}

/// Whether a deterministic run is wished: before the rank begins.
#[unsafe(no_mangle)]
extern "C" fn dms_is_logical() -> c_int {
    wish().is_some_and(|wish| wish.action == WishedAction::Deterministic).into()
}

/// Whether this rank is in one, outside of a call that is looked at.
#[unsafe(no_mangle)]
extern "C" fn dms_is_in_logical_run() -> c_int {
    with(0, |rank| c_int::from(matches!(rank.work, RankWork::Logical(_)) && !rank.is_in_call()))
}

/// What a deterministic run is ended for: it could not be one, or would not end. Numbers are those of `dms_uncovered` and `shim.h`.
const REFUSED: [(c_uint, &str); 4] = [
    (0, "windows by exclusive locks, or with epochs for groups (MPI_Win_lock, MPI_Win_post, MPI_Win_start)"),
    (1, "processes that it spawns or connects to"),
    (2, "file pointers that ranks share (MPI_File_write_shared and the like): who comes first is chance"),
    (6, "MPI_Parrived"),
];

/// Ends a deterministic run that uses one of these.
#[unsafe(no_mangle)]
extern "C" fn dms_refuse(what: c_uint) {
    let Some(wish) = wish().filter(|wish| wish.action == WishedAction::Deterministic) else { return };
    let refused = REFUSED.iter().find(|(number, _)| *number == what);
    if let Some((_, what)) = refused {
        let rank = with(0, |rank| rank.page().rank.load(Ordering::Relaxed));
        refuse(&wish, rank, &format!("the job uses {what}: there are no deterministic runs with these"));
    }
}

/// A number for the meetings of a group of ranks of the world, or none.
///
/// # Safety
/// There are so many.
#[unsafe(no_mangle)]
unsafe extern "C" fn dms_group(count: c_int, ranks: *const c_int, tag: c_int) -> c_int {
    // SAFETY: the caller's promise.
    let ranks = unsafe { list(count, ranks) }.into_iter().map(|rank| rank as u32).collect();
    logical(NONE, |rank| rank.group(ranks, tag).map_or(NONE, |comm| comm as c_int))
}

/// A number for a new communicator, or none.
#[unsafe(no_mangle)]
extern "C" fn dms_new_comm() -> c_int {
    logical(NONE, |rank| rank.new_comm().map_or(NONE, |comm| comm as c_int))
}

/// A communicator is there: the ranks of the world that can send to this one, and all that are in it.
///
/// # Safety
/// There are so many of each.
#[unsafe(no_mangle)]
unsafe extern "C" fn dms_add_comm(
    comm: c_uint,
    senders: c_int,
    group: *const c_int,
    count: c_int,
    members: *const c_int,
) {
    // SAFETY: the caller's promise.
    let (group, members) = unsafe { (list(senders, group), list(count, members)) };
    let ranks = |list: Vec<c_int>| list.into_iter().map(|rank| rank as u32);
    logical((), |rank| rank.add_comm(comm, ranks(group).collect(), ranks(members).collect::<RankSet>()));
}

#[unsafe(no_mangle)]
extern "C" fn dms_remove_comm(comm: c_uint) {
    logical((), |rank| rank.remove_comm(comm));
}

/// Announces a message to a rank of the world; 0: there is no room yet.
#[unsafe(no_mangle)]
extern "C" fn dms_announce(to: c_int, comm: c_uint, tag: c_int) -> c_int {
    logical(1, |rank| u32::try_from(to).is_ok_and(|to| rank.announce(to, comm, tag)).into())
}

/// All that the call sends is announced.
#[unsafe(no_mangle)]
extern "C" fn dms_announced() {
    logical((), |rank| rank.publish());
}

/// A receive is posted at a place of the shim's table. 1: MPI can be given it at once, as it is.
#[unsafe(no_mangle)]
extern "C" fn dms_post(place: c_uint, comm: c_uint, source: c_int, tag: c_int) -> c_int {
    logical(1, |rank| rank.post(place, envelope(comm, source, tag)).into())
}

/// The next receive that was decided: its place, or none.
///
/// # Safety
/// Source and tag can be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn dms_next_decided(source: *mut c_int, tag: *mut c_int) -> c_int {
    let Some((place, decision)) = logical(None, LogicalRank::next_decided) else { return NONE };
    // SAFETY: the caller's promise.
    unsafe {
        *source = decision.source as c_int;
        *tag = decision.tag;
    }
    place as c_int
}

#[unsafe(no_mangle)]
extern "C" fn dms_forget_receive(place: c_uint) {
    logical((), |rank| rank.forget(place));
}

#[unsafe(no_mangle)]
extern "C" fn dms_receive_cancelled(place: c_uint) {
    logical((), |rank| rank.cancelled(place));
}

/// Whether it is known whose message a receive gets.
#[unsafe(no_mangle)]
extern "C" fn dms_is_decided(place: c_uint) -> c_int {
    logical(0, |rank| rank.source_of(place).is_some().into())
}

/// A matched probe takes its message.
#[unsafe(no_mangle)]
extern "C" fn dms_take(comm: c_uint, source: c_int, tag: c_int) {
    logical((), |rank| rank.take(comm, source as u32, tag));
}

/// A request is active from now on: a receive, or anything else; its place in the shim's table, if it has one.
#[unsafe(no_mangle)]
extern "C" fn dms_add_request(bits: u64, place: c_int, receives: c_int) {
    logical((), |rank| match u32::try_from(place) {
        Ok(place) if receives != 0 => rank.add_request(bits, LogicalRequest::Receive(place)),
        place => rank.start(bits, place.ok()),
    });
}

/// It is persistent: active only while it is added.
#[unsafe(no_mangle)]
extern "C" fn dms_add_persistent(bits: u64) {
    logical((), |rank| rank.add_persistent(bits));
}

#[unsafe(no_mangle)]
extern "C" fn dms_remove_persistent(bits: u64) {
    logical((), |rank| rank.remove_persistent(bits));
}

/// It is active no more.
#[unsafe(no_mangle)]
extern "C" fn dms_remove_request(bits: u64) {
    logical((), |rank| _ = rank.remove_request(bits));
}

/// The place of an active request; -1: it has none, -2: it is not active.
#[unsafe(no_mangle)]
extern "C" fn dms_request(bits: u64) -> c_int {
    const INACTIVE: c_int = -2;
    logical(NONE, |rank| match rank.request(bits) {
        Some(LogicalRequest::Receive(place) | LogicalRequest::Other { place: Some(place), .. }) => {
            place as c_int
        }
        Some(LogicalRequest::Other { place: None, .. }) => NONE,
        None => INACTIVE,
    })
}

#[unsafe(no_mangle)]
extern "C" fn dms_put_off(bits: u64) {
    logical((), |rank| rank.put_off(bits));
}

// ---- Questions ----------------------------------------------------------------------------------------------------

#[unsafe(no_mangle)]
extern "C" fn dms_ask_receive(place: c_uint) {
    logical((), |rank| rank.ask(LogicalQuestion::Receive(place)));
}

#[unsafe(no_mangle)]
extern "C" fn dms_ask_cancel(place: c_uint) {
    logical((), |rank| rank.ask(LogicalQuestion::Cancel(place)));
}

/// A probe, or a poll that is one.
#[unsafe(no_mangle)]
extern "C" fn dms_ask_probe(comm: c_uint, source: c_int, tag: c_int, polls: c_int) {
    let envelope = envelope(comm, source, tag);
    logical((), |rank| {
        rank.ask(if polls != 0 { LogicalQuestion::Poll(envelope) } else { LogicalQuestion::Probe(envelope) });
    });
}

/// Comes to a collective call, and asks whether all have.
#[unsafe(no_mangle)]
extern "C" fn dms_ask_meeting(comm: c_uint) {
    logical((), |rank| {
        let meeting = rank.come(comm);
        rank.ask(LogicalQuestion::Meeting { comm, meeting });
    });
}

/// Requests: `what` is `A` for any, `a` to test for any, `l` for all, `s` for some.
///
/// # Safety
/// There are so many.
#[unsafe(no_mangle)]
unsafe extern "C" fn dms_ask_requests(what: c_char, count: c_int, requests: *const u64) {
    // SAFETY: the caller's promise.
    let all = unsafe { list(count, requests) };
    logical((), |rank| {
        rank.ask(match what as u8 {
            b'A' => LogicalQuestion::Any(all),
            b'a' => LogicalQuestion::TestAny(all),
            b'l' => LogicalQuestion::TestAll(all),
            _ => LogicalQuestion::TestSome(all),
        });
    });
}

/// MPI is asked, until it says yes; a test may be put off.
#[unsafe(no_mangle)]
extern "C" fn dms_ask_mpi(is_test: c_int) {
    logical((), |rank| rank.ask(LogicalQuestion::Mpi { is_test: is_test != 0 }));
}

#[unsafe(no_mangle)]
extern "C" fn dms_stop_asking() {
    logical((), LogicalRank::stop_asking);
}

/// Looks again: 1: the question is answered; 2 is added if receives were decided.
#[unsafe(no_mangle)]
extern "C" fn dms_turn() -> c_int {
    logical(1, |rank| c_int::from(rank.turn()) + 2 * c_int::from(rank.has_decided()))
}

/// How many numbers the answer has.
#[unsafe(no_mangle)]
extern "C" fn dms_values() -> c_int {
    logical(0, |rank| rank.values() as c_int)
}

#[unsafe(no_mangle)]
extern "C" fn dms_value(at: c_uint) -> c_int {
    logical(NONE, |rank| rank.value(at as usize))
}
