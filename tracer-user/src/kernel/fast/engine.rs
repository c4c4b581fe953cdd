//! What is recorded by code in the job's processes: put in, switched, taken out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use analyzer::wire::FileId;
use injector::{
    HeapCall, HeapHook, HookKind, HookRequest, MadeHandle, MappedPlaces, NotedCall, RecordedPart,
    SharedRings, SlotHook, Switch, counter,
};
use rustc_hash::FxHashMap;

use super::decoder::{CallDecoder, HookMeaning, HookMeanings};
use super::facts::{FastFacts, look_at_slots, process_slots};
use super::holder::SlotHolder;
use super::reader::FastRing;
use crate::host::processes::is_ending;
use crate::kernel::holder::HolderPlace;
use crate::plan::engines::{EngineChoice, ProcessSlots, UsedSlot, choose_engines};
use crate::plan::table_slot::{HeapSlot, SlotPurpose, TableSlot};
use crate::plan::{FileSlots, WantedOfCall};

/// What became of the wish for probes without the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotsInUse {
    /// Probes that are code in the job: most are of the kernel otherwise.
    pub probes: BTreeSet<u32>,
    /// Why others are needed that were meant to be replaced.
    pub kernel: BTreeMap<u32, &'static str>,
    /// What people should know.
    pub notes: Vec<String>,
    /// Processes of which something may be missing, or twice.
    pub unsure: Vec<u32>,
}

/// Who is to record what, of a job.
pub struct ChosenSlots {
    files: Vec<FileSlots>,
    hooks: HookTable,
    processes: Vec<(ProcessSlots, Vec<UsedSlot>)>,
    fast: BTreeSet<u32>,
    kernel: BTreeMap<u32, &'static str>,
}

impl ChosenSlots {
    /// Chooses for all processes of a job.
    ///
    /// # Errors
    /// Why all is to be left to the kernel.
    pub fn of_job(files: Vec<FileSlots>, pids: &[u32]) -> Result<Self, String> {
        let FastFacts { processes, refusal } = look_at_slots(&files, pids);
        if let Some(why) = refusal {
            return Err(why);
        }
        let EngineChoice { fast, mut slots, kernel } = choose_engines(&files, &processes);
        if fast.is_empty() {
            return Err("no copy or MPI call of this job goes through a slot that can be used".to_owned());
        }
        let with_slots = |process: ProcessSlots| {
            let used = slots.remove(&process.pid).unwrap_or_default();
            (process, used)
        };
        let processes = processes.into_iter().map(with_slots).collect();
        Ok(Self { hooks: HookTable::of(&files), files, processes, fast, kernel })
    }

    /// Numbers of hooks of MPI calls, by the calls' probes: any one of each.
    pub fn hooks_of_calls(&self) -> BTreeMap<u32, u32> {
        let of_call = |((_, call), number): (&(FileId, Option<u32>), &u32)| Some(((*call)?, *number));
        self.hooks.numbers.iter().filter_map(of_call).collect()
    }

    /// Probes that become code in the job.
    pub fn fast(&self) -> &BTreeSet<u32> {
        &self.fast
    }
}

/// What else is done when code is put into a process.
pub trait PutInSteps {
    /// All but its slots is in a process, which stands still.
    ///
    /// # Errors
    /// Why its slots are to stay as they are.
    fn ready(&mut self, _pid: u32, _shared: &SharedRings, _places: MappedPlaces) -> Result<(), String> {
        Ok(())
    }

    /// Its slots are as they were.
    fn refused(&mut self, _pid: u32) {}

    /// From now on there is something to be read.
    fn begin(&mut self, ring: FastRing);
}

/// Steps of the processor's counter until the reader sets another time: some seconds.
const FIRST_STEPS: u64 = 10_000_000_000;

/// See the [module](self).
#[derive(Default)]
pub struct FastEngine {
    ring_bytes: usize,
    /// Heap blocks that are smaller are nobody's messages.
    least_block_bytes: u64,
    place: HolderPlace,
    holder: Option<SlotHolder>,
    files: Vec<FileSlots>,
    hooks: HookTable,
    probes: BTreeSet<u32>,
    /// What each of them records.
    parts: BTreeMap<u32, RecordedPart>,
    /// What was known of each process when code was put into it.
    known: BTreeMap<u32, ProcessSlots>,
    processes: BTreeMap<u32, FastProcess>,
    /// Slots of those that are watched.
    slots: BTreeMap<u32, u32>,
    off: BTreeSet<RecordedPart>,
}

