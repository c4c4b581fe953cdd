//! Who records which copies and MPI calls: the kernel, by a trap, or code that their slots lead to. Pure, from what slots hold.
//!
//! A slot may be used if it is known in every process of the job where calls through it go on. One that was never called
//! through still leads to the linker, which would write over it; then where it will lead is told by the same symbol's slots
//! elsewhere in the job.

use std::collections::{BTreeMap, BTreeSet};

use analyzer::plan::{Plan, ProbePlace};
use analyzer::wire::FileId;

use super::table_slot::{FilePlace, FileSlots, SlotPurpose, TableSlot};

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotValue {
    /// Nobody can say.
    Unknown,
    /// It leads back into its own file, which has the linker look.
    Unbound {
        /// What it holds.
        value: u64,
    },
    /// It leads somewhere.
    Bound {
        /// What it holds.
        value: u64,
        /// Where calls go.
        target: u64,
        /// What that is, if it is code of a file.
        place: Option<FilePlace>,
    },
}

/// What a process is known to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessSlots {
    /// The process.
    pub pid: u32,
    /// Where the first byte of each file is, or would be.
    pub first_bytes: BTreeMap<FileId, u64>,
    /// What slots hold, by file and position.
    pub values: BTreeMap<(FileId, u64), SlotValue>,
}

/// A slot of a process that is to be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedSlot {
    /// Its file.
    pub file: FileId,
    /// What it is for.
    pub purpose: SlotPurpose,
    /// Its address.
    pub address: u64,
    /// What it holds.
    pub original: u64,
    /// Where calls go on.
    pub target: u64,
}

/// Who records what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineChoice {
    /// Probes that become code in the job. The kernel's are not needed, but for those of allocators, which see what comes another way.
    pub fast: BTreeSet<u32>,
    /// Slots that are used, by process.
    pub slots: BTreeMap<u32, Vec<UsedSlot>>,
    /// Why probes of copies and calls that go through slots are needed all the same.
    pub kernel: BTreeMap<u32, &'static str>,
}

const UNKNOWN: &str = "what its slot holds cannot be told in every process";
const UNBOUND: &str = "nobody in the job has called it yet, so that where its slot will lead is not known";
const ADDRESS: &str = "a file of the job may call it through a pointer";
const INTERPRETED: &str = "an interpreter may call it through no slot";

/// Chooses for a job; the processes are all of it that is here.
pub fn choose_engines(files: &[FileSlots], processes: &[ProcessSlots]) -> EngineChoice {
    let bindings = Bindings::of(files, processes);
    let mut choice = EngineChoice::default();
    let calls = recorded_calls(files, processes, &bindings);
    for (probe, refused) in &calls {
        match refused {
            Some(why) => _ = choice.kernel.insert(*probe, why),
            None => _ = choice.fast.insert(*probe),
        }
    }
    let is_fast = |probe: &u32| calls.get(probe) == Some(&None);
    for file in files {
        let refused = refused_symbols(file, processes, &bindings);
        for site in &file.sites {
            match refused.get(site.symbol.as_str()) {
                Some(why) => _ = choice.kernel.insert(site.probe, why),
                None => _ = choice.fast.insert(site.probe),
            }
        }
        for process in processes.iter().filter(|process| process.first_bytes.contains_key(&file.file)) {
            let used = file.slots.iter().filter(|slot| !refused.contains_key(slot.symbol.as_str()));
            let used = used.filter(|slot| !leads_elsewhere(file, slot, process, &bindings));
            let used = used.filter_map(|slot| use_of(file, slot, process, &bindings).ok());
            let used: Vec<UsedSlot> = used.map(|used| used.recorded_if(is_fast)).collect();
            choice.fast.extend(used.iter().filter_map(UsedSlot::heap_probe));
            choice.slots.entry(process.pid).or_default().extend(used);
        }
    }
    choice
}

