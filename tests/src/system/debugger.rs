//! What a debugger does to a process that it attaches to and lets go again.

use std::fs;
use std::io;
use std::ptr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// Attaches to all threads of a process, which stops them, waits, and detaches: they go on.
pub fn hold(pid: u32, time: Duration) -> Result<()> {
    let mut tracees = Vec::new();
    for tid in threads(pid)? {
        // One that has ended meanwhile needs no holding.
        if let Some(tracee) = Tracee::attach(tid)? {
            tracees.push(tracee);
        }
    }
    ensure!(!tracees.is_empty(), "process {pid} has no thread to attach to");
    std::thread::sleep(time);
    tracees.into_iter().try_for_each(Tracee::detach)
}

fn threads(pid: u32) -> Result<Vec<i32>> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).context("reading the threads of a process")?;
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Ok(numbers.collect())
}

/// A thread that is stopped. If this thread ends, the kernel lets it go.
struct Tracee {
    tid: i32,
    /// It stopped because this signal came, which it has not got yet; 0: none.
    signal: i32,
}

impl Tracee {
    fn attach(tid: i32) -> Result<Option<Self>> {
        for request in [libc::PTRACE_SEIZE, libc::PTRACE_INTERRUPT] {
            if let Err(error) = trace(request, tid, 0) {
                ensure!(error.raw_os_error() == Some(libc::ESRCH), "attaching to thread {tid}: {error}");
                return Ok(None);
            }
        }
        let mut status = 0;
        // SAFETY: `status` is a place for a number, which is all that is written.
        let waited = unsafe { libc::waitpid(tid, &mut status, libc::__WALL) };
        ensure!(waited == tid, "waiting for thread {tid} to stop: {}", io::Error::last_os_error());
        if !libc::WIFSTOPPED(status) {
            return Ok(None);
        }
        let is_interrupt = status >> 16 == libc::PTRACE_EVENT_STOP;
        Ok(Some(Self { tid, signal: if is_interrupt { 0 } else { libc::WSTOPSIG(status) } }))
    }

    fn detach(self) -> Result<()> {
        trace(libc::PTRACE_DETACH, self.tid, self.signal).context("detaching from a thread")
    }
}

/// One request without an address.
fn trace(request: libc::c_uint, tid: i32, data: i32) -> io::Result<()> {
    // SAFETY: these requests read no memory of ours; what is no tracee of ours is refused.
    let answer = unsafe { libc::ptrace(request, tid, ptr::null_mut::<libc::c_void>(), i64::from(data)) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::Instant;

    use super::*;

    fn state(pid: u32) -> String {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("State:"));
        line.unwrap_or_default().trim().to_owned()
    }

    fn wait_for_state(pid: u32, wanted: &str) {
        let begin = Instant::now();
        while !state(pid).starts_with(wanted) {
            assert!(begin.elapsed() < Duration::from_secs(20), "{:?} instead of {wanted}", state(pid));
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn a_process_is_stopped_while_it_is_held_and_goes_on_after_that() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let pid = child.id();
        wait_for_state(pid, "S");
        let holder = std::thread::spawn(move || hold(pid, Duration::from_millis(300)));
        wait_for_state(pid, "t");
        holder.join().unwrap().unwrap();
        wait_for_state(pid, "S");
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn a_process_that_is_not_there_cannot_be_held() {
        assert!(hold(u32::MAX >> 1, Duration::ZERO).is_err());
    }
}
