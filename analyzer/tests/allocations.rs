//! Once a job runs as it did before, its records cost no allocation: neither in the pipeline nor
//! on the way from a tape.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use analyzer::input::{Input, MpiKind};
use analyzer::messages::MessageEvent;
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::plan::{MpiObjects, Plan, PlannedFile, ProbeClass};
use analyzer::tape::{ItemRef, Reader, Writer};
use analyzer::wire::{Body, NO_ARGUMENT};
use common::{PROGRAM, PROGRAM_AT, Trace, segment_at};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Counts what the current thread asks for.
struct Counting;

// SAFETY: everything is passed on to the system's allocator as it came; counting touches a number only.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

/// Eight ranks in a ring, by way of staging buffers and slots that are used again, of messages of
/// several sizes; now and then a block is given back.
fn job(steps: u64) -> Vec<Input> {
    let mut t = Trace::new(8, true);
    for step in 0..steps {
        for rank in 0..8u32 {
            let (user, staging) = (t.heap(rank, "user"), t.heap(rank, "staging"));
            let slot = 4096 * u64::from(rank) + step % 4 * 1024;
            let len_bytes = 64 << (step % 3);
            t.call(rank, "MPI_Sendrecv", "main: exchange");
            t.copy(rank, "stage", user, staging, len_bytes);
            t.copy(rank, "header", user + 0x8000, segment_at(rank) + slot, 16);
            t.copy(rank, "payload", staging, segment_at(rank) + slot + 16, len_bytes);
            let next = (rank + 1) % 8;
            let received = t.heap(next, "received");
            t.copy(next, "deliver", segment_at(next) + slot + 16, received, len_bytes);
            if step % 16 == 15 {
                t.free(rank, "received");
            }
        }
    }
    t.end()
}

#[test]
fn records_of_a_job_that_goes_on_as_before_allocate_nothing() {
    let inputs = job(4_000);
    // Where time buckets and the ages of operations have found their size.
    let (first, rest) = inputs.split_at(inputs.len() * 3 / 4);
    let mut pipeline = Pipeline::new(Options { max_age_ops: 1_000, ..Options::default() });
    let warming = allocations(|| first.iter().for_each(|input| pipeline.push(input)));
    assert!(warming > 0, "nothing is counted");
    let records = || rest.iter().filter(|input| matches!(input, Input::Record(_)));
    let made = allocations(|| records().for_each(|input| pipeline.push(input)));
    assert_eq!(made, 0, "{} records", records().count());
    assert!(records().count() > 30_000);
}

/// Ranks of a ring begin to send and to receive, with requests, and wait for both; one takes what comes first.
fn job_with_results(steps: u64) -> Vec<Input> {
    const RANKS: u32 = 8;
    let mut t = Trace::new(RANKS, true);
    let mpi = MpiObjects { kind: MpiKind::Mpich, comm_world: None, complete_request: None };
    let file = PlannedFile { id: PROGRAM, path: "/bin/job".into(), mpi: Some(mpi), ..PlannedFile::default() };
    t.inputs.insert(1, Input::Plan(Box::new(Plan { files: vec![file], ..Plan::default() })));
    for rank in 0..RANKS {
        call(&mut t, rank, "MPI_Init", [0; 6], &[], None);
    }
    for step in 0..steps {
        let tag = step % 3;
        for rank in 0..RANKS {
            let (next, previous) = (u64::from((rank + 1) % RANKS), u64::from((rank + RANKS - 1) % RANKS));
            let source = if rank == 3 { -2i64 as u64 } else { previous };
            let begin = |t: &mut Trace, name, peer, request| {
                let pointer =
                    Pointed { argument: 6, bytes: 8, at_return: false, words: [0x5000, 0, 0, 0, 0] };
                call(t, rank, name, [0x1000, 8, 5, peer, tag, WORLD], &[pointer], Some((6, request)));
            };
            begin(&mut t, "MPI_Irecv", source, RECEIVE);
            begin(&mut t, "MPI_Isend", next, SEND);
        }
        for rank in 0..RANKS {
            let both = Pointed {
                argument: 1,
                bytes: 8,
                at_return: false,
                words: [RECEIVE | SEND << 32, 0, 0, 0, 0],
            };
            // Of the first status: whose message it was.
            let told =
                Pointed { argument: 2, bytes: 40, at_return: true, words: [0, 2 | tag << 32, 0, 0, 0] };
            let pointed: &[Pointed] = if rank == 3 { &[both, told] } else { &[both] };
            call(&mut t, rank, "MPI_Waitall", [2, 0x5000, 0x6000, 0, 0, 0], pointed, None);
        }
    }
    t.end()
}

const WORLD: u64 = 0x4400_0000;
const RECEIVE: u64 = 0x9800_0000;
const SEND: u64 = 0x9800_0001;

/// What an argument points to.
#[derive(Clone, Copy)]
struct Pointed {
    argument: u32,
    bytes: u32,
    at_return: bool,
    words: [u64; 5],
}

fn call(
    t: &mut Trace,
    rank: u32,
    name: &str,
    args: [u64; 6],
    pointed: &[Pointed],
    result: Option<(u32, u64)>,
) {
    let (probe, serial) = (t.probe(name, ProbeClass::CallResults), 1);
    t.record(rank, probe, Body::Call { return_address: PROGRAM_AT + 0x100, args, nested: false });
    for &Pointed { argument, bytes, at_return, words } in pointed {
        let body = Body::Values { serial, argument, total_bytes: bytes, position_bytes: 0, at_return, words };
        t.record(rank, probe, body);
    }
    let (argument, word) = result.unwrap_or((NO_ARGUMENT, 0));
    let bytes = if result.is_some() { 4 } else { 0 };
    t.record(rank, probe, Body::Return { serial, code: 0, argument, bytes, word });
}

