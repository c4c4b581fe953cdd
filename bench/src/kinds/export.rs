//! `export`: how fast tapes are written for other tools.

use anyhow::Result;

use crate::harness::case::{CaseJob, MeasuredCase};
use crate::options::BenchOptions;
use crate::results::{Cell, ResultTable, Samples, Section};

const MIB: f64 = 1_048_576.0;
const FORMATS: [&str; 3] = ["perfetto", "parquet", "otf2"];

/// Exports tapes of made-up jobs of several sizes.
///
/// # Errors
/// A case failed, or the disk is full.
pub fn measure(options: BenchOptions) -> Result<Section> {
    let mut section = Section::new("export", "Tapes for other tools");
    section.note(
        "`dmscope export` of tapes of a made-up halo exchange (`bench/src/generate`) with results of calls: calls, messages, movements \
         and findings, all of it by one thread, the analysis included. Archives of OTF2 have no movements. Processor time of that \
         thread; peak of resident memory (VmHWM) of a process for each case.",
    );
    let counts: &[u64] =
        if options.quick { &[300_000, 1_000_000] } else { &[1_000_000, 10_000_000, 100_000_000] };
    let mut table = ResultTable::new(&[
        "format, ranks",
        "records",
        "M records/s and core",
        "ns a record",
        "peak, MiB",
        "bytes a record",
    ]);
    for ranks in [4, 64] {
        for &records in counts {
            // What was exported of the largest takes gigabytes: one after the other.
            for format in FORMATS {
                let runs = if records > 10_000_000 { 1 } else { options.runs(3, 1) };
                let row =
                    row(CaseJob { ring: false, ranks, nodes: 1, results: true, records }, format, runs)?;
                table.row(format!("{format}, {ranks}"), row);
            }
        }
    }
    section.tables.push(table);
    Ok(section)
}

fn row(job: CaseJob, format: &str, runs: usize) -> Result<Vec<Cell>> {
    let folder = tempfile::tempdir()?;
    let (tape, output) = (folder.path().join("tape.dmt"), folder.path().join("exported"));
    MeasuredCase::Write(job, tape.clone()).measure()?;
    let (mut ns, mut peak, mut bytes) = (Samples::default(), 0, 0);
    for _ in 0..runs {
        let taken = MeasuredCase::Export(tape.clone(), format.to_owned(), output.clone()).measure()?;
        ns.push(taken.cpu_ns as f64 / job.records as f64);
        peak = peak.max(taken.peak_bytes);
        bytes = size(&output)?;
        std::fs::remove_dir_all(&output).or_else(|_| std::fs::remove_file(&output))?;
    }
    Ok(vec![
        Cell::value(job.records as f64, 0),
        Cell::value(1e3 / ns.median(), 2),
        Cell::runs(&ns, 0),
        Cell::value(peak as f64 / MIB, 0),
        Cell::value(bytes as f64 / job.records as f64, 1),
    ])
}

/// Of a file, or of all files of a folder.
fn size(path: &std::path::Path) -> Result<u64> {
    if !path.is_dir() {
        return Ok(path.metadata()?.len());
    }
    std::fs::read_dir(path)?.try_fold(0, |sum, entry| Ok(sum + size(&entry?.path())?))
}
