//! Ranks that do not go on: who waits for whom, and who is at fault; and calls that the library refused.
//!
//! ```text
//! threads as they were found, again and again → who has not moved → what each waits for → causes
//! ```

mod calls_seen;
mod deaths;
mod error_classes;
mod errors;
mod life;
mod localize;
mod locks;
mod made;
mod view;
mod watch;
pub(crate) mod words;

pub(crate) use calls_seen::{Begun, CallsSeen};
pub(crate) use deaths::{Death, Deaths};
pub(crate) use errors::{Errors, Reported, Said, Survived};
pub(crate) use life::{MpiLife, Part};
pub(crate) use locks::Locks;
pub(crate) use made::HandlesMade;
pub(crate) use view::{RankState, Standstill, StuckRank, shown, standstills};
pub(crate) use watch::Watch;
