//! What MPI calls do to each other: requests, communicators, and which receive got which send.
//!
//! From records of calls, of what their arguments point to, and of their returns. What is not known (calls
//! that were not seen, records that were lost, a source that nobody was told) gives no match, never a guess.

mod alone;
mod assemble;
mod bridges;
mod communicators;
mod data;
mod few;
mod follow;
mod groups;
mod left_over;
mod matching;
mod members;
mod process;
mod requests;
mod tracker;

use std::fmt;

pub use assemble::Call;
pub(crate) use communicators::CommId;
pub(crate) use data::{Arrival, Asked, Data, MessageContent};
pub(crate) use follow::{CollectiveCall, KnownMessage, KnownRequest};
pub use left_over::{LeftWhat, Unfinished};
pub use tracker::{MessageEvent, MessageId, Messages};

/// A call of a thread: of those in the call table (`calls`), polls that answered no left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct CallId {
    /// Rank in MPI_COMM_WORLD.
    pub rank: u32,
    /// The thread, in the initial pid namespace.
    pub tid: u32,
    /// From 1.
    pub number: u32,
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.rank, self.tid, self.number)
    }
}
