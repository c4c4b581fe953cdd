//! Why a process cannot be looked at.

use std::io;

/// Why a process gives no job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// There is none of that number.
    #[error("there is no process {0}")]
    NoSuchProcess(u32),
    /// It is something else.
    #[error("process {pid} is not part of an MPI job: it is {what}")]
    NotMpi {
        /// The process.
        pid: u32,
        /// What it is.
        what: String,
    },
    /// A launcher, but no rank of it is (still or already) here.
    #[error("launcher {0} has no MPI processes on this machine (not yet, or not any more)")]
    NoRanks(u32),
    /// Another user's.
    #[error("process {0} may not be looked at: it belongs to another user; run as root")]
    NoRight(u32),
    /// It ended while it was looked at.
    #[error("process {0} ended while it was looked at")]
    Vanished(u32),
    /// `/proc` gives something unexpected.
    #[error("cannot read process {0}: {1}")]
    Unreadable(u32, String),
}

pub(super) fn proc_error(pid: u32, error: procfs::ProcError) -> JobError {
    match error {
        procfs::ProcError::PermissionDenied(_) => JobError::NoRight(pid),
        procfs::ProcError::NotFound(_) => JobError::Vanished(pid),
        procfs::ProcError::Io(error, _) => read_error(pid, &error),
        other => JobError::Unreadable(pid, other.to_string()),
    }
}

pub(super) fn read_error(pid: u32, error: &io::Error) -> JobError {
    const NO_SUCH_PROCESS: i32 = 3;
    match error.kind() {
        io::ErrorKind::PermissionDenied => JobError::NoRight(pid),
        io::ErrorKind::NotFound => JobError::Vanished(pid),
        _ if error.raw_os_error() == Some(NO_SUCH_PROCESS) => JobError::Vanished(pid),
        _ => JobError::Unreadable(pid, error.to_string()),
    }
}
