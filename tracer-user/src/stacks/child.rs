//! The child's side: it reads stacks of processes whose memory it is handed open.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use super::messages::{ReaderMessage, SessionMessage};
use super::reader::{MOST_FILES, StackReader};
use super::thread::{RunningSample, Surroundings};
use crate::host::memory::ProcessMemory;
use crate::host::sandbox::{self, SandboxLimits, receive, receive_bytes, receive_file, send};

/// Files that are known are kept open, and one memory is. A session may go on for days.
const LIMITS: SandboxLimits = SandboxLimits { files: MOST_FILES as u64 + 8, cpu_s: None };

/// Gives up all rights, and answers what is asked on standard input until it is closed.
///
/// # Errors
/// The rights cannot be given up, or the session is gone.
pub fn serve() -> io::Result<()> {
    let mut session = SessionSocket(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?));
    sandbox::enter(LIMITS)?;
    let mut reader = StackReader::default();
    loop {
        let process = match receive(&mut session.0) {
            Ok(SessionMessage::Read(process)) => process,
            Ok(_) => return Err(unexpected()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        };
        let memory = ProcessMemory::of(receive_file(&session.0)?);
        let threads = reader.read(&process, memory, &mut session)?;
        send(&mut session.0, &ReaderMessage::Threads(threads))?;
    }
}

fn unexpected() -> io::Error {
    io::Error::other("this was not asked for")
}

/// What the session has that the child may not.
struct SessionSocket(UnixStream);

impl Surroundings for SessionSocket {
    fn sample(&mut self, tid: u32) -> io::Result<Option<RunningSample>> {
        send(&mut self.0, &ReaderMessage::Sample { tid })?;
        let SessionMessage::Sample(sample) = receive(&mut self.0)? else { return Err(unexpected()) };
        let with_stack = |sample| Ok(RunningSample { stack: receive_bytes(&mut self.0)?, ..sample });
        sample.map(with_stack).transpose()
    }

    fn file(&mut self, start: u64) -> io::Result<Option<File>> {
        send(&mut self.0, &ReaderMessage::File { start })?;
        let SessionMessage::File { is_open } = receive(&mut self.0)? else { return Err(unexpected()) };
        is_open.then(|| receive_file(&self.0)).transpose()
    }
}
