//! What a rank's calls answered, for a replay. Nothing here looks into it: the bytes are those of the crate `replay`.

use serde::{Deserialize, Serialize};

use super::bytes::{BadBytes, ByteReader, ByteWriter};

/// A rank whose calls' answers are on the tape; said once it has begun, and again when that changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayableRank {
    /// Rank in MPI_COMM_WORLD.
    pub rank: u32,
    /// Size of MPI_COMM_WORLD.
    pub size: u32,
    /// Its process, in its own pid namespace.
    pub pid: u32,
    /// The MPI library's own words for its version.
    pub library: String,
    /// Path of the program.
    pub program: String,
    /// Length of the program's file.
    pub program_bytes: u64,
    /// A checksum over the beginning of the program's file.
    pub program_checksum: u64,
    /// What MPI_Init_thread gave, from 0 (single) to 3 (multiple).
    pub thread_level: u32,
    /// What was used that is not recorded: bits.
    #[serde(default)]
    pub uncovered: u32,
    /// Why it is not recorded any further.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
}

/// A part of what a rank's calls answered, or of all that they got.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankAnswers {
    /// Rank in MPI_COMM_WORLD.
    pub rank: u32,
    /// How many bytes of the rank came before.
    pub offset_bytes: u64,
    /// Polls that answered no after all of them.
    pub polls: u64,
    /// The answers.
    pub bytes: Vec<u8>,
}

impl RankAnswers {
    pub(super) fn write(&self, w: &mut ByteWriter) {
        w.number(self.rank.into());
        w.number(self.offset_bytes);
        w.number(self.polls);
        w.bytes(&self.bytes);
    }

    pub(super) fn read(r: &mut ByteReader<'_>) -> Result<Self, BadBytes> {
        Ok(Self {
            rank: r.small()?,
            offset_bytes: r.number()?,
            polls: r.number()?,
            bytes: r.bytes()?.to_vec(),
        })
    }
}

/// A part of the envelopes of a rank's messages, and of what else orders its calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankMessages {
    /// Rank in MPI_COMM_WORLD.
    pub rank: u32,
    /// How many bytes of the rank came before.
    pub offset_bytes: u64,
    /// Rows of the crate `replay`.
    pub bytes: Vec<u8>,
}

impl RankMessages {
    pub(super) fn write(&self, w: &mut ByteWriter) {
        w.number(self.rank.into());
        w.number(self.offset_bytes);
        w.bytes(&self.bytes);
    }

    pub(super) fn read(r: &mut ByteReader<'_>) -> Result<Self, BadBytes> {
        Ok(Self { rank: r.small()?, offset_bytes: r.number()?, bytes: r.bytes()?.to_vec() })
    }
}
