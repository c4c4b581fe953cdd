//! Collective calls that do not match are told when they are made, whether or not anybody hangs in them; right programs
//! are left alone. The library is MPICH.

#[path = "../common/mod.rs"]
mod common;
mod entries;

use analyzer::finding::{Alert, Evidence, Fault, Finding, Report, Severity, StuckRank, Verdict, WhoCount};
use analyzer::input::{Coverage, Input};
use analyzer::plan::ProbeClass;
use analyzer::wire::Body;
use common::PROGRAM_AT;
use common::calls::{Job, POINTER, WORLD};
use entries::*;

#[test]
fn a_mismatch_that_the_library_survives_is_told_with_all_calls_and_places() {
    let mut job = Entries::begun(4);
    (0..4).for_each(|rank| job.barrier(rank));
    (0..4).for_each(|rank| job.broadcast(rank, 8, INT, u64::from(rank == 2), WORLD));
    (0..4).for_each(|rank| job.barrier(rank));
    (0..4).for_each(|rank| job.enter(rank, "MPI_Finalize", [0; 6], 50));
    let report = job.report();
    assert_eq!(told(&report), [("MPI_COMM_WORLD".to_owned(), 2, vec![2])]);
    let finding = &report.findings[0];
    assert_eq!((finding.severity, finding.verdict), (Severity::Warning, Verdict::Violated));
    assert_eq!(finding.who.iter().map(number).collect::<Vec<_>>(), [2]);
    assert_eq!(
        finding.summary,
        "Collective mismatch on MPI_COMM_WORLD: collective call number 2 on it is rank 2 in MPI_Bcast(root 1, count 8, \
         bytes 32, datatype integer) called at job+0x11f, but ranks 0-1, 3 in MPI_Bcast(root 0, count 8, bytes 32, datatype \
         integer) called at job+0x11f."
    );
    assert_eq!(serde_json::to_value(finding).expect("JSON")["evidence"]["kind"], "collective_mismatch");
}

#[test]
fn it_is_told_while_the_job_runs_and_once() {
    let mut job = Entries::begun(3);
    (0..3).for_each(|rank| job.broadcast(rank, 8, INT, u64::from(rank == 2), WORLD));
    job.0.t.tick();
    for _ in 0..100 {
        (0..3).for_each(|rank| job.barrier(rank));
        job.0.t.tick();
    }
    let (alerts, _) = job.alerts();
    assert_eq!(alerts.len(), 1);
    assert!(matches!(&alerts[0], Alert::Raised(finding) if finding.id == "collective-mismatch-0-1"));
}

#[test]
fn operations_lengths_kinds_of_elements_and_forms_must_be_the_same() {
    let reduce = |job: &mut Entries, rank: u32, count, datatype, op| {
        job.enter(rank, "MPI_Allreduce", [0x1000, 0x2000, count, datatype, op, WORLD], 5);
    };
    for odd in [(8, INT, MAX), (4, INT, SUM), (8, DOUBLE, SUM), (8, FLOAT, SUM), (4, DOUBLE, SUM)] {
        let mut job = Entries::begun(3);
        reduce(&mut job, 0, 8, INT, SUM);
        reduce(&mut job, 1, odd.0, odd.1, odd.2);
        reduce(&mut job, 2, 8, INT, SUM);
        assert_eq!(told(&job.report()), [("MPI_COMM_WORLD".to_owned(), 1, vec![1])], "{odd:x?}");
    }
    // Longer elements of the same kind, and bytes; types and operations that the program made.
    for same in [(4, LONG, SUM), (32, BYTE, SUM), (3, 0x8c00_0000, SUM), (8, INT, 0x9800_0000)] {
        let mut job = Entries::begun(3);
        reduce(&mut job, 0, 8, INT, SUM);
        reduce(&mut job, 1, same.0, same.1, same.2);
        reduce(&mut job, 2, 8, INT, SUM);
        assert_eq!(told(&job.report()), [], "{same:x?}");
    }
    let mut job = Entries::begun(3);
    job.barrier(0);
    job.enter(1, "MPI_Ibarrier", [WORLD, POINTER, 0, 0, 0, 0], 6);
    job.barrier(2);
    assert_eq!(told(&job.report()), [("MPI_COMM_WORLD".to_owned(), 1, vec![1])]);
}

