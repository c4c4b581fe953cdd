//! Calls that failed, ranks that ended, and what was left open at the end.

pub(crate) mod deaths;
pub(crate) mod error_analysis;
pub(crate) mod leaks;
pub(crate) mod reported;
