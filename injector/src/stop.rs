//! Stops all threads of a process for a moment, and has one of them make system calls.
//!
//! Whoever stopped them must let them go: the kernel does, when the thread that did it ends. So all this is done in a
//! thread of its own ([`while_stopped`]), also if it fails half way.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use libc::{c_int, c_long, c_void, pid_t, user_regs_struct};

use crate::InjectError;
use crate::maps::Area;
use crate::memory::WritableMemory;
use crate::stub::{STUB_BYTES, slot_of_first_entry, slot_of_stub};

/// A process that does not stop in this time is let go: its other threads wait meanwhile. A thread must be given a processor to
/// stop, which takes its time on a busy machine.
const PATIENCE: Duration = Duration::from_millis(700);
/// So often it is tried, with a pause: it may have waited for a child of vfork.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(100);
/// A system call of a stopped process takes so long at most.
const CALL_PATIENCE: Duration = Duration::from_secs(2);
const PERIOD: Duration = Duration::from_micros(30);

/// A process none of whose threads runs.
pub(crate) struct StoppedProcess {
    /// By id, each with its registers.
    threads: BTreeMap<pid_t, user_regs_struct>,
    /// Its memory, which may be written now even where it is restricted to those who trace it.
    pub memory: WritableMemory,
    pub pid: pid_t,
}

/// Stops the process, does something, and lets it go. Everything that the work wants of the process must be done when it
/// comes back.
///
/// # Errors
/// It cannot be stopped; or what the work says.
pub(crate) fn while_stopped<R: Send>(
    pid: pid_t,
    work: impl FnOnce(&mut StoppedProcess) -> Result<R, InjectError> + Send,
) -> Result<R, InjectError> {
    let mut work = Some(work);
    for _ in 1..TRIES {
        match try_while_stopped(pid, &mut work) {
            Err(InjectError::DoesNotStop) if work.is_some() => std::thread::sleep(PAUSE),
            done => return done,
        }
    }
    try_while_stopped(pid, &mut work)
}

/// The work is taken when the process stands still.
fn try_while_stopped<R: Send>(
    pid: pid_t,
    work: &mut Option<impl FnOnce(&mut StoppedProcess) -> Result<R, InjectError> + Send>,
) -> Result<R, InjectError> {
    std::thread::scope(|scope| {
        let stopped = move || {
            let mut process = StoppedProcess::stop(pid)?;
            let result = match work.take() {
                Some(work) => work(&mut process),
                None => Err(InjectError::DoesNotStop),
            };
            process.let_go();
            result
        };
        let thread = std::thread::Builder::new().name("dms-stop".into()).spawn_scoped(scope, stopped);
        let thread = thread.map_err(|source| InjectError::Refused { what: "a thread", source })?;
        thread.join().unwrap_or(Err(InjectError::Unknown("the thread that stops it failed")))
    })
}

impl StoppedProcess {
    fn stop(pid: pid_t) -> Result<Self, InjectError> {
        let memory = WritableMemory::open(pid);
        let memory = memory.map_err(|source| InjectError::of("its memory", source))?;
        let mut process = Self { threads: BTreeMap::new(), memory, pid };
        let limit = Instant::now() + PATIENCE;
        // Those that are not stopped yet may make others.
        while process.stop_new_threads(limit)? {}
        match process.threads.is_empty() {
            true => Err(InjectError::Ended),
            false => Ok(process),
        }
    }

    /// Stops the threads that were not there before; false if there are none.
    fn stop_new_threads(&mut self, limit: Instant) -> Result<bool, InjectError> {
        let mut seized = Vec::new();
        for thread in thread_ids(self.pid)?.into_iter().filter(|id| !self.threads.contains_key(id)) {
            match ptrace(libc::PTRACE_SEIZE, thread, 0, libc::PTRACE_O_TRACESYSGOOD as usize) {
                Ok(_) => seized.push(thread),
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => return Err(InjectError::of("tracing it", error)),
            }
        }
        for &thread in &seized {
            // One that has just ended needs no stopping.
            let _ = ptrace(libc::PTRACE_INTERRUPT, thread, 0, 0);
        }
        for &thread in &seized {
            if wait_for_stop(thread, limit)? {
                let registers = registers(thread)?;
                self.threads.insert(thread, registers);
            }
        }
        Ok(!seized.is_empty())
    }

    /// Threads, and where each one's thread pointer is.
    pub(crate) fn thread_pointers(&self) -> impl Iterator<Item = (pid_t, u64)> {
        self.threads.iter().map(|(id, registers)| (*id, registers.fs_base))
    }

    /// Where its threads go on.
    pub(crate) fn places(&self) -> impl Iterator<Item = u64> {
        self.threads.values().map(|registers| registers.rip)
    }

    /// Whether code at an address is about to jump into the linker.
    pub(crate) fn calls_linker(&self, address: u64, is_linker: impl Fn(u64) -> bool) -> bool {
        let mut code = [0; STUB_BYTES];
        let slot = self.memory.read(address, &mut code).ok();
        let slot = slot.and_then(|()| slot_of_stub(&code, address).or(slot_of_first_entry(&code, address)));
        slot.and_then(|slot| self.memory.word(slot).ok()).is_some_and(is_linker)
    }