#[test]
fn records_of_calls_with_results_allocate_nothing_either() {
    let inputs = job_with_results(4_000);
    let (first, rest) = inputs.split_at(inputs.len() / 2);
    let mut pipeline = Pipeline::new(Options::default());
    first.iter().for_each(|input| pipeline.push(input));
    let records = || rest.iter().filter(|input| matches!(input, Input::Record(_)));
    let made = allocations(|| records().for_each(|input| pipeline.push(input)));
    assert_eq!(made, 0, "{} records", records().count());
    assert!(records().count() > 100_000);
    let messages = pipeline.messages();
    assert_eq!((messages.lost().count(), messages.strangers()), (0, 0));
}

/// Collective calls on two communicators; one rank is always late. Of `Call` only the entries are recorded.
fn job_of_collectives(steps: u64, class: ProbeClass) -> Vec<Input> {
    const RANKS: u32 = 8;
    const DUP: u64 = 0x8400_0001;
    let mut t = Trace::new(RANKS, true);
    let mpi = MpiObjects { kind: MpiKind::Mpich, comm_world: None, complete_request: None };
    let file = PlannedFile { id: PROGRAM, path: "/bin/job".into(), mpi: Some(mpi), ..PlannedFile::default() };
    t.inputs.insert(1, Input::Plan(Box::new(Plan { files: vec![file], ..Plan::default() })));
    for rank in 0..RANKS {
        call(&mut t, rank, "MPI_Init", [0; 6], &[], None);
        call(&mut t, rank, "MPI_Comm_dup", [WORLD, 0x5000, 0, 0, 0, 0], &[], Some((1, DUP)));
    }
    let enter = |t: &mut Trace, rank: u32, name: &str, args: [u64; 6]| {
        if class == ProbeClass::CallResults {
            return call(t, rank, name, args, &[], None);
        }
        let probe = t.probe(name, class);
        t.record(rank, probe, Body::Call { return_address: PROGRAM_AT + 0x100, args, nested: false });
    };
    for step in 0..steps {
        let late = (step % u64::from(RANKS)) as u32;
        let others = (0..RANKS).filter(|rank| *rank != late);
        for rank in others.chain([late]) {
            enter(&mut t, rank, "MPI_Bcast", [0x1000, 8, 0x4c00_0405, 0, WORLD, 0]);
            enter(&mut t, rank, "MPI_Barrier", [DUP, 0, 0, 0, 0, 0]);
            enter(&mut t, rank, "MPI_Allreduce", [0x1000, 0x2000, 8, 0x4c00_0405, 0x5800_0003, WORLD]);
        }
    }
    t.end()
}

#[test]
fn entries_of_collective_calls_allocate_nothing_either() {
    assert_collectives_allocate_nothing(ProbeClass::Call);
}

#[test]
fn collective_calls_with_results_allocate_nothing_either() {
    assert_collectives_allocate_nothing(ProbeClass::CallResults);
}

fn assert_collectives_allocate_nothing(class: ProbeClass) {
    let inputs = job_of_collectives(6_000, class);
    let (first, rest) = inputs.split_at(inputs.len() / 2);
    let mut pipeline = Pipeline::new(Options::default());
    first.iter().for_each(|input| pipeline.push(input));
    let records = || rest.iter().filter(|input| matches!(input, Input::Record(_)));
    let made = allocations(|| records().for_each(|input| pipeline.push(input)));
    assert_eq!(made, 0, "{} records", records().count());
    assert!(records().count() > 50_000);
    assert!(pipeline.report().findings.is_empty());
}

#[test]
fn every_message_of_such_calls_is_followed() {
    let mut pipeline = Pipeline::with_events(Options::default());
    job_with_results(100).iter().for_each(|input| pipeline.push(input));
    let events = pipeline.take_events();
    let matched = events.iter().filter(|event| matches!(event, MessageEvent::Matched { .. })).count();
    let completed = events.iter().filter(|event| matches!(event, MessageEvent::Completed { .. })).count();
    assert_eq!((matched, completed), (8 * 100, 16 * 100));
}

#[test]
fn records_of_a_tape_allocate_nothing_either() {
    let mut writer = Writer::new(Vec::new());
    let inputs = job(8_000);
    for input in &inputs {
        writer.push(input).expect("memory takes everything");
    }
    let tape = writer.finish().expect("memory takes everything");
    let mut reader = Reader::new(&tape[..]).expect("a tape");
    let (mut records, mut made_by_records, mut most) = (0u64, 0, 0);
    loop {
        let before = ALLOCATIONS.get();
        let Some(item) = reader.next_ref() else { break };
        let record = matches!(item, Ok(ItemRef::Record(_)));
        let made = ALLOCATIONS.get() - before;
        if record {
            records += 1;
            made_by_records += made;
            most = most.max(made);
        }
    }
    // The first record of each frame pays for the frame.
    let frames = inputs.len() as u64 / u64::from(analyzer::tape::MAX_INPUTS_PER_FRAME) + 1;
    assert!(records > 300_000 && frames > 4);
    assert!(
        made_by_records < frames * 100,
        "{made_by_records} for {records} records, at most {most} for one"
    );
}