struct FastProcess {
    /// Until somebody reads it.
    ring: Option<(SharedRings, CallDecoder)>,
    switch: Switch,
    /// Where it notes calls, in its own space.
    notes_at: u64,
    is_closed: Arc<AtomicBool>,
}

impl FastEngine {
    /// `ring_bytes`: of the kernel's rings. Those of threads are twice as large: an MPI call takes two pieces, and they come
    /// faster.
    pub fn new(ring_bytes: u32, least_block_bytes: u64, place: HolderPlace) -> Self {
        Self { ring_bytes: 2 * ring_bytes as usize, least_block_bytes, place, ..Self::default() }
    }

    /// Puts code into the processes of a job, all or none. Those that are watched already record from when their slots lead to it.
    pub fn put_in(&mut self, chosen: ChosenSlots, steps: &mut dyn PutInSteps) -> SlotsInUse {
        let ChosenSlots { files, hooks, processes, fast, kernel } = chosen;
        (self.files, self.hooks) = (files, hooks);
        for (process, used) in processes {
            let pid = process.pid;
            if let Err(error) = self.put_into(process, &used, steps) {
                steps.refused(pid);
                if is_ending(pid) {
                    continue;
                }
                let unsure = self.processes.keys().copied().chain([pid]).collect();
                self.take_out();
                return SlotsInUse { unsure, ..SlotsInUse::refused(&format!("process {pid}: {error}")) };
            }
        }
        self.parts = self.parts_of(&fast);
        self.probes.clone_from(&fast);
        SlotsInUse { probes: fast, kernel, ..SlotsInUse::default() }
    }

    fn put_into(
        &mut self,
        process: ProcessSlots,
        used: &[UsedSlot],
        steps: &mut dyn PutInSteps,
    ) -> Result<(), String> {
        let pid = process.pid;
        let hooks = used.iter().filter_map(|slot| self.hooks.hook(slot, self.least_block_bytes)).collect();
        let first_byte = |file: &FileId| process.first_bytes.get(file).copied().unwrap_or(0);
        let first_bytes = self.hooks.files.iter().map(first_byte).collect();
        let decoder = CallDecoder { pid, meanings: Arc::clone(&self.hooks.meanings), first_bytes };
        let request = HookRequest { pid, hooks, ring_bytes: self.ring_bytes };
        let slot = self.slots.get(&pid).copied();
        let off = self.off.clone();
        let holder = match &mut self.holder {
            Some(holder) => holder,
            none => none.insert(SlotHolder::start(self.place).map_err(|error| error.to_string())?),
        };
        let mut new = None;
        let put_in = holder.put_in(request, |shared, places| {
            steps.ready(pid, &shared, places)?;
            let switch = shared.switch().clone();
            let put_in = FastProcess {
                ring: Some((shared, decoder)),
                switch,
                notes_at: places.notes,
                is_closed: Arc::default(),
            };
            let put_in = new.insert(put_in);
            // Whoever reads must know of it before anything is recorded: else that comes too late.
            if let Some(mut ring) = slot.and_then(|slot| put_in.begin(slot, &off)) {
                let until = counter().saturating_add(FIRST_STEPS);
                ring.until = until;
                steps.begin(ring);
                put_in.switch.record_until(until);
            }
            Ok(())
        });
        match (put_in, new) {
            (Ok(()), Some(new)) => {
                self.processes.insert(pid, new);
                self.known.insert(pid, process);
                Ok(())
            }
            (put_in, new) => {
                new.iter().for_each(FastProcess::close);
                put_in
            }
        }
    }

    /// Files that were loaded later: calls that leave them are recorded as those of others. Their copies have probes already.
    pub fn add_files(&mut self, files: Vec<FileSlots>) {
        let calls = files.into_iter().map(|mut file| {
            file.sites.clear();
            file.slots.retain(|slot| matches!(slot.purpose, SlotPurpose::Call { .. }));
            file
        });
        self.files.extend(calls.filter(|file| !file.slots.is_empty()));
        self.hooks = HookTable::of(&self.files);
    }

    /// Whether a process maps a file of which something is recorded so, elsewhere than when code was put into it: then some of what
    /// it does is not seen.
    fn has_new_files(&self, process: &ProcessSlots) -> bool {
        let known = self.known.get(&process.pid);
        let recorded = self.files.iter().filter(|file| self.is_recorded(file));
        recorded.map(|file| file.file).any(|file| {
            let before = known.and_then(|known| known.first_bytes.get(&file));
            process.first_bytes.get(&file).is_some_and(|now| Some(now) != before)
        })
    }

