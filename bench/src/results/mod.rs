//! What was measured, as Markdown for people and as JSON for machines.

mod machine;
mod report;
mod samples;
mod section;
mod table;

pub use machine::Machine;
pub use report::{BenchReport, SCHEMA};
pub use samples::Samples;
pub use section::{RegressionBound, Section};
pub use table::{Cell, ResultRow, ResultTable};
