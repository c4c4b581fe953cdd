//! What the session and the holder of links say to each other: the session asks, the holder answers in order.

use serde::{Deserialize, Serialize};

/// A link that is held.
pub type LinkId = u64;

/// What the session asks.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// Make links. So many programs follow, and then so many files, all open. The answer is [`Made`].
    Make { programs: usize, files: usize, links: Vec<LinkSpec> },
    /// Close links, each beside the others. There is no answer.
    Close(Vec<LinkId>),
    /// Answer [`AllClosed`] when all that were to be closed are.
    WaitForClosed,
}

/// A link to make.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LinkSpec {
    /// Which of the programs that follow.
    pub program: usize,
    /// Which of the files that follow.
    pub file: usize,
    /// The only process that it is for; else it is for everybody.
    pub process: Option<u32>,
    pub returns: ReturnMode,
    /// Of the places in the file.
    pub offsets_bytes: Vec<u64>,
    /// What the program is told at each place.
    pub cookies: Vec<u64>,
}

/// When a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReturnMode {
    /// When a place is reached.
    No,
    /// When the function that begins there returns.
    Only,
    /// Both times.
    Session,
}

/// For each link, in order: what it is called from now on, or the kernel's error number.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Made(pub Vec<Result<LinkId, i32>>);

/// None is being closed.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct AllClosed;
