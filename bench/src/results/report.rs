//! What one run of the benchmark measured, and where.

use serde::Serialize;

use super::{Machine, RegressionBound, Section};

/// Everything that one run measured.
#[derive(Debug, Serialize)]
pub struct BenchReport {
    /// The form of this document.
    pub schema: u32,
    /// The command that made it.
    pub command: String,
    /// The machine that the figures belong to.
    pub machine: Machine,
    /// One for each kind that was measured.
    pub sections: Vec<Section>,
}

/// The form of [`BenchReport`] as JSON.
pub const SCHEMA: u32 = 1;

impl BenchReport {
    /// One sentence about where it was measured.
    pub fn preamble(&self) -> String {
        let m = &self.machine;
        format!(
            "`{}`: {} ({} cores), {}, {}; load before: {:.2}. {}. Figures are medians with \
             (smallest–largest); of six runs or more also [bounds of the true median, 95%].\n",
            self.command,
            m.processor,
            m.cores,
            m.kernel,
            m.system,
            m.load_before,
            m.versions.join("; ")
        )
    }

    /// The bounds that do not hold.
    pub fn broken(&self) -> impl Iterator<Item = &RegressionBound> {
        self.sections.iter().flat_map(|section| &section.checks).filter(|check| !check.holds())
    }
}
