//! What the shim calls. Numbers are those of `shim.h`.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::time::Duration;

use replay::shared_page::PageState;
use replay::{Answer, AskedFor, Due, ReceiveEnd};

use crate::mode::wish;
use crate::rank::{self, PostDue, ThisRank};
use crate::rank_parts::{Introduction, RankWork};
use crate::{clocks, early_clocks, node, plain_calls, thread, threads};

const DUE_ANYTHING: c_int = 0;
const DUE_NO: c_int = 1;
const DUE_YES: c_int = 2;
/// Not for the shim.
const DUE_NO_IN_VAIN: c_int = 3;
/// So long the answer takes then.
const POLL_IN_VAIN: Duration = Duration::from_millis(1);
/// Of a source or an index: none.
const NONE: c_int = -1;
/// Of a source: the receive was cancelled.
const CANCELLED: c_int = -2;

/// Does something with the rank, if there is one. Nothing leaves this but a value: a panic would end the job.
pub(crate) fn with<T>(otherwise: T, act: impl FnOnce(&mut ThisRank) -> T) -> T {
    let act = || rank::rank().map(|mut rank| act(&mut rank));
    catch_unwind(AssertUnwindSafe(act)).ok().flatten().unwrap_or(otherwise)
}

fn recorder(act: impl FnOnce(&mut crate::recorder::AnswerRecorder)) {
    with((), |rank| {
        if let Some(recorder) = rank.recorder() {
            act(recorder);
        }
    });
}

fn optional(number: c_int) -> Option<u32> {
    u32::try_from(number).ok()
}

fn arrival(source: c_int) -> ReceiveEnd {
    match (source, optional(source)) {
        (CANCELLED, _) => ReceiveEnd::Cancelled,
        (_, Some(source)) => ReceiveEnd::From(source),
        _ => ReceiveEnd::Unknown,
    }
}

/// MPI_Init begins, or has returned.
#[unsafe(no_mangle)]
extern "C" fn dms_init(begins: c_int) {
    early_clocks::init(begins != 0);
}

/// MPI_Init has returned, and the process is a rank.
///
/// # Safety
/// `library` is text that ends with a zero.
#[unsafe(no_mangle)]
unsafe extern "C" fn dms_begin(
    library: *const c_char,
    rank: c_int,
    size: c_int,
    level: c_int,
    spawned: c_int,
    on_this_node: c_int,
    null_request: u64,
) {
    // SAFETY: the caller's promise.
    let library = unsafe { CStr::from_ptr(library) }.to_string_lossy();
    let introduction = Introduction {
        library: library.lines().next().unwrap_or_default().to_owned(),
        rank: rank as u32,
        size: size as u32,
        thread_level: level as u32,
        is_spawned: spawned != 0,
        on_this_node: on_this_node as u32,
        null_request,
    };
    let _ = catch_unwind(|| rank::begin(&introduction));
}

/// The process begins.
#[unsafe(no_mangle)]
extern "C" fn dms_process_begins() {
    let _ = catch_unwind(|| {
        // What goes wrong is told when the process is known to be a rank.
        if let Some(wish) = wish() {
            let _ = node::join(&wish.folder);
        }
        early_clocks::process_begins();
        threads::process_begins();
    });
}

/// Somebody reads a clock; says what it is to show.
#[unsafe(no_mangle)]
extern "C" fn dms_clock(clock: c_uint, real: i64, return_address: usize, stack: usize) -> i64 {
    catch_unwind(|| clocks::read(clock as u8, real, return_address, stack)).unwrap_or(real)
}

/// A call begins; says how to treat it. If it is not passed, `dms_leave` ends it.
#[unsafe(no_mangle)]
extern "C" fn dms_enter(
    call: c_uint,
    first: c_int,
    second: c_int,
    third: c_int,
    return_address: usize,
    stack: usize,
) -> c_int {
    let arguments = [first, second, third];
    match plain_calls::enter(call, arguments, return_address as u64, stack) {
        Some(treatment) => treatment as c_int,
        None => enter_rank(call, first, second, third, return_address, stack),
    }
}

/// Not a part of `dms_enter`, which would save registers for it.
#[cold]
extern "C" fn enter_rank(
    call: c_uint,
    first: c_int,
    second: c_int,
    third: c_int,
    return_address: usize,
    stack: usize,
) -> c_int {
    let arguments = [first, second, third];
    with(None, |rank| Some(rank.enter(call, arguments, return_address as u64, stack)))
        .unwrap_or_else(rank::pass_others) as c_int
}

