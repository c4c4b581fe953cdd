//! Processor time of each thread of a process, read until it ends.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

/// How often times are read: the last reading before the end of a thread counts.
const PERIOD: Duration = Duration::from_millis(50);

/// Name and processor time in nanoseconds of each thread of a process, by its number.
pub type ThreadTimes = BTreeMap<u32, (String, u64)>;

/// What a reader found.
#[derive(Clone, Debug)]
pub struct ReadTimes {
    /// From its start until the process was last there.
    pub watched: Duration,
    /// When it was started.
    pub before: ThreadTimes,
    /// When each thread was last there.
    pub last: ThreadTimes,
}

/// Somebody who reads the processor time of all threads of a process until it ends.
pub struct ThreadTimeReader {
    is_over: Arc<AtomicBool>,
    reader: JoinHandle<ReadTimes>,
}

impl ThreadTimeReader {
    /// Reads the times of a process from now on.
    pub fn start(pid: u32) -> Self {
        let is_over = Arc::<AtomicBool>::default();
        let stop = Arc::clone(&is_over);
        let begin = Instant::now();
        let reader = std::thread::spawn(move || {
            let before = threads(pid);
            let (mut last, mut watched) = (before.clone(), Duration::ZERO);
            while !stop.load(Ordering::Relaxed) {
                // A thread that has ended has used what it had used before.
                let now = threads(pid);
                if !now.is_empty() {
                    watched = begin.elapsed();
                    last.extend(now);
                }
                std::thread::sleep(PERIOD);
            }
            ReadTimes { watched, before, last }
        });
        Self { is_over, reader }
    }

    /// Stops reading, and gives what was read.
    ///
    /// # Errors
    /// The reading thread failed.
    pub fn finish(self) -> Result<ReadTimes> {
        self.is_over.store(true, Ordering::Relaxed);
        self.reader.join().map_err(|_| anyhow!("the reader of processor times failed"))
    }
}

fn threads(pid: u32) -> ThreadTimes {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of = |entry: fs::DirEntry| {
        let tid = entry.file_name().to_str()?.parse().ok()?;
        let name = fs::read_to_string(entry.path().join("comm")).ok()?.trim_end().to_owned();
        let times = fs::read_to_string(entry.path().join("schedstat")).ok()?;
        Some((tid, (name, times.split_whitespace().next()?.parse().ok()?)))
    };
    entries.filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threads_of_this_process_are_read_with_their_times() {
        let all = threads(std::process::id());
        assert!(all.values().any(|(name, ns)| !name.is_empty() && *ns > 0), "{all:?}");
    }
}
