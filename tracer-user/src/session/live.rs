//! The kernel and the machine as they are.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use analyzer::RdmaAddress;
use analyzer::input::{ClockReading, Mapping, OwnTime, ProbeCosts, ProcessFacts, ThreadFacts};
use analyzer::pipeline::LastCall;
use analyzer::plan::{Plan, Probe};
use analyzer::wire::{FileId, QueueChange, RawRecord};
use anyhow::{Context, Result};
use injector::{MappedPlaces, NotedBefore, SharedRings, ThreadBefore};

use super::host::Host;
use super::kernel::{Kernel, ReadThreads, ThreadReader, TracingFailed};
use crate::budget::HitCosts;
use crate::host::{self, JobError, NodeJob, clock, placement};
use crate::kernel::{
    Attached, ChosenSlots, Counters, FastEngine, FastRing, KernelError, LoadSettings, ProcessKey, PutInSteps,
    SamplingKeptReady, SlotCounters, SlotsInUse, StrangerHits, Target, ThreadLister, Tracer, sample_running,
};
use crate::kernel::{Collector, DrainBatch};
use crate::plan::FileSlots;
use crate::stacks::{StackChild, ThreadView};

/// The tracer, and the thread that drains its rings.
pub(super) struct LiveKernel {
    tracer: Tracer,
    collector: Collector,
    counters: Arc<Counters>,
    fast: FastEngine,
}

/// What hits cost is measured for this.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calibration {
    /// A budget is to be kept.
    pub budget: bool,
    /// It is to be on a tape.
    pub tape: bool,
}

/// Nobody decides by it, so that a kernel which refuses is no error.
fn probe_costs(tracer: &mut Tracer) -> ProbeCosts {
    let hits = tracer.hit_prices().unwrap_or_default();
    let program_runs = tracer.program_runs();
    let own_time = if tracer.own_time_ns().is_some() { OwnTime::Recorded } else { OwnTime::Unknown };
    ProbeCosts { time_ns: clock::monotonic_ns(), own_time, hits, program_runs, ..ProbeCosts::default() }
}

impl LiveKernel {
    /// Loads the programs, and starts the reading thread on the given CPUs. Says what hits cost here, as far as it is wanted.
    ///
    /// # Errors
    /// What the environment does not allow.
    pub(super) fn load(
        settings: LoadSettings,
        cpus: &[u32],
        calibration: Calibration,
    ) -> Result<(Self, Option<HitCosts>, Option<ProbeCosts>)> {
        let fast = FastEngine::new(settings.ring_bytes, settings.alloc_min_bytes, settings.holder);
        let mut tracer = Tracer::load(settings)?;
        let costs = if calibration.budget { Some(tracer.calibrate()?) } else { None };
        let probe_costs = calibration.tape.then(|| probe_costs(&mut tracer));
        tracer.attach_kernel_events()?;
        let counters = tracer.counters();
        let collector = Collector::start(Arc::clone(&counters), cpus.to_vec());
        let collector = collector.context("cannot start the reading thread")?;
        Ok((Self { tracer, collector, counters, fast }, costs, probe_costs))
    }

    /// Whether probes for one process see all of its threads; if they cannot be tried, they are not to be relied on.
    pub(super) fn filter_sees_all_threads(&mut self) -> bool {
        self.tracer.filter_sees_all_threads().unwrap_or(false)
    }

    /// Kernel probes find there in which call a thread is that no kernel probe has seen.
    fn tell_notes(&mut self, pid: u32) -> Result<(), KernelError> {
        match self.fast.notes_at(pid) {
            Some(notes_at) => self.tracer.tell_notes(pid, notes_at),
            None => Ok(()),
        }
    }

    fn try_to_move(&mut self, files: Vec<FileSlots>, pids: &[u32]) -> Result<SlotsInUse, String> {
        let chosen = ChosenSlots::of_job(files, pids)?;
        let hooks = chosen.hooks_of_calls();
        let threads = self.tracer.thread_lister().map_err(|error| error.to_string())?;
        let begun = self.tracer.begin_move(chosen.fast())?;
        let Self { tracer, fast, collector, .. } = self;
        let mut steps = MoveSteps { tracer, collector, threads, hooks, told: Vec::new() };
        let used = fast.put_in(chosen, &mut steps);
        let told = steps.told;
        match used.probes.is_empty() {
            true => self.tracer.undo_move(begun, &told),
            false => self.tracer.finish_move(begun),
        }
        Ok(used)
    }

    /// Reads what threads are doing, as long as the tracer is there.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(super) fn thread_reader(&self) -> Result<Box<dyn ThreadReader>> {
        let lister = self.tracer.thread_lister()?;
        Ok(Box::new(LiveThreads { lister, stacks: StackChild::new(sample_running), kept_ready: None }))
    }
}

