//! How much of their time processes spend in the kernel: that is where probes are paid for.
//!
//! The clock tells how long a job takes, which on a shared machine changes by tens of percent from run to run. Which part
//! of their processor time processes spend in the kernel changes hardly at all, however fast the machine is at the moment.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Result, anyhow};

/// How often times are read: the last reading before a process's end counts.
const PERIOD: Duration = Duration::from_millis(50);

/// Processor time of a process, in ticks of the clock that the kernel reckons in.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct CpuTicks {
    user: u64,
    kernel: u64,
}

/// Somebody who reads the times of processes until they end.
pub struct KernelTime {
    is_over: Arc<AtomicBool>,
    reader: JoinHandle<f64>,
}

impl KernelTime {
    /// Time begins to count now.
    pub fn start(pids: Vec<u32>) -> Self {
        let is_over = Arc::<AtomicBool>::default();
        let stop = Arc::clone(&is_over);
        let reader = std::thread::spawn(move || {
            let before = read(&pids);
            let mut last = before.clone();
            while !stop.load(Ordering::Relaxed) {
                // A process that has ended has used what it had used before.
                last.extend(read(&pids));
                std::thread::sleep(PERIOD);
            }
            share(&before, &last)
        });
        Self { is_over, reader }
    }

    /// The part of all their processor time that they spent in the kernel; NaN if they had none.
    ///
    /// # Errors
    /// The reading thread failed.
    pub fn finish(self) -> Result<f64> {
        self.is_over.store(true, Ordering::Relaxed);
        self.reader.join().map_err(|_| anyhow!("the reader of processor times failed"))
    }
}

fn read(pids: &[u32]) -> BTreeMap<u32, CpuTicks> {
    let of = |pid: &u32| Some((*pid, times(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?));
    pids.iter().filter_map(of).collect()
}

/// Of a line of `/proc/PID/stat`: fields 14 and 15, the name in brackets being the second.
fn times(stat: &str) -> Option<CpuTicks> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse().ok();
    Some(CpuTicks { user: ticks()?, kernel: ticks()? })
}

fn share(before: &BTreeMap<u32, CpuTicks>, after: &BTreeMap<u32, CpuTicks>) -> f64 {
    let (mut user, mut kernel) = (0, 0);
    for (pid, now) in after {
        let earlier = before.get(pid).copied().unwrap_or_default();
        user += now.user.saturating_sub(earlier.user);
        kernel += now.kernel.saturating_sub(earlier.kernel);
    }
    kernel as f64 / (user + kernel) as f64
}

/// How many times as long a job takes that spends `watched` of its time in the kernel as it did when that was `plain`, if
/// what it does outside of the kernel stays the same.
pub fn longer_by(plain: f64, watched: f64) -> f64 {
    (1.0 - plain) / (1.0 - watched)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "7 (a) b (c) R 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 1 0 12 1000 1";
        assert_eq!(times(stat), Some(CpuTicks { user: 250, kernel: 50 }));
        assert_eq!(times("7 (a"), None);
        let own = fs::read_to_string("/proc/self/stat").unwrap();
        assert!(times(&own).is_some());
    }

    #[test]
    fn only_what_was_used_since_the_first_reading_counts() {
        let before = BTreeMap::from([(1, CpuTicks { user: 100, kernel: 100 })]);
        let after = BTreeMap::from([
            (1, CpuTicks { user: 160, kernel: 110 }),
            (2, CpuTicks { user: 20, kernel: 10 }),
        ]);
        assert_eq!(share(&before, &after), 0.2);
        assert!(share(&before, &before).is_nan());
    }

    #[test]
    fn a_job_is_longer_by_what_it_spends_in_the_kernel_more() {
        // 90 s of its own and 10 s in the kernel; watched, 20 s in the kernel.
        assert!((longer_by(0.1, 20.0 / 110.0) - 1.1).abs() < 1e-12);
    }
}
