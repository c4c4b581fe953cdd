//! Putting hooks into a process, and taking them out again.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use libc::pid_t;
use serde::{Deserialize, Serialize};

use crate::InjectError;
use crate::code::{CodeFacts, HookKind, SlotHook, build, code_bytes, entries};
use crate::layout::{HEADERS_AT, PAGE_BYTES, RING_RECORD_BYTES, RINGS_AT, ring_bytes, shared_bytes};
use crate::maps::{Area, areas};
use crate::memory::WritableMemory;
use crate::shared::{RecordedPart, SharedRings};
use crate::stop::{RemoteCalls, StoppedProcess, while_stopped};

/// Where glibc keeps a thread's id, from the thread pointer; it is looked at whether it is there.
const THREAD_ID_OFFSET: u64 = 0x2d0;
/// The kernel keeps so much below the first thread's stack free of other mappings.
const MAIN_STACK_BYTES: u64 = 8 << 20;

/// What is to be put into a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HookRequest {
    /// The process.
    pub pid: u32,
    /// Its hooks.
    pub hooks: Vec<SlotHook>,
    /// Size of a thread's ring; it is rounded up.
    pub ring_bytes: usize,
}

/// What was put into a process, and how it is taken out.
#[derive(Debug)]
pub struct Installation {
    pid: pid_t,
    /// Slots, each with what it was and what it is now.
    slots: Vec<(u64, u64, u64)>,
    places: MappedPlaces,
    /// The shared memory, to give back what lies in it.
    file: File,
}

/// What became of slots that were to lead where they had led before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakeOut {
    /// They do now.
    pub restored: usize,
    /// Something else was there, which stays.
    pub changed: usize,
}

/// Where things of ours are in a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappedPlaces {
    /// Where it keeps its notes of calls: as many of them as there are rings ([`MAX_RINGS`](crate::MAX_RINGS)).
    pub notes: u64,
    /// Its first thread's stack, from the lowest address to the highest.
    pub main_stack: (u64, u64),
}

/// So often it is looked whether threads have left the dynamic linker, with a pause each time.
const LINKER_TRIES: u32 = 50;
const LINKER_PAUSE: Duration = Duration::from_millis(4);

/// Puts hooks into a process. Nothing is recorded until [`Switch::record_until`](crate::Switch::record_until) says so. If it fails, calls go where they went
/// before, and what is left are mappings that nobody uses.
///
/// `ready` is called when all is there but for the slots, while the process stands still: from when it comes back calls
/// that have not passed their slots yet are seen by the hooks, and no others. If it fails, slots stay as they are.
///
/// # Errors
/// What the kernel or the process does not allow; or what `ready` says.
pub fn install(
    request: &HookRequest,
    mut ready: impl FnMut(&Installation) -> Result<(), InjectError> + Send,
) -> Result<Installation, InjectError> {
    let pid = pid_t::try_from(request.pid).map_err(|_| InjectError::Ended)?;
    let mut tries = 1..LINKER_TRIES;
    loop {
        match while_stopped(pid, |process| install_stopped(process, request, &mut ready)) {
            Err(InjectError::Linking) if tries.next().is_some() => std::thread::sleep(LINKER_PAUSE),
            done => return done,
        }
    }
}

