//! Process facts, put in order with the records.
//!
//! What `/proc` says at a time holds after all older records: were it given out ahead of the
//! fork or exec that it is about, these would undo it.

use std::collections::VecDeque;

use analyzer::input::{Input, ProcessFacts};

use super::feed::Feed;

/// Facts that wait for older records.
#[derive(Default)]
pub(super) struct PendingFacts(VecDeque<ProcessFacts>);

impl PendingFacts {
    /// Facts are read one after the other, so they come in order of time.
    pub(super) fn add(&mut self, facts: ProcessFacts) {
        self.0.push_back(facts);
    }

    /// Passes on an input, and before it the facts that are older.
    pub(super) fn push_with(&mut self, input: Input, feed: &mut Feed) {
        if let Input::Record(record) | Input::LateRecord(record) = &input {
            self.push_until(record.time_ns(), feed);
        }
        feed.push(input);
    }

    /// Passes on the facts up to a time.
    pub(super) fn push_until(&mut self, time_ns: u64, feed: &mut Feed) {
        while let Some(facts) = self.0.pop_front_if(|facts| facts.time_ns <= time_ns) {
            feed.push(Input::Process(Box::new(facts)));
        }
    }
}
