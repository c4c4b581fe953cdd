//! Once a job runs as it did before, its records cost no allocation: neither in the pipeline nor
//! on the way from a tape.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use analyzer::input::Input;
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::tape::{ItemRef, Reader, Writer};
use common::{Trace, segment_at};

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
