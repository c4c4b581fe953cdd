//! Tapes for other tools: what is known of a job, one thing after the other, and whoever writes it down.

mod assembly;
mod corrected;
mod exported;
pub mod otf2;
pub mod parquet;
pub mod perfetto;

pub use assembly::CallAssembly;
pub use corrected::CorrectedExport;
pub use exported::{
    CallParts, CompletedMessage, ExportCounts, ExportedCall, ExportedFinding, ExportedGap, ExportedMessage,
    ExportedMovement, ExportedSession, Exporter, Reception,
};
