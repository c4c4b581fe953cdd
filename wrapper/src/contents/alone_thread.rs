//! A thread of a rank that runs alone, and its record.

use std::fs::File;
use std::io;
use std::path::Path;
use std::ptr::NonNull;
use std::time::Instant;

use replay::contents::ContentReader;

use super::ring::map;

/// Of threads that may call at the same time one each; else one for all.
pub(super) struct AloneThread {
    pub name: u64,
    pub record: MappedRecord,
    pub reader: ContentReader,
    /// The call that it is in.
    pub call: u32,
    /// Its number in the kernel, once it has called.
    pub kernel_id: Option<libc::pid_t>,
    /// Nothing is recorded any more for it, and it waits for what the others still do.
    pub waits_at_end: bool,
    /// It polls more often than it did, since then.
    pub polls_since: Option<Instant>,
}

impl AloneThread {
    pub(super) fn new(name: u64, record: MappedRecord, ignores_data: bool) -> Self {
        let reader = if ignores_data { ContentReader::ignoring_data() } else { ContentReader::default() };
        Self { name, record, reader, call: 0, kernel_id: None, waits_at_end: false, polls_since: None }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.reader.is_at_end(self.record.bytes()) && !self.reader.has_polls()
    }
}

/// Stays mapped until the process ends.
pub(super) struct MappedRecord {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: nobody writes to it.
unsafe impl Send for MappedRecord {}

impl MappedRecord {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let len = usize::try_from(file.metadata()?.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
        // Nothing can be mapped of an empty file.
        if len == 0 {
            return Ok(Self::empty());
        }
        Ok(Self { start: map(&file, len, libc::PROT_READ)?, len })
    }

    pub(super) fn empty() -> Self {
        Self { start: NonNull::dangling(), len: 0 }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: so many bytes are mapped, for as long as the process lives; dmscope has written them before, and keeps them.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}
