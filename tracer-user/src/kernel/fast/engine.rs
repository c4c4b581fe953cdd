//! What is recorded by code in the job's processes: put in, switched, taken out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use analyzer::wire::FileId;
use injector::{Hook, HookKind, Installation, Request, Shared, Switch, install};
use rustc_hash::FxHashMap;

use super::decoder::{Decoder, HookMeaning, HookMeanings};
use super::facts::{FastFacts, look_at_slots};
use super::reader::{FastRing, switch_of};
use crate::plan::FileSlots;
use crate::plan::engines::{EngineChoice, UsedSlot, choose_engines};
use crate::plan::slots::SlotPurpose;

/// What became of the wish for probes without the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotsInUse {
    /// Probes that are not needed any more.
    pub probes: BTreeSet<u32>,
    /// Why others are needed that were meant to be replaced.
    pub kernel: BTreeMap<u32, &'static str>,
    /// What people should know.
    pub notes: Vec<String>,
}

/// See the [module](self).
#[derive(Default)]
pub struct FastEngine {
    ring_bytes: usize,
    probes: BTreeSet<u32>,
    processes: BTreeMap<u32, FastProcess>,
    is_paused: bool,
}

struct FastProcess {
    installation: Installation,
    /// Until somebody reads it.
    ring: Option<(Shared, Decoder)>,
    switch: Option<Switch>,
    is_closed: Arc<AtomicBool>,
}

impl FastEngine {
    /// `ring_bytes`: of each thread.
    pub fn new(ring_bytes: u32) -> Self {
        let mut engine = Self::default();
        engine.ring_bytes = ring_bytes as usize;
        engine
    }

    /// Puts code into the processes of a job, all or none; nothing is recorded yet.
    pub fn put_in(&mut self, files: &[FileSlots], pids: &[u32]) -> SlotsInUse {
        let FastFacts { processes, refusal } = look_at_slots(files, pids);
        if let Some(why) = refusal {
            return refused(&why);
        }
        let choice = choose_engines(files, &processes);
        if choice.fast.is_empty() {
            return refused("no copy of this job goes through a slot that can be used");
        }
        let meanings = HookTable::of(files);
        for process in &processes {
            let first_byte = |file: &FileId| process.first_bytes.get(file).copied().unwrap_or(0);
            let slots = choice.slots.get(&process.pid).map(Vec::as_slice).unwrap_or_default();
            let decoder = Decoder {
                pid: process.pid,
                meanings: Arc::clone(&meanings.meanings),
                first_bytes: meanings.files.iter().map(first_byte).collect(),
            };
            let hooks = slots.iter().filter_map(|slot| meanings.hook(slot)).collect();
            let request = Request { pid: process.pid, hooks, ring_bytes: self.ring_bytes };
            match install(&request) {
                Ok((installation, shared)) => {
                    let ring = Some((shared, decoder));
                    let process_in =
                        FastProcess { installation, ring, switch: None, is_closed: Arc::default() };
                    self.processes.insert(process.pid, process_in);
                }
                Err(error) => {
                    self.take_out();
                    return refused(&format!("process {}: {error}", process.pid));
                }
            }
        }
        let EngineChoice { fast, kernel, .. } = choice;
        self.probes.clone_from(&fast);
        SlotsInUse { probes: fast, kernel, notes: Vec::new() }
    }

    /// A process is watched from now on: what it records is to be read, as of a slot.
    pub fn begin(&mut self, pid: u32, slot: u32) -> Option<FastRing> {
        let process = self.processes.get_mut(&pid)?;
        let (shared, decoder) = process.ring.take()?;
        let ring = FastRing { slot, shared, decoder, is_closed: Arc::clone(&process.is_closed) };
        process.switch = Some(switch_of(&ring));
        Some(ring)
    }

    /// A process is not watched any more.
    pub fn end(&mut self, pid: u32) {
        let Some(process) = self.processes.get(&pid) else { return };
        if let Some(switch) = &process.switch {
            switch.turn_off();
        }
        process.is_closed.store(true, Ordering::Release);
    }

    /// Probes that are code in the job.
    pub fn probes(&self) -> &BTreeSet<u32> {
        &self.probes
    }

    /// Whether these probes are to be out: then all of ours are, which are cheap one by one and go together.
    pub fn pause(&mut self, is_paused: bool) {
        if std::mem::replace(&mut self.is_paused, is_paused) == is_paused {
            return;
        }
        let open = self.processes.values().filter(|process| !process.is_closed.load(Ordering::Acquire));
        for switch in open.filter_map(|process| process.switch.as_ref()) {
            match is_paused {
                true => switch.turn_off(),
                false => switch.turn_on(),
            }
        }
    }

    /// Has all slots lead where they led before. A process that does not stop keeps them, and records nothing.
    pub fn take_out(&mut self) {
        for (_, process) in std::mem::take(&mut self.processes) {
            if let Some(switch) = &process.switch {
                switch.turn_off();
            }
            // One that has ended has no slots.
            let _ = process.installation.take_out();
        }
    }
}

impl Drop for FastEngine {
    fn drop(&mut self) {
        self.take_out();
    }
}

fn refused(why: &str) -> SlotsInUse {
    let note = format!("fast probes are not possible, and kernel probes are used instead: {why}");
    SlotsInUse { notes: vec![note], ..SlotsInUse::default() }
}

/// All hooks that a session may have, numbered from 1 in the order of this table.
struct HookTable {
    meanings: Arc<HookMeanings>,
    /// By number: the file.
    files: Vec<FileId>,
    numbers: BTreeMap<(FileId, Option<u32>), u32>,
}

impl HookTable {
    fn of(files: &[FileSlots]) -> Self {
        let mut table = Self { meanings: Arc::default(), files: Vec::new(), numbers: BTreeMap::new() };
        let mut meanings = Vec::new();
        for file in files {
            let sites = file.sites.iter().map(|site| (site.return_position, site.probe));
            let sites: Arc<FxHashMap<u64, u32>> = Arc::new(sites.collect());
            for slot in &file.slots {
                let (call, meaning) = match slot.purpose {
                    SlotPurpose::Copies => (None, HookMeaning::Copies(Arc::clone(&sites))),
                    SlotPurpose::Call { probe, .. } => (Some(probe), HookMeaning::Call(probe)),
                    SlotPurpose::Tells => continue,
                };
                if table.numbers.contains_key(&(file.file, call)) {
                    continue;
                }
                meanings.push(meaning);
                table.files.push(file.file);
                table.numbers.insert((file.file, call), meanings.len() as u32);
            }
        }
        table.meanings = Arc::new(HookMeanings(meanings));
        table
    }

    fn hook(&self, used: &UsedSlot) -> Option<Hook> {
        let (call, kind) = match used.purpose {
            SlotPurpose::Copies => (None, HookKind::Record),
            SlotPurpose::Call { probe, return_is_hooked, may_be_nested } => {
                (Some(probe), HookKind::Note { return_is_hooked, may_be_nested })
            }
            SlotPurpose::Tells => return None,
        };
        let number = *self.numbers.get(&(used.file, call))?;
        Some(Hook { number, kind, slot: used.address, original: used.original, target: used.target })
    }
}
