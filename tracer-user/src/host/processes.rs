//! One process: who it is, and whether it is a rank of an MPI job.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;

use analyzer::input::ProcessFacts;
use procfs::FromRead;
use procfs::process::{Process, Status};
use serde::{Deserialize, Serialize};

use super::error::{JobError, proc_error, read_error};
use super::files::open_mapped;
use super::job_name::NamesInEnvironment;
use super::mappings::{self, MappedFile, code_files};
use super::memory::is_gone;
use super::memory_child::read_memory;
use super::parsing::{FileParser, ParsingChild};
use crate::plan::tables::{LOCAL_SIZE_VARIABLES, MPI_KINDS, MPI_LIBRARIES, RANK_VARIABLES};

/// The MPI library of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MpiLibrary {
    /// Which one, for people.
    pub kind: String,
    /// Its path as the process sees it; the program's own if MPI is linked into it.
    pub path: String,
    /// MPI is part of the program.
    pub is_static: bool,
}

/// A rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// How many ranks of its job are on this node, if its launcher says.
    pub local_size: Option<u32>,
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
    /// Inode of its network namespace.
    pub network_namespace: u64,
    /// Rank from the environment.
    pub rank: Option<u32>,
    /// Size of the job from the environment.
    pub size: Option<u32>,
    /// How many of its ranks are on this node, from the environment.
    pub local_size: Option<u32>,
    /// What its environment says of the name of its job.
    pub job_names: NamesInEnvironment,
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
pub fn all_pids() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// What a process has started and that is still there. One may be missed while another one ends.
pub(super) fn children(pid: u32) -> Vec<u32> {
    let tasks = open(pid).ok().and_then(|process| process.tasks().ok()).into_iter().flatten().flatten();
    tasks.filter_map(|task| task.children().ok()).flatten().collect()
}

/// The only network namespace whose processes are taken care of: our own, if it is not the machine's, as that of a container
/// or of a node that is made up of namespaces.
pub fn only_network() -> Option<u64> {
    let namespace = |pid: &str| std::fs::metadata(format!("/proc/{pid}/ns/net")).map(|net| net.ino()).ok();
    // The kernel's threads are never in any but the machine's; in a container there are none.
    let has_kernel_threads =
        std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name.trim() == "kthreadd");
    let (own, machine) = (namespace("self")?, namespace(if has_kernel_threads { "2" } else { "1" })?);
    (own != machine).then_some(own)
}

/// The parent of a process, if it is still there.
pub(super) fn parent(pid: u32) -> Option<u32> {
    u32::try_from(open(pid).ok()?.stat().ok()?.ppid).ok()
}

impl ProcessView {
    /// Reads what `/proc` says. What may not be read (another user's environment), or is not there in time, stays empty.
    ///
    /// # Errors
    /// The process does not exist (any more).
    pub fn read(pid: u32) -> Result<Self, JobError> {
        let process = open(pid)?;
        let stat = process.stat().map_err(|e| proc_error(pid, e))?;
        let status = status(pid)?;
        let namespaces = process.namespaces().ok();
        let namespace = |name: &str| {
            let all = namespaces.as_ref()?;
            all.0.iter().find(|(kind, _)| *kind == name).map(|(_, n)| n.identifier)
        };
        let environment = environment(pid, stat.starttime, stat.env_start.zip(stat.env_end));
        let environment: HashMap<&str, &str> = variables(&environment).collect();
        let (rank, size) = rank_and_size(|name| environment.get(name).copied());
        let local_size =
            LOCAL_SIZE_VARIABLES.iter().find_map(|name| environment.get(name)?.trim().parse().ok());
        let innermost = status.nspid.as_ref().and_then(|pids| pids.last().copied());
        Ok(Self {
            pid,
            parent: u32::try_from(stat.ppid).unwrap_or(0),
            name: stat.comm,
            namespace_pid: innermost.and_then(|p| u32::try_from(p).ok()).unwrap_or(pid),
            pid_namespace: namespace("pid").unwrap_or(0),
            mount_namespace: namespace("mnt").unwrap_or(0),
            network_namespace: namespace("net").unwrap_or(0),
            rank,
            size,
            local_size,
            job_names: NamesInEnvironment::of(&environment),
            exe: process.exe().map(|p| p.to_string_lossy().into_owned()).unwrap_or_default(),
            command: command_line(pid),
            uid: status.euid,
            start_ticks: stat.starttime,
        })
    }
}

/// The environment that a process was started with; `range`: its addresses. The file is for the process's user alone, whoever
/// else may look at the process: then it is read from memory. (The kernel does not wait for what lies in that file.)
fn environment(pid: u32, start_ticks: u64, range: Option<(u64, u64)>) -> Vec<u8> {
    const MOST_BYTES: u64 = 8 << 20;
    std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_else(|_| {
        let range = range.filter(|(start, end)| end.saturating_sub(*start) <= MOST_BYTES);
        range.and_then(|(start, end)| read_memory(pid, start_ticks, start, end)).unwrap_or_default()
    })
}