/// MPI calls that can be recorded without the kernel, each with why it is not; all slots of a call are used so, or none.
fn recorded_calls(
    files: &[FileSlots],
    processes: &[ProcessSlots],
    bindings: &Bindings<'_>,
) -> BTreeMap<u32, Option<&'static str>> {
    let maps = |process: &ProcessSlots, file: &FileSlots| process.first_bytes.contains_key(&file.file);
    let interpreters: Vec<&FileSlots> = files.iter().filter(|file| file.is_interpreter).collect();
    let mut calls = BTreeMap::new();
    let mut through_pointers = BTreeSet::new();
    for (file, slot) in files.iter().flat_map(|file| file.slots.iter().map(move |slot| (file, slot))) {
        let SlotPurpose::Call { probe, recorded, .. } = slot.purpose else { continue };
        for process in processes.iter().filter(|process| maps(process, file)) {
            if leads_elsewhere(file, slot, process, bindings) {
                continue;
            }
            if recorded.is_none() {
                through_pointers.insert(probe);
                continue;
            }
            let is_interpreted = interpreters.iter().any(|interpreter| maps(process, interpreter));
            let refused = if is_interpreted { Some(INTERPRETED) } else { None };
            let refused = refused.or(use_of(file, slot, process, bindings).err());
            let known = calls.entry(probe).or_insert(None);
            *known = known.or(refused);
        }
    }
    let of_pointers = calls.iter_mut().filter(|(probe, _)| through_pointers.contains(*probe));
    of_pointers.for_each(|(_, refused)| *refused = refused.or(Some(ADDRESS)));
    calls
}

impl UsedSlot {
    /// What heap blocks that are recorded there are said to come from. The kernel's probe stays.
    fn heap_probe(&self) -> Option<u32> {
        match self.purpose {
            SlotPurpose::Heap(heap) => Some(heap.probe),
            _ => None,
        }
    }

    /// A call is recorded if its probe is not needed, and else noted alone.
    fn recorded_if(mut self, is_fast: impl Fn(&u32) -> bool) -> Self {
        if let SlotPurpose::Call { probe, recorded, .. } = &mut self.purpose {
            *recorded = recorded.filter(|_| is_fast(probe));
        }
        self
    }
}

/// Says in a plan who records what. What would be recorded through slots alone, and is not, is no part of it any more.
pub fn mark_slots(plan: &mut Plan, fast: &BTreeSet<u32>, kernel: &BTreeMap<u32, &'static str>) {
    plan.probes.retain(|probe| probe.place != ProbePlace::Slot || fast.contains(&probe.id));
    let heap: BTreeSet<(FileId, u64)> = plan
        .probes
        .iter()
        .filter(|probe| probe.place == ProbePlace::Slot)
        .map(|probe| (probe.file, probe.offset_bytes))
        .collect();
    for probe in &mut plan.probes {
        if probe.place != ProbePlace::Slot && heap.contains(&(probe.file, probe.offset_bytes)) {
            probe.reason = format!("{}; for calls that come another way than through a slot", probe.reason);
        }
        if fast.contains(&probe.id) {
            probe.place = ProbePlace::Slot;
            probe.reason = "without the kernel: the call's slot leads to code that records it".to_owned();
        } else if let Some(why) = kernel.get(&probe.id) {
            probe.reason = format!("{}; by the kernel, because {why}", probe.reason);
        }
    }
}

/// Symbols whose slots in a file are not used, and why: all or none of them.
fn refused_symbols<'f>(
    file: &'f FileSlots,
    processes: &[ProcessSlots],
    bindings: &Bindings<'_>,
) -> BTreeMap<&'f str, &'static str> {
    let mut refused = BTreeMap::new();
    let copies = file.slots.iter().filter(|slot| slot.purpose == SlotPurpose::Copies);
    for slot in copies {
        for process in processes.iter().filter(|process| process.first_bytes.contains_key(&file.file)) {
            if let Err(why) = use_of(file, slot, process, bindings) {
                refused.insert(slot.symbol.as_str(), why);
            }
        }
    }
    refused
}

