//! Envelopes of messages: what the analysis of races needs of a run.

mod journal;
mod row;

pub use journal::{MessageJournal, PreparedOperation};
pub(crate) use row::MessageRow;
pub use row::{CallSite, CollectiveOrder, MessageEnvelope, Pattern};
