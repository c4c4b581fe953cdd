//! A machine and a kernel that follow a script, for tests without root.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use analyzer::input::{Mapping, ProcessFacts, ThreadFacts, ThreadState};
use analyzer::pipeline::LastCall;
use analyzer::plan::{Plan, PlannedFile, Probe, ProbeClass, ProbePlace};
use analyzer::wire::{Body, CallContext, FileId, Header, RawRecord, Record};
use anyhow::Result;

use super::host::Host;
use super::kernel::{Kernel, ThreadReader};
use super::planner::{PlanSource, Planned};
use crate::collector::DrainBatch;
use crate::host::NodeJob;
use crate::host::gather::AttachPoint;
use crate::kernel::{Attached, KernelError, SlotCounters, Target};
use crate::plan::attach::{AttachDecision, AttachMode};

pub(super) const MS: u64 = 1_000_000;
pub(super) const S: u64 = 1000 * MS;
/// When a session begins, CLOCK_MONOTONIC.
pub(super) const BEGIN_NS: u64 = 100 * S;
/// The file that probes are in.
pub(super) const PROGRAM: FileId = FileId { dev: 1, inode: 10 };
/// Between two batches that only wait for something.
const IDLE_NS: u64 = 10 * MS;

/// A process of the scripted machine.
#[derive(Clone, Debug, Default)]
pub(super) struct FakeProcess {
    pub facts: ProcessFacts,
    pub runs_mpi: bool,
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
    pub starters: Vec<u32>,
    pub late_ranks: Vec<u32>,
    /// By process, the number of its ring.
    pub watched: BTreeMap<u32, u32>,
    pub own_code: BTreeMap<u32, Vec<(u64, u64)>>,
    pub counters: BTreeMap<u32, SlotCounters>,
    /// There is no memory for more rings.
    pub most_rings: Option<u32>,
    rings: u32,
    known: BTreeMap<u32, Probe>,
    pub attached: BTreeSet<u32>,
    /// Probes that the kernel does not take (any more).
    pub refused: BTreeSet<u32>,
    pub paused: bool,
    /// Probes that were asked to have links of their own.
    pub apart: BTreeSet<u32>,
    /// Processes that were sampled, in order.
    pub sampled: Vec<u32>,
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
}

impl World {
    /// So many records of a process found no room.
    pub(super) fn lose(&mut self, pid: u32, movements: u64, state: u64) {
        let counters = self.counters.entry(self.watched[&pid]).or_default();
        counters.lost_movements += movements;
        counters.lost_state += state;
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
            if raw.probe() != 0 && !self.attached.contains(&raw.probe()) {
                continue;
            }
            seen.entry(slot).or_default().push(raw);
            match Record::decode(&raw).expect("tests make whole records").body {
                Body::Fork { child } => {
                    self.watched.insert(child, slot);
                }
                Body::Exit { .. } => {
                    self.watched.remove(&raw.pid());
                }
                _ => {}
            }
        }
        seen.into_iter().collect()
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
    fn attach(&mut self, plan: &Plan, targets: &BTreeMap<FileId, Target>, apart: &BTreeSet<u32>) -> Attached {
        assert!(plan.probes.iter().all(|probe| targets.contains_key(&probe.file)));
        let mut world = self.world.lock();
        world.apart.extend(apart);
        world.known.extend(plan.probes.iter().map(|probe| (probe.id, probe.clone())));
        world.attach(plan.probes.iter().cloned())
    }

    fn detach(&mut self, probes: &BTreeSet<u32>) -> BTreeSet<u32> {
        let mut world = self.world.lock();
        probes.iter().copied().filter(|probe| world.attached.remove(probe)).collect()
    }

    fn reattach(&mut self, probes: &BTreeSet<u32>) -> Attached {
        let mut world = self.world.lock();
        let probes: Vec<Probe> = probes.iter().map(|probe| world.known[probe].clone()).collect();
        world.attach(probes)
    }

    fn detach_all(&mut self) {
        self.world.lock().attached.clear();
    }

    fn pause(&mut self, is_paused: bool) {
        self.world.lock().paused = is_paused;
    }

    fn watch(&mut self, pid: u32, slot: u32, own_code: Option<&[(u64, u64)]>) -> Result<(), KernelError> {
        let mut world = self.world.lock();
        assert!(slot < world.rings, "process {pid} has a ring that was made");
        world.watched.insert(pid, slot);
        if let Some(own_code) = own_code {
            world.own_code.insert(pid, own_code.to_vec());
        }
        Ok(())
    }

    fn unwatch(&mut self, pid: u32) {
        self.world.lock().watched.remove(&pid);
    }

