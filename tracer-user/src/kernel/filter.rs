//! Whether a link for one process does what it must: sees what all threads of the process do, and leaves other processes
//! alone. Tried with a function of our own, which we run into ourselves: as long as we are not watched, that is counted.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use analyzer::plan::{Plan, Probe, ProbeClass};
use analyzer::wire::FileId;

use super::calibrate::{FIRST_PROBE, own_probe};
use super::load::KernelError;
use super::tracer::Tracer;
use super::types::{Scope, Target};
use crate::host::files::open_path;

/// Calls of each try.
const CALLS: u64 = 8;
/// An id that no plan has.
const PROBE: u32 = FIRST_PROBE - 1;

#[unsafe(naked)]
extern "C" fn place(_: u64, _: u64, _: u64) -> u64 {
    core::arch::naked_asm!("push rbp", "mov rax, rdi", "pop rbp", "ret", "nop", "nop", "nop")
}

fn call_it() {
    for number in 0..CALLS {
        std::hint::black_box(place(std::hint::black_box(number), 0, 0));
    }
}

/// What a link for one process was found to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterCheck {
    /// Calls of the first thread that were seen, of `calls`.
    pub of_first_thread: u64,
    /// Calls of another thread.
    pub of_other_thread: u64,
    /// Calls of another process.
    pub of_other_process: u64,
    /// The other process had the breakpoint in its code.
    pub changes_other_process: bool,
    /// So many calls each of them made.
    pub calls: u64,
}

impl FilterCheck {
    /// All threads of the process are seen.
    pub fn sees_all_threads(&self) -> bool {
        self.of_first_thread == self.calls && self.of_other_thread == self.calls
    }

    /// Other processes are neither seen nor held up.
    pub fn spares_others(&self) -> bool {
        self.of_other_process == 0 && !self.changes_other_process
    }
}

impl Tracer {
    /// Whether a link for one process sees all of its threads.
    ///
    /// # Errors
    /// The kernel refuses such a link.
    pub fn filter_sees_all_threads(&mut self) -> Result<bool, KernelError> {
        if self.settings.without.process_filter {
            return Ok(false);
        }
        let mut check = FilterCheck { calls: CALLS, ..FilterCheck::default() };
        self.with_own_link(|tracer, _| tracer.try_threads(&mut check))?;
        Ok(check.sees_all_threads())
    }

    /// The same, and whether it leaves another process alone, for which a child is made that does nothing else.
    ///
    /// # Errors
    /// The kernel refuses such a link, or a child.
    pub fn check_filter(&mut self) -> Result<FilterCheck, KernelError> {
        let mut check = FilterCheck { calls: CALLS, ..FilterCheck::default() };
        let child = Child::fork().map_err(|error| KernelError::NotSupported(format!("no child: {error}")))?;
        self.with_own_link(|tracer, probe| {
            tracer.try_threads(&mut check);
            check.changes_other_process = child.has_breakpoint(probe);
            check.of_other_process = tracer.seen_of(|| child.call_and_end());
        })?;
        Ok(check)
    }

    fn try_threads(&self, check: &mut FilterCheck) {
        check.of_first_thread = self.seen_of(call_it);
        // Without a thread nothing is seen of it, and the filter is not used.
        check.of_other_thread = self.seen_of(|| {
            let thread = std::thread::Builder::new().spawn(call_it);
            let _ = thread.map(std::thread::JoinHandle::join);
        });
    }

    /// How many hits an action makes. Nobody else has a process that only we were to be seen in.
    fn seen_of(&self, action: impl FnOnce()) -> u64 {
        let seen = |tracer: &Self| tracer.stranger_hits().get(&ProbeClass::Pack).copied().unwrap_or(0);
        let before = seen(self);
        action();
        seen(self) - before
    }

