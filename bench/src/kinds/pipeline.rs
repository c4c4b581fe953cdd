//! `pipeline`: from a tape to findings on one core, and where the time goes.

use std::path::Path;

use anyhow::Result;

use super::against;
use crate::harness::case::{CaseCost, CaseJob, MeasuredCase, ReadDepth};
use crate::options::BenchOptions;
use crate::results::{Cell, ResultTable, Samples, Section};

const MIB: f64 = 1_048_576.0;

/// Reads tapes of made-up jobs of several sizes to the end, and so far only; or compares with another version.
///
/// # Errors
/// A case failed, or the disk is full.
pub fn measure(options: BenchOptions) -> Result<Section> {
    if let Some(other) = options.against {
        return against::measure(other, options);
    }
    let mut section = Section::new("pipeline", "From a tape to findings on one core");
    section.note(
        "Tapes of a made-up halo exchange on one node (`bench/src/generate`): every rank has a core, so that \
         neighbouring records are of different ranks. One thread does all: reads the file, decompresses, decodes, \
         resolves, links, groups, evaluates at every tick (20 a second of the job's time), reports. Processor time \
         of that thread; peak of resident memory (VmHWM) of a process for each case.",
    );
    let folder = tempfile::tempdir()?;
    let counts: &[u64] =
        if options.quick { &[300_000, 1_000_000] } else { &[1_000_000, 10_000_000, 100_000_000] };
    let mut whole = ResultTable::new(&[
        "ranks",
        "records",
        "M records/s and core",
        "ns a record",
        "peak, MiB",
        "bytes a record on tape",
    ]);
    for ranks in [4, 64, 1024] {
        for &records in counts {
            let tape = folder.path().join("tape.dmt");
            let job = CaseJob { ring: false, ranks, nodes: 1, results: false, records };
            MeasuredCase::Write(job, tape.clone()).measure()?;
            let runs = if records > 10_000_000 { 1 } else { options.runs(3, 1) };
            whole.row(ranks.to_string(), row(&tape, records, runs)?);
            if records == counts[1] {
                section.tables.push(stages(&tape, job, options.runs(3, 1))?);
            }
        }
    }
    section.tables.insert(0, whole);
    section.tables.insert(1, state_on(&folder.path().join("tape.dmt"), counts[1], options)?);
    Ok(section)
}

/// Jobs whose calls are recorded with their results (`--returns all`): messages are matched as well.
fn state_on(tape: &Path, records: u64, options: BenchOptions) -> Result<ResultTable> {
    let mut table = ResultTable::new(&[
        "with returns: ranks",
        "records",
        "M records/s and core",
        "ns a record",
        "peak, MiB",
    ]);
    for ranks in [4, 64, 1024] {
        let job = CaseJob { ring: false, ranks, nodes: 1, results: true, records };
        MeasuredCase::Write(job, tape.to_owned()).measure()?;
        let mut whole = Samples::default();
        let mut peak = 0;
        for _ in 0..options.runs(3, 1) {
            let taken = MeasuredCase::Read(tape.to_owned(), ReadDepth::Findings).measure()?;
            peak = peak.max(taken.peak_bytes);
            whole.push(ns_a_record(taken, records));
        }
        table.row(
            ranks.to_string(),
            vec![
                Cell::value(records as f64, 0),
                Cell::value(1e3 / whole.median(), 2),
                Cell::runs(&whole, 0),
                Cell::value(peak as f64 / MIB, 0),
            ],
        );
    }
    Ok(table)
}

fn row(tape: &Path, records: u64, runs: usize) -> Result<Vec<Cell>> {
    let (mut ns, mut peak) = (Samples::default(), 0);
    for _ in 0..runs {
        let taken = MeasuredCase::Read(tape.to_owned(), ReadDepth::Findings).measure()?;
        ns.push(ns_a_record(taken, records));
        peak = peak.max(taken.peak_bytes);
    }
    let bytes = std::fs::metadata(tape)?.len() as f64;
    Ok(vec![
        Cell::value(records as f64, 0),
        Cell::value(1e3 / ns.median(), 2),
        Cell::runs(&ns, 0),
        Cell::value(peak as f64 / MIB, 0),
        Cell::value(bytes / records as f64, 2),
    ])
}

fn ns_a_record(taken: CaseCost, records: u64) -> f64 {
    taken.cpu_ns as f64 / records as f64
}

/// Longer and longer parts of the path, and what each adds.
fn stages(tape: &Path, job: CaseJob, runs: usize) -> Result<ResultTable> {
    const PARTS: [(&str, ReadDepth); 7] = [
        ("find frames, check sums", ReadDepth::Frames),
        ("decompress", ReadDepth::Content),
        ("decode", ReadDepth::Inputs),
        ("resolve processes, calls, buffers", ReadDepth::Resolve),
        ("link to chains", ReadDepth::Link),
        ("count by group", ReadDepth::Group),
        ("evaluate, compare ranks, report", ReadDepth::Findings),
    ];
    let title = format!("{} ranks, {} records: up to and with", job.ranks, job.records);
    let mut table = ResultTable::new(&[title.as_str(), "ns a record", "added"]);
    // In turn, so that a machine whose speed drifts does not decide a difference.
    let mut measured = PARTS.map(|_| Samples::default());
    for _ in 0..runs {
        for ((_, until), ns) in PARTS.iter().zip(&mut measured) {
            ns.push(ns_a_record(MeasuredCase::Read(tape.to_owned(), *until).measure()?, job.records));
        }
    }
    let mut before = 0.0;
    for ((name, _), ns) in PARTS.iter().zip(&measured) {
        table.row(*name, vec![Cell::runs(ns, 0), Cell::value(ns.median() - before, 0)]);
        before = ns.median();
    }
    let generated = ns_a_record(MeasuredCase::Generate(job).measure()?, job.records);
    let sequenced = ns_a_record(MeasuredCase::Sequence(job).measure()?, job.records) - generated;
    table.row("beside it, live only: put rings in order", vec![Cell::value(sequenced, 0), Cell::text("–")]);
    Ok(table)
}