#[test]
fn all_ranks_or_none_give_mpi_in_place_where_the_standard_demands_it() {
    const IN_PLACE: u64 = u64::MAX;
    /// Rank 1 alone gives MPI_IN_PLACE, or all do.
    fn run(function: &str, args: [u64; 6], stack: &[u64], is_alone: bool) -> Report {
        let mut job = Entries::begun(3);
        for rank in 0..3 {
            let sent = if is_alone && rank != 1 { args[0] + u64::from(rank) } else { IN_PLACE };
            let [_, b, c, d, e, f] = args;
            job.enter_with(rank, function, [sent, b, c, d, e, f], stack);
        }
        job.report()
    }
    let reduce = [0x1000, 0x2000, 8, INT, SUM, WORLD];
    let to_all = [0x1000, 8, INT, 0x2000, 8, INT];
    let of_sizes = [0x1000, 0x3000, 0x3100, INT, 0x2000, 0x3200];
    for (function, args, stack) in [
        ("MPI_Allreduce", reduce, &[][..]),
        ("MPI_Iallreduce", reduce, &[POINTER]),
        ("MPI_Reduce_scatter_block", reduce, &[]),
        ("MPI_Allgather", to_all, &[WORLD]),
        ("MPI_Allgatherv", [0x1000, 8, INT, 0x2000, 0x3000, 0x3100], &[INT, WORLD]),
        ("MPI_Alltoall", to_all, &[WORLD]),
        ("MPI_Alltoallv", of_sizes, &[0x3300, INT, WORLD]),
        ("MPI_Alltoallw", of_sizes, &[0x3300, 0x3400, WORLD]),
    ] {
        let report = run(function, args, stack, true);
        assert_eq!(told(&report), [("MPI_COMM_WORLD".to_owned(), 1, vec![1])], "{function}");
        assert!(report.findings[0].summary.contains("rank 1 in MPI_"), "{}", report.findings[0].summary);
        let arguments = &mismatches(&report)[0].ranks[1].call.arguments;
        assert_eq!(arguments[0], ("sendbuf".to_owned(), "MPI_IN_PLACE".to_owned()), "{function}");
        assert_eq!(told(&run(function, args, stack, false)), [], "{function}");
    }
    // Each rank may choose, or only the root has the choice.
    for (function, args, stack) in [
        ("MPI_Scan", reduce, &[][..]),
        ("MPI_Exscan", reduce, &[]),
        ("MPI_Reduce_scatter", reduce, &[]),
        ("MPI_Reduce", [0x1000, 0x2000, 8, INT, SUM, 1], &[WORLD]),
        ("MPI_Gather", to_all, &[1, WORLD]),
    ] {
        assert_eq!(told(&run(function, args, stack, true)), [], "{function}");
    }
}

#[test]
fn what_ranks_give_or_get_must_be_of_one_kind() {
    /// Rank 1 alone gives floats, with these arguments but for the type at `at`.
    fn run(function: &str, mut args: [u64; 6], at: usize, stack: &[u64], odd: u64) -> Report {
        let mut job = Entries::begun(3);
        for rank in 0..3 {
            args[at] = if rank == 1 { odd } else { INT };
            job.enter_with(rank, function, args, stack);
        }
        job.report()
    }
    let to_all = [0x1000, 8, INT, 0x2000, 8, INT];
    for (function, args, at, stack) in [
        ("MPI_Gather", to_all, 2, &[0, WORLD][..]),
        ("MPI_Gatherv", [0x1000, 8, INT, 0x2000, 0x3000, 0x3100], 2, &[INT, 0, WORLD]),
        ("MPI_Scatter", to_all, 5, &[0, WORLD]),
        ("MPI_Allgather", to_all, 2, &[WORLD]),
        ("MPI_Ialltoall", to_all, 2, &[WORLD, POINTER]),
    ] {
        let report = run(function, args, at, stack, FLOAT);
        assert_eq!(told(&report), [("MPI_COMM_WORLD".to_owned(), 1, vec![1])], "{function}");
        let arguments = &mismatches(&report)[0].ranks[1].call.arguments;
        assert!(arguments.contains(&("datatype".to_owned(), "floating-point".to_owned())), "{arguments:?}");
        assert_eq!(told(&run(function, args, at, stack, LONG)), [], "{function}");
        // Who has nothing to give may say anything.
        let mut nothing = args;
        nothing[at - 1] = 0;
        assert_eq!(told(&run(function, nothing, at, stack, FLOAT)), [], "{function}");
        // The type of what is in place already is not looked at.
        let mut in_place = args;
        in_place[at - 2] = u64::MAX;
        assert_eq!(told(&run(function, in_place, at, stack, FLOAT)), [], "{function}");
    }
    // Neighbours agree with each other, not with everybody.
    assert_eq!(told(&run("MPI_Neighbor_allgather", to_all, 2, &[WORLD], FLOAT)), []);
}

