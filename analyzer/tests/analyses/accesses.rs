//! One-sided operations on the same bytes of a window that nothing orders, and buffers that they use. The library is MPICH.

use crate::common::calls::{CHAR, Job, POINTER, TAG, WORLD};
use analyzer::finding::{
    AccessConflict, BufferAccess, BufferConflict, Evidence, OutsideWindow, Report, Severity,
};
use analyzer::process::Who;
use analyzer::wire::STACK_ARGUMENTS;

const WIN: u64 = 0xa000_0000;
const SHARED: u64 = 235;
const EXCLUSIVE: u64 = 234;
const UNIT_BYTES: u64 = 8;

trait Windows {
    fn with_window() -> Self;
    fn fence(&mut self, ranks: &[u32]);
    fn lock(&mut self, rank: u32, target: u64, kind: u64);
    fn unlock(&mut self, rank: u32, target: u64);
    fn access(&mut self, rank: u32, function: &str, target: u64, displacement: u64, line: u64);
    fn access_of(&mut self, rank: u32, function: &str, to: (u64, u64), bytes: u64, line: u64);
    fn access_from(&mut self, rank: u32, function: &str, at: u64, displacement: u64, line: u64);
}

/// Where a rank's own memory is in an access: never where another one's was.
fn own_memory(line: u64) -> u64 {
    0x10_0000 + 0x1000 * line
}

impl Windows for Job {
    /// Of three ranks.
    fn with_window() -> Self {
        let mut job = Self::begun(3);
        for rank in 0..3 {
            job.begin(rank, "MPI_Win_create", [0x8000, 800, UNIT_BYTES, 0, WORLD, POINTER], 1);
        }
        for rank in 0..3 {
            job.over(rank, "MPI_Win_create", Some((5, WIN)));
        }
        job
    }

    /// Of these ranks, in this order: each goes on before the next one has.
    fn fence(&mut self, ranks: &[u32]) {
        for rank in ranks {
            self.call(*rank, "MPI_Win_fence", [0, WIN, 0, 0, 0, 0], 2, None);
        }
    }

    fn lock(&mut self, rank: u32, target: u64, kind: u64) {
        self.call(rank, "MPI_Win_lock", [kind, target, 0, WIN, 0, 0], 3, None);
    }

    fn unlock(&mut self, rank: u32, target: u64) {
        self.call(rank, "MPI_Win_unlock", [target, WIN, 0, 0, 0, 0], 4, None);
    }

    /// Ten bytes.
    fn access(&mut self, rank: u32, function: &str, target: u64, displacement: u64, line: u64) {
        self.access_of(rank, function, (target, displacement), 10, line);
    }

    fn access_of(&mut self, rank: u32, function: &str, to: (u64, u64), bytes: u64, line: u64) {
        let (target, displacement) = to;
        self.begin(rank, function, [own_memory(line), bytes, CHAR, target, displacement, bytes], line);
        let stack: &[i32] = match function {
            "MPI_Accumulate" => &[CHAR as i32, 0, 0, 0, WIN as u32 as i32, 0],
            _ => &[CHAR as i32, 0, WIN as u32 as i32, 0],
        };
        self.points(rank, function, STACK_ARGUMENTS, false, stack);
        self.over(rank, function, None);
    }

    /// The same, of rank 1's memory.
    fn access_from(&mut self, rank: u32, function: &str, at: u64, displacement: u64, line: u64) {
        self.begin(rank, function, [at, 10, CHAR, 1, displacement, 10], line);
        self.points(rank, function, STACK_ARGUMENTS, false, &[CHAR as i32, 0, WIN as u32 as i32, 0]);
        self.over(rank, function, None);
    }
}

fn conflicts(report: &Report) -> Vec<AccessConflict> {
    let found = report.findings.iter().filter_map(|finding| match &finding.evidence {
        Evidence::AccessConflict(found) => Some((**found).clone()),
        _ => None,
    });
    found.collect()
}

fn buffers(report: &Report) -> Vec<(Severity, BufferConflict)> {
    let found = report.findings.iter().filter_map(|finding| match &finding.evidence {
        Evidence::BufferConflict(found) => Some((finding.severity, (**found).clone())),
        _ => None,
    });
    found.collect()
}

