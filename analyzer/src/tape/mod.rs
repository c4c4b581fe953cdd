//! The tape: every [`Input`] of a session, in the order in which the pipeline saw it.
//!
//! # Format, version 1
//!
//! Numbers are little endian. A file begins with a [file header](FILE_HEADER_BYTES) (magic,
//! version, CRC-32C of both), then come frames:
//!
//! ```text
//! frame header, 68 bytes                      payload, compressed_len bytes
//! ┌───────┬──────┬────────┬──────────────┬───┬──────┐┌──────────────────────┐
//! │ magic │ kind │ inputs │ lengths, CRC │ … │ CRC  ││ one zstd frame       │
//! └───────┴──────┴────────┴──────────────┴───┴──────┘└──────────────────────┘
//! ```
//!
//! | kind | payload, once decompressed |
//! | --- | --- |
//! | records | `Record`, `LateRecord`, `Tick`, `Loss` (see `codec`) |
//! | facts | JSON array of `Start`, `Process`, `Plan`, `End` |
//! | symbols | JSON array of one `Symbols` |
//!
//! A frame needs no other frame to be decoded, and its header says how many inputs, and
//! of which weight ([`Weight`]), the session had before it. So a reader that meets damage
//! searches for the next frame header that its CRC confirms, goes on from there, and knows how much
//! is missing. A frame that could not be written (disk full) looks the same: the
//! counts jump. What is missing reaches the pipeline as [`Input::Loss`].
//!
//! The number of an input in its session is its *position*: it is the same live and from tape.

mod codec;
mod fact;
mod frame;
mod frames;
pub mod input;
pub mod plan;
mod reader;
pub mod sequencer;
mod varint;
pub mod wire;
mod writer;

pub use frame::{FILE_HEADER_BYTES, MAX_FRAME_BYTES, MAX_INPUTS_PER_FRAME, VERSION};
pub use reader::{Item, ItemRef, Reader, content_bytes, symbols};
pub use writer::{DEFAULT_BACKLOG_BYTES, FileTape, WriteError, Writer};

use crate::tape::input::{Input, Loss};
use crate::tape::wire::{RawRecord, kind};

/// Why a tape cannot be read (any further).
#[derive(Debug, thiserror::Error)]
pub enum TapeError {
    /// Nothing in it.
    #[error("the tape is empty: the recorder was stopped before it wrote anything; record again")]
    Empty,
    /// Something else.
    #[error("not a dmscope tape: give a file that was written with `--record`")]
    NotATape,
    /// From the future.
    #[error(
        "the tape has format version {version}, this dmscope reads up to {VERSION}: use the version that recorded it, or a newer one"
    )]
    NewerVersion {
        /// The tape's version.
        version: u32,
    },
    /// There is a file header, perhaps a part of a frame, and no more.
    #[error(
        "no whole frame in the tape: the recorder was stopped at once, or the file was cut; record again"
    )]
    NoFrame,
    /// The file cannot be read.
    #[error("cannot read the tape: {0}")]
    Io(#[from] std::io::Error),
}

/// A place of a tape where inputs are missing, or bytes that belong to no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Why.
    pub cause: Cause,
    /// Where in the file it begins.
    pub position_bytes: u64,
    /// How much of the file cannot be read.
    pub skipped_bytes: u64,
    /// What is missing; `None` if no readable frame follows, which alone could tell.
    pub missing: Option<Weight>,
    /// Time of the last input before it, CLOCK_MONOTONIC.
    pub from_ns: u64,
    /// Time of the first input after it; `from_ns` if there is none.
    pub to_ns: u64,
}

/// Why inputs are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Bytes were changed, inserted or removed.
    Damaged,
    /// The recorder could not write (disk full) for a while.
    NotWritten,
    /// The file ends inside a frame: it was cut.
    Cut,
    /// The last frame is whole, but it is not the end of the session: the recorder was
    /// killed, or is still writing.
    Unfinished,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = self.position_bytes;
        match self.cause {
            Cause::Damaged => write!(f, "damaged at byte {at}: {} bytes skipped", self.skipped_bytes)?,
            Cause::NotWritten => write!(f, "the recorder could not write for a while (byte {at})")?,
            Cause::Cut => {
                write!(f, "cut inside a frame at byte {at}: {} bytes unusable", self.skipped_bytes)?
            }
            Cause::Unfinished => {
                return write!(f, "no end of session: the recorder was killed, or is still writing");
            }
        }
        match self.missing {
            Some(missing) => write!(f, ", {} inputs missing", missing.inputs),
            None => write!(f, ", how many inputs are missing is not known"),
        }
    }
}

impl Damage {
    /// What the pipeline must be told: the missing records as losses of every process seen so far.
    ///
    /// Whose records they were is not known. They are spread evenly, rounded up, so that the
    /// sum is never less than what is missing.
    pub fn losses(&self, pids: impl ExactSizeIterator<Item = u32>) -> impl Iterator<Item = Loss> {
        let (movements, state) = match self.missing {
            Some(missing) => (missing.movements, missing.state),
            None if self.cause == Cause::Unfinished => (0, 0),
            None => (1, 1),
        };
        let share = pids.len().max(1) as u64;
        let (movements, state) = (movements.div_ceil(share), state.div_ceil(share));
        let loss = move |pid| Loss { pid, from_ns: self.from_ns, to_ns: self.to_ns, movements, state };
        pids.filter(move |_| movements + state > 0).map(loss)
    }
}

/// What a run of inputs weighs when it is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// All inputs.
    pub inputs: u64,
    /// Those that are records of copies and calls.
    pub movements: u64,
    /// Those without which memory, processes or probes are not known: other records, facts, losses.
    pub state: u64,
}

impl Weight {
    /// The weight of one input.
    pub fn of(input: &Input) -> Self {
        let (movements, state) = match input {
            Input::Record(record) | Input::LateRecord(record) => return Self::of_record(record),
            Input::Process(_) | Input::Plan(_) | Input::Loss(_) | Input::Coverage(_) | Input::Threads(_) => {
                (0, 1)
            }
            Input::Start(_) | Input::Tick { .. } | Input::Symbols(_) | Input::End(_) => (0, 0),
        };
        Self { inputs: 1, movements, state }
    }

    /// The weight of a record, late or not.
    #[inline]
    pub(crate) fn of_record(record: &RawRecord) -> Self {
        let movement = is_movement(record);
        Self { inputs: 1, movements: u64::from(movement), state: u64::from(!movement) }
    }

    /// Both together. Saturates: a hostile tape may claim anything.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            inputs: self.inputs.saturating_add(other.inputs),
            movements: self.movements.saturating_add(other.movements),
            state: self.state.saturating_add(other.state),
        }
    }

    /// What lies between an earlier total and this one; `None` if `earlier` is not earlier.
    pub fn since(self, earlier: Self) -> Option<Self> {
        Some(Self {
            inputs: self.inputs.checked_sub(earlier.inputs)?,
            movements: self.movements.saturating_sub(earlier.movements),
            state: self.state.saturating_sub(earlier.state),
        })
    }
}

#[inline]
fn is_movement(record: &RawRecord) -> bool {
    matches!(
        record.words()[2] as u16,
        kind::COPY
            | kind::PACK
            | kind::CROSS
            | kind::CALL
            | kind::DONE
            | kind::VALUES
            | kind::RETURN
            | kind::MADE
    )
}
