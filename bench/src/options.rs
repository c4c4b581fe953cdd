//! How a run of the benchmark was asked for.

use std::path::Path;

/// How thoroughly to measure.
#[derive(Clone, Copy, Debug)]
pub struct BenchOptions<'a> {
    /// Fewer runs and smaller jobs: good for gross regressions only.
    pub quick: bool,
    /// So many rounds, whatever is usual.
    pub rounds: Option<usize>,
    /// Of the jobs of [`MeasurementKind::Jobs`](crate::kinds::MeasurementKind::Jobs) only those whose names have this in them.
    pub job: Option<&'a str>,
    /// How many nodes jobs of [`MeasurementKind::Nodes`](crate::kinds::MeasurementKind::Nodes) are on; none: as usual.
    pub nodes: &'a [u32],
    /// Another benchmark program that [`MeasurementKind::Pipeline`](crate::kinds::MeasurementKind::Pipeline) is compared with.
    pub against: Option<&'a Path>,
}

impl BenchOptions<'_> {
    /// `thorough` runs, or `quick` ones if it has to be quick, unless it is said how many.
    pub fn runs(self, thorough: usize, quick: usize) -> usize {
        self.rounds.unwrap_or(if self.quick { quick } else { thorough })
    }
}
