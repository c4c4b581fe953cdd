//! `scale`: what grows with the number of ranks and nodes.

use std::time::Duration;

use analyzer::knn_outliers::{self, Mix, Rule};
use analyzer::options::Options as Thresholds;
use anyhow::Result;

use crate::harness::case::{CaseJob, MeasuredCase, ReadDepth};
use crate::options::BenchOptions;
use crate::results::{Cell, ResultTable, Samples, Section};

const RANKS: [u32; 6] = [64, 256, 1024, 4096, 16_384, 65_536];
const RANKS_OF_A_NODE: u32 = 64;
const MIB: f64 = 1_048_576.0;
/// A pair of a group and a rank on the wire: hash of the group, rank, count since the last time.
const PAIR_BYTES: u64 = 4 + 4 + 4;
/// Kinds of chains that a rank has.
const GROUPS: u32 = 12;

/// Measures the work of one node, and the comparison of all ranks, for more and more ranks.
///
/// # Errors
/// A case failed, or the disk is full.
pub fn measure(options: BenchOptions) -> Result<Section> {
    let mut section = Section::new("scale", "Scale");
    section.note(format!(
        "A made-up halo exchange, {RANKS_OF_A_NODE} ranks a node. A node's share is measured with the stream of its \
         first node. Pairs of chain group and rank are counted in its report; the bytes that would cross nodes are \
         derived: {PAIR_BYTES} for a pair and second."
    ));
    section.tables.push(shares(options)?);
    section.note(
        "Comparing ranks is the one step that needs all of them. Measured alone on made-up mixes: three roles, counts \
         that differ by a few from rank to rank; with nobody odd, and with one odd rank (then the average is needed \
         too: exactly up to 2048 different mixes, bounded above). Each with each is what it replaces. Time by the clock.",
    );
    section.tables.push(comparison(options));
    Ok(section)
}

fn shares(options: BenchOptions) -> Result<ResultTable> {
    let folder = tempfile::tempdir()?;
    let tape = folder.path().join("tape.dmt");
    let records = if options.quick { 300_000 } else { 4_000_000 };
    let columns = [
        "ranks",
        "nodes",
        "one node: ns a record",
        "one node: peak, MiB",
        "one node: pairs",
        "all nodes to one: KB/s (derived)",
    ];
    let mut table = ResultTable::new(&columns);
    for ranks in RANKS {
        let nodes = ranks / RANKS_OF_A_NODE;
        MeasuredCase::Write(CaseJob { ring: false, ranks, nodes, results: false, records }, tape.clone())
            .measure()?;
        let mut ns = Samples::default();
        let mut last = Default::default();
        for _ in 0..options.runs(3, 1) {
            last = MeasuredCase::Read(tape.clone(), ReadDepth::Findings).measure()?;
            ns.push(last.cpu_ns as f64 / records as f64);
        }
        table.row(
            ranks.to_string(),
            vec![
                Cell::value(f64::from(nodes), 0),
                Cell::runs(&ns, 0),
                Cell::value(last.peak_bytes as f64 / MIB, 0),
                Cell::value(last.pairs as f64, 0),
                Cell::value((u64::from(nodes) * last.pairs * PAIR_BYTES) as f64 / 1e3, 0),
            ],
        );
    }
    Ok(table)
}

fn comparison(options: BenchOptions) -> ResultTable {
    let mut table =
        ResultTable::new(&["ranks compared", "nobody odd, ms", "one odd rank, ms", "each with each, ms"]);
    for ranks in RANKS {
        let even = mixes(ranks, None);
        let odd = mixes(ranks, Some(ranks / 3));
        let runs = if ranks > 4096 { 1 } else { options.runs(5, 1) };
        let time = |mixes: &[Mix], max_compared: usize| -> Samples {
            (0..runs).map(|_| compare(mixes, max_compared).as_secs_f64() * 1e3).collect()
        };
        let all = if ranks <= 4096 {
            Cell::runs(&time(&odd, usize::MAX), 2)
        } else {
            Cell::text("grows with the square")
        };
        table.row(
            ranks.to_string(),
            vec![
                Cell::runs(&time(&even, knn_outliers::MAX_COMPARED), 2),
                Cell::runs(&time(&odd, knn_outliers::MAX_COMPARED), 2),
                all,
            ],
        );
    }
    table
}

fn compare(mixes: &[Mix], max_compared: usize) -> Duration {
    let defaults = Thresholds::default();
    let rule = Rule {
        k: (mixes.len() / defaults.neighbour_divisor).max(1),
        floor: defaults.outlier_floor,
        factor: defaults.outlier_factor,
        max_compared,
    };
    let begin = std::time::Instant::now();
    std::hint::black_box(knn_outliers::far_members(mixes, &rule, max_compared == usize::MAX));
    begin.elapsed()
}

/// Ranks of three roles in equal parts, no two alike; `odd` does something of its own.
fn mixes(ranks: u32, odd: Option<u32>) -> Vec<Mix> {
    let mix = |rank: u32| {
        let count = |group: u32| {
            let role = (rank + group) % 3;
            let noise = rank.wrapping_mul(2_654_435_761).rotate_left(group * 5) % 509;
            let own = if odd == Some(rank) && group == GROUPS - 1 { 1_000_000 } else { 0 };
            (group, u64::from(20_000 * (role + 1) + noise) + own)
        };
        let counts: Vec<(u32, u64)> = (0..GROUPS).map(count).collect();
        Mix { total: counts.iter().map(|c| c.1).sum(), counts }
    };
    (0..ranks).map(mix).collect()
}