/// Whether a slot of an MPI call's name is known to lead to another function, as those of tools that wrap MPI: what these call in
/// turn is what counts. One of an allocator's name must be known to lead to just that one.
fn leads_elsewhere(
    file: &FileSlots,
    slot: &TableSlot,
    process: &ProcessSlots,
    bindings: &Bindings<'_>,
) -> bool {
    if !matches!(slot.purpose, SlotPurpose::Call { .. } | SlotPurpose::Heap(_)) {
        return false;
    }
    let place = match process.values.get(&(file.file, slot.position)) {
        Some(SlotValue::Bound { place, .. }) => *place,
        Some(SlotValue::Unbound { .. }) => bindings.place(slot),
        None | Some(SlotValue::Unknown) => None,
    };
    match slot.purpose {
        SlotPurpose::Call { file: called, .. } => place.is_some_and(|place| place.file != called),
        SlotPurpose::Heap(heap) => place != Some(heap.function.place),
        SlotPurpose::Copies | SlotPurpose::Tells => false,
    }
}

fn use_of(
    file: &FileSlots,
    slot: &TableSlot,
    process: &ProcessSlots,
    bindings: &Bindings<'_>,
) -> Result<UsedSlot, &'static str> {
    let first = *process.first_bytes.get(&file.file).ok_or(UNKNOWN)?;
    let (original, target) = match process.values.get(&(file.file, slot.position)) {
        _ if slot.purpose == SlotPurpose::Tells => return Err(UNKNOWN),
        None | Some(SlotValue::Unknown) => return Err(UNKNOWN),
        Some(SlotValue::Bound { value, target, .. }) => (*value, *target),
        Some(SlotValue::Unbound { value }) => (*value, bindings.target(slot, process).ok_or(UNBOUND)?),
    };
    let address = first.wrapping_add(slot.position);
    Ok(UsedSlot { file: file.file, purpose: slot.purpose, address, original, target })
}

/// Where symbols lead in the job; `None`: not everywhere to the same place.
struct Bindings<'f>(BTreeMap<&'f str, Option<FilePlace>>);

impl<'f> Bindings<'f> {
    fn of(files: &'f [FileSlots], processes: &[ProcessSlots]) -> Self {
        let mut bindings = BTreeMap::new();
        // Slots that only tell count where no other does.
        for tells in [false, true] {
            let mut found: BTreeMap<&str, Option<FilePlace>> = BTreeMap::new();
            for (file, slot) in files.iter().flat_map(|file| file.slots.iter().map(move |slot| (file, slot)))
            {
                if (slot.purpose == SlotPurpose::Tells) != tells {
                    continue;
                }
                for process in processes {
                    if let Some(SlotValue::Bound { place, .. }) =
                        process.values.get(&(file.file, slot.position))
                    {
                        let known = found.entry(slot.symbol.as_str()).or_insert(*place);
                        *known = known.filter(|known| Some(*known) == *place);
                    }
                }
            }
            for (symbol, place) in found {
                bindings.entry(symbol).or_insert(place);
            }
        }
        Self(bindings)
    }

    /// Where a slot will lead.
    fn place(&self, slot: &TableSlot) -> Option<FilePlace> {
        self.0.get(slot.symbol.as_str()).copied().unwrap_or(slot.definition)
    }

    /// Where a slot will lead in a process.
    fn target(&self, slot: &TableSlot, process: &ProcessSlots) -> Option<u64> {
        let place = self.place(slot)?;
        Some(process.first_bytes.get(&place.file)?.wrapping_add(place.position))
    }
}

#[cfg(test)]
mod tests {
    use analyzer::plan::{Probe, ProbeClass};
    use injector::{HeapCall, PassedEntry};

    use super::super::calls::WantedOfCall;
    use super::super::table_slot::{HeapFunction, HeapSlot, SlotSite};
    use super::*;

    const LIBC: FileId = FileId { dev: 1, inode: 1 };
    const MPI: FileId = FileId { dev: 1, inode: 2 };
    const PROGRAM: FileId = FileId { dev: 1, inode: 3 };

    fn slot(position: u64, symbol: &str, purpose: SlotPurpose) -> TableSlot {
        TableSlot { position, symbol: symbol.into(), purpose, definition: None }
    }

    /// A file with one copy through one slot.
    fn file(file: FileId, probe: u32) -> FileSlots {
        let sites = vec![SlotSite { probe, return_position: 5, symbol: "memcpy".into() }];
        let slots = vec![slot(0x100, "memcpy", SlotPurpose::Copies)];
        FileSlots { file, slots, sites, is_interpreter: false }
    }

