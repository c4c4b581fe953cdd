//! Memory that MPI calls were given and that is not, or not all of it, a block of the heap: it goes on past the end of one, or the block was
//! given back.
//!
//! Blocks of the program are known whatever their length, those of others from a length on. So a short block may be another one that
//! nobody has told of: an allocator that gives out a place again for one of the same size class may give out as much as fits there.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use rustc_hash::FxHashSet;

use super::memory::Memory;
use super::messages::{CallBuffer, MessageContent};
use super::names::BufferId;
use crate::tape::input::CodePlace;

/// Errors that are told apart.
const MOST: usize = 1 << 10;

/// What is wrong with memory that a call was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockFault {
    /// So much of it is behind the block that it begins in.
    PastEnd { beyond_bytes: u64 },
    /// The block that it begins in was given back, by a call that returns there, in the process's space.
    Freed { return_address: u64 },
}

/// A block of the heap, and what is wrong with a use of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FaultyUse {
    pub fault: BlockFault,
    pub block: BufferId,
    pub block_bytes: u64,
    /// Where in it the use begins.
    pub offset_bytes: u64,
}

/// What one call of one rank did wrong with blocks of one place of the program.
#[derive(Clone, Debug)]
pub(crate) struct HeapError {
    /// In MPI_COMM_WORLD.
    pub rank: u32,
    /// The call that was given the memory, …
    pub function: &'static str,
    /// … and where it was made.
    pub place: Option<CodePlace>,
    /// It writes there; otherwise it reads.
    pub is_written: bool,
    /// Of the first time: what was wrong, …
    pub used: FaultyUse,
    /// … how long the memory was that the call used, …
    pub len_bytes: u64,
    /// … and where the block was given back, if it was.
    pub freed: Option<CodePlace>,
    /// How often.
    pub count: u64,
    /// When its call was made for the first time, CLOCK_MONOTONIC.
    pub first_ns: u64,
}