    /// Has threads that are about to jump through a slot jump at once to where that led; `targets`: by slot.
    pub(crate) fn leave_stubs(&mut self, targets: &BTreeMap<u64, u64>) -> Result<(), InjectError> {
        for (&thread, registers) in &mut self.threads {
            let mut code = [0; STUB_BYTES];
            if self.memory.read(registers.rip, &mut code).is_ok()
                && let Some(target) = slot_of_stub(&code, registers.rip).and_then(|slot| targets.get(&slot))
            {
                registers.rip = *target;
                set_registers(thread, registers)?;
            }
        }
        Ok(())
    }

    /// Makes system calls in one of its threads. The registers are as before afterwards.
    pub(crate) fn calls<R>(
        &mut self,
        areas: &[Area],
        work: impl FnOnce(&mut RemoteCalls<'_>) -> Result<R, InjectError>,
    ) -> Result<R, InjectError> {
        let at = self.find_system_call(areas)?;
        let (&thread, &saved) = self.threads.first_key_value().ok_or(InjectError::Ended)?;
        let mask = signal_mask(thread)?;
        // Else a handler would run with our registers.
        set_signal_mask(thread, !0)?;
        let result = work(&mut RemoteCalls { thread, saved, at, memory: &self.memory });
        let restored = stop_again(thread)
            .and_then(|()| set_registers(thread, &saved))
            .and_then(|()| set_signal_mask(thread, mask));
        result.and_then(|result| restored.map(|()| result))
    }

    /// An instruction for system calls in its code.
    fn find_system_call(&self, areas: &[Area]) -> Result<u64, InjectError> {
        const SYSCALL: [u8; 2] = [0x0f, 0x05];
        const MOST_BYTES: u64 = 4 << 20;
        let mut code: Vec<&Area> = areas.iter().filter(|area| area.is_code && !area.is_writable).collect();
        // The kernel's own page first: it is small and always there.
        code.sort_by_key(|area| (area.name != "[vdso]", area.start));
        for area in code.into_iter().filter(|area| area.name != "[vsyscall]") {
            let mut bytes = vec![0; (area.end - area.start).min(MOST_BYTES) as usize];
            if self.memory.read(area.start, &mut bytes).is_ok()
                && let Some(at) = bytes.windows(2).position(|two| two == SYSCALL)
            {
                return Ok(area.start + at as u64);
            }
        }
        Err(InjectError::Unknown("it has no code that makes system calls"))
    }

    /// Lets all threads go on.
    fn let_go(self) {
        for (&thread, registers) in &self.threads {
            resume_interrupted_wait(thread, registers);
            let _ = ptrace(libc::PTRACE_DETACH, thread, 0, 0);
        }
    }
}

/// Some system calls end with EINTR when their thread was stopped, though no signal came. They are made again: a program that
/// handles no signals need not expect that.
fn resume_interrupted_wait(thread: pid_t, registers: &user_regs_struct) {
    const WAITS: [c_long; 8] = [
        libc::SYS_epoll_wait,
        libc::SYS_epoll_pwait,
        libc::SYS_epoll_pwait2,
        libc::SYS_semop,
        libc::SYS_semtimedop,
        libc::SYS_rt_sigtimedwait,
        libc::SYS_io_getevents,
        libc::SYS_msgrcv,
    ];
    let was_interrupted = registers.rax.cast_signed() == -i64::from(libc::EINTR);
    let call = registers.orig_rax.cast_signed();
    if !was_interrupted || !WAITS.contains(&call) || has_pending_signals(thread) {
        return;
    }
    let mut again = *registers;
    again.rax = registers.orig_rax;
    again.orig_rax = u64::MAX;
    again.rip = registers.rip.wrapping_sub(2);
    let _ = set_registers(thread, &again);
}

/// Whether signals wait for a thread that it does not block; if that is not known, they do.
fn has_pending_signals(thread: pid_t) -> bool {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{thread}/status")) else { return true };
    let set = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(0)
    };
    (set("SigPnd") | set("ShdPnd")) & !set("SigBlk") != 0
}

/// Makes system calls in a stopped thread.
pub(crate) struct RemoteCalls<'m> {
    thread: pid_t,
    saved: user_regs_struct,
    at: u64,
    pub memory: &'m WritableMemory,
}

impl RemoteCalls<'_> {
    /// One system call; what it answers.
    ///
    /// # Errors
    /// The kernel's refusal of the call, as `what`; or the process is gone.
    pub(crate) fn call(
        &mut self,
        what: &'static str,
        number: c_long,
        arguments: [u64; 6],
    ) -> Result<u64, InjectError> {
        let [rdi, rsi, rdx, r10, r8, r9] = arguments;
        let rax = number.cast_unsigned();
        // Without a system call of its own that the kernel would begin again.
        let orig_rax = u64::MAX;
        let registers =
            user_regs_struct { rax, orig_rax, rip: self.at, rdi, rsi, rdx, r10, r8, r9, ..self.saved };
        set_registers(self.thread, &registers)?;
        // To its beginning, and to its end. Steps would do as well, but they are signals, which the process may handle.
        for _ in 0..2 {
            ptrace(libc::PTRACE_SYSCALL, self.thread, 0, 0)
                .map_err(|e| InjectError::of("a system call of it", e))?;
            wait_for_system_call(self.thread)?;
        }
        let after = crate::stop::registers(self.thread)?;
        if after.rip != self.at + 2 {
            return Err(InjectError::Unknown("its system call went elsewhere"));
        }
        match after.rax.cast_signed() {
            error @ -4095..=-1 => {
                Err(InjectError::Refused { what, source: std::io::Error::from_raw_os_error(-error as i32) })
            }
            _ => Ok(after.rax),
        }
    }
}

