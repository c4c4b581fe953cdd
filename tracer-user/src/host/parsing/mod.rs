//! What is in files of a job, read by a process that has nothing to lose.
//!
//! A job can hand us any file. So the session opens it, and a child without rights reads it: it is fed with open files and
//! answers with facts and plans. Whatever a file does to it, the session goes on.

mod child;
mod client;
mod in_process;
mod messages;
mod names;

use std::sync::Arc;

use analyzer::plan::Plan;
use analyzer::wire::FileId;
use serde::{Deserialize, Serialize};

use super::files::OpenedFile;
use crate::plan::code::Instructions;
use crate::plan::{BoundCopy, EarlierPlans, FileSlots, PlanOptions, VerbsTable};

pub use child::serve;
pub use client::ParsingChild;
pub use in_process::InProcess;
pub use names::PlaceNames;

/// A file that is to be planned, as the session opened it.
#[derive(Clone, Debug)]
pub struct FoundFile {
    /// Who it is.
    pub id: FileId,
    /// Path as the job sees it.
    pub path: String,
    /// The program of a rank (not one of its libraries).
    pub is_program: bool,
    /// The file itself.
    pub file: Arc<OpenedFile>,
}

/// What is looked at before a plan is made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSummary {
    /// Hexadecimal.
    pub build_id: Option<String>,
    /// Libraries that it names, in order.
    pub needed: Vec<String>,
    /// Where it says that they are looked for.
    pub run_path: Option<String>,
    /// Slots that will point to the function that copies memory: how far from where the first byte of the file would be if
    /// all were mapped as its code is.
    pub copy_slots: Vec<u64>,
    /// It has functions of MPI itself: a library of MPI, or a program that one was linked into.
    pub has_mpi: bool,
}

/// What a plan is made from, beside the files.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PlanRequest {
    /// What the user chooses.
    pub options: PlanOptions,
    /// Plans that were made before.
    pub earlier: EarlierPlans,
    /// What memcpy is bound to, if a running process shows it.
    pub bound_copy: Option<BoundCopy>,
    /// Functions of RDMA providers among the files.
    pub verbs: Vec<VerbsTable>,
    /// Files that should be there and could not be read: path and reason.
    pub unreadable: Vec<(String, String)>,
}

/// A plan, and what it was made from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlannedCode {
    /// Probes, and names of files.
    pub plan: Plan,
    /// For each file, its instructions at the places of probes, as they were read for the plan.
    pub code: Vec<(FileId, Instructions)>,
    /// Slots through which calls can be recorded without the kernel, if they are wanted.
    pub slots: Vec<FileSlots>,
}

/// Whoever reads files.
pub trait FileParser: Send {
    /// What a file says of itself.
    ///
    /// # Errors
    /// It cannot be read: why.
    fn summary(&mut self, file: &OpenedFile) -> Result<FileSummary, String>;

    /// Names of places by their offsets in a file; `debug`: a file with its debug information.
    ///
    /// # Errors
    /// It cannot be read: why.
    fn names(
        &mut self,
        file: &OpenedFile,
        debug: Option<&OpenedFile>,
        offsets: &[u64],
    ) -> Result<PlaceNames, String>;

    /// The plan of these files. Those that cannot be read are left out, and it says so.
    ///
    /// # Errors
    /// There is none at all: why.
    fn plan(&mut self, files: &[FoundFile], request: PlanRequest) -> Result<PlannedCode, String>;
}