fn install_stopped(
    process: &mut StoppedProcess,
    request: &HookRequest,
    ready: &mut (impl FnMut(&Installation) -> Result<(), InjectError> + Send),
) -> Result<Installation, InjectError> {
    let pid = process.pid;
    let ring_bytes = ring_bytes(request.ring_bytes);
    let areas = areas(pid).map_err(|source| InjectError::of("its mappings", source))?;
    check_thread_ids(process)?;
    // The linker would write over a slot that it is looking for just now.
    let is_linker = |at: u64| areas.iter().any(|area| area.is_linker() && area.contains(at));
    let is_on_its_way = |at: u64| request.hooks.iter().any(|hook| hook.is_unbound_at(at));
    let is_linking = |at| is_linker(at) || is_on_its_way(at) || process.calls_linker(at, is_linker);
    if process.places().any(is_linking) {
        return Err(InjectError::Linking);
    }
    check_slots(process, request, &areas)?;
    let hooks: Vec<SlotHook> =
        request.hooks.iter().filter(|hook| can_be_passed(process, hook)).copied().collect();
    let code_len = code_bytes(&hooks);
    let shared_len = shared_bytes(ring_bytes) as u64;
    let (mapped, file) = process.calls(&areas, |calls| map_all(calls, pid, code_len, shared_len))?;
    SharedRings::open(&file, request.ring_bytes)?.lay_out(mapped.shared);
    let main_stack = main_stack(&areas);
    let facts = CodeFacts {
        guard: mapped.guard,
        shared: mapped.shared,
        shared_bytes: shared_len,
        thread_id_offset: THREAD_ID_OFFSET,
        process: request.pid,
        main_stack,
        program: program_data(pid, &areas),
        program_code: program_code(pid, &areas),
        ring_records: (ring_bytes / RING_RECORD_BYTES) as u64,
    };
    let write = |at, bytes: &[u8]| {
        process.memory.write(at, bytes).map_err(|source| InjectError::of("writing its memory", source))
    };
    write(mapped.code, &build(&hooks, mapped.code, &facts))?;
    write(mapped.guard, &1_u64.to_le_bytes())?;
    let entries = entries(&hooks, mapped.code);
    let places = MappedPlaces { notes: mapped.shared.saturating_add(HEADERS_AT as u64), main_stack };
    let mut installation = Installation { pid, slots: Vec::new(), places, file };
    ready(&installation)?;
    for (hook, entry) in hooks.iter().zip(entries) {
        if let Err(error) = write(hook.slot, &entry.to_le_bytes()) {
            installation.restore(&process.memory);
            return Err(error);
        }
        installation.slots.push((hook.slot, hook.original, entry));
    }
    // A call whose place a probe of the kernel has just seen is recorded: it must not be once more.
    let recorded = hooks.iter().filter(|hook| hook.kind == HookKind::Record);
    if let Err(error) = process.leave_stubs(&recorded.map(|hook| (hook.slot, hook.target)).collect()) {
        installation.restore(&process.memory);
        return Err(error);
    }
    Ok(installation)
}

/// Allocators whose beginning somebody has changed stay with the kernel.
fn can_be_passed(process: &StoppedProcess, hook: &SlotHook) -> bool {
    match hook.kind {
        HookKind::Heap(heap) => heap.entry.is_at(&process.memory, hook.target),
        _ => true,
    }
}

/// Slots hold what they were found to hold, or what they were bound to since; or code of ours that was left there.
fn check_slots(process: &StoppedProcess, request: &HookRequest, areas: &[Area]) -> Result<(), InjectError> {
    let is_ours =
        |value| areas.iter().any(|area| area.is_code && area.name.is_empty() && area.contains(value));
    let is_known = |hook: &SlotHook| {
        let is_known = |value| value == hook.original || value == hook.target || is_ours(value);
        process.memory.word(hook.slot).is_ok_and(is_known)
    };
    let are_known = request.hooks.iter().all(is_known);
    are_known.then_some(()).ok_or(InjectError::Unknown("its slots have changed since they were looked at"))
}

/// Each thread's id is where the code will look for it.
fn check_thread_ids(process: &StoppedProcess) -> Result<(), InjectError> {
    let is_there = |(thread, pointer): (pid_t, u64)| {
        let id = process.memory.half(pointer.wrapping_add(THREAD_ID_OFFSET));
        id.is_ok_and(|id| id == thread.cast_unsigned())
    };
    let all = process.thread_pointers().all(is_there);
    all.then_some(()).ok_or(InjectError::Unknown("its C library keeps thread ids elsewhere than glibc does"))
}

fn main_stack(areas: &[Area]) -> (u64, u64) {
    let stack = areas.iter().find(|area| area.name == "[stack]");
    stack.map_or((0, 0), |stack| (stack.end.saturating_sub(MAIN_STACK_BYTES), stack.end))
}

/// Writable memory of the program's file, up to where other memory begins: nobody takes it away while the program runs.
fn program_data(pid: pid_t, areas: &[Area]) -> (u64, u64) {
    let program = program(pid);
    let is_data = |area: &&Area| area.is_writable && area.name == program;
    let Some(data) = areas.iter().find(is_data) else { return (0, 0) };
    // What is zero at the beginning follows, without a file.
    let is_rest = |area: &&Area| area.start == data.end && area.is_writable && area.name.is_empty();
    (data.start, areas.iter().find(is_rest).map_or(data.end, |rest| rest.end))
}

/// From where to where the program's own code is.
fn program_code(pid: pid_t, areas: &[Area]) -> (u64, u64) {
    let program = program(pid);
    let code = || areas.iter().filter(|area| area.is_code && area.name == program);
    let (low, high) = (code().map(|area| area.start).min(), code().map(|area| area.end).max());
    low.zip(high).unwrap_or((0, 0))
}

fn program(pid: pid_t) -> String {
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    program.to_string_lossy().into_owned()
}

