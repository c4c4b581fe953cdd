//! What the C side calls. Numbers are those of `contents.h`.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use replay::thread_name::FIRST_THREAD;

use super::alone::PollAnswer;
use super::turn::in_turn;
use super::work::{self, ContentWork};
use crate::rank_parts::Introduction;
use crate::thread;

/// After one to which the record has no answer.
const BETWEEN_POLLS: Duration = Duration::from_micros(50);
const PASS: c_int = 0;
const RECORD: c_int = 1;
const PLAY: c_int = 2;

/// Does something with the work, if there is any. Nothing leaves this but a value: a panic would end the job.
fn with<T>(otherwise: T, act: impl FnOnce(&mut ContentWork) -> T) -> T {
    let act = || in_turn(false).map(|mut work| act(&mut work));
    catch_unwind(AssertUnwindSafe(act)).ok().flatten().unwrap_or(otherwise)
}

/// This thread calls for the first time. 0: it has no name.
#[unsafe(no_mangle)]
extern "C" fn dmc_thread(name: u64) {
    thread::begins(name);
}

/// Numbers from C.
///
/// # Safety
/// There are so many.
unsafe fn slice<'a>(at: *const i64, count: c_int) -> &'a [i64] {
    match usize::try_from(count) {
        // SAFETY: the caller's promise.
        Ok(count @ 1..) if !at.is_null() => unsafe { std::slice::from_raw_parts(at, count) },
        _ => &[],
    }
}

/// Some bits of this thread's name, 0 of the first one's. They tell apart what threads number.
#[unsafe(no_mangle)]
extern "C" fn dmc_thread_bits() -> i64 {
    match thread::name() {
        0 | FIRST_THREAD => 0,
        name => (name & 0xffff) as i64,
    }
}

/// MPI_Init has returned; says how calls are treated.
///
/// # Safety
/// `library` is text that ends with a zero.
#[unsafe(no_mangle)]
unsafe extern "C" fn dmc_begin_rank(library: *const c_char, rank: c_int, size: c_int, level: c_int) -> c_int {
    // SAFETY: the caller's promise.
    let library = unsafe { CStr::from_ptr(library) }.to_string_lossy();
    let introduction = Introduction {
        library: library.lines().next().unwrap_or_default().to_owned(),
        rank: rank as u32,
        size: size as u32,
        thread_level: level as u32,
        ..Introduction::default()
    };
    let _ = catch_unwind(|| work::begin(&introduction));
    with(PASS, |work| match work {
        ContentWork::Record(_) => RECORD,
        ContentWork::Play(_) => PLAY,
    })
}

/// A call begins.
///
/// # Safety
/// There are so many numbers.
#[unsafe(no_mangle)]
unsafe extern "C" fn dmc_call(call: c_uint, compared: *const i64, count: c_int, has_sum: c_int, sum: u32) {
    // SAFETY: the caller's promise.
    let compared = unsafe { slice(compared, count) };
    let sum = (has_sum != 0).then_some(sum);
    with((), |work| match work {
        ContentWork::Record(recorder) => recorder.call(call, compared, sum),
        ContentWork::Play(rank) => rank.call(call, compared, sum),
    });
}

/// A poll has answered no.
///
/// # Safety
/// There are so many numbers.
#[unsafe(no_mangle)]
unsafe extern "C" fn dmc_no(call: c_uint, compared: *const i64, count: c_int) {
    // SAFETY: the caller's promise.
    let compared = unsafe { slice(compared, count) };
    with((), |work| {
        if let ContentWork::Record(recorder) = work {
            recorder.no(call, compared);
        }
    });
}

/// Whether a poll answers no.
///
/// # Safety
/// There are so many numbers.
#[unsafe(no_mangle)]
unsafe extern "C" fn dmc_is_no(call: c_uint, compared: *const i64, count: c_int) -> c_int {
    // SAFETY: the caller's promise.
    let compared = unsafe { slice(compared, count) };
    let answer = || match &mut *in_turn(true)? {
        ContentWork::Record(_) => None,
        ContentWork::Play(rank) => Some(rank.is_no(call, compared)),
    };
    match catch_unwind(AssertUnwindSafe(answer)).ok().flatten() {
        None | Some(PollAnswer::Recorded) => 0,
        Some(PollAnswer::No) => 1,
        Some(PollAnswer::NoInVain) => {
            std::thread::sleep(BETWEEN_POLLS);
            1
        }
    }
}

