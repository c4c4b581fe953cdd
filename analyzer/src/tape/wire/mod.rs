//! What the BPF programs write: the Rust side of `tracer-ebpf/src/bpf/wire.h`.
//!
//! A record is a whole number of 64-bit words. [`RawRecord`] carries the words as they
//! came, so that the tape keeps even what this version cannot read; [`Record::decode`]
//! gives them names.

mod decode;
mod encode;
pub mod kind;
mod record;

pub use record::{
    Body, CHANGED_BUFFERS, CallContext, FileId, Header, NO_ARGUMENT, PIECE_WORDS, QueueChange, Record,
    STACK_ARGUMENTS, WorkSegment,
};

/// Most words that a record of this version has.
pub const MAX_WORDS: usize = 10;
/// Words of the header that every record starts with.
pub const HEADER_WORDS: usize = 3;

/// A record as the kernel wrote it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RawRecord {
    words: [u64; MAX_WORDS],
    len: u8,
}

impl RawRecord {
    /// Takes the words of one record; `None` if there are too few for a header or too many.
    #[inline]
    pub fn from_words(words: &[u64]) -> Option<Self> {
        if !(HEADER_WORDS..=MAX_WORDS).contains(&words.len()) {
            return None;
        }
        let mut all = [0; MAX_WORDS];
        all[..words.len()].copy_from_slice(words);
        Some(Self { words: all, len: words.len() as u8 })
    }

    /// Takes the bytes of one record as they lie in a ring (native byte order).
    #[inline]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (chunks, rest) = bytes.as_chunks::<8>();
        if !rest.is_empty() || !(HEADER_WORDS..=MAX_WORDS).contains(&chunks.len()) {
            return None;
        }
        let mut words = [0; MAX_WORDS];
        for (word, chunk) in words.iter_mut().zip(chunks) {
            *word = u64::from_ne_bytes(*chunk);
        }
        Some(Self { words, len: chunks.len() as u8 })
    }

    /// The words, header first.
    #[inline]
    pub fn words(&self) -> &[u64] {
        &self.words[..usize::from(self.len)]
    }

    /// The same, to be changed; none may be added.
    #[inline]
    pub(crate) fn words_mut(&mut self) -> &mut [u64] {
        &mut self.words[..usize::from(self.len)]
    }

    /// When it happened, CLOCK_MONOTONIC.
    #[inline]
    pub fn time_ns(&self) -> u64 {
        self.words[0]
    }

    /// The process (thread group id in the initial pid namespace).
    #[inline]
    pub fn pid(&self) -> u32 {
        self.words[1] as u32
    }

    /// The thread (id in the initial pid namespace).
    #[inline]
    pub fn tid(&self) -> u32 {
        (self.words[1] >> 32) as u32
    }

    /// Number of its kind.
    #[inline]
    pub fn kind(&self) -> u16 {
        self.words[2] as u16
    }

    /// Id of the probe; 0: none.
    pub fn probe(&self) -> u32 {
        (self.words[2] >> 32) as u32
    }
}

impl std::fmt::Debug for RawRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match Record::decode(self) {
            Ok(record) => record.fmt(f),
            Err(_) => f.debug_tuple("RawRecord").field(&self.words()).finish(),
        }
    }
}

/// Why a record could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Written by a newer version, or damaged.
    #[error("unknown record kind {0}")]
    UnknownKind(u16),
    /// Not as long as its kind says.
    #[error("a record of kind {kind} has {words} words")]
    WrongLength {
        /// The kind.
        kind: u16,
        /// The words that came.
        words: u8,
    },
}

const MAP_SHARED: u32 = 1;
const MAP_EXEC: u32 = 2;
const MAP_FILE: u32 = 4;
