//! Calls that are given memory past the end of a heap block, or of one that was given back, and when nothing is said of them. The library is
//! MPICH.

use crate::common::calls::{CHAR, Job, TAG, WORLD};
use crate::common::pid;
use analyzer::finding::{BufferAccess, BufferConflict, BufferUser, Evidence, HeapFault, HeapMisuse, Report};
use analyzer::input::{Coverage, Input, Loss, Start};
use analyzer::plan::{FREE_WITH_HEADER, Plan, PlannedFile, Probe, ProbeClass};
use analyzer::wire::Body;

use crate::common::{LIBRARY, PROGRAM, PROGRAM_AT};

const BLOCK: u64 = 0x70_0000;
const BYTES: u64 = 10_000;
/// Probes at `free`: of the C library, and of another allocator.
const FREE: u32 = 1000;
const OTHER_FREE: u32 = 1001;
/// Where the program allocates, and where it gives back.
const ALLOCATES: u64 = PROGRAM_AT + 0x900;
const FREES: u64 = PROGRAM_AT + 0xa00;

trait Heap {
    fn with_block() -> Self;
    fn allocate(&mut self, rank: u32, addr: u64, size_bytes: u64, old: u64);
    fn free(&mut self, rank: u32, addr: u64);
    fn send_bytes(&mut self, rank: u32, addr: u64, bytes: u64);
    fn found(self) -> Vec<HeapMisuse>;
}

impl Heap for Job {
    /// Of rank 0.
    fn with_block() -> Self {
        let mut job = Self::begun(2);
        let free = |id, argument| Probe { argument, ..Probe::at(id, LIBRARY, 16, ProbeClass::Free, "free") };
        let probes = vec![free(FREE, FREE_WITH_HEADER), free(OTHER_FREE, 0)];
        job.t.inputs.insert(2, Input::Plan(Box::new(Plan { probes, ..Plan::default() })));
        job.allocate(0, BLOCK, BYTES, 0);
        job
    }

    fn allocate(&mut self, rank: u32, addr: u64, size_bytes: u64, old: u64) {
        self.t.record(rank, 0, Body::Alloc { addr, size_bytes, old, caller: ALLOCATES });
    }

    fn free(&mut self, rank: u32, addr: u64) {
        self.t.record(rank, FREE, Body::Free { addr, caller: FREES });
    }

    /// To the other of two ranks.
    fn send_bytes(&mut self, rank: u32, addr: u64, bytes: u64) {
        self.call(rank, "MPI_Send", [addr, bytes, CHAR, u64::from(1 - rank), TAG, WORLD], 10, None);
    }

    fn found(self) -> Vec<HeapMisuse> {
        misuses(&self.report())
    }
}

fn misuses(report: &Report) -> Vec<HeapMisuse> {
    let found = report.findings.iter().filter_map(|finding| match &finding.evidence {
        Evidence::HeapMisuse(found) => Some((**found).clone()),
        _ => None,
    });
    found.collect()
}

/// What is told of one: what is wrong, what the call does, where in the block, how much, and how much past its end.
fn told(found: &HeapMisuse) -> (HeapFault, BufferAccess, u64, u64, u64) {
    (found.fault, found.access, found.offset_bytes, found.len_bytes, found.beyond_bytes)
}

#[test]
fn a_send_past_the_end_of_a_block_is_told_with_both_places() {
    let mut job = Job::with_block();
    job.send_bytes(0, BLOCK + 100, BYTES - 100);
    job.send_bytes(0, BLOCK + 100, BYTES - 99);
    job.send_bytes(0, BLOCK + 200, BYTES);
    let report = job.report();
    let [found] = &misuses(&report)[..] else { panic!("{report:#?}") };
    assert_eq!(told(found), (HeapFault::BufferOverflow, BufferAccess::Read, 100, BYTES - 99, 1));
    assert_eq!((found.count, found.block_bytes, &*found.call.function), (2, BYTES, "MPI_Send"));
    assert_eq!(found.allocated.file, Some(PROGRAM));
    assert_eq!((found.call.place.offset_bytes, found.allocated.offset_bytes), (0x100 + 160 - 1, 0x900 - 1));
    let finding = report.findings.iter().find(|f| matches!(f.evidence, Evidence::HeapMisuse(_))).unwrap();
    assert_eq!(
        finding.summary,
        "Heap buffer overflow in an MPI call: MPI_Send called at job+0x19f by rank 0 reads 2 times 9901 bytes starting at byte 100 of a heap block of \
         10000 bytes allocated at job+0x8ff: 1 byte past its end."
    );
}

