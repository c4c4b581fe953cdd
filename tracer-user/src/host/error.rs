//! Why a process cannot be looked at.

use std::io;

use super::capabilities::{Capabilities, Capability, remedy};

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
    /// Of another node that this machine makes up, or of the machine itself.
    #[error(
        "process {0} is in another network namespace: dmscope in a namespace of its own, as here, takes care of that one's \
         processes only; run it outside of all namespaces for all processes of this machine"
    )]
    OtherNetwork(u32),
    /// Another user's, or one that keeps others of its user away.
    #[error("process {pid} may not be looked at: {why}")]
    NoRight {
        /// The process.
        pid: u32,
        /// What is in the way, and what to do.
        why: String,
    },
    /// It ended while it was looked at.
    #[error("process {0} ended while it was looked at")]
    Vanished(u32),
    /// `/proc` gives something unexpected.
    #[error("cannot read process {0}: {1}")]
    Unreadable(u32, String),
}

impl JobError {
    /// There is no such process (any more). Whatever else is in the way says nothing of it.
    pub fn has_ended(&self) -> bool {
        matches!(self, Self::NoSuchProcess(_) | Self::Vanished(_))
    }
}

pub(super) fn proc_error(pid: u32, error: procfs::ProcError) -> JobError {
    match error {
        procfs::ProcError::PermissionDenied(_) => no_right(pid),
        procfs::ProcError::NotFound(_) => JobError::Vanished(pid),
        procfs::ProcError::Io(error, _) => read_error(pid, &error),
        other => JobError::Unreadable(pid, other.to_string()),
    }
}

pub(super) fn read_error(pid: u32, error: &io::Error) -> JobError {
    const NO_SUCH_PROCESS: i32 = 3;
    match error.kind() {
        io::ErrorKind::PermissionDenied => no_right(pid),
        io::ErrorKind::NotFound => JobError::Vanished(pid),
        _ if error.raw_os_error() == Some(NO_SUCH_PROCESS) => JobError::Vanished(pid),
        _ => JobError::Unreadable(pid, error.to_string()),
    }
}

fn no_right(pid: u32) -> JobError {
    JobError::NoRight { pid, why: why_no_right(Capabilities::in_effect()) }
}

/// Pure.
fn why_no_right(capabilities: Capabilities) -> String {
    match capabilities.names_of_missing(&[Capability::SysPtrace]) {
        Some(missing) => format!("it belongs to another user, and {missing}: {}", remedy()),
        None => "something beyond capabilities forbids it (a security module, say)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_look_at_a_process_is_told_the_capability_and_how_to_get_it() {
        let told = why_no_right(Capabilities::default());
        assert!(told.contains("CAP_SYS_PTRACE is missing") && told.contains("sudo setcap"), "{told}");
        let told = why_no_right(Capabilities::ALL);
        assert!(!told.contains("CAP_") && told.contains("security module"), "{told}");
    }

    #[test]
    fn only_no_such_process_means_that_it_has_ended() {
        let error = |number| read_error(7, &io::Error::from_raw_os_error(number));
        assert!(error(libc::ENOENT).has_ended() && error(libc::ESRCH).has_ended());
        for number in [libc::EMFILE, libc::ENFILE, libc::EACCES, libc::EPERM, libc::EIO, libc::ENOMEM] {
            assert!(!error(number).has_ended(), "{}", error(number));
        }
        assert!(error(libc::EMFILE).to_string().contains("Too many open files"));
    }
}
