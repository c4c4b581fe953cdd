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

/// The shortest time slice that the kernel grants.
const SLICE_NS: u64 = 100_000;

/// Lets the calling thread run soon after it wakes up, by asking for short time slices: whoever wants less at a time is
/// served earlier (Linux 6.12; since 6.13 the group of threads that it is in, too). It gets no more time than others.
///
/// Real-time priority would be surer, and makes other threads wait for seconds where ranks poll with sched_yield
/// (decision 53).
pub fn run_early() {
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: libc::SCHED_FLAG_RESET_ON_FORK as u64,
        sched_nice: rustix::process::getpriority_process(None).unwrap_or(0),
        sched_priority: 0,
        sched_runtime: SLICE_NS,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: `attributes` is read during the call only, and says its own size; 0 is the calling thread.
    unsafe {
        // Refused: it runs like the others.
        libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_thread_that_runs_early_keeps_its_priority_and_what_it_starts_is_like_others() {
        let sched = || std::fs::read_to_string("/proc/thread-self/sched").unwrap_or_default();
        let value = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
        };
        std::thread::spawn(move || {
            let before = sched();
            super::run_early();
            let early = sched();
            let started = std::thread::spawn(sched).join().expect("it only reads");
            assert_eq!(value(&early, "prio"), value(&before, "prio"));
            for (text, is_early) in [(&before, false), (&early, true), (&started, false)] {
                // Kernels before 6.12 have no slices of threads.
                if let Some(slice) = value(text, "se.slice") {
                    assert_eq!(slice == super::SLICE_NS, is_early, "{text}");
                }
            }
        })
        .join()
        .expect("all of it holds");
    }
}
