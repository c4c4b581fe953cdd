//! The most important of a report in a few words.

use std::collections::BTreeSet;

use super::data::{PageVerdict, Tone};
use crate::findings::finding::{self, Evidence, Finding, Severity};
use crate::findings::report::Report;
use crate::job::process::Who;
use crate::present::hang::title;
use crate::present::mismatch;
use crate::present::text::{capitalized, counted, duration_text, who_text, who_text_and};
use crate::present::{
    access_conflict, buffer_conflict, heap_misuse, leaks, outside_window, overlapping_buffers,
    potential_deadlock, type_mismatch,
};

/// The verdict of a report.
pub(super) fn of(report: &Report) -> PageVerdict {
    let is_hang = |finding: &&Finding| finding.hang().is_some();
    let is_warning = |finding: &&Finding| finding.severity == Severity::Warning;
    let first = report
        .findings
        .iter()
        .find(|finding| is_hang(finding))
        .or_else(|| report.findings.iter().find(is_warning));
    match first {
        Some(first) => of_finding(first, report),
        None => without_finding(report),
    }
}

fn of_finding(first: &Finding, report: &Report) -> PageVerdict {
    let sure = first.severity == Severity::Warning && first.verdict != finding::Verdict::Inconclusive;
    let (title, affected) = title_and_affected(first);
    let more = report.findings.len() - 1;
    let more = if more == 0 { String::new() } else { format!(" {} below.", counted(more, "more finding")) };
    PageVerdict {
        tone: if sure { Tone::Fault } else { Tone::Suspicion },
        title: capitalized(&title),
        text: format!("{}{more}", capitalized(without_title(&first.summary, &title))),
        at_fault: first.who.clone(),
        affected,
    }
}

/// What a finding is in a few words, and whom it concerns beside those at fault.
fn title_and_affected(finding: &Finding) -> (String, Vec<Who>) {
    match &finding.evidence {
        Evidence::Hang(hang) => (title(hang), hang.who_waits()),
        Evidence::CollectiveMismatch(found) => (mismatch::title(found), mismatch::who(found, false)),
        Evidence::DatatypeMismatch(_) => (type_mismatch::TITLE.to_owned(), Vec::new()),
        Evidence::BufferConflict(found) => (buffer_conflict::title(found).to_owned(), Vec::new()),
        Evidence::HeapMisuse(found) => (heap_misuse::title(found.fault).to_owned(), Vec::new()),
        Evidence::OverlappingBuffers(_) => (overlapping_buffers::TITLE.to_owned(), Vec::new()),
        Evidence::OutsideWindow(_) => (outside_window::TITLE.to_owned(), Vec::new()),
        Evidence::AccessConflict(_) => (access_conflict::TITLE.to_owned(), Vec::new()),
        Evidence::PotentialDeadlock(_) => (potential_deadlock::TITLE.to_owned(), Vec::new()),
        Evidence::Leak(left) => (leaks::title(left.what).to_owned(), Vec::new()),
        Evidence::OddChain(_) => ("Data takes a way that it should not".to_owned(), Vec::new()),
        Evidence::ErrorReturned(_) => ("A call failed".to_owned(), Vec::new()),
        Evidence::OddRank(_) => (format!("{} is not like the others", who_text(&finding.who)), Vec::new()),
    }
}

/// The title stands above it.
fn without_title<'a>(summary: &'a str, title: &str) -> &'a str {
    summary.strip_prefix(title).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(summary)
}

fn without_finding(report: &Report) -> PageVerdict {
    let s = &report.statistics;
    let ranks: Vec<Who> = s.processes.iter().filter_map(|process| process.rank).map(Who::Rank).collect();
    let calls: u64 = match s.processes_left_out {
        0 => s.processes.iter().map(|process| process.mpi_calls).sum(),
        _ => s.calls.iter().map(|call| call.calls).sum(),
    };
    let lasted = duration_text(s.duration_ns);
    let watched = if ranks.is_empty() {
        format!("No rank was seen in {lasted} of watching")
    } else {
        let were = if ranks.len() == 1 && s.processes_left_out == 0 { "was" } else { "were" };
        format!("{} {were} watched for {lasted}", capitalized(&who_text_and(&ranks, s.processes_left_out)))
    };
    let is_odd =
        |finding: &&Finding| matches!(finding.evidence, Evidence::OddChain(_) | Evidence::OddRank(_));
    let odd = match report.findings.iter().filter(is_odd).count() {
        0 => String::new(),
        n => format!(
            " {} below: often a rarely used, but right, way of going about it.",
            counted(n, "odd thing")
        ),
    };
    let others = report.findings.iter().filter(|finding| !is_odd(finding));
    let titles: BTreeSet<String> =
        others.map(|finding| title_and_affected(finding).0.to_lowercase()).collect();
    let notices = match titles.len() {
        0 => String::new(),
        _ => format!(" To look at, below: {}.", titles.into_iter().collect::<Vec<_>>().join(", ")),
    };
    let lost = match report.thresholds.uncounted {
        0 => "",
        _ => " Records were lost, so something may have been missed.",
    };
    let sampled = sampled_text(report);
    PageVerdict {
        tone: if lost.is_empty() && sampled.is_empty() && notices.is_empty() {
            Tone::Fine
        } else {
            Tone::Suspicion
        },
        title: if notices.is_empty() { "No fault found" } else { "No fault in this run" }.to_owned(),
        text: format!(
            "{watched}: {calls} MPI calls and {} movements of data.{sampled}{lost}{notices}{odd}",
            s.movements
        ),
        at_fault: Vec::new(),
        affected: Vec::new(),
    }
}

/// How much of the time was watched, if a budget did not allow all of it.
fn sampled_text(report: &Report) -> String {
    if !report.thresholds.sampled {
        return String::new();
    }
    let s = &report.statistics;
    let share = s.watched_ns as f64 / s.duration_ns.max(1) as f64 * 100.0;
    let part = match s.pauses {
        0 => "some probes were out".to_owned(),
        _ => format!("movements were watched for {share:.1}% of that time"),
    };
    format!(" To keep the budget, {part}, so something may have been missed.")
}
