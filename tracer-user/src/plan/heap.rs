//! Slots through which heap blocks are given out and taken back.
//!
//! The kernel's probes stay in the allocator: calls that come another way, as the C library's own, run into them. So a call
//! through a slot is recorded under a probe of its own.

use std::collections::BTreeMap;

use analyzer::plan::{Plan, Probe, ProbeClass, ProbePlace};
use injector::HeapCall;
use serde::{Deserialize, Serialize};

use super::part::File;
use super::slots::first_position;
use super::table_slot::{FilePlace, FileSlots, HeapFunction, HeapSlot, SlotPurpose, TableSlot};
use crate::elf::{SlotKind, passed_entry};

/// Functions of the allocator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeapFunctions {
    by_name: BTreeMap<String, (u32, HeapFunction)>,
    /// The program's code is the job's own: it is no interpreter.
    program_is_own: bool,
}

impl HeapFunctions {
    /// Adds those that slots are for.
    pub fn add(&mut self, files: &[FileSlots]) {
        for slot in files.iter().flat_map(|file| &file.slots) {
            if let SlotPurpose::Heap(heap) = slot.purpose {
                self.by_name.insert(slot.symbol.clone(), (heap.probe, heap.function));
                self.program_is_own |= heap.program_is_own;
            }
        }
    }

    fn of(&self, symbol: &str) -> Option<(u32, HeapFunction)> {
        self.by_name.get(symbol).copied()
    }

    /// Gives functions that a plan has kernel probes for probes of their own: these are new.
    fn plan(&mut self, files: &[File<'_>], plan: &Plan, mut next_id: u32) -> Vec<Probe> {
        let mut probes = Vec::new();
        for probe in &plan.probes {
            let Some(function) = heap_function(files, plan, probe) else { continue };
            self.by_name.insert(probe.function.clone(), (next_id, function));
            probes.push(Probe { id: next_id, place: ProbePlace::Slot, ..probe.clone() });
            next_id += 1;
        }
        probes
    }
}

/// Finds slots of allocators in all files of a plan, beside what was found there already, and adds to the plan what may be recorded through
/// them. `has_named`: the user has named libraries as the program's own.
pub(super) fn find(
    files: &[File<'_>],
    plan: &mut Plan,
    next_id: u32,
    earlier: &HeapFunctions,
    has_named: bool,
    slots: &mut Vec<FileSlots>,
) {
    let mut functions = earlier.clone();
    let probes = functions.plan(files, plan, next_id);
    functions.program_is_own |= files.iter().any(|file| file.image.is_program && file.role.is_own());
    for file in files {
        // Code of several files counts as the program's own: whose call it is, one range of addresses does not tell.
        let is_own = file.role.is_own();
        if has_named && !is_own {
            continue;
        }
        let found = slots_of(file, &functions, is_own);
        if found.is_empty() {
            continue;
        }
        match slots.iter_mut().find(|known| known.file == file.image.id) {
            Some(known) => {
                known.slots.extend(found);
                known.slots.sort_by_key(|slot| slot.position);
            }
            None => slots.push(FileSlots { file: file.image.id, slots: found, ..FileSlots::default() }),
        }
    }
    // Their numbers must have no gaps: one that no slot is for yet may be used by a file that is loaded later.
    plan.probes.extend(probes);
}

fn slots_of(file: &File<'_>, functions: &HeapFunctions, is_own: bool) -> Vec<TableSlot> {
    let program_is_own = functions.program_is_own;
    let Some(first) = first_position(file) else { return Vec::new() };
    let is_call = |vaddr: &u64| file.elf.slot_kinds.get(vaddr) == Some(&SlotKind::Call);
    let slot = |(vaddr, symbol): (&u64, &&str)| {
        let (probe, function) = functions.of(symbol)?;
        let is_usable = is_call(vaddr) && vaddr.is_multiple_of(8) && file.elf.function(symbol).is_none();
        let purpose = SlotPurpose::Heap(HeapSlot { probe, function, is_own, program_is_own });
        is_usable.then(|| TableSlot {
            position: vaddr.wrapping_sub(first),
            symbol: (*symbol).to_owned(),
            purpose,
            definition: Some(function.place),
        })
    };
    file.elf.slots.iter().filter_map(slot).collect()
}

/// A function of the C library's allocator that can be entered behind its probe.
fn heap_function(files: &[File<'_>], plan: &Plan, probe: &Probe) -> Option<HeapFunction> {
    let call = match (probe.class, probe.function.as_str()) {
        (ProbeClass::Alloc, "malloc") => HeapCall::Malloc,
        (ProbeClass::Alloc, "calloc") => HeapCall::Calloc,
        (ProbeClass::Alloc, "realloc") => HeapCall::Realloc,
        (ProbeClass::Free, "free") => HeapCall::Free,
        _ => return None,
    };
    let is_glibc = |free: &Probe| free.file == probe.file && free.is_free_of_c_library();
    if !plan.probes.iter().any(is_glibc) {
        return None;
    }
    let file = files.iter().find(|file| file.image.id == probe.file)?;
    let start = file.elf.function(&probe.function)?.vaddr;
    let probed = start.checked_add(probe.offset_bytes.checked_sub(file.elf.offset_of(start)?)?)?;
    let entry = passed_entry(file.elf.body(start)?, start, probed, call == HeapCall::Free)?;
    let position = start.wrapping_sub(first_position(file)?);
    Some(HeapFunction { call, place: FilePlace { file: file.image.id, position }, entry })
}