    /// Whether copies or calls that leave a file are recorded there.
    fn is_recorded(&self, file: &FileSlots) -> bool {
        let is_fast_call = |slot: &TableSlot| match slot.purpose {
            SlotPurpose::Call { probe, .. } => self.probes.contains(&probe),
            SlotPurpose::Copies | SlotPurpose::Heap(_) | SlotPurpose::Tells => false,
        };
        file.sites.iter().any(|site| self.probes.contains(&site.probe)) || file.slots.iter().any(is_fast_call)
    }

    fn parts_of(&self, probes: &BTreeSet<u32>) -> BTreeMap<u32, RecordedPart> {
        let part = |slot: &TableSlot| match slot.purpose {
            SlotPurpose::Heap(heap) => Some((heap.probe, RecordedPart::Heap)),
            SlotPurpose::Call { probe, .. } => Some((probe, RecordedPart::Calls)),
            SlotPurpose::Copies | SlotPurpose::Tells => None,
        };
        let mut parts: BTreeMap<u32, RecordedPart> =
            probes.iter().map(|probe| (*probe, RecordedPart::Copies)).collect();
        let told = self.files.iter().flat_map(|file| &file.slots).filter_map(part);
        parts.extend(told.filter(|(probe, _)| probes.contains(probe)));
        parts
    }

    /// What some of these probes record.
    fn parts_with(&self, probes: &BTreeSet<u32>) -> BTreeSet<RecordedPart> {
        probes.iter().filter_map(|probe| self.parts.get(probe)).copied().collect()
    }

    /// Where a process notes its calls, in its own space.
    pub fn notes_at(&self, pid: u32) -> Option<u64> {
        self.processes.get(&pid).map(|process| process.notes_at)
    }

    /// Puts code into a process that came later, or has loaded more. False: there is nothing to do.
    ///
    /// # Errors
    /// Why copies of the process go unseen.
    pub fn put_in_late(&mut self, pid: u32, steps: &mut dyn PutInSteps) -> Result<bool, String> {
        if self.probes.is_empty() {
            return Ok(false);
        }
        let is_ours = self.processes.contains_key(&pid);
        let process = process_slots(&self.files, pid, is_ours)?;
        if !self.has_new_files(&process) {
            return Ok(false);
        }
        // What others are known to have tells where slots will lead that this one has not used yet.
        let others = self.known.values().filter(|known| known.pid != pid).cloned();
        let processes: Vec<ProcessSlots> = others.chain([process.clone()]).collect();
        let mut choice = choose_engines(&self.files, &processes);
        // Blocks are seen by the kernel as well.
        let is_needed = |probe: &&u32| self.parts.get(probe) != Some(&RecordedPart::Heap);
        if !self.probes.iter().filter(is_needed).all(|probe| choice.fast.contains(probe)) {
            return Err("where some of its slots lead is not known yet".to_owned());
        }
        let used = choice.slots.remove(&pid).unwrap_or_default();
        let before = self.processes.remove(&pid);
        if let Err(why) = self.put_into(process, &used, steps) {
            // What is in it stays, and is switched and taken out as ever.
            self.processes.extend(before.map(|before| (pid, before)));
            return Err(why);
        }
        if let Some(before) = before {
            before.close();
        }
        Ok(true)
    }

    /// A process is watched from now on: what it records is to be read, as of a slot.
    pub fn begin(&mut self, pid: u32, slot: u32) -> Option<FastRing> {
        self.slots.insert(pid, slot);
        self.processes.get_mut(&pid)?.begin(slot, &self.off)
    }

    /// A process is not watched any more.
    pub fn end(&mut self, pid: u32) {
        self.slots.remove(&pid);
        if let Some(process) = self.processes.get(&pid) {
            process.close();
        }
    }

    /// Probes that are code in the job.
    pub fn probes(&self) -> &BTreeSet<u32> {
        &self.probes
    }

    /// These probes are to be out: then all of ours are that record the same, which are cheap one by one. Which these are.
    pub fn detach(&mut self, probes: &BTreeSet<u32>) -> BTreeSet<u32> {
        let off = self.parts_with(probes);
        let detached = self.parts.iter().filter(|(_, part)| off.contains(part)).map(|(probe, _)| *probe);
        let detached = detached.collect();
        self.off.extend(off);
        self.switch_all();
        detached
    }

    /// These are to be in again, with those that went with them.
    pub fn reattach(&mut self, probes: &BTreeSet<u32>) {
        let on = self.parts_with(probes);
        self.off.retain(|part| !on.contains(part));
        self.switch_all();
    }

    fn switch_all(&self) {
        let open = self.processes.values().filter(|process| !process.is_closed.load(Ordering::Acquire));
        open.for_each(|process| process.switch_as(&self.off));
    }