/// What is told of ten bytes from there on, in a window of 800 bytes that are counted in elements of eight.
fn outside(function: &str, displacement: i64) -> Vec<OutsideWindow> {
    let mut job = Job::with_window();
    job.fence(&[0, 1, 2]);
    job.access(0, function, 1, displacement.cast_unsigned(), 10);
    job.fence(&[0, 1, 2]);
    let report = job.report();
    let found = report.findings.iter().filter_map(|finding| match &finding.evidence {
        Evidence::OutsideWindow(found) => Some((**found).clone()),
        _ => None,
    });
    found.collect()
}

#[test]
fn an_access_past_an_end_of_the_targets_memory_is_told() {
    assert!([0, 50, 98].into_iter().all(|displacement| outside("MPI_Put", displacement).is_empty()));
    for (function, displacement, access) in [
        ("MPI_Put", 99, BufferAccess::Written),
        ("MPI_Accumulate", 1000, BufferAccess::Written),
        ("MPI_Get", -1, BufferAccess::Read),
    ] {
        let found = outside(function, displacement);
        let [found] = &found[..] else { panic!("{function} {displacement}: {found:#?}") };
        assert_eq!((&*found.call.function, found.access, found.target), (function, access, Who::Rank(1)));
        assert_eq!((found.window_bytes, found.len_bytes, found.offset_bytes), (800, 10, 8 * displacement));
        assert_eq!((found.count, &found.ranks[..]), (1, &[Who::Rank(0)][..]));
    }
}

/// Whether something is said of what two ranks do between fences.
fn conflict_between_fences(first: (&str, u64, u64), second: (&str, u64, u64)) -> bool {
    let mut job = Job::with_window();
    job.fence(&[0, 1, 2]);
    job.access(0, first.0, first.1, first.2, 10);
    job.access(2, second.0, second.1, second.2, 11);
    job.fence(&[0, 1, 2]);
    job.finalize();
    !conflicts(&job.report()).is_empty()
}

#[test]
fn accesses_of_two_ranks_between_fences_conflict_if_one_puts_and_bytes_are_the_same() {
    let at = |function: &'static str| (function, 1, 0);
    for (first, second, is_conflict) in [
        ("MPI_Put", "MPI_Put", true),
        ("MPI_Put", "MPI_Get", true),
        ("MPI_Get", "MPI_Put", true),
        ("MPI_Put", "MPI_Accumulate", true),
        ("MPI_Get", "MPI_Accumulate", true),
        ("MPI_Get", "MPI_Get", false),
        ("MPI_Accumulate", "MPI_Accumulate", false),
    ] {
        assert_eq!(conflict_between_fences(at(first), at(second)), is_conflict, "{first} {second}");
    }
    let put = |target, displacement| ("MPI_Put", target, displacement);
    // Ten bytes from 0 on, and from 8 or 16 on.
    assert!(conflict_between_fences(put(1, 0), put(1, 1)));
    assert!(!conflict_between_fences(put(1, 0), put(1, 2)));
    assert!(!conflict_between_fences(put(1, 0), put(0, 0)));
}

#[test]
fn operations_that_return_what_was_there_are_accumulations() {
    let conflict = |function: &str| {
        let mut job = Job::with_window();
        job.fence(&[0, 1, 2]);
        job.access_of(0, function, (1, 0), 8, 10);
        let operations = [
            ("MPI_Fetch_and_op", [0x100, 0x200, CHAR, 1, 0, 3], vec![WIN]),
            ("MPI_Compare_and_swap", [0x100, 0x200, 0x300, CHAR, 1, 0], vec![WIN]),
            ("MPI_Get_accumulate", [0x100, 8, CHAR, 0x200, 8, CHAR], vec![1, 0, 8, CHAR, 3, WIN]),
        ];
        for (line, (function, args, stack)) in (11..).zip(operations) {
            job.begin(2, function, args, line);
            let words: Vec<i32> = stack.iter().flat_map(|word| [*word as u32 as i32, 0]).collect();
            job.points(2, function, STACK_ARGUMENTS, false, &words);
            job.over(2, function, None);
        }
        let report = job.report();
        conflicts(&report).iter().map(|of| of.second.function.clone()).collect::<Vec<_>>()
    };
    assert_eq!(conflict("MPI_Put"), ["MPI_Compare_and_swap", "MPI_Fetch_and_op", "MPI_Get_accumulate"]);
    assert!(conflict("MPI_Accumulate").is_empty());
}

