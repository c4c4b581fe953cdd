//! The kernel and the machine as they are.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use analyzer::input::{Mapping, ProcessFacts, ThreadFacts};
use analyzer::pipeline::LastCall;
use analyzer::plan::Plan;
use analyzer::wire::{FileId, RawRecord};
use anyhow::{Context, Result};

use super::host::Host;
use super::kernel::{Kernel, ThreadReader};
use crate::budget::HitCosts;
use crate::collector::{Collector, DrainBatch};
use crate::host::{self, NodeJob, clock, placement};
use crate::kernel::{
    Attached, Counters, KernelError, LoadSettings, SlotCounters, Target, ThreadLister, Tracer, sample_running,
};
use crate::stacks::{StackReader, ThreadView};

/// The tracer, and the thread that drains its rings.
pub(super) struct LiveKernel {
    tracer: Tracer,
    collector: Collector,
    counters: Arc<Counters>,
}

impl LiveKernel {
    /// Loads the programs, and starts the reading thread on the given CPUs. With `calibrate`, says what hits cost here.
    ///
    /// # Errors
    /// What the environment does not allow.
    pub(super) fn load(
        settings: LoadSettings,
        cpus: &[u32],
        calibrate: bool,
    ) -> Result<(Self, Option<HitCosts>)> {
        let mut tracer = Tracer::load(settings)?;
        let costs = if calibrate { Some(tracer.calibrate()?) } else { None };
        tracer.attach_kernel_events()?;
        let counters = tracer.counters();
        let collector = Collector::start(Arc::clone(&counters), cpus.to_vec());
        let collector = collector.context("cannot start the reading thread")?;
        Ok((Self { tracer, collector, counters }, costs))
    }

    /// Reads what threads are doing, as long as the tracer is there.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(super) fn thread_reader(&self) -> Result<Box<dyn ThreadReader>> {
        let lister = self.tracer.thread_lister()?;
        Ok(Box::new(LiveThreads { lister, stacks: StackReader::new(sample_running) }))
    }
}

impl Kernel for LiveKernel {
    fn attach(&mut self, plan: &Plan, targets: &BTreeMap<FileId, Target>, apart: &BTreeSet<u32>) -> Attached {
        self.tracer.attach(plan, targets, apart)
    }

    fn detach(&mut self, probes: &BTreeSet<u32>) -> BTreeSet<u32> {
        self.tracer.detach(probes)
    }

    fn reattach(&mut self, probes: &BTreeSet<u32>) -> Attached {
        self.tracer.reattach(probes)
    }

    fn detach_all(&mut self) {
        self.tracer.detach_all();
    }

    fn pause(&mut self, is_paused: bool) {
        self.tracer.pause(is_paused);
    }

    fn watch(&mut self, pid: u32, slot: u32, own_code: Option<&[(u64, u64)]>) -> Result<(), KernelError> {
        self.tracer.watch(pid, slot, own_code)
    }

    fn unwatch(&mut self, pid: u32) {
        self.tracer.unwatch(pid);
    }

    fn make_rings(&mut self, slots: Range<u32>) -> u32 {
        // Processes share what rings there are.
        let rings = self.tracer.make_rings(slots).unwrap_or_default();
        let count = rings.len() as u32;
        for ring in rings {
            self.collector.add(ring);
        }
        count
    }

    fn counters(&self, slot: u32) -> SlotCounters {
        self.counters.read(slot)
    }

    fn next_batch(&mut self, timeout: Duration) -> Option<DrainBatch> {
        self.collector.next(timeout)
    }

    fn give_back(&mut self, records: Vec<RawRecord>) {
        self.collector.give_back(records);
    }

    fn drain_rest(&mut self) -> Vec<DrainBatch> {
        self.collector.finish()
    }
}

/// Lists threads by the kernel part, and reads their stacks.
struct LiveThreads {
    lister: ThreadLister,
    stacks: StackReader,
}

impl ThreadReader for LiveThreads {
    /// One that sleeps only for moments may be somewhere else by the time its stack is read, which shows: then it is
    /// read again.
    fn read(&mut self, mut processes: BTreeMap<u32, Vec<LastCall>>) -> Vec<ThreadFacts> {
        const MOST_TRIES: u32 = 5;
        let mut found: BTreeMap<u32, Vec<ThreadFacts>> = BTreeMap::new();
        for _ in 0..MOST_TRIES {
            // Without the list of threads nothing is said, and the next time is soon.
            let Ok(threads) = self.lister.threads() else { break };
            for (&pid, last_calls) in &processes {
                let own: Vec<ThreadView> =
                    threads.iter().filter(|thread| thread.pid == pid).copied().collect();
                found.insert(pid, self.stacks.read(pid, &own, last_calls));
            }
            processes.retain(|pid, _| found[pid].iter().any(|thread| thread.cut.is_some()));
            if processes.is_empty() {
                break;
            }
        }
        found.into_values().flatten().collect()
    }
}

/// This machine.
pub(super) struct LiveHost;

impl Host for LiveHost {
    fn now_ns(&self) -> u64 {
        clock::monotonic_ns()
    }

    fn own_cpu_ns(&self) -> u64 {
        clock::process_cpu_ns()
    }

    fn process_facts(&self, pid: u32, time_ns: u64) -> Option<ProcessFacts> {
        host::process_facts(pid, time_ns).ok()
    }

    fn mappings(&self, pid: u32) -> Option<Vec<Mapping>> {
        host::gather::read_maps(pid).ok()
    }

    fn runs_mpi(&self, pid: u32) -> bool {
        let exe = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        matches!(host::processes::mpi_library(pid, &exe.to_string_lossy(), true), Ok(Some(_)))
    }

    fn has_ended(&self, pid: u32) -> bool {
        match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
            // A zombie has ended; only its parent has not looked yet.
            Ok(stat) => stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z')),
            Err(_) => true,
        }
    }

    fn starters(&self, job: &NodeJob) -> Vec<u32> {
        host::jobs::starters(job)
    }

    fn late_ranks(&self, job: &NodeJob) -> Vec<u32> {
        host::jobs::late_ranks(job).into_iter().map(|rank| rank.pid).collect()
    }

    fn stay_on(&self, cpus: &[u32]) {
        placement::stay_on(cpus);
    }

    fn yield_to_the_job(&self) {
        placement::yield_to_the_job();
    }

    fn catch_up(&self) {
        placement::catch_up();
    }
}