    /// Files are at round addresses, another base for each process.
    fn process(pid: u32, values: &[(FileId, SlotValue)]) -> ProcessSlots {
        let first = |file: FileId| (file, u64::from(pid) << 32 | file.inode << 24);
        ProcessSlots {
            pid,
            first_bytes: [LIBC, MPI, PROGRAM].map(first).into(),
            values: values.iter().map(|(file, value)| ((*file, 0x100), *value)).collect(),
        }
    }

    fn bound(pid: u32, position: u64) -> SlotValue {
        let value = (u64::from(pid) << 32 | LIBC.inode << 24) + position;
        SlotValue::Bound { value, target: value, place: Some(FilePlace { file: LIBC, position }) }
    }

    const UNBOUND_YET: SlotValue = SlotValue::Unbound { value: 7 };

    #[test]
    fn slots_that_lead_somewhere_are_used_and_calls_go_on_there() {
        let choice = choose_engines(&[file(MPI, 4)], &[process(1, &[(MPI, bound(1, 0x50))])]);
        assert_eq!(choice.fast, BTreeSet::from([4]));
        let used = &choice.slots[&1][0];
        assert_eq!((used.address, used.original), (0x1_0200_0100, 0x1_0100_0050));
        assert_eq!((used.target, used.purpose), (0x1_0100_0050, SlotPurpose::Copies));
    }

    /// A file with a slot of malloc, whose kernel probe is 6 and whose own is 7.
    fn of_heap(file: FileId) -> FileSlots {
        let place = FilePlace { file: LIBC, position: 0x50 };
        let function = HeapFunction { call: HeapCall::Malloc, place, entry: PassedEntry::default() };
        let heap = HeapSlot { probe: 7, function, is_own: false, program_is_own: true };
        let slot = TableSlot { definition: Some(place), ..slot(0x100, "malloc", SlotPurpose::Heap(heap)) };
        FileSlots { file, slots: vec![slot], ..FileSlots::default() }
    }

    #[test]
    fn slots_of_an_allocator_are_used_where_they_lead_to_it_and_all_others_stay_with_the_kernel() {
        let used = |values: &[(FileId, SlotValue)]| {
            let choice = choose_engines(&[of_heap(MPI), of_heap(PROGRAM)], &[process(1, values)]);
            assert_eq!(choice.kernel, BTreeMap::new(), "the kernel's probe stays in any case");
            let addresses: Vec<u64> = choice.slots[&1].iter().map(|used| used.address).collect();
            (choice.fast, addresses)
        };
        let (mpi, program) = (0x1_0200_0100, 0x1_0300_0100);
        assert_eq!(
            used(&[(MPI, bound(1, 0x50)), (PROGRAM, UNBOUND_YET)]),
            (BTreeSet::from([7]), vec![mpi, program])
        );
        // One that another library has in its place.
        let elsewhere = SlotValue::Bound { value: 9, target: 9, place: None };
        assert_eq!(
            used(&[(MPI, elsewhere), (PROGRAM, bound(1, 0x50))]),
            (BTreeSet::from([7]), vec![program])
        );
        assert_eq!(used(&[(MPI, bound(1, 0x60)), (PROGRAM, UNBOUND_YET)]), (BTreeSet::new(), vec![]));
    }

    #[test]
    fn what_only_slots_can_have_is_no_part_of_a_plan_without_them() {
        let of_kernel = Probe::at(6, LIBC, 0x50, ProbeClass::Alloc, "malloc");
        let of_slot = Probe { id: 7, place: ProbePlace::Slot, ..of_kernel.clone() };
        let marked = |fast: &[u32]| {
            let mut plan = Plan { probes: vec![of_kernel.clone(), of_slot.clone()], ..Plan::default() };
            mark_slots(&mut plan, &fast.iter().copied().collect(), &BTreeMap::new());
            plan.probes
        };
        assert_eq!(marked(&[]), std::slice::from_ref(&of_kernel));
        let both = marked(&[7]);
        assert_eq!((both.len(), both[0].place, both[1].place), (2, of_kernel.place, ProbePlace::Slot));
        assert!(both[0].reason.contains("another way") && both[1].reason.contains("without the kernel"));
    }

