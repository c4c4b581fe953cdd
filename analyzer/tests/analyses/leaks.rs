//! What is open when ranks end with MPI, and when nothing is said of it, and what piles up before. The library is MPICH.

use crate::common;
use crate::common::PROGRAM_AT;
use crate::common::calls::{ANY_SOURCE, CHAR, Job, POINTER, WORLD};
use analyzer::finding::{Evidence, Leak, Report, Severity};
use analyzer::input::Input;
use analyzer::messages::LeakKind;
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::plan::ProbeClass;
use analyzer::process::Who;
use analyzer::wire::Body;

/// What is said when all have ended with MPI.
fn left_of(mut job: Job) -> Vec<Leak> {
    job.finalize();
    left(&job.report())
}

fn left(report: &Report) -> Vec<Leak> {
    let left = report.findings.iter().filter_map(|finding| match &finding.evidence {
        Evidence::Leak(left) => Some((**left).clone()),
        _ => None,
    });
    left.collect()
}

fn one_message_too_many() -> Job {
    let mut job = Job::begun(2);
    job.send(0, 1, 10);
    job.send(0, 1, 11);
    job.receive(1, 0);
    job
}

#[test]
fn a_message_that_nobody_receives_is_told_with_both_ends_and_its_line() {
    let mut job = one_message_too_many();
    job.finalize();
    let report = job.report();
    let finding = &report.findings[0];
    assert_eq!((finding.severity, &finding.who[..]), (Severity::Warning, &[Who::Rank(0), Who::Rank(1)][..]));
    let left = &left(&report)[0];
    assert_eq!((left.what, left.function.as_str(), left.count), (LeakKind::Message, "MPI_Send", 1));
    assert_eq!(left.place.offset_bytes, 0x100 + 16 * 11 - 1);
    let arguments = [("dest", "1"), ("tag", "3"), ("comm", "MPI_COMM_WORLD")];
    assert_eq!(left.ranks[0].arguments, arguments.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

#[test]
fn what_is_received_or_complete_is_no_leak() {
    let mut job = Job::begun(2);
    job.start(1, "MPI_Irecv", 0, 10, 7);
    job.start(0, "MPI_Isend", 1, 11, 8);
    job.with_request(0, "MPI_Wait", 8);
    job.with_request(1, "MPI_Wait", 7);
    assert_eq!(left_of(job), []);
}

#[test]
fn nothing_is_said_unless_both_ends_came_to_the_end_and_nothing_was_missed() {
    let is_told = |change: fn(&mut Job)| {
        let mut job = one_message_too_many();
        change(&mut job);
        !left(&job.report()).is_empty()
    };
    assert!(is_told(Job::finalize));
    assert!(!is_told(|_| {}));
    assert!(!is_told(|job| job.call(0, "MPI_Finalize", [0; 6], 50, None)));
    assert!(!is_told(|job| job.call(1, "MPI_Finalize", [0; 6], 50, None)));
    for rank in 0..2 {
        let mut job = one_message_too_many();
        job.t.lose_calls(rank, 1);
        assert_eq!(left_of(job), []);
    }
    let mut attached = Job::new(2);
    attached.send(0, 1, 10);
    attached.start(1, "MPI_Irecv", 0, 10, 7);
    assert_eq!(left_of(attached), []);
}

#[test]
fn a_message_that_a_receive_from_anybody_may_have_got_is_not_told() {
    let mut job = one_message_too_many();
    job.start(1, "MPI_Irecv", ANY_SOURCE, 12, 7);
    let left = left_of(job);
    assert_eq!(left.iter().map(|left| left.what).collect::<Vec<_>>(), [LeakKind::Request]);
}

#[test]
fn a_request_that_nobody_came_back_for_is_told_once_for_all_ranks() {
    let mut job = Job::begun(3);
    for rank in 1..3 {
        job.start(rank, "MPI_Irecv", 0, 10, 7);
    }
    job.start(1, "MPI_Irecv", 0, 10, 8);
    job.finalize();
    let report = job.report();
    assert_eq!(report.findings[0].severity, Severity::Notice);
    let left = &left(&report)[0];
    assert_eq!((left.what, left.function.as_str(), left.count), (LeakKind::Request, "MPI_Irecv", 3));
    let counts: Vec<(Who, u64)> = left.ranks.iter().map(|rank| (rank.who, rank.count)).collect();
    assert_eq!(counts, [(Who::Rank(1), 2), (Who::Rank(2), 1)]);
}

#[test]
fn requests_that_were_complete_at_once_are_counted() {
    /// As MPICH calls them.
    const AT_ONCE: u64 = 0x6c00_0001;
    let mut job = Job::begun(2);
    for line in [10, 11, 11] {
        job.start(0, "MPI_Isend", 1, line, AT_ONCE);
        job.receive(1, 0);
        if line == 10 {
            job.with_request(0, "MPI_Wait", AT_ONCE);
        }
    }
    let left = left_of(job);
    assert_eq!((left.len(), left[0].what, left[0].count), (1, LeakKind::Request, 2));
    assert_eq!(left[0].place.offset_bytes, 0x100 + 16 * 11 - 1);
    // Which of two calls began the one that is left is not known.
    let mut job = Job::begun(2);
    for line in [10, 11] {
        job.start(0, "MPI_Isend", 1, line, AT_ONCE);
        job.receive(1, 0);
    }
    job.with_request(0, "MPI_Wait", AT_ONCE);
    assert_eq!(left_of(job), []);
}

#[test]
fn requests_that_were_freed_cancelled_or_perhaps_complete_are_not_told() {
    for function in ["MPI_Request_free", "MPI_Cancel", "MPI_Wait"] {
        let mut job = Job::begun(2);
        job.start(1, "MPI_Irecv", 0, 10, 7);
        job.with_request(1, function, 7);
        assert_eq!(left_of(job), [], "{function}");
    }
    // A wait that was not seen to return.
    let mut job = Job::begun(2);
    job.start(1, "MPI_Irecv", 0, 10, 7);
    job.begin(1, "MPI_Wait", [POINTER, 0, 0, 0, 0, 0], 40);
    assert_eq!(left_of(job), []);
}

#[test]
fn a_message_whose_receive_was_cancelled_is_not_told() {
    let mut job = one_message_too_many();
    job.start(1, "MPI_Irecv", 0, 12, 7);
    job.with_request(1, "MPI_Cancel", 7);
    job.with_request(1, "MPI_Wait", 7);
    assert_eq!(left_of(job), []);
    let mut job = Job::begun(2);
    job.start(0, "MPI_Isend", 1, 11, 8);
    job.with_request(0, "MPI_Cancel", 8);
    job.with_request(0, "MPI_Wait", 8);
    assert_eq!(left_of(job), []);
}

#[test]
fn only_what_was_prepared_is_sent_again_by_a_start() {
    let sent_and_started = |function| {
        let mut job = Job::begun(2);
        job.start(0, function, 1, 10, 8);
        (0..2).for_each(|_| job.with_request(0, "MPI_Start", 8));
        job.with_request(0, "MPI_Wait", 8);
        job.with_request(0, "MPI_Request_free", 8);
        job.receive(1, 0);
        left_of(job)
    };
    let left = sent_and_started("MPI_Send_init");
    assert_eq!((left.len(), left[0].what, left[0].count), (1, LeakKind::Message, 1));
    assert_eq!(sent_and_started("MPI_Isend"), []);
}

#[test]
fn where_some_calls_are_not_watched_nothing_is_said() {
    let mut job = one_message_too_many();
    job.t.probe("MPI_Testall", ProbeClass::Call);
    assert_eq!(left_of(job), []);
}

#[test]
fn of_two_processes_that_say_they_are_the_same_rank_nothing_is_said() {
    let mut job = one_message_too_many();
    let mut other = common::facts(0, 2, job.t.now_ns);
    (other.pid, other.namespace_pid) = (77, 77);
    job.t.inputs.push(Input::Process(Box::new(other)));
    let probe = job.t.probe("MPI_Init", ProbeClass::CallResults);
    job.t.now_ns += 1000;
    let header = analyzer::wire::Header { time_ns: job.t.now_ns, pid: 77, tid: 77, probe };
    let body = Body::Call { return_address: PROGRAM_AT + 0x100, args: [0; 6], nested: false };
    job.t.inputs.push(Input::Record(analyzer::wire::Record { header, body }.encode()));
    assert_eq!(left_of(job), []);
}

#[test]
fn a_tape_says_what_the_session_said() {
    let mut job = one_message_too_many();
    job.finalize();
    let inputs = job.t.end();
    let mut writer = analyzer::tape::Writer::new(Vec::new());
    inputs.iter().for_each(|input| writer.push(input).expect("memory takes everything"));
    let tape = writer.finish().expect("memory takes everything");
    let (mut live, mut again) = (Pipeline::new(Options::default()), Pipeline::new(Options::default()));
    inputs.iter().for_each(|input| live.push(input));
    let mut reader = analyzer::tape::Reader::new(&tape[..]).expect("a tape");
    while let Some(item) = reader.next_ref() {
        match item.expect("no damage") {
            analyzer::tape::ItemRef::Record(record) => again.push_record(record),
            analyzer::tape::ItemRef::Input(input) => again.push(&input),
            analyzer::tape::ItemRef::Damage(damage) => panic!("{damage}"),
        }
    }
    let raised = |pipeline: &mut Pipeline| format!("{:?}", (pipeline.take_alerts(), pipeline.report()));
    let said = raised(&mut live);
    assert!(said.contains("Unmatched send at MPI_Finalize"));
    assert_eq!(said, raised(&mut again));
}

#[test]
fn nothing_is_said_if_the_results_of_calls_are_not_recorded() {
    let mut job = one_message_too_many();
    job.finalize();
    // The return of MPI_Finalize always is.
    for input in &mut job.t.inputs {
        let Input::Plan(plan) = input else { continue };
        let others = plan.probes.iter_mut().filter(|probe| probe.function != "MPI_Finalize");
        others.for_each(|probe| probe.class = ProbeClass::Call);
    }
    assert!(left(&job.report()).is_empty());
}

#[test]
fn a_call_is_one_hit_of_its_probe_however_many_records_it_leaves() {
    let mut job = Job::begun(2);
    job.send(0, 1, 10);
    job.receive(1, 0);
    job.begin(1, "MPI_Waitall", [2, 0, 0, 0, 0, 0], 12);
    job.points(1, "MPI_Waitall", 1, false, &[7, 8]);
    job.over(1, "MPI_Waitall", None);
    let report = job.report();
    let hits = |name| report.statistics.probes.iter().find(|p| p.function == name).map(|p| p.hits);
    assert_eq!(["MPI_Send", "MPI_Recv", "MPI_Waitall"].map(hits), [Some(1); 3]);
}

fn duplicate(job: &mut Job, ranks: u32, line: u64, handle: u64) {
    for rank in 0..ranks {
        job.call(rank, "MPI_Comm_dup", [WORLD, POINTER, 0, 0, 0, 0], line, Some((1, handle)));
    }
}

fn free(job: &mut Job, ranks: u32, handle: u64) {
    for rank in 0..ranks {
        job.begin(rank, "MPI_Comm_free", [POINTER, 0, 0, 0, 0, 0], 4);
        job.points(rank, "MPI_Comm_free", 0, false, &[handle as i32]);
        job.over(rank, "MPI_Comm_free", None);
    }
}

#[test]
fn communicators_that_are_not_freed_are_told_with_the_call_that_made_them() {
    let mut job = Job::begun(2);
    duplicate(&mut job, 2, 10, 0x8400_0001);
    duplicate(&mut job, 2, 11, 0x8400_0002);
    free(&mut job, 2, 0x8400_0002);
    job.finalize();
    let report = job.report();
    assert_eq!((report.findings.len(), report.findings[0].severity), (1, Severity::Notice));
    let left = &left(&report)[0];
    assert_eq!((left.what, left.function.as_str(), left.count), (LeakKind::Communicator, "MPI_Comm_dup", 2));
    assert_eq!(left.place.offset_bytes, 0x100 + 16 * 10 - 1);
}

#[test]
fn persistent_requests_that_are_not_freed_are_told_by_the_calls_that_made_them() {
    let mut job = Job::begun(2);
    for (line, request) in [(10, 7), (11, 8)] {
        job.start(0, "MPI_Send_init", 1, line, request);
    }
    job.with_request(0, "MPI_Request_free", 7);
    let left = left_of(job);
    assert_eq!((left.len(), left[0].what, left[0].count), (1, LeakKind::PersistentRequest, 1));
    assert_eq!((&*left[0].function, left[0].place.offset_bytes), ("MPI_Send_init", 0x100 + 16 * 11 - 1));
}

#[test]
fn a_window_that_is_not_freed_is_told_as_one() {
    let mut job = Job::begun(2);
    for rank in 0..2 {
        let args = [0x7000, 8, 1, 0, WORLD, POINTER];
        job.call(rank, "MPI_Win_create", args, 12, Some((5, 0xa000_0001)));
    }
    let left = left_of(job);
    assert_eq!((left.len(), left[0].what, left[0].count), (1, LeakKind::Window, 2));
}

#[test]
fn datatypes_operations_and_groups_that_are_not_freed_are_told_with_the_calls_that_made_them() {
    let mut job = Job::begun(1);
    let make = |job: &mut Job, function: &str, arguments: [u64; 6], line, at, handle| {
        job.call(0, function, arguments, line, Some((at, handle)));
    };
    let free = |job: &mut Job, function: &str, handle: u64| {
        job.begin(0, function, [POINTER, 0, 0, 0, 0, 0], 40);
        job.points(0, function, 0, false, &[handle as i32]);
        job.over(0, function, None);
    };
    for (line, handle) in [(10, 0x8c00_0001), (11, 0x8c00_0002)] {
        make(&mut job, "MPI_Type_vector", [2, 1, 4, CHAR, POINTER, 0], line, 4, handle);
        make(&mut job, "MPI_Op_create", [0x7000, 1, POINTER, 0, 0, 0], line, 2, handle + 0x1000);
        make(&mut job, "MPI_Comm_group", [WORLD, POINTER, 0, 0, 0, 0], line, 1, handle + 0x2000);
    }
    free(&mut job, "MPI_Type_free", 0x8c00_0002);
    free(&mut job, "MPI_Op_free", 0x8c00_1002);
    free(&mut job, "MPI_Group_free", 0x8c00_2002);
    let left = left_of(job);
    let told: Vec<_> =
        left.iter().map(|left| (left.what, left.function.as_str(), left.place.offset_bytes)).collect();
    let at = 0x100 + 16 * 10 - 1;
    assert_eq!(
        told,
        [
            (LeakKind::Group, "MPI_Comm_group", at),
            (LeakKind::Datatype, "MPI_Type_vector", at),
            (LeakKind::Operation, "MPI_Op_create", at)
        ]
    );
}

/// What libraries that are finalized by attributes of MPI_COMM_SELF do.
#[test]
fn a_communicator_that_is_freed_within_finalize_is_none() {
    let mut job = Job::begun(1);
    duplicate(&mut job, 1, 10, 0x8400_0001);
    job.begin(0, "MPI_Finalize", [0; 6], 50);
    free(&mut job, 1, 0x8400_0001);
    job.over(0, "MPI_Finalize", None);
    assert_eq!(left(&job.report()), []);
}

#[test]
fn communicators_that_pile_up_are_told_before_the_end() {
    let told = |made: u32, freed: u32| {
        let mut job = Job::begun(2);
        for number in 0..made {
            let handle = 0x8400_0001 + u64::from(number);
            duplicate(&mut job, 2, 10, handle);
            if number < freed {
                free(&mut job, 2, handle);
            }
        }
        // No rank comes to its end.
        left(&job.report())
    };
    assert_eq!(told(999, 0), []);
    assert_eq!(told(1_500, 501), []);
    let left = told(1_000, 0);
    assert_eq!((left.len(), left[0].what, left[0].count), (1, LeakKind::Communicator, 2_000));
    assert_eq!(left[0].place.offset_bytes, 0x100 + 16 * 10 - 1);
}