/// Numbers that the call answered: recorded, or filled.
///
/// # Safety
/// There are so many.
#[unsafe(no_mangle)]
unsafe extern "C" fn dmc_outs(values: *mut i64, count: c_int) {
    let Ok(count) = usize::try_from(count) else { return };
    // SAFETY: the caller's promise.
    let values = unsafe { std::slice::from_raw_parts_mut(values, count) };
    with((), |work| match work {
        ContentWork::Record(recorder) => recorder.numbers(values),
        ContentWork::Play(rank) => rank.numbers(values),
    });
}

/// Bytes that came: recorded, or filled.
///
/// # Safety
/// There are so many at the place.
#[unsafe(no_mangle)]
unsafe extern "C" fn dmc_bytes(at: *mut c_void, length: u64) {
    with((), |work| match work {
        ContentWork::Record(recorder) => {
            recorder.head(length);
            // SAFETY: the caller's promise.
            recorder.more(unsafe { std::slice::from_raw_parts(at.cast(), length as usize) });
        }
        ContentWork::Play(rank) => {
            let bytes = rank.bytes();
            let count = bytes.len().min(length as usize);
            // SAFETY: the caller's promise; the record lies elsewhere.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at.cast(), count) };
        }
    });
}

/// So many bytes came, which are given with `dmc_more`.
#[unsafe(no_mangle)]
extern "C" fn dmc_head(length: u64) {
    with((), |work| {
        if let ContentWork::Record(recorder) = work {
            recorder.head(length);
        }
    });
}

/// # Safety
/// There are so many bytes at the place.
#[unsafe(no_mangle)]
unsafe extern "C" fn dmc_more(at: *const c_void, length: u64) {
    with((), |work| {
        if let ContentWork::Record(recorder) = work {
            // SAFETY: the caller's promise.
            recorder.more(unsafe { std::slice::from_raw_parts(at.cast(), length as usize) });
        }
    });
}

/// Where the bytes are that came, and how many. They stay there.
///
/// # Safety
/// `length` can be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn dmc_take(length: *mut u64) -> *const c_char {
    let (at, count) = with((std::ptr::null(), 0), |work| match work {
        ContentWork::Record(_) => (std::ptr::null(), 0),
        ContentWork::Play(rank) => {
            let bytes = rank.bytes();
            (bytes.as_ptr().cast(), bytes.len() as u64)
        }
    });
    // SAFETY: the caller's promise.
    unsafe { *length = count };
    at
}

/// From this call on nothing is recorded.
///
/// # Safety
/// `why` is text that ends with a zero.
#[unsafe(no_mangle)]
unsafe extern "C" fn dmc_refuse(call: c_uint, why: *const c_char) {
    // SAFETY: the caller's promise.
    let why = unsafe { CStr::from_ptr(why) }.to_string_lossy();
    with((), |work| match work {
        ContentWork::Record(recorder) => recorder.refuse(call, &why),
        // It was not made when it was recorded: else the record would have ended here.
        ContentWork::Play(rank) => {
            rank.call(call, &[], None);
            rank.diverge(call, &why)
        }
    });
}

/// The program does something for which there is no answer.
///
/// # Safety
/// `why` is text that ends with a zero.
#[unsafe(no_mangle)]
unsafe extern "C" fn dmc_stop(call: c_uint, why: *const c_char) {
    // SAFETY: the caller's promise.
    let why = unsafe { CStr::from_ptr(why) }.to_string_lossy();
    with((), |work| {
        if let ContentWork::Play(rank) = work {
            rank.diverge(call, &why);
        }
    });
}

/// Another thread makes calls in a rank that runs alone: it cannot get at the record, and must not run.
#[unsafe(no_mangle)]
extern "C" fn dmc_second_thread(call: c_uint) {
    let _ = catch_unwind(|| work::refuse(&super::alone::second_thread(call)));
    // SAFETY: always possible.
    unsafe { libc::_exit(2) }
}

/// MPI_Finalize is called.
#[unsafe(no_mangle)]
extern "C" fn dmc_end() {
    with((), |work| match work {
        ContentWork::Record(recorder) => recorder.end(),
        ContentWork::Play(rank) => rank.end(),
    });
}

/// A checksum over bytes, and over what came before.
///
/// # Safety
/// There are so many bytes at the place.
#[unsafe(no_mangle)]
unsafe extern "C" fn dmc_sum(at: *const c_void, length: u64, sum: u32) -> u32 {
    if length == 0 {
        return sum;
    }
    // SAFETY: the caller's promise.
    crc32c::crc32c_append(sum, unsafe { std::slice::from_raw_parts(at.cast(), length as usize) })
}
