//! One process: who it is, and whether it is a rank of an MPI job.

use std::collections::HashMap;

use analyzer::input::ProcessFacts;
use procfs::process::Process;
use serde::Serialize;

use super::error::{JobError, proc_error, read_error};
use super::files::open_mapped;
use super::mappings::{MappedFile, code_files, parse_maps};
use crate::elf;
use crate::plan::tables::{MPI_KINDS, MPI_LIBRARIES, RANK_VARIABLES};

/// The MPI library of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MpiLibrary {
    /// Which one, for people.
    pub kind: String,
    /// Its path as the process sees it; the program's own if MPI is linked into it.
    pub path: String,
    /// MPI is part of the program.
    pub is_static: bool,
}

/// A rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RankProcess {
    /// In the initial pid namespace.
    pub pid: u32,
    /// As the process itself sees it.
    pub namespace_pid: u32,
    /// Inode of its pid namespace.
    pub pid_namespace: u64,
    /// Inode of its mount namespace: paths are those of this one.
    pub mount_namespace: u64,
    /// Rank in MPI_COMM_WORLD, if its launcher says.
    pub rank: Option<u32>,
    /// Size of MPI_COMM_WORLD, if its launcher says.
    pub size: Option<u32>,
    /// Path of the program.
    pub exe: String,
    /// Its command line.
    pub command: String,
    /// Effective user.
    pub uid: u32,
    /// When it started, in clock ticks since the machine did.
    pub start_ticks: u64,
    /// Its MPI library.
    pub library: MpiLibrary,
}

/// Facts of any process that a job is told by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessView {
    /// In the initial pid namespace.
    pub pid: u32,
    /// Its parent.
    pub parent: u32,
    /// Name as the kernel has it (at most 15 bytes).
    pub name: String,
    /// As the process itself sees it.
    pub namespace_pid: u32,
    /// Inode of its pid namespace.
    pub pid_namespace: u64,
    /// Inode of its mount namespace.
    pub mount_namespace: u64,
    /// Rank from the environment.
    pub rank: Option<u32>,
    /// Size of the job from the environment.
    pub size: Option<u32>,
    /// Path of the program.
    pub exe: String,
    /// Arguments.
    pub command: String,
    /// Effective user.
    pub uid: u32,
    /// When it started, in clock ticks since the machine did.
    pub start_ticks: u64,
}

/// All processes that there are now.
pub(super) fn all_pids() -> Vec<u32> {
    let processes = procfs::process::all_processes().into_iter().flatten().flatten();
    processes.filter_map(|process| u32::try_from(process.pid).ok()).collect()
}

/// The parent of a process, if it is still there.
pub(super) fn parent(pid: u32) -> Option<u32> {
    u32::try_from(open(pid).ok()?.stat().ok()?.ppid).ok()
}

impl ProcessView {
    /// Reads what `/proc` says. What may not be read (another user's environment) stays empty.
    ///
    /// # Errors
    /// The process does not exist (any more).
    pub fn read(pid: u32) -> Result<Self, JobError> {
        let process = open(pid)?;
        let stat = process.stat().map_err(|e| proc_error(pid, e))?;
        let status = process.status().map_err(|e| proc_error(pid, e))?;
        let namespaces = process.namespaces().ok();
        let namespace = |name: &str| {
            let all = namespaces.as_ref()?;
            all.0.iter().find(|(kind, _)| *kind == name).map(|(_, n)| n.identifier)
        };
        let environment = process.environ().unwrap_or_default();
        let environment: HashMap<String, String> = environment
            .into_iter()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let (rank, size) = rank_and_size(|name| environment.get(name).map(String::as_str));
        let innermost = status.nspid.as_ref().and_then(|pids| pids.last().copied());
        Ok(Self {
            pid,
            parent: u32::try_from(stat.ppid).unwrap_or(0),
            name: stat.comm,
            namespace_pid: innermost.and_then(|p| u32::try_from(p).ok()).unwrap_or(pid),
            pid_namespace: namespace("pid").unwrap_or(0),
            mount_namespace: namespace("mnt").unwrap_or(0),
            rank,
            size,
            exe: process.exe().map(|p| p.to_string_lossy().into_owned()).unwrap_or_default(),
            command: process.cmdline().map(|words| words.join(" ")).unwrap_or_default(),
            uid: status.euid,
            start_ticks: stat.starttime,
        })
    }
}

/// Rank and size of MPI_COMM_WORLD, as launchers put them into the environment.
pub fn rank_and_size<'e>(variable: impl Fn(&str) -> Option<&'e str>) -> (Option<u32>, Option<u32>) {
    let number = |name: &str| variable(name).and_then(|text| text.trim().parse().ok());
    for (rank, size) in RANK_VARIABLES {
        if let Some(rank) = number(rank) {
            return (Some(rank), number(size));
        }
    }
    (None, None)
}