#[test]
fn communicators_on_the_stack_are_read_from_there() {
    let reduce = |job: &mut Entries, rank: u32, root: u64| {
        job.enter_with(rank, "MPI_Reduce", [0x1000, 0x2000, 8, INT, SUM, root], &[WORLD]);
    };
    let gather = |job: &mut Entries, rank: u32, root: u64| {
        job.enter_with(rank, "MPI_Gather", [0x1000, 8, INT, 0x2000, 8, INT], &[root, WORLD]);
    };
    let mut job = Entries::begun(3);
    (0..3).for_each(|rank| reduce(&mut job, rank, 0));
    (0..3).for_each(|rank| gather(&mut job, rank, u64::from(rank == 1)));
    assert_eq!(told(&job.report()), [("MPI_COMM_WORLD".to_owned(), 2, vec![1])]);
    // Without them it may have been any communicator.
    let mut job = Entries::begun(3);
    (0..3).for_each(|rank| job.enter(rank, "MPI_Reduce", [0x1000, 0x2000, 8, INT, SUM, 0], 7));
    (0..3).for_each(|rank| job.broadcast(rank, 8, INT, rank.into(), WORLD));
    assert_eq!(told(&job.report()), []);
}

#[test]
fn a_rank_that_dies_of_an_error_in_a_call_that_does_not_match_is_told_with_the_mismatch() {
    const TRUNCATED: u64 = 0x0800_000e;
    const SIGKILL: u32 = 9;
    let mut job = Entries::begun(3);
    (0..3).for_each(|rank| job.broadcast(rank, if rank == 1 { 4 } else { 8 }, INT, 0, WORLD));
    let probe = job.0.t.probe("MPIR_Err_return_comm", ProbeClass::Error);
    let args = [TRUNCATED, u64::from_le_bytes(*b"MPI_Bcas"), u64::from(b't'), 0, 0, 0];
    let return_address = PROGRAM_AT + 0x100 + 16 * 2;
    job.0.t.record(1, probe, Body::Call { return_address, args, nested: true });
    for rank in [0, 2, 1] {
        job.0.t.record(rank, 0, Body::Exit { status: SIGKILL, at: 0 });
        job.0.t.tick();
    }
    let (alerts, report) = job.alerts();
    assert!(matches!(&alerts[..], [Alert::Raised(_)]), "{alerts:#?}");
    assert_eq!((told(&report), hangs(&report)), (vec![("MPI_COMM_WORLD".to_owned(), 1, vec![1])], vec![]));
    let finding = &report.findings[0];
    assert_eq!((finding.severity, finding.verdict), (Severity::Warning, Verdict::Violated));
    let death = mismatches(&report)[0].death.as_ref().expect("a rank died in it");
    let at_fault = death.ranks.iter().filter(|rank| rank.at_fault).map(|rank| number(&rank.who));
    assert_eq!((death.fault, at_fault.collect::<Vec<_>>()), (Fault::MismatchedCollective, vec![1]));
    assert!(
        finding.summary.ends_with(
            "called at job+0x11f; rank 1 was killed by SIGKILL in it, which reported MPI_ERR_TRUNCATE."
        ),
        "{}",
        finding.summary
    );
    // In another call it is a finding of its own.
    let mut job = Entries::begun(3);
    (0..3).for_each(|rank| job.broadcast(rank, if rank == 1 { 4 } else { 8 }, INT, 0, WORLD));
    job.enter(1, "MPI_Bcast", [0x1000, 8, INT, 0, WORLD, 0], 30);
    let probe = job.0.t.probe("MPIR_Err_return_comm", ProbeClass::Error);
    let return_address = PROGRAM_AT + 0x100 + 16 * 30;
    job.0.t.record(1, probe, Body::Call { return_address, args, nested: true });
    job.0.t.record(1, 0, Body::Exit { status: SIGKILL, at: 0 });
    let report = job.report();
    assert_eq!(told(&report), [("MPI_COMM_WORLD".to_owned(), 1, vec![1])]);
    assert_eq!(hangs(&report), [(Fault::MismatchedCollective, vec![0, 1])]);
}

