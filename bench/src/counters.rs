//! What a process used of a processor.

use anyhow::{Context, Result};
use perf_event::events::{Event, Hardware, Software};
use perf_event::{Builder, Counter};

/// Counters of one process and of the threads and processes that it starts from now on.
pub struct Counters {
    task_clock: Counter,
    hardware: Vec<(&'static str, Counter)>,
}

/// Readings at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Processor time.
    pub task_clock_ns: u64,
    /// What the machine's own counters say, by name; none in most virtual machines.
    pub hardware: Vec<(&'static str, u64)>,
}

/// What the machine's own counters are asked for.
pub const HARDWARE: [(&str, Hardware); 3] = [
    ("instructions", Hardware::INSTRUCTIONS),
    ("cycles", Hardware::CPU_CYCLES),
    ("cache misses", Hardware::CACHE_MISSES),
];

impl Counters {
    /// Starts to count.
    ///
    /// # Errors
    /// The kernel's refusal of the task clock, which every machine has.
    pub fn of(pid: u32) -> Result<Self> {
        let task_clock = count(Software::TASK_CLOCK, pid).context("the kernel counts no processor time")?;
        let hardware = HARDWARE.into_iter().filter_map(|(name, event)| Some((name, count(event, pid).ok()?)));
        Ok(Self { task_clock, hardware: hardware.collect() })
    }

    /// Reads.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn read(&mut self) -> Result<Reading> {
        let task_clock_ns = self.task_clock.read()?;
        let hardware = self.hardware.iter_mut().map(|(name, counter)| Ok((*name, counter.read()?)));
        Ok(Reading { task_clock_ns, hardware: hardware.collect::<Result<_>>()? })
    }

    /// True if the machine has any counters of its own.
    pub fn has_hardware(&self) -> bool {
        !self.hardware.is_empty()
    }
}

impl Reading {
    /// What was used since an earlier reading of the same counters.
    pub fn since(&self, earlier: &Self) -> Self {
        let pairs = self.hardware.iter().zip(&earlier.hardware);
        Self {
            task_clock_ns: self.task_clock_ns - earlier.task_clock_ns,
            hardware: pairs.map(|((name, now), (_, then))| (*name, now - then)).collect(),
        }
    }
}

fn count(event: impl Event, pid: u32) -> Result<Counter> {
    let mut builder = Builder::new(event);
    builder.observe_pid(pid.cast_signed()).include_kernel().inherit(true);
    let mut counter = builder.build()?;
    counter.enable()?;
    Ok(counter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_computes_uses_processor_time() {
        let mut counters = Counters::of(std::process::id()).unwrap();
        let before = counters.read().unwrap();
        // Counters of threads that exist already are not inherited: this one is the main thread of a child.
        let begin = std::time::Instant::now();
        let worker = std::thread::spawn(move || while begin.elapsed().as_millis() < 20 {});
        worker.join().unwrap();
        let used = counters.read().unwrap().since(&before);
        assert!(used.task_clock_ns > 1_000_000, "{used:?}");
    }
}