/// The call is about to end; zero: its turn has not come, it is to ask again after it has helped the library on.
#[unsafe(no_mangle)]
extern "C" fn dms_leave() -> c_int {
    if plain_calls::leave() { 1 } else { leave_rank() }
}

#[cold]
extern "C" fn leave_rank() -> c_int {
    with(1, |rank| rank.leave().into())
}

/// The call asks for something that the record decides.
///
/// # Safety
/// `value` can be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn dms_due(asked: u8, requests: c_int, value: *mut c_int) -> c_int {
    let (due, number) = with((DUE_ANYTHING, NONE), |rank| due(rank, asked, requests));
    let due = match due {
        DUE_NO_IN_VAIN => {
            // Others must go on first.
            std::thread::sleep(POLL_IN_VAIN);
            DUE_NO
        }
        due => due,
    };
    // SAFETY: the caller's promise.
    unsafe { *value = number };
    due
}

fn due(rank: &mut ThisRank, asked: u8, requests: c_int) -> (c_int, c_int) {
    let (RankWork::Replay(player), Some(asked)) = (&mut rank.work, AskedFor::of_number(asked)) else {
        return (DUE_ANYTHING, NONE);
    };
    let number = |value: Option<u32>| value.map_or(NONE, |value| value as c_int);
    let answer = match player.due(asked, requests.try_into().unwrap_or(0)) {
        Ok(Due::Answer(answer)) => answer,
        Ok(Due::Anything) => return (DUE_ANYTHING, NONE),
        Ok(Due::NoInVain) => {
            rank.does_not_count();
            return (DUE_NO_IN_VAIN, NONE);
        }
        Err(divergence) => {
            rank.diverge(&divergence.to_string());
            return (DUE_ANYTHING, NONE);
        }
    };
    match answer {
        Answer::No => (DUE_NO, NONE),
        Answer::Yes => (DUE_YES, NONE),
        Answer::From(source) => {
            rank.wait_for(number(source));
            (DUE_YES, number(source))
        }
        Answer::Index(index) => (DUE_YES, number(index)),
        Answer::Indices(None) => (DUE_YES, NONE),
        Answer::Indices(Some(indices)) => {
            let count = indices.len() as c_int;
            rank.thread().indices = indices;
            (DUE_YES, count)
        }
    }
}

/// The index at a place of the answer that was due last.
#[unsafe(no_mangle)]
extern "C" fn dms_due_index(at: c_int) -> c_int {
    with(NONE, |rank| {
        let index = usize::try_from(at).ok().and_then(|at| rank.thread().indices.get(at));
        index.map_or(NONE, |index| *index as c_int)
    })
}

/// A receive from anybody is about to be posted: the source it gets, none or cancelled.
#[unsafe(no_mangle)]
extern "C" fn dms_post_due() -> c_int {
    with(NONE, |rank| match &mut rank.work {
        RankWork::Replay(player) => match player.posted() {
            Some(ReceiveEnd::From(source)) => source as c_int,
            Some(ReceiveEnd::Cancelled) => CANCELLED,
            Some(ReceiveEnd::Unknown) | None => NONE,
        },
        RankWork::Record(_) | RankWork::Logical(_) => NONE,
    })
}

/// Says which source the call waits for.
#[unsafe(no_mangle)]
extern "C" fn dms_waits_for(source: c_int) {
    with((), |rank| rank.wait_for(source));
}

/// The program does something that the record does not have.
///
/// # Safety
/// `why` is text that ends with a zero.
#[unsafe(no_mangle)]
unsafe extern "C" fn dms_diverge(why: *const c_char) {
    // SAFETY: the caller's promise.
    let why = unsafe { CStr::from_ptr(why) }.to_string_lossy();
    with((), |rank| rank.diverge(&why));
}

#[unsafe(no_mangle)]
extern "C" fn dms_no() {
    with((), ThisRank::answer_no);
}

/// A poll has answered no, and the call ends.
#[unsafe(no_mangle)]
extern "C" fn dms_no_and_leave() {
    with((), |rank| {
        rank.answer_no();
        rank.leave();
    });
}

#[unsafe(no_mangle)]
extern "C" fn dms_yes() {
    recorder(|recorder| recorder.answer(Answer::Yes));
}

