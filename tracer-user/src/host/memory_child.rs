//! Memory of processes that may keep a reader waiting for ever, read by a child that can be left behind.
//!
//! A process may map a file of a file system that it serves itself. Whoever reads such memory waits for an answer, and not
//! even SIGKILL ends that: a thread that waits keeps its whole process from ending.

use std::collections::HashSet;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{DumpableBehavior, Signal};
use serde::{Deserialize, Serialize};

use super::memory::ProcessMemory;
use super::sandbox::{SandboxedProcess, receive, send, send_bytes};

/// The word that makes this program the child.
const COMMAND: &str = "read-memory";
/// How long to wait for what takes microseconds.
const MOST_PATIENCE: Duration = Duration::from_secs(2);
/// A child that could go on, and has no processor, is waited for so long.
const MOST_WAIT: Duration = Duration::from_secs(10);
/// After many reads that never ended; a child that is there must get a processor.
const LEAST_PATIENCE: Duration = Duration::from_millis(50);

/// What is to be read.
#[derive(Debug, Serialize, Deserialize)]
struct Question {
    pid: u32,
    start: u64,
    end: u64,
}

/// The child of this process, started when it is first needed.
static READER: LazyLock<Mutex<MemoryReader>> = LazyLock::new(Mutex::default);

/// All bytes of a range of a process that started then (in clock ticks since the machine did); `None`: they cannot be read, or
/// not in time.
pub fn read_memory(pid: u32, start_ticks: u64, start: u64, end: u64) -> Option<Vec<u8>> {
    // One that panicked has asked for nothing.
    READER.lock().unwrap_or_else(PoisonError::into_inner).read(start_ticks, &Question { pid, start, end })
}

/// Whether reads of such a process are not tried any more, since one has not ended.
pub fn is_given_up(pid: u32, start_ticks: u64) -> bool {
    READER.lock().unwrap_or_else(PoisonError::into_inner).given_up.contains(&(pid, start_ticks))
}

/// Processes that have kept us waiting, kept apart at most; then all are asked once more.
const MOST_GIVEN_UP: usize = 1 << 12;

struct MemoryReader {
    child: SandboxedProcess,
    patience: Duration,
    /// By PID and start: asked again, they would keep us waiting again.
    given_up: HashSet<(u32, u64)>,
}

impl Default for MemoryReader {
    fn default() -> Self {
        Self {
            child: SandboxedProcess::of_this_program(COMMAND),
            patience: MOST_PATIENCE,
            given_up: HashSet::new(),
        }
    }
}

impl MemoryReader {
    fn read(&mut self, start_ticks: u64, question: &Question) -> Option<Vec<u8>> {
        let process = (question.pid, start_ticks);
        if self.given_up.contains(&process) {
            return None;
        }
        let read = self.child.talk_longer(self.patience, MOST_WAIT, |child| {
            child.send(question)?;
            let is_read: bool = child.receive()?;
            is_read.then(|| child.receive_bytes()).transpose()
        });
        self.patience = next_patience(self.patience, read.is_ok());
        if read.is_err() {
            if self.given_up.len() >= MOST_GIVEN_UP {
                self.given_up.clear();
            }
            self.given_up.insert(process);
        }
        read.ok().flatten()
    }
}

/// The more processes keep us waiting, the less each is waited for.
fn next_patience(last: Duration, was_answered: bool) -> Duration {
    let next = if was_answered { last * 2 } else { last / 2 };
    next.clamp(LEAST_PATIENCE, MOST_PATIENCE)
}

/// Reads what is asked on standard input until it is closed. It has the rights of this process, which reading takes.
///
/// # Errors
/// The session is gone.
pub fn serve() -> io::Result<()> {
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let mut session = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    loop {
        let question: Question = match receive(&mut session) {
            Ok(question) => question,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        };
        let bytes = ProcessMemory::new(question.pid).bytes(question.start, question.end);
        send(&mut session, &bytes.is_some())?;
        if let Some(bytes) = bytes {
            send_bytes(&mut session, &bytes)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_reads_that_never_end_are_given_up_within_a_minute_and_one_that_ends_is_patient_again() {
        let mut patience = MOST_PATIENCE;
        let mut waited = Duration::ZERO;
        for _ in 0..1000 {
            waited += patience;
            patience = next_patience(patience, false);
        }
        assert!(waited < Duration::from_secs(60), "{waited:?}");
        for _ in 0..6 {
            patience = next_patience(patience, true);
        }
        assert_eq!(patience, MOST_PATIENCE);
    }
}
