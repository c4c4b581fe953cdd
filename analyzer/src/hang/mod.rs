//! Ranks that do not go on: who waits for whom, and who is at fault.
//!
//! ```text
//! threads as they were found, again and again → who has not moved → what each waits for → causes
//! ```

pub(crate) mod activity;
pub(crate) mod arguments;
pub(crate) mod call_text;
pub(crate) mod communicators;
pub(crate) mod dependency;
pub(crate) mod find;
pub(crate) mod found;
pub(crate) mod groups;
pub(crate) mod hang_analysis;
pub(crate) mod localize;
pub(crate) mod locks;
pub(crate) mod progress;
pub(crate) mod release;
pub(crate) mod step_budget;
pub(crate) mod unknown;
pub(crate) mod view;
pub(crate) mod wait_for;
pub(crate) mod waits;

#[cfg(test)]
mod large_jobs;
