//! What a process used of a processor.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use perf_event::events::{Event, Hardware, Software};
use perf_event::{Builder, Counter};

use crate::results::Samples;

/// Counters of one process and of the threads and processes that it starts from now on.
pub struct ProcessCounters {
    task_clock: Counter,
    hardware: Vec<(&'static str, Counter)>,
}

/// Readings at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct CounterReading {
    /// Processor time of all threads together.
    pub task_clock_ns: u64,
    /// What the machine's own counters say, by name; none in most virtual machines.
    pub hardware: Vec<(&'static str, u64)>,
}

/// What runs used for each of the hits in them.
#[derive(Clone, Debug, Default)]
pub struct PerHit {
    /// Processor time of each hit.
    pub ns: Samples,
    /// By name of the machine's own counter; none in most virtual machines.
    pub hardware: BTreeMap<&'static str, Samples>,
}

impl PerHit {
    /// Adds a run with so many hits.
    pub fn push(&mut self, used: &CounterReading, hits: u64) {
        self.ns.push(used.task_clock_ns as f64 / hits as f64);
        for (name, count) in &used.hardware {
            self.hardware.entry(name).or_default().push(*count as f64 / hits as f64);
        }
    }
}

/// What the machine's own counters are asked for.
pub const HARDWARE: [(&str, Hardware); 3] = [
    ("instructions", Hardware::INSTRUCTIONS),
    ("cycles", Hardware::CPU_CYCLES),
    ("cache misses", Hardware::CACHE_MISSES),
];

impl ProcessCounters {
    /// Starts to count what a process uses.
    ///
    /// # Errors
    /// The kernel's refusal of the task clock, which every machine has.
    pub fn of(pid: u32) -> Result<Self> {
        let task_clock = count(Software::TASK_CLOCK, pid).context("the kernel counts no processor time")?;
        let hardware = HARDWARE.into_iter().filter_map(|(name, event)| Some((name, count(event, pid).ok()?)));
        Ok(Self { task_clock, hardware: hardware.collect() })
    }

    /// Reads all counters, one after the other.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn read(&mut self) -> Result<CounterReading> {
        let task_clock_ns = self.task_clock.read()?;
        let hardware = self.hardware.iter_mut().map(|(name, counter)| Ok((*name, counter.read()?)));
        Ok(CounterReading { task_clock_ns, hardware: hardware.collect::<Result<_>>()? })
    }

    /// Which counters of its own the machine has.
    pub fn hardware_names(&self) -> Vec<&'static str> {
        self.hardware.iter().map(|(name, _)| *name).collect()
    }
}

impl CounterReading {
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
    fn a_counter_that_the_machine_has_is_kept_for_each_hit() {
        let mut per_hit = PerHit::default();
        per_hit.push(&CounterReading { task_clock_ns: 500, hardware: vec![("cycles", 1000)] }, 10);
        assert_eq!(per_hit.ns.values(), [50.0]);
        assert_eq!(per_hit.hardware["cycles"].values(), [100.0]);
    }
}
