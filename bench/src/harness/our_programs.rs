//! The real BPF programs at chosen places of a process, with the real reader of their rings.

use std::collections::{BTreeMap, HashMap};
use std::os::linux::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;

use analyzer::plan::{Plan, Probe, ProbeClass};
use analyzer::wire::FileId;
use anyhow::{Context, Result, ensure};
use dmscope::host::clock::monotonic_ns;
use dmscope::host::files::{kernel_dev, open_path};
use dmscope::kernel::Collector;
use dmscope::kernel::{Counters, LoadSettings, ProcessKey, Scope, Target, Tracer};

use super::probed_process::{Offsets, PROGRAM};

/// How long the reader may take for a look.
const PATIENCE: Duration = Duration::from_secs(5);

/// The tracer, its reader, and what it counted.
pub struct OurPrograms {
    tracer: Tracer,
    collector: Collector,
    counters: Arc<Counters>,
    /// Records that were read, by slot.
    seen: HashMap<u32, u64>,
    probes: u32,
}

/// What became of the hits of a process so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordCounts {
    /// Records that were read.
    pub seen: u64,
    /// Records that found no room.
    pub lost: u64,
}

/// One of the programs at one place.
#[derive(Clone, Debug)]
pub struct OurProbe {
    /// The program, by the class of its probes.
    pub class: ProbeClass,
    /// What it takes the place for: `malloc`, …
    pub function: &'static str,
    /// The class's argument, see [`Probe::argument`].
    pub argument: u64,
}

impl OurPrograms {
    /// Loads the programs; the reader runs on these processors (none: anywhere).
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn load(reader_cpus: Vec<u32>) -> Result<Self> {
        let tracer = Tracer::load(LoadSettings::default())?;
        let counters = tracer.counters();
        let collector = Collector::start(Arc::clone(&counters), reader_cpus)?;
        Ok(Self { tracer, collector, counters, seen: HashMap::new(), probes: 0 })
    }

    /// Whether the kernel has session probes.
    pub fn has_sessions(&self) -> bool {
        self.tracer.features().sessions
    }

    /// Watches a process, with a ring of its own; none of its code asks for heap blocks of its own.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn watch(&mut self, pid: u32, slot: u32) -> Result<()> {
        let ring = self.tracer.make_ring(slot)?;
        self.collector.add(ring);
        let start_ticks = dmscope::host::processes::start_ticks(pid)?;
        self.tracer.watch(ProcessKey { pid, start_ticks }, slot)?;
        Ok(self.tracer.tell_own_code(pid, &[])?)
    }

    /// Puts a program at the first instruction of a function, for all processes.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn attach(&mut self, probe: &OurProbe, function: &str, offsets: &Offsets) -> Result<()> {
        let metadata = std::fs::metadata(PROGRAM)?;
        let file = FileId { dev: kernel_dev(metadata.st_dev()), inode: metadata.st_ino() };
        let offset_bytes = offsets.of(function)?;
        self.probes += 1;
        let probe = Probe {
            argument: probe.argument,
            ..Probe::at(self.probes, file, offset_bytes, probe.class, probe.function)
        };
        let plan = Plan { probes: vec![probe], ..Plan::default() };
        let (_, program) = open_path(PROGRAM.as_ref())?;
        let target = Target::as_it_is(program, [offset_bytes], Scope::EveryProcess);
        let attached = self.tracer.attach(&plan, &BTreeMap::from([(file, target)]));
        ensure!(attached.failed.is_empty(), "{function}: {}", attached.failed[0].1);
        Ok(())
    }

    /// Waits until the reader has found all that was written so far, and counts it.
    ///
    /// # Errors
    /// The reader has failed.
    pub fn settle(&mut self) -> Result<()> {
        let now_ns = monotonic_ns();
        while let Some(batch) = self.collector.next(PATIENCE)? {
            for (slot, records) in batch.records {
                *self.seen.entry(slot).or_default() += records.len() as u64;
            }
            if batch.begin_ns > now_ns {
                break;
            }
        }
        Ok(())
    }

    /// What was counted for a slot so far.
    pub fn counted(&self, slot: u32) -> RecordCounts {
        let counters = self.counters.read(slot);
        RecordCounts { seen: self.seen.get(&slot).copied().unwrap_or(0), lost: counters.lost() }
    }

    /// Fails unless exactly so many records were written since, and none was lost. All must be settled.
    ///
    /// # Errors
    /// What was counted instead.
    pub fn check_records(&self, slot: u32, since: RecordCounts, expected: u64) -> Result<()> {
        let now = self.counted(slot);
        let (seen, lost) = (now.seen - since.seen, now.lost - since.lost);
        ensure!(
            seen == expected && lost == 0,
            "{seen} records instead of {expected}, {lost} lost: such a figure means nothing"
        );
        Ok(())
    }
}

/// The processors that this process may use, the last of them apart: for what is measured.
///
/// # Errors
/// The kernel does not say.
pub fn measured_and_others() -> Result<(usize, Vec<u32>)> {
    let mut cpus: Vec<u32> = dmscope::host::cpus::of_process(std::process::id()).into_iter().collect();
    let measured = cpus.pop().context("no processor to run on")?;
    Ok((measured as usize, cpus))
}
