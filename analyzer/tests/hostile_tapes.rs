//! Tapes of some hundred KiB that claim as much as they can: memory and work have a bound whatever is in them.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use analyzer::input::{Frame, Input, Mapping, ProcessFacts, Symbol};
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::symbols::SymbolTable;
use analyzer::tape::{self, Cause, Item, Reader, Writer};
use analyzer::wire::{Body, CallContext, FileId, Header, Record};

/// Counts what is taken at once.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        PEAK.fetch_max(LIVE.fetch_add(layout.size(), Relaxed) + layout.size(), Relaxed);
        // SAFETY: as the caller says.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller says.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What an analysis may take.
const MOST_BYTES: usize = 512 << 20;
const FILE: FileId = FileId { dev: 1, inode: 7 };
const CODE_AT: u64 = 0x40_0000;

fn tape_of(inputs: impl IntoIterator<Item = Input>) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new());
    for (at, input) in inputs.into_iter().enumerate() {
        writer.push(&input).expect("memory takes everything");
        if at % 4096 == 0 {
            writer.flush().expect("memory takes everything");
        }
    }
    writer.finish().expect("memory takes everything")
}

/// What analysing it took at its worst, in bytes; how many inputs it gave; and whether it was given up.
fn analyse(tape: &[u8]) -> (usize, usize, bool) {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let mut names = SymbolTable::default();
    tape::symbols(tape, |symbols| names.extend(symbols)).expect("a tape");
    let mut pipeline = Pipeline::new(Options::default());
    let (mut inputs, mut given_up) = (0, false);
    for item in Reader::new(tape).expect("a tape") {
        match item.expect("it can be read") {
            Item::Input(input) => {
                inputs += 1;
                pipeline.push(&input);
            }
            Item::Damage(damage) => given_up |= damage.cause == Cause::GaveUp,
        }
    }
    drop(pipeline.report());
    (PEAK.load(Relaxed) - before, inputs, given_up)
}

fn process(pid: u32, name: &str) -> Input {
    let code = Mapping {
        start: CODE_AT,
        end: CODE_AT + 0x1000_0000,
        file: FILE,
        exec: true,
        name: name.to_owned(),
        ..Mapping::default()
    };
    Input::Process(Box::new(ProcessFacts {
        pid,
        namespace_pid: pid,
        rank: Some(pid),
        exe: name.to_owned(),
        mappings: vec![code],
        ..ProcessFacts::default()
    }))
}

fn record(time_ns: u64, body: Body) -> Input {
    Input::Record(Record { header: Header { time_ns, pid: 1, tid: 1, probe: 1 }, body }.encode())
}

fn symbols_without_end() -> Vec<u8> {
    let frame = Frame { function: "f".repeat(64 << 10), ..Frame::default() };
    let symbol = |offset_bytes| Symbol { file: FILE, offset_bytes, frames: vec![frame.clone()] };
    tape_of((0..150).map(|list| Input::Symbols((0..100).map(|n| symbol(list * 100 + n)).collect())))
}

fn forks_of_a_large_process() -> Vec<u8> {
    let block = |n| Body::Alloc { addr: 0x1000 * n, size_bytes: 0x1000, old: 0, caller: CODE_AT + 1 };
    let blocks = (1..=100_000).map(|n| record(n, block(n)));
    let forks = (1..=1000).map(|child| record(200_000, Body::Fork { child: 1000 + child }));
    tape_of(std::iter::once(process(1, "/bin/app")).chain(blocks).chain(forks))
}

fn places_in_a_file_with_a_long_name() -> Vec<u8> {
    let copy = |n| Body::Copy {
        dst: 0x7000_0000,
        src: 0x7100_0000,
        len_bytes: 64,
        context: CallContext { return_address: CODE_AT + 8 * n, probe: 1, ..CallContext::default() },
    };
    let name = format!("/{}", "d".repeat(1 << 20));
    tape_of(std::iter::once(process(1, &name)).chain((1..=2000).map(|n| record(n, copy(n)))))
}

#[test]
fn what_a_tape_takes_has_a_bound_whatever_is_in_it() {
    let tapes = [
        ("symbols without end", symbols_without_end()),
        ("forks of a large process", forks_of_a_large_process()),
        ("places in a file with a long name", places_in_a_file_with_a_long_name()),
    ];
    for (what, tape) in tapes {
        assert!(tape.len() < 4 << 20, "{what}: {} bytes of tape", tape.len());
        let (bytes, _, given_up) = analyse(&tape);
        eprintln!("{what}: {} KiB of tape took {} MiB", tape.len() >> 10, bytes >> 20);
        assert!(bytes < MOST_BYTES && !given_up, "{what}: {} MiB", bytes >> 20);
    }
    damage_in_a_job_of_many_processes();
    headers_that_claim_much();
}

/// Each damage may have cost every process something.
fn damage_in_a_job_of_many_processes() {
    let mut writer = Writer::new(Vec::new());
    (0..20_000).for_each(|pid| writer.push(&process(pid, "")).expect("memory takes everything"));
    for time_ns in 0..1000 {
        writer.push(&Input::Tick { time_ns }).expect("memory takes everything");
        writer.flush().expect("memory takes everything");
    }
    let mut tape = writer.finish().expect("memory takes everything");
    let frames: Vec<usize> =
        tape.windows(4).enumerate().filter(|(_, w)| w == b"\xd5dmf").map(|(at, _)| at).collect();
    for at in frames[frames.len() - 900..].iter().step_by(2) {
        tape[at + 70] ^= 1;
    }
    let (_, inputs, given_up) = analyse(&tape);
    assert!(given_up && inputs < 3_000_000, "{inputs} inputs of {} bytes", tape.len());
}

/// Each header is right, and says that most of the file is its payload.
fn headers_that_claim_much() {
    const HEADERS: u32 = 60_000;
    let mut tape = tape_of([Input::Tick { time_ns: 1 }]);
    let mut header = b"\xd5dmf\x01\0\0\0".to_vec();
    let claimed = HEADERS * 68 / 2;
    [1, claimed, 1, 0].iter().for_each(|number: &u32| header.extend_from_slice(&number.to_le_bytes()));
    header.extend_from_slice(&[0; 40]);
    header.extend_from_slice(&crc32c::crc32c(&header).to_le_bytes());
    assert_eq!(header.len(), 68);
    (0..HEADERS).for_each(|_| tape.extend_from_slice(&header));
    let (bytes, _, given_up) = analyse(&tape);
    assert!(given_up && bytes < MOST_BYTES, "{bytes}");
}
