//! A machine and a kernel that follow a script, for tests without root.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use analyzer::input::{ClockReading, Mapping, ProbeCosts, ProcessFacts, ThreadFacts, ThreadState};
use analyzer::pipeline::LastCall;
use analyzer::plan::{Plan, PlannedFile, Probe, ProbeClass};
use analyzer::wire::{Body, CallContext, FileId, Header, QueueChange, RawRecord, Record};
use analyzer::{RdmaAddress, queue_state};
use anyhow::Result;

use super::host::Host;
use super::kernel::{Kernel, ReadThreads, ThreadReader, TracingFailed};
use super::planner::{PlanSource, Planned};
use crate::budget::bundles;
use crate::host::files::{OpenedFile, open_path};
use crate::host::gather::AttachPoint;
use crate::host::{JobError, NodeJob};
use crate::kernel::SlotsInUse;
use crate::kernel::{Attached, KernelError, ProcessKey, Scope, SlotCounters, StrangerHits, Target};
use crate::kernel::{DrainBatch, ReaderFailed};
use crate::plan::FileSlots;
use crate::plan::attach::StrangerCount;

pub(super) const MS: u64 = 1_000_000;
pub(super) const S: u64 = 1000 * MS;
/// When a session begins, CLOCK_MONOTONIC.
pub(super) const BEGIN_NS: u64 = 100 * S;
/// The file that probes are in.
pub(super) const PROGRAM: FileId = FileId { dev: 1, inode: 10 };
/// Between two batches that only wait for something.
const IDLE_NS: u64 = 10 * MS;
/// What the wall clock of the fake machine showed when it began.
const WALL_CLOCK_NS: u64 = 1_700_000_000_000_000_000;

/// A process of the scripted machine.
#[derive(Clone, Debug, Default)]
pub(super) struct FakeProcess {
    pub facts: ProcessFacts,
    pub runs_mpi: bool,
    pub start_ticks: u64,
    /// `/proc` gives an error for it.
    pub is_unreadable: bool,
}

/// The scripted machine, and what a session has done to its kernel.
#[derive(Default)]
pub(super) struct World {
    pub now_ns: u64,
    /// Processor time of the session itself.
    pub own_cpu_ns: u64,
    pub processes: BTreeMap<u32, FakeProcess>,
    /// What processes map that was not planned yet.
    pub loaded: BTreeMap<u32, Vec<Probe>>,
    /// Files that were written anew since they were planned.
    pub rewritten: BTreeSet<FileId>,
    /// Processes that map a file that cannot be opened, as far as it was not told yet.
    pub blind: BTreeSet<u32>,
    pub starters: Vec<u32>,
    pub late_ranks: Vec<u32>,
    /// By process, the number of its ring.
    pub watched: BTreeMap<u32, u32>,
    /// By process, when the one that is watched started.
    pub started: BTreeMap<u32, u64>,
    pub own_code: BTreeMap<u32, Vec<(u64, u64)>>,
    pub counters: BTreeMap<u32, SlotCounters>,
    /// Others that run the program.
    pub strangers: StrangerCount,
    /// Probes that processes which nobody watches ran into.
    pub stranger_hits: u64,
    /// For whom the program's probes are.
    pub scope: Option<Scope>,
    /// Processes that have links of their own.
    pub reached: BTreeSet<u32>,
    /// Processes that record by themselves since they were asked to.
    pub moved: Vec<u32>,
    /// There is no memory for more rings.
    pub most_rings: Option<u32>,
    rings: u32,
    known: BTreeMap<u32, Probe>,
    pub attached: BTreeSet<u32>,
    /// Probes that the kernel does not take (any more).
    pub refused: BTreeSet<u32>,
    pub paused: bool,
    /// Attached probes that were said to be too expensive.
    pub hot: BTreeSet<u32>,
    /// Processes that were sampled, in order.
    pub sampled: Vec<u32>,
    /// What becomes of helper threads when they are next asked.
    pub planner_fails: bool,
    pub sampler_fails: bool,
    pub sampler_is_stuck: bool,
    /// PIDs of processes whose threads cannot be read, and why.
    pub unreadable: BTreeMap<u32, String>,
}

