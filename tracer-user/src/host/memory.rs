//! Memory of a running process.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

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
/// Blocks of one process at most: what its library keeps is a hundredth of that, and whatever else it may say is not
/// followed further.
const MOST_BLOCKS: usize = 1 << 14;
/// Words that are read of it.
const MOST_WORDS: u64 = 1 << 24;

/// How memory is read.
enum Access {
    /// By a system call with the PID, which takes the right to trace the process.
    Pid(u32),
    /// By the kernel's file of it, which whoever has it open may read.
    File(File),
}

/// Memory of a running process, read in blocks as they are asked for; each is read once.
pub struct ProcessMemory {
    access: Access,
    blocks: RefCell<HashMap<u64, Option<Box<[u8]>>>>,
    left_words: Cell<u64>,
}

impl ProcessMemory {
    /// Of a process; what cannot be read is nothing.
    pub fn new(pid: u32) -> Self {
        Self::by(Access::Pid(pid))
    }

    /// Of the process whose memory was opened.
    pub fn of(file: File) -> Self {
        Self::by(Access::File(file))
    }

    fn by(access: Access) -> Self {
        Self { access, blocks: RefCell::default(), left_words: Cell::new(MOST_WORDS) }
    }

    /// All bytes of a range.
    pub fn bytes(&self, start: u64, end: u64) -> Option<Vec<u8>> {
        let len = usize::try_from(end.checked_sub(start)?).ok()?;
        self.read(start, len).map(Vec::from)
    }

    fn read(&self, start: u64, len: usize) -> Option<Box<[u8]>> {
        let mut bytes = vec![0; len];
        match &self.access {
            Access::Pid(pid) => read_of(*pid, start, &mut bytes)?,
            Access::File(file) => file.read_exact_at(&mut bytes, start).ok()?,
        }
        Some(bytes.into_boxed_slice())
    }
}

fn read_of(pid: u32, start: u64, bytes: &mut [u8]) -> Option<()> {
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: start as *mut libc::c_void, iov_len: bytes.len() };
    // SAFETY: `local` describes `bytes`, which lives to the end of the call and is written by nobody else;
    // `remote` is an address of the other process and never dereferenced here.
    let read = unsafe { libc::process_vm_readv(pid as i32, &raw const local, 1, &raw const remote, 1, 0) };
    (usize::try_from(read) == Ok(bytes.len())).then_some(())
}

/// Opens the kernel's file of a process's memory, for reading.
///
/// # Errors
/// The process is gone, or the kernel does not let us.
pub fn open_memory(pid: u32) -> io::Result<File> {
    File::open(format!("/proc/{pid}/mem"))
}

/// Whether a process has no memory any more: it is ending.
pub fn is_gone(pid: u32) -> bool {
    open_memory(pid).is_err_and(|error| error.raw_os_error() == Some(libc::ESRCH))
}

impl RemoteMemory for ProcessMemory {
    fn word(&self, address: u64) -> Option<u64> {
        self.left_words.set(self.left_words.get().checked_sub(1)?);
        let start = address / BLOCK_BYTES * BLOCK_BYTES;
        let at = (address - start) as usize;
        if at + 8 > BLOCK_BYTES as usize {
            return self
                .read(address, 8)
                .and_then(|bytes| Some(u64::from_le_bytes(bytes[..].try_into().ok()?)));
        }
        let mut blocks = self.blocks.borrow_mut();
        if blocks.len() >= MOST_BLOCKS && !blocks.contains_key(&start) {
            return None;
        }
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
    fn a_process_that_leads_on_and_on_is_followed_so_far_and_no_further() {
        let pages = vec![1_u8; (MOST_BLOCKS + 8) * BLOCK_BYTES as usize];
        let start = pages.as_ptr() as u64;
        let memory = ProcessMemory::new(std::process::id());
        let read = (0..MOST_BLOCKS as u64 + 4).filter(|n| memory.word(start + n * BLOCK_BYTES + 8).is_some());
        assert!(read.count() <= MOST_BLOCKS + 1);
        let memory = ProcessMemory { left_words: Cell::new(2), ..ProcessMemory::new(std::process::id()) };
        assert_eq!([1, 2, 3].map(|n| memory.word(start + 64 * n).is_some()), [true, true, false]);
    }

    #[test]
    fn words_of_a_process_are_read_and_those_of_nowhere_are_not() {
        let words = [7u64, 8, 9];
        let own = std::process::id();
        for memory in [ProcessMemory::new(own), ProcessMemory::of(open_memory(own).unwrap())] {
            assert_eq!(memory.word(&raw const words[1] as u64), Some(8));
            assert_eq!((memory.word(16), memory.word(u64::MAX - 3)), (None, None));
        }
    }
}
