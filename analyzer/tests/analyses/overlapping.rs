//! Calls that are given two buffers which overlap. The library is MPICH.

use crate::common::calls::{CHAR, Job, TAG, WORLD};
use analyzer::finding::{Evidence, OverlappingBuffers, Report, Severity};
use analyzer::wire::STACK_ARGUMENTS;

const AT: u64 = 0x70_0000;
const IN_PLACE: u64 = u64::MAX;

fn overlaps(report: &Report) -> Vec<(Severity, OverlappingBuffers)> {
    let found = report.findings.iter().filter_map(|finding| match &finding.evidence {
        Evidence::OverlappingBuffers(found) => Some((finding.severity, (**found).clone())),
        _ => None,
    });
    found.collect()
}

/// Rank 0 of two makes a call, whose arguments beyond six are on the stack.
fn told(function: &str, args: [u64; 6], stack: &[u64]) -> Vec<(Severity, u64, u64)> {
    let mut job = Job::begun(2);
    job.begin(0, function, args, 10);
    let words: Vec<i32> = stack.iter().flat_map(|word| [*word as u32 as i32, (*word >> 32) as i32]).collect();
    if !words.is_empty() {
        job.points(0, function, STACK_ARGUMENTS, false, &words);
    }
    job.over(0, function, None);
    let found = overlaps(&job.report());
    found.into_iter().map(|(severity, found)| (severity, found.read_bytes, found.overlap_bytes)).collect()
}

#[test]
fn an_exchange_whose_buffers_overlap_is_told_unless_it_is_meant_to_have_one() {
    let exchange = |received_at: u64| {
        let stack = [100, CHAR, 1, TAG, WORLD, 0];
        told("MPI_Sendrecv", [AT, 100, CHAR, 1, TAG, received_at], &stack)
    };
    assert_eq!(exchange(AT), [(Severity::Warning, 100, 100)]);
    assert_eq!(exchange(AT + 90), [(Severity::Warning, 100, 10)]);
    assert_eq!(exchange(AT + 100), []);
    assert_eq!(told("MPI_Sendrecv_replace", [AT, 100, CHAR, 1, TAG, 1], &[TAG, WORLD, 0]), []);
}

#[test]
fn a_reduction_into_what_it_reads_is_told() {
    let reduce = |sent: u64, received: u64| told("MPI_Allreduce", [sent, received, 100, CHAR, 3, WORLD], &[]);
    assert_eq!(reduce(AT, AT), [(Severity::Warning, 100, 100)]);
    assert_eq!(reduce(AT, AT + 100), []);
    assert_eq!(reduce(IN_PLACE, AT), []);
    assert_eq!(reduce(0, 0), []);
}

#[test]
fn a_part_that_lies_where_it_is_put_anyway_is_a_notice() {
    let gather = |sent: u64| told("MPI_Allgather", [sent, 100, CHAR, AT, 100, CHAR], &[WORLD]);
    assert_eq!(gather(AT), [(Severity::Notice, 100, 100)]);
    assert_eq!(gather(AT + 100), [(Severity::Warning, 100, 100)], "that is the part of rank 1");
    assert_eq!(gather(AT + 200), []);
}

#[test]
fn one_call_of_several_ranks_is_told_once() {
    let mut job = Job::begun(2);
    for rank in 0..2 {
        job.call(rank, "MPI_Allreduce", [AT, AT, 100, CHAR, 3, WORLD], 10, None);
    }
    let report = job.report();
    let found = overlaps(&report);
    let [(_, found)] = &found[..] else { panic!("{found:#?}") };
    assert_eq!((found.count, found.ranks.len(), &*found.call.function), (2, 2, "MPI_Allreduce"));
    let finding =
        report.findings.iter().find(|finding| matches!(finding.evidence, Evidence::OverlappingBuffers(_)));
    assert_eq!(
        finding.map(|finding| finding.summary.as_str()),
        Some(
            "Overlapping buffers in one call: MPI_Allreduce called at job+0x19f by ranks 0-1 reads 100 bytes and writes the same bytes as well \
             2 times."
        )
    );
}