/// A message of so many bytes is received into the block, which has room for `room` as the call says.
fn received(bytes: u64, room: u64) -> Vec<HeapMisuse> {
    let mut job = Job::with_block();
    job.send_bytes(1, 0x1000, bytes);
    job.call(0, "MPI_Recv", [BLOCK, room, CHAR, 1, TAG, WORLD], 20, None);
    job.found()
}

#[test]
fn of_a_receive_counts_what_came_and_not_how_much_might_have() {
    assert!(received(BYTES, 2 * BYTES).is_empty());
    let found = received(BYTES + 7, 2 * BYTES);
    let [found] = &found[..] else { panic!("{found:#?}") };
    assert_eq!(told(found), (HeapFault::BufferOverflow, BufferAccess::Written, 0, BYTES + 7, 7));
    assert_eq!(found.call.function, "MPI_Recv");
}

#[test]
fn a_broadcast_reads_at_its_root_and_writes_elsewhere() {
    let broadcast = |root: u64, bytes: u64| {
        let mut job = Job::with_block();
        for rank in 0..2 {
            job.begin(
                rank,
                "MPI_Bcast",
                [if rank == 0 { BLOCK } else { 0x1000 }, bytes, CHAR, root, WORLD, 0],
                30,
            );
            job.over(rank, "MPI_Bcast", None);
        }
        job.found()
    };
    assert!(broadcast(0, BYTES).is_empty());
    let [from, to] = [broadcast(0, BYTES + 1), broadcast(1, BYTES + 1)]
        .map(|found| found.iter().map(told).collect::<Vec<_>>());
    assert_eq!(from, [(HeapFault::BufferOverflow, BufferAccess::Read, 0, BYTES + 1, 1)]);
    assert_eq!(to, [(HeapFault::BufferOverflow, BufferAccess::Written, 0, BYTES + 1, 1)]);
}

#[test]
fn memory_of_a_window_is_held_against_its_block_when_it_is_made() {
    let made = |bytes: u64| {
        let mut job = Job::with_block();
        job.call(0, "MPI_Win_create", [BLOCK, bytes, 1, 0, WORLD, 0x5000], 12, Some((5, 0xa000_0001)));
        job.call(1, "MPI_Win_create", [0x1000, bytes, 1, 0, WORLD, 0x5000], 12, Some((5, 0xa000_0001)));
        job.found()
    };
    assert!(made(BYTES).is_empty());
    let found = made(BYTES + 1);
    let [found] = &found[..] else { panic!("{found:#?}") };
    assert_eq!((&*found.call.function, found.beyond_bytes), ("MPI_Win_create", 1));
}

#[test]
fn a_block_that_was_given_back_is_told_with_where_until_there_is_another() {
    let sent = |free: u32, meanwhile: &dyn Fn(&mut Job)| {
        let mut job = Job::with_block();
        job.t.record(0, free, Body::Free { addr: BLOCK, caller: FREES });
        meanwhile(&mut job);
        job.send_bytes(0, BLOCK + 1000, 8000);
        job.found()
    };
    let found = sent(FREE, &|_| {});
    let [found] = &found[..] else { panic!("{found:#?}") };
    assert_eq!(told(found), (HeapFault::UseAfterFree, BufferAccess::Read, 1000, 8000, 0));
    assert_eq!(found.freed.as_ref().map(|place| place.offset_bytes), Some(0xa00 - 1));
    assert!(sent(FREE, &|job| job.allocate(0, BLOCK, 20_000, 0)).is_empty());
    assert!(
        sent(OTHER_FREE, &|_| {}).is_empty(),
        "another allocator may have given it out again by a function of its own"
    );
}

#[test]
fn a_block_that_was_moved_or_resized_is_as_long_as_it_is_now() {
    let mut job = Job::with_block();
    job.allocate(0, BLOCK, 2 * BYTES, BLOCK);
    job.send_bytes(0, BLOCK, 2 * BYTES);
    job.allocate(0, BLOCK + 0x10_0000, 3 * BYTES, BLOCK);
    job.send_bytes(0, BLOCK + 0x10_0000, 3 * BYTES);
    assert!(job.found().is_empty());
}

#[test]
fn a_short_block_that_others_have_resized_is_not_known_any_more() {
    let resized_by = |caller: u64| {
        let mut job = Job::begun(2);
        // Of blocks that are not the program's, only longer ones are told.
        let start = Start { time_ns: 1000, alloc_min_bytes: 4096, ..Start::default() };
        job.t.inputs[0] = Input::Start(Box::new(start));
        let file = PlannedFile { id: PROGRAM, path: "/bin/job".into(), own: true, ..PlannedFile::default() };
        job.t.inputs.insert(2, Input::Plan(Box::new(Plan { files: vec![file], ..Plan::default() })));
        job.allocate(0, BLOCK, 100, 0);
        job.t.record(0, 0, Body::Alloc { addr: BLOCK, size_bytes: 1000, old: BLOCK, caller });
        job.send_bytes(0, BLOCK, 2000);
        job.found().iter().map(|found| found.block_bytes).collect::<Vec<_>>()
    };
    assert_eq!(resized_by(ALLOCATES), [1000]);
    assert!(resized_by(0x7f00_0000_0000).is_empty());
}