impl Kernel for LiveKernel {
    fn attach(&mut self, plan: &Plan, targets: &BTreeMap<FileId, Target>) -> Attached {
        let is_fast = |probe: &&Probe| self.fast.probes().contains(&probe.id);
        let fast = plan.probes.iter().filter(is_fast).count();
        if fast == 0 {
            return self.tracer.attach(plan, targets);
        }
        let mut of_kernel = plan.clone();
        of_kernel.probes.retain(|probe| !is_fast(&probe));
        let mut attached = self.tracer.attach(&of_kernel, targets);
        attached.probes += fast;
        attached
    }

    fn use_slots(&mut self, files: Vec<FileSlots>, pids: &[u32]) -> SlotsInUse {
        match ChosenSlots::of_job(files, pids) {
            Ok(chosen) => self.fast.put_in(chosen, &mut ReadOnly(&mut self.collector)),
            Err(why) => SlotsInUse::refused(&why),
        }
    }

    fn move_to_slots(&mut self, files: Vec<FileSlots>, pids: &[u32]) -> SlotsInUse {
        self.try_to_move(files, pids).unwrap_or_else(|why| SlotsInUse::refused(&why))
    }

    fn add_slots(&mut self, files: Vec<FileSlots>) {
        self.fast.add_files(files);
    }

    fn use_slots_late(&mut self, pid: u32) -> Result<bool, String> {
        let is_in = self.fast.put_in_late(pid, &mut ReadOnly(&mut self.collector))?;
        if is_in {
            self.tell_notes(pid).map_err(|error| error.to_string())?;
        }
        Ok(is_in)
    }

    fn detach(&mut self, probes: &BTreeSet<u32>) -> BTreeSet<u32> {
        let mut detached = self.tracer.detach(probes);
        detached.extend(self.fast.detach(probes));
        detached
    }

    fn drop_probes(&mut self, probes: &BTreeSet<u32>) -> BTreeSet<u32> {
        self.tracer.detach(probes)
    }

    fn reattach(&mut self, probes: &BTreeSet<u32>, hot: &BTreeSet<u32>) -> Attached {
        let of_kernel = probes.difference(self.fast.probes()).copied().collect::<BTreeSet<u32>>();
        let fast = probes.len() - of_kernel.len();
        self.fast.reattach(probes);
        let mut attached = self.tracer.reattach(&of_kernel, hot);
        attached.probes += fast;
        attached
    }

    fn reach(&mut self, pid: u32) {
        self.tracer.reach(pid);
    }

    fn leave(&mut self, pid: u32) {
        self.tracer.leave(pid);
    }

    fn stranger_hits(&self) -> StrangerHits {
        self.tracer.stranger_hits()
    }

    fn detach_all(&mut self) {
        self.fast.stop();
        self.tracer.detach_all();
    }

    fn pause(&mut self, is_paused: bool) {
        self.tracer.pause(is_paused);
        if !is_paused {
            self.collector.look_now();
        }
    }

    fn watch(&mut self, process: ProcessKey, slot: u32) -> Result<(), KernelError> {
        self.tracer.watch(process, slot)?;
        self.collector.look_now();
        if let Some(ring) = self.fast.begin(process.pid, slot) {
            self.collector.add_fast(ring);
        }
        self.tell_notes(process.pid)
    }

    fn tell_own_code(&mut self, pid: u32, own_code: &[(u64, u64)]) -> Result<(), KernelError> {
        self.tracer.tell_own_code(pid, own_code)
    }

    fn unwatch(&mut self, pid: u32, started: Option<u64>) {
        self.fast.end(pid);
        self.tracer.unwatch(pid, started);
    }

    fn make_rings(&mut self, slots: Range<u32>) -> (u32, Option<KernelError>) {
        let (rings, refused) = self.tracer.make_rings(slots);
        let count = rings.len() as u32;
        for ring in rings {
            self.collector.add(ring);
        }
        (count, refused)
    }

    fn counters(&self, slot: u32) -> SlotCounters {
        self.counters.read(slot)
    }

    fn next_batch(&mut self, timeout: Duration) -> Result<Option<DrainBatch>, TracingFailed> {
        self.tracer.check_holder()?;
        Ok(self.collector.next(timeout)?)
    }

    fn give_back(&mut self, records: Vec<RawRecord>) {
        self.collector.give_back(records);
    }

    fn drain_rest(&mut self) -> Vec<DrainBatch> {
        let rest = self.collector.finish();
        self.fast.take_out();
        rest
    }

    fn probe_costs(&mut self) -> ProbeCosts {
        probe_costs(&mut self.tracer)
    }
}

/// For processes whose copies and calls nobody has seen before.
struct ReadOnly<'k>(&'k mut Collector);

impl PutInSteps for ReadOnly<'_> {
    fn begin(&mut self, ring: FastRing) {
        self.0.add_fast(ring);
    }
}

/// For processes that the kernel part has watched so far.
struct MoveSteps<'k> {
    tracer: &'k mut Tracer,
    collector: &'k mut Collector,
    threads: ThreadLister,
    /// Hooks of MPI calls, by the calls' probes.
    hooks: BTreeMap<u32, u32>,
    /// Processes of which the kernel part knows.
    told: Vec<u32>,
}