/// By rank, call, where that returns to, what was wrong, and the block.
type Key = (u32, &'static str, u64, bool, bool, BufferId);

/// Of all processes.
#[derive(Debug, Default)]
pub(crate) struct HeapErrors {
    found: BTreeMap<Key, HeapError>,
    /// Processes of which it may be unknown what they have allocated.
    lost: FxHashSet<usize>,
    are_all_lost: bool,
    /// Some probes of the heap are out: what is allocated may be given back unseen, and the other way round.
    are_hidden: bool,
    is_new: bool,
}

impl HeapErrors {
    /// Of this process records are missing; `None`: of any.
    pub fn lose(&mut self, process: Option<usize>) {
        match process {
            Some(process) => _ = self.lost.insert(process),
            None => self.are_all_lost = true,
        }
    }

    /// Whether some probes of the heap are out from here on.
    pub fn hide(&mut self, are_hidden: bool) {
        self.are_hidden = are_hidden;
    }

    /// Whether nothing of this process's allocations is missing.
    pub fn are_known_of(&self, process: usize) -> bool {
        !self.are_hidden && !self.are_all_lost && !self.lost.contains(&process)
    }

    /// A call was given memory with something wrong; `place`: where a return address of its process is in the code.
    pub fn note(&mut self, call: &CallBuffer, used: FaultyUse, place: impl Fn(u64) -> Option<CodePlace>) {
        let (function, return_address) = (call.origin.row.name.as_str(), call.origin.return_address);
        let freed = match used.fault {
            BlockFault::Freed { return_address } => Some(return_address),
            BlockFault::PastEnd { .. } => None,
        };
        let key = (call.rank, function, return_address, call.is_written, freed.is_some(), used.block);
        let is_full = self.found.len() >= MOST;
        match self.found.entry(key) {
            Entry::Occupied(mut known) => known.get_mut().count += 1,
            Entry::Vacant(_) if is_full => {}
            Entry::Vacant(new) => {
                self.is_new = true;
                new.insert(HeapError {
                    rank: call.rank,
                    function,
                    place: place(return_address),
                    is_written: call.is_written,
                    used,
                    len_bytes: call.content.len_bytes.get(),
                    freed: freed.and_then(place),
                    count: 1,
                    first_ns: call.content.since_ns,
                });
            }
        }
    }

    /// All that was found.
    pub fn found(&self) -> impl Iterator<Item = &HeapError> {
        self.found.values()
    }

    /// Whether anything was found since the last call.
    pub fn take_new(&mut self) -> bool {
        std::mem::take(&mut self.is_new)
    }
}

/// What is wrong with a use of memory, if it begins in a block of the heap, or in what was one. Blocks of at least `all_from_bytes` are
/// all known.
pub(super) fn faulty_use(
    memory: &Memory,
    content: &MessageContent,
    all_from_bytes: u64,
) -> Option<FaultyUse> {
    let (addr, len_bytes) = (content.addr, content.len_bytes.get());
    let end = addr.checked_add(len_bytes)?;
    if let Some((start, block_end, block)) = memory.block_around(addr) {
        let block_bytes = block_end - start;
        let is_certain = block_bytes >= all_from_bytes || end - start > usable_bytes(block_bytes);
        let fault = BlockFault::PastEnd { beyond_bytes: end.saturating_sub(block_end) };
        let used = FaultyUse { fault, block, block_bytes, offset_bytes: addr - start };
        return Some(used).filter(|_| end > block_end && is_certain);
    }
    // What is shorter may be in a block that nobody has told of; what was given back in the meantime is told as such.
    let freed = memory.freed_around(addr).filter(|_| len_bytes >= all_from_bytes)?;
    if freed.time_ns > content.since_ns {
        return None;
    }
    Some(FaultyUse {
        fault: BlockFault::Freed { return_address: freed.return_address },
        block: freed.buffer,
        block_bytes: freed.end - freed.start,
        offset_bytes: addr - freed.start,
    })
}

/// Most bytes of a block for which glibc gives out the place of one of so many (`request2size` of its `malloc.c`).
fn usable_bytes(size_bytes: u64) -> u64 {
    const HEADER_BYTES: u64 = 8;
    const ALIGNMENT_BYTES: u64 = 16;
    const LEAST_BYTES: u64 = 24;
    let with_header = size_bytes.checked_add(HEADER_BYTES);
    let chunk = with_header.and_then(|bytes| bytes.checked_next_multiple_of(ALIGNMENT_BYTES));
    chunk.map_or(u64::MAX, |chunk| (chunk - HEADER_BYTES).max(LEAST_BYTES))
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;
    use crate::job::ids::SpaceId;

    const ALL_FROM_BYTES: u64 = 4096;
    const BLOCK: BufferId = BufferId(9);

    fn with_block(size_bytes: u64) -> Memory {
        let mut memory = Memory::new(SpaceId(0));
        memory.allocate(0x10_0000, size_bytes, BLOCK);
        memory
    }

    fn used(memory: &Memory, addr: u64, len_bytes: u64) -> Option<FaultyUse> {
        let len_bytes = NonZeroU64::new(len_bytes)?;
        faulty_use(memory, &MessageContent { addr, len_bytes, since_ns: 100 }, ALL_FROM_BYTES)
    }

    fn beyond(memory: &Memory, offset_bytes: u64, len_bytes: u64) -> Option<u64> {
        let used = used(memory, 0x10_0000 + offset_bytes, len_bytes)?;
        assert_eq!((used.block, used.offset_bytes), (BLOCK, offset_bytes));
        match used.fault {
            BlockFault::PastEnd { beyond_bytes } => Some(beyond_bytes),
            BlockFault::Freed { .. } => panic!("{used:?}"),
        }
    }

    #[test]
    fn what_goes_past_the_end_of_a_block_is_told_with_how_far() {
        let memory = with_block(8192);
        assert_eq!(beyond(&memory, 0, 8192), None);
        assert_eq!(beyond(&memory, 0, 8193), Some(1));
        assert_eq!(beyond(&memory, 8000, 400), Some(208));
        assert_eq!(used(&memory, 0x10_2000, 10), None, "another block may begin there");
    }

    #[test]
    fn of_a_short_block_only_what_no_other_of_its_size_class_has_is_told() {
        let memory = with_block(400);
        assert_eq!((beyond(&memory, 0, 404), beyond(&memory, 0, 408)), (None, None));
        assert_eq!((beyond(&memory, 0, 409), beyond(&memory, 200, 300)), (Some(9), Some(100)));
        assert_eq!((beyond(&with_block(1), 0, 24), beyond(&with_block(1), 0, 25)), (None, Some(24)));
        assert_eq!(beyond(&with_block(40), 0, 44), Some(4));
        assert_eq!((usable_bytes(u64::MAX), usable_bytes(u64::MAX - 8)), (u64::MAX, u64::MAX));
    }

    #[test]
    fn what_was_given_back_is_told_until_there_is_another_block() {
        let mut memory = with_block(8192);
        memory.give_back(0x10_0000, (0x77, 50), ALL_FROM_BYTES);
        let found = used(&memory, 0x10_0010, 4096).expect("it was freed");
        assert_eq!(found.fault, BlockFault::Freed { return_address: 0x77 });
        assert_eq!((found.block, found.block_bytes, found.offset_bytes), (BLOCK, 8192, 16));
        assert_eq!(used(&memory, 0x10_0010, 4095), None, "a short one may be there");
        memory.allocate(0x10_1fff, 1, BLOCK);
        assert_eq!(used(&memory, 0x10_0010, 4096), None);
    }

    #[test]
    fn what_is_shorter_than_is_always_told_is_not_known_as_given_back() {
        let mut memory = with_block(400);
        memory.give_back(0x10_0000, (0x77, 50), ALL_FROM_BYTES);
        assert_eq!(used(&memory, 0x10_0000, 4096), None);
    }

    #[test]
    fn what_is_given_back_while_a_call_uses_it_is_another_matter() {
        let mut memory = with_block(8192);
        memory.give_back(0x10_0000, (0x77, 101), ALL_FROM_BYTES);
        assert_eq!(used(&memory, 0x10_0000, 4096), None);
    }
}
