//! Memory of a running process.

use std::cell::RefCell;
use std::collections::HashMap;

/// Something to read words from.
pub trait RemoteMemory {
    /// The word at an address; `None`: it cannot be read.
    fn word(&self, address: u64) -> Option<u64>;

    /// Four bytes at an address that is a multiple of four.
    fn half(&self, address: u64) -> Option<u32> {
        let word = self.word(address & !7)?;
        Some(if address & 4 == 0 { word as u32 } else { (word >> 32) as u32 })
    }
}

const BLOCK_BYTES: u64 = 4096;

/// Memory of a running process, read in blocks as they are asked for; each is read once.
pub struct ProcessMemory {
    pid: u32,
    blocks: RefCell<HashMap<u64, Option<Box<[u8]>>>>,
}

impl ProcessMemory {
    /// Of a process; what cannot be read is nothing.
    pub fn new(pid: u32) -> Self {
        Self { pid, blocks: RefCell::default() }
    }

    /// All bytes of a range.
    pub fn bytes(&self, start: u64, end: u64) -> Option<Vec<u8>> {
        let len = usize::try_from(end.checked_sub(start)?).ok()?;
        self.read(start, len).map(Vec::from)
    }

    fn read(&self, start: u64, len: usize) -> Option<Box<[u8]>> {
        let mut bytes = vec![0u8; len];
        let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: len };
        let remote = libc::iovec { iov_base: start as *mut libc::c_void, iov_len: len };
        // SAFETY: `local` describes `bytes`, which lives to the end of the call and is written by nobody else;
        // `remote` is an address of the other process and never dereferenced here.
        let read =
            unsafe { libc::process_vm_readv(self.pid as i32, &raw const local, 1, &raw const remote, 1, 0) };
        (read == len as isize).then(|| bytes.into_boxed_slice())
    }
}

impl RemoteMemory for ProcessMemory {
    fn word(&self, address: u64) -> Option<u64> {
        let start = address / BLOCK_BYTES * BLOCK_BYTES;
        let at = (address - start) as usize;
        if at + 8 > BLOCK_BYTES as usize {
            return self
                .read(address, 8)
                .and_then(|bytes| Some(u64::from_le_bytes(bytes[..].try_into().ok()?)));
        }
        let mut blocks = self.blocks.borrow_mut();
        let block = blocks.entry(start).or_insert_with(|| self.read(start, BLOCK_BYTES as usize));
        block.as_deref().and_then(|bytes| Some(u64::from_le_bytes(bytes[at..at + 8].try_into().ok()?)))
    }
}

/// Memory made of halves of words, for tests.
#[cfg(test)]
#[derive(Default)]
pub struct Halves(HashMap<u64, u32>);

#[cfg(test)]
impl Halves {
    /// Halves from an address on.
    pub fn put(&mut self, at: u64, halves: &[u32]) {
        self.0.extend((0..).zip(halves).map(|(number, half)| (at + 4 * number, *half)));
    }

    /// A whole word.
    pub fn put_word(&mut self, at: u64, word: u64) {
        self.put(at, &[word as u32, (word >> 32) as u32]);
    }
}

#[cfg(test)]
impl RemoteMemory for Halves {
    fn word(&self, address: u64) -> Option<u64> {
        let half = |at| self.0.get(&at).copied().unwrap_or_default();
        Some(u64::from(half(address)) | u64::from(half(address + 4)) << 32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_process_are_read_and_those_of_nowhere_are_not() {
        let words = [7u64, 8, 9];
        let memory = ProcessMemory::new(std::process::id());
        assert_eq!(memory.word(&raw const words[1] as u64), Some(8));
        assert_eq!((memory.word(16), memory.word(u64::MAX - 3)), (None, None));
    }
}