#[test]
fn as_many_on_each_side_are_both_named() {
    let mut job = Entries::begun(2);
    (0..2).for_each(|rank| job.broadcast(rank, 8, INT, rank.into(), WORLD));
    let report = job.report();
    assert_eq!(told(&report), [("MPI_COMM_WORLD".to_owned(), 1, vec![1])]);
    assert_eq!(report.findings[0].who.iter().map(number).collect::<Vec<_>>(), [0, 1]);
    assert!(mismatches(&report)[0].is_tie);
}

#[test]
fn a_rank_that_skips_a_call_is_told_of_where_the_others_wait_for_it() {
    let mut job = Entries::begun(3);
    (0..3).for_each(|rank| job.barrier(rank));
    job.barrier(0);
    job.barrier(1);
    job.enter(2, "MPI_Finalize", [0; 6], 50);
    let barrier = || ("MPI_Barrier", vec![WORLD], 1);
    let report = job.hang(12, &[barrier(), barrier(), ("MPI_Finalize", vec![], 50)]);
    assert_eq!(told(&report), [("MPI_COMM_WORLD".to_owned(), 2, vec![2])]);
    // One fault is one finding.
    assert_eq!(hangs(&report), []);
    let hang = mismatches(&report)[0].hang.as_ref().expect("it hangs");
    assert_eq!(hang.fault, Fault::MismatchedCollective);
    let stuck = |rank: &StuckRank| (number(&rank.who), rank.at_fault);
    assert_eq!(hang.ranks.iter().map(stuck).collect::<Vec<_>>(), [(2, true), (0, false), (1, false)]);
    assert_eq!(
        (hang.collectives[0].comm.as_str(), hang.collectives[0].differ_at),
        ("MPI_COMM_WORLD", Some(2))
    );
    assert!(report.findings[0].summary.ends_with("; the job hangs in it."), "{}", report.findings[0].summary);
}

#[test]
fn a_barrier_against_a_nonblocking_one_that_is_waited_for_is_one_finding() {
    let mut job = Entries::begun(2);
    job.barrier(0);
    job.enter(1, "MPI_Ibarrier", [WORLD, POINTER, 0, 0, 0, 0], 6);
    job.made(1, "MPI_Ibarrier", REQUEST);
    job.enter(1, "MPI_Wait", [POINTER, 0, 0, 0, 0, 0], 8);
    let report = job.hang(12, &[("MPI_Barrier", vec![WORLD], 1), ("MPI_Wait", vec![POINTER, 0], 8)]);
    assert_eq!(told(&report), [("MPI_COMM_WORLD".to_owned(), 1, vec![1])]);
    assert_eq!(hangs(&report), []);
    assert!(mismatches(&report)[0].hang.is_some());
}

