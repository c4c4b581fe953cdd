//! Registers → frames → the MPI call that a thread is in, and where its arguments are.

use std::collections::HashMap;
use std::time::Duration;

use analyzer::calls::{self, CallRow};
use analyzer::input::{CallInProgress, CodePlace, Mapping, MpiFacts, ThreadFacts, ThreadState};
use analyzer::pipeline::LastCall;
use analyzer::wire::FileId;

use super::image::Image;
use super::memory::{Sampled, Unhooked};
use super::registers::{RSP, Registers};
use super::thread::{SampleRunning, ThreadView};
use super::unwind::{Caller, UnwindError};
use crate::elf::{Held, Holder, MAX_ARGUMENTS};
use crate::host::gather::read_maps;
use crate::host::memory::{ProcessMemory, RemoteMemory};
use crate::host::processes::ProcessView;
use crate::mpi_runtime::{CallSources, RankIdentity, Worlds};

/// The kernel's own code in every process, by the name of its mapping. It has no file: number 0.
const VDSO: &str = "[vdso]";
/// Where calls return to whose returns are hooked.
const TRAMPOLINE: &str = "[uprobes]";
/// Frames of a stack at most.
const MOST_FRAMES: usize = 128;
/// How deep an MPI library's own frames are looked through.
const DEEPEST_BYTES: u64 = 16 << 10;
/// Samples of one thread at most.
const MOST_SAMPLES: u32 = 5;
/// How long to wait for a thread that can run to do so.
const PATIENCE: Duration = Duration::from_millis(40);

/// Reads stacks; keeps what it learnt of files.
pub struct StackReader {
    sample_running: SampleRunning,
    images: HashMap<FileId, Option<Image>>,
    held: HashMap<(FileId, u64, u64), Option<[Held; MAX_ARGUMENTS]>>,
    /// MPI calls by where they return to.
    called: HashMap<(FileId, u64), Option<String>>,
    worlds: Worlds,
}

/// A process whose threads are read.
struct SampledProcess {
    pid: u32,
    mappings: Vec<Mapping>,
    /// In MPI_COMM_WORLD, and that one's size.
    rank: Option<(u32, u32)>,
    memory: ProcessMemory,
    /// Of its threads, as they were recorded.
    last_calls: Vec<LastCall>,
}

/// A frame, and where its code is.
struct UnwoundFrame {
    registers: Registers,
    /// Its `pc` is where a call returns to.
    called: bool,
    /// Where `pc` is, and its address as the file counts them.
    place: Option<(CodePlace, u64)>,
    /// Where the return address to its caller lies.
    return_slot: Option<u64>,
    /// The MPI call that it is; and its entry's address, if its own code is running.
    call: Option<(Option<u64>, String)>,
}

impl StackReader {
    /// `sample_running`: how a thread that runs is caught.
    pub fn new(sample_running: SampleRunning) -> Self {
        Self {
            sample_running,
            images: HashMap::new(),
            held: HashMap::new(),
            called: HashMap::new(),
            worlds: Worlds::default(),
        }
    }

    /// What threads of one process are doing. Those that can run are waited for, a little.
    /// `last_calls`: the last MPI calls of threads, as they were recorded when they began.
    pub fn read(&mut self, pid: u32, threads: &[ThreadView], last_calls: &[LastCall]) -> Vec<ThreadFacts> {
        let Ok(mappings) = read_maps(pid) else { return Vec::new() };
        let rank = ProcessView::read(pid).ok().and_then(|view| view.rank.zip(view.size));
        let process = SampledProcess {
            pid,
            mappings,
            rank,
            memory: ProcessMemory::new(pid),
            last_calls: last_calls.to_vec(),
        };
        threads.iter().map(|thread| self.thread(&process, thread)).collect()
    }

    fn thread(&mut self, process: &SampledProcess, view: &ThreadView) -> ThreadFacts {
        let state = state(view.state);
        let (mut frames, error) = match state {
            ThreadState::Running => self.running(process, view),
            _ => self.frames(process, view.registers, &process.unhooked(view, &process.memory)),
        };
        let memory: &dyn RemoteMemory = &process.memory;
        // The outermost: what it calls itself is its own business.
        let outermost = (0..frames.len()).rev().find(|&at| self.is_mpi_call(&mut frames, at));
        ThreadFacts {
            pid: view.pid,
            tid: view.tid,
            state,
            ran_ns: view.ran_ns,
            call: outermost.and_then(|at| self.call(process, view, &frames, at, memory)),
            frames: frames.iter().filter_map(|frame| frame.place.map(|place| place.0)).collect(),
            cut: (error != UnwindError::Outermost).then(|| error.to_string()),
        }
    }