/// A world that kernel, machine, planner and script share.
#[derive(Clone, Default)]
pub(super) struct Shared(Arc<Mutex<World>>);

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, World> {
        self.0.lock().expect("no test panics while it holds the world")
    }
}

/// What comes next.
pub(super) enum Step {
    /// Time passes, then these records are in the rings: those of watched processes and attached probes.
    Records(u64, Vec<RawRecord>),
    /// Something changes.
    Change(Box<dyn FnOnce(&mut World)>),
    /// Rings stay empty until this holds.
    Until(fn(&World) -> bool),
    /// The thread that reads rings has ended.
    ReaderFails,
}

impl World {
    /// So many records of a process found no room.
    pub(super) fn lose(&mut self, pid: u32, movements: u64, state: u64) {
        let counters = self.counters.entry(self.watched[&pid]).or_default();
        counters.lost_movements += movements;
        counters.lost_state += state;
    }

    fn process(&self, pid: u32) -> Result<&FakeProcess, JobError> {
        let process = self.processes.get(&pid).ok_or(JobError::Vanished(pid))?;
        if process.is_unreadable {
            return Err(JobError::Unreadable(pid, "Too many open files (os error 24)".into()));
        }
        Ok(process)
    }

    fn attach(&mut self, probes: impl IntoIterator<Item = Probe>) -> Attached {
        let mut result = Attached::default();
        for probe in probes {
            if self.refused.contains(&probe.id) {
                result.failed.push((probe, "no such instruction".into()));
            } else {
                self.attached.insert(probe.id);
                result.probes += 1;
            }
        }
        result
    }

    /// The records that there would be, by ring.
    fn seen(&mut self, records: Vec<RawRecord>) -> Vec<(u32, Vec<RawRecord>)> {
        let mut seen: BTreeMap<u32, Vec<RawRecord>> = BTreeMap::new();
        for raw in records {
            let Some(&slot) = self.watched.get(&raw.pid()) else { continue };
            if raw.probe() != 0 && !(self.attached.contains(&raw.probe()) && self.is_reached(raw.pid())) {
                continue;
            }
            seen.entry(slot).or_default().push(raw);
            match Record::decode(&raw).expect("tests make whole records").body {
                Body::Fork { child } => {
                    self.watched.insert(child, slot);
                    self.started.insert(child, self.process(child).map_or(0, |process| process.start_ticks));
                }
                Body::Exit { .. } => {
                    self.watched.remove(&raw.pid());
                }
                _ => {}
            }
        }
        seen.into_iter().collect()
    }

    fn is_reached(&self, pid: u32) -> bool {
        self.scope != Some(Scope::EachReached) || self.reached.contains(&pid)
    }

    fn batch(&mut self, records: Vec<RawRecord>) -> DrainBatch {
        let records = self.seen(records);
        let counters = (0..self.rings).map(|slot| (slot, self.counters_of(slot))).collect();
        DrainBatch { begin_ns: self.now_ns, end_ns: self.now_ns + 1, records, counters, unreadable: 0 }
    }

    fn counters_of(&self, slot: u32) -> SlotCounters {
        self.counters.get(&slot).copied().unwrap_or_default()
    }
}

/// A kernel that plays a script, and stops the session after it.
pub(super) struct FakeKernel {
    pub world: Shared,
    pub script: VecDeque<Step>,
    pub stop: Arc<AtomicBool>,
}

impl Kernel for FakeKernel {
    fn attach(&mut self, plan: &Plan, targets: &BTreeMap<FileId, Target>) -> Attached {
        assert!(plan.probes.iter().all(|probe| targets.contains_key(&probe.file)));
        let mut world = self.world.lock();
        world.scope = targets.get(&PROGRAM).map(|target| target.scope);
        world.known.extend(plan.probes.iter().map(|probe| (probe.id, probe.clone())));
        world.attach(plan.probes.iter().cloned())
    }

    fn use_slots(&mut self, _files: Vec<FileSlots>, _pids: &[u32]) -> SlotsInUse {
        SlotsInUse::default()
    }