    #[test]
    fn where_an_unbound_slot_will_lead_is_told_by_the_same_symbol_elsewhere_in_the_job() {
        let files = [file(MPI, 4), file(PROGRAM, 5)];
        let first = process(1, &[(MPI, bound(1, 0x50)), (PROGRAM, UNBOUND_YET)]);
        let second = process(2, &[(MPI, UNBOUND_YET), (PROGRAM, UNBOUND_YET)]);
        let choice = choose_engines(&files, &[first, second]);
        assert_eq!(choice.fast, BTreeSet::from([4, 5]));
        let targets =
            |pid: u32| choice.slots[&pid].iter().map(|used| (used.original, used.target)).collect::<Vec<_>>();
        assert_eq!(targets(1), [(0x1_0100_0050, 0x1_0100_0050), (7, 0x1_0100_0050)]);
        assert_eq!(targets(2), [(7, 0x2_0100_0050); 2]);
    }

    #[test]
    fn a_symbol_that_nobody_has_called_or_that_leads_to_several_places_stays_with_the_kernel() {
        let files = [file(MPI, 4), file(PROGRAM, 5)];
        let nobody = choose_engines(&files, &[process(1, &[(MPI, UNBOUND_YET), (PROGRAM, UNBOUND_YET)])]);
        assert_eq!((nobody.fast.len(), nobody.kernel.len()), (0, 2));
        assert!(nobody.slots[&1].is_empty());
        let apart = [process(1, &[(MPI, bound(1, 0x50))]), process(2, &[(MPI, bound(2, 0x60))])];
        let one = choose_engines(&[file(MPI, 4)], &apart);
        assert_eq!(one.fast, BTreeSet::from([4]), "each leads where it leads");
        let mut third = process(3, &[(MPI, UNBOUND_YET)]);
        third.pid = 3;
        let three = choose_engines(&[file(MPI, 4)], &[apart[0].clone(), apart[1].clone(), third]);
        assert_eq!(three.kernel, BTreeMap::from([(4, UNBOUND)]));
        assert!(three.slots.values().all(Vec::is_empty));
    }

    #[test]
    fn what_the_c_library_has_chosen_counts_where_nobody_has_called_yet() {
        let libc = FileSlots {
            file: LIBC,
            slots: vec![slot(0x100, "memcpy", SlotPurpose::Tells)],
            ..FileSlots::default()
        };
        let processes = [process(1, &[(MPI, UNBOUND_YET), (LIBC, bound(1, 0x70))])];
        let choice = choose_engines(&[libc, file(MPI, 4)], &processes);
        assert_eq!(choice.fast, BTreeSet::from([4]));
        assert_eq!(choice.slots[&1].len(), 1, "its own slots are left as they are");
        assert_eq!(choice.slots[&1][0].target, 0x1_0100_0070);
    }

    #[test]
    fn a_slot_that_cannot_be_read_in_one_process_is_used_in_none() {
        let processes = [process(1, &[(MPI, bound(1, 0x50))]), process(2, &[(MPI, SlotValue::Unknown)])];
        let choice = choose_engines(&[file(MPI, 4)], &processes);
        assert_eq!(choice.kernel, BTreeMap::from([(4, UNKNOWN)]));
        assert!(choice.slots.values().all(Vec::is_empty));
    }

    #[test]
    fn a_call_whose_slot_is_not_known_is_not_noted_and_copies_are_recorded_all_the_same() {
        let choice = choose_engines(&[program_with_call(None)], &[process(1, &[(PROGRAM, bound(1, 0x50))])]);
        assert_eq!(choice.fast, BTreeSet::from([5]));
        assert_eq!(choice.slots[&1].len(), 1);
    }

    /// A program with a copy, and a call of MPI_Send, probe 9, whose slot leads into the MPI library.
    fn program_with_call(recorded: Option<WantedOfCall>) -> FileSlots {
        let mut program = file(PROGRAM, 5);
        let call = SlotPurpose::Call {
            probe: 9,
            file: LIBC,
            return_is_hooked: false,
            may_be_nested: false,
            recorded,
            completes: None,
        };
        program.slots.push(slot(0x200, "MPI_Send", call));
        program
    }

    fn with_call(mut process: ProcessSlots, value: SlotValue) -> ProcessSlots {
        process.values.insert((PROGRAM, 0x200), value);
        process
    }

