//! `pipeline --against PROGRAM`: the way from a tape to findings, of this version and of another one, in turn.

use std::path::Path;

use anyhow::{Context, Result};

use crate::harness::case::{CaseCost, CaseJob, MeasuredCase, ReadDepth};
use crate::options::BenchOptions;
use crate::results::{Cell, ResultTable, Samples, Section};

/// Ranks, and whether results of calls are recorded.
const CASES: [(u32, bool); 4] = [(4, false), (64, false), (4, true), (64, true)];

/// Which of the two is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BenchVersion {
    This,
    Other,
}

/// What both versions took, round by round.
#[derive(Debug, Default)]
struct VersionRuns {
    cpu_ns: Samples,
    other_cpu_ns: Samples,
    peak_bytes: Samples,
    other_peak_bytes: Samples,
}

/// Reads the same tapes with both programs.
///
/// # Errors
/// A case failed, or the disk is full.
pub(super) fn measure(other: &Path, options: BenchOptions) -> Result<Section> {
    let mut section = Section::new("pipeline", "From a tape to findings, against another version");
    section.note(
        "The tapes of the kind `pipeline`, written by the other version. Both read each of them in turn, and which of them is \
         first changes every round. Ratios are those of two runs of one round. Processor time of the thread; peak of \
         resident memory (VmHWM), of which the program's own code is a part.",
    );
    let this = std::env::current_exe().context("this program has no file")?;
    let folder = tempfile::tempdir()?;
    let tape = folder.path().join("tape.dmt");
    let records = if options.quick { 300_000 } else { 1_000_000 };
    let mut table = ResultTable::new(&[
        "ranks",
        "records",
        "with returns",
        "this, ns a record",
        "other, ns a record",
        "this / other",
        "peak of memory, this / other",
    ]);
    for (ranks, results) in CASES {
        let job = CaseJob { ring: false, ranks, nodes: 1, results, records };
        // What an older version has written, a newer one can read.
        MeasuredCase::Write(job, tape.clone()).measure_by(other)?;
        let case = MeasuredCase::Read(tape.clone(), ReadDepth::Findings);
        let compared = compare(options.runs(21, 7), |version| match version {
            BenchVersion::This => case.measure_by(&this),
            BenchVersion::Other => case.measure_by(other),
        })?;
        table.row(ranks.to_string(), row(&compared, results, records));
        table.show_progress();
    }
    section.tables.push(table);
    Ok(section)
}

fn compare(rounds: usize, mut measure: impl FnMut(BenchVersion) -> Result<CaseCost>) -> Result<VersionRuns> {
    let mut compared = VersionRuns::default();
    for round in 0..rounds {
        let first = if round % 2 == 0 { BenchVersion::This } else { BenchVersion::Other };
        let second = if round % 2 == 0 { BenchVersion::Other } else { BenchVersion::This };
        for version in [first, second] {
            compared.add(version, measure(version)?);
        }
    }
    Ok(compared)
}

impl VersionRuns {
    fn add(&mut self, version: BenchVersion, taken: CaseCost) {
        let (cpu_ns, peak_bytes) = match version {
            BenchVersion::This => (&mut self.cpu_ns, &mut self.peak_bytes),
            BenchVersion::Other => (&mut self.other_cpu_ns, &mut self.other_peak_bytes),
        };
        cpu_ns.push(taken.cpu_ns as f64);
        peak_bytes.push(taken.peak_bytes as f64);
    }
}

fn row(compared: &VersionRuns, results: bool, records: u64) -> Vec<Cell> {
    let ns_a_record =
        |cpu_ns: &Samples| -> Samples { cpu_ns.values().iter().map(|ns| ns / records as f64).collect() };
    vec![
        Cell::value(records as f64, 0),
        Cell::text(if results { "yes" } else { "no" }),
        Cell::runs(&ns_a_record(&compared.cpu_ns), 0),
        Cell::runs(&ns_a_record(&compared.other_cpu_ns), 0),
        Cell::runs(&compared.cpu_ns.over(&compared.other_cpu_ns), 3),
        Cell::runs(&compared.peak_bytes.over(&compared.other_peak_bytes), 3),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_take_turns_and_a_ratio_is_that_of_one_round() -> Result<()> {
        let mut turns = Vec::new();
        let compared = compare(2, |version| {
            turns.push(version);
            let cpu_ns = [100, 50, 200, 600][turns.len() - 1];
            Ok(CaseCost { cpu_ns, peak_bytes: cpu_ns / 10, ..CaseCost::default() })
        })?;
        assert_eq!(turns, [BenchVersion::This, BenchVersion::Other, BenchVersion::Other, BenchVersion::This]);
        assert_eq!(compared.cpu_ns.over(&compared.other_cpu_ns).values(), [2.0, 3.0]);
        assert_eq!(compared.peak_bytes.over(&compared.other_peak_bytes).values(), [2.0, 3.0]);
        Ok(())
    }
}
