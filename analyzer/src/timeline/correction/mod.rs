//! Times as they would have been without watching: what watching cost each thread is taken out of its times, along the way of
//! each message.
//!
//! Two passes: the first learns from the tape what hits cost and how long transfers take, the second corrects.

pub mod bounds;
pub mod call_step;
mod correction_pass;
mod gather;
pub mod ledger;
pub mod orders;
pub mod phases;
pub mod prices;
pub mod solver;
pub mod summary;
pub mod transfers;
pub mod waits;

pub use correction_pass::{CorrectedTimes, CorrectionLimits, CorrectionPass, Refusal, Survey};
