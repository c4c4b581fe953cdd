//! Where our own threads run.

use rustix::thread::{CpuSet, sched_setaffinity};

/// Keeps the calling thread on these CPUs; without any, it stays where it may be.
pub fn stay_on(cpus: &[u32]) {
    if cpus.is_empty() {
        return;
    }
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if (cpu as usize) < CpuSet::MAX_CPU {
            set.set(cpu as usize);
        }
    }
    // Refused (the CPU went offline): it runs elsewhere, which costs speed only.
    let _ = sched_setaffinity(None, &set);
}

/// Lets the calling thread run only after the job's: it analyses, and can wait.
pub fn yield_to_the_job() {
    // Refused: it runs at the usual priority.
    let _ = rustix::process::nice(10);
}

/// Takes that back: what is left to do at the end should not wait for the job.
pub fn catch_up() {
    // Without the right to, it takes longer.
    let _ = rustix::process::nice(-10);
}

/// Lets the calling thread run before the job's, at the lowest real-time priority. It must run rarely, and never for long.
///
/// A higher weight would not do: where sessions of users are scheduled as groups (autogroup), it counts within its own
/// group only, and a thread that sleeps most of the time may have to wait for a tenth of a second.
pub fn run_first() {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: `parameters` is read during the call only; 0 is the calling thread.
    unsafe {
        // Refused: it runs like the others.
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const parameters);
    }
}