fn thread_ids(pid: pid_t) -> Result<Vec<pid_t>, InjectError> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task"));
    let entries = entries.map_err(|_| InjectError::Ended)?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

fn ptrace(request: libc::c_uint, thread: pid_t, address: usize, data: usize) -> std::io::Result<c_long> {
    // SAFETY: requests that read or write memory of ours go through functions below, which own what they point to.
    let answer = unsafe { libc::ptrace(request, thread, address as *mut c_void, data as *mut c_void) };
    if answer < 0 { Err(std::io::Error::last_os_error()) } else { Ok(answer) }
}

fn registers(thread: pid_t) -> Result<user_regs_struct, InjectError> {
    let mut registers = MaybeUninit::<user_regs_struct>::zeroed();
    ptrace(libc::PTRACE_GETREGS, thread, 0, registers.as_mut_ptr() as usize)
        .map_err(|e| InjectError::of("its registers", e))?;
    // SAFETY: all zeros are a value of this structure of numbers, and the kernel has filled it.
    Ok(unsafe { registers.assume_init() })
}

fn set_registers(thread: pid_t, registers: &user_regs_struct) -> Result<(), InjectError> {
    let at = std::ptr::from_ref(registers) as usize;
    ptrace(libc::PTRACE_SETREGS, thread, 0, at).map(drop).map_err(|e| InjectError::of("its registers", e))
}

fn signal_mask(thread: pid_t) -> Result<u64, InjectError> {
    let mut mask = 0_u64;
    ptrace(libc::PTRACE_GETSIGMASK, thread, 8, (&raw mut mask) as usize)
        .map_err(|e| InjectError::of("its signals", e))?;
    Ok(mask)
}

fn set_signal_mask(thread: pid_t, mask: u64) -> Result<(), InjectError> {
    ptrace(libc::PTRACE_SETSIGMASK, thread, 8, (&raw const mask) as usize)
        .map(drop)
        .map_err(|e| InjectError::of("its signals", e))
}

/// What a thread reports next; `None`: it has ended.
fn wait(thread: pid_t, limit: Instant) -> Result<Option<c_int>, InjectError> {
    loop {
        let mut status = 0;
        // SAFETY: the status is ours.
        let waited = unsafe { libc::waitpid(thread, &raw mut status, libc::__WALL | libc::WNOHANG) };
        if waited == thread {
            return Ok(libc::WIFSTOPPED(status).then_some(status));
        }
        if waited < 0 {
            return Ok(None);
        }
        if Instant::now() >= limit {
            return Err(InjectError::DoesNotStop);
        }
        std::thread::sleep(PERIOD);
    }
}

/// Waits until a thread that was asked to stop has; false: it has ended. Signals that come first are delivered first.
fn wait_for_stop(thread: pid_t, limit: Instant) -> Result<bool, InjectError> {
    while let Some(status) = wait(thread, limit)? {
        let signal = libc::WSTOPSIG(status);
        match status >> 16 {
            libc::PTRACE_EVENT_STOP if signal == libc::SIGTRAP => return Ok(true),
            // By a signal for that, as by control-z.
            libc::PTRACE_EVENT_STOP => return Err(InjectError::Stopped),
            _ => ptrace(libc::PTRACE_CONT, thread, 0, signal as usize)
                .map(drop)
                .map_err(|e| InjectError::of("a signal for it", e))?,
        }
    }
    Ok(false)
}

/// Stops a thread that is at the end of a system call where it was stopped before: where the kernel looks whether the system
/// call that it was in then is to begin again.
fn stop_again(thread: pid_t) -> Result<(), InjectError> {
    let refused = |error| InjectError::of("stopping it again", error);
    ptrace(libc::PTRACE_INTERRUPT, thread, 0, 0).map_err(refused)?;
    ptrace(libc::PTRACE_CONT, thread, 0, 0).map_err(refused)?;
    match wait_for_stop(thread, Instant::now() + CALL_PATIENCE)? {
        true => Ok(()),
        false => Err(InjectError::Ended),
    }
}

fn wait_for_system_call(thread: pid_t) -> Result<(), InjectError> {
    match wait(thread, Instant::now() + CALL_PATIENCE)? {
        Some(status) if libc::WSTOPSIG(status) == libc::SIGTRAP | 0x80 => Ok(()),
        Some(_) => Err(InjectError::Unknown("something came in between")),
        None => Err(InjectError::Ended),
    }
}
