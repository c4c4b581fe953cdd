//! Calls of a rank that does nothing but record its answers, all from its own thread: the usual case. They begin and end here, for what a
//! few stores cost, and most (sends, collectives) never come to [`ThisRank`](crate::rank::ThisRank).
//!
//! Only the rank's thread changes anything here; a signal handler of it may come in between, as anywhere in MPI.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use replay::CallCheck;
use replay::shared_page::{PageState, SharedPage, count_one};

use crate::rank_thread::show_call;
use crate::thread::ThisThread;
use crate::treatment::Treatment;

/// A thread has made a call that may not, or whose name is not known.
pub(crate) static HAS_OTHERS: AtomicBool = AtomicBool::new(false);
/// Number of the rank's thread. 0: calls are not plain, no thread has that number.
static THREAD: AtomicU64 = AtomicU64::new(0);
static PAGE: AtomicPtr<SharedPage> = AtomicPtr::new(ptr::null_mut());
/// Where the stack was when the call began that it is in. 0: in none.
static IN_CALL: AtomicUsize = AtomicUsize::new(0);
/// Of a [`CallCheck`].
static CHECK: AtomicU64 = AtomicU64::new(0);
/// What it was before the last call.
static CHECK_BEFORE: AtomicU64 = AtomicU64::new(0);

/// What was known here when calls ceased to be plain.
pub(crate) struct PlainState {
    pub in_call: Option<usize>,
    pub check: CallCheck,
}

/// From here on calls of this thread are plain.
pub(crate) fn begin(page: &'static SharedPage, check: CallCheck) {
    PAGE.store(ptr::from_ref(page).cast_mut(), Ordering::Relaxed);
    CHECK.store(check.to_bits(), Ordering::Relaxed);
    CHECK_BEFORE.store(check.to_bits(), Ordering::Relaxed);
    IN_CALL.store(0, Ordering::Relaxed);
    THREAD.store(ThisThread::now().number(), Ordering::Release);
}

/// No call is plain any more. What was known, if they were until now.
pub(crate) fn end() -> Option<PlainState> {
    (THREAD.swap(0, Ordering::AcqRel) != 0).then(|| PlainState { in_call: in_call(), check: check_so_far() })
}

/// Whether calls of some thread are.
#[inline]
pub(crate) fn are_on() -> bool {
    THREAD.load(Ordering::Relaxed) != 0
}

#[inline]
fn are_own() -> bool {
    THREAD.load(Ordering::Relaxed) == ThisThread::now().number()
}

/// Where the stack was when the plain call began that is being made, if one is.
#[inline]
pub(crate) fn in_call() -> Option<usize> {
    Some(IN_CALL.load(Ordering::Relaxed)).filter(|stack| *stack != 0)
}

fn check_so_far() -> CallCheck {
    CallCheck::from_bits(CHECK.load(Ordering::Relaxed))
}

/// The checksum over all calls, if they are plain.
#[inline]
pub(crate) fn check() -> Option<CallCheck> {
    are_on().then(check_so_far)
}

/// The call that has begun last is in no checksum.
pub(crate) fn leave_out() {
    CHECK.store(CHECK_BEFORE.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// A call begins, as [`ThisRank::enter`](crate::rank::ThisRank::enter) has it. None: it is not plain.
#[inline]
pub(crate) fn enter(call: u32, arguments: [i32; 3], return_address: u64, stack: usize) -> Option<Treatment> {
    if !are_own() || HAS_OTHERS.load(Ordering::Relaxed) {
        return None;
    }
    // One that was left by a jump is farther down than whoever calls now.
    if stack < IN_CALL.load(Ordering::Relaxed) {
        return Some(Treatment::Pass);
    }
    IN_CALL.store(stack, Ordering::Relaxed);
    // SAFETY: it was given in `begin`, and is never unmapped.
    let page = unsafe { &*PAGE.load(Ordering::Relaxed) };
    count_one(&page.calls);
    show_call(page, call, arguments, return_address);
    let mut check = check_so_far();
    CHECK_BEFORE.store(check.to_bits(), Ordering::Relaxed);
    check.call(call, arguments);
    CHECK.store(check.to_bits(), Ordering::Relaxed);
    Some(Treatment::Record)
}

/// The call ends, if it is plain.
#[inline]
pub(crate) fn leave() -> bool {
    let is_plain = are_own();
    if is_plain {
        IN_CALL.store(0, Ordering::Relaxed);
        // SAFETY: it was given in `begin`, and is never unmapped.
        unsafe { &*PAGE.load(Ordering::Relaxed) }.set_state(PageState::Outside);
    }
    is_plain
}
