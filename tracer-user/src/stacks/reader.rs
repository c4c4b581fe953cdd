//! Registers → frames → the MPI call that a thread is in, and where its arguments are.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io;

use analyzer::calls::{self, CallRow};
use analyzer::input::{CallInProgress, CodePlace, Mapping, MpiFacts, ThreadFacts, ThreadState};
use analyzer::wire::FileId;

use super::image::Image;
use super::memory::{Sampled, Unhooked};
use super::registers::{RSP, Registers};
use super::thread::{RunningSample, SampledProcess, Surroundings, ThreadView};
use super::unwind::{Caller, UnwindError};
use crate::elf::{Held, Holder, MAX_ARGUMENTS, PassedArgument, PassedFrom, REGISTER_ARGUMENTS};
use crate::host::memory::{ProcessMemory, RemoteMemory};
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
pub(super) const MOST_SAMPLES: usize = 5;
/// Files that are known at a time.
pub(super) const MOST_FILES: usize = 256;
/// What is kept of them in memory.
const MOST_HELD_BYTES: u64 = 384 << 20;

/// Reads stacks; keeps what it learnt of files.
#[derive(Default)]
pub struct StackReader {
    images: HashMap<FileId, Option<Image>>,
    held: HashMap<(FileId, u64, u64), Option<[Held; MAX_ARGUMENTS]>>,
    /// What calls were given, by where they return to and what they are.
    passed: HashMap<(FileId, u64, String), PassedArguments>,
    /// MPI calls by where they return to.
    called: HashMap<(FileId, u64), Option<String>>,
    worlds: Worlds,
}

type PassedArguments = Option<[Option<PassedArgument>; REGISTER_ARGUMENTS]>;

