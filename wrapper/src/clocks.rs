//! Clocks that the program reads: a program that decides by the time goes another way in each run.
//!
//! Only the thread that called MPI_Init is asked, and only outside of MPI calls: what the MPI library reads is its own affair.
//! Nothing here allocates, and nothing waits for long: clocks are read in signal handlers and by allocators too.

use std::sync::Mutex;

use crate::callers::Callers;
use crate::early_clocks;
use crate::rank::rank_soon;

static CALLERS: Mutex<Callers> = Mutex::new(Callers::new());

/// A clock really shows this; what it is to show. `caller`: an address of who reads it.
pub(crate) fn read(clock: u8, real: i64, caller: usize, stack: usize) -> i64 {
    if !early_clocks::are_asked_for() {
        return real;
    }
    // Whoever reads a clock in a signal handler, while this thread is in here, sees the real one.
    let Ok(mut callers) = CALLERS.try_lock() else { return real };
    if !callers.is_programs(caller) {
        return real;
    }
    match rank_soon() {
        Some(mut rank) => rank.clock(clock, real, stack),
        None => early_clocks::read(clock, real),
    }
}