#[test]
fn who_waits_for_a_nonblocking_collective_waits_for_those_who_have_not_started_it() {
    // Ranks 0 and 1 have started it; rank 2 waits for a message of rank 0 before it would.
    let ibarrier = |job: &mut Entries, rank: u32| {
        job.enter(rank, "MPI_Ibarrier", [WORLD, POINTER, 0, 0, 0, 0], 6);
        job.made(rank, "MPI_Ibarrier", REQUEST);
        job.enter(rank, "MPI_Wait", [POINTER, 0, 0, 0, 0, 0], 8);
    };
    let wait = || ("MPI_Wait", vec![POINTER, 0], 8);
    let receive = ("MPI_Recv", vec![0x1000, 1, INT, 0, 3, WORLD, 0], 9);
    let mut job = Entries::begun(3);
    ibarrier(&mut job, 0);
    ibarrier(&mut job, 1);
    let report = job.hang(12, &[wait(), wait(), receive.clone()]);
    assert_eq!(hangs(&report), [(Fault::MissingMessage, vec![0, 2])]);
    let Evidence::Hang(hang) = &report.findings[0].evidence else { panic!("{report:#?}") };
    let of_one = hang.ranks.iter().find(|rank| number(&rank.who) == 1).expect("it waits as well");
    assert_eq!(of_one.waits_for.iter().map(number).collect::<Vec<_>>(), [2]);
    // If all have started it, nobody waits for anybody: why they do not go on is not known.
    let mut job = Entries::begun(3);
    (0..3).for_each(|rank| ibarrier(&mut job, rank));
    let report = job.hang(12, &[wait(), wait(), receive]);
    assert_eq!(hangs(&report), [(Fault::UnknownHang, vec![0, 1, 2])]);
}

/// Of the first communicator of the first hang: entered, completed and not known, by rank.
fn progress(report: &Report) -> Vec<(u64, u64, u64)> {
    let hang = report.findings.iter().find_map(Finding::hang).expect("a hang");
    let counts = &hang.collectives[0];
    let of = |all: &[WhoCount], who| all.iter().find(|one| one.who == who).map_or(0, |one| one.count);
    let entered = counts.entered.iter();
    entered.map(|one| (one.count, of(&counts.completed, one.who), of(&counts.unknown, one.who))).collect()
}

#[test]
fn a_hang_says_how_many_collective_calls_each_rank_has_entered_and_completed() {
    // Rank 0 is in its third barrier; rank 1 has left its second one, as another call tells; rank 2 skips it.
    // The same where of calls that are not collective nothing is followed.
    let mut entries_only = Entries(Job::new(3));
    entries_only.0.t.probe("MPI_Barrier", ProbeClass::Call);
    (0..3).for_each(|rank| entries_only.enter(rank, "MPI_Init", [0; 6], 0));
    for mut job in [Entries::begun(3), entries_only] {
        for rank in 0..3 {
            job.barrier(rank);
            job.barrier(rank);
        }
        job.barrier(0);
        job.enter(1, "MPI_Recv", [0x1000, 1, INT, 0, 3, WORLD], 9);
        job.enter(2, "MPI_Finalize", [0; 6], 50);
        let receive = ("MPI_Recv", vec![0x1000, 1, INT, 0, 3, WORLD, 0], 9);
        let report = job.hang(12, &[("MPI_Barrier", vec![WORLD], 1), receive, ("MPI_Finalize", vec![], 50)]);
        assert_eq!(progress(&report), [(3, 2, 0), (2, 2, 0), (3, 2, 0)]);
    }
    // Of requests nothing is recorded here: those whose handle was given out again are complete, the last may be.
    let mut job = Entries::begun(2);
    for _ in 0..3 {
        job.enter(1, "MPI_Ibarrier", [WORLD, POINTER, 0, 0, 0, 0], 6);
        job.made(1, "MPI_Ibarrier", REQUEST);
        job.enter(1, "MPI_Wait", [POINTER, 0, 0, 0, 0, 0], 8);
    }
    job.enter(1, "MPI_Recv", [0x1000, 1, INT, 0, 3, WORLD], 9);
    job.enter(0, "MPI_Ibarrier", [WORLD, POINTER, 0, 0, 0, 0], 6);
    job.made(0, "MPI_Ibarrier", REQUEST);
    job.barrier(0);
    let receive = ("MPI_Recv", vec![0x1000, 1, INT, 0, 3, WORLD, 0], 9);
    let report = job.hang(12, &[("MPI_Barrier", vec![WORLD], 1), receive]);
    assert_eq!(progress(&report), [(2, 0, 1), (3, 2, 1)]);
    let text = analyzer::render::report(&report, analyzer::render::Style::default());
    assert!(text.contains("rank 0 entered 2 collective calls and completed 0 (not known of 1)"), "{text}");
}

