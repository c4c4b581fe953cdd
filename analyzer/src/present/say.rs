//! Findings in one sentence, and what to do next.

use crate::findings::finding::{Evidence, Finding, Severity, Verdict};

/// Puts a finding into words.
pub(crate) fn say(finding: &mut Finding) {
    let (summary, mut next_steps) = match &finding.evidence {
        Evidence::OddChain(chain) if finding.severity == Severity::Warning => super::chain::broken(chain),
        Evidence::OddChain(chain) => super::chain::unusual(chain),
        Evidence::OddRank(rank) => super::chain::odd_rank(rank, finding.severity),
        Evidence::Hang(hang) => super::hang::say(hang),
        Evidence::CollectiveMismatch(mismatch) => super::mismatch::say(mismatch),
        Evidence::DatatypeMismatch(found) => super::type_mismatch::say(found),
        Evidence::BufferConflict(found) => super::buffer_conflict::say(found),
        Evidence::HeapMisuse(found) => super::heap_misuse::say(found),
        Evidence::OverlappingBuffers(found) => super::overlapping_buffers::say(found),
        Evidence::OutsideWindow(found) => super::outside_window::say(found),
        Evidence::AccessConflict(found) => super::access_conflict::say(found),
        Evidence::PotentialDeadlock(found) => super::potential_deadlock::say(found),
        Evidence::Leak(left) => super::leaks::say(left),
        Evidence::ErrorReturned(returned) => super::hang::say_returned(returned, &finding.who),
    };
    // What is not known of a hang is part of its evidence.
    let is_hang = matches!(finding.evidence, Evidence::Hang(_));
    if finding.verdict == Verdict::Inconclusive && !is_hang {
        let advice =
            "Records were lost, so this may only look odd: run again with larger rings or fewer probes.";
        next_steps.insert(0, advice.to_owned());
    }
    if finding.verdict == Verdict::Sampled {
        let advice =
            "Not everything was watched, to keep the budget: watch with a larger --budget to be sure.";
        next_steps.insert(0, advice.to_owned());
    }
    finding.summary = summary;
    finding.next_steps = next_steps;
}