#[test]
fn a_long_access_is_found_behind_many_short_ones() {
    let conflict = |displacement| {
        let mut job = Job::with_window();
        job.fence(&[0, 1, 2]);
        job.access_of(0, "MPI_Put", (1, 0), 801, 10);
        for at in 0..500 {
            job.access_of(0, "MPI_Put", (1, 200 + at), 8, 11);
        }
        job.access_of(2, "MPI_Get", (1, displacement), 8, 12);
        let report = job.report();
        conflicts(&report).first().map(|found| (found.first.place.offset_bytes, found.len_bytes))
    };
    let at = |line: u64| 0x100 + 16 * line - 1;
    assert_eq!(conflict(100), Some((at(10), 1)));
    assert_eq!(conflict(101), None);
    assert_eq!(conflict(699), Some((at(11), 8)));
    assert_eq!(conflict(700), None);
}

#[test]
fn both_calls_are_told_with_whose_memory_it_is() {
    let mut job = Job::with_window();
    job.fence(&[0, 1, 2]);
    job.access(0, "MPI_Put", 1, 0, 10);
    job.access(2, "MPI_Get", 1, 1, 11);
    let report = job.report();
    let [found] = &conflicts(&report)[..] else { panic!("{:#?}", report.findings) };
    let at = |line: u64| 0x100 + 16 * line - 1;
    assert_eq!((&*found.first.function, found.first.place.offset_bytes), ("MPI_Put", at(10)));
    assert_eq!((&*found.second.function, found.second.place.offset_bytes), ("MPI_Get", at(11)));
    assert_eq!((found.len_bytes, found.offset_bytes, found.count), (2, 8, 1));
    let summary = &report.findings[0].summary;
    assert!(summary.contains("by rank 0 and MPI_Get") && summary.contains("memory of rank 1"), "{summary}");
    assert_eq!(report.findings[0].severity, Severity::Warning);
}

#[test]
fn a_fence_orders_what_comes_before_it_and_after_it_whoever_leaves_it_first() {
    for ranks in [[0, 1, 2], [2, 1, 0]] {
        let mut job = Job::with_window();
        job.fence(&ranks);
        job.access(0, "MPI_Put", 1, 0, 10);
        // Rank 2 goes on while rank 0 has not come out of the fence.
        job.begin(0, "MPI_Win_fence", [0, WIN, 0, 0, 0, 0], 2);
        job.fence(&[1, 2]);
        job.access(2, "MPI_Put", 1, 0, 11);
        job.over(0, "MPI_Win_fence", None);
        job.fence(&[1]);
        assert!(conflicts(&job.report()).is_empty());
    }
}

#[test]
fn shared_locks_order_nothing_and_exclusive_ones_do() {
    for (kind, is_conflict) in [(SHARED, true), (EXCLUSIVE, false)] {
        let mut job = Job::with_window();
        job.lock(0, 1, kind);
        job.access(0, "MPI_Put", 1, 0, 10);
        // An exclusive one may be had before the other one is seen to have given it back.
        job.begin(0, "MPI_Win_unlock", [1, WIN, 0, 0, 0, 0], 4);
        job.lock(2, 1, kind);
        job.access(2, "MPI_Put", 1, 0, 11);
        job.over(0, "MPI_Win_unlock", None);
        job.unlock(2, 1);
        assert_eq!(!conflicts(&job.report()).is_empty(), is_conflict, "{kind}");
    }
}

#[test]
fn an_access_is_over_when_it_was_flushed_or_its_target_unlocked() {
    let after = |between: &dyn Fn(&mut Job)| {
        let mut job = Job::with_window();
        for rank in [0, 2] {
            job.call(rank, "MPI_Win_lock_all", [0, WIN, 0, 0, 0, 0], 3, None);
        }
        job.access(0, "MPI_Put", 1, 0, 10);
        between(&mut job);
        job.access(2, "MPI_Get", 1, 0, 11);
        !conflicts(&job.report()).is_empty()
    };
    let call =
        |function: &'static str, args: [u64; 6]| after(&move |job| job.call(0, function, args, 5, None));
    assert!(after(&|_| {}));
    assert!(!call("MPI_Win_flush", [1, WIN, 0, 0, 0, 0]));
    assert!(!call("MPI_Win_flush_all", [WIN, 0, 0, 0, 0, 0]));
    assert!(!call("MPI_Win_unlock_all", [WIN, 0, 0, 0, 0, 0]));
    // Those of another target, and what is complete at its origin alone.
    assert!(call("MPI_Win_flush", [2, WIN, 0, 0, 0, 0]));
    assert!(call("MPI_Win_flush_local", [1, WIN, 0, 0, 0, 0]));
}

