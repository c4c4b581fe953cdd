//! What all kinds of findings have: places in code, and counts of what is not listed.

use serde::{Deserialize, Serialize};

use crate::tape::input::Frame;
use crate::tape::wire::FileId;

/// A place in code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Program, library or system call; empty: not known.
    pub module: String,
    /// Its file in this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<FileId>,
    /// Offset in it.
    pub offset_bytes: u64,
    /// Functions there, the innermost first; empty: no symbols (yet).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<Frame>,
}

impl Place {
    /// Whether both are the same, in files that are called the same.
    pub fn is_at(&self, other: &Self) -> bool {
        self.module == other.module && self.offset_bytes == other.offset_bytes
    }
}

pub(crate) fn is_none_left_out(count: &u64) -> bool {
    *count == 0
}
