//! What a plan is made from: facts, and what the user chooses.

use analyzer::wire::FileId;
use serde::{Deserialize, Serialize};

use super::engine::Engine;
use super::results::Returns;
use crate::elf::Contents;

/// A program or library, as it is mapped or would be.
#[derive(Clone, Debug, Default)]
pub struct FileImage {
    /// Who it is.
    pub id: FileId,
    /// Path as the job sees it.
    pub path: String,
    /// The program of a rank (not one of its libraries).
    pub is_program: bool,
    /// What is in it.
    pub contents: Contents,
}

/// The function that calls of memcpy reach in a running process: the C library chooses one
/// by the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundCopy {
    /// The file that it is in.
    pub file: FileId,
    /// Where its first instruction is in that file.
    pub offset_bytes: u64,
}

/// Functions of an RDMA provider, as the table of an opened device shows them: where each begins in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerbsTable {
    /// The provider.
    pub file: FileId,
    /// Posts work requests to send queues.
    pub post_send: u64,
    /// To receive queues.
    pub post_recv: u64,
    /// To shared receive queues, if it has any.
    pub post_srq_recv: Option<u64>,
    /// Polls completion queues.
    pub poll_cq: u64,
}

/// What a plan is made from.
#[derive(Clone, Debug, Default)]
pub struct PlanFacts {
    /// Files that the ranks map (or will map), in the order in which they should be listed.
    pub files: Vec<FileImage>,
    /// What memcpy is bound to, if a running process shows it.
    pub bound_copy: Option<BoundCopy>,
    /// Functions of RDMA providers among the files.
    pub verbs: Vec<VerbsTable>,
    /// Files that should be there and could not be read: path and reason.
    pub unreadable: Vec<(String, String)>,
}

/// What the user chooses.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlanOptions {
    /// Globs over file names: libraries whose copies are watched although they do not call MPI.
    pub libraries: Vec<String>,
    /// MPI calls that only read the process's own memory as well.
    pub local_calls: bool,
    /// What is recorded of MPI calls when they return.
    pub returns: Returns,
    /// Copies of memory.
    pub copies: bool,
    /// Heap blocks.
    pub allocations: bool,
    /// Who records what can be recorded without the kernel.
    #[serde(default)]
    pub engine: Engine,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self {
            libraries: Vec::new(),
            local_calls: false,
            returns: Returns::default(),
            copies: true,
            allocations: true,
            engine: Engine::default(),
        }
    }
}
