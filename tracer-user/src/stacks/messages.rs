//! What the session and the child that reads stacks say to each other: the session asks for one process at a time, and the
//! child may ask back before it answers.

use analyzer::input::ThreadFacts;
use serde::{Deserialize, Serialize};

use super::thread::{RunningSample, SampledProcess};

/// What the session says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum SessionMessage {
    /// What are its threads doing? The file of its memory follows.
    Read(SampledProcess),
    /// A thread that runs; its stack follows as bytes.
    Sample(Option<RunningSample>),
    /// A file; if it could be opened, it follows.
    File { is_open: bool },
}

/// What the child says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ReaderMessage {
    /// The answer.
    Threads(Vec<ThreadFacts>),
    /// Where is this thread, which can run?
    Sample { tid: u32 },
    /// The file of the mapping that begins here is needed.
    File { start: u64 },
}