#[test]
fn where_records_of_allocations_are_missing_nothing_is_said() {
    let mut job = Job::with_block();
    let loss = Loss { pid: pid(0), from_ns: 0, to_ns: 1, movements: 0, calls: 0, state: 1 };
    job.t.inputs.push(Input::Loss(loss));
    job.send_bytes(0, BLOCK, 2 * BYTES);
    assert!(job.found().is_empty());
}

/// From here on these probes are out.
fn cover(job: &mut Job, off: &[u32]) {
    let coverage = Coverage { time_ns: job.t.now_ns, off: off.to_vec(), ..Coverage::default() };
    job.t.inputs.push(Input::Coverage(Box::new(coverage)));
}

#[test]
fn while_probes_of_the_heap_are_out_nothing_is_said_and_what_was_seen_then_is_forgotten() {
    const OTHER: u64 = 0x80_0000;
    let sent = |does: &dyn Fn(&mut Job)| {
        let mut job = Job::with_block();
        does(&mut job);
        job.found().len()
    };
    // It may have been given back unseen, and be another one's now.
    let allocated_meanwhile = |job: &mut Job, sends_at_once: bool| {
        cover(job, &[FREE]);
        job.allocate(0, OTHER, BYTES, 0);
        if sends_at_once {
            job.send_bytes(0, OTHER, BYTES + 1);
        }
        cover(job, &[]);
        if !sends_at_once {
            job.send_bytes(0, OTHER, BYTES + 1);
        }
    };
    assert_eq!(sent(&|job| allocated_meanwhile(job, true)), 0);
    assert_eq!(sent(&|job| allocated_meanwhile(job, false)), 0);
    let given_back_before = |job: &mut Job, off: &[u32]| {
        job.free(0, BLOCK);
        cover(job, off);
        cover(job, &[]);
        job.send_bytes(0, BLOCK, BYTES);
    };
    assert_eq!(sent(&|job| given_back_before(job, &[])), 1);
    assert_eq!(sent(&|job| given_back_before(job, &[FREE])), 0);
    let allocated_later = |job: &mut Job| {
        cover(job, &[FREE]);
        cover(job, &[]);
        job.allocate(0, OTHER, BYTES, 0);
        job.send_bytes(0, OTHER, BYTES + 1);
    };
    assert_eq!(sent(&allocated_later), 1);
}

fn conflicts(report: &Report) -> Vec<BufferConflict> {
    let found = report.findings.iter().filter_map(|finding| match &finding.evidence {
        Evidence::BufferConflict(found) => Some((**found).clone()),
        _ => None,
    });
    found.collect()
}

/// A request for the block of rank 0 with something in between.
fn meanwhile(does: impl Fn(&mut Job)) -> Vec<BufferConflict> {
    const REQUEST: u64 = 7;
    let mut job = Job::with_block();
    job.begin(0, "MPI_Isend", [BLOCK, BYTES, CHAR, 1, TAG, WORLD], 10);
    job.points(0, "MPI_Isend", 6, false, &[0x5000, 0]);
    job.over(0, "MPI_Isend", Some((6, REQUEST)));
    does(&mut job);
    job.with_request(0, "MPI_Wait", REQUEST);
    job.free(0, BLOCK);
    conflicts(&job.report())
}

#[test]
fn a_block_that_is_given_back_or_moved_while_it_is_sent_is_told() {
    let freed = meanwhile(|job| job.free(0, BLOCK));
    let moved = meanwhile(|job| job.allocate(0, BLOCK + 0x10_0000, 2 * BYTES, BLOCK));
    for (found, at) in [(freed, 0xa00 - 1), (moved, 0x900 - 1)] {
        let [found] = &found[..] else { panic!("{found:#?}") };
        assert_eq!((found.access, found.used_bytes, found.receives), (BufferAccess::Freed, BYTES, false));
        assert!(matches!(&found.user, BufferUser::Free { place } if place.offset_bytes == at), "{found:#?}");
    }
    assert!(meanwhile(|job| job.allocate(0, BLOCK, 2 * BYTES, BLOCK)).is_empty(), "it was resized in place");
    assert!(meanwhile(|job| job.free(0, BLOCK + 0x10_0000)).is_empty());
}
