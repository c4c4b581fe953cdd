//! From what analyses know to findings and reports.

mod access_conflicts;
mod buffer_conflicts;
mod chains;
mod errors;
mod hangs;
mod heap_misuses;
mod nodes;
mod outside_windows;
mod overlapping_buffers;
mod potential_deadlocks;
mod statistics;
mod type_mismatches;
mod views;

use crate::errors::leaks;
use crate::findings::finding::*;
use crate::findings::report::{REPORT_SCHEMA, Report, Thresholds};
use crate::hang::found::FoundHang;
use crate::invariants::scores::rounded;
use crate::job::mismatch::Mismatch;
use errors::is_death_of;
use hangs::{hangs, is_hang_of, is_open};
use statistics::statistics;
use views::{finding, whos};

pub(crate) use views::{Sources, Views};

/// All that is to be said.
pub(crate) fn report(p: &Sources<'_>) -> Report {
    Report {
        schema: REPORT_SCHEMA,
        session: p.job.start.clone(),
        ended: p.job.ended.clone(),
        thresholds: thresholds(p),
        findings: evaluated(p).0,
        statistics: statistics(p),
    }
}

/// The findings, the most important first, and the hangs that were found now.
pub(crate) fn evaluated(p: &Sources<'_>) -> (Vec<Finding>, Vec<FoundHang>) {
    let mut found = hangs(p);
    let mut lasting: Vec<&FoundHang> = p.hang.lasting(p.job).collect();
    lasting.retain(|lasting| found.iter().all(|hang| !hang.is_same(lasting)));
    // That ranks wait for those that were killed in a hang is a consequence.
    found.retain(|hang| lasting.iter().all(|lasting| !hang.all().any(|rank| lasting.has(rank))));
    let findings = findings(p, &found.iter().chain(lasting).collect::<Vec<_>>());
    (findings, found)
}

fn findings(p: &Sources<'_>, hangs: &[&FoundHang]) -> Vec<Finding> {
    let views = Views { p };
    let chains = p.evaluation.violations.iter().map(|v| views.odd_chain(v));
    let ranks = p.comparison.outliers.iter().map(|o| views.odd_rank(o));
    let origin = p.errors.deaths.origin().filter(|_| !p.errors.is_origin_open(p.job));
    // A death is told once, whether or not anybody waits for the dead.
    let is_told = |s: &FoundHang| {
        (origin.is_some() || p.errors.is_origin_open(p.job))
            && matches!(s.fault, Fault::Crash | Fault::UnknownHang)
    };
    let (open, mismatches): (Vec<&Mismatch>, Vec<&Mismatch>) =
        p.job.messages.collectives().mismatches().iter().partition(|mismatch| is_open(p, mismatch));
    // A death in calls that do not match is told with them.
    let is_of = |mismatch: &&Mismatch| origin.as_ref().is_some_and(|(first, _)| is_death_of(first, mismatch));
    let of_death = mismatches.iter().position(is_of);
    let died = origin.as_ref().filter(|_| of_death.is_none() && !open.iter().any(is_of));
    // Ranks that hang are killed for it.
    let hung = died.is_some_and(|(first, _)| {
        p.hang.lasting(p.job).any(|hang| first.iter().all(|death| hang.has(death.rank)))
    });
    let died = died.map(|origin| views.death(origin));
    let of_mismatch = |s: &FoundHang| mismatches.iter().position(|m| is_hang_of(s, m));
    let mismatched = mismatches.iter().enumerate().map(|(at, mismatch)| {
        let death = origin.as_ref().filter(|_| of_death == Some(at));
        views.mismatch(mismatch, hangs.iter().copied().find(|hang| of_mismatch(hang) == Some(at)), death)
    });
    let stuck = hangs.iter().filter(|s| !is_told(s) && of_mismatch(s).is_none()).map(|s| views.hang(s));
    let left = leaks::findings(&p.errors.leaks, |place| views.code_place(place, 1));
    let left = left.into_iter().map(|left| {
        finding(left.id, Verdict::Violated, left.severity, left.who, Evidence::Leak(Box::new(left.evidence)))
    });
    let returned = p.errors.errors.survived().map(|error| views.error_returned(error));
    let (cause, consequence) = if hung { (None, died) } else { (died, None) };
    let mut findings: Vec<Finding> = cause
        .into_iter()
        .chain(mismatched)
        .chain(stuck)
        .chain(consequence)
        .chain(views.type_mismatches())
        .chain(views.buffer_conflicts())
        .chain(views.overlapping_buffers())
        .chain(views.heap_misuses())
        .chain(views.outside_windows())
        .chain(views.access_conflicts())
        .chain(views.potential_deadlocks())
        .chain(returned)
        .chain(left)
        .chain(chains)
        .chain(ranks)
        .collect();
    // Stable: within a severity and verdict the order of the checks stays.
    findings.sort_by_key(|f| std::cmp::Reverse((f.severity, f.verdict)));
    nodes::place(p, &mut findings);
    findings
}

fn thresholds(p: &Sources<'_>) -> Thresholds {
    Thresholds {
        no_copies_watched: !p.chains.compares_chains(p.job),
        uniqueness: p.evaluation.threshold.uniqueness,
        chains: p.evaluation.threshold.chains,
        warm: p.evaluation.warm,
        frequent_groups: p.evaluation.frequent.len() as u64,
        abnormality: p.chains.options.abnormality,
        uncounted: p.chains.uncounted(p.job),
        sampled: p.job.coverage.sampled,
        referenced: p.chains.options.reference.is_some(),
        compared_ranks: whos(p, p.comparison.compared.iter().copied()),
        average_distance: rounded(p.comparison.average),
    }
}