    const RECORDED: WantedOfCall = WantedOfCall { stack_arguments: 2, made: None };

    fn recorded(choice: &EngineChoice, pid: u32) -> Vec<Option<WantedOfCall>> {
        let calls = choice.slots[&pid].iter().filter_map(|used| match used.purpose {
            SlotPurpose::Call { recorded, .. } => Some(recorded),
            _ => None,
        });
        calls.collect()
    }

    #[test]
    fn a_call_is_recorded_without_the_kernel_if_all_its_slots_in_the_job_are_known() {
        let ready = |pid| with_call(process(pid, &[(PROGRAM, bound(pid, 0x50))]), bound(pid, 0x90));
        let files = [program_with_call(Some(RECORDED))];
        let choice = choose_engines(&files, &[ready(1), ready(2)]);
        assert_eq!(
            (choice.fast.clone(), recorded(&choice, 2)),
            (BTreeSet::from([5, 9]), vec![Some(RECORDED)])
        );
        let unbound = with_call(process(2, &[(PROGRAM, bound(2, 0x50))]), SlotValue::Unknown);
        let choice = choose_engines(&files, &[ready(1), unbound]);
        assert_eq!(
            (choice.fast.clone(), choice.kernel.clone()),
            (BTreeSet::from([5]), BTreeMap::from([(9, UNKNOWN)]))
        );
        assert_eq!(recorded(&choice, 1), [None], "it is noted all the same, for copies that are made in it");
    }

    /// The program's slot leads to the tool, and the tool's to the MPI library, here LIBC.
    #[test]
    fn of_a_tool_that_wraps_mpi_the_calls_that_it_makes_count_and_not_those_of_the_program() {
        let mut tool = program_with_call(Some(RECORDED));
        tool.file = MPI;
        let in_tool = SlotValue::Bound {
            value: 0x33,
            target: 0x33,
            place: Some(FilePlace { file: MPI, position: 0x33 }),
        };
        let mut job = with_call(process(1, &[(PROGRAM, bound(1, 0x50)), (MPI, bound(1, 0x50))]), in_tool);
        job.values.insert((MPI, 0x200), bound(1, 0x90));
        let choice = choose_engines(&[program_with_call(Some(RECORDED)), tool], &[job]);
        assert!(choice.fast.contains(&9));
        let calls: Vec<FileId> = choice.slots[&1]
            .iter()
            .filter_map(|used| matches!(used.purpose, SlotPurpose::Call { .. }).then_some(used.file))
            .collect();
        assert_eq!(calls, [MPI]);
    }

    #[test]
    fn a_call_that_may_come_through_a_pointer_stays_with_the_kernel() {
        let ready = |pid| with_call(process(pid, &[(PROGRAM, bound(pid, 0x50))]), bound(pid, 0x90));
        let choice = choose_engines(&[program_with_call(None)], &[ready(1)]);
        assert!(choice.kernel.is_empty(), "it is none that could be recorded otherwise");
        let mut library = program_with_call(None);
        library.file = MPI;
        let mut both = ready(1);
        both.values.extend([((MPI, 0x100), bound(1, 0x50)), ((MPI, 0x200), bound(1, 0x90))]);
        let choice = choose_engines(&[program_with_call(Some(RECORDED)), library], &[both]);
        assert_eq!(choice.kernel, BTreeMap::from([(9, ADDRESS)]));
        assert_eq!(recorded(&choice, 1), [None, None]);
        let interpreter = FileSlots { file: LIBC, is_interpreter: true, ..FileSlots::default() };
        let choice = choose_engines(&[interpreter, program_with_call(Some(RECORDED))], &[ready(1)]);
        assert_eq!(choice.kernel, BTreeMap::from([(9, INTERPRETED)]));
    }

    #[test]
    fn an_unbound_slot_leads_to_the_only_function_of_its_name_if_nobody_has_called_it() {
        let mut only = file(PROGRAM, 5);
        only.slots[0].definition = Some(FilePlace { file: MPI, position: 0x30 });
        let choice = choose_engines(&[only], &[process(1, &[(PROGRAM, UNBOUND_YET)])]);
        assert_eq!(choice.slots[&1][0].target, 0x1_0200_0030);
    }
}
