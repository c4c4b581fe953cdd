//! A rank that takes the same messages in every run.
//!
//! The decisions are `replay::logical`'s; here is the memory that all ranks of the job share, and what a rank waits for.

mod board;
mod logical_rank;
mod question;
mod reductions;
mod stall;

pub(crate) use logical_rank::{LogicalRank, LogicalRequest};
pub(crate) use question::{CallEnvelope, LogicalQuestion};
pub(crate) use reductions::dms_orders_reductions;
