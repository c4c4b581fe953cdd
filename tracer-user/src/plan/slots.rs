//! Slots of linkage tables through which copies and MPI calls leave a file: where calls can be recorded without a trap.
//!
//! What goes another way stays with probes of the kernel: calls within a file, jumps at the end of a function (which return
//! to the caller's caller, so that their place is not known), calls through pointers.

use std::collections::{BTreeMap, BTreeSet};

use analyzer::calls::{self, Arg};
use analyzer::plan::{Plan, Probe, ProbeClass};
use analyzer::wire::FileId;
use injector::{CompletedHandles, MOST_STACK_ARGUMENTS};
use serde::{Deserialize, Serialize};

use super::calls::WantedOfCall;
use super::part::File;
use super::role::FileRole;
use super::table_slot::{FilePlace, FileSlots, SlotPurpose, SlotSite, TableSlot};
use crate::elf::{CopyScan, CopySite, SlotKind, copy_function, instruction_len};

/// MPI calls for which there are probes, by function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedCalls(BTreeMap<String, PlannedCall>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PlannedCall {
    probe: u32,
    file: FileId,
    return_is_hooked: bool,
    recorded: Option<WantedOfCall>,
    completes: Option<CompletedHandles>,
}

impl PlannedCalls {
    /// Adds those of a plan.
    pub fn add(&mut self, plan: &Plan) {
        let is_call = |probe: &&Probe| {
            matches!(probe.class, ProbeClass::Call | ProbeClass::CallResults | ProbeClass::PollReturn)
        };
        for probe in plan.probes.iter().filter(is_call) {
            let return_is_hooked = probe.class != ProbeClass::Call;
            let recorded = if return_is_hooked { None } else { recorded_of(probe) };
            let completes = completed_by(&probe.function);
            let call =
                PlannedCall { probe: probe.id, file: probe.file, return_is_hooked, recorded, completes };
            self.0.insert(probe.function.clone(), call);
        }
    }
}

/// What is recorded of a call besides its arguments in registers, if it can be recorded without the kernel: as much as the kernel
/// part is told to.
fn recorded_of(probe: &Probe) -> Option<WantedOfCall> {
    let wanted = WantedOfCall::of(probe.argument);
    (usize::from(wanted.stack_arguments) <= MOST_STACK_ARGUMENTS).then_some(wanted)
}

/// How a call is told what it completes or starts.
fn completed_by(function: &str) -> Option<CompletedHandles> {
    match calls::row(function)?.args[..] {
        [Arg::Request, ..] => Some(CompletedHandles::One),
        [Arg::Count, Arg::Requests, ..] => Some(CompletedHandles::Several),
        _ => None,
    }
}

/// Why there may be no slots at all.
pub const NO_SLOTS: &str = "MPI is linked into the program, or nothing calls it through a slot";

/// Finds the slots of all files of a plan; `earlier`: calls of earlier plans. None where MPI is linked into the program: its calls go
/// through no slot, so that copies would not know which of them they are made in.
pub(super) fn find(
    files: &[File<'_>],
    scans: &[Option<CopyScan>],
    plan: &Plan,
    earlier: &PlannedCalls,
) -> Vec<FileSlots> {
    if files.iter().any(|file| file.role.is_mpi() && file.image.is_program) {
        return Vec::new();
    }
    let probes = PlannedProbes::of(plan, earlier);
    let mut found = Vec::new();
    for (file, scan) in files.iter().zip(scans) {
        let Some(first) = first_position(file) else { continue };
        let mut slots = match scan {
            Some(scan) => of_watched(file, first, scan, &probes, files),
            None => FileSlots::default(),
        };
        slots.file = file.image.id;
        slots.is_interpreter = file.role == FileRole::Interpreter;
        slots.slots.extend(telling(file, first, files));
        slots.slots.sort_by_key(|slot| slot.position);
        if !slots.slots.is_empty() || slots.is_interpreter {
            found.push(slots);
        }
    }
    found
}

/// The address that a file's first byte would have if all of it were mapped as its code is.
pub(super) fn first_position(file: &File<'_>) -> Option<u64> {
    let code = file.elf.segments.iter().find(|segment| segment.exec)?;
    Some(code.vaddr.wrapping_sub(code.offset_bytes))
}

/// Probes that slots stand for.
struct PlannedProbes {
    /// Those that say when a thread enters an MPI call.
    calls: PlannedCalls,
    /// By the place of the call.
    copies: BTreeMap<(FileId, u64), u32>,
}

impl PlannedProbes {
    fn of(plan: &Plan, earlier: &PlannedCalls) -> Self {
        let mut calls = earlier.clone();
        calls.add(plan);
        let copies = plan.probes.iter().filter(|probe| probe.class == ProbeClass::Copy);
        let copies = copies.map(|probe| ((probe.file, probe.site_offset_bytes), probe.id)).collect();
        Self { calls, copies }
    }
}

fn of_watched(
    file: &File<'_>,
    first: u64,
    scan: &CopyScan,
    probes: &PlannedProbes,
    files: &[File<'_>],
) -> FileSlots {
    let symbols = symbols_through_call_slots(file);
    let sites: Vec<SlotSite> =
        scan.sites.iter().filter_map(|site| slot_site(file, first, site, probes, &symbols)).collect();
    let used: BTreeSet<&str> = sites.iter().map(|site| site.symbol.as_str()).collect();
    let purpose = |vaddr: &u64, symbol: &str| match used.contains(symbol) {
        true => Some(SlotPurpose::Copies),
        false if file.role.is_mpi() => None,
        false => noted_call(file, *vaddr, symbol, probes),
    };
    let slot = |(vaddr, symbol): (&u64, &&str)| {
        let (position, purpose) = (vaddr.wrapping_sub(first), purpose(vaddr, symbol)?);
        let definition = definition(symbol, files);
        let is_aligned = vaddr.is_multiple_of(8);
        is_aligned.then(|| TableSlot { position, symbol: (*symbol).to_owned(), purpose, definition })
    };
    let slots = file.elf.slots.iter().filter_map(slot).collect();
    FileSlots { file: file.image.id, slots, sites, is_interpreter: false }
}

/// Functions of other files whose slots are all for calls: nobody reads an address there.
fn symbols_through_call_slots<'f>(file: &File<'f>) -> BTreeSet<&'f str> {
    let of_kind = |wanted: bool| {
        let is_call = |vaddr: &u64| file.elf.slot_kinds.get(vaddr) == Some(&SlotKind::Call);
        let slots = file.elf.slots.iter().filter(move |(vaddr, _)| is_call(vaddr) == wanted);
        slots.map(|(_, name)| *name).collect::<BTreeSet<&str>>()
    };
    let others = of_kind(false);
    let is_foreign = |name: &&str| !others.contains(name) && file.elf.function(name).is_none();
    of_kind(true).into_iter().filter(is_foreign).collect()
}