    fn move_to_slots(&mut self, files: Vec<FileSlots>, pids: &[u32]) -> SlotsInUse {
        let mut world = self.world.lock();
        let sites = files.iter().flat_map(|file| file.sites.iter().map(|site| site.probe));
        let probes: BTreeSet<u32> = sites.collect();
        world.attached.retain(|id| !probes.contains(id));
        world.moved = pids.to_vec();
        SlotsInUse { probes, ..SlotsInUse::default() }
    }

    fn add_slots(&mut self, _files: Vec<FileSlots>) {}

    fn use_slots_late(&mut self, _pid: u32) -> Result<bool, String> {
        Ok(false)
    }

    fn drop_probes(&mut self, probes: &BTreeSet<u32>) -> BTreeSet<u32> {
        self.detach(probes)
    }

    fn detach(&mut self, probes: &BTreeSet<u32>) -> BTreeSet<u32> {
        let mut world = self.world.lock();
        let attached: Vec<Probe> = world.attached.iter().map(|id| world.known[id].clone()).collect();
        let bundles = bundles(&attached, &world.hot);
        let ids = bundles.into_values().map(|bundle| bundle.iter().map(|probe| probe.id).collect());
        let detached: BTreeSet<u32> =
            ids.filter(|bundle: &BTreeSet<u32>| !bundle.is_disjoint(probes)).flatten().collect();
        world.attached.retain(|probe| !detached.contains(probe));
        detached
    }

    fn reattach(&mut self, probes: &BTreeSet<u32>, hot: &BTreeSet<u32>) -> Attached {
        let mut world = self.world.lock();
        world.hot.retain(|probe| !probes.contains(probe));
        world.hot.extend(probes.intersection(hot));
        let probes: Vec<Probe> = probes.iter().map(|probe| world.known[probe].clone()).collect();
        world.attach(probes)
    }

    fn reach(&mut self, pid: u32) {
        assert!(self.world.lock().reached.insert(pid), "process {pid} has no links yet");
    }

    fn leave(&mut self, pid: u32) {
        assert!(self.world.lock().reached.remove(&pid), "process {pid} has links");
    }

    fn stranger_hits(&self) -> StrangerHits {
        StrangerHits::from([(ProbeClass::Copy, self.world.lock().stranger_hits)])
    }

    fn detach_all(&mut self) {
        self.world.lock().attached.clear();
    }

    fn pause(&mut self, is_paused: bool) {
        self.world.lock().paused = is_paused;
    }

    fn watch(&mut self, process: ProcessKey, slot: u32) -> Result<(), KernelError> {
        let ProcessKey { pid, start_ticks } = process;
        let mut world = self.world.lock();
        assert!(slot < world.rings, "process {pid} has a ring that was made");
        world.watched.insert(pid, slot);
        world.started.insert(pid, start_ticks);
        Ok(())
    }

    fn tell_own_code(&mut self, pid: u32, own_code: &[(u64, u64)]) -> Result<(), KernelError> {
        let mut world = self.world.lock();
        if world.watched.contains_key(&pid) {
            world.own_code.insert(pid, own_code.to_vec());
        }
        Ok(())
    }

    fn unwatch(&mut self, pid: u32, started: Option<u64>) {
        let mut world = self.world.lock();
        if started.is_none_or(|started| world.started.get(&pid) == Some(&started)) {
            world.watched.remove(&pid);
            world.started.remove(&pid);
        }
    }

    fn make_rings(&mut self, slots: Range<u32>) -> (u32, Option<KernelError>) {
        let mut world = self.world.lock();
        assert_eq!(slots.start, world.rings, "rings are made one after the other");
        let made = slots.end.min(world.most_rings.unwrap_or(u32::MAX)).saturating_sub(slots.start);
        world.rings += made;
        (made, None)
    }

    fn counters(&self, slot: u32) -> SlotCounters {
        self.world.lock().counters_of(slot)
    }