#[test]
fn a_ranks_own_accesses_are_in_no_order_until_it_waited_for_them() {
    let own = |flush: Option<&'static str>, first: &'static str| {
        let mut job = Job::with_window();
        job.lock(0, 1, EXCLUSIVE);
        job.access(0, first, 1, 0, 10);
        if let Some(flush) = flush {
            job.call(0, flush, [1, WIN, 0, 0, 0, 0], 5, None);
        }
        job.access(0, "MPI_Put", 1, 0, 11);
        !conflicts(&job.report()).is_empty()
    };
    assert!(own(None, "MPI_Put") && own(None, "MPI_Get"));
    assert!(!own(Some("MPI_Win_flush"), "MPI_Put"));
    assert!(own(Some("MPI_Win_flush_local"), "MPI_Put"));
    // What was got has been read.
    assert!(!own(Some("MPI_Win_flush_local"), "MPI_Get"));
}

#[test]
fn nothing_is_said_once_a_call_was_missed() {
    let mut job = Job::with_window();
    job.fence(&[0, 1, 2]);
    job.access(0, "MPI_Put", 1, 0, 10);
    job.t.lose_calls(2, 1);
    job.access(2, "MPI_Put", 1, 0, 11);
    assert!(conflicts(&job.report()).is_empty());
}

#[test]
fn the_memory_that_an_operation_uses_is_its_own_until_the_epoch_ends() {
    let found = |function: &'static str, user: &'static str, is_over: bool| {
        let mut job = Job::with_window();
        job.fence(&[0, 1, 2]);
        job.access_from(0, function, 0x9000, 0, 10);
        if is_over {
            job.fence(&[0, 1, 2]);
        }
        match user {
            "MPI_Put" | "MPI_Get" => job.access_from(0, user, 0x9000, 5, 11),
            _ => job.call(0, user, [0x9000, 10, CHAR, 1, TAG, WORLD], 11, None),
        }
        buffers(&job.report()).iter().map(|(severity, _)| *severity).collect::<Vec<_>>()
    };
    let warning = [Severity::Warning];
    assert_eq!(found("MPI_Get", "MPI_Send", false), warning);
    assert_eq!(found("MPI_Get", "MPI_Put", false), warning);
    assert_eq!(found("MPI_Put", "MPI_Recv", false), warning);
    assert_eq!(found("MPI_Put", "MPI_Get", false), warning);
    assert_eq!(found("MPI_Put", "MPI_Send", false), []);
    for user in ["MPI_Send", "MPI_Put", "MPI_Recv", "MPI_Get"] {
        assert_eq!(found("MPI_Get", user, true), [], "{user}");
    }
}

/// Where rank 1's part of the window is, and how it uses that: ten bytes from byte 4 on.
const MEMORY: u64 = 0x8000;

/// What is said of an operation of rank 0 and a message or operation of rank 1, which uses memory that is in its own window.
fn with_own_use(
    before: impl Fn(&mut Job),
    operation: &str,
    own: &str,
    between: impl Fn(&mut Job),
) -> Vec<AccessConflict> {
    let mut job = Job::with_window();
    before(&mut job);
    job.access(0, operation, 1, 0, 10);
    between(&mut job);
    match own {
        "MPI_Put" | "MPI_Get" => {
            job.begin(1, own, [MEMORY + 4, 10, CHAR, 2, 50, 10], 11);
            job.points(1, own, STACK_ARGUMENTS, false, &[CHAR as i32, 0, WIN as u32 as i32, 0]);
            job.over(1, own, None);
        }
        _ => job.call(1, own, [MEMORY + 4, 10, CHAR, 2, TAG, WORLD], 11, None),
    }
    conflicts(&job.report())
}