    /// Whether a frame is an MPI call: by its function, or by what its caller called, which may have handed
    /// on to another function at its end.
    fn is_mpi_call(&mut self, frames: &mut [UnwoundFrame], at: usize) -> bool {
        if frames[at].call.is_some() {
            return true;
        }
        let Some((CodePlace { file, .. }, vaddr)) =
            frames.get(at + 1).filter(|caller| caller.called).and_then(|c| c.place)
        else {
            return false;
        };
        let image = self.images.get(&file).and_then(Option::as_ref);
        let name = self.called.entry((file, vaddr)).or_insert_with(|| image?.called_before(vaddr));
        frames[at].call = name.clone().map(|name| (None, name));
        frames[at].call.is_some()
    }

    /// A thread that can run is sampled until its stack can be followed: now and then it is where no table tells how.
    fn running(&mut self, process: &SampledProcess, view: &ThreadView) -> (Vec<UnwoundFrame>, UnwindError) {
        for _ in 0..MOST_SAMPLES {
            let Some(sample) = (self.sample_running)(view.tid, PATIENCE) else { break };
            let start = sample.registers.get(RSP).unwrap_or(0);
            let memory = Sampled { start, bytes: &sample.stack, beyond: &process.memory };
            let (frames, error) = self.frames(process, sample.registers, &process.unhooked(view, &memory));
            if error == UnwindError::Outermost {
                return (frames, error);
            }
        }
        self.frames(process, view.registers, &process.unhooked(view, &process.memory))
    }

    fn frames(
        &mut self,
        process: &SampledProcess,
        innermost: Registers,
        memory: &dyn RemoteMemory,
    ) -> (Vec<UnwoundFrame>, UnwindError) {
        let mut frames = Vec::new();
        let (mut registers, mut called) = (innermost, false);
        loop {
            let mut frame = UnwoundFrame { registers, called, place: None, return_slot: None, call: None };
            let caller = self.caller(process, &mut frame, memory);
            frames.push(frame);
            match caller {
                // A stack that does not grow towards its begin is none.
                Ok(caller) if frames.len() < MOST_FRAMES && Some(caller.cfa) > registers.get(RSP) => {
                    called = !caller.interrupted;
                    registers = caller.registers;
                }
                Ok(_) => return (frames, UnwindError::Unknown),
                Err(error) => return (frames, error),
            }
        }
    }

    fn caller(
        &mut self,
        process: &SampledProcess,
        frame: &mut UnwoundFrame,
        memory: &dyn RemoteMemory,
    ) -> Result<Caller, UnwindError> {
        let pc = frame.registers.pc;
        let mapping =
            process.mapping(pc.wrapping_sub(u64::from(frame.called))).ok_or(UnwindError::NoTable)?;
        let image = self.image(process, mapping).ok_or(UnwindError::NoTable)?;
        let offset_bytes = pc - mapping.start + mapping.offset_bytes;
        let vaddr = image.vaddr_of(offset_bytes).ok_or(UnwindError::NoTable)?;
        frame.place = Some((CodePlace { file: mapping.file, offset_bytes }, vaddr));
        let bias = pc.wrapping_sub(vaddr);
        let (caller, function) = image.caller(bias, &frame.registers, frame.called, memory)?;
        frame.return_slot = Some(caller.cfa.wrapping_sub(8));
        frame.call = image.mpi_entry(function).map(|name| (Some(function), name.to_owned()));
        Ok(caller)
    }

    fn image(&mut self, process: &SampledProcess, mapping: &Mapping) -> Option<&Image> {
        let image = self.images.entry(mapping.file).or_insert_with(|| match mapping.name.as_str() {
            VDSO => process.memory.bytes(mapping.start, mapping.end).and_then(Image::from_bytes),
            _ => Image::of(process.pid, mapping),
        });
        image.as_ref()
    }