/// Addresses in the process.
struct Mapped {
    code: u64,
    guard: u64,
    shared: u64,
}

/// Maps everything, and opens the shared memory for us.
fn map_all(
    calls: &mut RemoteCalls<'_>,
    pid: pid_t,
    code_len: u64,
    shared_len: u64,
) -> Result<(Mapped, File), InjectError> {
    const NAME: &[u8] = b"dmscope\0";
    let read = libc::PROT_READ as u64;
    let (write, execute) = (libc::PROT_WRITE as u64, libc::PROT_EXEC as u64);
    let anonymous = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    let nothing = u64::MAX;
    let map = |calls: &mut RemoteCalls<'_>, what, len, rights, flags, file| {
        calls.call(what, libc::SYS_mmap, [0, len, rights, flags, file, 0])
    };
    let code = map(calls, "code", code_len, read | execute, anonymous, nothing)?;
    let guard = map(calls, "a page", PAGE_BYTES, read, anonymous, nothing)?;
    calls.call("madvise", libc::SYS_madvise, [guard, PAGE_BYTES, libc::MADV_WIPEONFORK as u64, 0, 0, 0])?;
    // The name must be in its memory, where the code will be.
    let named = calls.memory.write(code, NAME);
    named.map_err(|source| InjectError::of("writing its memory", source))?;
    let fd =
        calls.call("memfd_create", libc::SYS_memfd_create, [code, libc::MFD_CLOEXEC.into(), 0, 0, 0, 0])?;
    let shared = open_memory(pid, fd, shared_len).and_then(|file| {
        let shared = map(calls, "shared memory", shared_len, read | write, libc::MAP_SHARED as u64, fd)?;
        Ok((shared, file))
    });
    // Whatever came of it: the process has one descriptor less than it thinks meanwhile.
    calls.call("close", libc::SYS_close, [fd, 0, 0, 0, 0, 0])?;
    let (shared, file) = shared?;
    calls.call("madvise", libc::SYS_madvise, [shared, shared_len, libc::MADV_DONTFORK as u64, 0, 0, 0])?;
    Ok((Mapped { code, guard, shared }, file))
}

/// Opens what a descriptor of the process is open on, and gives it its size.
fn open_memory(pid: pid_t, fd: u64, bytes: u64) -> Result<File, InjectError> {
    let opened = File::options().read(true).write(true).open(format!("/proc/{pid}/fd/{fd}"));
    let file = opened.map_err(|source| InjectError::of("opening its shared memory", source))?;
    file.set_len(bytes).map_err(|source| InjectError::of("the size of its shared memory", source))?;
    Ok(file)
}

impl Installation {
    /// The memory that the process shares: see [`SharedRings::open`].
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Where things are in the process.
    pub fn places(&self) -> MappedPlaces {
        self.places
    }

    /// The slots, each with what it is as long as nobody changes it.
    pub fn slots(&self) -> impl Iterator<Item = (u64, u64)> {
        self.slots.iter().map(|(slot, _, entry)| (*slot, *entry))
    }

    /// Has slots lead where they led before. Code and pages stay for threads that are in them; their memory is given back.
    ///
    /// # Errors
    /// The process cannot be stopped.
    pub fn take_out(&self) -> Result<TakeOut, InjectError> {
        self.stop_recording();
        let taken = while_stopped(self.pid, |process| Ok(self.restore(&process.memory)));
        self.give_memory_back();
        taken
    }

    fn restore(&self, memory: &WritableMemory) -> TakeOut {
        let mut done = TakeOut::default();
        for (slot, original, entry) in &self.slots {
            let is_ours = memory.word(*slot).is_ok_and(|value| value == *entry);
            match is_ours && memory.write(*slot, &original.to_le_bytes()).is_ok() {
                true => done.restored += 1,
                false => done.changed += 1,
            }
        }
        done
    }

    /// As if nobody had been reading for long. If it cannot be said, they find out.
    fn stop_recording(&self) {
        for part in RecordedPart::ALL {
            let _ = self.file.write_all_at(&0_u64.to_le_bytes(), part.deadline() as u64);
        }
    }

    /// Rings become zeros again, which take no memory: the mapping stays.
    fn give_memory_back(&self) {
        let Ok(length) = self.file.metadata().map(|facts| facts.len()) else { return };
        let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let (from, bytes) = (RINGS_AT as i64, length.saturating_sub(RINGS_AT as u64).cast_signed());
        // SAFETY: a descriptor of ours; nothing in our memory is touched.
        unsafe { libc::fallocate(self.file.as_raw_fd(), how, from, bytes) };
    }
}
