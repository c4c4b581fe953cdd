//! What somebody of ours left in a process who could not take it out, because it was killed, say.
//!
//! What is found is the process's memory: it is bounded and checked, and says where slots led, of this process alone.

use std::io;

use crate::code::{ENTRY_WORDS, MAGIC, MOST_HOOKS, TABLE_WORDS};
use crate::counter::counter;
use crate::layout::PAGE_BYTES;
use crate::maps::{Area, areas};
use crate::memory::WritableMemory;
use crate::shared::RecordedPart;

/// A slot that leads to code of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreviousHook {
    /// Address of the slot.
    pub slot: u64,
    /// What it was before.
    pub original: u64,
    /// Address of our code.
    pub entry: u64,
}

/// What was found in a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreviousHooks {
    /// In the order in which they lie in memory.
    pub hooks: Vec<PreviousHook>,
    /// Somebody reads what they record.
    pub are_read: bool,
    /// Memory that was shared, by address and length.
    pub shared: Vec<(u64, u64)>,
}

impl PreviousHooks {
    /// Where a slot led before we came, if what it leads to now is code of ours.
    pub fn original(&self, slot: u64, value: u64) -> Option<u64> {
        let hook =
            |at: u64, value: u64| self.hooks.iter().find(move |hook| hook.slot == at && hook.entry == value);
        hook(slot, value).map(|hook| hook.original)
    }
}

/// Looks for what was left in a process.
///
/// # Errors
/// It is gone, or not to be looked at.
pub fn find_previous(pid: u32) -> io::Result<PreviousHooks> {
    let pid = i32::try_from(pid).map_err(io::Error::other)?;
    let areas = areas(pid)?;
    let memory = WritableMemory::open(pid)?;
    let mut found = PreviousHooks::default();
    for area in areas.iter().filter(|area| area.is_code && !area.is_writable && area.name.is_empty()) {
        if let Ok(Some(table)) = table_of(&memory, area) {
            found.are_read |= table.are_read;
            found.shared.extend(table.shared);
            found.hooks.extend(table.hooks);
        }
    }
    Ok(found)
}

fn table_of(memory: &WritableMemory, area: &Area) -> io::Result<Option<PreviousHooks>> {
    let mut head = [0; TABLE_WORDS * 8];
    memory.read(area.start, &mut head)?;
    let Some(FoundTable { entries, shared, shared_bytes }) = parse_head(&head, area.end - area.start) else {
        return Ok(None);
    };
    let mut bytes = vec![0; entries * ENTRY_WORDS * 8];
    memory.read(area.start + (TABLE_WORDS * 8) as u64, &mut bytes)?;
    // Without its shared memory nobody reads.
    let deadline = |at: usize| memory.word(shared.wrapping_add(at as u64)).unwrap_or(0);
    // In a pause a part of it is recorded all the same.
    let deadline = RecordedPart::ALL.map(|part| deadline(part.deadline())).into_iter().max().unwrap_or(0);
    let hooks = parse_entries(&bytes, area.start, area.end);
    Ok(Some(PreviousHooks { hooks, are_read: deadline > counter(), shared: vec![(shared, shared_bytes)] }))
}

struct FoundTable {
    entries: usize,
    shared: u64,
    shared_bytes: u64,
}

/// How the table begins; `None`: it is none.
fn parse_head(head: &[u8; TABLE_WORDS * 8], area_bytes: u64) -> Option<FoundTable> {
    let (words, _) = head.as_chunks::<8>();
    let word = |at: usize| u64::from_le_bytes(words[at]);
    let entries = usize::try_from(word(1)).ok().filter(|entries| *entries <= MOST_HOOKS)?;
    let fits = ((TABLE_WORDS + entries * ENTRY_WORDS) * 8) as u64 <= area_bytes;
    let is_aligned = word(2).is_multiple_of(PAGE_BYTES);
    (words[0] == MAGIC && fits && is_aligned).then(|| FoundTable {
        entries,
        shared: word(2),
        shared_bytes: word(3),
    })
}

/// The entries that lead to code in the area.
fn parse_entries(bytes: &[u8], start: u64, end: u64) -> Vec<PreviousHook> {
    let (words, _) = bytes.as_chunks::<8>();
    let (entries, _) = words.as_chunks::<ENTRY_WORDS>();
    let hook = |entry: &[[u8; 8]; ENTRY_WORDS]| {
        let [slot, original, entry] = entry.map(u64::from_le_bytes);
        PreviousHook { slot, original, entry }
    };
    entries.iter().map(hook).filter(|hook| (start..end).contains(&hook.entry)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::{CodeFacts, HookKind, SlotHook, build, code_bytes, entries};

    #[test]
    fn what_was_put_in_is_found_again_in_what_it_consists_of() {
        let hooks: Vec<SlotHook> = (1..=3)
            .map(|number| SlotHook {
                number,
                kind: HookKind::Record,
                slot: u64::from(number) * 0x1000,
                original: 77 + u64::from(number),
                target: 5,
            })
            .collect();
        let facts = CodeFacts {
            guard: 1,
            shared: 0x20_0000,
            shared_bytes: 0x4000,
            thread_id_offset: 3,
            process: 4,
            main_stack: (5, 6),
            program: (0, 0),
            program_code: (0, 0),
            ring_records: 64,
        };
        let base = 0x10_0000;
        let code = build(&hooks, base, &facts);
        let head = code[..TABLE_WORDS * 8].try_into().expect("a table");
        let table = parse_head(head, code_bytes(&hooks)).expect("a table");
        assert_eq!((table.entries, table.shared, table.shared_bytes), (3, 0x20_0000, 0x4000));
        let found = parse_entries(&code[TABLE_WORDS * 8..][..3 * 24], base, base + code_bytes(&hooks));
        let found = PreviousHooks { hooks: found, ..PreviousHooks::default() };
        let last = *entries(&hooks, base).last().expect("three");
        assert_eq!(found.original(0x3000, last), Some(80));
        assert_eq!((found.original(0x3000, last + 1), found.original(0x2000, last)), (None, None));
    }

    #[test]
    fn a_table_that_claims_too_much_is_none() {
        let mut head = [0; TABLE_WORDS * 8];
        assert!(parse_head(&head, 4096).is_none());
        head[..8].copy_from_slice(&MAGIC);
        assert!(parse_head(&head, 4096).is_some());
        head[8..16].copy_from_slice(&1000_u64.to_le_bytes());
        assert!(parse_head(&head, 4096).is_none());
        head[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(parse_head(&head, u64::MAX).is_none());
    }
}