    fn call(
        &mut self,
        process: &SampledProcess,
        view: &ThreadView,
        frames: &[UnwoundFrame],
        at: usize,
        memory: &dyn RemoteMemory,
    ) -> Option<CallInProgress> {
        let frame = &frames[at];
        let (entry, function) = frame.call.clone()?;
        let (CodePlace { file, .. }, vaddr) = frame.place?;
        let return_slot = frame.return_slot?;
        let image = self.images.get(&file).and_then(Option::as_ref)?;
        let held = entry.and_then(|entry| {
            let held = self.held.entry((file, entry, vaddr));
            *held.or_insert_with(|| image.held_arguments(entry, vaddr))
        });
        let value = |holder: Holder| match holder {
            Holder::Register(number) => frame.registers.encoded(number),
            Holder::Stack(distance) => memory.word(return_slot.wrapping_add_signed(distance)),
        };
        let argument = |held: &Held| {
            let lower = || held.lower.and_then(value).map(|word| word & u64::from(u32::MAX));
            held.whole.and_then(value).or_else(lower)
        };
        let site = frames.get(at + 1).and_then(|caller| caller.place).map(|place| place.0);
        let used = calls::row(&function).map_or(0, CallRow::arguments_used).min(MAX_ARGUMENTS);
        let mut call = CallInProgress {
            function,
            mpi: self.mpi(process),
            site,
            return_slot,
            arguments: held.map_or_else(Vec::new, |held| held[..used].iter().map(argument).collect()),
            ..CallInProgress::default()
        };
        let inner = inner_words(&frames[..=at], return_slot, memory);
        let rank = RankIdentity { place: process.rank, mappings: &process.mappings, memory };
        let library = call.mpi.and_then(|mpi| self.worlds.library(rank, file, mpi, &inner));
        let sources = CallSources { tid: view.tid, last_calls: &process.last_calls, made: view.made, memory };
        sources.complete(&mut call, library.as_ref(), &inner);
        Some(call)
    }

    /// The kind of library, and where MPI_COMM_WORLD is.
    fn mpi(&mut self, process: &SampledProcess) -> Option<MpiFacts> {
        let mut found = None;
        let mut seen = Vec::new();
        // In the order of the linker: the program first.
        let program = std::fs::read_link(format!("/proc/{}/exe", process.pid)).unwrap_or_default();
        let is_program = |m: &Mapping| m.name.trim_end_matches(" (deleted)") == program.to_string_lossy();
        let code = || process.mappings.iter().filter(|m| m.exec && m.file.inode != 0);
        let ordered = code().filter(|m| is_program(m)).chain(code().filter(|m| !is_program(m)));
        for mapping in ordered {
            if seen.contains(&mapping.file) {
                continue;
            }
            seen.push(mapping.file);
            let Some(image) = self.image(process, mapping) else { continue };
            match image.mpi_facts(mapping.start.wrapping_sub(mapping.offset_bytes)) {
                Some(facts) if facts.comm_world.is_some() => return Some(facts),
                Some(facts) => found = Some(facts),
                None => {}
            }
        }
        found
    }
}

impl SampledProcess {
    /// Memory without the traces of hooked returns.
    fn unhooked<'a>(&self, view: &ThreadView, beyond: &'a dyn RemoteMemory) -> Unhooked<'a> {
        let trampoline = self.mappings.iter().find(|m| m.name == TRAMPOLINE).map_or(0..0, |m| m.start..m.end);
        Unhooked { hooked: view.hooked, trampoline, beyond }
    }

    fn mapping(&self, address: u64) -> Option<&Mapping> {
        let at = self.mappings.partition_point(|m| m.end <= address);
        self.mappings
            .get(at)
            .filter(|m| m.start <= address && m.exec && (m.file.inode != 0 || m.name == VDSO))
    }
}

/// Words that a call and what it calls have in registers and on the stack.
fn inner_words(frames: &[UnwoundFrame], return_slot: u64, memory: &dyn RemoteMemory) -> Vec<u64> {
    let registers = frames.iter().flat_map(|frame| (0..16).filter_map(|number| frame.registers.get(number)));
    let innermost = frames.first().and_then(|frame| frame.registers.get(RSP)).unwrap_or(return_slot);
    let begin = innermost.max(return_slot.saturating_sub(DEEPEST_BYTES)) & !7;
    let stack = (begin..return_slot).step_by(8).filter_map(|at| memory.word(at));
    let mut words: Vec<u64> = registers.chain(stack).collect();
    words.sort_unstable();
    words.dedup();
    words
}

/// From the kernel's `task_struct`.
fn state(state: u32) -> ThreadState {
    const UNINTERRUPTIBLE: u32 = 2;
    const STOPPED: u32 = 4;
    const TRACED: u32 = 8;
    const DEAD: u32 = 16 | 32 | 128;
    match state {
        // Who waits for the disk (for its own code, say) would go on otherwise: it waits for no other rank.
        0 | UNINTERRUPTIBLE => ThreadState::Running,
        state if state & DEAD != 0 => ThreadState::Ending,
        state if state & STOPPED != 0 => ThreadState::Stopped,
        state if state & TRACED != 0 => ThreadState::Traced,
        _ => ThreadState::Sleeping,
    }
}
