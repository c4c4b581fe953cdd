//! Messages whose elements are something else where they are received, and when nothing is said of them. The library is MPICH.

use crate::common::calls::{CHAR, Job, POINTER, TAG, WORLD};
use analyzer::finding::{DatatypeMismatch, Evidence, MessagesBetween, Report, Severity};
use analyzer::process::Who;

const INT: u64 = 0x4c00_0405;
const LONG: u64 = 0x4c00_0807;
const FLOAT: u64 = 0x4c00_040a;
const DOUBLE: u64 = 0x4c00_080b;
const DOUBLE_COMPLEX: u64 = 0x4c00_1041;
/// One that the program has made.
const DERIVED: u64 = 0x8c00_0000;

fn mismatches(report: &Report) -> Vec<DatatypeMismatch> {
    let found = report.findings.iter().filter_map(|finding| match &finding.evidence {
        Evidence::DatatypeMismatch(found) => Some((**found).clone()),
        _ => None,
    });
    found.collect()
}

/// Rank 0 sends so many elements to rank 1, which receives others.
fn exchange(job: &mut Job, count: u64, sent: u64, received: u64) {
    job.call(0, "MPI_Send", [0x1000, count, sent, 1, TAG, WORLD], 10, None);
    job.call(1, "MPI_Recv", [0x1000, 8, received, 0, TAG, WORLD], 20, None);
}

fn found(count: u64, sent: u64, received: u64) -> bool {
    let mut job = Job::begun(2);
    exchange(&mut job, count, sent, received);
    !mismatches(&job.report()).is_empty()
}

#[test]
fn numbers_that_are_received_as_others_are_told_with_both_calls() {
    let mut job = Job::begun(2);
    (0..3).for_each(|_| exchange(&mut job, 4, INT, FLOAT));
    exchange(&mut job, 4, INT, INT);
    let report = job.report();
    let finding = &report.findings[0];
    assert_eq!((finding.severity, &finding.who[..]), (Severity::Warning, &[Who::Rank(0), Who::Rank(1)][..]));
    let found = &mismatches(&report)[0];
    assert_eq!(found.count, 3);
    assert_eq!(found.messages, [MessagesBetween { sender: Who::Rank(0), receiver: Who::Rank(1), count: 3 }]);
    let of = |call: &analyzer::finding::StuckCall| {
        (call.function.clone(), call.arguments[0].1.clone(), call.place.offset_bytes)
    };
    assert_eq!(of(&found.send), ("MPI_Send".into(), "4-byte integer".into(), 0x100 + 16 * 10 - 1));
    assert_eq!(
        of(&found.receive),
        ("MPI_Recv".into(), "4-byte floating-point number".into(), 0x100 + 16 * 20 - 1)
    );
    assert!(
        finding.summary.contains("3 messages from rank 0 in MPI_Send(datatype 4-byte integer)"),
        "{}",
        finding.summary
    );
}

#[test]
fn numbers_of_another_length_are_others() {
    assert!(found(2, INT, LONG) && found(2, DOUBLE, FLOAT) && found(1, LONG, DOUBLE));
}

#[test]
fn what_is_the_same_or_may_be_is_left_alone() {
    for (sent, received) in [(INT, INT), (CHAR, INT), (INT, CHAR), (DERIVED, INT), (INT, DERIVED)] {
        assert!(!found(4, sent, received), "{sent:x} {received:x}");
    }
    // A complex number is two others, one behind the other.
    assert!(!found(4, DOUBLE_COMPLEX, DOUBLE) && !found(4, DOUBLE, DOUBLE_COMPLEX));
    assert!(found(4, FLOAT, DOUBLE_COMPLEX));
    // No elements have no kind.
    assert!(!found(0, INT, FLOAT));
}

#[test]
fn messages_of_requests_are_compared_too() {
    let mut job = Job::begun(2);
    job.begin(1, "MPI_Irecv", [0x1000, 8, FLOAT, 0, TAG, WORLD], 30);
    job.points(1, "MPI_Irecv", 6, false, &[POINTER as i32, 0]);
    job.over(1, "MPI_Irecv", Some((6, 7)));
    job.call(0, "MPI_Ssend", [0x1000, 1, INT, 1, TAG, WORLD], 31, None);
    job.with_request(1, "MPI_Wait", 7);
    let found = mismatches(&job.report());
    let functions: Vec<&str> =
        found.iter().flat_map(|found| [&*found.send.function, &*found.receive.function]).collect();
    assert_eq!(functions, ["MPI_Ssend", "MPI_Irecv"]);
}

#[test]
fn nothing_is_said_of_ranks_of_which_something_was_missed() {
    let mut job = Job::begun(2);
    job.t.lose_calls(1, 1);
    exchange(&mut job, 4, INT, FLOAT);
    assert_eq!(mismatches(&job.report()), []);
}
