//! Collective calls that do not match are told when they are made, whether or not anybody hangs in them; right programs
//! are left alone. The library is MPICH.

mod common;

use analyzer::finding::{
    Alert, CollectiveMismatch, Evidence, Fault, Finding, Report, Severity, StuckRank, Verdict,
};
use analyzer::input::{
    CallInProgress, CodePlace, Coverage, Input, MpiFacts, MpiKind, PendingRequest, ThreadFacts, ThreadState,
    Threads,
};
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::plan::ProbeClass;
use analyzer::wire::{Body, PIECE_WORDS, STACK_ARGUMENTS};
use common::calls::{Job, POINTER, WORLD};
use common::{PROGRAM, PROGRAM_AT, pid};

const S: u64 = 1_000_000_000;
const INT: u64 = 0x4c00_0405;
const DOUBLE: u64 = 0x4c00_080b;
const SUM: u64 = 0x5800_0003;
const MAX: u64 = 0x5800_0001;
/// Handles that tests give out.
const DUP: u64 = 0x8400_0001;
const OTHER: u64 = 0x8400_0003;
const REQUEST: u64 = 0x9800_0001;

/// A job of which only the entries of calls are recorded, but for those that make communicators.
struct Entries(Job);

impl Entries {
    fn begun(ranks: u32) -> Self {
        Self(Job::begun(ranks))
    }

    fn enter(&mut self, rank: u32, function: &str, args: [u64; 6], line: u64) {
        let probe = self.0.t.probe(function, ProbeClass::Call);
        let return_address = PROGRAM_AT + 0x100 + 16 * line;
        self.0.t.record(rank, probe, Body::Call { return_address, args, nested: false });
    }

    /// With arguments that lie on the stack.
    fn enter_with(&mut self, rank: u32, function: &str, args: [u64; 6], stack: &[u64]) {
        self.enter(rank, function, args, 7);
        let probe = self.0.t.probe(function, ProbeClass::Call);
        let mut words = [0; PIECE_WORDS];
        words[..stack.len()].copy_from_slice(stack);
        let (argument, total_bytes) = (STACK_ARGUMENTS, 8 * stack.len() as u32);
        let body =
            Body::Values { serial: 1, argument, total_bytes, position_bytes: 0, at_return: false, words };
        self.0.t.record(rank, probe, body);
    }

    fn barrier(&mut self, rank: u32) {
        self.enter(rank, "MPI_Barrier", [WORLD, 0, 0, 0, 0, 0], 1);
    }

    fn broadcast(&mut self, rank: u32, count: u64, datatype: u64, root: u64, comm: u64) {
        self.enter(rank, "MPI_Bcast", [0x1000, count, datatype, root, comm, 0], 2);
    }

    /// The handle that the rank's last call has stored.
    fn made(&mut self, rank: u32, function: &str, handle: u64) {
        let probe = self.0.t.probe(function, ProbeClass::Call);
        self.0.t.record(rank, probe, Body::Made { handle });
    }

    /// A duplicate of a communicator, with these handles.
    fn duplicate(&mut self, comm: impl Fn(u32) -> u64, handle: impl Fn(u32) -> u64) {
        for rank in 0..self.0.ranks {
            self.0.call(rank, "MPI_Comm_dup", [comm(rank), POINTER, 0, 0, 0, 0], 3, Some((1, handle(rank))));
        }
    }

    fn free(&mut self, rank: u32, handle: u64) {
        self.0.begin(rank, "MPI_Comm_free", [POINTER, 0, 0, 0, 0, 0], 4);
        self.0.points(rank, "MPI_Comm_free", 0, false, &[handle as i32]);
        self.0.over(rank, "MPI_Comm_free", None);
    }

    fn report(self) -> Report {
        self.0.report()
    }

    /// All are found in these calls, again and again, for so long.
    fn hang(mut self, seconds: u64, calls: &[(&str, Vec<u64>, u64)]) -> Report {
        let begin = self.0.t.now_ns + S;
        for second in 0..seconds {
            let time_ns = begin + second * S;
            let threads = (0..).zip(calls).map(|(rank, call)| thread(rank, call, second)).collect();
            self.0.t.inputs.push(Input::Threads(Box::new(Threads { time_ns, threads })));
            self.0.t.now_ns = time_ns;
            self.0.t.tick();
        }
        let mut pipeline = Pipeline::new(Options::default());
        self.0.t.inputs.iter().for_each(|input| pipeline.push(input));
        pipeline.report()
    }
}

