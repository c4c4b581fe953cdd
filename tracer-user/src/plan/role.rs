//! What a file is to the job, and so what of it is watched.

use std::fmt;

use globset::{Glob, GlobSet};

use super::FileImage;
use super::tables::{COMMUNICATION_LIBRARIES, INTERPRETERS, NEVER};
use crate::elf::ElfFacts;

/// What a file is to the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Defines MPI's entry points.
    Mpi {
        /// It is the program itself.
        program: bool,
    },
    /// Known to carry messages; what it is.
    Communication(&'static str),
    /// The program of the ranks.
    Program,
    /// A program that runs programs: its own copies are not the job's.
    Interpreter,
    /// Calls MPI, so it handles messages.
    CallsMpi,
    /// The user asked for it.
    Named,
    /// None of these.
    Other,
}

impl Role {
    /// Copies of memory in such a file belong to the job's data movements.
    pub fn copies_are_watched(&self) -> bool {
        !matches!(self, Self::Interpreter | Self::Other)
    }

    /// Heap blocks that it asks for are the program's own: small ones are followed as well.
    pub fn is_own(&self) -> bool {
        matches!(self, Self::Program | Self::CallsMpi | Self::Named)
    }

    /// Defines MPI's entry points.
    pub fn is_mpi(&self) -> bool {
        matches!(self, Self::Mpi { .. })
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mpi { program: false } => f.write_str("MPI library: calls and copies watched"),
            Self::Mpi { program: true } => f.write_str("program with MPI inside: calls and copies watched"),
            Self::Communication(what) => write!(f, "{what}: copies watched"),
            Self::Program => f.write_str("the program: copies watched"),
            Self::Interpreter => f.write_str("interpreter: copies not watched"),
            Self::CallsMpi => f.write_str("calls MPI: copies watched"),
            Self::Named => f.write_str("named by the user: copies watched"),
            Self::Other => f.write_str("carries no messages: copies not watched"),
        }
    }
}

/// The last part of a path, without the mark of a deleted file.
pub(crate) fn file_name(path: &str) -> &str {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    path.rsplit('/').next().unwrap_or(path)
}

fn matches(pattern: &str, name: &str) -> bool {
    Glob::new(pattern).is_ok_and(|glob| glob.compile_matcher().is_match(name))
}

/// Whether a file of that name is known to carry messages.
pub(crate) fn is_communication_library(name: &str) -> bool {
    COMMUNICATION_LIBRARIES.iter().any(|(pattern, _)| matches(pattern, name))
}

pub(super) fn role_of(image: &FileImage, elf: &ElfFacts<'_>, named: &GlobSet) -> Role {
    let name = file_name(&image.path);
    if named.is_match(name) || named.is_match(&image.path) {
        return if defines_mpi(elf) { Role::Mpi { program: image.is_program } } else { Role::Named };
    }
    if defines_mpi(elf) {
        return Role::Mpi { program: image.is_program };
    }
    if image.is_program {
        let interprets = INTERPRETERS.iter().any(|p| matches(p, name)) && !calls_mpi(elf);
        return if interprets { Role::Interpreter } else { Role::Program };
    }
    if NEVER.iter().any(|p| matches(p, name)) {
        return Role::Other;
    }
    if let Some((_, what)) = COMMUNICATION_LIBRARIES.iter().find(|(p, _)| matches(p, name)) {
        return Role::Communication(what);
    }
    if calls_mpi(elf) { Role::CallsMpi } else { Role::Other }
}

/// It has MPI's entry points under their second name, which tools that only wrap MPI have not.
fn defines_mpi(elf: &ElfFacts<'_>) -> bool {
    ["PMPI_Init", "PMPI_Send"].iter().all(|name| elf.function(name).is_some())
}

fn calls_mpi(elf: &ElfFacts<'_>) -> bool {
    elf.imports_any(|name| is_c_entry(name) || is_fortran_entry(name))
}

fn is_c_entry(name: &str) -> bool {
    let rest = name.strip_prefix('P').unwrap_or(name).strip_prefix("MPI_");
    rest.is_some_and(|r| r.starts_with(|c: char| c.is_ascii_uppercase()))
}

/// Fortran compilers write MPI_SEND as `mpi_send_`, with one underscore or two.
fn is_fortran_entry(name: &str) -> bool {
    name.starts_with("mpi_") && name.ends_with('_')
}
