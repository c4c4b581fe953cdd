//! Timelines for Perfetto.

mod format;
mod interned;
mod timeline;

pub use format::*;
pub use timeline::TimelineExport;