    fn next_batch(&mut self, timeout: Duration) -> Result<Option<DrainBatch>, TracingFailed> {
        loop {
            let mut world = self.world.lock();
            match self.script.pop_front() {
                None if timeout.is_zero() => return Ok(None),
                None => {
                    self.stop.store(true, Ordering::Relaxed);
                    return Ok(None);
                }
                Some(Step::Change(change)) => change(&mut world),
                Some(Step::Records(after_ns, records)) => {
                    world.now_ns += after_ns;
                    return Ok(Some(world.batch(records)));
                }
                Some(Step::ReaderFails) => {
                    self.script.push_front(Step::ReaderFails);
                    return Err(ReaderFailed.into());
                }
                Some(Step::Until(holds)) if holds(&world) => {}
                Some(Step::Until(holds)) => {
                    self.script.push_front(Step::Until(holds));
                    world.now_ns += IDLE_NS;
                    assert!(world.now_ns < BEGIN_NS + 1000 * S, "what is waited for never comes");
                    let batch = world.batch(Vec::new());
                    drop(world);
                    // Other threads of the session have their say.
                    std::thread::sleep(Duration::from_micros(200));
                    return Ok(Some(batch));
                }
            }
        }
    }

    fn give_back(&mut self, _records: Vec<RawRecord>) {}

    fn drain_rest(&mut self) -> Vec<DrainBatch> {
        vec![self.world.lock().batch(Vec::new())]
    }

    fn probe_costs(&mut self) -> ProbeCosts {
        ProbeCosts::default()
    }
}

/// Every thread sleeps in the same place, in no MPI call.
pub(super) struct FakeThreads(pub Shared);

impl ThreadReader for FakeThreads {
    fn read(&mut self, processes: BTreeMap<u32, Vec<LastCall>>) -> ReadThreads {
        if self.0.lock().sampler_fails {
            fail_silently();
        }
        while self.0.lock().sampler_is_stuck {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.0.lock().sampled.extend(processes.keys());
        let sleeps =
            |pid: u32| ThreadFacts { pid, tid: pid, state: ThreadState::Sleeping, ..ThreadFacts::default() };
        let unreadable = self.0.lock().unreadable.clone();
        let readable = processes.into_keys().filter(|pid| !unreadable.contains_key(pid));
        ReadThreads { threads: readable.map(sleeps).collect(), unreadable }
    }
}

/// A panic without the words.
fn fail_silently() -> ! {
    std::panic::resume_unwind(Box::new("as the test wants it"))
}

/// A machine whose clock the script moves.
pub(super) struct FakeHost(pub Shared);

impl Host for FakeHost {
    fn now_ns(&self) -> u64 {
        self.0.lock().now_ns
    }

    fn clocks(&self) -> ClockReading {
        let time_ns = self.now_ns();
        ClockReading { time_ns, wall_clock_ns: WALL_CLOCK_NS + time_ns, ..ClockReading::default() }
    }

    fn rdma_addresses(&self) -> Vec<RdmaAddress> {
        Vec::new()
    }

    fn found_connected(&self, pid: u32, in_use: &QueueChange) -> Option<QueueChange> {
        let state = queue_state::FOUND_CONNECTED;
        self.0.lock().process(pid).ok().map(|_| QueueChange { state, peer: in_use.psn, psn: 0, ..*in_use })
    }

    fn own_cpu_ns(&self) -> u64 {
        self.0.lock().own_cpu_ns
    }

    fn process_facts(&self, pid: u32, time_ns: u64) -> Result<ProcessFacts, JobError> {
        let world = self.0.lock();
        world.process(pid).map(|process| ProcessFacts { time_ns, ..process.facts.clone() })
    }

    fn start_ticks(&self, pid: u32) -> Result<u64, JobError> {
        self.0.lock().process(pid).map(|process| process.start_ticks)
    }

    fn mappings(&self, pid: u32) -> Option<Vec<Mapping>> {
        self.0.lock().processes.get(&pid).map(|process| process.facts.mappings.clone())
    }

    fn runs_mpi(&self, pid: u32) -> bool {
        self.0.lock().processes.get(&pid).is_some_and(|process| process.runs_mpi)
    }

    fn has_ended(&self, pid: u32, started: Option<u64>) -> Result<bool, JobError> {
        match self.start_ticks(pid) {
            Ok(now) => Ok(started.is_some_and(|started| started != now)),
            Err(error) if error.has_ended() => Ok(true),
            Err(error) => Err(error),
        }
    }

