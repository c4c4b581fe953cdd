//! Findings as data: evidence, stable ids, alerts, statistics.

pub(crate) mod alerts;
pub mod finding;
pub(crate) mod ids;
pub mod report;
pub(crate) mod runs;
pub mod statistics;
