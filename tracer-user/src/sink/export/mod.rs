//! Tapes for other tools.

pub mod perfetto;
mod recent;
mod timeline;

pub use timeline::{ExportCounts, ExportedCall, TimelineExport};
