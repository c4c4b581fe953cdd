//! Findings as data: evidence, stable ids, alerts, statistics.

pub(crate) mod alerts;
pub mod finding;
pub(crate) mod ids;
pub mod report;
pub mod statistics;