impl PutInSteps for MoveSteps<'_> {
    fn refused(&mut self, pid: u32) {
        self.tracer.tell_not_moved(pid);
    }

    fn ready(&mut self, pid: u32, shared: &SharedRings, places: MappedPlaces) -> Result<(), String> {
        let threads = self.threads.calls_of(pid).map_err(|error| error.to_string())?;
        let threads: Vec<ThreadBefore> =
            threads.into_iter().map(|thread| with_hook(thread, &self.hooks)).collect();
        shared.take_over(&threads, places.main_stack);
        self.told.push(pid);
        self.tracer.tell_moved(pid, places.notes).map_err(|error| error.to_string())
    }

    fn begin(&mut self, ring: FastRing) {
        self.collector.add_fast(ring);
    }
}

/// A call for which there is no hook cannot be noted as if it had come through one.
fn with_hook(thread: ThreadBefore, hooks: &BTreeMap<u32, u32>) -> ThreadBefore {
    let with_hook = |call: NotedBefore| Some(NotedBefore { hook: *hooks.get(&call.name)?, ..call });
    ThreadBefore { call: thread.call.and_then(with_hook), ..thread }
}

/// Lists threads by the kernel part, and reads their stacks.
struct LiveThreads {
    lister: ThreadLister,
    stacks: StackChild,
    kept_ready: Option<SamplingKeptReady>,
}

impl ThreadReader for LiveThreads {
    fn get_ready(&mut self) {
        self.kept_ready = Some(SamplingKeptReady::start());
    }

    /// One that sleeps only for moments may be somewhere else by the time its stack is read, which shows: then it is
    /// read again.
    fn read(&mut self, mut processes: BTreeMap<u32, Vec<LastCall>>) -> ReadThreads {
        const MOST_TRIES: u32 = 5;
        let mut found: BTreeMap<u32, Vec<ThreadFacts>> = BTreeMap::new();
        let mut unreadable = BTreeMap::new();
        for _ in 0..MOST_TRIES {
            // Without the list of threads nothing is said, and the next time is soon.
            let Ok(threads) = self.lister.threads() else { break };
            processes.retain(|&pid, last_calls| {
                let own: Vec<ThreadView> =
                    threads.iter().filter(|thread| thread.pid == pid).copied().collect();
                match self.stacks.read(pid, &own, last_calls) {
                    Ok(threads) => {
                        let is_cut = threads.iter().any(|thread| thread.cut.is_some());
                        found.insert(pid, threads);
                        is_cut
                    }
                    Err(reason) => {
                        let is_over = host::processes::is_ending(pid);
                        unreadable.extend((!is_over).then_some((pid, reason)));
                        false
                    }
                }
            });
            if processes.is_empty() {
                break;
            }
        }
        ReadThreads { threads: found.into_values().flatten().collect(), unreadable }
    }
}

/// This machine.
pub(super) struct LiveHost;

impl Host for LiveHost {
    fn now_ns(&self) -> u64 {
        clock::monotonic_ns()
    }

    fn clocks(&self) -> ClockReading {
        clock::reading()
    }

    fn rdma_addresses(&self) -> Vec<RdmaAddress> {
        host::rdma::addresses()
    }

    fn found_connected(&self, pid: u32, in_use: &QueueChange) -> Option<QueueChange> {
        host::queue_pairs::found_connected(pid, in_use)
    }

    fn own_cpu_ns(&self) -> u64 {
        clock::process_cpu_ns()
    }

    fn process_facts(&self, pid: u32, time_ns: u64) -> Result<ProcessFacts, JobError> {
        // Its environment and arguments are read from its memory.
        let facts = host::deadline::in_time(move || host::process_facts(pid, time_ns));
        facts.unwrap_or_else(|| Err(JobError::Unreadable(pid, "a read of its memory does not end".into())))
    }

    fn start_ticks(&self, pid: u32) -> Result<u64, JobError> {
        host::processes::start_ticks(pid)
    }

    fn mappings(&self, pid: u32) -> Option<Vec<Mapping>> {
        host::gather::read_maps(pid).ok()
    }

    fn runs_mpi(&self, pid: u32) -> bool {
        let exe = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        matches!(host::processes::mpi_library(pid, &exe.to_string_lossy(), true), Ok(Some(_)))
    }

    fn has_ended(&self, pid: u32, started: Option<u64>) -> Result<bool, JobError> {
        host::processes::has_ended(pid, started)
    }

    fn starters(&self, job: &NodeJob) -> Vec<u32> {
        host::jobs::starters(job)
    }

    fn descendants(&self, pids: &[u32]) -> Vec<u32> {
        host::jobs::descendants(pids)
    }

    fn late_ranks(&self, job: &NodeJob) -> Vec<ProcessKey> {
        host::jobs::late_ranks(job).iter().map(ProcessKey::of_rank).collect()
    }

    fn stay_on(&self, cpus: &[u32]) {
        placement::stay_on(cpus);
    }

    fn run_early(&self) {
        placement::run_early();
    }

    fn yield_to_the_job(&self) {
        placement::yield_to_the_job();
    }

    fn catch_up(&self) {
        placement::catch_up();
    }
}
