//! `times`: how far times without watching, as `dmscope times` works them out, are from those of runs without dmscope.

use anyhow::Result;
use live::MpiImplementation::{Mpich, OpenMpi};
use live::timed::{TimedJob, TimedRank};

use crate::options::BenchOptions;
use crate::results::{Cell, ResultTable, Samples, Section};

const ROUNDS: usize = 21;
const QUICK_ROUNDS: usize = 5;
const PATTERNS: [&str; 7] = ["token", "halo", "shift", "collectives", "waitany", "master", "epochs"];
/// Ranks: as many as a small machine has cores, and more.
const RANKS: [usize; 2] = [2, 4];
/// Counted between messages: little, which watching slows down much, and more.
const WORK: [u64; 2] = [20_000, 200_000];

/// What pairs of runs give.
#[derive(Default)]
struct TimedPairs {
    /// Measured and likely time, against the run before without dmscope, percent more.
    measured: Samples,
    corrected: Samples,
    /// How far the bounds are apart, percent.
    width: Samples,
    within: usize,
    /// No times are given: watching took longer than the job.
    refused: usize,
    pairs: Vec<TimedRank>,
}

impl TimedPairs {
    fn add(&mut self, rank: TimedRank) {
        let percent = |ns: f64| 100.0 * (ns / rank.plain_ns - 1.0);
        let [least, likely, most] = rank.corrected_ns;
        self.measured.push(percent(rank.measured_ns));
        self.corrected.push(percent(likely));
        self.width.push(100.0 * (most - least) / rank.plain_ns);
        self.within += usize::from((least..=most).contains(&rank.plain_ns));
        self.pairs.push(rank);
    }

    /// Of the median time without dmscope, where it lies.
    fn holds_median(&self) -> bool {
        let median = |of: &dyn Fn(&TimedRank) -> f64| {
            let mut samples = Samples::default();
            self.pairs.iter().for_each(|pair| samples.push(of(pair)));
            samples.median()
        };
        let plain_ns = median(&|pair| pair.plain_ns);
        median(&|pair| pair.corrected_ns[0]) <= plain_ns && plain_ns <= median(&|pair| pair.corrected_ns[2])
    }
}

/// Runs jobs that time themselves without dmscope and with it, in turn.
///
/// # Errors
/// A job or dmscope failed.
pub fn measure(options: BenchOptions) -> Result<Section> {
    let mut section = Section::new("times", "Times without watching");
    section.note(
        "`timed` (`tests/jobs/times`) times itself between two barriers; runs without dmscope and with it (`--budget none --returns all`) in turn. \
         Measured and corrected: percent more than the run without dmscope just before, of rank 0; runs without dmscope differ from each other \
         by as much as the last column says (median of what they are off their median). Refused: pairs whose times are not given, since watching took longer than the job. Within: pairs whose bounds contain the time without.",
    );
    let mut table = ResultTable::new(&[
        "job, ranks, work",
        "measured, % more",
        "corrected, % more",
        "bounds apart, %",
        "within",
        "median within",
        "refused",
        "runs without differ, %",
    ]);
    let rounds = options.runs(ROUNDS, QUICK_ROUNDS);
    let folder = tempfile::tempdir()?;
    for library in [OpenMpi, Mpich] {
        for pattern in PATTERNS {
            for (ranks, work) in RANKS.into_iter().zip(WORK).chain([(RANKS[0], WORK[1])]) {
                // MPICH waits busily: more ranks than cores are another subject.
                if (library == Mpich || options.quick) && ranks > RANKS[0] {
                    continue;
                }
                let name = format!("{pattern}, {library:?}, {ranks}, {work}");
                if options.job.is_some_and(|text| !name.contains(text)) {
                    continue;
                }
                let job = TimedJob::new(library, pattern, ranks, 1000, work)?;
                let mut pairs = TimedPairs::default();
                for _ in 0..rounds {
                    match job.pair(folder.path())? {
                        Some(ranks) => pairs.add(ranks[0]),
                        None => pairs.refused += 1,
                    }
                }
                table.row(name, cells(&pairs));
                table.show_progress();
            }
        }
    }
    section.tables.push(table);
    Ok(section)
}

fn cells(pairs: &TimedPairs) -> Vec<Cell> {
    let mut plain = Samples::default();
    pairs.pairs.iter().for_each(|pair| plain.push(pair.plain_ns));
    let mut off = Samples::default();
    plain.values().iter().for_each(|ns| off.push(100.0 * (ns / plain.median() - 1.0).abs()));
    vec![
        Cell::runs(&pairs.measured, 1),
        Cell::runs(&pairs.corrected, 1),
        Cell::value(pairs.width.median(), 1),
        Cell::text(format!("{} of {}", pairs.within, pairs.pairs.len())),
        Cell::text(if pairs.holds_median() { "yes" } else { "no" }),
        Cell::value(pairs.refused as f64, 0),
        Cell::value(off.median(), 1),
    ]
}