#[test]
fn a_rank_uses_its_own_memory_while_others_access_it() {
    let fences = |job: &mut Job| job.fence(&[0, 1, 2]);
    for (operation, own, is_conflict) in [
        ("MPI_Put", "MPI_Send", true),
        ("MPI_Put", "MPI_Recv", true),
        ("MPI_Get", "MPI_Send", false),
        ("MPI_Get", "MPI_Recv", true),
        ("MPI_Accumulate", "MPI_Send", true),
        ("MPI_Put", "MPI_Put", true),
        ("MPI_Get", "MPI_Put", false),
        ("MPI_Get", "MPI_Get", true),
    ] {
        let found = with_own_use(fences, operation, own, |_| {});
        let calls: Vec<_> = found.iter().map(|of| (&*of.first.function, &*of.second.function)).collect();
        let expected = if is_conflict { vec![(operation, own)] } else { Vec::new() };
        assert_eq!(calls, expected, "{operation} {own}");
        for of in &found {
            assert_eq!((of.offset_bytes, of.len_bytes), (4, 6), "{of:?}");
            assert_eq!(of.targets, of.second_ranks, "{of:?}");
        }
        assert!(with_own_use(fences, operation, own, fences).is_empty(), "{operation} {own}");
    }
}

#[test]
fn a_rank_that_came_out_of_a_fence_before_another_uses_its_memory_as_it_may() {
    let first_out = |job: &mut Job| {
        job.begin(0, "MPI_Win_fence", [0, WIN, 0, 0, 0, 0], 2);
        job.fence(&[1, 2]);
    };
    assert!(with_own_use(|job| job.fence(&[0, 1, 2]), "MPI_Put", "MPI_Send", first_out).is_empty());
}

#[test]
fn a_rank_that_takes_no_lock_on_its_own_memory_is_in_no_order_with_those_that_do() {
    let locked = |kind: u64| move |job: &mut Job| job.lock(0, 1, kind);
    let own_lock = |kind: u64| move |job: &mut Job| job.lock(1, 1, kind);
    for kind in [SHARED, EXCLUSIVE] {
        assert_eq!(with_own_use(locked(kind), "MPI_Put", "MPI_Recv", |_| {}).len(), 1, "{kind}");
        assert!(with_own_use(locked(kind), "MPI_Put", "MPI_Recv", |job| job.unlock(0, 1)).is_empty());
        // That it has the lock says that the other one has given it back.
        assert!(with_own_use(locked(kind), "MPI_Put", "MPI_Recv", own_lock(EXCLUSIVE)).is_empty());
    }
    assert_eq!(with_own_use(locked(SHARED), "MPI_Put", "MPI_Recv", own_lock(SHARED)).len(), 1);
}

#[test]
fn what_a_rank_does_with_its_own_memory_is_over_when_its_call_or_request_is() {
    let found = |own: &dyn Fn(&mut Job)| {
        let mut job = Job::with_window();
        job.fence(&[0, 1, 2]);
        own(&mut job);
        job.access(0, "MPI_Put", 1, 0, 10);
        conflicts(&job.report()).iter().map(|of| of.first.function.clone()).collect::<Vec<_>>()
    };
    let begin = |job: &mut Job| {
        job.begin(1, "MPI_Irecv", [MEMORY, 10, CHAR, 2, TAG, WORLD], 11);
        job.points(1, "MPI_Irecv", 6, false, &[POINTER as i32, 0]);
        job.over(1, "MPI_Irecv", Some((6, 0xc0)));
    };
    assert_eq!(found(&begin), ["MPI_Irecv"]);
    assert!(
        found(&|job| {
            begin(job);
            job.with_request(1, "MPI_Wait", 0xc0);
        })
        .is_empty()
    );
    assert!(found(&|job| job.call(1, "MPI_Recv", [MEMORY, 10, CHAR, 2, TAG, WORLD], 11, None)).is_empty());
    // While it waits for a message.
    assert_eq!(found(&|job| job.begin(1, "MPI_Recv", [MEMORY, 10, CHAR, 2, TAG, WORLD], 11)), ["MPI_Recv"]);
    // Memory beside the window.
    assert!(found(&|job| job.begin(1, "MPI_Recv", [MEMORY + 800, 10, CHAR, 2, TAG, WORLD], 11)).is_empty());
    // Once the request may have been completed.
    assert!(
        found(&|job| {
            begin(job);
            job.begin(1, "MPI_Wait", [POINTER, 0, 0, 0, 0, 0], 40);
            job.call(1, "MPI_Barrier", [WORLD, 0, 0, 0, 0, 0], 12, None);
        })
        .is_empty()
    );
}
