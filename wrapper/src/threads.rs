//! Threads that the program creates: which these are.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::callers::Callers;
use crate::mode::{self, WishedAction};
use crate::{early_clocks, rank, thread};

/// The job is recorded or replayed.
static ARE_NAMED: AtomicBool = AtomicBool::new(false);
static CALLERS: Mutex<Callers> = Mutex::new(Callers::new());

/// The process begins, with this thread.
pub(crate) fn process_begins() {
    let is_wished = |wish: mode::Wish| wish.action != WishedAction::Deterministic;
    if mode::wish().is_some_and(is_wished) || mode::clocks_alone().is_some() {
        thread::first_begins();
        ARE_NAMED.store(true, Ordering::Release);
        // SAFETY: a handler that only stores numbers.
        unsafe { libc::pthread_atfork(None, None, Some(is_child)) };
    }
}

/// A child has no part in the job; another thread may have been at the rank when it was forked.
unsafe extern "C" fn is_child() {
    ARE_NAMED.store(false, Ordering::Release);
    rank::close();
}

/// A thread is about to be created by the code at an address: the name that it gets. 0: none, it is not the program's.
pub(crate) fn name_new(caller: usize) -> u64 {
    if !ARE_NAMED.load(Ordering::Acquire) || thread::name() == 0 || early_clocks::is_in_init() {
        return 0;
    }
    let is_programs = CALLERS.lock().is_ok_and(|mut callers| callers.is_programs(caller));
    if !is_programs || rank::is_in_call() {
        return 0;
    }
    let name = thread::name_child();
    rank::thread_is_created();
    name
}