fn slot_site(
    file: &File<'_>,
    first: u64,
    site: &CopySite,
    probes: &PlannedProbes,
    symbols: &BTreeSet<&str>,
) -> Option<SlotSite> {
    let symbol = site.stub_of.filter(|symbol| symbols.contains(symbol))?;
    let offset_bytes = file.elf.offset_of(site.vaddr)?;
    let probe = *probes.copies.get(&(file.image.id, offset_bytes))?;
    let len = instruction_len(file.elf.code_from(site.vaddr)?)? as u64;
    let return_position = site.vaddr.wrapping_add(len).wrapping_sub(first);
    Some(SlotSite { probe, return_position, symbol: symbol.to_owned() })
}

/// The MPI call that a symbol is, under either of its names. One whose address the file may read as well is not recorded there:
/// it may be called through a pointer.
fn noted_call(file: &File<'_>, vaddr: u64, symbol: &str, probes: &PlannedProbes) -> Option<SlotPurpose> {
    // Its last arguments lie where the code would change registers.
    const VARIADIC: &str = "MPI_Pcontrol";
    let name = symbol.strip_prefix('P').filter(|rest| rest.starts_with("MPI_")).unwrap_or(symbol);
    let call = probes.calls.0.get(name).filter(|_| name != VARIADIC)?;
    let PlannedCall { probe, file: called, return_is_hooked, recorded, completes } = *call;
    let recorded = recorded.filter(|_| file.elf.slot_kinds.get(&vaddr) == Some(&SlotKind::Call));
    let may_be_nested = !file.role.is_own();
    Some(SlotPurpose::Call { probe, file: called, return_is_hooked, may_be_nested, recorded, completes })
}

/// Slots in which the C library keeps what it has chosen, of functions that no other file has.
fn telling<'f>(
    file: &'f File<'_>,
    first: u64,
    files: &'f [File<'_>],
) -> impl Iterator<Item = TableSlot> + use<'f> {
    let is_chosen = |vaddr: &u64| file.elf.slot_kinds.get(vaddr) == Some(&SlotKind::Chosen);
    let is_only = |name: &str| files.iter().filter(|file| file.elf.function(name).is_some()).count() == 1;
    let slots =
        file.elf.slots.iter().filter(move |(vaddr, name)| is_chosen(vaddr) && is_told(name) && is_only(name));
    slots.map(move |(vaddr, name)| TableSlot {
        position: vaddr.wrapping_sub(first),
        symbol: (*name).to_owned(),
        purpose: SlotPurpose::Tells,
        definition: None,
    })
}

/// The only function of a name, if it is not one that is chosen when it is called first.
fn definition(symbol: &str, files: &[File<'_>]) -> Option<FilePlace> {
    let mut definitions = files.iter().filter_map(|file| Some((file, file.elf.function(symbol)?)));
    let (file, function) = definitions.next()?;
    if function.ifunc || definitions.next().is_some() {
        return None;
    }
    Some(FilePlace { file: file.image.id, position: function.vaddr.wrapping_sub(first_position(file)?) })
}

/// Whether the name by which a choice is known is the only one that it can have. What is chosen for `memmove` goes by the
/// name of an old `memcpy` as well, and does for it.
fn is_told(name: &str) -> bool {
    copy_function(name).is_some() && !name.contains("memmove")
}
