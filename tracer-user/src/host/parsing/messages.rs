//! What the session and its parsing child say to each other.

use analyzer::wire::FileId;
use serde::{Deserialize, Serialize};

use super::names::NamesKey;
use super::{FileSummary, PlaceNames, PlanRequest, PlannedCode};

/// What the session wants. The files follow, in order.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ParseRequest {
    /// Of one file.
    Summary,
    /// Of places in one file, by offset; a second one has its debug information.
    Names { key: NamesKey, offsets: Vec<u64>, has_debug_file: bool },
    /// Of all these.
    Plan { files: Vec<NamedFile>, request: PlanRequest },
}

/// What is known of a file without looking into it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct NamedFile {
    pub id: FileId,
    pub path: String,
    pub is_program: bool,
}

/// What the child answers.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ParseAnswer {
    Summary(Result<FileSummary, String>),
    Names(Result<PlaceNames, String>),
    Plan(Result<PlannedCode, String>),
}