/// The MPI library among the files that a process maps, by name.
pub fn library_among(files: &[MappedFile]) -> Option<MpiLibrary> {
    let is_mpi = |f: &&MappedFile| {
        let name = crate::plan::file_name(&f.path);
        MPI_LIBRARIES.iter().any(|beginning| name.starts_with(beginning))
    };
    let file = files.iter().find(is_mpi)?;
    Some(MpiLibrary { kind: kind_of(files, &file.path), path: file.path.clone(), is_static: false })
}

/// Which MPI it is: told by the name of a file that only this kind brings along.
fn kind_of(files: &[MappedFile], mpi_path: &str) -> String {
    let names = || files.iter().map(|f| crate::plan::file_name(&f.path));
    let kind = MPI_KINDS.iter().find(|(beginning, _)| names().any(|n| n.starts_with(beginning)));
    kind.map_or_else(|| crate::plan::file_name(mpi_path).to_owned(), |(_, kind)| (*kind).to_owned())
}

/// The MPI library of a process; `None` if it has none. Looks into the program itself only if
/// `may_be_static`: a launcher gave it a rank.
///
/// # Errors
/// It does not exist (any more), or may not be looked at.
pub fn mpi_library(pid: u32, exe: &str, may_be_static: bool) -> Result<Option<MpiLibrary>, JobError> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).map_err(|e| read_error(pid, &e))?;
    let files = code_files(&parse_maps(&maps));
    let library = library_among(&files);
    if library.is_some() || !may_be_static {
        return Ok(library);
    }
    let Some(program) = files.iter().find(|f| f.path == exe.trim_end_matches(" (deleted)")) else {
        return Ok(None);
    };
    Ok(program_defines_mpi(pid, program).then(|| MpiLibrary {
        kind: "linked into the program".into(),
        path: program.path.clone(),
        is_static: true,
    }))
}

fn program_defines_mpi(pid: u32, program: &MappedFile) -> bool {
    let Ok(opened) = open_mapped(pid, program) else { return false };
    let Ok(bytes) = opened.read_image() else { return false };
    elf::parse(&bytes)
        .is_ok_and(|elf| elf.function("PMPI_Init").is_some() || elf.function("MPI_Init").is_some())
}

pub(super) fn open(pid: u32) -> Result<Process, JobError> {
    let number = i32::try_from(pid).map_err(|_| JobError::NoSuchProcess(pid))?;
    match Process::new(number) {
        Err(procfs::ProcError::NotFound(_)) => Err(JobError::NoSuchProcess(pid)),
        other => other.map_err(|e| proc_error(pid, e)),
    }
}

/// What `/proc` says of a process now. `time_ns` is CLOCK_MONOTONIC, read by the caller before.
///
/// # Errors
/// It does not exist (any more), or may not be looked at.
pub fn process_facts(pid: u32, time_ns: u64) -> Result<ProcessFacts, JobError> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).map_err(|e| read_error(pid, &e))?;
    let view = ProcessView::read(pid)?;
    Ok(ProcessFacts {
        pid,
        namespace_pid: view.namespace_pid,
        pid_namespace: view.pid_namespace,
        rank: view.rank,
        size: view.size,
        exe: view.exe,
        mappings: parse_maps(&maps),
        time_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use analyzer::wire::FileId;

    fn mapped(path: &str) -> MappedFile {
        MappedFile { id: FileId::default(), path: path.into(), deleted: false, start: 0, end: 0 }
    }

    #[test]
    fn the_launchers_own_variables_come_before_the_schedulers() {
        let variables: HashMap<&str, &str> =
            HashMap::from([("SLURM_PROCID", "0"), ("PMI_RANK", "3"), ("PMI_SIZE", "8")]);
        assert_eq!(rank_and_size(|n| variables.get(n).copied()), (Some(3), Some(8)));
        assert_eq!(rank_and_size(|_| None), (None, None));
        assert_eq!(rank_and_size(|_| Some("not a number")), (None, None));
    }

    #[test]
    fn the_kind_of_library_is_told_by_what_it_brings_along() {
        let openmpi = [
            mapped("/usr/bin/a"),
            mapped("/usr/lib/libmpi.so.40.30.4"),
            mapped("/usr/lib/libopen-pal.so.40"),
        ];
        let library = library_among(&openmpi).unwrap();
        assert_eq!(
            (library.kind.as_str(), library.path.as_str()),
            ("Open MPI", "/usr/lib/libmpi.so.40.30.4")
        );
        let mpich = [mapped("/usr/lib/libmpich.so.12.2.2")];
        assert_eq!(library_among(&mpich).unwrap().kind, "MPICH");
        assert_eq!(library_among(&[mapped("/usr/lib/libmpifoo.so")]), None);
    }
}
