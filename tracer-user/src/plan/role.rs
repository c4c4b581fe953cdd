//! What a file is to the job, and so what of it is watched.

use std::fmt;
use std::sync::LazyLock;

use globset::{Glob, GlobSet, GlobSetBuilder};

use super::facts::FileImage;
use super::tables::{COMMUNICATION_LIBRARIES, INTERPRETERS, NEVER};
use crate::elf::ElfFacts;

/// What a file is to the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileRole {
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

impl FileRole {
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

impl fmt::Display for FileRole {
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

/// The patterns of a table, compiled once: a plan asks them of a hundred files.
pub(crate) fn compiled<'p>(patterns: impl IntoIterator<Item = &'p str>) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    // A test makes sure that every pattern of the tables is one.
    for glob in patterns.into_iter().filter_map(|p| Glob::new(p).ok()) {
        set.add(glob);
    }
    set.build().unwrap_or_default()
}

static COMMUNICATION: LazyLock<GlobSet> =
    LazyLock::new(|| compiled(COMMUNICATION_LIBRARIES.map(|(pattern, _)| pattern)));
static SILENT: LazyLock<GlobSet> = LazyLock::new(|| compiled(NEVER));
static INTERPRETING: LazyLock<GlobSet> = LazyLock::new(|| compiled(INTERPRETERS));

/// Whether a file of that name is known to carry messages.
pub(crate) fn is_communication_library(name: &str) -> bool {
    COMMUNICATION.is_match(name)
}

pub(super) fn role_of(image: &FileImage, elf: &ElfFacts<'_>, named: &GlobSet) -> FileRole {
    let name = file_name(&image.path);
    if named.is_match(name) || named.is_match(&image.path) {
        return if defines_mpi(elf) { FileRole::Mpi { program: image.is_program } } else { FileRole::Named };
    }
    if defines_mpi(elf) {
        return FileRole::Mpi { program: image.is_program };
    }
    if image.is_program {
        let interprets = INTERPRETING.is_match(name) && !calls_mpi(elf);
        return if interprets { FileRole::Interpreter } else { FileRole::Program };
    }
    if SILENT.is_match(name) {
        return FileRole::Other;
    }
    if let Some((_, what)) = COMMUNICATION.matches(name).first().and_then(|n| COMMUNICATION_LIBRARIES.get(*n))
    {
        return FileRole::Communication(what);
    }
    if calls_mpi(elf) { FileRole::CallsMpi } else { FileRole::Other }
}

/// It has one of MPI's beginnings under its second name, which tools that only wrap MPI have not, but for our own. A program that MPI is
/// linked into has of MPI's functions what it calls.
pub(crate) fn defines_mpi(elf: &ElfFacts<'_>) -> bool {
    let has = |name: &&str| elf.function(name).is_some();
    ["PMPI_Init", "PMPI_Init_thread", "PMPI_Session_init"].iter().any(has) && !has(&OWN_WRAPPER)
}

/// What `dmscope record` loads into ranks has this function.
const OWN_WRAPPER: &str = "dmscope_wraps_mpi";

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

#[cfg(test)]
mod tests {
    use super::super::tables::{LAUNCHERS, POLLING_CALLS};
    use super::*;

    #[test]
    fn every_pattern_of_the_tables_is_one() {
        let behind = POLLING_CALLS.iter().flat_map(|c| c.behind.iter().map(|(pattern, _)| *pattern));
        let all =
            COMMUNICATION_LIBRARIES.iter().map(|(p, _)| *p).chain(NEVER).chain(INTERPRETERS).chain(LAUNCHERS);
        for pattern in all.chain(behind) {
            assert!(Glob::new(pattern).is_ok(), "{pattern}");
        }
    }

    #[test]
    fn files_of_both_libraries_are_known_and_others_are_not() {
        for name in
            ["mca_btl_vader.so", "libopen-pal.so.40.30.2", "libucp.so.0", "libuct_ib.so.0", "libmpich.so.12"]
        {
            assert!(is_communication_library(name), "{name}");
        }
        for name in ["libc.so.6", "libopen-rte.so.40", "mca_ess_env.so", "libz.so.1", "libmpi.txt"] {
            assert!(!is_communication_library(name), "{name}");
        }
    }

    #[test]
    fn the_name_of_a_deleted_file_is_the_name_it_had() {
        assert_eq!(file_name("/opt/lib/libx.so (deleted)"), "libx.so");
        assert_eq!(file_name("plain"), "plain");
    }
}