#[test]
fn collectives_on_two_communicators_in_another_order_are_found() {
    let mut job = Entries::begun(2);
    job.duplicate(|_| WORLD, |rank| DUP + u64::from(rank));
    let barrier = |rank: u32| if rank == 0 { WORLD } else { DUP + 1 };
    (0..2).for_each(|rank| job.enter(rank, "MPI_Barrier", [barrier(rank), 0, 0, 0, 0, 0], 1));
    let report = job.hang(12, &[("MPI_Barrier", vec![WORLD], 1), ("MPI_Barrier", vec![DUP + 1], 1)]);
    assert_eq!(told(&report), []);
    assert_eq!(hangs(&report), [(Fault::MismatchedCollective, vec![0, 1])]);
    assert!(
        report.findings[0].summary.contains("MPI_Barrier(comm number 1 of 2 ranks)"),
        "{}",
        report.findings[0].summary
    );
}

#[test]
fn calls_on_windows_are_held_against_each_other_until_the_window_is_freed() {
    let made = |job: &mut Entries, comm: u64, window: u64| {
        for rank in 0..3 {
            let handle = Some((5, window + 8 * u64::from(rank)));
            job.0.call(rank, "MPI_Win_create", [0x1000, 64, 1, 0, comm, POINTER], 3, handle);
        }
    };
    let fence = |job: &mut Entries, rank: u32, window: u64| {
        job.enter(rank, "MPI_Win_fence", [0, window + 8 * u64::from(rank), 0, 0, 0, 0], 5);
    };
    let free = |job: &mut Entries, rank: u32, window: u64| {
        job.0.begin(rank, "MPI_Win_free", [POINTER, 0, 0, 0, 0, 0], 6);
        job.0.points(rank, "MPI_Win_free", 0, false, &[(window + 8 * u64::from(rank)) as i32]);
        job.0.over(rank, "MPI_Win_free", None);
    };
    let (one, other) = (0xa000_0001, 0xa000_0002);
    let mut job = Entries::begun(3);
    job.duplicate(|_| WORLD, |_| DUP);
    for round in 0..40 {
        // Handles swap their meaning from round to round.
        let (first, second) = if round % 2 == 0 { (one, other) } else { (other, one) };
        made(&mut job, WORLD, first);
        made(&mut job, DUP, second);
        (0..3).for_each(|rank| fence(&mut job, rank, first));
        (0..3).for_each(|rank| free(&mut job, rank, first));
        (0..3).for_each(|rank| free(&mut job, rank, second));
    }
    // A rank that frees one where the others have one more fence.
    made(&mut job, WORLD, one);
    (0..3).for_each(|rank| fence(&mut job, rank, one));
    fence(&mut job, 0, one);
    free(&mut job, 1, one);
    fence(&mut job, 2, one);
    let report = job.report();
    assert_eq!(told(&report), [("window number 82 of 3 ranks".to_owned(), 2, vec![1])]);
    let summary = &report.findings[0].summary;
    assert!(summary.starts_with("Collective mismatch on window number 82 of 3 ranks: "), "{summary}");
    assert!(summary.contains("rank 1 in MPI_Win_free"), "{summary}");
}

