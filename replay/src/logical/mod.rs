//! Receives that take the same messages in every run, without a record: decided by logical time.
//!
//! Each rank has a logical clock: one more at each call, and at least one more than the time of each message that it has received.
//! Senders announce their messages, with the time of the send. So a wildcard receive can take the message with the smallest time,
//! once no other rank can still announce a smaller one; and a poll answers by the times of messages, not by their arrival.

mod bounds;
mod matching;
mod requests;

pub use bounds::{MAX_RANKS, RankBound, RankSet, WaitsFor, lower_bounds};
pub use matching::{Announcement, CommGroup, Decision, LogicalMatching, Poll};
pub use requests::{Completion, RequestChoice, any_complete, is_due, some_due};

/// So much later than it was sent does a poll see a message, and so much later than its start is any other request complete.
/// A poll need not wait for ranks that are less than this behind.
pub const DELAY: u64 = 10;

/// Later than all times.
pub const NEVER: u64 = u64::MAX;