/// A process while its threads are read.
struct Reading<'a> {
    process: &'a SampledProcess,
    memory: ProcessMemory,
    surroundings: RefCell<&'a mut dyn Surroundings>,
    /// Nobody answers any more.
    failed: RefCell<Option<io::Error>>,
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
    /// What threads of a process are doing. Those that can run are waited for, a little.
    ///
    /// # Errors
    /// What it asks its surroundings for is not answered.
    pub fn read(
        &mut self,
        process: &SampledProcess,
        memory: ProcessMemory,
        surroundings: &mut dyn Surroundings,
    ) -> io::Result<Vec<ThreadFacts>> {
        self.forget_files(&process.mappings);
        let (surroundings, failed) = (RefCell::new(surroundings), RefCell::default());
        let reading = Reading { process, memory, surroundings, failed };
        let threads = process.threads.iter().map(|thread| self.thread(&reading, thread)).collect();
        reading.failed.into_inner().map_or(Ok(threads), Err)
    }

    /// Forgets what was read of files that were written since, and of those that are not of this process if there are many.
    fn forget_files(&mut self, mappings: &[Mapping]) {
        let is_mapped = |file: FileId| mappings.iter().any(|mapping| mapping.file == file);
        let many = self.images.len() > MOST_FILES / 2 || self.held_bytes() > MOST_HELD_BYTES / 2;
        let stays = |file: &FileId, image: &mut Option<Image>| {
            !image.as_ref().is_some_and(Image::may_have_changed) && (!many || is_mapped(*file))
        };
        self.images.retain(stays);
        let images = &self.images;
        self.held.retain(|(file, ..), _| images.contains_key(file));
        self.passed.retain(|(file, ..), _| images.contains_key(file));
        self.called.retain(|(file, _), _| images.contains_key(file));
    }

    fn held_bytes(&self) -> u64 {
        self.images.values().flatten().map(Image::held_bytes).fold(0, u64::saturating_add)
    }

    fn thread(&mut self, reading: &Reading<'_>, view: &ThreadView) -> ThreadFacts {
        let state = state(view.state);
        let (mut frames, error) = match state {
            ThreadState::Running => self.running(reading, view),
            _ => self.frames(reading, view.registers, &reading.unhooked(view, &reading.memory)),
        };
        let memory: &dyn RemoteMemory = &reading.memory;
        // The outermost: what it calls itself is its own business.
        let outermost = (0..frames.len()).rev().find(|&at| self.is_mpi_call(&mut frames, at));
        ThreadFacts {
            pid: view.pid,
            tid: view.tid,
            state,
            ran_ns: view.ran_ns,
            call: outermost.and_then(|at| self.call(reading, view, &frames, at, memory)),
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
    fn running(&mut self, reading: &Reading<'_>, view: &ThreadView) -> (Vec<UnwoundFrame>, UnwindError) {
        for _ in 0..MOST_SAMPLES {
            let Some(sample) = reading.sample(view.tid) else { break };
            let start = sample.registers.get(RSP).unwrap_or(0);
            let memory = Sampled { start, bytes: &sample.stack, beyond: &reading.memory };
            let (frames, error) = self.frames(reading, sample.registers, &reading.unhooked(view, &memory));
            if error == UnwindError::Outermost {
                return (frames, error);
            }
        }
        self.frames(reading, view.registers, &reading.unhooked(view, &reading.memory))
    }

    fn frames(
        &mut self,
        reading: &Reading<'_>,
        innermost: Registers,
        memory: &dyn RemoteMemory,
    ) -> (Vec<UnwoundFrame>, UnwindError) {
        let mut frames = Vec::new();
        let (mut registers, mut called) = (innermost, false);
        loop {
            let mut frame = UnwoundFrame { registers, called, place: None, return_slot: None, call: None };
            let caller = self.caller(reading, &mut frame, memory);
            frames.push(frame);
            match caller {
                // A stack that does not grow towards its begin is none.
                Ok(caller) if frames.len() < MOST_FRAMES && Some(caller.cfa) > registers.get(RSP) => {
                    called = !caller.interrupted;
                    registers = caller.registers;
                }
                Ok(_) => return (frames, UnwindError::Unknown),
                // Nobody calls the innermost function from nowhere: its stack was read when the thread had gone on.
                Err(UnwindError::Outermost) if frames.len() == 1 => return (frames, UnwindError::Unknown),
                Err(error) => return (frames, error),
            }
        }
    }

    fn caller(
        &mut self,
        reading: &Reading<'_>,
        frame: &mut UnwoundFrame,
        memory: &dyn RemoteMemory,
    ) -> Result<Caller, UnwindError> {
        let pc = frame.registers.pc;
        let mapping =
            reading.mapping(pc.wrapping_sub(u64::from(frame.called))).ok_or(UnwindError::NoTable)?;
        let image = self.image(reading, mapping).ok_or(UnwindError::NoTable)?;
        let offset_bytes = pc - mapping.start + mapping.offset_bytes;
        let vaddr = image.vaddr_of(offset_bytes).ok_or(UnwindError::NoTable)?;
        frame.place = Some((CodePlace { file: mapping.file, offset_bytes }, vaddr));
        let bias = pc.wrapping_sub(vaddr);
        let (caller, function) = image.caller(bias, &frame.registers, frame.called, memory)?;
        frame.return_slot = Some(caller.cfa.wrapping_sub(8));
        frame.call = image.mpi_entry(function).map(|name| (Some(function), name.to_owned()));
        Ok(caller)
    }

    fn image(&mut self, reading: &Reading<'_>, mapping: &Mapping) -> Option<&Image> {
        if !self.images.contains_key(&mapping.file) {
            let held_bytes = self.held_bytes();
            let image = match mapping.name.as_str() {
                _ if self.images.len() >= MOST_FILES => return None,
                VDSO => vdso(reading, mapping),
                _ => reading.file(mapping).and_then(Image::of),
            };
            if image.as_ref().is_some_and(|image| held_bytes + image.held_bytes() > MOST_HELD_BYTES) {
                return None;
            }
            self.images.insert(mapping.file, image);
        }
        self.images.get(&mapping.file).and_then(Option::as_ref)
    }

    fn call(
        &mut self,
        reading: &Reading<'_>,
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
            mpi: self.mpi(reading),
            site,
            return_slot,
            arguments: held.map_or_else(Vec::new, |held| held[..used].iter().map(argument).collect()),
            ..CallInProgress::default()
        };
        let passed =
            frames.get(at + 1).map_or_else(Vec::new, |caller| self.passed(caller, &call.function, memory));
        let inner = inner_words(&frames[..=at], return_slot, memory);
        let rank = RankIdentity { place: reading.process.rank, mappings: &reading.process.mappings, memory };
        let library = call.mpi.and_then(|mpi| self.worlds.library(rank, file, mpi, &inner));
        let last_calls = &reading.process.last_calls;
        let sources = CallSources { tid: view.tid, last_calls, passed: &passed, made: view.made, memory };
        sources.complete(&mut call, library.as_ref(), &inner);
        Some(call)
    }

    /// What a frame gave to the MPI call that it is in, as far as its code and registers still tell.
    fn passed(
        &mut self,
        caller: &UnwoundFrame,
        function: &str,
        memory: &dyn RemoteMemory,
    ) -> Vec<Option<u64>> {
        let Some((CodePlace { file, .. }, vaddr)) = caller.place.filter(|_| caller.called) else {
            return Vec::new();
        };
        let Some(image) = self.images.get(&file).and_then(Option::as_ref) else { return Vec::new() };
        let passed = self.passed.entry((file, vaddr, function.to_owned()));
        let passed = *passed.or_insert_with(|| image.passed_arguments(function, vaddr));
        let bias = caller.registers.pc.wrapping_sub(vaddr);
        let value = |argument: PassedArgument| {
            let base = match argument.from {
                PassedFrom::Constant => 0,
                PassedFrom::File => bias,
                PassedFrom::Register(number) => caller.registers.encoded(number)?,
            };
            let place = base.wrapping_add(argument.distance);
            let whole = match argument.read_bytes {
                None => place,
                Some(4) => memory.half(place)?.into(),
                Some(_) => memory.word(place)?,
            };
            Some(if argument.lower { whole & u64::from(u32::MAX) } else { whole })
        };
        passed.map_or_else(Vec::new, |passed| passed.map(|argument| argument.and_then(value)).to_vec())
    }

    /// The kind of library, and where MPI_COMM_WORLD is.
    fn mpi(&mut self, reading: &Reading<'_>) -> Option<MpiFacts> {
        let mut found = None;
        let mut seen = Vec::new();
        // In the order of the linker: the program first.
        let program = reading.process.program.trim_end_matches(" (deleted)");
        let is_program = |m: &Mapping| m.name.trim_end_matches(" (deleted)") == program;
        let code = || reading.process.mappings.iter().filter(|m| m.exec && m.file.inode != 0);
        let ordered = code().filter(|m| is_program(m)).chain(code().filter(|m| !is_program(m)));
        for mapping in ordered {
            if seen.contains(&mapping.file) {
                continue;
            }
            seen.push(mapping.file);
            let Some(image) = self.image(reading, mapping) else { continue };
            match image.mpi_facts(mapping.start.wrapping_sub(mapping.offset_bytes)) {
                Some(facts) if facts.comm_world.is_some() => return Some(facts),
                Some(facts) => found = Some(facts),
                None => {}
            }
        }
        found
    }
}