    /// Nothing is recorded any more; what is in the rings can still be read.
    pub fn stop(&mut self) {
        std::mem::take(&mut self.processes).values().for_each(FastProcess::close);
    }

    /// Has all slots lead where they led before. A process that does not stop keeps them, and records nothing. What nobody has read
    /// of the rings by then is gone with their memory.
    pub fn take_out(&mut self) {
        self.stop();
        if let Some(holder) = &mut self.holder {
            holder.take_out();
        }
    }
}

impl FastProcess {
    /// What is to be read of it; none, if somebody does already.
    fn begin(&mut self, slot: u32, off: &BTreeSet<RecordedPart>) -> Option<FastRing> {
        let (shared, decoder) = self.ring.take()?;
        self.switch_as(off);
        Some(FastRing { slot, shared, decoder, is_closed: Arc::clone(&self.is_closed), until: 0 })
    }

    fn switch_as(&self, off: &BTreeSet<RecordedPart>) {
        for part in RecordedPart::ALL {
            match off.contains(&part) {
                true => self.switch.turn_off(part),
                false => self.switch.turn_on(part),
            }
        }
    }

    fn close(&self) {
        self.switch.end();
        self.is_closed.store(true, Ordering::Release);
    }
}

impl SlotsInUse {
    /// All is left to the kernel.
    pub fn refused(why: &str) -> Self {
        Self { notes: vec![not_possible(why)], ..Self::default() }
    }
}

/// A sentence for people.
pub fn not_possible(why: &str) -> String {
    format!("fast probes are not possible, and kernel probes are used instead: {why}")
}

/// All hooks that a session may have, numbered from 1 in the order of this table.
#[derive(Default)]
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
                    SlotPurpose::Call { probe, recorded, .. } => (
                        Some(probe),
                        HookMeaning::Call {
                            probe,
                            stack_arguments: recorded.map_or(0, |wanted| wanted.stack_arguments),
                        },
                    ),
                    SlotPurpose::Heap(heap) => {
                        let gives = heap.function.call != HeapCall::Free;
                        (Some(heap.probe), HookMeaning::Heap { probe: heap.probe, gives })
                    }
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

    fn hook(&self, used: &UsedSlot, least_block_bytes: u64) -> Option<SlotHook> {
        let (call, kind) = match used.purpose {
            SlotPurpose::Copies => (None, HookKind::Record),
            SlotPurpose::Call { probe, return_is_hooked, may_be_nested, recorded, completes, .. } => {
                let noted = NotedCall { name: probe, return_is_hooked, may_be_nested };
                let whole = |WantedOfCall { stack_arguments, made }| {
                    let made = made.map(|(argument, is_half)| MadeHandle { argument, is_half });
                    HookKind::Whole { noted, stack_arguments, made, completes }
                };
                (Some(probe), recorded.map_or(HookKind::Note(noted), whole))
            }
            SlotPurpose::Heap(HeapSlot { probe, function, is_own, program_is_own }) => {
                let least_bytes = if is_own { 0 } else { least_block_bytes };
                let (call, entry) = (function.call, function.entry);
                (Some(probe), HookKind::Heap(HeapHook { call, least_bytes, program_is_own, entry }))
            }
            SlotPurpose::Tells => return None,
        };
        let number = *self.numbers.get(&(used.file, call))?;
        Some(SlotHook { number, kind, slot: used.address, original: used.original, target: used.target })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_calls_and_heap_blocks_are_turned_off_and_on_each_by_itself() {
        use RecordedPart::{Calls, Copies, Heap};
        let set = |ids: &[u32]| ids.iter().copied().collect::<BTreeSet<u32>>();
        let parts = BTreeMap::from([(1, Copies), (2, Copies), (3, Heap), (4, Heap), (5, Calls)]);
        let mut engine = FastEngine { parts, ..FastEngine::default() };
        assert_eq!(engine.detach(&set(&[2, 9])), set(&[1, 2]), "they go together");
        assert_eq!(engine.off, BTreeSet::from([Copies]));
        assert_eq!(engine.detach(&set(&[4])), set(&[3, 4]));
        assert_eq!(engine.detach(&set(&[5])), set(&[5]));
        assert_eq!(engine.off, BTreeSet::from([Copies, Calls, Heap]));
        engine.reattach(&set(&[1]));
        engine.reattach(&set(&[9]));
        assert_eq!(engine.off, BTreeSet::from([Calls, Heap]));
        engine.reattach(&set(&[3, 5]));
        assert_eq!(engine.off, BTreeSet::new());
        assert_eq!(engine.detach(&set(&[9])), set(&[]));
    }
}
