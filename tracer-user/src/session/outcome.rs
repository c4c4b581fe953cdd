//! How a session ends: for the exit status.

use analyzer::finding::{Report, Severity, Verdict};

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing that needs attention (notices are no findings).
    Nothing,
    /// At least one warning.
    Findings,
    /// No warning, but records were lost that might have shown one, or ranks hang and why is not known, or no rank was seen.
    Inconclusive,
}

impl Outcome {
    /// Of a report.
    pub fn of_report(report: &Report) -> Self {
        let warnings = || report.findings.iter().filter(|f| f.severity == Severity::Warning);
        // Nobody moves, and why is not known.
        let hangs = report.findings.iter().any(|f| f.verdict == Verdict::Inconclusive && f.hang().is_some());
        if warnings().any(|f| f.verdict == Verdict::Violated) {
            Self::Findings
        } else if warnings().next().is_some()
            || report.thresholds.uncounted > 0
            || hangs
            || !report.saw_ranks()
        {
            Self::Inconclusive
        } else {
            Self::Nothing
        }
    }

    /// Of several tapes: what needs attention most.
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Findings, _) | (_, Self::Findings) => Self::Findings,
            (Self::Inconclusive, _) | (_, Self::Inconclusive) => Self::Inconclusive,
            _ => Self::Nothing,
        }
    }

    /// The exit status of the command.
    pub fn status(self) -> u8 {
        match self {
            Self::Nothing => 0,
            Self::Findings => 1,
            Self::Inconclusive => 3,
        }
    }
}
