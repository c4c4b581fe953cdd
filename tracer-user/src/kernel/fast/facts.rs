//! What slots of processes hold now.

use std::collections::BTreeMap;

use analyzer::input::Mapping;
use analyzer::wire::FileId;
use injector::{PreviousHooks, WritableMemory, counter_is_invariant, find_previous, forbidden, parse_status};

use crate::host::gather::read_maps;
use crate::host::processes::is_ending;
use crate::plan::FileSlots;
use crate::plan::engines::{ProcessSlots, SlotValue};
use crate::plan::table_slot::{FilePlace, SlotPurpose, TableSlot};

/// What was found of the processes of a job.
#[derive(Clone, Debug, Default)]
pub struct FastFacts {
    /// What their slots hold.
    pub processes: Vec<ProcessSlots>,
    /// Why nothing can be put into one of them, or into any.
    pub refusal: Option<String>,
}

/// Looks at the slots of processes; the first that forbids it is enough.
pub fn look_at_slots(files: &[FileSlots], pids: &[u32]) -> FastFacts {
    if !counter_is_invariant() {
        let refusal = "the processor's counter is no clock here (it is not the kernel's clock source either)";
        return FastFacts { refusal: Some(refusal.to_owned()), ..FastFacts::default() };
    }
    let mut facts = FastFacts::default();
    for &pid in pids {
        match process_slots(files, pid, false) {
            Ok(process) => facts.processes.push(process),
            Err(_) if is_ending(pid) => {}
            Err(why) => {
                facts.refusal = Some(format!("process {pid}: {why}"));
                break;
            }
        }
    }
    facts
}

/// What the slots of a process hold; or why nothing can be put into it. `is_ours`: what is read in it is read by us.
pub(super) fn process_slots(files: &[FileSlots], pid: u32, is_ours: bool) -> Result<ProcessSlots, String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
    let status = status.map_err(|error| error.to_string())?;
    if let Some(why) = forbidden(&parse_status(&status)) {
        return Err(why.to_string());
    }
    let previous = find_previous(pid).map_err(|error| error.to_string())?;
    if previous.are_read && !is_ours {
        return Err("another session has its code in it".to_owned());
    }
    let mappings = read_maps(pid).map_err(|error| error.to_string())?;
    let id = i32::try_from(pid).map_err(|error| error.to_string())?;
    let memory = WritableMemory::open(id).map_err(|error| error.to_string())?;
    let mut found = ProcessSlots { pid, first_bytes: first_bytes(&mappings), ..ProcessSlots::default() };
    for file in files {
        let Some(first) = found.first_bytes.get(&file.file).copied() else { continue };
        for slot in &file.slots {
            let value = slot_value(&memory, first, file.file, slot, &mappings, &previous);
            found.values.insert((file.file, slot.position), value);
        }
    }
    Ok(found)
}

/// Where the first byte of each file would be if all were mapped as its first code is. Files that are mapped several times are
/// left out: it is not known whose slots are whose.
fn first_bytes(mappings: &[Mapping]) -> BTreeMap<FileId, u64> {
    let mut first: BTreeMap<FileId, (u64, u64, bool)> = BTreeMap::new();
    for mapping in mappings.iter().filter(|m| m.exec && m.file.inode != 0) {
        let at = mapping.start.wrapping_sub(mapping.offset_bytes);
        let known = first.entry(mapping.file).or_insert((at, mapping.offset_bytes, true));
        known.2 &= (at, mapping.offset_bytes) == (known.0, known.1) || mapping.offset_bytes != known.1;
    }
    first.into_iter().filter(|(_, (.., is_only))| *is_only).map(|(file, (at, ..))| (file, at)).collect()
}

fn slot_value(
    memory: &WritableMemory,
    first: u64,
    file: FileId,
    slot: &TableSlot,
    mappings: &[Mapping],
    previous: &PreviousHooks,
) -> SlotValue {
    let address = first.wrapping_add(slot.position);
    let Ok(value) = memory.word(address) else { return SlotValue::Unknown };
    // What a session left that was killed is not what the slot is for.
    let value = previous.original(address, value).unwrap_or(value);
    let Some(code) = mappings.iter().find(|m| m.exec && (m.start..m.end).contains(&value)) else {
        return SlotValue::Unknown;
    };
    if code.file.inode == 0 {
        return SlotValue::Bound { value, target: value, place: None };
    }
    if code.file == file && slot.purpose != SlotPurpose::Tells {
        return SlotValue::Unbound { value };
    }
    let position = value.wrapping_sub(code.start.wrapping_sub(code.offset_bytes));
    SlotValue::Bound { value, target: value, place: Some(FilePlace { file: code.file, position }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, offset_bytes: u64, inode: u64) -> Mapping {
        Mapping {
            start,
            end: start + 0x1000,
            offset_bytes,
            file: FileId { dev: 1, inode },
            shared: false,
            exec: true,
            name: String::new(),
        }
    }

    #[test]
    fn a_file_that_is_mapped_twice_is_left_out_and_one_in_two_pieces_is_not() {
        let mappings = [
            mapping(0x5000, 0x1000, 1),
            mapping(0x9000, 0x1000, 1),
            mapping(0x2000, 0, 2),
            mapping(0x4000, 0x2000, 2),
        ];
        let first = first_bytes(&mappings);
        assert_eq!(first, BTreeMap::from([(FileId { dev: 1, inode: 2 }, 0x2000)]));
    }
}
