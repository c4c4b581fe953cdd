//! What a plan is made from: facts, and what the user chooses.

use std::collections::BTreeSet;

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

/// Functions of an RDMA provider that its tables and objects in memory lead to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerbsTable {
    /// The provider.
    pub file: FileId,
    /// What each does, and where it begins in the file. Objects of several kinds may have functions of their own.
    pub functions: BTreeSet<(VerbsFunction, u64)>,
}

/// What a function of an RDMA provider does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum VerbsFunction {
    /// Posts a list of work requests to a send queue.
    PostSend,
    /// To a receive queue.
    PostReceive,
    /// To a shared receive queue.
    PostSharedReceive,
    /// Begins to build work requests.
    BuildStart,
    /// A new one: its `enum ibv_wr_opcode`.
    BuildRequest(u8),
    /// Where the data of the last one lies.
    BuildSegment,
    /// The same, as a list.
    BuildSegments,
    /// Data that is copied at once.
    BuildInline,
    /// The same, as a list.
    BuildInlineList,
    /// Posts what was built.
    BuildComplete,
    /// Forgets it.
    BuildAbort,
    /// Polls a completion queue for a list.
    PollList,
    /// Polls an extended one for the first completion.
    PollStart,
    /// For the next.
    PollNext,
    /// No more.
    PollEnd,
    /// Of the completion that was polled: what it did.
    ReadOperation,
    /// How much was received.
    ReadBytes,
    /// Of which queue pair.
    ReadQueue,
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