#[unsafe(no_mangle)]
extern "C" fn dms_from(source: c_int) {
    recorder(|recorder| recorder.answer(Answer::From(optional(source))));
}

#[unsafe(no_mangle)]
extern "C" fn dms_index(index: c_int) {
    recorder(|recorder| recorder.answer(Answer::Index(optional(index))));
}

/// Some requests are complete; a negative count: none was active.
///
/// # Safety
/// There are so many indices.
#[unsafe(no_mangle)]
unsafe extern "C" fn dms_indices(count: c_int, indices: *const c_int) {
    let indices = usize::try_from(count).ok().map(|count| {
        // SAFETY: the caller's promise.
        let indices = if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(indices, count) } };
        indices.iter().map(|index| *index as u32).collect()
    });
    recorder(|recorder| recorder.answer(Answer::Indices(indices)));
}

#[unsafe(no_mangle)]
extern "C" fn dms_posted(request: u64, class: u64) {
    recorder(|recorder| recorder.posted(request, class));
}

#[unsafe(no_mangle)]
extern "C" fn dms_decided(request: u64, source: c_int) -> c_int {
    let decided =
        |rank: &mut ThisRank| rank.recorder().map(|recorder| recorder.decided(request, arrival(source)));
    with(None, decided).unwrap_or(false).into()
}

/// Of a claimed request: it is no receive from anybody, or one whose message is known.
const NOT_POSTED: i64 = -1;
const DECIDED: i64 = -2;

/// A call may complete a request, which belongs to it from now on: the number of the receive from anybody that it is.
#[unsafe(no_mangle)]
extern "C" fn dms_claim(request: u64) -> i64 {
    let claimed = with(None, |rank| rank.recorder().and_then(|recorder| recorder.claim(request)));
    claimed.map_or(NOT_POSTED, |number| number.map_or(DECIDED, |number| number as i64))
}

/// A request is complete, if it is a receive from anybody: its message came from this source.
#[unsafe(no_mangle)]
extern "C" fn dms_arrived(request: u64, source: c_int) {
    recorder(|recorder| {
        if let Some(Some(number)) = recorder.claim(request) {
            recorder.claimed_arrived(number, arrival(source));
        }
    });
}

/// The call has not completed it.
#[unsafe(no_mangle)]
extern "C" fn dms_give_back(request: u64, number: i64) {
    if number != NOT_POSTED {
        recorder(|recorder| recorder.give_back(request, u64::try_from(number).ok()));
    }
}

/// The call has completed it, and its message came from this source.
#[unsafe(no_mangle)]
extern "C" fn dms_claimed_arrived(number: i64, source: c_int) {
    if let Ok(number) = u64::try_from(number) {
        recorder(|recorder| recorder.claimed_arrived(number, arrival(source)));
    }
}

/// Whether a request is a receive from anybody.
#[unsafe(no_mangle)]
extern "C" fn dms_is_posted(request: u64) -> c_int {
    with(0, |rank| rank.recorder().is_some_and(|recorder| recorder.is_posted(request)).into())
}

/// So many receives are looked at together: `UNDECIDED` of the shim.
const MOST_UNDECIDED: usize = 4;

/// Requests of receives that may have got a message of which nobody has heard: how many.
///
/// # Safety
/// `requests` has room for [`MOST_UNDECIDED`].
#[unsafe(no_mangle)]
unsafe extern "C" fn dms_undecided(requests: *mut [u64; MOST_UNDECIDED]) -> c_int {
    let undecided = |rank: &mut ThisRank| rank.recorder().map(|recorder| recorder.undecided());
    let Some((undecided, count)) = with(None, undecided) else { return 0 };
    // SAFETY: the caller's promise.
    unsafe { *requests = undecided };
    count as c_int
}

/// A persistent receive from anybody has been made, which the shim keeps at a place of its table.
#[unsafe(no_mangle)]
extern "C" fn dms_prepare(request: u64, place: c_uint) {
    with((), |rank| {
        rank.prepared.insert(request, place);
    });
}

/// Its place, or none.
#[unsafe(no_mangle)]
extern "C" fn dms_prepared(request: u64) -> c_int {
    with(NONE, |rank| rank.prepared.get(&request).map_or(NONE, |place| *place as c_int))
}