#[test]
fn ranks_that_are_late_or_work_in_parts_of_the_job_are_left_alone() {
    let mut job = Entries::begun(4);
    // Two halves, with the same handle; each at its own work and pace.
    let split = |rank: u32| [WORLD, u64::from(rank / 2), 0, POINTER, 0, 0];
    (0..4).for_each(|rank| job.0.begin(rank, "MPI_Comm_split", split(rank), 3));
    (0..4).for_each(|rank| job.0.over(rank, "MPI_Comm_split", Some((3, OTHER))));
    for round in 0..200 {
        for rank in 0..2 {
            job.broadcast(rank, round, INT, 1, OTHER);
        }
        for rank in [0, 2, 3] {
            job.barrier(rank);
            job.broadcast(rank, 3, INT, 0, WORLD);
        }
    }
    for _ in 0..200 {
        job.enter(2, "MPI_Barrier", [OTHER, 0, 0, 0, 0, 0], 12);
        job.barrier(1);
        job.broadcast(1, 3, INT, 0, WORLD);
    }
    assert_eq!(told(&job.report()), []);
}

#[test]
fn communicators_and_handles_that_are_used_again_are_others() {
    let mut job = Entries::begun(2);
    for round in 0..50u64 {
        // Handles swap their meaning from round to round.
        let handle = |n: u64, rank: u32| DUP + (n + round * u64::from(rank)) % 2;
        job.duplicate(|_| WORLD, |rank| handle(0, rank));
        job.duplicate(|_| WORLD, |rank| handle(1, rank));
        for rank in 0..2 {
            job.broadcast(rank, 1, INT, 0, handle(0, rank));
            job.enter(rank, "MPI_Barrier", [handle(1, rank), 0, 0, 0, 0, 0], 1);
        }
        for rank in 0..2 {
            job.free(rank, handle(0, rank));
            job.free(rank, handle(1, rank));
        }
    }
    assert_eq!(told(&job.report()), []);
    // One that frees what the other still uses is told.
    let mut job = Entries::begun(2);
    job.duplicate(|_| WORLD, |_| DUP);
    job.free(0, DUP);
    job.broadcast(1, 1, INT, 0, DUP);
    assert_eq!(told(&job.report()), [("number 1 of 2 ranks".to_owned(), 1, vec![1])]);
}

#[test]
fn nonblocking_calls_that_overlap_are_held_against_each_other_in_the_order_of_their_starts() {
    let ibcast = |job: &mut Entries, rank: u32, root: u64| {
        job.enter(rank, "MPI_Ibcast", [0x1000, 8, INT, root, WORLD, POINTER], 2);
        job.made(rank, "MPI_Ibcast", REQUEST + root);
    };
    let mut job = Entries::begun(2);
    for _ in 0..10 {
        ibcast(&mut job, 0, 0);
        ibcast(&mut job, 0, 1);
        job.enter(0, "MPI_Waitall", [2, POINTER, 0, 0, 0, 0], 8);
        ibcast(&mut job, 1, 0);
        job.enter(1, "MPI_Wait", [POINTER, 0, 0, 0, 0, 0], 8);
        ibcast(&mut job, 1, 1);
    }
    assert_eq!(told(&job.report()), []);
    let mut job = Entries::begun(2);
    ibcast(&mut job, 0, 0);
    ibcast(&mut job, 0, 1);
    ibcast(&mut job, 1, 1);
    ibcast(&mut job, 1, 0);
    assert_eq!(told(&job.report()), [("MPI_COMM_WORLD".to_owned(), 1, vec![1])]);
}

#[test]
fn roots_of_an_intercommunicator_are_seen_from_two_sides() {
    let (root, nobody) = (-3i32 as u32 as u64, -1i32 as u32 as u64);
    let mut job = Entries::begun(4);
    let split = |rank: u32| [WORLD, u64::from(rank / 2), 0, POINTER, 0, 0];
    (0..4).for_each(|rank| job.0.begin(rank, "MPI_Comm_split", split(rank), 3));
    (0..4).for_each(|rank| job.0.over(rank, "MPI_Comm_split", Some((3, OTHER))));
    let bridge = |rank: u32| [OTHER, 0, WORLD, if rank < 2 { 2 } else { 0 }, 9, POINTER];
    (0..4).for_each(|rank| job.0.begin(rank, "MPI_Intercomm_create", bridge(rank), 4));
    (0..4).for_each(|rank| job.0.over(rank, "MPI_Intercomm_create", Some((5, DUP))));
    for (rank, root) in (0..).zip([root, nobody, 0, 0]) {
        job.broadcast(rank, 8, INT, root, DUP);
    }
    // All are known to be in one communicator.
    job.enter(0, "MPI_Barrier", [DUP, 0, 0, 0, 0, 0], 1);
    job.enter(3, "MPI_Ibarrier", [DUP, 0, 0, 0, 0, 0], 1);
    let told = told(&job.report());
    assert_eq!(told.iter().map(|(_, at, wrong)| (*at, wrong.clone())).collect::<Vec<_>>(), [(2, vec![3])]);
}