    /// Does something while the function is probed in this process.
    fn with_own_link(&mut self, action: impl FnOnce(&mut Self, &Probe)) -> Result<(), KernelError> {
        let refused = |why: String| KernelError::NotSupported(format!("probes for one process: {why}"));
        let (_, program) =
            open_path("/proc/self/exe".as_ref()).map_err(|error| refused(error.to_string()))?;
        let probe = own_probe(ProbeClass::Pack, place, PROBE);
        let probe = probe.ok_or_else(|| refused("our own code is not found".into()))?;
        let target = Target::as_it_is(program, [probe.offset_bytes], Scope::EachReached);
        let plan = Plan { probes: vec![probe.clone()], ..Plan::default() };
        let own = std::process::id();
        self.reach(own);
        let attached = self.attach(&plan, &BTreeMap::from([(FileId::default(), target)]));
        let result = match attached.failed.first() {
            None => {
                action(self, &probe);
                Ok(())
            }
            Some((_, why)) => Err(refused(why.clone())),
        };
        self.detach(&[PROBE].into());
        self.leave(own);
        self.targets.remove(&FileId::default());
        self.probes.remove(&PROBE);
        result
    }
}

/// A copy of this process that waits, calls the function when it is told to, and ends.
struct Child {
    pid: i32,
    go: std::io::PipeWriter,
}

impl Child {
    fn fork() -> std::io::Result<Self> {
        let (wait, go) = std::io::pipe()?;
        // SAFETY: the child only makes the system calls close, read and _exit, and calls a function that does nothing.
        let pid = unsafe { libc::fork() };
        if pid < 0 {
            return Err(std::io::Error::last_os_error());
        }
        if pid == 0 {
            let mut byte = 0_u8;
            // SAFETY: as above; both descriptors are the child's own copies.
            unsafe {
                libc::close(go.as_raw_fd());
                libc::read(wait.as_raw_fd(), (&raw mut byte).cast(), 1);
                call_it();
                libc::_exit(0);
            }
        }
        Ok(Self { pid, go })
    }

    /// Whether another instruction than the file's is at the probed place. One that cannot be read counts as changed.
    fn has_breakpoint(&self, probe: &Probe) -> bool {
        let (mut mapped, mut filed) = ([0], [0]);
        let memory = std::fs::File::open(format!("/proc/{}/mem", self.pid));
        let is_read =
            memory.and_then(|memory| memory.read_exact_at(&mut mapped, place as *const () as usize as u64));
        let file = std::fs::File::open("/proc/self/exe");
        let is_read = is_read.and(file.and_then(|file| file.read_exact_at(&mut filed, probe.offset_bytes)));
        is_read.is_err() || mapped != filed
    }

    /// It does so when it is dropped.
    fn call_and_end(self) {}
}

impl Drop for Child {
    fn drop(&mut self) {
        // It ends as well if nothing can be written: the pipe is closed.
        let _ = self.go.write_all(b"!");
        let mut status = 0;
        // SAFETY: the child is ours, and nobody else waits for it.
        unsafe { libc::waitpid(self.pid, &mut status, 0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(first: u64, other: u64, process: u64, changes: bool) -> FilterCheck {
        FilterCheck {
            of_first_thread: first,
            of_other_thread: other,
            of_other_process: process,
            changes_other_process: changes,
            calls: CALLS,
        }
    }

    #[test]
    fn a_filter_must_see_every_call_of_every_thread() {
        assert!(check(CALLS, CALLS, 0, false).sees_all_threads());
        assert!(!check(CALLS, 0, 0, false).sees_all_threads());
        assert!(!check(CALLS, CALLS - 1, 0, false).sees_all_threads());
        assert!(!check(0, 0, 0, false).sees_all_threads());
    }

    #[test]
    fn a_filter_must_neither_see_nor_change_another_process() {
        assert!(check(CALLS, CALLS, 0, false).spares_others());
        assert!(!check(CALLS, CALLS, 1, false).spares_others());
        assert!(!check(CALLS, CALLS, 0, true).spares_others());
    }

    #[test]
    fn a_child_waits_until_it_may_go_and_has_the_code_of_the_file() {
        let child = Child::fork().expect("a child");
        let probe = own_probe(ProbeClass::Pack, place, PROBE).expect("our own code");
        assert!(!child.has_breakpoint(&probe));
        let pid = child.pid;
        assert!(std::path::Path::new(&format!("/proc/{pid}")).exists());
        child.call_and_end();
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
}
