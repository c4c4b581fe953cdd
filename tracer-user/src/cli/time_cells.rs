//! Times in columns.

use analyzer::timeline::correction::summary::ComparedTime;

/// Measured, likely without watching, and its bounds.
pub(super) fn time_cells(time: &ComparedTime) -> [String; 4] {
    let corrected = time.corrected;
    [time.measured_ns as f64, corrected.likely_ns, corrected.least_ns, corrected.most_ns].map(milliseconds)
}

/// With microseconds behind the point.
pub(super) fn milliseconds(ns: f64) -> String {
    format!("{:.3}", ns / 1e6)
}
