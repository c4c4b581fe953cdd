//! What could have gone otherwise in a run, and how the run is played so that it does.
//!
//! ```text
//! journals of all ranks → Run → MatchOrder → Races → RankCut of each rank
//! ```

mod diagram;
mod find;
mod history;
mod order;
mod run;
mod signature;

pub use diagram::{CallPart, DiagramCall, DiagramMessage, MessagePart, RaceDiagram};
pub use find::{Alternative, Race, RaceKind, Races, with_choice};
pub use run::BadRun;