#[test]
fn what_was_not_all_seen_accuses_nobody() {
    let different = |job: &mut Entries| {
        (0..3).for_each(|rank| job.broadcast(rank, 8, INT, rank.into(), WORLD));
    };
    // Attached to when the job was under way.
    let mut job = Entries(Job::new(3));
    different(&mut job);
    assert_eq!(told(&job.report()), []);
    // Records of one rank were lost: the others are still compared.
    let mut job = Entries::begun(3);
    job.0.t.lose_calls(1, 5);
    job.broadcast(0, 8, INT, 0, WORLD);
    job.broadcast(1, 8, INT, 1, WORLD);
    job.broadcast(2, 8, INT, 0, WORLD);
    assert_eq!(told(&job.report()), []);
    let mut job = Entries::begun(3);
    job.0.t.lose_calls(1, 5);
    different(&mut job);
    assert_eq!(told(&job.report()), [("MPI_COMM_WORLD".to_owned(), 1, vec![2])]);
    // A pause.
    let mut job = Entries::begun(3);
    job.barrier(0);
    for paused in [true, false] {
        let time_ns = job.0.t.now_ns;
        job.0.t.inputs.push(Input::Coverage(Box::new(Coverage { time_ns, paused, ..Coverage::default() })));
    }
    different(&mut job);
    assert_eq!(told(&job.report()), []);
}

/// Made in the same order by all, they may be started in any (MPI 4.0, section 6.13).
#[test]
fn persistent_calls_are_compared_when_they_are_made_and_not_when_they_are_started() {
    let started = |made_swapped: bool, swapped: bool| {
        let mut job = Job::begun(2);
        for rank in 0..2 {
            let mut calls = [("MPI_Barrier_init", REQUEST), ("MPI_Bcast_init", REQUEST + 1)];
            if made_swapped && rank == 1 {
                calls.reverse();
            }
            for (function, request) in calls {
                let args = if request == REQUEST {
                    [WORLD, 0x1c00_0000, POINTER, 0, 0, 0]
                } else {
                    [0x1000, 8, INT, 0, WORLD, 0x1c00_0000]
                };
                job.begin(rank, function, args, 6);
                let at = if request == REQUEST { 2 } else { 6 };
                job.over(rank, function, Some((at, request)));
            }
            for n in 0..2 {
                let first = n == u64::from(swapped && rank == 1);
                job.with_request(rank, "MPI_Start", if first { REQUEST } else { REQUEST + 1 });
            }
        }
        told(&job.report())
    };
    assert_eq!(started(false, false), []);
    assert_eq!(started(false, true), []);
    assert_eq!(started(true, true), [("MPI_COMM_WORLD".to_owned(), 1, vec![1])]);
}

#[test]
fn results_of_calls_tell_what_a_request_stands_for_where_the_library_does_not() {
    let mut job = Job::begun(2);
    job.call(1, "MPI_Barrier", [WORLD, 0, 0, 0, 0, 0], 1, None);
    job.begin(0, "MPI_Irecv", [0x1000, 8, INT, 1, 3, WORLD], 5);
    job.over(0, "MPI_Irecv", Some((6, REQUEST)));
    let entries = Entries(job);
    let report = entries.hang(12, &[("MPI_Wait", vec![POINTER, 0], 8), ("MPI_Barrier", vec![WORLD], 1)]);
    assert_eq!(hangs(&report), [(Fault::MissingMessage, vec![0, 1])]);
    assert!(
        report.findings[0].summary.starts_with("Unmatched receive: rank 0 in MPI_Wait(request MPI_Irecv("),
        "{}",
        report.findings[0].summary
    );
}
