//! The session's side: one such process, started when it is first needed and again when it has died.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use procfs::process::Process;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::super::deadline::lacks_a_processor;
use super::socket;

/// How long to wait for the end of a child that was ended.
const PATIENCE_AT_END: Duration = Duration::from_millis(100);

/// A process that answers questions. Most give up their rights; one that reads memory needs them.
pub struct SandboxedProcess {
    program: PathBuf,
    command: &'static str,
    running: Option<Running>,
}

impl SandboxedProcess {
    /// This program itself, by the command that makes it one.
    pub fn of_this_program(command: &'static str) -> Self {
        Self::of("/proc/self/exe".into(), command)
    }

    /// Some other program is it.
    pub fn of(program: PathBuf, command: &'static str) -> Self {
        Self { program, command, running: None }
    }

    /// Starts it, unless it runs. It lives at most as long as the thread that starts it.
    ///
    /// # Errors
    /// No process to be had.
    pub fn start(&mut self) -> io::Result<()> {
        if self.running.is_none() {
            self.running = Some(Running::start(&self.program, self.command)?);
        }
        Ok(())
    }

    /// Talks with it, for so long at most; if it dies or is late, the next one is asked next time.
    ///
    /// # Errors
    /// It cannot be started, has died, is late or talks nonsense: why there is no answer.
    pub fn talk<A>(
        &mut self,
        limit: Duration,
        conversation: impl FnOnce(&mut Conversation<'_>) -> io::Result<A>,
    ) -> Result<A, String> {
        self.talk_longer(limit, limit, conversation)
    }

    /// The same with one that may merely lack a processor: then it is waited for up to `most`.
    ///
    /// # Errors
    /// See [`SandboxedProcess::talk`].
    pub fn talk_longer<A>(
        &mut self,
        limit: Duration,
        most: Duration,
        conversation: impl FnOnce(&mut Conversation<'_>) -> io::Result<A>,
    ) -> Result<A, String> {
        self.start().map_err(|e| format!("the process that reads files cannot be started: {e}"))?;
        let Some(running) = &mut self.running else {
            return Err("the process that reads files is gone".into());
        };
        let begun = Instant::now();
        let mut with = Conversation {
            socket: &running.socket,
            child: running.child.id(),
            deadline: begun + limit,
            last_deadline: begun + most,
        };
        conversation(&mut with).map_err(|error| {
            let is_late = Instant::now() >= with.deadline;
            let ended = self.running.take().map(Running::end);
            match ended {
                _ if is_late => {
                    let waited = begun.elapsed().as_secs_f32();
                    format!("reading it took more than {waited:.1} s: it was given up")
                }
                Some(Ok(Some(how))) => format!("the process that read it {how}"),
                Some(Ok(None)) => format!("the process that read it was given up: {error}"),
                _ => format!("the process that read it is gone: {error}"),
            }
        })
    }
}

/// A socket that is used until a deadline, and no longer.
pub struct Conversation<'s> {
    socket: &'s UnixStream,
    child: u32,
    deadline: Instant,
    /// One that could go on is waited for until then.
    last_deadline: Instant,
}

/// How long one that could go on is waited for before it is looked at again.
const MORE: Duration = Duration::from_millis(100);

impl Conversation<'_> {
    /// Sends a message.
    ///
    /// # Errors
    /// It is gone, or late.
    pub fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        socket::send(self, message)
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// It is gone, or late.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        socket::send_bytes(self, bytes)
    }

    /// Sends an open file.
    ///
    /// # Errors
    /// It is gone, or late.
    pub fn send_file(&mut self, file: &File) -> io::Result<()> {
        self.socket.set_write_timeout(Some(self.left()?))?;
        socket::send_file(self.socket, file)
    }

    /// Receives bytes.
    ///
    /// # Errors
    /// It is gone, late, or sends too many.
    pub fn receive_bytes(&mut self) -> io::Result<Vec<u8>> {
        socket::receive_bytes(self)
    }

    /// Receives a message.
    ///
    /// # Errors
    /// It is gone, late, or talks nonsense.
    pub fn receive<M: DeserializeOwned>(&mut self) -> io::Result<M> {
        socket::receive(self)
    }

    /// Time that this side has taken is not its fault.
    pub fn forgive(&mut self, took: Duration) {
        self.deadline += took;
        self.last_deadline += took;
    }

    fn lacks_a_processor(&self) -> bool {
        let child = i32::try_from(self.child).ok().and_then(|pid| Process::new(pid).ok());
        child.is_some_and(|child| lacks_a_processor(child.stat()))
    }

    fn left(&mut self) -> io::Result<Duration> {
        let now = Instant::now();
        if now >= self.deadline && now < self.last_deadline && self.lacks_a_processor() {
            self.deadline = self.last_deadline.min(now + MORE);
        }
        let left = self.deadline.saturating_duration_since(now);
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for Conversation<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.socket.set_read_timeout(Some(self.left()?))?;
            match (&mut &*self.socket).read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }
}

