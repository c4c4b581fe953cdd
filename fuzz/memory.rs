//! Memory of a process, made of bytes.

use std::cell::Cell;

use dmscope::host::memory::RemoteMemory;

/// The same few bytes again and again, so that every pointer leads somewhere. Like that of a process it is not read for ever.
pub struct RepeatedMemory<'a> {
    bytes: &'a [u8],
    left_words: Cell<u64>,
}

impl<'a> RepeatedMemory<'a> {
    /// As many words as are read of a process.
    const MOST_WORDS: u64 = 1 << 24;

    /// Of these.
    pub fn of(bytes: &'a [u8]) -> Self {
        Self { bytes, left_words: Cell::new(Self::MOST_WORDS) }
    }
}

impl RemoteMemory for RepeatedMemory<'_> {
    fn word(&self, address: u64) -> Option<u64> {
        self.left_words.set(self.left_words.get().checked_sub(1)?);
        let len = self.bytes.len().checked_sub(7)? as u64;
        let at = usize::try_from(address.checked_rem(len)?).ok()?;
        self.bytes[at..].first_chunk::<8>().map(|word| u64::from_le_bytes(*word))
    }
}