/// It is there no more.
#[unsafe(no_mangle)]
extern "C" fn dms_forget(request: u64) {
    with((), |rank| {
        rank.prepared.remove(&request);
        rank.take_stand_in(request);
    });
}

/// Another request has been posted in the place of a persistent one.
#[unsafe(no_mangle)]
extern "C" fn dms_set_stand_in(request: u64, stand_in: u64) {
    with((), |rank| rank.set_stand_in(request, stand_in));
}

/// The request that stands in for this one, taken away if that is wished.
///
/// # Safety
/// `stand_in` can be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn dms_stand_in(request: u64, take: c_int, stand_in: *mut u64) -> c_int {
    let found = with(None, |rank| match take {
        0 => rank.stand_in(request),
        _ => rank.take_stand_in(request),
    });
    let Some(found) = found else { return 0 };
    // SAFETY: the caller's promise.
    unsafe { *stand_in = found };
    1
}

/// Which source a posted receive gets, as `dms_post_due` said it; none for all others.
#[unsafe(no_mangle)]
extern "C" fn dms_set_due(request: u64, source: c_int) {
    with((), |rank| match source {
        NONE => drop(rank.due.remove(&request)),
        _ => drop(rank.due.insert(request, source)),
    });
}

/// The same, asked for.
#[unsafe(no_mangle)]
extern "C" fn dms_due_of(request: u64) -> c_int {
    with(NONE, |rank| rank.due.get(&request).copied().unwrap_or(NONE))
}

/// A thread is about to be created by the code at an address: the name that it gets. 0: none, it is not the program's.
#[unsafe(no_mangle)]
extern "C" fn dms_thread_name(caller: usize) -> u64 {
    catch_unwind(|| threads::name_new(caller)).unwrap_or(0)
}

/// This thread's name; 0: none.
#[unsafe(no_mangle)]
extern "C" fn dms_own_thread_name() -> u64 {
    thread::name()
}

/// Whether the program has created threads.
#[unsafe(no_mangle)]
extern "C" fn dms_has_threads() -> c_int {
    rank::has_threads().into()
}

/// A thread begins that has this name.
#[unsafe(no_mangle)]
extern "C" fn dms_thread_begins(name: u64) {
    thread::begins(name);
}

/// The thread is about to post a send or receive, or to take a message: whether it may, see [`PostDue`].
#[unsafe(no_mangle)]
extern "C" fn dms_begin_post() -> c_int {
    with(PostDue::Now, ThisRank::begin_post) as c_int
}

/// It has done so, or there was nothing to take.
#[unsafe(no_mangle)]
extern "C" fn dms_end_post(has_posted: c_int) {
    with((), |rank| rank.end_post(has_posted != 0));
}

/// Whether others must have posted before a poll can answer anything but no.
#[unsafe(no_mangle)]
extern "C" fn dms_must_come_later() -> c_int {
    with(0, |rank| rank.must_come_later().into())
}

/// Whether the rank is replayed.
#[unsafe(no_mangle)]
extern "C" fn dms_is_replayed() -> c_int {
    with(0, |rank| matches!(rank.work, RankWork::Replay(_)).into())
}

/// Whether the thread is outside of calls that are looked at, of a rank that is recorded or replayed.
#[unsafe(no_mangle)]
extern "C" fn dms_is_outside() -> c_int {
    with(0, |rank| c_int::from(!rank.is_in_call() && !rank.is_over()))
}

/// Something is used that the record does not cover.
#[unsafe(no_mangle)]
extern "C" fn dms_uncovered(bit: c_uint) {
    with((), |rank| {
        rank.page().uncovered.fetch_or(1 << bit, Ordering::Relaxed);
        if let Some(recorder) = rank.recorder() {
            recorder.page().uncovered.fetch_or(1 << bit, Ordering::Relaxed);
        }
    });
}

/// MPI_Finalize is called.
#[unsafe(no_mangle)]
extern "C" fn dms_end() {
    with((), |rank| {
        match &mut rank.work {
            RankWork::Record(_) => {}
            RankWork::Logical(rank) => rank.end(),
            RankWork::Replay(player) => {
                if let Err(divergence) = player.end() {
                    rank.diverge(&divergence.to_string());
                }
            }
        }
        if let Some(recorder) = rank.recorder().filter(|recorder| !recorder.is_stopped()) {
            recorder.end();
        }
        rank.page().set_state(PageState::Finalized);
    });
}