impl Write for Conversation<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(self.left()?))?;
        (&mut &*self.socket).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whoever waits for the child may run after the job's processes, but not for long: records wait meanwhile.
fn is_waited_for(child: &Child) {
    let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    // Refused: it takes longer.
    let _ = rustix::process::setpriority_process(pid, 0);
}

/// Starts a program as a child that is talked with on its standard input.
///
/// # Errors
/// No process to be had.
pub fn start_child(program: &Path, command: &str) -> io::Result<(Child, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    let child = Command::new(program)
        .arg0("dmscope")
        .arg(command)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .env_clear()
        // Memory counts when it is taken, so none is taken in advance (KiB).
        .env("MIMALLOC_ARENA_RESERVE", "65536")
        .current_dir("/")
        // Ctrl-c, and whatever else is sent to the group of the session, is not for it.
        .process_group(0)
        .spawn()?;
    Ok((child, ours))
}

/// One that runs, and the socket to it.
struct Running {
    child: Child,
    socket: UnixStream,
}

impl Running {
    fn start(program: &Path, command: &str) -> io::Result<Self> {
        let (child, socket) = start_child(program, command)?;
        is_waited_for(&child);
        Ok(Self { child, socket })
    }

    /// Ends it, and says how it had ended; `None`: it had not.
    fn end(mut self) -> io::Result<Option<String>> {
        // It may be about to end by itself, and then says why.
        let deadline = Instant::now() + PATIENCE_AT_END;
        let mut status = self.child.try_wait()?;
        while status.is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
            status = self.child.try_wait()?;
        }
        Ok(status.map(|status| match status.signal() {
            Some(signal) => format!("was ended by signal {signal}"),
            None => format!("ended with status {}", status.code().unwrap_or_default()),
        }))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has nothing that could be lost. One that waits for memory which never comes does not end even now: it is left
        // behind, with nothing of ours.
        let _ = self.child.kill();
        let deadline = Instant::now() + PATIENCE_AT_END;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Duration = Duration::from_secs(2);

    /// How long a program that never answers is waited for, at least 0.1 s.
    fn waited_for(program: &str, argument: &'static str) -> Duration {
        let mut silent = SandboxedProcess::of(program.into(), argument);
        let begun = Instant::now();
        let answer = silent.talk_longer(Duration::from_millis(100), MOST, |child| child.receive::<()>());
        assert!(answer.unwrap_err().contains("given up"));
        begun.elapsed()
    }

    #[test]
    fn a_child_that_could_go_on_is_waited_for_longer_than_one_that_sleeps() {
        let asleep = waited_for("/usr/bin/sleep", "100");
        assert!(asleep < MOST, "{asleep:?}");
        let busy = waited_for("/usr/bin/yes", "on");
        assert!(busy >= MOST, "{busy:?}");
    }
}