impl Reading<'_> {
    /// A thread of the process, caught while it runs.
    fn sample(&self, tid: u32) -> Option<RunningSample> {
        self.answered(self.surroundings.borrow_mut().sample(tid))
    }

    /// The file of a mapping, open.
    fn file(&self, mapping: &Mapping) -> Option<File> {
        self.answered(self.surroundings.borrow_mut().file(mapping.start))
    }

    fn answered<A>(&self, answer: io::Result<Option<A>>) -> Option<A> {
        answer.unwrap_or_else(|error| {
            self.failed.replace(Some(error));
            None
        })
    }

    /// Memory without the traces of hooked returns.
    fn unhooked<'a>(&self, view: &ThreadView, beyond: &'a dyn RemoteMemory) -> Unhooked<'a> {
        let trampoline =
            self.process.mappings.iter().find(|m| m.name == TRAMPOLINE).map_or(0..0, |m| m.start..m.end);
        Unhooked { hooked: view.hooked, trampoline, beyond }
    }

    fn mapping(&self, address: u64) -> Option<&Mapping> {
        let at = self.process.mappings.partition_point(|m| m.end <= address);
        self.process
            .mappings
            .get(at)
            .filter(|m| m.start <= address && m.exec && (m.file.inode != 0 || m.name == VDSO))
    }
}

/// The kernel's own code, from the process's memory.
fn vdso(reading: &Reading<'_>, mapping: &Mapping) -> Option<Image> {
    /// It is two or three pages.
    const MOST_BYTES: u64 = 1 << 20;
    let end = mapping.end.min(mapping.start.saturating_add(MOST_BYTES));
    reading.memory.bytes(mapping.start, end).and_then(|bytes| Image::from_contents(bytes.into()))
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
