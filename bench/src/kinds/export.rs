//! `export`: how fast tapes are written for other tools, and times without watching are worked out.

use std::path::Path;

use anyhow::Result;

use crate::harness::case::{CaseJob, MeasuredCase};
use crate::options::BenchOptions;
use crate::results::{Cell, ResultTable, Samples, Section};

const MIB: f64 = 1_048_576.0;
/// Words of commands on a tape, with a name; those that write anything write to a path that follows them.
const COMMANDS: [(&str, &[&str]); 5] = [
    ("times", &["times"]),
    ("perfetto", &["export", "--to", "perfetto", "--output"]),
    ("parquet", &["export", "--to", "parquet", "--output"]),
    ("otf2", &["export", "--to", "otf2", "--output"]),
    ("perfetto, corrected", &["export", "--to", "perfetto", "--corrected", "--output"]),
];

/// Exports tapes of made-up jobs of several sizes.
///
/// # Errors
/// A case failed, or the disk is full.
pub fn measure(options: BenchOptions) -> Result<Section> {
    let mut section = Section::new("export", "Tapes for other tools");
    section.note(
        "`dmscope export` of tapes of a made-up halo exchange (`bench/src/generate`) with results of calls: calls, messages, movements \
         and findings, all of it by one thread, the analysis included. Archives of OTF2, and all with corrected times, have no \
         movements. `dmscope times` and exports of corrected times read a tape twice. Processor time of that thread; peak \
         of resident memory (VmHWM) of a process for each case.",
    );
    let counts: &[u64] =
        if options.quick { &[300_000, 1_000_000] } else { &[1_000_000, 10_000_000, 100_000_000] };
    let mut table = ResultTable::new(&[
        "what, ranks",
        "records",
        "M records/s and core",
        "ns a record",
        "peak, MiB",
        "bytes a record",
    ]);
    for ranks in [4, 64] {
        for &records in counts {
            // What was exported of the largest takes gigabytes: one after the other.
            for (name, words) in COMMANDS {
                let runs = if records > 10_000_000 { 1 } else { options.runs(3, 1) };
                let job = CaseJob { ring: false, ranks, nodes: 1, results: true, records };
                table.row(format!("{name}, {ranks}"), row(job, words, runs)?);
            }
        }
    }
    section.tables.push(table);
    Ok(section)
}

fn row(job: CaseJob, words: &[&str], runs: usize) -> Result<Vec<Cell>> {
    let folder = tempfile::tempdir()?;
    let (tape, output) = (folder.path().join("tape.dmt"), folder.path().join("exported"));
    MeasuredCase::Write(job, tape.clone()).measure()?;
    let writes = words.contains(&"--output");
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let command = words.iter().map(|word| (*word).to_owned()).chain(writes.then(|| path(&output)));
    let case = MeasuredCase::Dmscope(command.chain([path(&tape)]).collect());
    let (mut ns, mut peak, mut bytes) = (Samples::default(), 0, 0);
    for _ in 0..runs {
        let taken = case.measure()?;
        ns.push(taken.cpu_ns as f64 / job.records as f64);
        peak = peak.max(taken.peak_bytes);
        if writes {
            bytes = size(&output)?;
            std::fs::remove_dir_all(&output).or_else(|_| std::fs::remove_file(&output))?;
        }
    }
    Ok(vec![
        Cell::value(job.records as f64, 0),
        Cell::value(1e3 / ns.median(), 2),
        Cell::runs(&ns, 0),
        Cell::value(peak as f64 / MIB, 0),
        if writes { Cell::value(bytes as f64 / job.records as f64, 1) } else { Cell::text("–") },
    ])
}

/// Of a file, or of all files of a folder.
fn size(path: &Path) -> Result<u64> {
    if !path.is_dir() {
        return Ok(path.metadata()?.len());
    }
    std::fs::read_dir(path)?.try_fold(0, |sum, entry| Ok(sum + size(&entry?.path())?))
}