    fn make_rings(&mut self, slots: Range<u32>) -> u32 {
        let mut world = self.world.lock();
        assert_eq!(slots.start, world.rings, "rings are made one after the other");
        let made = slots.end.min(world.most_rings.unwrap_or(u32::MAX)).saturating_sub(slots.start);
        world.rings += made;
        made
    }

    fn counters(&self, slot: u32) -> SlotCounters {
        self.world.lock().counters_of(slot)
    }

    fn next_batch(&mut self, _timeout: Duration) -> Option<DrainBatch> {
        loop {
            let mut world = self.world.lock();
            match self.script.pop_front() {
                None => {
                    self.stop.store(true, Ordering::Relaxed);
                    return None;
                }
                Some(Step::Change(change)) => change(&mut world),
                Some(Step::Records(after_ns, records)) => {
                    world.now_ns += after_ns;
                    return Some(world.batch(records));
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
                    return Some(batch);
                }
            }
        }
    }

    fn give_back(&mut self, _records: Vec<RawRecord>) {}

    fn drain_rest(&mut self) -> Vec<DrainBatch> {
        vec![self.world.lock().batch(Vec::new())]
    }
}

/// Every thread sleeps in the same place, in no MPI call.
pub(super) struct FakeThreads(pub Shared);

impl ThreadReader for FakeThreads {
    fn read(&mut self, processes: BTreeMap<u32, Vec<LastCall>>) -> Vec<ThreadFacts> {
        self.0.lock().sampled.extend(processes.keys());
        let sleeps =
            |pid: u32| ThreadFacts { pid, tid: pid, state: ThreadState::Sleeping, ..ThreadFacts::default() };
        processes.into_keys().map(sleeps).collect()
    }
}

/// A machine whose clock the script moves.
pub(super) struct FakeHost(pub Shared);

impl Host for FakeHost {
    fn now_ns(&self) -> u64 {
        self.0.lock().now_ns
    }

    fn own_cpu_ns(&self) -> u64 {
        self.0.lock().own_cpu_ns
    }

    fn process_facts(&self, pid: u32, time_ns: u64) -> Option<ProcessFacts> {
        self.0.lock().processes.get(&pid).map(|process| ProcessFacts { time_ns, ..process.facts.clone() })
    }

    fn mappings(&self, pid: u32) -> Option<Vec<Mapping>> {
        self.0.lock().processes.get(&pid).map(|process| process.facts.mappings.clone())
    }

    fn runs_mpi(&self, pid: u32) -> bool {
        self.0.lock().processes.get(&pid).is_some_and(|process| process.runs_mpi)
    }

    fn has_ended(&self, pid: u32) -> bool {
        !self.0.lock().processes.contains_key(&pid)
    }

    fn starters(&self, _job: &NodeJob) -> Vec<u32> {
        self.0.lock().starters.clone()
    }

    fn late_ranks(&self, _job: &NodeJob) -> Vec<u32> {
        self.0.lock().late_ranks.clone()
    }

    fn stay_on(&self, _cpus: &[u32]) {}

    fn yield_to_the_job(&self) {}

    fn catch_up(&self) {}
}

/// Plans what the world says is loaded.
pub(super) struct FakePlanner(pub Shared);

impl PlanSource for FakePlanner {
    fn processes(&mut self, pids: &[u32]) -> Result<Planned> {
        let mut world = self.0.lock();
        let probes: Vec<Probe> = pids.iter().filter_map(|pid| world.loaded.remove(pid)).flatten().collect();
        if probes.is_empty() {
            return Ok(Planned::default());
        }
        let file = PlannedFile { id: PROGRAM, path: "/a.out".into(), own: true, ..PlannedFile::default() };
        let decision = AttachDecision { mode: AttachMode::OneLink, reason: String::new() };
        let point = AttachPoint { path: PathBuf::from("/dev/null"), pids: pids.to_vec(), decision };
        Ok(Planned {
            plan: Plan { files: vec![file], probes, ..Plan::default() },
            attach: BTreeMap::from([(PROGRAM, point)]),
            notes: Vec::new(),
        })
    }
}

pub(super) fn probe(id: u32, class: ProbeClass) -> Probe {
    Probe {
        id,
        file: PROGRAM,
        offset_bytes: 0x100 * u64::from(id),
        site_offset_bytes: 0x100 * u64::from(id),
        class,
        function: if class == ProbeClass::Call { "MPI_Barrier".into() } else { "memcpy".into() },
        place: ProbePlace::Push,
        stack_bytes: 0,
        argument: 0,
        results: None,
        reason: String::new(),
    }
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
    FakeProcess { facts, runs_mpi: true }
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