    fn descendants(&self, _pids: &[u32]) -> Vec<u32> {
        Vec::new()
    }

    fn starters(&self, _job: &NodeJob) -> Vec<u32> {
        self.0.lock().starters.clone()
    }

    fn late_ranks(&self, _job: &NodeJob) -> Vec<ProcessKey> {
        self.0.lock().late_ranks.iter().map(|&pid| ProcessKey { pid, start_ticks: 1 }).collect()
    }

    fn stay_on(&self, _cpus: &[u32]) {}

    fn run_early(&self) {}

    fn yield_to_the_job(&self) {}

    fn catch_up(&self) {}
}

/// Plans what the world says is loaded.
pub(super) struct FakePlanner(pub Shared);

impl PlanSource for FakePlanner {
    fn processes(&mut self, pids: &[u32]) -> Result<Planned> {
        let mut world = self.0.lock();
        if world.planner_fails {
            drop(world);
            fail_silently();
        }
        let probes: Vec<Probe> = pids.iter().filter_map(|pid| world.loaded.remove(pid)).flatten().collect();
        let dropped = std::mem::take(&mut world.rewritten);
        let blind: BTreeSet<u32> = world.blind.extract_if(.., |pid| pids.contains(pid)).collect();
        let warnings = dropped.iter().map(|_| "written anew".to_owned());
        let warnings = warnings.chain(blind.iter().map(|_| "not opened".to_owned())).collect();
        if probes.is_empty() {
            return Ok(Planned { dropped, warnings, blind, ..Planned::default() });
        }
        let file = PlannedFile { id: PROGRAM, path: "/a.out".into(), own: true, ..PlannedFile::default() };
        let strangers = world.strangers;
        let point = AttachPoint { file: Arc::new(empty_file()), pids: pids.to_vec(), strangers };
        Ok(Planned {
            plan: Plan { files: vec![file], probes, ..Plan::default() },
            attach: BTreeMap::from([(PROGRAM, point)]),
            dropped,
            warnings,
            blind,
            ..Planned::default()
        })
    }
}

/// A file without anything in it.
pub(super) fn empty_file() -> OpenedFile {
    let file = tempfile::NamedTempFile::new().expect("a file");
    open_path(file.path()).expect("a file").1
}

pub(super) fn probe(id: u32, class: ProbeClass) -> Probe {
    let function = if class == ProbeClass::Call { "MPI_Barrier" } else { "memcpy" };
    Probe::at(id, PROGRAM, 0x100 * u64::from(id), class, function)
}

pub(super) fn process(pid: u32, rank: Option<u32>) -> FakeProcess {
    let code = Mapping {
        start: 0x40_0000,
        end: 0x50_0000,
        file: PROGRAM,
        exec: true,
        name: "/a.out".into(),
        ..Mapping::default()
    };
    let facts = ProcessFacts {
        pid,
        namespace_pid: pid,
        rank,
        size: rank.map(|_| 2),
        exe: "/a.out".into(),
        mappings: vec![code],
        ..ProcessFacts::default()
    };
    FakeProcess { facts, runs_mpi: true, start_ticks: 1, is_unreadable: false }
}

pub(super) fn record(time_ns: u64, pid: u32, probe: u32, body: Body) -> RawRecord {
    Record { header: Header { time_ns, pid, tid: pid, probe }, body }.encode()
}

pub(super) fn copy(time_ns: u64, pid: u32, probe: u32) -> RawRecord {
    let body = Body::Copy { dst: 0x2000, src: 0x1000, len_bytes: 64, context: CallContext::default() };
    record(time_ns, pid, probe, body)
}

/// Code of the program is mapped.
pub(super) fn map(time_ns: u64, pid: u32) -> RawRecord {
    let body = Body::Map {
        addr: 0x40_0000,
        len_bytes: 0x10_0000,
        offset_bytes: 0,
        file: PROGRAM,
        shared: false,
        exec: true,
        has_file: true,
    };
    record(time_ns, pid, 0, body)
}