fn thread(rank: u32, (function, arguments, line): &(&str, Vec<u64>, u64), second: u64) -> ThreadFacts {
    let request = PendingRequest { handle: REQUEST, complete: Some(false), ..PendingRequest::default() };
    let waits = function.starts_with("MPI_Wait") || function.starts_with("MPI_Test");
    let call = CallInProgress {
        function: (*function).to_owned(),
        mpi: Some(MpiFacts { kind: MpiKind::Mpich, comm_world: Some(WORLD) }),
        site: Some(CodePlace { file: PROGRAM, offset_bytes: 0x100 + 16 * line }),
        return_slot: 0x7000_0000,
        arguments: arguments.iter().copied().map(Some).collect(),
        requests: if waits { vec![request] } else { Vec::new() },
        ..CallInProgress::default()
    };
    ThreadFacts {
        pid: pid(rank),
        tid: pid(rank),
        state: ThreadState::Running,
        ran_ns: second * S / 2,
        call: Some(call),
        ..ThreadFacts::default()
    }
}

fn mismatches(report: &Report) -> Vec<&CollectiveMismatch> {
    report.findings.iter().filter_map(mismatch).collect()
}

fn mismatch(finding: &Finding) -> Option<&CollectiveMismatch> {
    match &finding.evidence {
        Evidence::CollectiveMismatch(mismatch) => Some(mismatch),
        _ => None,
    }
}

/// Communicator, which of its calls, and who is at fault.
fn told(report: &Report) -> Vec<(String, u64, Vec<u32>)> {
    let of = |mismatch: &CollectiveMismatch| {
        let wrong = mismatch.ranks.iter().filter(|rank| rank.at_fault);
        (mismatch.comm.clone(), mismatch.position, wrong.map(|rank| number(&rank.who)).collect())
    };
    mismatches(report).into_iter().map(of).collect()
}

fn number(who: &impl serde::Serialize) -> u32 {
    serde_json::to_value(who).ok().and_then(|who| who["rank"].as_u64()).map_or(u32::MAX, |rank| rank as u32)
}

fn hangs(report: &Report) -> Vec<(Fault, Vec<u32>)> {
    let of = |finding: &Finding| match &finding.evidence {
        Evidence::Hang(hang) => Some((hang.fault, finding.who.iter().map(number).collect())),
        _ => None,
    };
    report.findings.iter().filter_map(of).collect()
}

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
         bytes 32) called at job+0x11f, but ranks 0-1, 3 in MPI_Bcast(root 0, count 8, bytes 32) called at job+0x11f."
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
    let mut pipeline = Pipeline::new(Options::default());
    let mut alerts = Vec::new();
    for input in &job.0.t.inputs {
        pipeline.push(input);
        alerts.extend(pipeline.take_alerts());
    }
    assert_eq!(alerts.len(), 1);
    assert!(matches!(&alerts[0], Alert::Raised(finding) if finding.id == "collective-mismatch-0-1"));
}

#[test]
fn operations_lengths_and_forms_must_be_the_same() {
    let reduce = |job: &mut Entries, rank: u32, count, datatype, op| {
        job.enter(rank, "MPI_Allreduce", [0x1000, 0x2000, count, datatype, op, WORLD], 5);
    };
    for odd in [(8, INT, MAX), (4, INT, SUM), (8, DOUBLE, SUM)] {
        let mut job = Entries::begun(3);
        reduce(&mut job, 0, 8, INT, SUM);
        reduce(&mut job, 1, odd.0, odd.1, odd.2);
        reduce(&mut job, 2, 8, INT, SUM);
        assert_eq!(told(&job.report()), [("MPI_COMM_WORLD".to_owned(), 1, vec![1])], "{odd:x?}");
    }
    // The same length; types and operations that the program made.
    for same in [(4, DOUBLE, SUM), (3, 0x8c00_0000, SUM), (8, INT, 0x9800_0000)] {
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
    job.0.t.lose(1, 5);
    job.broadcast(0, 8, INT, 0, WORLD);
    job.broadcast(1, 8, INT, 1, WORLD);
    job.broadcast(2, 8, INT, 0, WORLD);
    assert_eq!(told(&job.report()), []);
    let mut job = Entries::begun(3);
    job.0.t.lose(1, 5);
    different(&mut job);
    assert_eq!(told(&job.report()), [("MPI_COMM_WORLD".to_owned(), 1, vec![2])]);
    // A pause.
    let mut job = Entries::begun(3);
    job.barrier(0);
    for paused in [true, false] {
        let time_ns = job.0.t.now_ns;
        job.0.t.inputs.push(Input::Coverage(Box::new(Coverage { time_ns, paused, off: Vec::new() })));
    }
    different(&mut job);
    assert_eq!(told(&job.report()), []);
}

#[test]
fn persistent_calls_count_when_they_are_prepared_and_when_they_are_started() {
    let started = |swapped: bool| {
        let mut job = Job::begun(2);
        for rank in 0..2 {
            for (function, request) in [("MPI_Barrier_init", REQUEST), ("MPI_Bcast_init", REQUEST + 1)] {
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
    assert_eq!(started(false), []);
    assert_eq!(started(true), [("MPI_COMM_WORLD".to_owned(), 3, vec![1])]);
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