/// Those that are text.
fn variables(environment: &[u8]) -> impl Iterator<Item = (&str, &str)> {
    let entries = environment.split(|byte| *byte == 0);
    entries.filter_map(|entry| std::str::from_utf8(entry).ok()?.split_once('='))
}

/// A process's name may hold any bytes, also such as are no text.
fn status(pid: u32) -> Result<Status, JobError> {
    let status = std::fs::read(format!("/proc/{pid}/status")).map_err(|e| read_error(pid, &e))?;
    Status::from_read(String::from_utf8_lossy(&status).as_bytes()).map_err(|e| proc_error(pid, e))
}

/// The arguments of a process, with spaces between; what is no text in them is replaced.
fn command_line(pid: u32) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    words.map(String::from_utf8_lossy).collect::<Vec<_>>().join(" ")
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
    // Some kernels let mappings be read of processes whose files and memory are out of reach.
    std::fs::read_link(format!("/proc/{pid}/root")).map_err(|e| read_error(pid, &e))?;
    let files = code_files(&mappings::read(pid).map_err(|e| read_error(pid, &e))?);
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
    ParsingChild::default().summary(&opened).is_ok_and(|summary| summary.has_mpi)
}

pub(super) fn open(pid: u32) -> Result<Process, JobError> {
    let number = i32::try_from(pid).map_err(|_| JobError::NoSuchProcess(pid))?;
    match Process::new(number) {
        Err(procfs::ProcError::NotFound(_)) => Err(JobError::NoSuchProcess(pid)),
        other => other.map_err(|e| proc_error(pid, e)),
    }
}

/// When a process started, in clock ticks since the machine did: with its PID, who it is.
///
/// # Errors
/// It does not exist (any more), or cannot be looked at.
pub fn start_ticks(pid: u32) -> Result<u64, JobError> {
    life(pid).map(|life| life.start_ticks)
}

/// Whether the process that started then has ended, be it that its parent has not noticed yet.
///
/// # Errors
/// It cannot be looked at.
pub fn has_ended(pid: u32, started: Option<u64>) -> Result<bool, JobError> {
    match life(pid) {
        Ok(life) => Ok(life.is_zombie || started.is_some_and(|started| started != life.start_ticks)),
        Err(error) if error.has_ended() => Ok(true),
        Err(error) => Err(error),
    }
}

/// Whether a process has ended or is about to: it has no memory any more, though it may not be seen to be over yet.
pub fn is_ending(pid: u32) -> bool {
    matches!(has_ended(pid, None), Ok(true)) || is_gone(pid)
}

struct ProcessLife {
    is_zombie: bool,
    start_ticks: u64,
}

/// From `/proc/PID/stat`, whose second field is a name that may hold anything.
fn life(pid: u32) -> Result<ProcessLife, JobError> {
    const START: usize = 22 - 3;
    let stat = std::fs::read(format!("/proc/{pid}/stat")).map_err(|e| read_error(pid, &e))?;
    let stat = String::from_utf8_lossy(&stat);
    let mut fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let parsed = fields.next().and_then(|state| {
        Some(ProcessLife { is_zombie: state == "Z", start_ticks: fields.nth(START - 1)?.parse().ok()? })
    });
    parsed.ok_or_else(|| JobError::Unreadable(pid, "its state is not as expected".into()))
}

/// What `/proc` says of a process now. `time_ns` is CLOCK_MONOTONIC, read by the caller before.
///
/// # Errors
/// It does not exist (any more), or may not be looked at.
pub fn process_facts(pid: u32, time_ns: u64) -> Result<ProcessFacts, JobError> {
    let mappings = mappings::read(pid).map_err(|e| read_error(pid, &e))?;
    let view = ProcessView::read(pid)?;
    Ok(ProcessFacts {
        pid,
        namespace_pid: view.namespace_pid,
        pid_namespace: view.pid_namespace,
        rank: view.rank,
        size: view.size,
        exe: view.exe,
        mappings,
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
    fn a_process_that_started_at_another_time_is_another_one() {
        let own = std::process::id();
        let started = start_ticks(own).unwrap();
        assert_eq!(Ok(started), ProcessView::read(own).map(|view| view.start_ticks));
        assert_eq!(has_ended(own, Some(started)), Ok(false));
        assert_eq!(has_ended(own, Some(started - 1)), Ok(true));
        assert_eq!(has_ended(own, None), Ok(false));
        assert_eq!(has_ended(u32::MAX, None), Ok(true));
    }

    #[test]
    fn the_environment_of_a_process_is_the_same_in_its_file_and_in_its_memory() {
        let own = std::process::id();
        let stat = open(own).unwrap().stat().unwrap();
        let (start, end) = stat.env_start.zip(stat.env_end).unwrap();
        let in_memory = super::super::memory::ProcessMemory::new(own).bytes(start, end).unwrap();
        assert_eq!(in_memory, environment(own, 0, None));
        assert!(variables(&in_memory).any(|(name, _)| name == "PATH"));
        let text = b"A=1\0no variable\0B=x=y\0\xff=2\0";
        assert_eq!(variables(text).collect::<Vec<_>>(), [("A", "1"), ("B", "x=y")]);
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
