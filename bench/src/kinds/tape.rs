//! `tape`: how small a tape is, and how fast it is written and read.

use anyhow::Result;

use crate::harness::case::{CaseJob, MeasuredCase, ReadDepth};
use crate::options::BenchOptions;
use crate::results::{Cell, ResultTable, Samples, Section};

/// Bytes of a copy's record as it lies in a ring.
const RECORD_BYTES: f64 = 64.0;

/// Writes tapes of made-up jobs and reads them again.
///
/// # Errors
/// A case failed, or the disk is full.
pub fn measure(options: BenchOptions) -> Result<Section> {
    let mut section = Section::new("tape", "Tapes: size and speed");
    section.note(format!(
        "Made-up jobs on one node. Speeds are of one core, in records and in bytes of records as they come from a \
         ring ({RECORD_BYTES} each); making the inputs is measured alone and taken off."
    ));
    let folder = tempfile::tempdir()?;
    let tape = folder.path().join("tape.dmt");
    let records = if options.quick { 300_000 } else { 4_000_000 };
    let mut table = ResultTable::new(&[
        "job",
        "bytes a record",
        "written, M records/s",
        "written, MB/s",
        "read, M records/s",
        "read, MB/s",
    ]);
    for (ring, name) in [(false, "halo"), (true, "ring")] {
        for ranks in [4, 64, 1024] {
            let job = CaseJob { ring, ranks, nodes: 1, results: false, records };
            let (mut write_ns, mut read_ns) = (Samples::default(), Samples::default());
            for _ in 0..options.runs(3, 1) {
                let made = MeasuredCase::Generate(job).measure()?.cpu_ns as f64;
                let written = MeasuredCase::Write(job, tape.clone()).measure()?.cpu_ns as f64;
                let read = MeasuredCase::Read(tape.clone(), ReadDepth::Inputs).measure()?.cpu_ns as f64;
                write_ns.push((written - made) / records as f64);
                read_ns.push(read / records as f64);
            }
            let bytes = std::fs::metadata(&tape)?.len() as f64 / records as f64;
            let speed = |ns: &Samples| {
                let per_second = 1e9 / ns.median();
                [Cell::value(per_second / 1e6, 1), Cell::value(per_second * RECORD_BYTES / 1e6, 0)]
            };
            let cells = [Cell::value(bytes, 2)].into_iter().chain(speed(&write_ns)).chain(speed(&read_ns));
            table.row(format!("{name}, {ranks} ranks"), cells.collect());
        }
    }
    section.tables.push(table);
    Ok(section)
}
