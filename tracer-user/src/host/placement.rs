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

/// Lets the calling thread run before most others when it wakes up. It must run rarely, and never for long.
pub fn run_early() {
    // Refused: it runs like the others. Real-time priority would be surer, and make other threads wait for seconds where
    // ranks poll with sched_yield (decision 53).
    let _ = rustix::process::nice(-20);
}
