//! Calls of allocators.

use serde::{Deserialize, Serialize};

use crate::memory::WritableMemory;

/// So many bytes of instructions can be run in the place of a function's own.
pub const MOST_FIRST_BYTES: usize = 8;
/// Behind so many bytes a function is entered at most.
pub const MOST_BEHIND_BYTES: usize = 16;

/// A function of the C library's allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum HeapCall {
    /// Size.
    Malloc = 0,
    /// Count and size.
    Calloc = 1,
    /// Old block and size.
    Realloc = 2,
    /// Block.
    Free = 3,
}

/// How a call of an allocator is recorded without the kernel, and what stays for the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeapHook {
    /// Which function.
    pub call: HeapCall,
    /// Blocks from this size on are recorded, bytes.
    pub least_bytes: u64,
    /// Smaller ones too if the program's own code makes the call.
    pub program_is_own: bool,
    /// How the function is entered behind the kernel's probe.
    pub entry: PassedEntry,
}

/// The beginning of a function up to behind a probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedEntry {
    /// What it consists of.
    pub code: [u8; MOST_BEHIND_BYTES],
    /// So many bytes.
    pub len: u8,
    /// Where the probe is, which may have changed that byte.
    pub probed_at: u8,
    /// The instructions of it that must be run.
    pub first: [u8; MOST_FIRST_BYTES],
    /// So many bytes.
    pub first_len: u8,
}

impl PassedEntry {
    /// The instructions that must be run.
    pub(crate) fn first(&self) -> &[u8] {
        &self.first[..usize::from(self.first_len).min(MOST_FIRST_BYTES)]
    }

    /// Whether the function begins so in a process: nobody has changed it but for a probe.
    pub(crate) fn is_at(&self, memory: &WritableMemory, address: u64) -> bool {
        const BREAKPOINT: u8 = 0xcc;
        let mut found = [0; MOST_BEHIND_BYTES];
        let len = usize::from(self.len).min(MOST_BEHIND_BYTES);
        if memory.read(address, &mut found[..len]).is_err() {
            return false;
        }
        let is_as_known = |(at, byte): (usize, &u8)| {
            *byte == self.code[at] || (at == usize::from(self.probed_at) && *byte == BREAKPOINT)
        };
        found[..len].iter().enumerate().all(is_as_known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_somebody_has_changed_is_not_entered_in_its_middle() {
        let code = *b"0123456789abcdef";
        let mut place = code;
        let pid = i32::try_from(std::process::id()).expect("a process id");
        let memory = WritableMemory::open(pid).expect("our own memory");
        let entry = PassedEntry { code, len: 6, probed_at: 2, ..PassedEntry::default() };
        let is_at = |place: &[u8; 16]| entry.is_at(&memory, place.as_ptr() as u64);
        assert!(is_at(&place));
        place[2] = 0xcc;
        place[6] = 0;
        assert!(is_at(&place), "a probe, and what comes behind");
        place[3] = 0xcc;
        assert!(!is_at(&place));
        assert!(!entry.is_at(&memory, 8));
    }
}
